// One overload per op; the tensors of a call are kept until its end, so that any of them can be asked for.
#include "executor.h"

#include "attention.h"
#include "choose.h"
#include "chunk_attention.h"
#include "compress.h"
#include "elementwise.h"
#include "embed.h"
#include "experts.h"
#include "fail.h"
#include "linear.h"
#include "norm.h"
#include "recurrence.h"
#include "rope.h"
#include "weights.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace scoria::reference {

using Values = std::vector<double>;

struct Executor::Step {
    Executor& executor;
    const Architecture& stack;  // the model, or its encoder
    std::span<const TokenId> ids, token_types;
    size_t first, outputs;  // first: position of ids[0]
    std::vector<Values> tensors;
    Values rounded = {};                         // what factor() made
    std::map<uint32_t, LayerCache> states = {};  // of recurrences, after these tokens

    const Values& in(TensorId id) const { return tensors[id.index]; }
    std::span<const double> in(const std::optional<TensorId>& id) const {
        return id ? std::span(in(*id)) : std::span<const double>();
    }
    Values& out(TensorId id) {
        const GraphTensor& tensor = executor.graph_.tensors[id.index];
        Values& values = tensors[id.index];
        values.resize(rows(id) * tensor.cols);
        return values;
    }
    size_t rows(TensorId id) const {
        return executor.graph_.tensors[id.index].rows == RowKind::tokens ? ids.size() : outputs;
    }
    uint32_t cols(TensorId id) const { return executor.graph_.tensors[id.index].cols; }

    static std::string name(WeightRef ref) {
        return cat("weight ", role_name(ref.role), ref.layer < 0 ? "" : cat(" of layer ", ref.layer),
                   ref.encoder ? " of the encoder" : "");
    }
    const TensorView& view(WeightRef ref) const {
        const auto found = executor.model_.weights.find(ref);
        if (found == executor.model_.weights.end())
            fail(Status::bad_file, name(ref), "expected a tensor, got none");
        return found->second;
    }
    const TensorView& view(WeightRef ref, uint32_t rows, uint32_t cols) const {
        const TensorView& tensor = view(ref);
        if (tensor.rows != rows || tensor.cols != cols)
            fail(Status::bad_file, name(ref), "expected [", rows, ", ", cols, "], got [", tensor.rows, ", ",
                 tensor.cols, "]");
        return tensor;
    }
    Rows matrix(WeightRef ref, uint32_t rows, uint32_t cols) const {
        return rows_of(*executor.model_.tensors, view(ref, rows, cols));
    }
    /// Operands of a product.
    Rows factor(WeightRef ref, uint32_t rows, uint32_t cols) const {
        Rows exact = matrix(ref, rows, cols);
        const auto& round = executor.rounding_.weights;
        if (!round) return exact;
        return {rows, cols, [exact = std::move(exact.row), &round](uint32_t row, std::span<double> out) {
                    exact(row, out);
                    round(out);
                }};
    }
    const Values& factor(TensorId id) {
        const auto& round = executor.rounding_.activations;
        if (!round) return in(id);
        rounded = in(id);
        for (size_t begin = 0; begin < rounded.size(); begin += cols(id))
            round(std::span(rounded).subspan(begin, cols(id)));
        return rounded;
    }
    Values whole(WeightRef ref, uint32_t rows, uint32_t cols) const {
        return values_of(*executor.model_.tensors, view(ref, rows, cols));
    }
    Values vector(WeightRef ref, uint32_t size) const { return whole(ref, 1, size); }
    Values vector(const std::optional<WeightRef>& ref, uint32_t size) const {
        return ref ? vector(*ref, size) : Values{};
    }

    void run_op(const Op& op, const Observer& observer) {
        std::visit([&](const auto& each) { run(each); }, op);
        if (observer) observer(executor.graph_, op, in(output_of(op)));
    }

