// Plain forward passes: all logits and hidden states of given tokens, the encoder's pass, a pass kernel by
// kernel, and what else shows the inside of a model: its keys, its head alone.
#include "fail.h"
#include "ops/kv_layout.h"
#include "session.h"
#include "session_impl.h"
#include "step.h"
#include "validate/cache_tools.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace scoria {
namespace {

/// Copies graph tensors of a batch to the host as soon as they stand: later kernels overwrite them.
class ResultCopies {
  public:
    void want(TensorId tensor, std::vector<float>& target) { targets_.emplace(tensor, &target); }
    void record(vk::Recorder& recorder, const Batch& batch, const PlannedKernel& kernel) {
        for (const TensorId t : kernel.results) {
            const auto [first, last] = targets_.equal_range(t);
            if (first == last) continue;
            const Matrix m = batch.matrix(t);
            const uint64_t bytes = 4ull * m.rows * m.cols;
            buffers_.emplace_back(vk::Buffer(recorder.device(), bytes, vk::MemoryUse::readback), t);
            recorder.copy(m.view.slice(4ull * m.first, bytes), buffers_.back().first.view());
        }
    }
    /// Appends what was copied to the targets; the batch has run.
    void collect() {
        for (const auto& [buffer, tensor] : buffers_) {
            const auto* floats = reinterpret_cast<const float*>(buffer.mapped().data());
            const auto [first, last] = targets_.equal_range(tensor);
            for (auto target = first; target != last; ++target)
                target->second->insert(target->second->end(), floats, floats + buffer.size() / 4);
        }
    }

  private:
    std::multimap<TensorId, std::vector<float>*> targets_;
    std::vector<std::pair<vk::Buffer, TensorId>> buffers_;
};

}  // namespace

void Session::Impl::check_forward(std::span<const TokenId> ids, std::span<const TokenId> token_types) {
    const Architecture& architecture = engine.model->architecture;
    if (!architecture.encoder.empty()) needs_decoder("forward");
    if (architecture.bidirectional() && ids.size() > forward_chunk())
        fail(Status::context_full, "forward", "expected at most ", forward_chunk(), " tokens, got ",
             ids.size());
    architecture.bidirectional() ? check_vocabulary(ids, architecture.vocab) : check_ids(ids);
    if (!token_types.empty() && token_types.size() != ids.size())
        fail(Status::bad_argument, "forward", "expected ", ids.size(), " token types, got ",
             token_types.size());
    for (const TokenId type : token_types)
        if (type < 0 || uint32_t(type) >= architecture.token_types)
            fail(Status::bad_argument, "forward", "expected token types below ", architecture.token_types,
                 ", got ", type);
    if (!architecture.bidirectional()) return;
    tokens.clear();
    computed = 0;
}

std::vector<uint32_t> Session::Impl::type_words(size_t ids, std::span<const TokenId> token_types,
                                                std::span<const TokenId> global) const {
    if (!global.empty() && !engine.knows_global_tokens())
        fail(Status::unsupported, "forward", "expected a model with global tokens, got ",
             engine.model->architecture.family);
    if (!global.empty() && global.size() != ids)
        fail(Status::bad_argument, "forward", "expected ", ids, " marks of global tokens, got ",
             global.size());
    if (token_types.empty() && global.empty()) return {};
    std::vector<uint32_t> words(ids, 0);
    for (size_t t = 0; t < token_types.size(); ++t) words[t] = uint32_t(token_types[t]);
    for (size_t t = 0; t < global.size(); ++t)
        if (global[t] != 0) words[t] |= STEP_TOKEN_GLOBAL;
    return words;
}

