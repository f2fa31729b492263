// Push constants and specialization constants of convolve.comp, shift.comp, scan.comp and wkv.comp, and where
// a sequence's states stand.
#ifndef SCORIA_RECURRENCE_PUSH_H
#define SCORIA_RECURRENCE_PUSH_H

// A batch has pieces: tokens of one sequence each, one after the other. A layer has slots of states for every
// sequence, by turns: a piece whose first token is at position p reads slot (p + shift) mod STATE_SLOTS of
// its sequence, and writes the next one. So it may be computed again, and few single tokens be taken back. At
// position 0 nothing is read: it is all zero.
#define STATE_SLOTS 3

// The step buffer, from word `pieces_word` on: of each piece these words; where there are several, then of
// each token the piece that it is of.
#define PIECE_FIRST 0  // its first token
#define PIECE_TOKENS 1
#define PIECE_SEQUENCE 2
#define PIECE_SHIFT 3
#define PIECE_WORDS 4

// 0 workgroup size
#define CONVOLVE_ACTIVATION 1  // numerics.glsl
#define CONVOLVE_TAPS 2
#define CONVOLVE_ROWS 16  // of a lane
// of scan.comp 1: logical subgroup size; of wkv.comp the next two alone
#define SCAN_PARTS 2      // of the keys, each taken by a lane of its own; they divide the workgroup
#define SCAN_KEYS 3       // of a part
#define SCAN_DELTA 4      // else a state space
#define SCAN_BY_COLUMN 5  // steps, biases and skips are of a column, and decays of a cell; one head
#define SCAN_BY_KEY 6     // steps are of a head's keys, behind softplus or to be bounded; no biases and skips
#define SCAN_BOUNDED 2    // of SCAN_BY_KEY: by ScanPush::bound
#define SCAN_WHOLE 7      // all parts have SCAN_KEYS keys
#define SCAN_FIXED 8      // of a state space: d is 1, and there are no steps, biases and skips

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct ConvolvePush {
    uint pieces, pieces_word;
    uint sequence_words, slot_words;  // words between sequences, and between slots
    uint tokens, channels;
    uint has_bias;
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
};

struct ShiftPush {
    uint pieces, pieces_word;
    uint sequence_words, slot_words;  // as above
    uint state_first;
    uint tokens, cols;
    uint mixes;                  // of x, side by side in the result
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
};

struct ScanPush {
    uint pieces, pieces_word;
    uint sequence_words, slot_words;  // words between sequences, and between slots
    uint heads, groups;
    uint key_dim, value_dim;
    uint tiled;  // head h is of group h mod groups, else of h / (heads / groups)
    uint state_first;
    uint q_first, k_first, qk_stride;  // words, as in Matrix
    uint v_first, v_stride;            // likewise
    uint step_first, step_stride;      // likewise
    uint beta_first, beta_stride;      // likewise
    uint out_first, out_stride;        // likewise
    float q_scale, k_scale;
    float bound;
};

#ifdef __cplusplus
}
#endif
#endif
