// See pooling.h.
#include "pooling.h"

#include "fail.h"
#include "file.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace scoria {

Pooling read_pooling(const std::filesystem::path& folder, Pooling otherwise) {
    const std::filesystem::path path = folder / "1_Pooling" / "config.json";
    if (!std::filesystem::exists(path)) return otherwise;
    const std::string where = "1_Pooling/config.json";
    const nlohmann::json config = parse_json(read_file(path.string(), 1 << 20), where);
    struct Row {
        const char* name;
        std::optional<Pooling> pooling;
    };
    const Row rows[] = {
        {"pooling_mode_mean_tokens", Pooling::mean}, {"pooling_mode_cls_token", Pooling::first},
        {"pooling_mode_lasttoken", Pooling::last},   {"pooling_mode_max_tokens", {}},
        {"pooling_mode_mean_sqrt_len_tokens", {}},   {"pooling_mode_weightedmean_tokens", {}}};
    std::optional<Pooling> chosen;
    for (const Row& row : rows) {
        const auto found = config.find(row.name);
        if (found == config.end() || *found == false) continue;
        if (!row.pooling || chosen)
            fail(Status::unsupported, where, "expected one of the modes mean, cls and lasttoken, got ",
                 row.name);
        chosen = row.pooling;
    }
    return chosen.value_or(otherwise);
}

std::vector<float> pooled(std::span<const float> hidden, uint32_t size, Pooling pooling, bool normalise) {
    const size_t tokens = hidden.size() / size;
    std::vector<double> sum(size);
    const size_t first = pooling == Pooling::last ? tokens - 1 : 0,
                 last = pooling == Pooling::first ? 1 : tokens;
    for (size_t t = first; t < last; ++t)
        for (uint32_t i = 0; i < size; ++i) sum[i] += double(hidden[t * size + i]) / double(last - first);
    double squares = 0;
    for (const double value : sum) squares += value * value;
    const double scale = normalise && squares > 0 ? 1 / std::sqrt(squares) : 1;
    std::vector<float> result(size);
    std::ranges::transform(sum, result.begin(), [&](double value) { return float(value * scale); });
    return result;
}

}  // namespace scoria