ForwardResult Session::forward(std::span<const TokenId> ids, bool hidden_states,
                               std::span<const TokenId> token_types, std::span<const TokenId> global,
                               Outputs outputs) {
    Impl& s = *impl_;
    return s.engine.survive(
        [&]() -> ForwardResult {
            s.ready();
            s.check_forward(ids, token_types);
            const std::vector<uint32_t> types = s.type_words(ids.size(), token_types, global);
            s.set_rotations(s.tokens.size() + ids.size());
            const Architecture& architecture = s.engine.model->architecture;
            std::vector<TokenId> all;  // the batch, where the whole sequence is computed anew
            const size_t before = architecture.recomputes() ? s.tokens.size() : 0;
            if (architecture.recomputes()) {
                all = s.tokens;
                all.insert(all.end(), ids.begin(), ids.end());
            } else if (s.computed < s.tokens.size()) {
                s.compute_rest(nullptr);
            }
            const bool last = outputs == Outputs::last_hidden && !ids.empty(),
                       logits = outputs == Outputs::logits;
            ForwardResult result{.tokens = last ? 1 : uint32_t(ids.size()),
                                 .vocab = architecture.logits(),
                                 .hidden_size = architecture.stream_width()};
            if (hidden_states) result.hidden.resize(s.engine.graph.hidden.size());
            const uint32_t chunk = last ? s.engine.layout.tokens : s.forward_chunk();
            const Impl::Stage stage = logits || hidden_states ? Impl::Stage::decoder : Impl::Stage::hidden;
            if (stage == Impl::Stage::decoder || !architecture.has_head)
                s.reserve_logits(last ? 1 : std::min(chunk, uint32_t(ids.size())));

            for (size_t done = 0; done < ids.size();) {
                const std::span<const TokenId> part =
                    ids.subspan(done, s.tokens_of_batch(uint32_t(s.tokens.size()),
                                                        std::min<size_t>(ids.size() - done, chunk)));
                Impl::Rows rows(part.size());
                std::iota(rows.begin(), rows.end(), all.empty() ? 0 : uint32_t(before + done));
                if (last) rows.erase(rows.begin(), rows.end() - (done + part.size() == ids.size() ? 1 : 0));
                const std::span<const TokenId> run = all.empty() ? part : all;
                ResultCopies copies;
                for (size_t i = 0; i < result.hidden.size() && (all.empty() || done == 0); ++i)
                    copies.want(s.engine.graph.hidden[i], result.hidden[i]);
                copies.want(s.engine.graph.last_hidden, result.last_hidden);
                if (logits) copies.want(s.engine.graph.logits, result.logits);
                s.logits_ready = false;
                s.run_chunk(
                    run, all.empty() ? uint32_t(s.tokens.size()) : 0, rows,
                    [&](auto& recorder, const Batch& batch, auto& kernel) {
                        copies.record(recorder, batch, kernel);
                    },
                    types.empty() ? std::span<const uint32_t>() : std::span(types).subspan(done, part.size()),
                    stage);
                copies.collect();
                s.tokens.insert(s.tokens.end(), part.begin(), part.end());
                s.computed = uint32_t(s.tokens.size());
                done += part.size();
            }
            for (std::vector<float>& hidden : result.hidden)
                if (!ids.empty())
                    hidden.erase(hidden.begin(),
                                 hidden.begin() + std::ptrdiff_t(before * architecture.stream_width()));
            return result;
        },
        false);
}

ForwardResult Session::encode(std::span<const TokenId> ids, bool hidden_states,
                              std::span<const TokenId> global) {
    Impl& s = *impl_;
    return s.engine.survive(
        [&]() -> ForwardResult {
            const Architecture& architecture = s.engine.model->architecture;
            if (architecture.encoder.empty())
                fail(Status::unsupported, "encode", "expected an encoder-decoder, got ", architecture.family);
            s.check_vocabulary(ids, architecture.source_vocab());
            if (ids.empty() || ids.size() > s.engine.memory.source)
                fail(ids.empty() ? Status::bad_argument : Status::context_full, "encode", "expected 1 to ",
                     s.engine.memory.source, " tokens, got ", ids.size());
            (void)s.type_words(ids.size(), {}, global);  // what may be wrong with it
            s.source_ids.clear();
            s.source = 0;
            truncate(0);
            s.ready();
            ForwardResult result{uint32_t(ids.size()), 0, architecture.hidden, {}, {}, {}};
            if (hidden_states) result.hidden.resize(s.engine.graph.encoder_hidden.size());
            ResultCopies copies;
            for (size_t i = 0; i < result.hidden.size(); ++i)
                copies.want(s.engine.graph.encoder_hidden[i], result.hidden[i]);
            copies.want(s.engine.graph.encoder_last_hidden, result.last_hidden);
            s.source_ids.assign(ids.begin(), ids.end());
            s.source_global.assign(global.begin(), global.end());
            try {
                s.run_encoder([&](auto& recorder, const Batch& batch, auto& kernel) {
                    copies.record(recorder, batch, kernel);
                });
            } catch (...) {
                s.source_ids.clear();
                throw;
            }
            copies.collect();
            return result;
        },
        false);
}

