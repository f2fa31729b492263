// What a Session owns; for the engine room only.
#pragma once

#include "ops/sample.h"
#include "session.h"
#include "states.h"
#include "tenant.h"
#include "token_rows.h"

#include <functional>
#include <map>

namespace scoria {

inline constexpr uint32_t result_slots = 64;

/// What a recorded sampling does beyond what the sampler buffer says.
struct SampleKind {
    bool greedy = false;
    std::optional<uint32_t> logprobs = std::nullopt;  // how many of the likeliest
    auto operator<=>(const SampleKind&) const = default;
};

struct Session::Impl final : Tenant {
    explicit Impl(Engine::Impl& owner);
    ~Impl() override { leave(); }
    /// Makes what a session has on the device, if it has nothing there; the encoder's part too. Call it
    /// inside Engine::Impl::survive().
    void ready();
    GenerateResult generate(const GenerateOptions& options);
    /// The cache alone, which is all that a batcher asks for.
    void take_cache();
    void take_memory();
    /// Keys and values are then of no token, the encoder's of none.
    void release() noexcept override;
    void release_buffers() noexcept;  // all but the cache

    using Rows = std::vector<uint32_t>;
    /// Called after each kernel is recorded, to add copies of its results.
    using Capture = std::function<void(vk::Recorder&, const Batch&, const PlannedKernel&)>;

    Batch batch(uint32_t token_count, uint32_t outputs) const {
        return Batch(*engine.weights, *cache, workspace, token_count, outputs, {cache.place()});
    }
    /// Tokens of a batch whose logits are all wanted.
    uint32_t forward_chunk() const { return std::min(engine.layout.outputs, engine.layout.tokens); }
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
    /// Which kernels run: the encoder's, or all others, or of these those up to the last hidden state.
    enum class Stage : uint8_t { encoder, decoder, hidden };
    // What crosses from the device before, or from the model of which this is one ahead, and to the device
    // behind, or to a model ahead:
    /// Brings the residual stream of `count` tokens, which `front` has computed, to `incoming`.
    void hand_over(uint32_t count);
    /// Brings the rows that `count` tokens from `position` on come with to `incoming`, zeros where nobody
    /// knows them.
    void bring_given(uint32_t position, uint32_t count);
    /// Records a copy of what of Graph::shown kernel `index` makes to `outgoing`.
    void show(vk::Recorder& recorder, const Batch& work, size_t index) const;
    /// Puts what `outgoing` has of `count` tokens from `position` on into `shown`.
    void take_shown(uint32_t position, uint32_t count);
    /// Where in `outgoing` each of Graph::shown begins, in bytes; then its end.
    std::vector<uint64_t> shown_places() const;
    /// A model ahead each of whose tokens comes, on the device, with what was made of the one before.
    bool chains() const { return engine.graph.given && engine.model->architecture.features == 0; }
    void receive(vk::Recorder& recorder, const Batch& work) const;
    void send(vk::Recorder& recorder, const Batch& work) const;
    /// Computes a decode step or a guess on the devices before this one, replayed.
    void bring_step(std::span<const TokenId> ids, uint32_t position);
    bool holds(uint32_t position, uint32_t since) const {
        return (!recurrent || states.holds(position)) && cache->holds(position, since) &&
               (!front || front->holds(position, since));
    }
    void write_step(vk::Recorder& recorder, std::span<const TokenId> ids, uint32_t position,
                    const Rows& outputs, std::span<const uint32_t> types = {}) const;
    /// Runs the encoder over source_ids. The batch's results are copied by `capture`.
    void run_encoder(const Capture& capture = {});
    void run_chunk(std::span<const TokenId> ids, uint32_t position, const Rows& outputs,
                   const Capture& capture = {}, std::span<const uint32_t> types = {},
                   Stage stage = Stage::decoder);
    /// Tokens from `position` on that one batch may take, at most `limit`: a segment's, and those before
    /// states are kept.
    uint32_t tokens_of_batch(uint32_t position, size_t limit) const;
    /// To be called when tokens were appended: decides where on the way to the last one states are kept.
    void choose_keep();
    /// Those of the tokens that are computed; where they are wanted, or at once.
    void keep_wanted_states() {
        if (computed == keep_at || computed == share_at) keep_states();
    }
    void keep_states();
    /// To be called before states go on by `count` tokens after `first`, wherever that is computed.
    void advance_states(uint32_t first, size_t count);
    void copy_states(const StateSlots::Copy& copy);
    /// Compresses the memory for the segment that `position` is in.
    void enter_segment(uint32_t position);
    /// Where the cache holds averages, or later tokens, in place of what the next token sees: goes back as
    /// far as states stand, or begins anew.
    void forget_overwritten();
    /// To be called before `count` positions from `first` on are computed here. Errors: context_full, where
    /// other sequences have the cache.
    void writes(uint32_t first, size_t count);
    /// The same wherever they are computed; false: others have the cache.
    bool reach(uint32_t first, size_t count);
    /// Brings what changed of the block table to the workspace.
    void write_table();
    /// Where sequences share a cache and begin alike: others may have the blocks that were computed here, and
    /// the tokens to come count as computed as far as others did.
    void share_prefix();
    /// Errors: bad_argument.
    void check_vocabulary(std::span<const TokenId> ids, uint32_t vocab) const;
    /// The same, and context_full.
    void check_ids(std::span<const TokenId> ids) const;
    /// Computes keys and values of all tokens, and the logits of the last.
    void compute_pending(const std::atomic<bool>* cancel);
    [[noreturn]] void fail_cancelled() const override;
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
    /// Records the map of the layer watched, if kernel `index` is its attention.
    void watch(vk::Recorder& recorder, const Batch& work, size_t index) const {
        if (watched == index) work.record_attended(recorder, index, map.view());
    }
    uint64_t map_bytes(size_t kernel) const;
    SharedView shared_map() const;

