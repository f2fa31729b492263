// See gguf_scales.h.
#include "gguf_scales.h"

#include "binding.h"
#include "fail.h"
#include "gguf_families.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace scoria {
namespace {

/// "blk.#.x" of "blk.3.x".
std::string pattern_of(const std::string& name) {
    constexpr std::string_view layers = "blk.";
    if (!name.starts_with(layers)) return name;
    size_t end = layers.size();
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    return std::string(layers) + "#" + name.substr(end);
}

/// Names of a family's tensors that end as those of scales do.
std::set<std::string_view> own_names(std::string_view family, std::string_view ending) {
    std::set<std::string_view> names;
    for (const Family& each : gguf_families()) {
        if (each.name != family) continue;
        for (const std::span<const TensorRow> rows : each.tensors)
            for (const TensorRow& row : rows)
                if (std::string_view(row.name).ends_with(ending)) names.insert(row.name);
    }
    return names;
}

void join(const StoredTensor& scale, StoredTensor& tensor, const GatheredTensors& source,
          std::vector<Scales>& all) {
    if (tensor.type != TensorType::nvfp4)
        fail(Status::unsupported, "gguf", "tensor ", tensor.name, ": expected NVFP4, which alone has a ",
             scale.name, ", got ", tensor_type_info(tensor.type).name);
    const std::vector<uint64_t>& shape = tensor.shape;
    const uint64_t matrices = shape.size() == 3 ? shape[0] : 1;
    const uint64_t rows = shape.size() >= 2 ? shape[shape.size() - 2] : 1, cols = shape.back();
    if (scale.type != TensorType::f32 || scale.shape != std::vector{matrices} || shape.size() > 3)
        fail(Status::bad_file, "gguf", "tensor ", scale.name, ": expected F32 [", matrices, "], got ",
             tensor_type_info(scale.type).name, " ", shape_text(scale.shape));
    const std::vector<float> factors = source.floats(scale);
    Scales scales{matrices * rows, cols, factors, rows, cols};
    for (const float factor : factors)
        if (!std::isfinite(factor))
            fail(Status::bad_file, "gguf", "tensor ", scale.name, ": expected finite numbers, got ", factor);
    tensor.type = TensorType::nvfp4_s;
    tensor.decode = Decode::nvfp4_blocks;
    tensor.scales = static_cast<int32_t>(all.size());
    all.push_back(std::move(scales));
}

}  // namespace

std::vector<Scales> join_gguf_scales(std::string_view family, std::vector<StoredTensor>& tensors,
                                     const GatheredTensors& source) {
    constexpr std::string_view ending = ".scale";
    const std::set<std::string_view> own = own_names(family, ending);
    std::map<std::string_view, StoredTensor*> by_name;
    for (StoredTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
    std::vector<Scales> all;
    std::set<std::string> joined;
    for (const StoredTensor& scale : tensors) {
        if (!scale.name.ends_with(ending) || own.contains(pattern_of(scale.name))) continue;
        const std::string stem = scale.name.substr(0, scale.name.size() - ending.size());
        const auto found = by_name.find(stem + ".weight");
        if (found == by_name.end()) continue;
        join(scale, *found->second, source, all);
        joined.insert(scale.name);
        joined.insert(stem + ".input_scale");
    }
    std::erase_if(tensors, [&](const StoredTensor& tensor) { return joined.contains(tensor.name); });
    return all;
}

}  // namespace scoria