void Session::Impl::run_encoder(const Capture& capture) {
    run_chunk(source_ids, 0, {}, capture, type_words(source_ids.size(), {}, source_global), Stage::encoder);
    source = uint32_t(source_ids.size());
}

void Session::Impl::trace(size_t first, size_t end, std::span<const TokenId> ids, uint32_t position,
                          bool outputs, const TraceObserver& observer) {
    if (front) {
        front->prefix = prefix;
        front->writes(position, ids.size());
        front->trace(0, front->engine.plan.kernels.size(), ids, position, false, observer);
        hand_over(uint32_t(ids.size()));
    }
    bring_given(position, uint32_t(ids.size()));
    Rows rows(outputs ? ids.size() : 0);
    std::iota(rows.begin(), rows.end(), 0u);
    reserve_scratch(uint32_t(ids.size()), uint32_t(rows.size()));
    enter_segment(position);
    Batch work = batch(uint32_t(ids.size()), uint32_t(rows.size()));
    std::map<uint32_t, uint32_t> spread;  // head dims, by tensor
    const TraceFetch fetch = [&](const TensorId& tensor) {
        const Matrix m = work.matrix(tensor);
        std::vector<float> all = read_floats(m.view, m.view.size / 4), packed;
        for (uint32_t r = 0; r < m.rows; ++r) {
            const auto row = all.begin() + m.first + std::ptrdiff_t(r) * m.stride;
            packed.insert(packed.end(), row, row + m.cols);
        }
        if (const auto found = spread.find(tensor.index); found != spread.end())
            spread_heads(std::span(packed), found->second);
        return packed;
    };
    for (size_t i = first; i < end; ++i) {
        run([&](vk::Recorder& recorder) {
            if (i == first) write_step(recorder, ids, position, rows);
            if (i == first) receive(recorder, work);
            work.record(recorder, i);
            if (i + 1 == end) send(recorder, work);
        });
        if (const auto* k = std::get_if<kernel::RopeCache>(&engine.plan.kernels[i].kernel)) {
            const DeviceKv& kv = cache->layer(k->layer);
            if (k->shape.heads && kv_spread(kv.type, kv.planes)) spread[k->rotated.index] = kv.head_dim;
        }
        observer(engine.plan.kernels[i], fetch);
    }
}

void Session::trace(std::span<const TokenId> ids, const TraceObserver& observer,
                    std::span<const TokenId> source) {
    Impl& s = *impl_;
    return s.engine.survive(
        [&]() -> void {
            s.ready();
            const Architecture& architecture = s.engine.model->architecture;
            const size_t encoder_kernels = s.engine.plan.encoder_kernels;
            const bool whole = architecture.bidirectional() || architecture.recomputes();
            if (encoder_kernels != 0 || whole) truncate(0);
            s.check_ids(ids);
            if (whole && ids.size() > s.forward_chunk())
                fail(Status::bad_argument, "trace", "expected at most ", s.forward_chunk(), " tokens, got ",
                     ids.size());
            s.set_rotations(s.tokens.size() + ids.size());
            if (s.computed < s.tokens.size()) s.compute_rest(nullptr);
            s.reserve_logits(uint32_t(std::min<size_t>(s.forward_chunk(), ids.size())));
            s.logits_ready = false;
            if (encoder_kernels != 0) {
                const std::span<const TokenId> from = source.empty() ? ids : source;
                s.check_vocabulary(from, s.engine.model->architecture.source_vocab());
                if (from.size() > s.engine.memory.source)
                    fail(Status::context_full, "trace", "expected at most ", s.engine.memory.source,
                         " tokens of the source, got ", from.size());
                s.source_ids.assign(from.begin(), from.end());
                s.source_global.clear();
                s.source = uint32_t(from.size());
                try {
                    s.writes(0, from.size());
                    s.trace(0, encoder_kernels, from, 0, false, observer);
                } catch (...) {  // a source that was not computed is none
                    s.source_ids.clear();
                    s.source = 0;
                    throw;
                }
            }
            for (size_t done = 0; done < ids.size();) {
                const uint32_t count = s.tokens_of_batch(
                    uint32_t(s.tokens.size()), std::min<size_t>(ids.size() - done, s.forward_chunk()));
                const std::span<const TokenId> part = ids.subspan(done, count);
                s.writes(uint32_t(s.tokens.size()), count);
                s.trace(encoder_kernels, s.engine.plan.kernels.size(), part, uint32_t(s.tokens.size()), true,
                        observer);
                s.tokens.insert(s.tokens.end(), part.begin(), part.end());
                s.computed = uint32_t(s.tokens.size());
                done += count;
            }
        },
        false);
}

