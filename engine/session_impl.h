// What a Session owns; for session.cpp, generate.cpp and forward.cpp only.
#pragma once

#include "batch.h"
#include "engine.h"
#include "ops/sample.h"
#include "session.h"
#include "slices.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>

namespace scoria {

inline constexpr uint32_t result_slots = 64;

/// What a recorded sampling does beyond what the sampler buffer says.
struct SampleKind {
    bool greedy = false;
    std::optional<uint32_t> logprobs = std::nullopt;  // how many of the likeliest
    bool operator==(const SampleKind&) const = default;
};

struct Session::Impl {
    explicit Impl(Engine::Impl& owner);
    ~Impl();
    /// Makes what a session has on the device, if it has nothing there; the encoder's part too. Call it
    /// inside Engine::Impl::survive().
    void ready();
    void take_memory();
    /// Gives up all of it; keys and values are then of no token, the encoder's of none.
    void release() noexcept;

    using Rows = std::vector<uint32_t>;
    /// Called after each kernel is recorded, to add copies of its results.
    using Capture = std::function<void(vk::Recorder&, const Batch&, const PlannedKernel&)>;

    Batch batch(uint32_t token_count, uint32_t outputs) const {
        return Batch(*engine.weights, cache, workspace, token_count, outputs);
    }
    /// Tokens of a batch whose logits are all wanted.
    uint32_t forward_chunk() const { return std::min(workspace.layout.outputs, workspace.layout.tokens); }
    /// Kernels [first, end) for `ids` from `position` on, each in a submission of its own.
    void trace(size_t first, size_t end, std::span<const TokenId> ids, uint32_t position, bool outputs,
               const TraceObserver& observer);
    /// What forward() checks before it computes anything.
    void check_forward(std::span<const TokenId> ids, std::span<const TokenId> token_types);
    /// The words STEP_TOKEN_TYPE of a whole encoder sequence; empty: all 0. Errors: bad_argument,
    /// unsupported.
    std::vector<uint32_t> type_words(size_t ids, std::span<const TokenId> token_types,
                                     std::span<const TokenId> global) const;
    /// Errors: unsupported, for an encoder, which `what` makes no sense of; bad_argument, for a decoder
    /// without the source that it needs.
    void needs_decoder(const char* what) const;
    /// Kernels that a batch without outputs needs: all before the first that works on output rows.
    size_t body_kernels() const;
    /// Which kernels run: the encoder's, or all others.
    enum class Stage : uint8_t { encoder, decoder };
    /// Records writes of `words` from `word` of `buffer` on, in pieces that vkCmdUpdateBuffer takes.
    static void write_words(vk::Recorder& recorder, const vk::Buffer& buffer, uint32_t word,
                            std::span<const uint32_t> words);
    // Where several devices share the layers, what crosses from the one before, and to the one behind:
    /// Brings the residual stream of `count` tokens, which `front` has computed, to `incoming`.
    void hand_over(uint32_t count);
    void receive(vk::Recorder& recorder, const Batch& work) const;
    void send(vk::Recorder& recorder, const Batch& work) const;
    /// Computes a decode step or a guess on the devices before this one, replayed.
    void bring_step(std::span<const TokenId> ids, uint32_t position);
    bool holds(uint32_t position, uint32_t since) const {
        return cache.holds(position, since) && (!front || front->holds(position, since));
    }
    void write_step(vk::Recorder& recorder, std::span<const TokenId> ids, uint32_t position,
                    const Rows& outputs, std::span<const uint32_t> types = {}) const;
    /// Runs the encoder over source_ids. The batch's results are copied by `capture`.
    void run_encoder(const Capture& capture = {});
    void run_chunk(std::span<const TokenId> ids, uint32_t position, const Rows& outputs,
                   const Capture& capture = {}, std::span<const uint32_t> types = {},
                   Stage stage = Stage::decoder);
    /// Tokens from `position` on that one batch may take, at most `limit`: a segment's.
    uint32_t tokens_of_segment(uint32_t position, size_t limit) const;
    /// Compresses the memory for the segment that `position` is in.
    void enter_segment(uint32_t position);
    /// Begins anew where the cache holds averages, or later tokens, in place of what the next token sees.
    void forget_overwritten();
    /// To be called before `count` positions from `first` on are computed.
    void writes(uint32_t first, size_t count) {
        written = std::max(first == 0 ? 0 : written, first + uint32_t(count));
    }
    /// Errors: bad_argument.
    void check_vocabulary(std::span<const TokenId> ids, uint32_t vocab) const;
    /// The same, and context_full.
    void check_ids(std::span<const TokenId> ids) const;
    void reserve_logits(uint32_t rows);
    /// What single ops of a batch of `token_count` tokens keep for themselves; call before recording it.
    void reserve_scratch(uint32_t token_count);
    /// Computes keys and values of all tokens, and the logits of the last.
    void compute_pending(const std::atomic<bool>* cancel);
    [[noreturn]] void fail_cancelled() const;
    /// The same with the rotations as they are.
    void compute_rest(const std::atomic<bool>* cancel);
    void upload_rotations();
    /// Where rotations depend on the sequence's length: whether they are others at `length` positions.
    bool rotations_change(uint64_t length) const;
    /// Makes the rotary tables those of `length` positions; if that changes them, cached keys are no more.
    void set_rotations(uint64_t length);
    /// Tokens that can be sampled one after the other before rotations change; at most `limit`.
    uint32_t tokens_before_change(uint32_t limit) const;
    std::vector<float> read_floats(const vk::View& view, size_t count);
    vk::Device::Ticket submit(const vk::Commands& commands);
    /// Errors: timeout after a minute, ten on a CPU driver, whose machine may be busy otherwise.
    void wait(vk::Device::Ticket ticket) const {
        engine.device.wait(ticket, std::chrono::minutes(engine.device.caps().is_cpu() ? 10 : 1));
    }
    /// Submits and waits. When it throws, the commands do not run any more.
    void run(const vk::Commands& commands);
    /// Waits for work that a failed call left behind (a time-out, say): it runs on these buffers.
    void outlast() noexcept;
    /// Submits, when at most one is on its way.
    vk::Device::Ticket submit_slice(Slice slice);
    /// Waits for the oldest on its way and learns its time.
    void land();
    void land_all() {
        while (!flight.empty()) land();
    }
    /// As wait(), and lands what was submitted before.
    void land_until(vk::Device::Ticket ticket);

