// See hash_rotations.h.
#include "hash_rotations.h"

#include "binding.h"
#include "fail.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

namespace scoria {
namespace {

/// A model's tensors but one.
class WithRotations final : public TensorSource {
  public:
    WithRotations(std::shared_ptr<const TensorSource> base, std::vector<float> values)
        : base_(std::move(base)), values_(std::move(values)) {}
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        if (tensor.name != name) return base_->read(tensor, first, out);
        const auto bytes = std::as_bytes(std::span(values_));
        if (first > bytes.size() || out.size() > bytes.size() - first)
            fail(Status::bad_argument, "tensor", name, ": expected a range inside ", bytes.size(),
                 " bytes, got ", out.size(), " at ", first);
        if (!out.empty()) std::memcpy(out.data(), bytes.data() + first, out.size());
    }
    static constexpr const char* name = "(given rotations)";  // no file's

  private:
    std::shared_ptr<const TensorSource> base_;
    std::vector<float> values_;
};

}  // namespace

std::vector<float> torch_normals(uint32_t seed, size_t count) {
    constexpr size_t block = 16;
    std::mt19937 generator(seed);
    std::vector<float> values(std::max(count, block));
    const auto draw = [&](std::span<float> part) {
        for (float& value : part) value = static_cast<float>(generator() & 0xFFFFFF) * 0x1p-24f;
    };
    const auto transform = [&](std::span<float> part) {
        for (size_t i = 0; i < block / 2; ++i) {
            const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(part[i])));
            const double angle = 2 * std::numbers::pi * static_cast<double>(part[i + block / 2]);
            part[i] = static_cast<float>(radius * std::cos(angle));
            part[i + block / 2] = static_cast<float>(radius * std::sin(angle));
        }
    };
    draw(values);
    const size_t whole = values.size() / block * block;
    for (size_t first = 0; first < whole; first += block) transform(std::span(values).subspan(first, block));
    if (whole != values.size()) {  // the last 16 are drawn anew
        draw(std::span(values).last(block));
        transform(std::span(values).last(block));
    }
    values.resize(count);
    return values;
}

void set_rotations(Model& model, std::span<const uint64_t> shape, std::vector<float> values) {
    const auto found = model.weights.find({Role::hash_rotations});
    if (found == model.weights.end())
        fail(Status::unsupported, "rotations", "expected a model that hashes, got ",
             model.architecture.family);
    for (const Layer& layer : model.architecture.layers) {
        const Attention& attention = layer.attention;
        if (attention.chunks.rounds == 0) continue;
        const std::vector<uint64_t> expected{attention.heads, attention.head_dim, attention.chunks.rounds,
                                             attention.chunks.rotated()};
        if (!std::ranges::equal(shape, expected) || values.size() != found->second.cols)
            fail(Status::bad_argument, "rotations", "expected ", shape_text(expected), ", got ",
                 shape_text(shape));
    }
    found->second = {WithRotations::name, TensorType::f32, 1, found->second.cols};
    model.tensors = std::make_shared<WithRotations>(model.tensors, std::move(values));
}

}  // namespace scoria
