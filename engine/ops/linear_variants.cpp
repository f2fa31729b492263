// Which kernels multiply with a matrix, and in which sizes: see linear.h.
#include "linear.h"

#include "experts.push.h"
#include "fail.h"
#include "kernel_variant.h"
#include "kv_layout.h"
#include "linear.push.h"
#include "quant_grids.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

namespace scoria {
namespace {

/// `lanes`: invocations of a workgroup that are wanted; 0: as many as suit the device.
LinearVariant vec(const vk::Caps& caps, Shader shader, uint32_t lane_tokens, uint32_t lane_pairs,
                  uint32_t parts, uint32_t lanes = 0) {
    // Without real subgroups a logical one is only a way to count lanes: as many as a row group has pairs.
    const uint32_t subgroup = shader == Shader::linear_vec ? WEIGHT_GROUP_PAIRS : caps.subgroup_size;
    // On a CPU driver a workgroup is a call, and lanes past a subgroup are a loop in it.
    const uint32_t wanted = caps.is_cpu() ? 2 * std::max<uint32_t>(WEIGHT_GROUP_PAIRS, subgroup) : 64;
    const auto workgroup_of = [&](uint32_t size) {
        const uint32_t most = std::min({size, caps.max_invocations, caps.max_workgroup_x});
        return std::max(most / (subgroup * parts), 1u) * subgroup * parts;
    };
    const uint32_t workgroup = workgroup_of(lanes ? lanes : wanted);
    const uint32_t rows = workgroup / parts * 2 * lane_pairs;
    const std::string_view name = shader_name(shader).substr(std::string_view("linear_").size());
    return {.shader = shader,
            .workgroup = workgroup,
            .tokens = lane_tokens,
            .rows = rows,
            .subgroup = subgroup,
            .lane_tokens = lane_tokens,
            .lane_pairs = lane_pairs,
            .parts = parts,
            .name = cat(name, " ", subgroup, " tokens ", lane_tokens, " pairs ", lane_pairs, " parts ", parts,
                        workgroup == workgroup_of(wanted) ? std::string() : cat(" lanes ", workgroup))};
}

Shader best_vec(const vk::Caps& caps, TensorType type) {
    return !caps.native_subgroups() || !caps.subgroup_ballot         ? Shader::linear_vec
           : !(caps.is_cpu() && caps.subgroup_shuffle && caps.int64) ? Shader::linear_vec_sg
           : caps.uniform_scalars && quant_grid(type)                ? Shader::linear_vec_sg_grid
                                                                     : Shader::linear_vec_sg_compact;
}

constexpr uint32_t group_lanes = WEIGHT_GROUP_ROWS / 4;  // of a cell

/// Of shared memory, of a part: x, and what it found.
uint32_t group_part_bytes(Shader shader, uint32_t subgroup, uint32_t lane_tokens) {
    const uint32_t chunk = shader == Shader::linear_group_int    ? 8
                           : shader == Shader::linear_group_wide ? 16
                                                                 : 32;
    const uint32_t cell = WEIGHT_BLOCK / 8 * chunk + std::min(chunk, 16u);
    return lane_tokens * (subgroup / group_lanes * cell + 4 * WEIGHT_GROUP_ROWS) + 4;
}

/// A subgroup for each group of rows; nothing where a subgroup has not whole groups of pairs.
std::optional<LinearVariant> group(const vk::Caps& caps, Shader shader, uint32_t lane_tokens,
                                   uint32_t parts) {
    const uint32_t subgroup = caps.subgroup_size;
    if (!caps.native_subgroups() || !caps.subgroup_shuffle || subgroup % WEIGHT_GROUP_PAIRS) return {};
    return LinearVariant{.shader = shader,
                         .workgroup = parts * subgroup,
                         .tokens = lane_tokens,
                         .rows = WEIGHT_GROUP_ROWS,
                         .subgroup = subgroup,
                         .lane_tokens = lane_tokens,
                         .lane_pairs = 2,
                         .parts = parts,
                         .name = cat(shader_name(shader).substr(std::string_view("linear_").size()), " ",
                                     subgroup, " tokens ", lane_tokens, " parts ", parts)};
}

/// Parts of it, of which each goes through the columns at least once.
uint32_t group_parts(const vk::Caps& caps, const LinearShape& shape, Shader shader, uint32_t lane_tokens) {
    constexpr uint32_t enough_subgroups = 4096, most_bytes = 32768;
    // Of one token, as an H200 likes it (tools/bench/RESULTS.md).
    const uint32_t most = shader == Shader::linear_group_wide && lane_tokens == 1 ? 8 : 16;
    const bool many = uint64_t{shape.rows} / WEIGHT_GROUP_ROWS * most > enough_subgroups;
    const uint32_t most_parts =
        caps.is_cpu() ? 2 : most / (many ? 2 : 1) / lane_tokens;  // each size a compile there
    const uint32_t turns = shape.cols * group_lanes / WEIGHT_BLOCK / caps.subgroup_size;
    const uint32_t room = std::min(std::min(caps.max_invocations, caps.max_workgroup_x) / caps.subgroup_size,
                                   most_bytes / group_part_bytes(shader, caps.subgroup_size, lane_tokens));
    return std::bit_floor(std::clamp(turns, 1u, std::max(std::min(most_parts, room), 1u)));
}

/// Tokens of a lane whose words are fetched as texels, or 0 where that does not pay (tools/bench/RESULTS.md):
/// few gain unless codes are points of a grid, many always.
uint32_t texel_tokens(const vk::Caps& caps, const LinearShape& shape) {
    constexpr uint32_t few = 4, many = 8;
    if (!caps.texel_words || shape.cols * sizeof(float) < vk::texel_bytes) return 0;
    if (shape.tokens > few) return many;
    return quant_grid(shape.type) ? 0 : std::bit_ceil(shape.tokens);
}

/// Tokens of a lane; of more the sums spill.
uint32_t most_lane_tokens(const vk::Caps& caps) {
    return caps.is_cpu() || caps.small_register_file() ? 4 : 8;
}

/// A GPU wants thousands of subgroups, by whose loads it hides latency; few rows make them by sharing out the
/// columns. Each part keeps cells to go through, and the parts' sums 16 KiB of shared memory.
uint32_t parts_for(const vk::Caps& caps, const LinearShape& shape, uint32_t lane_tokens) {
    constexpr uint32_t most_parts = 16, least_cells = 4, most_words = 4096;
    // Adreno's lanes have the fewer registers the more there are, and spill with 1024 (tools/gates).
    const uint32_t good_workgroup = caps.subgroup_size < 128 ? 512 : 256;
    if (caps.is_cpu()) return 1;
    const uint64_t enough = caps.type == vk::DeviceType::discrete ? 2048 : 512;
    const uint32_t lanes = caps.native_subgroups() ? caps.subgroup_size : WEIGHT_GROUP_PAIRS;
    const uint64_t subgroups = groups_for(shape.rows, 2 * lanes) * groups_for(shape.tokens, lane_tokens);
    const uint32_t most_lanes = std::min({good_workgroup, caps.max_invocations, caps.max_workgroup_x,
                                          std::min(most_words, caps.shared_memory / 8) / (2 * lane_tokens)});
    uint32_t parts = 1;
    while (2 * parts <= most_parts && parts * subgroups < enough &&
           2 * parts * least_cells * WEIGHT_BLOCK <= shape.cols && 2 * parts * lanes <= most_lanes)
        parts *= 2;
    return parts;
}

/// Whether this build's compiler knew what the shader needs.
bool built(Shader shader) { return !shader_module(shader).words.empty(); }

/// Types whose codes are small integers (weight_step of dequant.glsl).
constexpr TensorType int_types[] = {TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
                                    TensorType::q8_0, TensorType::q2_k, TensorType::q3_k, TensorType::q4_k,
                                    TensorType::q5_k, TensorType::q6_k};

/// By x of two bytes, or, of `precision` fast, of one.
bool multiplies_ints(const vk::Caps& caps, const LinearShape& shape, Precision precision = Precision::fast) {
    return caps.int_dot && shape.precision >= precision && built(Shader::linear_tile_int) &&
           std::ranges::find(int_types, shape.type) != std::end(int_types);
}

bool multiplies_halves(const vk::Caps& caps, const LinearShape& shape) {
    return caps.float16 && shape.precision == Precision::fast && built(Shader::linear_tile_half);
}

/// Kernels of linear_group.comp, where they are what few tokens run: where a broadcast is a shuffle, x goes
/// through shared memory rather.
std::vector<Shader> default_groups(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<Shader> shaders;
    if (caps.vendor_id != vk::vendor_nvidia || caps.is_cpu()) return shaders;
    const bool fast = caps.int_dot_fast && caps.native_subgroups() && caps.subgroup_ballot;
    if (fast && multiplies_ints(caps, shape)) shaders.push_back(Shader::linear_group_int);
    // Two products of four bytes take the place of four of floats, and nothing is converted.
    if (fast && multiplies_ints(caps, shape, Precision::balanced))
        shaders.push_back(Shader::linear_group_wide);
    shaders.push_back(Shader::linear_group);
    return shaders;
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

/// How many parts of the columns make enough workgroups for the device where tiles alone do not; each keeps
/// at least 256 columns, since what a part computes it also writes, and a second dispatch reads.
uint32_t splits_for(const vk::Caps& caps, const LinearShape& shape, const LinearVariant& variant) {
    constexpr uint32_t least_blocks = 8;
    const uint64_t most = most_sums_bytes / (4ull * shape.tokens * shape.rows);
    return uint32_t(std::min<uint64_t>(
        {wanted_splits(caps, shape, variant), most, shape.cols / (least_blocks * WEIGHT_BLOCK)}));
}

/// `tile` with its columns in `wanted` parts or fewer, none of them empty; `tile` itself where that is one.
LinearVariant split(LinearVariant tile, const LinearShape& shape, uint32_t wanted) {
    const uint64_t blocks = groups_for(shape.cols, WEIGHT_BLOCK);
    const auto splits = uint32_t(groups_for(blocks, groups_for(blocks, std::max(wanted, 1u))));
    if (splits == 1 || 4ull * splits * shape.tokens * shape.rows > most_sums_bytes) return tile;
    tile.splits = splits;
    tile.name.insert(tile.name.find(' '), "_split");
    tile.name += cat(" splits ", splits);
    return tile;
}

/// Adds a variant that fits and is not yet among `variants`.
void add_new(const vk::Caps& caps, std::vector<LinearVariant>& variants, const LinearVariant& variant) {
    const bool known = std::ranges::find(variants, variant.name, &LinearVariant::name) != variants.end();
    if (!known && fits(caps, variant)) variants.push_back(variant);
}

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

/// Whether tokens are many enough for tiles; CPU drivers have no use for them.
bool pays_tiles(const vk::Caps& caps, const LinearShape& shape) { return !caps.is_cpu() && shape.tokens > 8; }

std::vector<LinearVariant> coop_variants(const vk::Caps& caps, const LinearShape& shape,
                                         std::span<const CoopTile> tiles) {
    std::vector<LinearVariant> variants;
    if (caps.cooperative_matrix && shape.precision != Precision::strict && built(Shader::linear_coop))
        for (const CoopTile& tile : tiles)
            if (!tile.whole) variants.push_back(coop(caps, tile));
    return best_first(caps, shape, variants);
}

std::vector<LinearVariant> coop2_variants(const vk::Caps& caps, const LinearShape& shape,
                                          std::span<const CoopTile> tiles) {
    std::vector<LinearVariant> variants;
    if (!caps.cooperative_matrix2 || shape.precision == Precision::strict || !built(Shader::linear_coop2))
        return variants;
    for (const vk::MatrixGrain& grain : caps.matrix_grains)
        for (const CoopTile& tile : tiles) {
            if (grain.invocations ? tile.parts > 1 : tile.whole) continue;
            if (const std::optional<LinearVariant> variant = coop2(caps, tile, grain))
                add_new(caps, variants, *variant);
        }
    return best_first(caps, shape, variants);
}

/// Of few tokens, but not of one.
std::vector<LinearVariant> deep_variants(const vk::Caps& caps, const LinearShape& shape) {
    constexpr uint32_t most_tokens = 64;
    if (shape.tokens == 1 || shape.tokens > most_tokens) return {};
    std::vector<LinearVariant> variants = coop2_variants(caps, shape, deep_tiles);
    std::ranges::copy(coop_variants(caps, shape, deep_tiles), std::back_inserter(variants));
    return variants;
}

/// Kernels that make tiles, best first. `pays`: many tokens run it by default.
struct Tile {
    LinearVariant variant;
    bool pays;
};
std::vector<Tile> tile_variants(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<Tile> tiles;
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

}  // namespace

std::vector<LinearVariant> linear_variants(const vk::Caps& caps, const LinearShape& shape) {
    const bool native = caps.native_subgroups() && caps.subgroup_ballot;
    const Shader best = best_vec(caps, shape.type);
    // A CPU driver pays for each pipeline with a fifth of a second of compiling: one token, or four at a
    // time.
    const uint32_t most = most_lane_tokens(caps);
    const uint32_t few = caps.is_cpu() ? most : std::min(std::bit_ceil(shape.tokens), most);
    const uint32_t lane_tokens = shape.tokens == 1 ? 1 : few;
    // Pairs of a lane share loads of x and of words; a GPU rather has more subgroups.
    const uint32_t lane_pairs = !is_compact(best) ? 1 : shape.tokens == 1 ? 4 : 2;
    const uint32_t parts = parts_for(caps, shape, lane_tokens);

    std::vector<LinearVariant> variants;
    const auto add = [&](const LinearVariant& variant) { add_new(caps, variants, variant); };
    const std::vector<Tile> tiles = tile_variants(caps, shape);
    const std::vector<LinearVariant> deep = deep_variants(caps, shape);
    if (pays_tiles(caps, shape)) {
        // By what compilers make of them: no GPU has run them yet (tools/bench/RESULTS.md).
        if (shape.tokens <= 32 && !deep.empty()) {
            add(split(deep.front(), shape, splits_for(caps, shape, deep.front())));
            add(deep.front());
        }
        for (const Tile& tile : tiles) {
            if (!tile.pays) continue;
            add(split(tile.variant, shape, splits_for(caps, shape, tile.variant)));
            add(tile.variant);
        }
    }
    const bool ints = native && multiplies_ints(caps, shape);
    const bool wide = native && multiplies_ints(caps, shape, Precision::balanced);
    const auto add_group = [&](Shader shader) {
        const uint32_t of_lane = std::min(lane_tokens, 4u);  // of 8 sums few subgroups fit into a core
        const uint32_t parts_of = group_parts(caps, shape, shader, of_lane);
        if (const auto variant = group(caps, shader, of_lane, parts_of)) add(*variant);
    };
    for (const Shader shader : default_groups(caps, shape)) add_group(shader);
    // One token waits for its weights; that more are multiplied in its shadow is what bytes are for.
    if (!caps.is_cpu() && caps.int_dot_fast && shape.tokens > 1 && ints)
        add(vec(caps, Shader::linear_vec_int, lane_tokens, 1, parts));
    if (const uint32_t fetched = texel_tokens(caps, shape); fetched && is_compact(best))
        add(vec(caps, Shader::linear_vec_sg_texels, fetched, 4, 1));
    add(vec(caps, best, lane_tokens, lane_pairs, parts));
    if (native) add(vec(caps, Shader::linear_vec_sg, lane_tokens, 1, parts == 1 ? 2 : 1));
    add(vec(caps, Shader::linear_vec, lane_tokens, 1, parts));
    add(vec(caps, best, 2, 2, 1));
    if (ints) add(vec(caps, Shader::linear_vec_int, lane_tokens, 1, parts));
    if (ints) add_group(Shader::linear_group_int);
    add_group(Shader::linear_group);
    if (wide) add_group(Shader::linear_group_wide);
    for (const Tile& tile : tiles) {
        add(tile.variant);
        // In two parts at least, so that each kernel can be proven and forced that way on any device.
        const bool first = &tile == tiles.data() || tile.variant.shader != (&tile - 1)->variant.shader;
        if (first) add(split(tile.variant, shape, std::max(2u, splits_for(caps, shape, tile.variant))));
    }
    // One of each kernel, that it can be proven; `tune` tries them all.
    for (const LinearVariant& variant : deep)
        if (&variant == deep.data() || variant.shader != (&variant - 1)->shader) add(variant);
    assert(!variants.empty());
    return variants;
}

namespace {

/// How the experts of a token are multiplied one by one: by the count of those alone, so that bits do not
/// depend on how many tokens go beside.
std::vector<LinearVariant> direct_variants(const vk::Caps& caps, const ExpertShape& shape) {
    const LinearShape used{shape.used, shape.rows, shape.cols, shape.type};
    const LinearShape one{1, shape.rows, shape.cols, shape.type};
    const LinearShape all{1, shape.rows * shape.used, shape.cols, shape.type, shape.precision};
    const Shader best = best_vec(caps, shape.type);
    std::vector<LinearVariant> variants;
    for (const Shader shader : default_groups(caps, all))
        if (const auto grouped = group(caps, shader, 1, group_parts(caps, all, shader, 1)))
            variants.push_back(*grouped);
    if (is_compact(best) && texel_tokens(caps, one))
        variants.push_back(vec(caps, Shader::linear_vec_sg_texels, 1, 4, 1));
    variants.push_back(vec(caps, best, 1, is_compact(best) ? 4 : 1, parts_for(caps, used, 1)));
    for (LinearVariant& variant : variants) variant.name.insert(0, "direct ");
    return variants;
}

/// By what as many tokens as an expert has on the whole would run.
std::vector<LinearVariant> sorted_variants(const vk::Caps& caps, const ExpertShape& shape) {
    const auto items = uint32_t(uint64_t{shape.tokens} * shape.used);
    if (shape.tokens == 1 || shape.experts > EXPERT_MOST_SORTED) return {};
    std::vector<LinearVariant> variants = linear_variants(
        caps, {std::max(uint32_t(groups_for(items, shape.experts)), 2u),
               shape.rows * std::min(items, shape.experts), shape.cols, shape.type, shape.precision});
    std::erase_if(variants, [](const LinearVariant& variant) { return variant.splits > 1; });
    for (LinearVariant& variant : variants) {
        variant.sorted = true;
        variant.name.insert(0, "sorted ");
    }
    return variants;
}

}  // namespace

std::vector<LinearVariant> expert_linear_variants(const vk::Caps& caps, const ExpertShape& shape) {
    std::vector<LinearVariant> variants = direct_variants(caps, shape), sorted = sorted_variants(caps, shape);
    // With fewer tokens most experts would have one, or none; a CPU gains by what is unpacked alone
    // (tools/bench/RESULTS.md).
    const uint64_t least = caps.is_cpu() ? 3 : 1;
    const bool pays = uint64_t{shape.tokens} * shape.used >= least * shape.experts;
    variants.insert(pays ? variants.begin() : variants.end(), sorted.begin(), sorted.end());
    std::erase_if(variants,
                  [&](const LinearVariant& variant) { return shape.rows % variant.expert_rows() != 0; });
    const KernelVariant plain = plain_variants(caps, Shader::linear_expert, 64).front();
    variants.push_back({.shader = plain.shader, .workgroup = plain.workgroup, .name = "plain"});
    return variants;
}

std::vector<LinearVariant> linear_candidates(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<LinearVariant> candidates = linear_variants(caps, shape);
    const auto add = [&](const LinearVariant& variant) { add_new(caps, candidates, variant); };
    const uint32_t most_tokens = std::min(std::bit_ceil(shape.tokens), most_lane_tokens(caps));
    const uint32_t most_sums = 4 * most_lane_tokens(caps);  // of linear_vec's SUMS: more spill
    const Shader best = best_vec(caps, shape.type);
    const uint32_t most_parts = is_compact(best) ? 1 : std::min(shape.cols / (2 * WEIGHT_BLOCK), 32u);
    for (uint32_t lane_tokens = most_tokens; lane_tokens * 2 >= most_tokens && lane_tokens; lane_tokens /= 2)
        for (const uint32_t lane_pairs : {1u, 2u})
            for (uint32_t parts = 1; parts <= most_parts; parts *= 2)
                for (const uint32_t lanes : {0u, 32u, 128u, 256u})
                    if (2 * lane_pairs * lane_tokens <= most_sums)
                        add(vec(caps, best, lane_tokens, lane_pairs, parts, lanes));
    if (caps.is_cpu()) return candidates;
    for (const LinearVariant& variant : deep_variants(caps, shape)) {
        add(variant);
        add(split(variant, shape, splits_for(caps, shape, variant)));
    }
    if (pays_tiles(caps, shape))
        for (const auto& larger :
             {coop2_variants(caps, shape, largest_tile), coop_variants(caps, shape, largest_tile)})
            std::ranges::for_each(larger, add);
    for (uint32_t lane_tokens = most_tokens; lane_tokens * 2 >= most_tokens && lane_tokens; lane_tokens /= 2)
        for (const uint32_t parts : {1u, 2u, 4u, 8u, 16u})
            for (const Shader shader :
                 {Shader::linear_group, Shader::linear_group_wide, Shader::linear_group_int}) {
                const Precision least =
                    shader == Shader::linear_group_int ? Precision::fast : Precision::balanced;
                if (shader != Shader::linear_group && !multiplies_ints(caps, shape, least)) continue;
                if (const auto variant = group(caps, shader, lane_tokens, parts)) add(*variant);
            }
    return candidates;
}

LinearVariant::Operands LinearVariant::operands() const {
    return part_rows || shader == Shader::linear_tile_half                         ? Operands::halves
           : shader == Shader::linear_vec_int || shader == Shader::linear_tile_int ? Operands::bytes
                                                                                   : Operands::floats;
}

uint32_t LinearVariant::expert_rows() const {
    return lane_pairs && !grouped() ? 2 * lane_pairs : WEIGHT_GROUP_ROWS;
}

uint32_t LinearVariant::x_levels() const {
    return shader == Shader::linear_group_int    ? LINEAR_BYTE_LEVELS
           : shader == Shader::linear_group_wide ? LINEAR_WIDE_LEVELS
                                                 : 0;
}

bool ends_heads(const LinearVariant& variant, const RopeShape& rope) {
    const bool by_pairs =
        variant.grouped() || variant.shader == Shader::linear_vec_sg ||
        (variant.deep() && variant.splits == 1);  // of larger tiles some spill (tools/gates)
    return by_pairs && (rope.width == 0 || rope.pairs == RopePairs::interleaved) && rope.head_dim % 2 == 0 &&
           !kv_quantised(rope.type) && rope.shards == 1 && !rope.grows;
}

}  // namespace scoria
