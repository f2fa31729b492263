#include "weight_check.h"

#include "role_shapes.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>

namespace scoria::test {

void check_weights(const Model& model) {
    size_t wanted = 0;
    const auto check_stack = [&](const Architecture& stack, bool encoder) {
        for (const RoleRule& rule : role_rules()) {
            const size_t count = rule.of_layer ? stack.layers.size() : 1;
            for (size_t i = 0; i < count; ++i) {
                const RoleShape shape = rule.shape(stack, stack.layers[i], i);
                if (shape.rows == 0) continue;
                ++wanted;
                const WeightRef ref{rule.role, rule.of_layer ? static_cast<int32_t>(i) : -1, encoder};
                CAPTURE(role_name(ref.role));
                CAPTURE(ref.layer);
                const auto found = model.weights.find(ref);
                REQUIRE(found != model.weights.end());
                CHECK(found->second.rows == shape.rows);
                CHECK(found->second.cols == shape.cols);
                std::vector<std::byte> bytes(found->second.bytes());
                model.tensors->read(found->second, 0, bytes);
            }
        }
    };
    check_stack(model.architecture, false);
    for (const Architecture& encoder : model.architecture.encoder) check_stack(encoder, true);
    CHECK(model.weights.size() == wanted);
}

std::vector<float> floats_of(const Model& model, WeightRef ref) {
    const TensorView& view = model.weights.at(ref);
    std::vector<std::byte> bytes(view.bytes());
    model.tensors->read(view, 0, bytes);
    std::vector<float> floats(size_t{view.rows} * view.cols);
    REQUIRE((view.type == TensorType::f32 || view.type == TensorType::bf16));
    for (size_t i = 0; i < floats.size(); ++i) {
        if (view.type == TensorType::f32) {
            std::memcpy(&floats[i], bytes.data() + 4 * i, 4);
            continue;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + 2 * i, 2);
        floats[i] = std::bit_cast<float>(uint32_t{bits} << 16);
    }
    return floats;
}

}  // namespace scoria::test
