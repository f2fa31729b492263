// The engine as C++ callers use it: an Engine holds a model on a device, a Session one conversation.
// One Session is used by one thread at a time; sessions of one Engine take turns on its queue.
#pragma once

#include "grammar/program.h"
#include "kv_cache.h"
#include "model.h"
#include "sampling.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scoria {

/// When the variants that a model uses are proven on its device (self_test.cpp). Verdicts stored before count
/// in any case, on a host's device too, where nothing is ever tested.
enum class SelfTest : uint8_t {
    automatic,  // at their first use on hardware, where there is a cache folder to remember it in
    always,     // anew at this start, on CPU drivers too
    never,
};

/// What pipelines are made for while weights are uploaded (rehearsal.h).
struct Rehearsed {
    uint32_t prompt = 0;         // tokens of the first one; 0: none are made
    std::optional<bool> greedy;  // sampling at temperature 0, or not; unset: nobody knows
};
inline constexpr uint32_t usual_prompt = 64;  // where nobody knows better

struct EngineOptions {
    /// `select` may list indices, "0,1": these devices share the layers, in this order.
    vk::DeviceOptions device;
    Precision precision = Precision::balanced;
    std::optional<KvType> kv;  // unset: see kv_type
    /// 0: the smallest of the model's maximum, what fits, and 8192 (encoder-decoders: 2048).
    uint32_t context = 0;
    uint32_t prompt_chunk = 0;  // tokens per prompt submission; 0: 512
    bool fusion = true;
    bool deterministic = false;         // one variant per op for all batch sizes: equal bits, slower prompts
    std::vector<std::string> variants;  // "OP=NAME": forces that variant wherever it is valid (ops/choices.h)
    SelfTest self_test = SelfTest::automatic;
    /// What of all tokens stays in host memory until DraftModel takes it: Architecture::takes of a draft.
    std::vector<uint32_t> shows;
    bool tuned = false;  // variants that `scoria tune` found (tuned_variants.h) stand in for defaults
    Rehearsed rehearse;
    uint32_t upload_threads = 0;      // that read weights and move them to the device; 0: as many as do well
    bool replay = true;               // record decode once and replay it; false records every step
    double submission_budget_ms = 0;  // 0: 50 on hardware, 1000 on CPU drivers
    /// Device bytes that the plan may take; 0: what the driver offers. Weights that it does not hold stay in
    /// host memory.
    uint64_t memory_budget = 0;
    /// Instead of memory_budget, asked when memory is planned or restored; may be empty.
    std::function<uint64_t()> available_memory;
    /// As memory_budget, for each of several devices; the rest take that.
    std::vector<uint64_t> memory_budgets;
    uint64_t shuffle_seed = 0;   // tests: see RecorderOptions
    bool omit_barriers = false;  // tests: see RecorderOptions
    /// Sessions that share one cache, at most 64: such a batcher computes in one pass (batcher.h), and those
    /// that begin alike have that part in common (block_pool.h). Others have a cache each.
    uint32_t sequences = 1;
    /// Positions of all of them together; 0: as many as fit, at most `context` each.
    uint32_t shared_context = 0;
    bool recover = true;  // a lost device of our own is opened again, sessions replayed
    std::function<void(uint64_t done, uint64_t total)> progress;  // bytes of weights uploaded
    /// Before each submission of a prompt's or a step's part, on the thread of the call: others' chance to
    /// use the queue. Seconds of the device that the last part known took; 0: none yet. Must not throw.
    std::function<void(double seconds)> on_slice;

    KvType kv_type() const { return kv.value_or(precision == Precision::strict ? KvType::f32 : KvType::f16); }
};

/// The devices that `select` names: several where it is a list of indices.
std::vector<std::string> device_list(const std::string& select);

