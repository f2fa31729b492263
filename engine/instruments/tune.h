// `scoria tune`: times the valid variants of the linears, experts and attentions of a model on its device,
// proves the fastest against the reference, and keeps what beats the default (tuned_variants.h).
#pragma once

#include "session.h"

#include <functional>
#include <string>
#include <vector>

namespace scoria {

struct TuneRow {
    std::string key, standard, variant;  // the size, its default, and what runs from now on
    double standard_us = 0, us = 0;      // of one dispatch
    uint32_t candidates = 0;             // that were timed
};

struct TuneOptions {
    double seconds = 60;  // after which no variant is begun; sizes not reached keep their defaults
    std::function<void(const TuneRow&)> on_row;
    std::function<void(const std::string& key, const std::string& variant, double us)>
        on_time;                  // of each candidate
    std::function<void()> pause;  // called between dispatches; may throw to stop
};

struct TuneReport {
    std::vector<TuneRow> rows;
    size_t targets = 0;  // sizes that the model has
    double seconds = 0;
    std::string path;  // of the file; empty: nothing is kept
};

/// Uploads no weight of the model. `options.tuned` and forced variants do not count. Errors: as Engine's;
/// device_lost, after which the variant that did it is quarantined.
TuneReport tune(std::shared_ptr<const Model> model, const EngineOptions& options, const TuneOptions& how);

}  // namespace scoria