    void run(const op::Embed& op) {
        std::vector<TokenId> rows(ids.begin(), ids.end());
        if (op.by == EmbedBy::position) std::iota(rows.begin(), rows.end(), static_cast<TokenId>(first));
        if (op.by == EmbedBy::token_type) {
            rows.assign(ids.size(), 0);
            std::ranges::copy(token_types, rows.begin());
        }
        if (op.period != 0)
            for (TokenId& row : rows)
                row = static_cast<TokenId>(static_cast<uint32_t>(row) / op.divide % op.period);
        const uint32_t vocab = op.table.encoder ? stack.vocab : executor.model_.architecture.vocab;
        const uint32_t table = op.period != 0               ? op.period
                               : op.by == EmbedBy::token    ? vocab
                               : op.by == EmbedBy::position ? stack.positions
                                                            : stack.token_types;
        embed(rows, matrix(op.table, table, cols(op.out)), out(op.out));
        scale(in(op.out), double{op.scale}, out(op.out));
    }
    void run(const op::Norm& op) {
        Values weight = vector(op.weight, op.second ? op.weights / 2 : op.weights);
        const Values second = vector(op.second, op.weights / 2);
        weight.insert(weight.end(), second.begin(), second.end());
        norm(first_columns(op.x, cols(op.out)), op.kind, op.group, weight, vector(op.bias, op.weights),
             double{op.epsilon}, out(op.out), op.like ? first_columns(*op.like, op.group) : Values{});
    }
    void run(const op::Linear& op) {
        const uint32_t rows = cols(op.out);
        linear(factor(op.x), factor(op.weight, rows, cols(op.x)), vector(op.bias, rows), out(op.out));
    }
    void run(const op::Map& op) {
        const double value = double{op.value};
        switch (op.kind) {
        case MapKind::scale:
            return scale(in(op.x), value, out(op.out));
        case MapKind::clamp:
            return clamp(in(op.x), value, out(op.out));
        case MapKind::soft_cap:
            return soft_cap(in(op.x), value, out(op.out));
        case MapKind::activate:
            return activate(in(op.x), op.activation, out(op.out));
        case MapKind::xielu:
            return xielu(in(op.x), value, double{op.second}, out(op.out));
        }
    }
    void run(const op::Rope& op) {
        rope(in(op.x), op.heads, op.head_dim, executor.model_.architecture.ropes[op.rope], first, out(op.out),
             op.queries);
    }
    void run(const op::Attention& op) {
        LayerCache& cache = executor.cache_[op.k ? op.layer : uint32_t(op.shape.kv_layer)];
        if (op.k) append(cache.keys, in(*op.k), cols(*op.k));
        if (op.v) append(cache.values, in(*op.v), cols(*op.v));
        const uint32_t heads = op.shape.heads, span = op.shape.bias_span;
        Values bias, distance_values;
        if (op.shape.bias == PositionBias::linear) bias = vector(op.bias, heads);
        if (op.shape.bias == PositionBias::table || op.shape.bias == PositionBias::table_both)
            bias = whole(*op.bias, heads, op.shape.bias_cols());
        if (op.distance_values) distance_values = whole(*op.distance_values, span, op.shape.head_dim);
        Values rounded_keys, rounded_values;
        const auto read = [&](const Values& rows, Values& copy, bool values) -> const Values& {
            const auto& round = executor.rounding_.cache;
            if (!round) return rows;
            copy = rows;
            round(copy, op.shape, values);
            return copy;
        };
        const Values &keys = read(cache.keys, rounded_keys, false),
                     &values = read(cache.values, rounded_values, true);
        const Values sinks = vector(op.sinks, heads);
        if (op.base) out(op.out) = in(*op.base);
        attention(op.shape,
                  {.q = in(op.q),
                   .keys = keys,
                   .values = values,
                   .first = first,
                   .prefix = executor.prefix_,
                   .low = executor.window().low,
                   .global = executor.global_,
                   .bias = bias,
                   .sinks = sinks,
                   .distances = in(op.distances),
                   .distance_values = distance_values,
                   .chosen = in(op.chosen),
                   .chosen_cols = op.chosen ? cols(*op.chosen) : 0},
                  out(op.out));
    }
    void run(const op::Choose& op) {
        Values& keys = executor.cache_[op.layer].keys;
        append(keys, in(op.k), cols(op.k));
        Values held = keys;
        if (executor.rounding_.cache) executor.rounding_.cache(held, op.shape, false);
        choose(op.shape.indexer, in(op.q), in(op.weights), held, first, out(op.out));
    }
    void append(Values& cached, const Values& rows, uint32_t cols) const {
        cached.resize(first * cols);  // drops what a call that failed half-way left behind
        cached.insert(cached.end(), rows.begin(), rows.end());
    }
    void run(const op::Glu& op) {
        glu(in(op.gate), columns(in(op.up), cols(op.up), op.up_first, cols(op.out)), op.activation, op.clamp,
            out(op.out));
    }
    void run(const op::Add& op) {
        const uint32_t count = cols(op.out);
        add(first_columns(op.a, count), first_columns(op.b, count), double{op.scale}, out(op.out));
    }
    void run(const op::Route& op) {
        const Values& scores = in(op.scores);
        const Values choice = vector(op.choice_bias, op.routing.experts),
                     scale = vector(op.weight_scale, op.routing.experts);
        Values& routes = out(op.out);
        for (size_t t = 0; t < ids.size(); ++t)
            route(std::span(scores).subspan(t * op.routing.experts, op.routing.experts), op.routing, choice,
                  scale, std::span(routes).subspan(t * 2 * op.routing.used, 2 * op.routing.used));
    }
    void run(const op::ExpertLinear& op) {
        const uint32_t rows = cols(op.out) / op.used * op.experts;
        const uint32_t in_cols = cols(op.x) == view(op.weight).cols ? cols(op.x) : cols(op.x) / op.used;
        expert_linear(factor(op.x), in(op.routes), factor(op.weight, rows, in_cols), vector(op.bias, rows),
                      op.experts, op.used, out(op.out));
    }
    void run(const op::ExpertSum& op) { expert_sum(in(op.x), in(op.routes), op.used, out(op.out)); }
    /// Of every `cols` values those from `first` on, `count` of them.
    static Values columns(const Values& x, size_t cols, size_t first, size_t count) {
        if (count == cols) return x;
        Values values;
        for (size_t begin = first; begin < x.size(); begin += cols)
            values.insert(values.end(), x.begin() + std::ptrdiff_t(begin),
                          x.begin() + std::ptrdiff_t(begin + count));
        return values;
    }
    Values first_columns(TensorId x, uint32_t count) const { return columns(in(x), cols(x), 0, count); }
    void run(const op::HeadLinear& op) {
        const TensorView& weight = view(op.weight);
        head_linear(factor(op.x), rows(op.x), factor(op.weight, cols(op.out), weight.cols), op.heads,
                    op.first, out(op.out));
    }
    void run(const op::Pack& op) {
        Values& packed = out(op.out);
        packed.clear();
        const auto take = [&](TensorId from, const op::HeadColumns& columns, size_t head_of_all) {
            const auto begin =
                in(from).begin() + std::ptrdiff_t(head_of_all * cols(from) / op.heads + columns.first);
            packed.insert(packed.end(), begin, begin + columns.count);
        };
        // A narrower input may have columns that belong to no head: heads are 1 then.
        for (size_t i = 0; i < rows(op.a) * op.heads; ++i) {
            take(op.a, op.from_a, i);
            take(op.b, op.from_b, i);
        }
    }
    void run(const op::Mix& op) {
        mix(in(op.x), in(op.y), in(op.factors), rows(op.x), op.width, double{op.offset}, double{op.factor},
            op.first, out(op.out));
    }
    void run(const op::Gate& op) {
        gate(in(op.x), columns(in(op.gate), cols(op.gate), op.first, op.gates), op.activation, out(op.out));
    }
    void run(const op::Store& op) {
        LayerCache& cache = executor.cache_[op.layer];
        cache.keys = out(op.out) = in(op.k);
        cache.values = in(op.v);
    }
    void run(const op::Hash& op) {
        const Chunks& chunks = op.shape.chunks;
        const uint32_t size = op.shape.heads * op.shape.head_dim * chunks.rounds * chunks.rotated();
        hash(in(op.x), vector(op.rotations, size), op.shape, out(op.out));
    }
    void run(const op::Sort& op) { sort(in(op.x), cols(op.x), out(op.out)); }
    void run(const op::ChunkAttention& op) {
        chunk_attention(op.shape, in(op.q), in(op.k), in(op.v), in(op.sorted), out(op.out));
    }
    /// What a recurrence remembers, to be changed: convolved rows as keys, states as values.
    LayerCache& state(uint32_t layer, const Recurrence& shape) {
        LayerCache& mine = states.try_emplace(layer, executor.cache_[layer]).first->second;
        if (first == 0 && mine.keys.empty()) {
            mine.keys.resize(shape.convolved_floats());
            mine.values.resize(shape.state_floats() - shape.convolved_floats());
        }
        return mine;
    }
    void run(const op::Convolve& op) {
        const Recurrence& shape = op.shape;
        Values x(rows(op.x.front()) * shape.channels()), taps;
        size_t column = 0;
        for (size_t part = 0; part < op.x.size(); ++part) {
            const Values& from = in(op.x[part]);
            const size_t width = cols(op.x[part]);
            for (size_t i = 0; i < from.size(); ++i)
                x[i / width * shape.channels() + column + i % width] = from[i];
            column += width;
            const Values of_part = whole(op.taps[part], uint32_t(width), shape.taps);
            taps.insert(taps.end(), of_part.begin(), of_part.end());
        }
        convolve(shape, x, taps, vector(op.bias, shape.channels()), op.activation,
                 state(op.layer, shape).keys, out(op.out));
    }
    void run(const op::Shift& op) {
        LayerCache& mine = state(op.layer, op.shape);
        const uint32_t width = cols(op.x);
        const std::span<double> remembered =
            op.feed_forward ? std::span(mine.values).last(width) : std::span(mine.keys);
        shift(in(op.x), whole(op.shift, cols(op.out) / width, width), remembered, out(op.out));
    }
    void run(const op::Columns& op) {
        const Values& x = in(op.x);
        Values& some = out(op.out);
        const size_t width = cols(op.x), count = cols(op.out);
        for (size_t i = 0; i < some.size(); ++i) some[i] = x[i / count * width + op.first + i % count];
    }
    void run(const op::Wkv& op) {
        const uint32_t keys = op.shape.keys();
        const Values erase = vector(op.erase, keys), rate_scale = vector(op.rate_scale, keys),
                     bonus = vector(op.bonus, keys);
        wkv(op.shape, {in(op.rk), in(op.v), in(op.w), in(op.rate), erase, rate_scale, bonus},
            std::span(state(op.layer, op.shape).values).first(op.shape.scanned_floats()), out(op.out));
    }
    void run(const op::Scan& op) {
        const Recurrence& shape = op.shape;
        const Values decay = vector(op.decay, shape.decays()), bias = vector(op.step_bias, shape.steps()),
                     skip = vector(op.skip, shape.steps());
        scan(shape,
             {.qk = in(op.qk),
              .v = in(op.v),
              .steps = in(op.step),
              .betas = in(op.beta),
              .qk_cols = cols(op.qk),
              .v_cols = cols(op.v),
              .q_first = op.q_first,
              .k_first = op.k_first,
              .v_first = op.v_first,
              .q_scale = double{op.q_scale},
              .k_scale = double{op.k_scale},
              .decay = decay,
              .step_bias = bias,
              .skip = skip},
             state(op.layer, shape).values, out(op.out));
    }
    void run(const op::Select& op) {
        const Values& x = in(op.x);
        Values& selected = out(op.out);
        std::copy(x.end() - static_cast<std::ptrdiff_t>(selected.size()), x.end(), selected.begin());
    }
};

Executor::Executor(const Model& model, Rounding rounding)
    : model_(model), rounding_(std::move(rounding)), graph_(build_graph(model.architecture)),
      cache_(cache_slots(model.architecture).size()) {}

bool Executor::computes_anew(uint64_t length) const {
    if (model_.architecture.recomputes()) return length_ > 0;
    return length_ > 0 && std::ranges::any_of(model_.architecture.ropes, [&](const Rope& rope) {
               return rope_frequencies(rope, length_) != rope_frequencies(rope, length);
           });
}

void Executor::check_ids(std::span<const TokenId> ids, uint32_t vocab) {
    if (ids.empty()) fail(Status::bad_argument, "forward", "expected at least one token id, got none");
    for (const TokenId id : ids)
        if (id < 0 || static_cast<uint32_t>(id) >= vocab)
            fail(Status::bad_argument, "forward", "expected token ids below ", vocab, ", got ", id);
}

Result Executor::encode(std::span<const TokenId> ids, const Observer& observer) {
    const std::vector<Architecture>& encoder = model_.architecture.encoder;
    if (encoder.empty())
        fail(Status::unsupported, "encode", "expected an encoder-decoder, got ", model_.architecture.family);
    check_ids(ids, model_.architecture.source_vocab());
    if (encoder[0].positions != 0 && ids.size() > encoder[0].positions)
        fail(Status::context_full, "encode", "expected at most ", encoder[0].positions, " positions, got ",
             ids.size());
    reset();
    Step step{*this, encoder[0], ids, {}, 0, ids.size(), std::vector<Values>(graph_.tensors.size())};
    for (size_t i = 0; i < graph_.encoder_ops; ++i) step.run_op(graph_.ops[i], observer);
    const auto tokens = static_cast<uint32_t>(ids.size());
    Result result{tokens, tokens, {}, step.in(graph_.encoder_last_hidden), {}};
    for (const TensorId id : graph_.encoder_hidden) result.hidden.push_back(step.in(id));
    return result;
}

Result Executor::forward(std::span<const TokenId> ids, Outputs outputs, const Observer& observer,
                         std::span<const TokenId> token_types) {
    if (model_.architecture.bidirectional()) reset();
    if (!model_.architecture.encoder.empty() && cache_.back().keys.empty())
        fail(Status::bad_argument, "forward", "expected a source for the encoder first, got none");
    check_ids(ids, model_.architecture.vocab);
    for (const TokenId type : token_types)
        if (type < 0 || static_cast<uint32_t>(type) >= model_.architecture.token_types)
            fail(Status::bad_argument, "forward", "expected token types below ",
                 model_.architecture.token_types, ", got ", type);
    if (!token_types.empty() && token_types.size() != ids.size())
        fail(Status::bad_argument, "forward", "expected ", ids.size(), " token types, got ",
             token_types.size());
    const uint32_t given = graph_.given ? graph_.tensors[graph_.given->index].cols : 0;
    if (graph_.given && given_.size() != ids.size() * given)
        fail(Status::bad_argument, "forward", "expected ", ids.size(), " rows of ", given,
             " values beside the ids, got ", given_.size(), " values");
    const uint64_t most = model_.architecture.most_positions();
    if (most != 0 && ids_.size() + ids.size() > most)
        fail(Status::context_full, "forward", "expected at most ", most, " positions, got ",
             ids_.size() + ids.size());

    if (computes_anew(ids_.size() + ids.size())) {
        cache_.assign(cache_.size(), {});
        length_ = 0;
        std::vector<TokenId> all = ids_;
        all.insert(all.end(), ids.begin(), ids.end());
        Result result = run(all, outputs, observer);
        ids_ = std::move(all);
        const auto keep_last = [&](std::vector<double>& values, size_t rows) {
            values.erase(values.begin(),
                         values.end() - static_cast<std::ptrdiff_t>(values.size() / rows * ids.size()));
        };
        for (std::vector<double>& hidden : result.hidden) keep_last(hidden, ids_.size());
        if (outputs == Outputs::all) {
            keep_last(result.logits, ids_.size());
            keep_last(result.last_hidden, ids_.size());
            result.outputs = static_cast<uint32_t>(ids.size());
        }
        result.tokens = static_cast<uint32_t>(ids.size());
        return result;
    }
    Result result = model_.architecture.memory.segment != 0 ? run_segments(ids, outputs, observer)
                                                            : run(ids, outputs, observer, token_types);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return result;
}

CompressedWindow Executor::window() const {
    const CompressedMemory& memory = model_.architecture.memory;
    if (memory.segment == 0) return {};
    return compressed_window(memory, static_cast<uint32_t>(length_ / memory.segment));
}

Result Executor::run_segments(std::span<const TokenId> ids, Outputs outputs, const Observer& observer) {
    const CompressedMemory& memory = model_.architecture.memory;
    Result all;
    all.hidden.resize(graph_.hidden.size());
    for (size_t done = 0; done < ids.size();) {
        const auto segment = static_cast<uint32_t>(length_ / memory.segment);
        if (segment != segment_) {
            for (size_t i = 0; i < cache_.size(); ++i) {
                const Attention& shape = model_.architecture.layers[i].attention;
                for (std::vector<double>* rows : {&cache_[i].keys, &cache_[i].values})
                    compress(*rows, size_t{shape.kv_heads} * shape.head_dim,
                             compressed_window(memory, segment_), compressed_window(memory, segment),
                             memory.rate);
            }
            segment_ = segment;
        }
        const size_t count = std::min(ids.size() - done, memory.segment - length_ % memory.segment);
        Result part = run(ids.subspan(done, count), outputs, observer);
        done += count;
        const bool kept = outputs == Outputs::all || done == ids.size();
        const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
            to.insert(to.end(), from.begin(), from.end());
        };
        for (size_t i = 0; i < all.hidden.size(); ++i) append(all.hidden[i], part.hidden[i]);
        if (!kept) continue;
        append(all.logits, part.logits);
        append(all.last_hidden, part.last_hidden);
        all.outputs += part.outputs;
    }
    all.tokens = static_cast<uint32_t>(ids.size());
    return all;
}

