// One function per op; each runs its cases on every variant the device supports and appends results.
#pragma once

#include "check.h"

namespace scoria::validate {

void check_linear(CheckContext& context);
void check_embed(CheckContext& context);
void check_norm(CheckContext& context);
void check_rope_cache(CheckContext& context);
void check_attention(CheckContext& context);
void check_compress(CheckContext& context);
void check_chunk_attention(CheckContext& context);
void check_glu(CheckContext& context);
void check_add(CheckContext& context);
void check_gate(CheckContext& context);
void check_pack(CheckContext& context);
void check_map(CheckContext& context);
void check_experts(CheckContext& context);
void check_select(CheckContext& context);
void check_sample(CheckContext& context);

}  // namespace scoria::validate