/// Where the bytes go, computed before any weight is read.
struct MemoryPlan {
    std::string device;
    LayerRange layers;                          // whose bytes these are
    uint64_t weights = 0, kv = 0, scratch = 0;  // bytes of device memory
    uint64_t states = 0;                        // bytes of device memory: what recurrences remember
    uint32_t recurrences = 0;                   // layers that do
    std::vector<KvPart> kv_parts;               // of `kv` and `host_kv`, by kind of layer
    uint64_t host_weights = 0, host_kv = 0;     // bytes of host memory: what the device has no room for
    uint64_t staging = 0;                       // bytes of host memory while weights are uploaded
    uint32_t context = 0;                       // positions of a session
    uint32_t shared = 0;                        // of all sessions that share a cache, together
    uint32_t chunk = 0;                         // tokens of a prompt computed at a time
    uint32_t source = 0;                        // tokens that the encoder takes; 0: there is none
    uint64_t heap_size = 0, heap_budget = 0;    // of the heap for device memory, as planned with
    uint64_t host_budget = 0;                   // of what host memory the device sees
    std::vector<MemoryPlan> before;  // of the devices that compute the layers before these, in order
    uint64_t device_total() const { return weights + kv + states + scratch; }
    uint64_t host_total() const { return host_weights + host_kv + staging; }
    bool fits() const { return device_total() <= heap_budget && host_total() <= host_budget; }
    bool all_fit() const { return fits() && std::ranges::all_of(before, &MemoryPlan::fits); }
};

class Proposer;  // speculation.h

/// What a session computed, where it lies on the device.
struct SharedView {
    vk::View view;                    // of float32
    uint32_t rows = 1, cols = 0;      // whole, one row behind the other
    vk::Device::TimelinePoint ready;  // to wait for on the device
    vk::Memory memory;                // behind the buffer, if it can be exported
};

enum class StopReason : uint8_t { end_of_generation, token_limit, context_full, cancelled, stop_string };

struct GenerateOptions {
    SamplingOptions sampling;
    uint32_t max_tokens = 0;                // 0: until the model ends or the context is full
    bool ignore_end = false;                // end-of-generation tokens are not special
    std::function<bool(TokenId)> on_token;  // false stops (cancelled); called on the caller's thread
    const std::atomic<bool>* cancel = nullptr;
    std::vector<std::string> stop;  // texts that end the answer and are left out of its text
    // After each token the text that is certain now: whole UTF-8, no part of a stop text, often empty. At
    // the end, with id -1, what was held back. False stops.
    std::function<bool(TokenId, std::string_view text)> on_text;
    bool special_text = false;  // that text also spells control tokens, for who reads their markup
    // The answer's text is one of this grammar's, unless it is cut off (token_limit and the like). Each step
    // then waits for the host. Where nothing can follow, the answer ends without an ending token.
    std::shared_ptr<const grammar::Program> output_grammar;
    TokenId grammar_behind = -1;  // the token behind which alone it holds, and which has to come; -1: none
    std::optional<uint32_t> logprobs;  // log-probabilities: of each token, and of so many best (at most 64)
    std::function<void(const TokenLogprobs&)> on_logprobs;  // before on_token
    /// Before on_token: what the token before it attends to in the layer watched (Session::watch). Each step
    /// then waits for the host, and the values stand until this returns. No proposer beside it.
    std::function<void(const SharedView&)> on_attention;
    /// Speculation: guesses the tokens to come, which changes the time that they take and nothing else.
    /// Models that cannot take a token back (compressed memories, Reformers) go without, and say so.
    Proposer* proposer = nullptr;
    uint32_t draft_tokens = 0;  // the longest guess; 0: 15. Shorter ones are made where few come true
};

struct GenerateResult {
    std::vector<TokenId> tokens;  // the end-of-generation token, if reached, is last
    StopReason reason = StopReason::token_limit;
    std::string stop;  // the text that ended it, if one did
    double seconds = 0;
    double waited = 0;                    // seconds of a batch's, for its turn
    std::vector<TokenLogprobs> logprobs;  // one per token, if asked for
    uint32_t proposed = 0, accepted = 0;  // tokens guessed, and those of them that came true
    /// Tokens appended before it that other sessions had computed (EngineOptions::sequences).
    uint32_t reused = 0;
};