std::vector<float> Session::cached_keys(uint32_t slot, uint32_t positions) {
    const auto lock = impl_->engine.use();
    Impl* part = impl_.get();
    while (part->front && !part->engine.layers.has(layer_of_slot(part->engine.model->architecture, slot)))
        part = part->front.get();
    Impl& s = *part;
    if (!s.cache)
        fail(Status::bad_argument, "cache", "expected keys on the device, got a session that was evicted");
    const DeviceKv& kv = s.cache->layer(slot);
    const std::span<const uint32_t> entries = s.cache.table().first(
        std::min({size_t{kv_blocks_for(positions)}, size_t{kv.ring}, s.cache.table().size()}));
    const std::vector<uint32_t> table(entries.begin(), entries.end());
    const uint32_t end = table.empty() ? 0 : std::ranges::max(table) + 1;
    validate::HostCache host(kv.type, kv.kv_heads, kv.head_dim, end * kv_block_tokens, 1, 0, kv.planes);
    for (const DeviceKv::Shard& shard : kv.shards) {
        if (shard.first_block >= end) break;
        const size_t blocks = std::min(shard.blocks, end - shard.first_block);
        const std::vector<float> words = s.read_floats(shard.view, blocks * host.block_words());
        std::memcpy(&host.words[size_t(shard.first_block) * host.block_words()], words.data(),
                    4 * words.size());
    }
    std::vector<float> keys;
    for (uint32_t position = 0; position < positions; ++position)
        for (uint32_t column = 0; column < kv.kv_heads * kv.head_dim; ++column)
            keys.push_back(float(host.get(table, false, position, column)));
    if (kv_spread(kv.type, kv.planes)) spread_heads(std::span(keys), kv.head_dim);
    return keys;
}

std::vector<float> Session::head(std::span<const float> stream) {
    Impl& s = *impl_;
    const Architecture& architecture = s.engine.model->architecture;
    if (!architecture.has_head)
        fail(Status::unsupported, "head", "expected a model with an output head, got ", architecture.family);
    const uint32_t width =
                       architecture.two_streams ? architecture.output_width() : architecture.stream_width(),
                   rows = uint32_t(stream.size() / width);
    if (stream.empty() || stream.size() % width != 0 || rows > s.forward_chunk())
        fail(Status::bad_argument, "head", "expected 1 to ", s.forward_chunk(), " rows of ", width,
             " values, got ", stream.size(), " values");
    return s.engine.survive([&] {
        s.ready();
        s.reserve_logits(rows);
        s.reserve_scratch(rows, rows);
        s.logits_ready = false;
        size_t first = s.body_kernels();
        Batch work = s.batch(rows, rows);
        TensorId stream_out = std::get<op::Select>(s.engine.plan.kernels[first].kernel).x;
        if (architecture.shows_head() && architecture.output_norm)
            stream_out = std::get<kernel::Norm>(s.engine.plan.kernels[--first].kernel).x;
        const Matrix to = work.matrix(stream_out);
        const vk::Buffer staging(s.engine.device, to.view.size, vk::MemoryUse::staging);
        for (uint32_t r = 0; r < rows; ++r)
            std::memcpy(staging.mapped().data() + 4 * (to.first + size_t{r} * to.stride),
                        &stream[size_t{r} * width], 4 * width);
        Impl::Rows all(rows);
        std::iota(all.begin(), all.end(), 0u);
        s.run([&](vk::Recorder& recorder) {
            s.write_step(recorder, std::vector<TokenId>(rows), uint32_t(s.tokens.size()), all);
            recorder.copy(staging.view(), to.view);
            for (size_t i = first; i < s.engine.plan.kernels.size(); ++i) work.record(recorder, i);
        });
        return s.read_floats(s.workspace.logits.view(), size_t{rows} * architecture.logits());
    });
}

}  // namespace scoria
