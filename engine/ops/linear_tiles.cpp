// Sizes of linear_tile.comp, linear_tile_half.comp, linear_tile_int.comp and linear_coop.comp: see
// linear_sizes.h.
#include "linear_sizes.h"

#include "fail.h"
#include "kernel_variant.h"
#include "linear.push.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>

namespace scoria {
namespace {

bool multiplies_halves(const vk::Caps& caps, const LinearShape& shape) {
    return caps.float16 && shape.precision == Precision::fast && is_built(Shader::linear_tile_half);
}

/// A tile of which each lane holds `lane_tokens` tokens.
LinearVariant lane_tile(Shader shader, std::string_view name, uint32_t lane_tokens) {
    const uint32_t tokens = LINEAR_TILE_TOKENS / 4 * lane_tokens;
    return {.shader = shader,
            .workgroup = LINEAR_TILE_WORKGROUP,
            .tokens = tokens,
            .rows = LINEAR_TILE_ROWS,
            .lane_tokens = lane_tokens,
            .name = cat(name, " ", LINEAR_TILE_ROWS, "x", tokens)};
}

LinearVariant tile_half(const vk::Caps& caps) {
    // Compilers of small register files and of Apple's GPUs spill at 4 (tools/gates).
    return lane_tile(Shader::linear_tile_half, "tile_half", caps.float16_fast() ? 4 : 2);
}

LinearVariant tile_int(const vk::Caps& caps) {
    // Compilers of Intel's and of GPUs that lack the instruction spill at 4 (tools/gates).
    const bool wide = caps.int_dot_fast && caps.vendor_id != vk::vendor_intel;
    return lane_tile(Shader::linear_tile_int, "tile_int", wide ? 4 : 2);
}

/// Tiles of linear_coop and linear_coop2, large first: of a workgroup, and of a subgroup. The largest reads x
/// half as often, and took an H200 1.15 times as long: `tune` alone tries it. The deep ones, for few tokens,
/// are each of one subgroup, of which several share out the columns.
struct CoopTile {
    uint32_t rows, tokens, part_rows, part_tokens;
    bool whole = false;  // of whole workgroups alone
    uint32_t parts = 1;
};
constexpr CoopTile largest_tile[] = {{256, 128, 64, 64}};
constexpr CoopTile coop_tiles[] = {{128, 128, 64, 64}, {128, 64, 32, 16}, {128, 32, 32, 32, true},
                                   {64, 64, 32, 32},   {64, 64, 32, 16},  {64, 32, 32, 16},
                                   {64, 32, 16, 16},   {32, 32, 32, 16},  {32, 32, 16, 16}};
constexpr CoopTile deep_tiles[] = {{64, 64, 64, 64, false, 2}, {64, 32, 64, 32, false, 4},
                                   {32, 32, 32, 32, false, 4}, {64, 16, 64, 16, false, 4},
                                   {32, 16, 32, 16, false, 8}, {32, 16, 32, 16, false, 4}};

/// Words of sums and of the next block's operands that a lane holds without spilling, as compilers report
/// (validate --compile-only). A thread of Intel's has 4 KiB of registers for 8 lanes and up, since Xe2 8 KiB
/// for 16 and up.
uint32_t lane_words(const vk::Caps& caps) {
    return caps.vendor_id == vk::vendor_intel ? 3 * caps.matrix_subgroup : 192;
}
/// Words of both operands, as halves, of a tile's block of columns.
uint32_t block_words(const LinearVariant& tile) { return (tile.rows + tile.tokens) * (WEIGHT_BLOCK / 2); }

LinearVariant coop(const vk::Caps& caps, const CoopTile& tile) {
    const uint32_t subgroups = tile.parts * (tile.rows / tile.part_rows) * (tile.tokens / tile.part_tokens);
    return {.shader = Shader::linear_coop,
            .workgroup = subgroups * caps.matrix_subgroup,
            .tokens = tile.tokens,
            .rows = tile.rows,
            .subgroup = caps.matrix_subgroup,
            .parts = tile.parts,
            .part_rows = tile.part_rows,
            .part_tokens = tile.part_tokens,
            .name = tile.parts > 1 ? cat("coop_deep ", tile.rows, "x", tile.tokens, " parts ", tile.parts)
                                   : cat("coop ", tile.rows, "x", tile.tokens, " of ", tile.part_rows, "x",
                                         tile.part_tokens)};
}

/// The same with matrices of any size, by the workgroup as one where `grain` says so: the tile is one part
/// then. Nothing where a part's two matrices, of its even and of its odd rows, are no multiples of it.
std::optional<LinearVariant> coop2(const vk::Caps& caps, const CoopTile& tile, const vk::MatrixGrain& grain) {
    LinearVariant variant = coop(caps, tile);
    variant.shader = Shader::linear_coop2;
    variant.whole = grain.invocations != 0;
    if (variant.whole) {
        variant.workgroup = grain.invocations;
        variant.part_rows = tile.rows;
        variant.part_tokens = tile.tokens;
        variant.name = cat("coop ", tile.rows, "x", tile.tokens, " by ", grain.invocations);
    }
    variant.name.insert(std::string_view("coop").size(), "2");
    const uint32_t m = variant.part_rows / 2, n = variant.part_tokens;
    const bool multiples = m % grain.m == 0 && n % grain.n == 0 && WEIGHT_BLOCK % grain.k == 0;
    if (!multiples || std::max(m, n) > caps.matrix_most || variant.workgroup % variant.subgroup) return {};
    return variant;
}

/// Bytes of the sums of parts: more than tiles too few for a device ever have, or not worth their memory.
constexpr uint64_t most_sums_bytes = 32ull << 20;

/// How often the tiles of `variant` would have to be split for enough workgroups; 0: never. A core hides what
/// a tile waits for by one other (an H200: tools/bench/RESULTS.md). Where hardware does not tell how many
/// cores it has: 32 is what integrated GPUs have at most, 128 large ones. Of deep tiles subgroups count, of
/// which a workgroup otherwise has four.
uint64_t wanted_splits(const vk::Caps& caps, const LinearShape& shape, const LinearVariant& variant) {
    const uint64_t enough = caps.cores ? 2 * caps.cores : caps.type == vk::DeviceType::discrete ? 128 : 32;
    const uint64_t tiles = groups_for(shape.rows, variant.rows) * groups_for(shape.tokens, variant.tokens);
    return variant.deep() ? 4 * enough / (tiles * variant.parts) : enough / tiles;
}

uint64_t shared_bytes(const vk::Caps& caps, const LinearVariant& variant) {
    const uint64_t halves =
        uint64_t(variant.rows + variant.tokens) * 2 * (WEIGHT_BLOCK + 8);  // of both tiles
    if (variant.deep())
        return variant.parts * std::max<uint64_t>(halves, 4ull * variant.rows * variant.tokens);
    if (variant.shader == Shader::linear_coop)
        return halves + 4ull * variant.workgroup / variant.subgroup * WEIGHT_GROUP_ROWS * caps.matrix_n;
    if (variant.shader == Shader::linear_coop2) return halves + (variant.whole ? caps.matrix_reserved : 0);
    if (variant.grouped())
        return variant.parts * group_part_bytes(variant.shader, variant.subgroup, variant.lane_tokens);
    if (variant.parts <= 1) return 0;
    // Sums of each lane, and of squares of each subgroup.
    return 8ull * variant.workgroup * variant.lane_pairs * variant.lane_tokens +
           4ull * variant.workgroup / variant.subgroup;
}

bool fits(const vk::Caps& caps, const LinearVariant& variant) {
    const bool loads_whole =
        !variant.part_rows ||
        std::min(variant.rows, variant.tokens) * (WEIGHT_BLOCK / 8) % (variant.workgroup / variant.parts) ==
            0;
    return variant.workgroup <= std::min(caps.max_invocations, caps.max_workgroup_x) && loads_whole &&
           shared_bytes(caps, variant) <= caps.shared_memory;
}

}  // namespace

void add_new(const vk::Caps& caps, std::vector<LinearVariant>& variants, const LinearVariant& variant) {
    const bool known = std::ranges::find(variants, variant.name, &LinearVariant::name) != variants.end();
    if (!known && fits(caps, variant)) variants.push_back(variant);
}

uint32_t splits_for(const vk::Caps& caps, const LinearShape& shape, const LinearVariant& variant) {
    constexpr uint32_t least_blocks = 8;
    const uint64_t most = most_sums_bytes / (4ull * shape.tokens * shape.rows);
    return uint32_t(std::min<uint64_t>(
        {wanted_splits(caps, shape, variant), most, shape.cols / (least_blocks * WEIGHT_BLOCK)}));
}

LinearVariant split_columns(LinearVariant tile, const LinearShape& shape, uint32_t wanted) {
    const uint64_t blocks = groups_for(shape.cols, WEIGHT_BLOCK);
    const auto splits = uint32_t(groups_for(blocks, groups_for(blocks, std::max(wanted, 1u))));
    if (splits == 1 || 4ull * splits * shape.tokens * shape.rows > most_sums_bytes) return tile;
    tile.splits = splits;
    tile.name.insert(tile.name.find(' '), "_split");
    tile.name += cat(" splits ", splits);
    return tile;
}

namespace {

/// What fits of cooperative-matrix variants given large tiles first, best first.
std::vector<LinearVariant> best_first(const vk::Caps& caps, const LinearShape& shape,
                                      std::vector<LinearVariant> variants) {
    std::erase_if(variants, [&](const LinearVariant& v) {
        const uint32_t words = v.parts * (v.rows * v.tokens + block_words(v));
        return words / v.workgroup > lane_words(caps) || !fits(caps, v);
    });
    // The smallest tile that holds all tokens wastes least; a large one must leave enough workgroups. Many
    // sums are faster by few lanes, of which a core has several workgroups (an H200: tools/bench/RESULTS.md).
    // A deep one must need no splitting, since a smaller may do without.
    const auto tiles_of = [&](const LinearVariant& variant) {
        return uint64_t(shape.rows / variant.rows) * (shape.tokens / variant.tokens + 1);
    };
    auto first = std::ranges::find_if(variants, [&](const LinearVariant& variant) {
        if (variant.deep())
            return variant.tokens <= std::bit_ceil(std::max(shape.tokens, 16u)) &&
                   wanted_splits(caps, shape, variant) <= 1;
        return variant.tokens <= std::max(std::bit_ceil(shape.tokens), 32u) &&
               tiles_of(variant) >= (variant.whole ? 32 : 64);
    });
    if (first != variants.end() && first->whole && first->tokens >= 128) {
        // Some cores would have two, others one: those of half the tokens are shared out better.
        const uint64_t tiles = groups_for(shape.rows, first->rows) * groups_for(shape.tokens, first->tokens);
        const bool uneven = caps.cores < tiles && tiles < 2 * caps.cores;
        const auto smaller = std::ranges::find_if(variants, [&](const LinearVariant& variant) {
            return variant.rows == first->rows && variant.workgroup == 128 &&
                   variant.tokens == (uneven ? first->tokens / 2 : first->tokens);
        });
        if (smaller != variants.end()) first = smaller;
    }
    if (first != variants.end())
        std::rotate(variants.begin(), first, first + 1);
    else
        std::ranges::reverse(variants);
    return variants;
}

std::vector<LinearVariant> coop_variants(const vk::Caps& caps, const LinearShape& shape,
                                         std::span<const CoopTile> tiles) {
    std::vector<LinearVariant> variants;
    if (caps.cooperative_matrix && shape.precision != Precision::strict && is_built(Shader::linear_coop))
        for (const CoopTile& tile : tiles)
            if (!tile.whole) variants.push_back(coop(caps, tile));
    return best_first(caps, shape, variants);
}

std::vector<LinearVariant> coop2_variants(const vk::Caps& caps, const LinearShape& shape,
                                          std::span<const CoopTile> tiles) {
    std::vector<LinearVariant> variants;
    if (!caps.cooperative_matrix2 || shape.precision == Precision::strict || !is_built(Shader::linear_coop2))
        return variants;
    for (const vk::MatrixGrain& grain : caps.matrix_grains)
        for (const CoopTile& tile : tiles) {
            if (grain.invocations ? tile.parts > 1 : tile.whole) continue;
            if (const std::optional<LinearVariant> variant = coop2(caps, tile, grain))
                add_new(caps, variants, *variant);
        }
    return best_first(caps, shape, variants);
}

}  // namespace

std::vector<LinearVariant> deep_variants(const vk::Caps& caps, const LinearShape& shape) {
    constexpr uint32_t most_tokens = 64;
    if (shape.tokens == 1 || shape.tokens > most_tokens) return {};
    std::vector<LinearVariant> variants = coop2_variants(caps, shape, deep_tiles);
    std::ranges::copy(coop_variants(caps, shape, deep_tiles), std::back_inserter(variants));
    return variants;
}

std::vector<LinearVariant> largest_variants(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<LinearVariant> variants = coop2_variants(caps, shape, largest_tile);
    std::ranges::copy(coop_variants(caps, shape, largest_tile), std::back_inserter(variants));
    return variants;
}

std::vector<TileVariant> tile_variants(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<TileVariant> tiles;
    // By whole workgroups twice as fast as by subgroups' own matrices (an H200: tools/bench/RESULTS.md); by
    // subgroups of any size nobody measured yet: to be asked for, or found by `tune`.
    const std::vector<LinearVariant> any_size = coop2_variants(caps, shape, coop_tiles);
    for (const LinearVariant& variant : any_size)
        if (variant.whole) tiles.push_back({variant, true});
    for (const LinearVariant& variant : coop_variants(caps, shape, coop_tiles))
        tiles.push_back({variant, true});
    for (const LinearVariant& variant : any_size)
        if (!variant.whole) tiles.push_back({variant, false});
    if (multiplies_ints(caps, shape)) tiles.push_back({tile_int(caps), caps.int_dot_fast});
    if (multiplies_halves(caps, shape)) tiles.push_back({tile_half(caps), caps.float16_fast()});
    tiles.push_back({{.shader = Shader::linear_tile,
                      .workgroup = LINEAR_TILE_WORKGROUP,
                      .tokens = LINEAR_TILE_TOKENS,
                      .rows = LINEAR_TILE_ROWS,
                      .name = "tile 64x64"},
                     true});
    return tiles;
}

}  // namespace scoria
