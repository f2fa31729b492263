// Which kernels multiply with a matrix, or with a mixture's, default first: see linear.h.
#include "linear_sizes.h"

#include "experts.push.h"
#include "kernel_variant.h"
#include "kv_layout.h"
#include "linear.push.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace scoria {
namespace {

/// Whether tokens are many enough for tiles; CPU drivers have no use for them.
bool pays_tiles(const vk::Caps& caps, const LinearShape& shape) { return !caps.is_cpu() && shape.tokens > 8; }

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
    const uint32_t parts = vec_parts(caps, shape, lane_tokens);

    std::vector<LinearVariant> variants;
    const auto add = [&](const LinearVariant& variant) { add_new(caps, variants, variant); };
    const std::vector<TileVariant> tiles = tile_variants(caps, shape);
    const std::vector<LinearVariant> deep = deep_variants(caps, shape);
    if (pays_tiles(caps, shape)) {
        // By what compilers make of them: no GPU has run them yet (tools/bench/RESULTS.md).
        if (shape.tokens <= 32 && !deep.empty()) {
            add(split_columns(deep.front(), shape, splits_for(caps, shape, deep.front())));
            add(deep.front());
        }
        for (const TileVariant& tile : tiles) {
            if (!tile.pays) continue;
            add(split_columns(tile.variant, shape, splits_for(caps, shape, tile.variant)));
            add(tile.variant);
        }
    }
    const bool ints = native && multiplies_ints(caps, shape);
    const bool wide = native && multiplies_ints(caps, shape, Precision::balanced);
    const auto add_group = [&](Shader shader) {
        const uint32_t of_lane = std::min(lane_tokens, 4u);  // of 8 sums few subgroups fit into a core
        const uint32_t parts_of = group_parts(caps, shape, shader, of_lane);
        if (const auto variant = group_variant(caps, shader, of_lane, parts_of)) add(*variant);
    };
    for (const Shader shader : default_groups(caps, shape)) add_group(shader);
    // One token waits for its weights; that more are multiplied in its shadow is what bytes are for.
    if (!caps.is_cpu() && caps.int_dot_fast && shape.tokens > 1 && ints)
        add(vec_variant(caps, Shader::linear_vec_int, lane_tokens, 1, parts));
    if (const uint32_t fetched = texel_tokens(caps, shape); fetched && is_compact(best))
        add(vec_variant(caps, Shader::linear_vec_sg_texels, fetched, 4, 1));
    add(vec_variant(caps, best, lane_tokens, lane_pairs, parts));
    if (native) add(vec_variant(caps, Shader::linear_vec_sg, lane_tokens, 1, parts == 1 ? 2 : 1));
    add(vec_variant(caps, Shader::linear_vec, lane_tokens, 1, parts));
    add(vec_variant(caps, best, 2, 2, 1));
    if (ints) add(vec_variant(caps, Shader::linear_vec_int, lane_tokens, 1, parts));
    if (ints) add_group(Shader::linear_group_int);
    add_group(Shader::linear_group);
    if (wide) add_group(Shader::linear_group_wide);
    for (const TileVariant& tile : tiles) {
        add(tile.variant);
        // In two parts at least, so that each kernel can be proven and forced that way on any device.
        const bool first = &tile == tiles.data() || tile.variant.shader != (&tile - 1)->variant.shader;
        if (first)
            add(split_columns(tile.variant, shape, std::max(2u, splits_for(caps, shape, tile.variant))));
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
        if (const auto grouped = group_variant(caps, shader, 1, group_parts(caps, all, shader, 1)))
            variants.push_back(*grouped);
    if (is_compact(best) && texel_tokens(caps, one))
        variants.push_back(vec_variant(caps, Shader::linear_vec_sg_texels, 1, 4, 1));
    variants.push_back(vec_variant(caps, best, 1, is_compact(best) ? 4 : 1, vec_parts(caps, used, 1)));
    for (LinearVariant& variant : variants) variant.name.insert(0, "direct ");
    return variants;
}

/// Of `list`, by what as many tokens as an expert has on the whole would run.
std::vector<LinearVariant> sorted_variants(const vk::Caps& caps, const ExpertShape& shape,
                                           decltype(linear_variants)& list) {
    const uint32_t items = shape.tokens * shape.used;
    std::vector<LinearVariant> variants;
    if (shape.tokens == 1 || shape.experts > EXPERT_MOST_SORTED) return variants;
    for (LinearVariant& variant :
         list(caps, {std::max(uint32_t(groups_for(items, shape.experts)), 2u),
                     shape.rows * std::min(items, shape.experts), shape.cols, shape.type, shape.precision})) {
        if (variant.splits > 1) continue;
        variant.sorted = true;
        variant.name.insert(0, "sorted ");
        variants.push_back(variant);
    }
    return variants;
}

/// Those of `more` that an expert's rows fit, behind what `variants` holds, each once.
void add_fitting(std::vector<LinearVariant>& variants, const ExpertShape& shape,
                 const std::vector<LinearVariant>& more) {
    for (const LinearVariant& variant : more)
        if (shape.rows % variant.expert_rows() == 0 &&
            std::ranges::find(variants, variant.name, &LinearVariant::name) == variants.end())
            variants.push_back(variant);
}

}  // namespace

