// Flags of speculation (engine/speculation.h), and the draft model that they load.
#pragma once

#include "common.h"
#include "speculation.h"

#include <optional>

namespace scoria::cli {

struct SpeculationFlags {
    bool lookup = false;
    std::optional<std::string> mtp;      // as -m; empty: the model itself
    std::string draft;                   // as -m; empty: none
    uint32_t draft_tokens = 0;           // 0: the engine's default
    std::shared_ptr<const Model> model;  // that guesses
    std::shared_ptr<Proposer> proposer;

    /// For EngineOptions::shows.
    std::vector<uint32_t> takes() const {
        return model ? model->architecture.takes : std::vector<uint32_t>();
    }
    void apply(GenerateOptions& options) const {
        options.proposer = proposer.get();
        options.draft_tokens = draft_tokens;
    }
};

void add_speculation_flags(CLI::App& app, SpeculationFlags& flags);
/// Errors: bad_argument, for the length of guesses where nothing guesses.
void check_speculation_flags(const CLI::App& app);

/// Opens the model that guesses, if the flags name one, for `target`.
void open_draft(SpeculationFlags& flags, const std::shared_ptr<const Model>& target, const Common& common);
/// Makes the proposer that the flags ask for, beside the engine of the model itself.
void load_proposer(SpeculationFlags& flags, const Engine& engine, const Common& common);

/// "12 of 40 guessed tokens came true".
std::string speculation_text(uint32_t proposed, uint32_t accepted);

}  // namespace scoria::cli
