// See attention.h.
#include "attention.h"

#include "attention.push.h"
#include "fail.h"
#include "kv_layout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <thread>

namespace scoria {
namespace {

static_assert(uint32_t(KvType::f32) == KV_F32 && uint32_t(KvType::f16) == KV_F16 &&
              uint32_t(KvType::bf16) == KV_BF16 && uint32_t(KvType::q8_0) == KV_Q8_0 &&
              uint32_t(KvType::q4_0) == KV_Q4_0 && KV_BLOCK_TOKENS == kv_block_tokens);

// A split shorter than this costs more to merge than it saves; GPUs hide latency with at most some
// hundred groups of work. The grid is that of the longest cache and groups read their lengths: an indirect
// dispatch of fewer would save nothing on CPU drivers (tools/bench/RESULTS.md).
constexpr uint32_t least_split_keys = 256, most_splits = 32, enough_groups = 256;
// What a part of few rows has at least: GPUs are kept busy by many, however short.
constexpr uint32_t cpu_part_keys = 256, gpu_part_keys = 64;

/// Workgroups, of equal work each, that keep every thread of a CPU driver busy for most of the time: the
/// fewest parts of `groups` that do.
uint32_t cpu_splits(uint64_t groups, uint32_t most) {
    constexpr double enough = 0.9;  // of the threads' time
    static const uint64_t threads = std::max(1u, std::thread::hardware_concurrency());  // it reads a file
    const auto busy = [&](uint32_t splits) {
        const uint64_t all = groups * splits;
        return double(all) / double(groups_for(all, threads) * threads);
    };
    uint32_t best = 1;
    for (uint32_t splits = 2; splits <= most && busy(best) < enough; ++splits)
        if (busy(splits) > busy(best)) best = splits;
    return best;
}

/// `joins`: the last part to arrive joins them all, else it takes another dispatch.
uint32_t splits_for(const vk::Caps& caps, const AttentionShape& shape, uint32_t queries, bool joins) {
    const uint64_t groups =
        groups_for(uint64_t(shape.tokens) * shape.heads / shape.kv_heads, queries) * shape.kv_heads;
    const uint32_t most = std::clamp(shape.context / least_split_keys, 1u, most_splits);
    if (caps.is_cpu()) return joins ? cpu_splits(groups, most) : 1;
    return uint32_t(std::min<uint64_t>(groups_for(enough_groups, groups * shape.shards), most));
}

/// Of one kv head.
uint64_t rows_of(const AttentionShape& shape) {
    return uint64_t(shape.tokens) * (shape.heads / shape.kv_heads);
}

/// A workgroup of it takes one tile of rows.
bool is_tile(const AttentionVariant& variant) {
    return variant.shader == Shader::attention_tile || variant.on_matrix_units();
}

/// Of a tile: the most whose sums a lane holds without spilling, as compilers report (tools/gates).
uint32_t tile_rows(const vk::Caps& caps, uint32_t head_dim) {
    const uint64_t most_sums = caps.vendor_id == vk::vendor_intel ? 32 : 64;
    const uint64_t sums_of_64 = 16 * groups_for(head_dim, ATTENTION_TILE_CHUNK);
    return sums_of_64 <= most_sums ? 64 : sums_of_64 <= 2 * most_sums ? 32 : 16;
}

/// Shared memory that a kernel may take: more leaves every GPU too few workgroups to hide latency.
constexpr uint32_t most_shared = 32768;

/// As attention_coop.comp declares it.
uint32_t shared_bytes(const vk::Caps& caps, const AttentionVariant& v, uint32_t head_dim) {
    const uint32_t pad = std::max(caps.matrix_n * v.dim_parts, 16u);
    const uint32_t pitch = uint32_t(groups_for(head_dim, pad)) * pad / 8 + 1,
                   score_pitch = kv_block_tokens / 4 + 1;
    return 16 * ((v.queries + kv_block_tokens) * pitch + v.queries * score_pitch) +
           4 * (v.workgroup + 7 * v.queries + 2);
}

/// Words of sums that a lane holds without spilling, as compilers report (tools/gates).
uint32_t most_coop_sums(const vk::Caps& caps) {
    return caps.vendor_id == vk::vendor_intel ? 2 * caps.matrix_subgroup : 64;
}

/// Whether a lane has registers for the next tile of attention_coop.comp beside its sums.
bool holds_tiles(const vk::Caps& caps) { return caps.vendor_id != vk::vendor_intel; }
/// For values of attention_vec.comp beside keys; compilers of others spill (tools/gates).
bool holds_values(const vk::Caps& caps) {
    return caps.vendor_id == vk::vendor_nvidia || caps.vendor_id == vk::vendor_amd || caps.is_cpu();
}

/// `rows` of a workgroup on matrix units, if that fits into `most_bytes` of shared memory: as few subgroups
/// for a strip of rows as hold its sums and make a workgroup large enough to hide latency.
std::optional<AttentionVariant> coop(const vk::Caps& caps, const AttentionShape& shape, uint32_t rows,
                                     uint32_t most_bytes) {
    constexpr uint32_t good_workgroup = 128;
    std::optional<AttentionVariant> best;
    for (uint32_t parts = 1; parts * caps.matrix_n <= kv_block_tokens; parts *= 2) {
        const uint32_t lanes = caps.matrix_subgroup, workgroup = rows / caps.matrix_m * parts * lanes;
        const AttentionVariant variant{{"coop", Shader::attention_coop, workgroup, lanes},
                                       rows,
                                       splits_for(caps, shape, rows, false),
                                       parts};
        const uint32_t pad = std::max(caps.matrix_n * parts, 16u);
        const uint64_t sums = caps.matrix_m * groups_for(shape.head_dim, pad) * pad / parts / lanes;
        const uint32_t row_lanes = workgroup / rows;
        if (row_lanes == 0 || row_lanes > kv_block_tokens / 4 || sums > most_coop_sums(caps) ||
            workgroup > std::min(caps.max_invocations, caps.max_workgroup_x) ||
            shared_bytes(caps, variant, shape.head_dim) > std::min(caps.shared_memory, most_bytes))
            continue;
        best = variant;
        if (workgroup >= good_workgroup) break;
    }
    return best;
}

/// Whether the rows of a kv head are enough for tiles of so many; a quarter of one row of matrices, of one
/// token.
bool fills(const AttentionShape& shape, uint32_t tile) {
    const uint64_t rows = rows_of(shape);
    return rows >= tile || (shape.tokens == 1 && tile == 16 && rows >= 4);
}

/// Whether a kernel of matrix units is there and may run the shape.
bool takes(Shader kernel, const AttentionShape& shape) {
    return shape.precision != Precision::strict && !shape.distance_values &&
           !shader_module(kernel).words.empty();
}

/// On matrix units, best first: the largest tile that rows fill.
std::vector<AttentionVariant> coop_variants(const vk::Caps& caps, const AttentionShape& shape,
                                            uint32_t most_bytes = most_shared) {
    std::vector<AttentionVariant> variants;
    if (!caps.cooperative_matrix || !takes(Shader::attention_coop, shape)) return variants;
    for (const uint32_t rows : {64u, 32u, 16u})
        if (fills(shape, rows))
            if (const auto variant = coop(caps, shape, rows, most_bytes)) variants.push_back(*variant);
    return variants;
}

/// As attention_coop2.comp declares it.
uint32_t coop2_shared_bytes(const vk::Caps& caps, const AttentionVariant& v, uint32_t head_dim) {
    const uint32_t pitch = uint32_t(groups_for(head_dim, kv_block_tokens)) * kv_block_tokens / 8 + 1;
    return 16 * std::max(v.queries, 2 * kv_block_tokens) * pitch + 4 * (6 * v.queries + 2) +
           (v.of_workgroup() ? caps.matrix_reserved : 0);
}

/// `rows` of a workgroup by matrices of any size: of a subgroup each, or of the workgroup as one where
/// `grain` says so.
std::optional<AttentionVariant> coop2(const vk::Caps& caps, const AttentionShape& shape, uint32_t rows,
                                      const vk::MatrixGrain& grain, uint32_t most_bytes) {
    const uint64_t dims = groups_for(shape.head_dim, kv_block_tokens) * kv_block_tokens;
    // CPU drivers have memory for their sums.
    const uint64_t most_sums = caps.is_cpu() ? UINT32_MAX : most_coop_sums(caps);
    const uint32_t lanes = caps.matrix_subgroup, holders = grain.invocations ? grain.invocations : lanes;
    // Of a subgroup no more rows than must be: Mesa 26.2.6 reduces those of several grains wrongly.
    const uint32_t strip = grain.invocations ? rows : grain.m;
    const char* const name = holders == lanes ? "coop2" : holders == 128 ? "coop2_by_128" : "coop2_by_256";
    AttentionVariant variant{{name, Shader::attention_coop2, rows / strip * holders, lanes},
                             rows,
                             splits_for(caps, shape, rows, false)};
    variant.strip = strip;
    const bool multiples =
        rows % grain.m == 0 && kv_block_tokens % grain.n == 0 && kv_block_tokens % grain.k == 0;
    if (!multiples || strip * dims / holders > most_sums ||
        std::max(strip, kv_block_tokens) > caps.matrix_most ||
        variant.workgroup > std::min(caps.max_invocations, caps.max_workgroup_x) ||
        coop2_shared_bytes(caps, variant, shape.head_dim) > std::min(caps.shared_memory, most_bytes))
        return {};
    return variant;
}

/// The same by matrices of any size, of subgroups first.
std::vector<AttentionVariant> coop2_variants(const vk::Caps& caps, const AttentionShape& shape,
                                             uint32_t most_bytes = most_shared) {
    std::vector<AttentionVariant> variants;
    if (!caps.matrix_reductions || !takes(Shader::attention_coop2, shape)) return variants;
    const auto known = [](const vk::MatrixGrain& grain) {
        return grain.invocations == 0 || grain.invocations == 128 || grain.invocations == 256;
    };
    for (const bool whole : {false, true})
        for (const vk::MatrixGrain& grain : caps.matrix_grains)
            for (const uint32_t rows : {128u, 64u, 32u, 16u})
                if (fills(shape, rows) && whole == (grain.invocations != 0) && known(grain))
                    if (const auto variant = coop2(caps, shape, rows, grain, most_bytes))
                        variants.push_back(*variant);
    return variants;
}

/// `variant` by workgroups, each as large as its results fit into shared memory; nothing if that is one
/// subgroup.
std::optional<AttentionVariant> shared_out(const vk::Caps& caps, AttentionVariant variant,
                                           uint32_t head_dim) {
    const uint32_t wanted = caps.is_cpu_driver() ? 4 * variant.subgroup : 256;  // coroutines there
    const uint32_t lanes = std::min({wanted, caps.max_invocations, caps.max_workgroup_x});
    const uint32_t queries = 4 * variant.queries * (head_dim + 3), weights = 16 * variant.subgroup;
    const uint32_t room = std::min(caps.shared_memory, most_shared);
    if (variant.queries > 4 || queries >= room) return {};
    variant.shares = std::min(lanes / variant.subgroup,
                              (room - queries) / (4 * variant.queries * (head_dim + 2) + weights));
    if (variant.shares <= 1) return {};
    variant.name = "shares";
    variant.workgroup = variant.shares * variant.subgroup;
    return variant;
}

}  // namespace

AttentionShape attention_shape(const Attention& attention, uint32_t tokens, uint32_t positions,
                               uint32_t shards) {
    const uint32_t context = attention.window ? std::min(attention.window, positions) : positions;
    return {.tokens = tokens,
            .heads = attention.heads,
            .kv_heads = attention.kv_heads,
            .head_dim = attention.head_dim,
            .context = context,
            .shards = shards,
            .distance_values = attention.distance_values};
}

std::vector<AttentionVariant> attention_variants(const vk::Caps& caps, const AttentionShape& shape) {
    std::vector<AttentionVariant> variants;
    const uint64_t rows = rows_of(shape);
    const uint32_t of_tile = tile_rows(caps, shape.head_dim);
    const AttentionVariant tile{
        {"tile", Shader::attention_tile, ATTENTION_TILE_WORKGROUP, ATTENTION_TILE_WORKGROUP},
        of_tile,
        splits_for(caps, shape, of_tile, false)};
    // The tile multiplies weights with values that all its rows share.
    const bool many = rows >= 64 && !shape.distance_values &&
                      shape.head_dim <= ATTENTION_TILE_CHUNKS * ATTENTION_TILE_CHUNK;
    const std::vector<AttentionVariant> matrix = coop_variants(caps, shape),
                                        any_size = coop2_variants(caps, shape);
    // Few rows may be of as many sequences, which a tile takes one after the other.
    const bool matrix_first = many && shape.tokens > 1 && !caps.is_cpu();
    const auto add_matrix = [&] {
        if (!matrix.empty()) variants.push_back(matrix.front());
        if (!any_size.empty()) variants.push_back(any_size.front());  // not yet measured
    };
    if (matrix_first) add_matrix();
    if (many && !caps.is_cpu()) variants.push_back(tile);
    std::vector<KernelVariant> bases =
        subgroup_variants(caps, Shader::attention_vec_sg, Shader::attention_vec, 64, true);
    if (caps.is_cpu() && caps.texel_words && caps.subgroup_shuffle &&
        bases.front().shader == Shader::attention_vec_sg) {
        bases.insert(bases.begin(), bases.front());
        bases.front().name = "compact";
        bases.front().shader = Shader::attention_vec_sg_compact;
    }
    // As many tiles as the most queries make, filled evenly.
    const uint64_t tiles = groups_for(rows, caps.small_register_file() ? 2 : 4);
    const uint32_t queries = uint32_t(groups_for(rows, tiles));
    // Without the Vulkan memory model nothing says that one workgroup sees what another has written.
    const bool joins = caps.vulkan_memory_model && shape.shards == 1;
    const uint32_t part_keys = !joins ? 0 : caps.is_cpu() ? cpu_part_keys : gpu_part_keys;
    std::optional<AttentionVariant> shares;
    for (const KernelVariant& base : bases) {
        variants.push_back({base, queries, splits_for(caps, shape, queries, joins), 0, part_keys});
        if (base.shader != Shader::attention_vec_sg) continue;
        // One token has few rows: fewer of a workgroup make more of these (an H200: tools/bench/RESULTS.md;
        // other GPUs may rather read the cache less often).
        const uint32_t least = caps.vendor_id == vk::vendor_nvidia ? 1 : 2;
        const uint32_t fewer = shape.tokens == 1 && !caps.is_cpu() ? std::min(queries, least) : queries;
        shares = shared_out(caps, {base, fewer, splits_for(caps, shape, fewer, joins), 0, part_keys},
                            shape.head_dim);
    }
    // CPU drivers have no latency to hide, and where registers are few shares spill (tools/gates).
    const bool few = caps.is_cpu() || caps.small_register_file();
    const auto bases_from = variants.end() - std::ptrdiff_t(bases.size());
    if (shares) variants.insert(few ? variants.end() : bases_from, *shares);
    if (many && caps.is_cpu()) variants.push_back(tile);
    if (!matrix_first) add_matrix();
    return variants;
}

std::vector<AttentionVariant> attention_candidates(const vk::Caps& caps, const AttentionShape& shape) {
    const uint64_t rows = rows_of(shape);
    constexpr uint32_t least_keys = 64;  // of a split
    std::vector<AttentionVariant> candidates = attention_variants(caps, shape), sizes;
    for (const AttentionVariant& variant : candidates) {
        if (variant.on_matrix_units()) continue;
        const bool tile = variant.shader == Shader::attention_tile;
        for (const uint32_t queries : tile ? std::vector{16u, 32u, 64u} : std::vector{1u, 2u, 4u})
            if (queries <= std::bit_ceil(rows)) {
                AttentionVariant sized = variant;
                sized.queries = queries;
                if (variant.shares == 1)
                    sizes.push_back(sized);
                else if (const auto shares = shared_out(caps, sized, shape.head_dim))
                    sizes.push_back(*shares);
            }
    }
    // Workgroups may be fewer where each does more between two barriers.
    for (const auto& matrix :
         {coop_variants(caps, shape, caps.shared_memory), coop2_variants(caps, shape, caps.shared_memory)})
        sizes.insert(sizes.end(), matrix.begin(), matrix.end());
    for (AttentionVariant variant : sizes)
        for (uint32_t splits = 1; splits <= most_splits; splits *= 2) {
            if (splits > 1 && shape.context / splits < least_keys) continue;
            variant.splits = splits;
            const auto same = [&](const AttentionVariant& other) {
                return attention_text(other) == attention_text(variant);
            };
            if (std::ranges::none_of(candidates, same)) candidates.push_back(variant);
        }
    return candidates;
}

std::string attention_text(const AttentionVariant& variant) {
    return cat(variant.name, " queries ", variant.queries, " splits ", variant.splits);
}

uint32_t attention_tile_tokens(const AttentionVariant& variant, const AttentionShape& shape) {
    return variant.queries / std::gcd(variant.queries, shape.heads / shape.kv_heads);
}

uint64_t attention_partial_bytes(const AttentionVariant& variant, const AttentionShape& shape) {
    const uint64_t parts = uint64_t(variant.splits) * shape.shards;
    if (parts == 1) return 0;
    return 4 * (ATTENTION_ARRIVALS + parts * shape.tokens * shape.heads * (shape.head_dim + 2));
}

namespace {

/// What a kernel reads of each token beside queries, by the buffer of biases.
const std::optional<Matrix>& by_token(const AttentionArgs& args) {
    return args.chosen ? args.chosen : args.distances;
}

/// What all kernels are told of the batch, the cache and the shape.
AttentionPush push_of(const AttentionArgs& args) {
    AttentionPush push{};
    push.first_token = args.first_token;
    push.tokens = args.q.rows;
    push.heads = args.shape.heads;
    push.kv_heads = args.kv->kv_heads;
    push.q_first = args.q.first;
    push.q_stride = args.q.stride;
    push.out_first = args.out.first;
    push.out_stride = args.out.stride;
    push.ring = args.kv->ring;
    push.window = args.shape.window;
    push.stride = args.shape.stride;
    push.summary = args.shape.summary;
    push.bias_span = args.shape.bias_span;
    push.scale = args.shape.scale;
    push.soft_cap = args.shape.soft_cap;
    if (const std::optional<Matrix>& rows = by_token(args)) {
        push.bias_first = rows->first;
        push.bias_stride = rows->stride;
    }
    return push;
}

std::vector<vk::Constant> constants_of(const AttentionArgs& args) {
    const DeviceKv& kv = *args.kv;
    return {
        {KV_TYPE_CONSTANT, uint32_t(kv.type)},       {KV_PLANES_CONSTANT, kv.planes},
        {ATTENTION_HEAD_DIM, kv.head_dim},           {ATTENTION_MASK, uint32_t(args.shape.mask)},
        {ATTENTION_BIAS, uint32_t(args.shape.bias)}, {ATTENTION_SOFT_CAP, args.shape.soft_cap > 0},
        {ATTENTION_SINKS, args.sinks.has_value()},   {ATTENTION_VALUES, args.distance_values.has_value()}};
}

/// The buffers of a kernel, in order of their bindings; any stands in for what there is not.
std::vector<vk::View> views_of(const vk::Pipeline& pipeline, const AttentionArgs& args,
                               const DeviceKv::Shard& shard, const vk::View& out, const vk::View& parts) {
    const vk::View& none = args.step;
    const std::optional<Matrix>& rows = by_token(args);
    std::vector<vk::View> views{args.q.view,
                                args.step,
                                shard.view,
                                out,
                                rows ? rows->view : args.bias.value_or(none),
                                args.sinks.value_or(none),
                                args.distance_values.value_or(none),
                                parts};
    views.push_back(shard.view);  // as texels
    views.resize(pipeline.module->bindings.size());
    return views;
}

}  // namespace

void clear_arrivals(vk::Recorder& recorder, const vk::View& partials) {
    recorder.fill(partials.slice(0, std::min<uint64_t>(partials.size, 4 * ATTENTION_ARRIVALS)), 0);
}

void record_attention(OpContext& context, const AttentionArgs& args, const AttentionVariant& variant) {
    const DeviceKv& kv = *args.kv;
    vk::Recorder& recorder = context.recorder;
    AttentionPush push = push_of(args);
    push.splits = variant.splits;
    push.parts = variant.splits * uint32_t(kv.shards.size());
    const uint64_t rows = uint64_t(push.tokens) * (push.heads / push.kv_heads);
    const uint64_t tiles = groups_for(rows, variant.queries) * push.kv_heads;
    if (kv.shards.size() == 1 && tiles <= ATTENTION_ARRIVALS)
        push.part_keys = variant.part_keys;  // no arrivals are kept for more
    const bool merges = push.parts > 1 && push.part_keys == 0;

    std::vector<vk::Constant> constants = constants_of(args);
    if (variant.shader != Shader::attention_tile)
        constants.insert(constants.end(), {{vk::constant_workgroup, variant.workgroup},
                                           {vk::constant_subgroup, variant.subgroup}});
    constants.push_back({uint32_t(is_tile(variant) ? ATTENTION_ROWS : ATTENTION_QUERIES), variant.queries});
    if (!is_tile(variant)) constants.push_back({ATTENTION_IN_STEP, uint32_t(context.caps.is_lavapipe())});
    if (variant.shares > 1)
        constants.insert(constants.end(), {{ATTENTION_SHARES, variant.shares},
                                           {ATTENTION_AHEAD, uint32_t(holds_values(context.caps))}});
    if (variant.shader == Shader::attention_coop)
        constants.insert(constants.end(), {{ATTENTION_M, context.caps.matrix_m},
                                           {ATTENTION_N, context.caps.matrix_n},
                                           {ATTENTION_K, context.caps.matrix_k},
                                           {ATTENTION_DIM_PARTS, variant.dim_parts}});
    if (variant.shader == Shader::attention_coop2)
        constants.insert(constants.end(),
                         {{ATTENTION_M, variant.strip},
                          {ATTENTION_SCOPE, uint32_t(variant.of_workgroup() ? ATTENTION_OF_WORKGROUP
                                                                            : ATTENTION_OF_SUBGROUP)}});
    if (variant.on_matrix_units())
        constants.push_back({ATTENTION_AHEAD, uint32_t(holds_tiles(context.caps))});
    const vk::Pipeline& pipeline = recorder.pipelines().get(shader_module(variant.shader), constants);
    const uint64_t items = tiles * variant.splits;
    // Behind the arrivals, where tiles write them.
    const auto results = [&] {
        return args.partials.slice(4 * ATTENTION_ARRIVALS, args.partials.size - 4 * ATTENTION_ARRIVALS);
    };
    for (const DeviceKv::Shard& shard : kv.shards) {
        push.first_block = shard.first_block;
        push.blocks = shard.blocks;
        push.first_part = uint32_t(&shard - kv.shards.data()) * variant.splits;
        recorder.dispatch(
            pipeline,
            views_of(pipeline, args, shard, merges && is_tile(variant) ? results() : args.out.view,
                     push.parts == 1 ? args.out.view : args.partials),
            vk::push_bytes(push),
            groups_for(items, is_tile(variant) ? 1 : variant.workgroup / variant.subgroup / variant.shares),
            "attention");
    }
    if (!merges) return;
    const AttentionMergePush merge{push.first_token, push.tokens,    push.heads,     kv.head_dim,
                                   push.parts,       push.out_first, push.out_stride};
    const KernelVariant merger = plain_variants(context.caps, Shader::attention_merge, 64).front();
    recorder.dispatch(pipeline_of(context, merger, {{ATTENTION_MASK, uint32_t(args.shape.mask)}}),
                      {results(), args.step, args.out.view}, merge,
                      groups_for(uint64_t(push.tokens) * push.heads * kv.head_dim, merger.workgroup),
                      "attention_merge");
}

std::vector<KernelVariant> attention_map_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::attention_map, 64);
}

void record_attention_map(OpContext& context, const AttentionArgs& args, uint32_t keys,
                          const KernelVariant& variant) {
    vk::Recorder& recorder = context.recorder;
    AttentionPush push = push_of(args);
    const vk::Pipeline& scores = pipeline_of(context, variant, constants_of(args));
    const KernelVariant softmax_variant =
        plain_variants(context.caps, Shader::attention_map_softmax, variant.workgroup).front();
    const vk::Pipeline& softmax = pipeline_of(context, softmax_variant, constants_of(args));
    for (const DeviceKv::Shard& shard : args.kv->shards) {
        push.first_block = shard.first_block;
        push.blocks = shard.blocks;
        recorder.dispatch(scores, views_of(scores, args, shard, args.out.view, args.out.view),
                          vk::push_bytes(push), groups_for(uint64_t(push.heads) * keys, variant.workgroup),
                          "attention_map");
    }
    recorder.dispatch(softmax, views_of(softmax, args, args.kv->shards.front(), args.out.view, args.out.view),
                      vk::push_bytes(push), push.heads, "attention_map_softmax");
}

}  // namespace scoria