std::vector<LinearVariant> expert_linear_variants(const vk::Caps& caps, const ExpertShape& shape) {
    const std::vector<LinearVariant> direct = direct_variants(caps, shape),
                                     sorted = sorted_variants(caps, shape, linear_variants);
    // With fewer tokens most experts would have one, or none; a CPU gains by what is unpacked alone
    // (tools/bench/RESULTS.md).
    const uint64_t least = caps.is_cpu() ? 3 : 1;
    const bool pays = uint64_t{shape.tokens} * shape.used >= least * shape.experts;
    std::vector<LinearVariant> variants;
    add_fitting(variants, shape, pays ? sorted : direct);
    add_fitting(variants, shape, pays ? direct : sorted);
    const KernelVariant plain = plain_variants(caps, Shader::linear_expert, 64).front();
    variants.push_back({.shader = plain.shader, .workgroup = plain.workgroup, .name = "plain"});
    return variants;
}

std::vector<LinearVariant> expert_candidates(const vk::Caps& caps, const ExpertShape& shape) {
    std::vector<LinearVariant> candidates = expert_linear_variants(caps, shape);
    add_fitting(candidates, shape, sorted_variants(caps, shape, linear_candidates));
    for (LinearVariant& variant :
         linear_candidates(caps, {1, shape.rows * shape.used, shape.cols, shape.type, shape.precision})) {
        if (variant.lane_tokens != 1 || variant.operands() != LinearVariant::Operands::floats) continue;
        variant.name.insert(0, "direct ");
        add_fitting(candidates, shape, {variant});
    }
    return candidates;
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
                        add(vec_variant(caps, best, lane_tokens, lane_pairs, parts, lanes));
    if (caps.is_cpu()) return candidates;
    for (const LinearVariant& variant : deep_variants(caps, shape)) {
        add(variant);
        add(split_columns(variant, shape, splits_for(caps, shape, variant)));
    }
    if (pays_tiles(caps, shape)) std::ranges::for_each(largest_variants(caps, shape), add);
    for (uint32_t lane_tokens = most_tokens; lane_tokens * 2 >= most_tokens && lane_tokens; lane_tokens /= 2)
        for (const uint32_t parts : {1u, 2u, 4u, 8u, 16u})
            for (const Shader shader :
                 {Shader::linear_group, Shader::linear_group_wide, Shader::linear_group_int}) {
                const Precision least =
                    shader == Shader::linear_group_int ? Precision::fast : Precision::balanced;
                if (shader != Shader::linear_group && !multiplies_ints(caps, shape, least)) continue;
                if (const auto variant = group_variant(caps, shader, lane_tokens, parts)) add(*variant);
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
