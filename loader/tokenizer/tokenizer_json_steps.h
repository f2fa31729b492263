// The parts of tokenizer.json that are lists of steps.
#pragma once

#include "tokenizer/json.h"
#include "tokenizer/pipeline.h"

namespace scoria {

constexpr std::string_view tokenizer_json = "tokenizer.json";

// Each appends the steps of a part, which may be null. Errors: bad_file; unsupported, naming the type.
void read_normalizer(const nlohmann::json& json, std::vector<NormalizerStep>& out);
void read_pre_tokenizer(const nlohmann::json& json, std::vector<PreTokenizerStep>& out);
void read_decoder(const nlohmann::json& json, std::vector<DecoderStep>& out);
/// Sets the frames.
void read_post_processor(const nlohmann::json& json, Pipeline& out);

}  // namespace scoria