    /// `end` records what follows the kernels; may be empty.
    void record_step(Step& step, uint32_t count, const std::function<void(vk::Recorder&)>& end);
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
    void forget_recorded() noexcept override {
        decode = {};
        decode_recorded.reset();
        passes.clear();
    }
    /// Forgets keys and values from position `length` on: the only way back.
    void rewind(uint32_t length);

    const bool recurrent;  // and `states` says what stands of its states
    StateSlots states;
    // States are kept where a prompt has come so far; 0: nowhere. `share_at`: the sequence before began
    // alike.
    uint32_t keep_at = 0, share_at = 0;
    std::unique_ptr<Impl> front;    // of Engine::Impl::front
    vk::Buffer incoming, outgoing;  // in host memory
    vk::Commands step_update;       // of bring_step()
    bool on_device = false;         // the members down to `decode_recorded` stand
    KvShare cache;
    vk::Buffer sampler, sample_scratch;
    vk::Buffer results;             // ring of sampled {token, status}
    vk::Buffer top;                 // ring of what log-probabilities are made of; empty until asked for
    std::optional<size_t> watched;  // kernel of the plan
    vk::Buffer map;                 // of its last token's weights, as long as it is watched
    Step decode;
    std::map<uint32_t, Step> passes;  // by count
    std::optional<SampleKind> decode_recorded;
    std::vector<TokenId> tokens;
    TokenRows given;      // of Architecture::ahead: what tokens come with, as far as it was told
    TokenRows shown;      // of Architecture::shows: since a proposer last took them
    uint32_t prefix = 0;  // tokens that see each other
    uint32_t source = 0;  // tokens that the encoder saw, and the cache holds
    std::vector<TokenId> source_ids, source_global;  // what encode() was given
    uint32_t segment = 0;                            // that the compressed memory stands at
    uint64_t rotated_length = 0;                     // what rotations are for
    uint32_t computed = 0;                           // tokens whose keys and values are in the cache
    uint32_t reused = 0;                             // of these that others computed, since the last answer
    uint32_t written = 0;          // positions that were, since the sequence began; see KvCache::holds
    bool logits_ready = false;     // row 0 of the logits is of tokens[computed - 1]
    bool stepped = false;          // and of a step, where what the head reads may be folded away
    std::deque<double> submit_us;  // thread CPU time of the submission of each of the last replayed steps
};

}  // namespace scoria
