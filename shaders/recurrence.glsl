// Where a piece of a batch finds what a layer remembers, and where it leaves it: see recurrence.push.h. Include it
// behind `push`.
#ifndef SCORIA_RECURRENCE_GLSL
#define SCORIA_RECURRENCE_GLSL
#include "recurrence.push.h"
#include "step.h"

layout(binding = 0) readonly buffer Step { uint step_words[]; };

uint piece_of(const uint token) {
    return push.pieces == 1 ? 0 : step_words[push.pieces_word + push.pieces * PIECE_WORDS + token];
}

struct Piece {
    uint first, tokens;
    bool begins;                // its sequence: nothing is remembered
    uint remembered, remember;  // words of the states where the slots begin that it reads, and writes
};
Piece piece_at(const uint index) {
    const uint word = push.pieces_word + index * PIECE_WORDS, first = step_words[word + PIECE_FIRST];
    const uint position = step_words[STEP_TOKENS + first * STEP_TOKEN_WORDS + STEP_TOKEN_POSITION];
    const uint slot = (position % STATE_SLOTS + step_words[word + PIECE_SHIFT]) % STATE_SLOTS;
    const uint sequence = step_words[word + PIECE_SEQUENCE] * push.sequence_words;
    return Piece(first, step_words[word + PIECE_TOKENS], position == 0, sequence + slot * push.slot_words,
                 sequence + (slot + 1) % STATE_SLOTS * push.slot_words);
}

#endif
