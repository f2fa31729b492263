// Tables of positions that families compute, or keep in another shape than kernels read. Row-major.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scoria {

constexpr uint64_t most_table = 1 << 26;  // numbers that are made, not read

/// T5's table by distance (Raffel et al. 2020, appendix code) from its buckets [buckets, heads]: column d of
/// [heads, most + 1] is distance d from 0 up, or column most + d of [heads, 2 most + 1] is key minus query,
/// with half of the buckets for each direction.
std::vector<float> expand_buckets(std::span<const float> buckets, uint32_t heads, uint32_t most, bool both);

/// The other way round: the buckets that `table` was made of, as far as any distance falls in them.
std::vector<float> collect_buckets(std::span<const float> table, uint32_t heads, uint32_t most, bool both,
                                   uint32_t count);

/// Sine and cosine of positions (Vaswani et al. 2017, section 3.5), [positions, width]: by turns, or all
/// sines first.
std::vector<float> sinusoids(uint32_t positions, uint32_t width, bool by_turns);

/// All sines first, of positions from `first` on, whose slowest turns by 1/10000 per position (Vaswani et al.
/// 2018, Tensor2Tensor's code).
std::vector<float> sinusoids_to_slowest(uint32_t first, uint32_t positions, uint32_t width);

/// r R_n by head and distance n < span, [heads * span, head_dim]; r: [heads * head_dim, hidden], R_n: row n
/// of sinusoids(.., hidden, sines first) (Dai et al. 2019, section 3.3).
std::vector<float> distance_keys(std::span<const float> r, uint32_t heads, uint32_t span, uint32_t hidden);

/// Distances 0 to K of a table by clipped offset key - query (Shaw et al. 2018, eq. 5), [2 K + 1, head_dim]:
/// the rows K, K - 1, ... 0, once per head.
std::vector<float> clipped_rows(std::span<const float> table, uint32_t span, uint32_t heads);

/// Which of 2 `span` rows the keys of a table of both sides have (PositionBias::by_pair), from the key `most`
/// behind the query to the one `most` ahead, which keys further off share: span + the distance, from a middle
/// of `buckets` / 2 on logarithmic up to `far` positions (0 buckets: every distance its own), cut to the rows
/// there are (He et al. 2021, DeBERTa-v2's code, which computes in float32).
std::vector<uint32_t> signed_buckets(uint32_t most, uint32_t span, uint32_t buckets, uint32_t far);

/// w r + b by head and column, [heads * columns, head_dim]; w: [heads * head_dim, hidden], r: the row that
/// the column names, of `rows` [.., hidden].
std::vector<float> projected_rows(std::span<const float> w, std::span<const float> b,
                                  std::span<const double> rows, std::span<const uint32_t> columns,
                                  uint32_t heads);

}  // namespace scoria