    /// Records the map of the layer watched, if kernel `index` is its attention.
    void watch(vk::Recorder& recorder, const Batch& work, size_t index) const {
        if (watched == index) work.record_attended(recorder, index, map.view());
    }
    vk::Buffer map_of(size_t kernel) const;
    SharedView shared_map() const;

    /// `end` records what follows the kernels; may be empty.
    void record_step(Step& step, uint32_t count, const std::function<void(vk::Recorder&)>& end);
    /// Whether a step is recorded, and cut about as it would be now.
    bool stands(const Step& step, uint32_t count) const;
    vk::Device::Ticket submit_step(Step& step, uint32_t count);
    vk::Device::Ticket submit_decode(const SampleKind& kind);
    /// Samples the logits of token 0 of the step buffer and puts the next token in its place.
    void sample(vk::Recorder& recorder, const SampleKind& kind) const {
        sample(recorder, kind, {.to_slot = 0});
    }
    /// Where one sampling reads and writes: logits of row `row`, which are of slot `row` of the step buffer.
    struct SampleRow {
        uint32_t row = 0, to_slot = 0;
        std::optional<TokenId> guess = std::nullopt;  // SampleArgs::guess
    };
    void sample(vk::Recorder& recorder, const SampleKind& kind, const SampleRow& at) const;
    /// Of the step buffer's `count` tokens, at most longest_pass(), the logits of all.
    vk::Device::Ticket submit_pass(uint32_t count);
    uint32_t longest_pass() const;
    void invalidate_decode() {
        decode_recorded.reset();
        passes.clear();
    }
    /// Forgets keys and values from position `length` on: the only way back.
    void rewind(uint32_t length);

    Engine::Impl& engine;
    std::unique_ptr<Impl> front;    // of Engine::Impl::front
    vk::Buffer incoming, outgoing;  // the residual stream in host memory
    vk::Commands step_update;       // of bring_step()
    bool on_device = false;         // the members down to `decode_recorded` stand
    KvCache cache;
    Workspace workspace;
    vk::Buffer sampler, sample_scratch;
    vk::Buffer results;             // ring of sampled {token, status}
    vk::Buffer top;                 // ring of what log-probabilities are made of; empty until asked for
    std::optional<size_t> watched;  // kernel of the plan
    vk::Buffer map;                 // of its last token's weights, as long as it is watched
    Step decode;
    std::map<uint32_t, Step> passes;      // by count
    std::set<uint32_t> scratch_for;       // tokens of a batch that the scratch was sized for
    std::vector<vk::Commands> abandoned;  // of calls that failed while they ran
    std::deque<Slice> flight;  // two at most: a host's work on the queue waits for no more of a session
    std::chrono::steady_clock::time_point idle_since;  // when the device last had none of them
    const std::atomic<bool>* stop = nullptr;           // of the call that computes tokens: between slices
    double slice_seconds = 0;                          // of the device, that the last one landed took
    vk::Device::TimelinePoint host_point;              // the next submission waits for it
    vk::Device::Ticket last_submitted;
    std::optional<SampleKind> decode_recorded;
    std::vector<TokenId> tokens;
    uint32_t prefix = 0;                             // tokens that see each other
    uint32_t source = 0;                             // tokens that the encoder saw, and the cache holds
    std::vector<TokenId> source_ids, source_global;  // what encode() was given
    uint32_t segment = 0;                            // that the compressed memory stands at
    uint64_t rotated_length = 0;                     // what rotations are for
    uint32_t computed = 0;                           // tokens whose keys and values are in the cache
    uint32_t written = 0;           // positions that were, since the sequence began; see KvCache::holds
    bool logits_ready = false;      // row 0 of the logits is of tokens[computed - 1]
    std::vector<double> submit_us;  // thread CPU time of each replayed step's submission
};

}  // namespace scoria
