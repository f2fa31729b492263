// Where a batch finds what a layer remembers, and where it leaves it: see recurrence.push.h.
#ifndef SCORIA_RECURRENCE_GLSL
#define SCORIA_RECURRENCE_GLSL
#include "recurrence.push.h"
#include "step.h"

layout(binding = 0) readonly buffer Step { uint step_words[]; };

uint first_position() { return step_words[STEP_TOKENS + STEP_TOKEN_POSITION]; }
uint state_slot(uint later) {
    return (first_position() % STATE_SLOTS + step_words[STEP_STATE_SHIFT] % STATE_SLOTS + later) % STATE_SLOTS;
}

#endif
