// run --prompts: the answers to many prompts, several at a time.
#pragma once

#include "common.h"
#include "generation.h"

#include <nlohmann/json_fwd.hpp>

namespace scoria::cli {

/// How a prompt's text becomes tokens.
struct PromptForm {
    std::string system;  // message; empty: the template's own
    bool raw = false;    // the text itself, without the chat template
    std::string begin;   // of the answer, control tokens by their names; empty: what the model says
    std::string from;    // token of a translator's language; empty: what the tokenizer says
};

/// With the form's beginning, where it is an encoder-decoder. Errors: as load_model; bad_argument.
std::shared_ptr<const Model> load_model(const Common& common, const PromptForm& form);

/// Errors: unsupported.
std::vector<TokenId> prompt_ids(const Model& model, const std::string& text, const PromptForm& form);
/// Says on stderr what a user of a model without a chat template may not know.
void note_form(const Model& model, const PromptForm& form);

nlohmann::json logprobs_json(std::span<const TokenLogprobs> logprobs, const Tokenizer& tokenizer);

struct ManyPrompts {
    std::string file;       // a prompt per line, as text or as a JSON string; empty lines are none
    uint32_t parallel = 8;  // answers at a time
};

/// Writes a line of JSON per prompt, as answers end: {"line", "text", "stop", "tokens", "seed"}, or "error".
/// Returns the exit code: 1 if there were errors. Errors: cancelled, once those that are begun have ended.
int run_many(const ManyPrompts& prompts, const PromptForm& form, const GenerationFlags& flags,
             const Common& common);

}  // namespace scoria::cli
