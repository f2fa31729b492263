// See tuned_variants.h. The file is tuned-KEY.json.
#include "tuned_variants.h"

#include "fail.h"
#include "file.h"
#include "log.h"
#include "pipeline_cache.h"
#include "verdicts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace scoria {
namespace {

constexpr int tuned_format = 1;
constexpr uint64_t most_bytes = 4ull << 20;  // of a file: thousands of entries
constexpr const char* precision_words[] = {"strict", "balanced", "fast"};

/// Whether the sizes alone say what an attention costs.
bool is_plain(const kernel::Attention& k) {
    return k.shape.mask == Mask::causal && k.shape.bias == PositionBias::none && !k.sinks && !k.distances &&
           !k.distance_values;
}

double work_of(const TuneTarget& target) {
    if (const auto* linear = std::get_if<LinearShape>(&target.shape))
        return double(linear->rows) * linear->cols;
    if (const auto* experts = std::get_if<ExpertShape>(&target.shape))
        return double(experts->rows) * experts->cols * experts->used;
    const AttentionShape& shape = std::get<CachedAttention>(target.shape).shape;
    return double(shape.context) * shape.heads * shape.head_dim;
}

}  // namespace

TunedBook::TunedBook(const std::string& folder, const vk::Caps& caps)
    : folder_(folder), path_(cat(folder, "/tuned-", vk::device_key(caps), ".json")), device_(caps.name),
      driver_(driver_version(caps)), entries_(read()) {}

TunedEntries TunedBook::read() const noexcept try {
    if (folder_.empty() || !std::filesystem::exists(path_of(path_))) return {};
    const auto json = nlohmann::json::parse(read_file(path_, most_bytes));
    const bool ours = json.at("format") == tuned_format && json.at("device") == device_ &&
                      json.at("driver") == driver_ && json.at("build") == kernels_build();
    return ours ? json.at("variants").get<TunedEntries>() : TunedEntries();
} catch (const std::exception& error) {
    log_once(cat("[tune] ", path_, " is ignored: ", error.what()));
    return {};
}

void TunedBook::save() noexcept try {
    if (folder_.empty()) return;
    TunedEntries all = read();
    for (const std::string& key : changed_) {
        all.erase(key);
        if (const auto mine = entries_.find(key); mine != entries_.end()) all.insert(*mine);
    }
    entries_ = std::move(all);
    const nlohmann::json json = {{"format", tuned_format},
                                 {"device", device_},
                                 {"driver", driver_},
                                 {"build", kernels_build()},
                                 {"variants", entries_}};
    const std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    make_folders(folder_);
    write_file_atomic(path_, std::as_bytes(std::span(text)));
    changed_.clear();
} catch (const std::exception& error) {
    log_once(cat("[tune] what was found is not kept: ", error.what()));
}

std::string TuneTarget::key() const {
    if (const auto* s = std::get_if<LinearShape>(&shape))
        return cat("linear ", linear_of(s->type), " ", s->rows, "x", s->cols, " tokens ", s->tokens, " ",
                   precision_words[size_t(s->precision)]);
    if (const auto* s = std::get_if<ExpertShape>(&shape))
        return cat(op_name(*s), " ", linear_of(s->type), " ", s->used, "/", s->experts, " of ", s->rows, "x",
                   s->cols, s->per_slot ? " per slot" : "", " tokens ", s->tokens, " ",
                   precision_words[size_t(s->precision)]);
    const auto& [s, kv] = std::get<CachedAttention>(shape);
    return cat("attention ", attention_of(s.head_dim, kv), " heads ", s.heads, "/", s.kv_heads, " context ",
               s.context, " tokens ", s.tokens, " ", precision_words[size_t(s.precision)]);
}

std::vector<TuneTarget> tune_targets(const Plan& plan, const Graph& graph, const Choices& choices,
                                     const UseLimits& limits) {
    std::vector<TuneTarget> targets;
    const auto add = [&](size_t kernel, uint32_t most, const auto& shape_at) {
        for (uint32_t tokens = 1;; tokens *= 2) {
            const uint32_t wanted = std::min(tokens, most);
            TuneTarget target{kernel, wanted, tuned_shape(shape_at(wanted))};
            const bool known = std::ranges::any_of(
                targets, [&](const TuneTarget& other) { return other.shape == target.shape; });
            // The largest batch that a size stands for is the one to be timed.
            if (!known &&
                (wanted == most || tuned_shape(shape_at(wanted)) != tuned_shape(shape_at(wanted + 1))))
                targets.push_back(target);
            if (wanted == most) return;
        }
    };
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
        const auto rows = [&](TensorId out) {
            return graph.tensors[out.index].rows == RowKind::outputs ? limits.layout.outputs
                                                                     : limits.layout.tokens;
        };
        if (const auto* k = std::get_if<kernel::Linear>(&plan.kernels[i].kernel)) {
            const WeightGroup& w = plan.weight_groups[k->weight];
            add(i, rows(k->out), [&](uint32_t tokens) {
                return LinearShape{tokens, w.rows, w.cols, w.type, choices.precision};
            });
        } else if (const auto* e = std::get_if<kernel::ExpertLinear>(&plan.kernels[i].kernel)) {
            add(i, rows(e->out), [&](uint32_t tokens) {
                ExpertShape shape = expert_shape(plan, graph, *e, tokens);
                shape.precision = choices.precision;
                return shape;
            });
        } else if (const auto* a = std::get_if<kernel::Attention>(&plan.kernels[i].kernel)) {
            if (is_plain(*a))
                add(i, rows(a->out), [&](uint32_t tokens) {
                    CachedAttention attention{attention_shape(a->shape, tokens, limits.positions), limits.kv};
                    attention.shape.precision = choices.precision;
                    return attention;
                });
        }
    }
    const uint32_t most = limits.layout.tokens;
    std::ranges::stable_sort(targets, [&](const TuneTarget& a, const TuneTarget& b) {
        const auto rank = [&](uint32_t tokens) {
            return tokens == 1 ? 0u : 1 + most - std::min(tokens, most);
        };
        return std::pair(rank(a.tokens), -work_of(a)) < std::pair(rank(b.tokens), -work_of(b));
    });
    return targets;
}

void use_tuned(Choices& choices, const vk::Caps& caps, const std::vector<TuneTarget>& targets,
               const TunedEntries& entries) {
    for (const TuneTarget& target : targets) {
        const auto entry = entries.find(target.key());
        if (entry == entries.end()) continue;
        if (const auto* linear = std::get_if<LinearShape>(&target.shape)) {
            for (const LinearVariant& variant : linear_candidates(caps, *linear))
                if (variant.name == entry->second) choices.tuned_linear.insert_or_assign(*linear, variant);
        } else if (const auto* experts = std::get_if<ExpertShape>(&target.shape)) {
            for (const LinearVariant& variant : expert_candidates(caps, *experts))
                if (variant.name == entry->second) choices.tuned_experts.insert_or_assign(*experts, variant);
        } else {
            const auto& attention = std::get<CachedAttention>(target.shape);
            for (const AttentionVariant& variant : attention_candidates(caps, attention.shape))
                if (attention_text(variant) == entry->second)
                    choices.tuned_attention.insert_or_assign(attention, variant);
        }
    }
}

}  // namespace scoria