/// What a plain forward pass computes behind the last layer.
enum class Outputs : uint8_t {
    logits,       // and last_hidden
    hidden,       // last_hidden alone
    last_hidden,  // that of the last token
};

/// What a plain forward pass returns; row-major.
struct ForwardResult {
    uint32_t tokens = 0, vocab = 0, hidden_size = 0;  // tokens: of logits and last_hidden
    std::vector<float> logits;                        // [tokens, vocab], if asked for
    std::vector<float> last_hidden;                   // [tokens, last_hidden_size()] after the final norm
    std::vector<std::vector<float>> hidden;  // [layers + 1][all tokens, hidden_size]; empty unless asked for
    /// The model's hidden size, or twice that where it ends in two streams; hidden_size is that of all of its
    /// streams.
    uint32_t last_hidden_size() const { return tokens ? uint32_t(last_hidden.size() / tokens) : 0; }
};

struct StepStats {
    uint32_t dispatches = 0, barriers = 0;  // of one decode step
    uint32_t slices = 0;                    // submissions that it is cut into
    double dispatches_per_layer = 0;
    double submit_cpu_us = 0;  // thread CPU time of the submitting thread per replayed step, median
    uint32_t pipelines = 0;
    double pipeline_seconds = 0;
    uint64_t weight_bytes_per_token = 0;           // read by one decode step
    std::vector<vk::DispatchTime> profile;         // of the last step, if set_profile()
    std::vector<int32_t> profile_layers;           // of each of these dispatches; -1: of none
    std::vector<vk::DispatchTime> prompt_profile;  // of the last chunk of a prompt, likewise
};

class Engine {
  public:
    /// Plans, refuses what cannot fit (out_of_device_memory, with the plan) and uploads the weights.
    Engine(std::shared_ptr<const Model> model, const EngineOptions& options);
    ~Engine();
    const Model& model() const;
    const EngineOptions& options() const;
    const MemoryPlan& memory_plan() const;
    vk::Device& device();  // the last one, which has the head, of several
    vk::Pipelines& pipelines();
    /// As EngineOptions::submission_budget_ms, from the next prompt chunk or step on. Thread-safe.
    void set_submission_budget(double milliseconds);
    /// Gives up all device memory, its sessions' too; they keep their tokens. Whatever computes next restores
    /// it. Thread-safe. Errors: busy, while a session computes.
    void evict();
    /// Uploads the weights again, if they are evicted. Thread-safe. Errors: as the constructor's; it is then
    /// as evicted as before.
    void restore(const std::function<void(uint64_t done, uint64_t total)>& progress);
    std::vector<vk::Device*> devices();  // in the order of their layers

