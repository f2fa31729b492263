// See variant_uses.h.
#include "variant_uses.h"

#include "fail.h"

#include <algorithm>

namespace scoria {
namespace {

/// Where variants may change with the batch: at powers of two, and at whole tiles of up to 128 tokens.
std::vector<uint32_t> batch_sizes(uint32_t most) {
    std::vector<uint32_t> sizes{1, most};
    for (uint64_t power = 1; power < most; power *= 2)
        for (const uint64_t size : {power, power + 1})
            if (size < most) sizes.push_back(uint32_t(size));
    constexpr uint32_t least_tile = 32, largest_choice = 1024;
    for (uint32_t size = least_tile; size < std::min(most, largest_choice); size += least_tile)
        sizes.push_back(size);
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

template <class Variant> std::vector<std::string> names_of(const std::vector<Variant>& variants) {
    std::vector<std::string> names;
    for (const Variant& variant : variants) names.emplace_back(variant.name);
    return names;
}

class Uses {
  public:
    Uses(const Plan& plan, const Graph& graph, const Architecture& architecture, const vk::Caps& caps,
         const Choices& choices, const UseLimits& limits)
        : plan_(plan), graph_(graph), architecture_(architecture), caps_(caps), choices_(choices),
          limits_(limits) {}

    void simple(SimpleOp op, size_t kernel, TensorId out, const std::string& shape,
                const std::string& of = {}) {
        // Their shaders know no batch but as a count of rows: some of them tell.
        constexpr uint32_t telling = 33;
        const KernelVariant chosen = choices_.simple(caps_, op, of);
        add({op_name(op), of, names_of(simple_variants(caps_, op)), std::string(chosen.name), chosen.shader,
             cat(shape, " cols ", graph_.tensors[out.index].cols), kernel, std::min(rows(out), telling)});
    }
    void operator()(size_t i, const kernel::Linear& k) {
        const WeightGroup& weight = plan_.weight_groups[k.weight];
        for (const uint32_t tokens : batch_sizes(rows(k.out))) {
            const LinearShape shape{tokens, weight.rows, weight.cols, weight.type};
            const LinearVariant chosen = choices_.linear(caps_, shape);
            add({"linear", linear_of(weight.type), names_of(choices_.linear_variants(caps_, shape)),
                 chosen.name, chosen.shader,
                 cat("rows ", weight.rows, " cols ", weight.cols, k.glu ? " glu" : "", k.bias ? " bias" : "",
                     k.residual ? " residual" : "", k.norm && chosen.folds_norm(tokens) ? " norm" : "",
                     k.heads ? heads_text(*k.heads, chosen) : "",
                     k.activation ? cat(" activation ", int(*k.activation)) : ""),
                 i, tokens});
        }
    }
    void operator()(size_t i, const kernel::Attention& k) {
        for (const uint32_t tokens : batch_sizes(rows(k.out))) {
            const AttentionShape shape = attention_shape(k.shape, tokens, limits_.positions);
            const AttentionVariant chosen = choices_.attention(caps_, shape, limits_.kv);
            add({"attention", attention_of(k.shape.head_dim, limits_.kv),
                 names_of(choices_.attention_variants(caps_, shape)), std::string(chosen.name), chosen.shader,
                 cat("heads ", k.shape.heads, "/", k.shape.kv_heads, " queries ", chosen.queries,
                     tokens == 1 ? " one token" : "", chosen.splits > 1 ? " split" : "", " mask ",
                     int(k.shape.mask), " bias ", int(k.shape.bias),
                     k.shape.window ? cat(" window ", k.shape.window) : "",
                     k.shape.soft_cap > 0 ? " capped" : "", k.sinks ? " sinks" : "",
                     k.shape.distance_values ? " values" : "", k.shape.latent.kv_rank ? " latent" : ""),
                 i, tokens});
        }
    }
    void operator()(size_t i, const kernel::Embed& k) {
        const WeightGroup& table = plan_.weight_groups[k.table];
        simple(SimpleOp::embed, i, k.out, cat("rows ", table.rows), linear_of(table.type));
    }
    void operator()(size_t i, const kernel::Norm& k) {
        simple(SimpleOp::norm, i, k.out,
               cat(norm_kind_names[size_t(k.kind)], " group ", k.group, k.bias ? " bias" : "",
                   k.own_weights ? " own weights" : ""));
    }
    void operator()(size_t i, const kernel::RopeCache& k) {
        simple(SimpleOp::rope_cache, i, k.q,
               cat("heads ", k.shape.heads, "/", k.with_kv ? k.shape.kv_heads : 0, " dim ", k.shape.head_dim,
                   " rope ", k.shape.rope, k.q_norm ? " normed" : "", k.norm_after ? " after" : "",
                   k.shape.rope < 0                                                       ? ""
                   : architecture_.ropes[size_t(k.shape.rope)].pairs == RopePairs::halves ? " halves "
                                                                                          : " interleaved ",
                   k.shape.rope < 0 ? 0 : architecture_.ropes[size_t(k.shape.rope)].width),
               kv_type_names[size_t(limits_.kv)]);
    }
    void operator()(size_t i, const kernel::Glu& k) {
        simple(SimpleOp::glu, i, k.out,
               cat("activation ", int(k.activation), k.clamp.limit > 0 ? " clamped" : ""));
    }
    void operator()(size_t i, const kernel::Add& k) { simple(SimpleOp::add, i, k.out, "sum"); }
    void operator()(size_t i, const kernel::Gate& k) { simple(SimpleOp::gate, i, k.out, "gate"); }
    void operator()(size_t i, const kernel::Pack& k) {
        simple(SimpleOp::pack, i, k.out, cat("heads ", k.heads));
    }
    void operator()(size_t i, const kernel::Mix& k) {
        simple(SimpleOp::mix, i, k.out, cat("width ", k.width, k.factors ? " by factors" : ""));
    }
    void operator()(size_t i, const kernel::Select& k) { simple(SimpleOp::select, i, k.out, "rows"); }
    void operator()(size_t i, const kernel::Map& k) {
        simple(SimpleOp::map, i, k.out, cat("kind ", int(k.kind), " activation ", int(k.activation)));
    }
    void operator()(size_t i, const kernel::Route& k) {
        simple(SimpleOp::route, i, k.out, cat("experts ", graph_.tensors[k.scores.index].cols));
    }
    void operator()(size_t i, const kernel::ExpertLinear& k) {
        for (const uint32_t tokens : batch_sizes(rows(k.out))) {
            const ExpertShape shape = expert_shape(plan_, graph_, k, tokens);
            const LinearVariant chosen = choices_.experts(caps_, shape);
            add({op_name(shape), linear_of(shape.type), names_of(choices_.expert_variants(caps_, shape)),
                 chosen.name, chosen.shader,
                 cat("rows ", shape.rows, " cols ", shape.cols, " experts ", shape.used, "/", shape.experts,
                     shape.per_slot ? " per slot" : "", k.bias ? " bias" : "",
                     k.glu ? cat(" glu activation ", int(*k.glu)) : std::string()),
                 i, tokens});
        }
    }
    void operator()(size_t i, const kernel::Hash& k) {
        simple(SimpleOp::hash, i, k.out, cat("heads ", k.shape.heads, " dim ", k.shape.head_dim));
    }
    void operator()(size_t i, const kernel::Sort& k) {
        simple(SimpleOp::sort, i, k.out, cat("below ", k.below));
    }
    void operator()(size_t i, const kernel::ChunkAttention& k) {
        simple(SimpleOp::chunk_attention, i, k.out,
               cat("heads ", k.shape.heads, " dim ", k.shape.head_dim, k.sorted ? " sorted" : ""));
    }
    void operator()(size_t i, const kernel::Choose& k) {
        simple(SimpleOp::choose, i, k.out,
               cat("heads ", k.shape.heads, " dim ", k.shape.head_dim, " top ", k.shape.indexer.top));
    }
    void operator()(size_t i, const kernel::Convolve& k) {
        simple(SimpleOp::convolve, i, k.out, cat("channels ", k.shape.channels(), " taps ", k.shape.taps));
    }
    void operator()(size_t i, const kernel::Scan& k) {
        const Recurrence& shape = k.op.shape;
        simple(SimpleOp::scan, i, k.op.out,
               cat("kind ", int(shape.kind), " heads ", shape.heads, "/", shape.groups, " state ",
                   shape.key_dim, " x ", shape.value_dim));
    }
    void operator()(size_t i, const kernel::Shift& k) {
        simple(SimpleOp::shift, i, k.op.out, cat("channels ", k.op.shape.width));
    }
    void operator()(size_t i, const kernel::Wkv& k) {
        simple(SimpleOp::wkv, i, k.op.out, cat("heads ", k.op.shape.heads, " of ", k.op.shape.key_dim));
    }
    void operator()(size_t i, const kernel::ExpertSum& k) {
        simple(SimpleOp::expert_sum, i, k.out, cat("used ", k.used));
    }
    std::vector<VariantUse> take() { return std::move(uses_); }

  private:
    /// Of a linear that may end so.
    std::string heads_text(size_t kernel, const LinearVariant& variant) const {
        const auto& rope = std::get<kernel::RopeCache>(plan_.kernels[kernel].kernel);
        if (!ends_heads(variant, rope_shape(rope, architecture_, limits_.kv))) return {};
        return cat(" heads ", rope.shape.heads, "/", rope.shape.kv_heads, " ",
                   kv_type_names[size_t(limits_.kv)]);
    }
    uint32_t rows(TensorId tensor) const {
        return graph_.tensors[tensor.index].rows == RowKind::outputs ? limits_.layout.outputs
                                                                     : limits_.layout.tokens;
    }
    void add(VariantUse use) {
        const auto same = std::ranges::find_if(uses_, [&](const VariantUse& other) {
            return other.op == use.op && other.chosen == use.chosen && other.of == use.of &&
                   other.shape == use.shape;
        });
        if (same == uses_.end()) {
            uses_.push_back(std::move(use));
            return;
        }
        same->tokens = std::max(same->tokens, use.tokens);
        for (std::string& name : use.names)
            if (std::ranges::find(same->names, name) == same->names.end())
                same->names.push_back(std::move(name));
    }

    const Plan& plan_;
    const Graph& graph_;
    const Architecture& architecture_;
    const vk::Caps& caps_;
    const Choices& choices_;
    const UseLimits& limits_;
    std::vector<VariantUse> uses_;
};

void list_once(std::string& list, std::string_view item) {
    const std::string quoted = cat("'", item, "'");
    if (list.find(quoted) == std::string::npos) list += cat(list.empty() ? "" : ", ", quoted);
}

}  // namespace

std::vector<VariantUse> variant_uses(const Plan& plan, const Graph& graph, const Architecture& architecture,
                                     const vk::Caps& caps, const Choices& choices, const UseLimits& limits) {
    Uses uses(plan, graph, architecture, caps, choices, limits);
    for (size_t i = 0; i < plan.kernels.size(); ++i)
        std::visit([&](const auto& k) { uses(i, k); }, plan.kernels[i].kernel);
    if (architecture.memory.segment)
        uses.simple(SimpleOp::compress, plan.kernels.size(), graph.logits, "memory",
                    kv_type_names[size_t(limits.kv)]);
    const bool has_head = plan.placements[graph.logits.index].storage != UINT32_MAX;
    if (has_head && (!architecture.encoder.empty() || !architecture.sees_ahead()))
        uses.simple(SimpleOp::sample, plan.kernels.size(), graph.logits, "greedy or not");
    std::vector<VariantUse> all = uses.take();
    for (VariantUse& use : all) use.shape += cat(" tokens ", use.tokens);
    return all;
}

std::map<std::string, std::string, std::less<>> forced_variants(std::span<const std::string> texts,
                                                                std::span<const VariantUse> uses,
                                                                const std::string& device) {
    std::map<std::string, std::string, std::less<>> forced;
    for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        const std::string op = text.substr(0, equals);
        if (equals == std::string::npos || equals + 1 == text.size())
            fail(Status::bad_argument, "variant", "expected OP=NAME, got '", text, "'");
        const std::string name = text.substr(equals + 1);
        std::string ops, names;
        bool found = false;
        for (const VariantUse& use : uses) {
            list_once(ops, use.op);
            if (use.op != op) continue;
            for (const std::string& offered : use.names) {
                list_once(names, offered);
                found = found || names_variant(name, offered);
            }
        }
        if (names.empty())
            fail(Status::bad_argument, "variant", "expected an op that this model has, one of ", ops,
                 ", got '", op, "'");
        if (!found)
            fail(Status::bad_argument, "variant", "expected ", op, "= the first words of one of ", names,
                 " (what this model has on ", device, "), got '", name, "'");
        if (!forced.emplace(op, name).second)
            fail(Status::bad_argument, "variant", "expected one variant of ", op, ", got two");
    }
    return forced;
}

}  // namespace scoria
