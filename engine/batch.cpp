// See batch.h.
#include "batch.h"

#include "ops/attention.h"
#include "ops/choose.h"
#include "ops/chunk_attention.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/experts.h"
#include "ops/kv_layout.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/recurrence.h"
#include "ops/rope.h"
#include "ops/select.h"
#include "recurrence.push.h"
#include "step.h"

#include <algorithm>

namespace scoria {

namespace {

/// A byte over the bus (PCIe 4 x16: 25 GB/s) beside one of device memory.
constexpr double bus_cost = 16;
/// Parts of a batch have at least so many rows, and whole tiles of their kernel: fewer would read a weight,
/// or the cache, for too little.
constexpr uint32_t least_part = 16;

}  // namespace

uint32_t StepLayout::outputs_word() const { return STEP_TOKENS + tokens * STEP_TOKEN_WORDS; }
uint32_t StepLayout::words() const {
    return pieces_word() + pieces * PIECE_WORDS + (pieces > 1 ? tokens : 0);
}

RopeShape rope_shape(const kernel::RopeCache& k, const Architecture& architecture, KvType type) {
    const Rope* rope = k.shape.rope >= 0 ? &architecture.ropes[size_t(k.shape.rope)] : nullptr;
    RopeShape shape{k.shape.head_dim, 0, RopePairs::halves, type};
    if (rope) shape.width = rope->width, shape.pairs = rope->pairs, shape.grows = rope->query_growth != 0;
    return shape;
}

ExpertShape expert_shape(const Plan& plan, const Graph& graph, const kernel::ExpertLinear& k,
                         uint32_t tokens) {
    const WeightGroup& weight = plan.weight_groups[k.weight];
    return {.tokens = tokens,
            .experts = k.experts,
            .used = k.used,
            .rows = weight.rows / k.experts,
            .cols = weight.cols,
            .type = weight.type,
            .per_slot = graph.tensors[k.x.index].cols != weight.cols,
            .heads = !k.routes};
}

Matrix Batch::matrix(TensorId tensor) const {
    const GraphTensor& info = model_.graph().tensors[tensor.index];
    const Placement& place = model_.plan().placements[tensor.index];
    const Storage& storage = model_.plan().storages[place.storage];
    const uint32_t rows = storage.rows == RowKind::outputs ? outputs_ : tokens_;
    const uint64_t bytes = 4ull * rows * storage.cols;
    const Placement& logits = model_.plan().placements[model_.graph().logits.index];
    const vk::View view = place.storage == logits.storage
                              ? workspace_.logits.view(0, bytes)
                              : workspace_.arena.view(workspace_.placement.offsets[place.storage], bytes);
    return {view, rows, info.cols, storage.cols, place.first};
}

const DeviceWeight::Shard* Batch::next_over_bus(size_t index) const {
    const Plan& plan = model_.plan();
    const size_t end = index < plan.encoder_kernels ? plan.encoder_kernels : plan.kernels.size();
    for (size_t i = index + 1; i < end; ++i)
        if (const auto* k = std::get_if<kernel::Linear>(&plan.kernels[i].kernel)) {
            const DeviceWeight& weight = model_.weight(k->weight);
            if (weight.over_bus) return matrix(k->out).rows == 0 ? nullptr : &weight.shards.front();
        }
    return nullptr;
}

void Batch::record(vk::Recorder& recorder, const Part& part) {
    OpContext context{recorder, recorder.device().caps()};
    part_ = part;
    std::visit([&](const auto& k) { record(context, k); }, model_.plan().kernels[part.kernel].kernel);
}

Batch::Tiles Batch::tiles_of(const vk::Caps& caps, size_t index) const {
    const Kernel& kernel = model_.plan().kernels[index].kernel;
    const auto whole_tiles = [](uint32_t tokens) { return groups_for(least_part, tokens) * tokens; };
    if (const auto* linear = std::get_if<kernel::Linear>(&kernel)) {
        if (model_.weight(linear->weight).over_bus) return {};  // what crosses the bus does so once
        return {shape_of(*linear).tokens, uint32_t(whole_tiles(variant_of(caps, *linear).tokens))};
    }
    if (const auto* attention = std::get_if<kernel::Attention>(&kernel)) {
        const uint32_t tokens = attention_tile_tokens(variant_of(caps, *attention), shape_of(*attention));
        return {tokens_, uint32_t(whole_tiles(tokens))};
    }
    if (std::holds_alternative<kernel::Choose>(kernel)) return {tokens_, 1};
    if (const auto* k = std::get_if<kernel::ExpertLinear>(&kernel)) {
        // Each token reads its experts, or, sorted, each expert's rows are read for all tokens.
        const LinearVariant& variant = variant_of(caps, *k);
        const uint32_t rows = model_.weight(k->weight).rows / k->experts;
        return {variant.sorted ? uint32_t(groups_for(rows, variant.rows)) : matrix(k->out).rows, 1};
    }
    return {};
}

AttentionShape Batch::shape_of(const kernel::Attention& k) const {
    return attention_shape(k.shape, tokens_, cache_.positions(),
                           uint32_t(cache_.layer(k.layer).shards.size()));
}

LinearShape Batch::shape_of(const kernel::Linear& k) const {
    const DeviceWeight& weight = model_.weight(k.weight);
    return {matrix(k.out).rows, weight.rows, weight.cols, weight.type};
}

const LinearVariant& Batch::variant_of(const vk::Caps& caps, const kernel::Linear& k) const {
    const LinearShape shape = shape_of(k);
    auto found = linear_variants_.find(shape);
    if (found == linear_variants_.end())
        found = linear_variants_.emplace(shape, choices().linear(caps, shape)).first;
    return found->second;
}

const LinearVariant& Batch::variant_of(const vk::Caps& caps, const kernel::ExpertLinear& k) const {
    const ExpertShape shape = expert_shape(model_.plan(), model_.graph(), k, matrix(k.out).rows);
    auto found = expert_variants_.find(shape);
    if (found == expert_variants_.end())
        found = expert_variants_.emplace(shape, choices().experts(caps, shape)).first;
    return found->second;
}

const AttentionVariant& Batch::variant_of(const vk::Caps& caps, const kernel::Attention& k) const {
    const CachedAttention shape{shape_of(k), cache_.layer(k.layer).type};
    auto found = attention_variants_.find(shape);
    if (found == attention_variants_.end())
        found = attention_variants_.emplace(shape, choices().attention(caps, shape.shape, shape.kv)).first;
    return found->second;
}

std::vector<Batch::Part> Batch::parts(const vk::Caps& caps, size_t first, size_t end, uint32_t positions,
                                      double most) const {
    std::vector<Part> parts;
    for (size_t i = first; i < end; ++i) {
        const double whole = cost(caps, i, positions);
        const auto [rows, least] = whole > most ? tiles_of(caps, i) : Tiles{};
        const uint32_t step = std::max(least, uint32_t(rows * most / std::max(whole, 1.0)) / least * least);
        if (step >= rows) {
            parts.push_back({.kernel = i, .cost = whole});
            continue;
        }
        for (uint32_t row = 0; row < rows; row += step) {
            const uint32_t count = std::min(step, rows - row);
            parts.push_back({i, row, count, whole * count / rows, row + count == rows});
        }
    }
    return parts;
}

void Batch::record(OpContext& context, const kernel::Embed& k) const {
    const DeviceWeight& table = model_.weight(k.table);
    record_embed(context, {table, workspace_.step.view(), matrix(k.out), k.by, k.scale, k.divide, k.period},
                 choices().simple(context.caps, SimpleOp::embed, linear_of(table.type)));
}

bool Batch::folds(const vk::Caps& caps, const kernel::Norm& k) const {
    if (!folds_last_norm_ && k.out == model_.graph().last_hidden) return false;
    return folding_ && !k.folds_into.empty() && std::ranges::all_of(k.folds_into, [&](size_t i) {
               const auto& linear = std::get<kernel::Linear>(model_.plan().kernels[i].kernel);
               return variant_of(caps, linear).folds_norm(shape_of(linear).tokens);
           });
}

bool Batch::folds(const vk::Caps& caps, const kernel::RopeCache& k) const {
    if (!folding_ || k.folds_into.empty()) return false;
    const DeviceKv& kv = cache_.layer(k.layer);
    RopeShape rope = rope_shape(k, model_.architecture(), kv.type);
    rope.shards = uint32_t(kv.shards.size());
    return std::ranges::all_of(k.folds_into, [&](size_t i) {
        const auto& linear = std::get<kernel::Linear>(model_.plan().kernels[i].kernel);
        return ends_heads(variant_of(caps, linear), rope);
    });
}

void Batch::record(OpContext& context, const kernel::Norm& k) const {
    if (folds(context.caps, k)) return;
    const Matrix out = matrix(k.out);
    record_norm(context,
                {matrix(k.x).columns(0, out.cols), out, k.kind, vector(k.weight), vector(k.bias), k.epsilon,
                 k.group, k.own_weights, matrix(k.like)},
                choices().simple(context.caps, SimpleOp::norm));
}

void Batch::record(OpContext& context, const kernel::Linear& k) {
    const DeviceWeight& weight = model_.weight(k.weight);
    Matrix out = matrix(k.out), residual;
    out.cols = k.cols;
    LinearArgs args{.x = rows(matrix(k.x)),
                    .out = rows(out),
                    .weight = weight,
                    .glu = k.glu,
                    .activate = k.activation && !k.glu,
                    .activation =
                        k.activation.value_or(model_.architecture().layers[0].feed_forward.activation),
                    .scale = k.scale};
    if (k.bias) args.bias = &model_.vector(*k.bias);
    if (k.norm) {
        const auto& norm = std::get<kernel::Norm>(model_.plan().kernels[*k.norm].kernel);
        if (folds(context.caps, norm)) {
            args.x = rows(matrix(norm.x)).columns(0, weight.cols);
            args.norm = {*vector(norm.weight), norm.epsilon};
        }
    }
    std::optional<RopeCacheArgs> rope;
    if (k.heads) {
        const auto& heads = std::get<kernel::RopeCache>(model_.plan().kernels[*k.heads].kernel);
        if (folds(context.caps, heads)) {
            rope.emplace(args_of(heads));
            args.heads.emplace(LinearHeads{*rope, args.out.first - rows(rope->qkv).first, part_.first_row});
        }
    }
    if (k.residual) residual = rows(matrix(*k.residual)), args.residual = &residual;
    args.scratch = scratch();
    if (weight.over_bus) args.stream = &stream_, args.after = next_over_bus(part_.kernel);
    record_linear(context, args, variant_of(context.caps, k));
}

RopeCacheArgs Batch::args_of(const kernel::RopeCache& k) const {
    const DeviceKv& kv = cache_.layer(k.layer);
    Matrix qkv = matrix(k.q);
    qkv.cols = (k.shape.heads + (k.with_kv ? kv.planes * k.shape.kv_heads : 0)) * k.shape.head_dim;
    RopeCacheArgs args{.qkv = qkv,
                       .heads = k.shape.heads,
                       .with_kv = k.with_kv,
                       .pairs = RopePairs::halves,
                       .width = 0,
                       .tables = workspace_.step.view(),
                       .q_norm = vector(k.q_norm),
                       .k_norm = vector(k.k_norm),
                       .norm_after = k.norm_after,
                       .epsilon = k.epsilon,
                       .step = workspace_.step.view(),
                       .kv = &kv};
    if (k.shape.rope >= 0) {
        const Rope& rope = model_.architecture().ropes[size_t(k.shape.rope)];
        args.pairs = rope.pairs;
        args.width = rope.width;
        args.query_growth = float(rope.query_growth);
        args.growth_length = rope.growth_length;
        args.growth_offset = rope.growth_offset;
        args.tables = workspace_.ropes.empty() ? model_.rope_tables(uint32_t(k.shape.rope))
                                               : workspace_.ropes[size_t(k.shape.rope)].view();
    }
    return args;
}

void Batch::record(OpContext& context, const kernel::RopeCache& k) const {
    const DeviceKv& kv = cache_.layer(k.layer);
    if (!k.with_kv && k.shape.rope < 0 && !k.q_norm && !kv_spread(kv.type, kv.planes)) return;
    if (folds(context.caps, k)) return;
    record_rope_cache(context, args_of(k),
                      choices().simple(context.caps, SimpleOp::rope_cache, kv_type_names[size_t(kv.type)]));
}

AttentionArgs Batch::args_of(const kernel::Attention& k, uint32_t first, uint32_t count) const {
    const auto rows = [&](TensorId tensor) {
        const Matrix whole = matrix(tensor);
        return count ? whole.row_range(first, count) : whole;
    };
    return {rows(k.q),
            rows(k.out),
            workspace_.step.view(),
            &cache_.layer(k.layer),
            workspace_.partials ? workspace_.partials.view() : vk::View{},
            k.shape,
            vector(k.bias),
            vector(k.sinks),
            k.distances ? std::optional(rows(*k.distances)) : std::nullopt,
            vector(k.distance_values),
            k.chosen ? std::optional(rows(*k.chosen)) : std::nullopt,
            first};
}

void Batch::record(OpContext& context, const kernel::Attention& k) const {
    record_attention(context, args_of(k, part_.first_row, part_.rows), variant_of(context.caps, k));
}

void Batch::record_attended(vk::Recorder& recorder, size_t index, const vk::View& map) const {
    OpContext context{recorder, recorder.device().caps()};
    const auto& k = std::get<kernel::Attention>(model_.plan().kernels[index].kernel);
    AttentionArgs args = args_of(k, tokens_ - 1, 1);
    args.out = {.view = map, .rows = k.shape.heads};
    record_attention_map(context, args, cache_.positions(), attention_map_variants(context.caps).front());
}

void Batch::record(OpContext& context, const kernel::Glu& k) const {
    const Matrix out = matrix(k.out), up = matrix(k.up).columns(k.up_first, out.cols);
    record_glu(context, {matrix(k.gate), up, out, k.activation, k.clamp},
               choices().simple(context.caps, SimpleOp::glu));
}

void Batch::record(OpContext& context, const kernel::Add& k) const {
    const Matrix out = matrix(k.out);
    record_add(context, {matrix(k.a).columns(0, out.cols), matrix(k.b).columns(0, out.cols), out, k.scale},
               choices().simple(context.caps, SimpleOp::add));
}

void Batch::record(OpContext& context, const kernel::Map& k) const {
    record_map(context, {matrix(k.x), matrix(k.out), k.kind, k.value, k.second, k.activation},
               choices().simple(context.caps, SimpleOp::map));
}

void Batch::record(OpContext& context, const kernel::Select& k) const {
    record_select(context,
                  {matrix(k.x), matrix(k.out), workspace_.step.view(), workspace_.layout.outputs_word()},
                  choices().simple(context.caps, SimpleOp::select));
}

void Batch::record(OpContext& context, const kernel::Route& k) const {
    record_route(context,
                 {matrix(k.scores), matrix(k.out), k.routing, vector(k.choice_bias), vector(k.weight_scale)},
                 choices().simple(context.caps, SimpleOp::route));
}

void Batch::record(OpContext& context, const kernel::ExpertLinear& k) const {
    const LinearVariant& variant = variant_of(context.caps, k);
    const auto part = [&](TensorId tensor) { return variant.sorted ? matrix(tensor) : rows(matrix(tensor)); };
    record_expert_linear(context,
                         {.x = part(k.x),
                          .routes = k.routes ? std::optional(part(*k.routes)) : std::nullopt,
                          .out = part(k.out),
                          .weight = model_.weight(k.weight),
                          .bias = vector(k.bias),
                          .experts = k.experts,
                          .used = k.used,
                          .glu = k.glu.has_value(),
                          .activation = k.glu.value_or(Activation::silu),
                          .scratch = scratch(),
                          .first_tile = part_.first_row,
                          .tiles = part_.rows,
                          .first = k.first},
                         variant);
}

void Batch::record(OpContext& context, const kernel::ExpertSum& k) const {
    const auto residual = k.residual ? std::optional(matrix(*k.residual)) : std::nullopt;
    record_expert_sum(context, {matrix(k.x), matrix(k.routes), matrix(k.out), k.used, residual, k.scale},
                      choices().simple(context.caps, SimpleOp::expert_sum));
}

void Batch::record(OpContext& context, const kernel::Pack& k) const {
    record_pack(context, {matrix(k.a), matrix(k.b), matrix(k.out), k.heads, k.from_a, k.from_b},
                choices().simple(context.caps, SimpleOp::pack));
}

void Batch::record(OpContext& context, const kernel::Mix& k) const {
    record_mix(
        context,
        {matrix(k.x), matrix(k.y), matrix(k.out), matrix(k.factors), k.width, k.offset, k.factor, k.first},
        choices().simple(context.caps, SimpleOp::mix));
}

void Batch::record(OpContext& context, const kernel::Gate& k) const {
    record_gate(context, {matrix(k.x), matrix(k.gate).columns(k.first, k.gates), matrix(k.out), k.activation},
                choices().simple(context.caps, SimpleOp::gate));
}

void Batch::record(OpContext& context, const kernel::Hash& k) const {
    record_hash(context, {matrix(k.x), matrix(k.out), model_.vector(k.rotations), k.shape},
                choices().simple(context.caps, SimpleOp::hash));
}

void Batch::record(OpContext& context, const kernel::Sort& k) const {
    record_sort(context, {matrix(k.x), matrix(k.out), k.below},
                choices().simple(context.caps, SimpleOp::sort));
}

void Batch::record(OpContext& context, const kernel::ChunkAttention& k) const {
    record_chunk_attention(context,
                           {matrix(k.q), matrix(k.k), matrix(k.v), matrix(k.sorted), matrix(k.out), k.shape},
                           choices().simple(context.caps, SimpleOp::chunk_attention));
}

void Batch::record(OpContext& context, const kernel::Choose& k) const {
    record_choose(context,
                  {.q = rows(matrix(k.q)),
                   .weights = rows(matrix(k.weights)),
                   .out = rows(matrix(k.out)),
                   .step = workspace_.step.view(),
                   .kv = &cache_.layer(k.layer),
                   .scratch = scratch(),
                   .positions = cache_.positions(),
                   .indexer = k.shape.indexer,
                   .first_token = part_.first_row},
                  choices().simple(context.caps, SimpleOp::choose));
}

void Batch::record(OpContext& context, const kernel::Convolve& k) const {
    record_convolve(context,
                    {matrix(k.x), matrix(k.out), model_.vector(k.taps), vector(k.bias),
                     workspace_.step.view(), cache_.states(k.layer, sequences_.one), pieces(), k.activation,
                     k.shape},
                    choices().simple(context.caps, SimpleOp::convolve));
}

void Batch::record(OpContext& context, const kernel::Scan& k) const {
    const op::Scan& op = k.op;
    record_scan(context,
                {matrix(op.qk), matrix(op.v), op.q_first, op.k_first, op.v_first, op.q_scale, op.k_scale,
                 matrix(op.step), matrix(op.beta), matrix(op.out), model_.vector(k.parameters),
                 workspace_.step.view(), cache_.states(op.layer, sequences_.one), pieces(), op.shape},
                choices().simple(context.caps, SimpleOp::scan));
}

void Batch::record(OpContext& context, const kernel::Shift& k) const {
    const op::Shift& op = k.op;
    record_shift(context,
                 {matrix(op.x), matrix(op.out), model_.vector(k.shift), op.feed_forward,
                  workspace_.step.view(), cache_.states(op.layer, sequences_.one), pieces(), op.shape},
                 choices().simple(context.caps, SimpleOp::shift));
}

void Batch::record(OpContext& context, const kernel::Wkv& k) const {
    const op::Wkv& op = k.op;
    record_wkv(context,
               {matrix(op.rk), matrix(op.v), 0, op.shape.keys(), 0, 1, 1, matrix(op.w), matrix(op.rate),
                matrix(op.out), model_.vector(k.parameters), workspace_.step.view(),
                cache_.states(op.layer, sequences_.one), pieces(), op.shape},
               choices().simple(context.caps, SimpleOp::wkv));
}

double Batch::cost(const vk::Caps& caps, size_t index, uint32_t positions) const {
    const Kernel& kernel = model_.plan().kernels[index].kernel;
    const auto reads = [](const DeviceWeight& weight) { return weight.over_bus ? bus_cost : 1; };
    if (const auto* k = std::get_if<kernel::Linear>(&kernel)) {
        const DeviceWeight& weight = model_.weight(k->weight);
        return double(weight.rows) * weight.cols * (reads(weight) + matrix(k->out).rows);
    }
    if (const auto* k = std::get_if<kernel::ExpertLinear>(&kernel)) {
        const DeviceWeight& weight = model_.weight(k->weight);
        const double asked = double(k->used) * matrix(k->out).rows;
        const double read = variant_of(caps, *k).sorted ? std::min(asked, double(k->experts)) : asked;
        return double(weight.rows) / k->experts * weight.cols * (reads(weight) * read + asked);
    }
    if (const auto* k = std::get_if<kernel::Attention>(&kernel)) {
        const double keys = k->shape.window ? std::min(k->shape.window, positions) : positions;
        return 2.0 * tokens_ * keys * k->shape.heads * k->shape.head_dim;
    }
    if (const auto* k = std::get_if<kernel::Choose>(&kernel))
        return double(tokens_) * positions * k->shape.heads * k->shape.head_dim;
    if (const auto* k = std::get_if<kernel::Hash>(&kernel)) {
        const Chunks& chunks = k->shape.chunks;
        return double(tokens_) * k->shape.heads * k->shape.head_dim * chunks.rounds * chunks.rotated();
    }
    if (const auto* k = std::get_if<kernel::Scan>(&kernel))
        return 4.0 * tokens_ * double(k->op.shape.scanned_floats());
    if (const auto* k = std::get_if<kernel::Wkv>(&kernel))
        return 4.0 * tokens_ * double(k->op.shape.scanned_floats());
    if (const auto* k = std::get_if<kernel::ChunkAttention>(&kernel))
        return 2.0 * tokens_ * double(chunk_ring(k->shape.chunks, tokens_).seen()) * k->shape.heads *
               k->shape.head_dim;
    return 0;  // memory-bound and small beside these
}

}  // namespace scoria
