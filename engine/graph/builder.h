// What the parts of build_graph share: the graph as far as it is made, the place in the model for which it is
// being made, and the ops that many of them add.
#pragma once

#include "graph.h"

#include <set>
#include <span>
#include <string_view>

namespace scoria {

/// What the output of a norm is called, and the roles of its weight and its bias.
struct NormRoles {
    const char* name;
    Role weight, bias = weight;  // the weight's, of norms that have no bias
};

/// One of several linears that read the same x.
struct Projection {
    const char* name;
    uint32_t cols;
    Role role;
    bool has_bias = false;
    Role bias = role;
};

/// Functions that return a tensor add the ops that make it. Names are without the layer's.
struct GraphBuilder {
    const Architecture& model;
    const Architecture* stack = &model;         // for which ops are added: the model, or its encoder
    int32_t layer = -1;                         // of the stack; -1: outside of its layers
    Graph made = {};                            // so far
    std::set<WeightRef> adapters = {};          // that were used, of Architecture::adapters
    std::optional<TensorId> chosen = {};        // the keys that the last indexer chose
    std::optional<TensorId> first_values = {};  // v of the first layer of wkv

    bool in_encoder() const { return stack != &model; }
    const GraphTensor& at(TensorId id) const { return made.tensors[id.index]; }
    /// The weight of `role` in the layer being built; outside the layers, the stack's own.
    WeightRef weight(Role role) const {
        const int32_t own = layer < 0 ? layer : layer % int32_t(stack->own_layers());
        return {role, own, in_encoder()};
    }
    std::optional<WeightRef> optional(bool present, Role role) const {
        return present ? std::optional(weight(role)) : std::nullopt;
    }
    /// Where the layer's keys and values, or its state, are cached.
    uint32_t slot() const;

    TensorId tensor(std::string_view name, uint32_t cols, RowKind rows = RowKind::tokens);
    /// A tensor shaped as `like`.
    TensorId tensor_like(std::string_view name, TensorId like);
    /// Adds an op and returns what it makes.
    TensorId emit(const Op& op);

    TensorId norm(const Norm& kind, const NormRoles& roles, TensorId x, uint32_t group, uint32_t weights);
    /// The stack's norm, of whole rows.
    TensorId norm(const NormRoles& roles, TensorId x);
    /// With what adapters of the weight add.
    TensorId linear(std::string_view name, TensorId x, uint32_t cols, Role role,
                    std::optional<WeightRef> bias = std::nullopt);
    /// Linears of one x side by side, then the adapters of each.
    std::vector<TensorId> projected(TensorId x, std::span<const Projection> all);
    /// Without adapters.
    TensorId bare_linear(std::string_view name, TensorId x, uint32_t cols, Role role,
                         std::optional<WeightRef> bias = std::nullopt);
    /// y of x plus what the adapters of the weight add to it, if it has any.
    TensorId adapted(TensorId y, TensorId x, Role role);
    TensorId map(std::string_view name, TensorId x, MapKind kind, float value,
                 Activation activation = Activation::identity);
    TensorId scaled(std::string_view name, TensorId x, float factor);
    TensorId add(std::string_view name, TensorId a, TensorId b, float scale = 1);
    /// x itself, if the shape does not rotate.
    TensorId rope(std::string_view name, TensorId x, const Attention& shape, uint32_t heads, bool queries);
    TensorId columns(std::string_view name, TensorId x, uint32_t first, uint32_t count);
    TensorId side_by_side(std::string_view name, TensorId a, TensorId b);
};

}  // namespace scoria