    struct Impl;
    Impl& impl() { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

/// The plan alone: opens the device, reads no weight.
MemoryPlan plan_memory(const Model& model, const EngineOptions& options);

struct PlannedKernel;
struct TensorId;
using TraceFetch = std::function<std::vector<float>(const TensorId&)>;
using TraceObserver = std::function<void(const PlannedKernel&, const TraceFetch&)>;

enum class SharedKind : uint8_t { logits, hidden, attention };

class Session {
  public:
    explicit Session(Engine& engine);
    Session(Session&& other) noexcept;
    ~Session();

    /// Appends tokens and computes their keys, values and the logits of the last one.
    /// Errors: bad_argument (an id outside the vocabulary), context_full (nothing is appended),
    /// device_lost, cancelled (tokens computed so far stay).
    void append(std::span<const TokenId> ids, const std::atomic<bool>* cancel = nullptr);
    /// Encoder-decoders: runs the encoder over all of `ids` and caches what the decoder sees of them; begins
    /// the decoder's sequence anew. last_hidden and hidden (if asked for) of the result are the encoder's.
    /// Errors: as append; unsupported, for other models.
    /// global: one per id, other than 0 for a global token (Longformer, LED); or none.
    ForwardResult encode(std::span<const TokenId> ids, bool hidden_states = false,
                         std::span<const TokenId> global = {});
    /// What a prompt is to the model: encoder-decoders encode `ids`, and the decoder's first token is
    /// returned; of others `ids`, which are still to be appended. Errors: as encode.
    std::vector<TokenId> begin(std::span<const TokenId> ids);
    /// Samples and appends tokens until something stops it. Needs at least one token appended before.
    /// Errors as above, and non_finite.
    GenerateResult generate(const GenerateOptions& options);
    /// Logits [vocab] of the last appended token.
    std::vector<float> logits();
    /// Appends tokens and returns logits of all of them, [tokens, vocab], or what `outputs` says.
    /// An encoder begins anew with each call, and all ids must fit in a batch; token_types: one per id, or
    /// none: all 0; global: as for encode.
    ForwardResult forward(std::span<const TokenId> ids, bool hidden_states,
                          std::span<const TokenId> token_types = {}, std::span<const TokenId> global = {},
                          Outputs outputs = Outputs::logits);
    /// Appends tokens, kernel by kernel, and shows the observer every kernel with a way to fetch the
    /// values [rows, cols] of its results (PlannedKernel::results). Slow: for `validate -m` and `look`. More
    /// than a batch are traced batch by batch, all kernels of one before the next; tokens() are then those of
    /// the batches before. Of an encoder-decoder the encoder gets `source`, or if there is none the ids too,
    /// and the sequence begins anew.
    void trace(std::span<const TokenId> ids, const TraceObserver& observer,
               std::span<const TokenId> source = {});
    /// Keys [positions, kv_heads * head_dim] as slot `slot` of the cache (cache_slots) holds them; also
    /// inside a trace's observer.
    std::vector<float> cached_keys(uint32_t slot, uint32_t positions);
    /// Logits [rows, vocab] of a residual stream [rows, Architecture::stream_width(); both of two streams
    /// side by side: output_width()], as if the last layer had left it: the final norm and the head alone.
    /// Changes no token. Errors: unsupported, for a model without a head; bad_argument, for no whole rows or
    /// more than a batch.
    std::vector<float> head(std::span<const float> stream);
    uint32_t head_rows() const;  // that head() takes at most

    /// The first `length` tokens of the sequence will see each other (prefix language models alone). Call it
    /// before tokens are appended; the prefix must come with one call. Errors: bad_argument, unsupported.
    void set_prefix(uint32_t length);
    /// Forgets everything from position `length` on.
    void truncate(uint32_t length);
    /// Gives up the session's device memory; tokens stay. Whatever computes next restores it.
    void evict();
    /// Takes the memory back and computes all tokens again, if it was given up. Errors: as append.
    void restore(const std::atomic<bool>* cancel = nullptr);
    /// Logits [vocab] of the last token, what its head reads [last_hidden_size], or what it attends to in the
    /// layer watched, computed if they are not there yet; in place until the session is next used. Errors:
    /// bad_argument, unsupported.
    SharedView share(SharedKind kind);
    /// From now on what is computed leaves the attention weights of its last token in `layer`, of a decoder
    /// to the tokens before it, for share(): [heads, tokens]. Unset: no more. Errors: bad_argument, for a
    /// layer that the model has not; unsupported, where attention is no matrix of queries and keys or another
    /// device computes it; as append.
    void watch(std::optional<uint32_t> layer);
    /// The session's next submission waits, on the device, for a host's semaphore.
    void wait_for(const vk::Device::TimelinePoint& point);
    std::span<const TokenId> tokens() const;  // all appended and generated tokens
    uint32_t capacity() const;                // positions
    /// From here on every dispatch is timed by itself (StepStats::profile), and all take longer together.
    void set_profile(bool on);
    StepStats stats() const;  // of the last decode step

    struct Impl;
    Impl& impl() { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria
