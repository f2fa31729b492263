// See look.h. One trace, observed: maps where attention ran, and every tensor of the residual stream; then
// the head once per layer.
#include "look/look.h"

#include "engine.h"
#include "reference/attention.h"
#include "reference/weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace scoria::look {
namespace {

bool chosen(const std::vector<uint32_t>& wanted, uint32_t index) {
    return wanted.empty() || std::ranges::find(wanted, index) != wanted.end();
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

class Look {
  public:
    Look(Engine& engine, std::span<const TokenId> ids, std::span<const TokenId> source,
         const LookOptions& options)
        : model_(engine.model()), graph_(build_graph(model_.architecture)), options_(options),
          session_(engine) {
        insight_.ids.assign(ids.begin(), ids.end());
        insight_.source.assign(source.begin(), source.end());
        for (size_t i = 0; i < graph_.ops.size(); ++i) made_by_[output_of(graph_.ops[i])] = i;
        for (const std::vector<TensorId>* stack : {&graph_.encoder_hidden, &graph_.hidden})
            for (size_t i = 0; i < stack->size(); ++i) {
                kept_[(*stack)[i]];
                for (const size_t added : additions(*stack, i)) {
                    const auto& add = std::get<op::Add>(graph_.ops[added]);
                    kept_[add.a], kept_[add.out];
                }
            }
        check_choice();
    }

    Insight run() {
        session_.trace(
            insight_.ids, [&](const PlannedKernel& kernel, const TraceFetch& fetch) { see(kernel, fetch); },
            insight_.source);
        std::ranges::stable_sort(insight_.maps, {}, [](const AttentionMap& map) {
            return std::tuple(map.kind, map.layer, map.head);
        });
        norms(graph_.encoder_hidden, true);
        norms(graph_.hidden, false);
        lens();
        return std::move(insight_);
    }

  private:
    void check_choice() const {
        const Architecture& architecture = model_.architecture;
        size_t layers = architecture.layers.size(), heads = 0;
        const auto count_heads = [&](const Architecture& stack) {
            for (const Layer& layer : stack.layers) heads = std::max<size_t>(heads, layer.attention.heads);
        };
        count_heads(architecture);
        for (const Architecture& encoder : architecture.encoder) {
            count_heads(encoder);
            layers = std::max(layers, encoder.layers.size());
        }
        for (const uint32_t layer : options_.layers)
            if (layer >= layers)
                fail(Status::bad_argument, "look", "expected layers below ", layers, ", got ", layer);
        for (const uint32_t head : options_.heads)
            if (head >= heads)
                fail(Status::bad_argument, "look", "expected heads below ", heads, ", got ", head);
    }

    /// The ops that add to the stream between stack[i - 1] and stack[i], last first.
    std::vector<size_t> additions(const std::vector<TensorId>& stack, size_t i) const {
        std::vector<size_t> found;
        if (i == 0) return found;
        for (TensorId at = stack[i]; at != stack[i - 1];) {
            const auto made = made_by_.find(at);
            if (made == made_by_.end()) break;
            const Op& op = graph_.ops[made->second];
            if (graph_.layers[made->second] < 0) break;
            if (const auto* add = std::get_if<op::Add>(&op)) {
                found.push_back(made->second);
                at = add->a;
            } else if (const auto* norm = std::get_if<op::Norm>(&op)) {
                at = norm->x;
            } else {
                break;
            }
        }
        return found;
    }

    void note(const char* text) {
        if (std::ranges::find(insight_.notes, text) == insight_.notes.end()) insight_.notes.push_back(text);
    }

    void see(const PlannedKernel& planned, const TraceFetch& fetch) {
        for (const TensorId& tensor : planned.results)
            if (const auto kept = kept_.find(tensor); kept != kept_.end()) {
                const std::vector<float> values = fetch(tensor);
                kept->second.insert(kept->second.end(), values.begin(), values.end());
            }
        if (std::holds_alternative<kernel::ChunkAttention>(planned.kernel))
            note("No attention maps: in this family chunks of a sorted list see each other, which is no "
                 "matrix of queries and keys.");
        if (std::holds_alternative<kernel::Convolve>(planned.kernel))
            note("No attention maps of layers with a recurrence: they have states, and no keys.");
        if (const auto* attention = std::get_if<kernel::Attention>(&planned.kernel))
            see_attention(*attention, uint32_t(planned.layer), fetch);
    }

    void see_attention(const kernel::Attention& kernel, uint32_t layer, const TraceFetch& fetch) {
        const size_t index = made_by_.at(kernel.out);
        const auto& op = std::get<op::Attention>(graph_.ops[index]);
        if (kernel.shape.mask == Mask::global_rows)
            return note("No token is global here: maps show the sliding window alone.");
        if (!chosen(options_.layers, layer)) return;
        const bool encoder = index < graph_.encoder_ops, cross = kernel.shape.mask == Mask::source;
        const std::vector<double> q = doubles(fetch(kernel.q));
        const uint32_t queries = uint32_t(q.size() / (kernel.shape.heads * kernel.shape.head_dim)),
                       first = encoder ? 0 : uint32_t(session_.tokens().size()),
                       keys = cross ? source_tokens() : first + queries;
        const std::vector<double> cached = doubles(session_.cached_keys(kernel.layer, keys)),
                                  distances = kernel.distances ? doubles(fetch(*kernel.distances))
                                                               : std::vector<double>(),
                                  chosen_keys =
                                      kernel.chosen ? doubles(fetch(*kernel.chosen)) : std::vector<double>(),
                                  bias = weight(op.bias), sinks = weight(op.sinks);
        const CompressedMemory& memory = model_.architecture.memory;
        reference::AttentionInputs in{.q = q,
                                      .keys = cached,
                                      .values = {},
                                      .first = first,
                                      .bias = bias,
                                      .sinks = sinks,
                                      .distances = distances,
                                      .distance_values = {},
                                      .chosen = chosen_keys,
                                      .chosen_cols = chosen_keys.size() / queries};
        if (memory.segment) {
            in.low = compressed_window(memory, first / memory.segment).low;
            note("Keys of segments before the last are averages of several tokens (a compressed memory).");
        }
        if (!sinks.empty()) note("Rows of maps sum to less than 1: the rest goes to the head's sink.");
        const Seen kind = encoder ? Seen::encoder : cross ? Seen::cross : Seen::self;
        for (uint32_t head = 0; head < kernel.shape.heads; ++head)
            if (chosen(options_.heads, head)) add_rows(kind, layer, head, kernel.shape, in);
    }

    /// Rows of one more batch to the map of a head.
    void add_rows(Seen kind, uint32_t layer, uint32_t head, const Attention& shape,
                  const reference::AttentionInputs& in) {
        const uint32_t all = uint32_t(kind == Seen::self ? insight_.ids.size() : source_tokens());
        auto map = std::ranges::find_if(insight_.maps, [&](const AttentionMap& each) {
            return each.kind == kind && each.layer == layer && each.head == head;
        });
        if (map == insight_.maps.end())
            map = insight_.maps.insert(map, AttentionMap{kind, layer, head, 0, all, {}});
        std::vector<std::pair<size_t, double>> row;
        const size_t queries = in.q.size() / (size_t{shape.heads} * shape.head_dim);
        for (size_t t = 0; t < queries; ++t) {
            reference::attention_weights(shape, in, t, head, row);
            map->weights.resize(size_t{++map->queries} * all);
            for (const auto& [key, share] : row)
                map->weights[size_t{map->queries - 1} * all + key] = float(share);
        }
    }

    uint32_t source_tokens() const {
        return uint32_t(insight_.source.empty() ? insight_.ids.size() : insight_.source.size());
    }

    std::vector<double> weight(const std::optional<WeightRef>& ref) const {
        return ref ? reference::values_of(*model_.tensors, model_.weights.at(*ref)) : std::vector<double>();
    }

    /// Norms of the rows of a - b.
    void add_norm(bool encoder, int32_t layer, std::string what, const std::vector<float>& a,
                  const std::vector<float>& b, uint32_t cols) {
        if (a.empty() || (!b.empty() && a.size() != b.size())) return;
        StreamNorm norm{encoder, layer, std::move(what), 0, 0};
        const size_t rows = a.size() / cols;
        for (size_t r = 0; r < rows; ++r) {
            double squares = 0;
            for (size_t c = r * cols; c < (r + 1) * cols; ++c) {
                const double value = double(a[c]) - (b.empty() ? 0 : double(b[c]));
                squares += value * value;
            }
            norm.mean += std::sqrt(squares) / double(rows);
            norm.max = std::max(norm.max, std::sqrt(squares));
        }
        insight_.norms.push_back(std::move(norm));
    }

    void norms(const std::vector<TensorId>& stack, bool encoder) {
        for (size_t i = 0; i < stack.size(); ++i) {
            const int32_t layer = int32_t(i) - 1;
            std::vector<size_t> added = additions(stack, i);
            std::ranges::reverse(added);
            for (const size_t index : added) {
                const auto& add = std::get<op::Add>(graph_.ops[index]);
                const GraphTensor& tensor = graph_.tensors[add.out.index];
                // "layer 3 feed-forward residual": whose output it is that was added.
                std::string what = tensor.name.substr(tensor.name.find_last_of("0123456789") + 2);
                what = what.substr(0, what.rfind(' '));
                add_norm(encoder, layer, what, kept_[add.out], kept_[add.a], tensor.cols);
            }
            add_norm(encoder, layer, "stream", kept_[stack[i]], {}, graph_.tensors[stack[i].index].cols);
        }
    }

    void lens() {
        const Architecture& architecture = model_.architecture;
        if (!architecture.has_head) return note("No logit lens: this model has no output head.");
        if (architecture.two_streams)
            return note("No logit lens: the head reads two streams, of which a layer changes one at a time.");
        for (size_t i = 0; i < graph_.hidden.size(); ++i) {
            const int32_t layer = int32_t(i) - 1;
            const bool last = i + 1 == graph_.hidden.size();
            if (!last && !options_.layers.empty() && (layer < 0 || !chosen(options_.layers, uint32_t(layer))))
                continue;
            LensRow row{layer, {}};
            const std::span<const float> stream = kept_[graph_.hidden[i]];
            const size_t batch = size_t{session_.head_rows()} * architecture.stream_width();
            for (size_t first = 0; first < stream.size(); first += batch) {
                const std::vector<float> logits =
                    session_.head(stream.subspan(first, std::min(batch, stream.size() - first)));
                for (size_t at = 0; at < logits.size(); at += architecture.logits())
                    row.positions.push_back(
                        best(std::span(logits).subspan(at, architecture.logits()), options_.candidates));
            }
            insight_.lens.push_back(std::move(row));
        }
    }

    /// The likeliest `count` tokens; equal ones by id.
    static std::vector<Candidate> best(std::span<const float> logits, size_t count) {
        std::vector<TokenId> order(logits.size());
        std::iota(order.begin(), order.end(), 0);
        count = std::min(count, order.size());
        std::ranges::partial_sort(order, order.begin() + std::ptrdiff_t(count), [&](TokenId a, TokenId b) {
            return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
        });
        const double most = double(logits[size_t(order[0])]);
        double sum = 0;
        for (const float logit : logits) sum += std::exp(double(logit) - most);
        std::vector<Candidate> result;
        for (size_t i = 0; i < count; ++i)
            result.push_back({order[i], float(std::exp(double(logits[size_t(order[i])]) - most) / sum)});
        return result;
    }

    const Model& model_;
    const Graph graph_;  // whole, where several devices have a part each
    const LookOptions& options_;
    Session session_;
    Insight insight_;
    std::map<TensorId, size_t> made_by_;           // index of the op
    std::map<TensorId, std::vector<float>> kept_;  // tensors of the streams
};

}  // namespace

Insight look_into(Engine& engine, std::span<const TokenId> ids, std::span<const TokenId> source,
                  const LookOptions& options) {
    if (ids.empty()) fail(Status::bad_argument, "look", "expected at least one token, got none");
    return Look(engine, ids, source, options).run();
}

}  // namespace scoria::look