Result Executor::run(std::span<const TokenId> ids, Outputs outputs, const Observer& observer,
                     std::span<const TokenId> token_types) {
    Step step{*this,
              model_.architecture,
              ids,
              token_types,
              length_,
              outputs == Outputs::all ? ids.size() : 1,
              std::vector<Values>(graph_.tensors.size())};
    if (graph_.given) step.out(*graph_.given) = given_;
    for (size_t i = graph_.encoder_ops; i < graph_.ops.size(); ++i) step.run_op(graph_.ops[i], observer);
    length_ += ids.size();
    for (auto& [layer, state] : step.states) cache_[layer] = std::move(state);

    Result result{static_cast<uint32_t>(ids.size()), static_cast<uint32_t>(step.outputs), {}, {}, {}};
    result.last_hidden = step.tensors[graph_.last_hidden.index];
    result.logits = std::move(step.tensors[graph_.logits.index]);
    for (const TensorId id : graph_.hidden) result.hidden.push_back(std::move(step.tensors[id.index]));
    return result;
}

std::vector<TokenId> Executor::greedy(std::span<const TokenId> prompt, uint32_t count) {
    std::vector<TokenId> chosen;
    std::span<const TokenId> next = prompt;
    while (chosen.size() < count) {
        const Values logits = forward(next, Outputs::last).logits;
        chosen.push_back(
            static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
        next = std::span(chosen).last(1);
    }
    return chosen;
}

void Executor::reset() {
    cache_.assign(cache_.size(), {});
    ids_.clear();
    length_ = 0;
    segment_ = 0;
}

}  // namespace scoria::reference
