// The row of logits that a workgroup samples: its slot of the step buffer, its sequence's state, its scratch.
#ifndef SCORIA_SAMPLE_ROWS_GLSL
#define SCORIA_SAMPLE_ROWS_GLSL

uint from_slot, to_slot, sampler_base, scratch_base;

// Whether there is such a row.
bool enter_row(const uint row) {
    const bool listed = push.outputs_word != SAMPLE_ONE;
    if (row >= push.rows || (listed && row >= step_words[STEP_OUTPUT_COUNT])) return false;
    from_slot = listed ? step_words[push.outputs_word + row] : push.from_slot;
    to_slot = listed ? from_slot : push.to_slot;
    sampler_base = step_words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_SAMPLER] * push.sampler_words;
    scratch_base = row * (push.blocks * SAMPLE_PARTIAL_WORDS + push.vocab);
    return true;
}

#endif
