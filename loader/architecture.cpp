// Tables of tensor types and role names.
#include "architecture.h"

#include <array>

namespace scoria {
namespace {

constexpr std::array<TensorTypeInfo, 8> types = {{
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::bf16, "BF16", 1, 2},
    {TensorType::q4_0, "Q4_0", 32, 18},  // f16 scale, 16 bytes of nibbles
    {TensorType::q4_1, "Q4_1", 32, 20},  // f16 scale and minimum, 16 bytes of nibbles
    {TensorType::q5_0, "Q5_0", 32, 22},  // f16 scale, 4 bytes of fifth bits, 16 bytes of nibbles
    {TensorType::q5_1, "Q5_1", 32, 24},  // f16 scale and minimum, 4 bytes of fifth bits, 16 bytes of nibbles
    {TensorType::q8_0, "Q8_0", 32, 34},  // f16 scale, 32 signed bytes
}};

}  // namespace

const TensorTypeInfo* tensor_type_info(uint32_t gguf_type) {
    for (const TensorTypeInfo& info : types) {
        if (static_cast<uint32_t>(info.type) == gguf_type) return &info;
    }
    return nullptr;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
    return *tensor_type_info(static_cast<uint32_t>(type));
}

uint64_t TensorView::row_bytes() const {
    const TensorTypeInfo& info = tensor_type_info(type);
    return uint64_t{cols} / info.block * info.block_bytes;
}

const char* role_name(Role role) {
    switch (role) {
    case Role::token_embedding:
        return "token_embedding";
    case Role::output_norm:
        return "output_norm";
    case Role::output:
        return "output";
    case Role::attention_norm:
        return "attention_norm";
    case Role::q:
        return "q";
    case Role::k:
        return "k";
    case Role::v:
        return "v";
    case Role::o:
        return "o";
    case Role::q_bias:
        return "q_bias";
    case Role::k_bias:
        return "k_bias";
    case Role::v_bias:
        return "v_bias";
    case Role::o_bias:
        return "o_bias";
    case Role::q_norm:
        return "q_norm";
    case Role::k_norm:
        return "k_norm";
    case Role::feed_forward_norm:
        return "feed_forward_norm";
    case Role::gate:
        return "gate";
    case Role::up:
        return "up";
    case Role::down:
        return "down";
    }
    return "?";
}

}  // namespace scoria
