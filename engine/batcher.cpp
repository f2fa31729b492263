// See batcher.h.
#include "batcher.h"

#include "answer.h"
#include "ops/kv_layout.h"
#include "sampler.h"
#include "step.h"

#include <algorithm>
#include <list>
#include <map>

namespace scoria {
namespace {

/// Tokens of prompts that a pass takes beside answers: these then wait little, and the weights are read for
/// enough (tools/bench/RESULTS.md, "Answers at once"). By the kind of device, not by time: a seed's answers
/// are computed in the same batches again.
uint32_t prompt_beside_answers(const vk::Caps& caps) {
    return caps.is_cpu() ? 32 : caps.type == vk::DeviceType::discrete ? 128 : 64;
}

}  // namespace

struct Batcher::Impl final : Tenant {
    struct Member {
        Member(Session::Impl& of, GenerateOptions given, Done then)
            : s(of), options(std::move(given)), answer(s, options), done(std::move(then)),
              kept(s.tokens.size()) {}
        size_t pending() const { return s.tokens.size() - s.computed; }
        /// Whether it is computed with others that have a part of `cache`.
        bool shares(const KvCache& cache) const { return slot && !ended && &*s.cache == &cache; }

        Session::Impl& s;
        const GenerateOptions options;
        Answer answer;
        Done done;
        size_t kept, prompt = 0;       // tokens of the session before, and with the ids that came
        std::optional<uint32_t> slot;  // of the tables and samplers
        bool sampler_written = false;
        std::optional<std::chrono::steady_clock::time_point> begun;  // with its first token, in a pass
        bool ended = false;
        std::exception_ptr error;
    };
    /// Tokens of a member in a pass: the next `count` that are not computed.
    struct Piece {
        Member* member;
        uint32_t count;
        bool samples;  // the token behind them
    };
    using Pieces = std::vector<Piece>;

    explicit Impl(Engine::Impl& owner) : Tenant(owner), together(owner.one_pass()) {}
    ~Impl() override { leave(); }
    void release() noexcept override;
    void forget_recorded() noexcept override { steps.clear(); }
    void fail_cancelled() const override { fail(Status::cancelled, "batch", "cancelled"); }

    void ready();
    void take_slots();
    bool takes_turns(const Member& m) const {
        return !together || m.options.proposer || m.options.on_attention;
    }
    bool lacks_room(const Member& m) const;
    void make_room_alone(Member& m);
    void answer_alone(Member& m);

    Pieces choose();
    void leave_out_failed(Pieces& pieces);  // those whose grammar can say no next token end, alone
    Pieces choose(const KvCache& cache, Member*& blocked);
    static void give_way(Member& m);
    bool has_room(Member& m);
    static bool comes_sooner(const Member& m, const Pieces& pieces);
    void pass(const Pieces& pieces);
    void write(vk::Recorder& recorder, const Pieces& pieces);
    void sample(vk::Recorder& recorder, const SampleKind& kind, uint32_t rows);
    void take(const Pieces& pieces);
    void keep(const Pieces& pieces);
    void finish_ended();

    const bool together;
    std::list<Member> members;
    bool stepping = false;

    bool on_device = false;
    uint32_t rows = 0;  // of a pass that are sampled, at most
    vk::Buffer samplers, sample_scratch, results, top;
    std::weak_ptr<KvCache> recorded_for;
    const KvCache* served = nullptr;                        // by the last pass; may be gone
    std::map<std::pair<uint32_t, SampleKind>, Step> steps;  // of so many rows, one token of a member each
    vk::Commands update;                                    // what a step is told
    std::vector<uint32_t> sampled, likeliest;               // of the last pass: what `results` and `top` held
};

void Batcher::Impl::release() noexcept {
    release_workspace();
    on_device = false;
    update = {};
    samplers = {};
    sample_scratch = {};
    results = {};
    top = {};
}

void Batcher::Impl::ready() {
    if (on_device) return;
    release();  // what a failed attempt left
    for (Member& m : members) {
        if (m.slot) m.s.cache.current(KvShare::Copy::batcher) = 0;
        m.sampler_written = false;
    }
    const uint32_t vocab = engine.model->architecture.logits(), sequences = engine.options.sequences;
    const uint64_t most = engine.device.caps().max_binding / sample_scratch_bytes(vocab);
    rows = uint32_t(
        std::clamp<uint64_t>(most, 1, std::min({engine.layout.outputs, engine.layout.tokens, sequences})));
    StepLayout layout = engine.layout.of(sequences);
    layout.outputs = rows;
    take_workspace(layout);
    reserve_logits(rows);
    samplers = device_buffer(4ull * sampler_words(vocab) * sequences);
    sample_scratch = device_buffer(sample_scratch_bytes(vocab) * rows);
    results = vk::Buffer(engine.device, 8ull * rows, vk::MemoryUse::readback);
    on_device = true;
}

/// Gives every member a slot, as long as there are any, and its part of a cache.
void Batcher::Impl::take_slots() {
    std::vector<bool> taken(engine.options.sequences);
    for (const Member& m : members)
        if (m.slot) taken[*m.slot] = true;
    for (Member& m : members) {
        if (m.ended || takes_turns(m)) continue;
        if (!m.slot) {
            const auto free = std::ranges::find(taken, false);
            if (free == taken.end()) continue;
            *free = true;
            m.slot = uint32_t(free - taken.begin());
            m.s.cache.current(KvShare::Copy::batcher) = 0;
        }
        try {
            m.s.take_cache();
        } catch (const Error& error) {
            if (error.status() == Status::device_lost) throw;
            m.error = std::current_exception();
            m.ended = true;
        }
    }
}

/// Gives what a member has of the cache to others: it is computed again once there is room. Its sampler stays
/// as it is.
void Batcher::Impl::give_way(Member& m) {
    for (Session::Impl* part = &m.s; part; part = part->front.get()) part->cache.shrink(0);
    m.s.computed = m.s.source = 0;
}

/// Blocks for the next token of an answer, if need be those of who came last.
bool Batcher::Impl::has_room(Member& m) {
    while (!m.s.reach(m.s.computed, 1)) {
        const auto last = std::find_if(members.rbegin(), members.rend(), [&](const Member& other) {
            return &other == &m || (other.shares(*m.s.cache) && !other.s.cache.table().empty());
        });
        if (&*last == &m) return false;
        give_way(*last);
    }
    return true;
}

/// Whether another's piece of this pass computes what the member would: it takes that then.
bool Batcher::Impl::comes_sooner(const Member& m, const Pieces& pieces) {
    const auto& ids = m.s.tokens;
    return m.s.engine.shares_prefixes(*m.s.cache) && std::ranges::any_of(pieces, [&](const Piece& piece) {
               const Session::Impl& other = piece.member->s;
               const size_t end = std::min(ids.size() - 1, size_t(other.computed) + piece.count);
               const auto same =
                   std::mismatch(ids.begin(), ids.begin() + std::ptrdiff_t(end), other.tokens.begin());
               const size_t blocks = size_t(same.first - ids.begin()) / kv_block_tokens;
               return blocks * kv_block_tokens > m.s.computed;
           });
}

/// Pieces of members that have a part of `cache`, answers first, each kind in the order in which they came. A
/// prompt begins when there is room for all of it, and for a block of each answer beside it. `blocked`
/// becomes the first that has no room.
Batcher::Impl::Pieces Batcher::Impl::choose(const KvCache& cache, Member*& blocked) {
    Pieces pieces;
    uint32_t tokens = workspace.layout.tokens, outputs = rows;
    const auto block = [&](Member& m) {
        if (!blocked) blocked = &m;
    };
    const auto add = [&](Member& m) {
        const uint32_t count = m.s.tokens_of_batch(m.s.computed, std::min<size_t>(m.pending(), tokens));
        pieces.push_back({&m, count, count == m.pending()});
        tokens -= count;
        outputs -= pieces.back().samples;
    };
    for (Member& m : members) {
        if (!m.shares(cache) || m.pending() > 1 || !tokens || !outputs) continue;
        has_room(m) ? add(m) : block(m);
    }
    const size_t answers = pieces.size();
    if (answers) tokens = std::min(tokens, prompt_beside_answers(engine.device.caps()));
    for (Member& m : members) {
        if (!m.shares(cache) || m.pending() <= 1 || !tokens || !outputs) continue;
        m.s.share_prefix();
        if (comes_sooner(m, pieces)) continue;
        const size_t needed = kv_blocks_for(uint32_t(m.s.tokens.size())), has = m.s.cache.table().size();
        const bool room = needed <= has || answers == 0 || cache.free_blocks() >= needed - has + answers;
        if (!room || !m.s.reach(m.s.computed, m.pending())) {
            block(m);
            break;  // others would take what it waits for
        }
        add(m);
    }
    return pieces;
}

Batcher::Impl::Pieces Batcher::Impl::choose() {
    Member* blocked = nullptr;
    std::vector<const KvCache*> caches;
    for (const Member& m : members)
        if (m.slot && !m.ended && std::ranges::find(caches, &*m.s.cache) == caches.end())
            caches.push_back(&*m.s.cache);
    // By turns, where there are several.
    if (const auto last = std::ranges::find(caches, served); last != caches.end())
        std::rotate(caches.begin(), last + 1, caches.end());
    for (const KvCache* cache : caches) {
        Pieces pieces = choose(*cache, blocked);
        if (pieces.empty()) continue;
        served = cache;
        return pieces;
    }
    // Who takes turns is computed before the next pass, and may then give its part back.
    if (!blocked || std::ranges::any_of(members, [&](const Member& m) { return takes_turns(m); })) return {};
    // Sessions outside of the batch have the rest of the cache, and nobody here will give any back.
    Member& m = *blocked;
    m.ended = true;
    if (m.answer.length() != 0)
        m.answer.end(StopReason::context_full);
    else
        m.error = std::make_exception_ptr(
            Error(Status::context_full, cat("[batch] expected room for a prompt of ", m.s.tokens.size(),
                                            " tokens in the cache that sessions share, got ",
                                            m.s.cache->free_blocks(), " free blocks of ", kv_block_tokens)));
    return {};
}

/// Writes the step buffer and what the samplers are told.
void Batcher::Impl::write(vk::Recorder& recorder, const Pieces& pieces) {
    const StepLayout& layout = workspace.layout;
    std::vector<uint32_t> words(STEP_TOKENS), outputs, table_of_pieces, piece_of;
    for (const auto& [member, count, samples] : pieces) {
        Member& m = *member;
        const uint32_t table = layout.table_word() + *m.slot * engine.layout.blocks;
        const uint32_t first_token = uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS;
        piece_of.insert(piece_of.end(), count, uint32_t(table_of_pieces.size() / PIECE_WORDS));
        table_of_pieces.insert(table_of_pieces.end(),
                               {first_token, count, m.s.cache.place(), m.s.states.shift(m.s.computed)});
        for (uint32_t t = m.s.computed; t < m.s.computed + count; ++t)
            words.insert(words.end(), {uint32_t(m.s.tokens[t]), t, table, *m.slot});
        size_t& current = m.s.cache.current(KvShare::Copy::batcher);
        const std::span<const uint32_t> entries = m.s.cache.table();
        write_words(recorder, workspace.step, table + uint32_t(current), entries.subspan(current));
        current = entries.size();
        if (!samples) continue;
        outputs.push_back(uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS - 1);
        const auto tell = [&](uint32_t word, std::span<const uint32_t> values) {
            const uint32_t first = *m.slot * sampler_words(engine.model->architecture.logits());
            write_words(recorder, samplers, first + word, values);
        };
        if (!m.sampler_written) tell(0, m.answer.sampler());
        m.sampler_written = true;
        m.answer.guide(tell);
    }
    words[STEP_TOKEN_COUNT] = uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS;
    words[STEP_OUTPUT_COUNT] = uint32_t(outputs.size());
    write_words(recorder, workspace.step, 0, words);
    write_words(recorder, workspace.step, layout.outputs_word(), outputs);
    if (!layout.pieces) return;
    if (layout.pieces > 1) table_of_pieces.insert(table_of_pieces.end(), piece_of.begin(), piece_of.end());
    write_words(recorder, workspace.step, layout.pieces_word(), table_of_pieces);
}

void Batcher::Impl::leave_out_failed(Pieces& pieces) {
    std::erase_if(pieces, [](const Piece& piece) {
        grammar::Constraint* const constraint = piece.samples ? piece.member->answer.constraint() : nullptr;
        try {
            if (constraint) (void)constraint->mask();  // which guide() finds again
            return false;
        } catch (const Error&) {
            piece.member->error = std::current_exception();
            return piece.member->ended = true;
        }
    });
}

void Batcher::Impl::sample(vk::Recorder& recorder, const SampleKind& kind, uint32_t count) {
    OpContext context{recorder, engine.device.caps()};
    const uint32_t vocab = engine.model->architecture.logits(), listed = workspace.layout.outputs_word();
    const Matrix logits{workspace.logits.view(0, 4ull * count * vocab), count, vocab, vocab, 0};
    const KernelVariant variant = engine.choices.simple(context.caps, SimpleOp::sample);
    record_sample(context,
                  {.logits = logits,
                   .sampler = samplers.view(),
                   .scratch = sample_scratch.view(),
                   .step = workspace.step.view(),
                   .results = results.view(),
                   .result_slots = rows,
                   .from_slot = 0,
                   .to_slot = 0,
                   .greedy = kind.greedy,
                   .outputs_word = listed},
                  variant);
    if (kind.logprobs)
        record_sample_top(context,
                          {.logits = logits,
                           .step = workspace.step.view(),
                           .top = top.view(),
                           .result_slots = rows,
                           .slot = 0,
                           .count = *kind.logprobs,
                           .outputs_word = listed},
                          variant);
    recorder.make_host_visible();
}

void Batcher::Impl::pass(const Pieces& pieces) {
    SampleKind kind{.greedy = true};
    uint32_t tokens = 0, outputs = 0, longest = 0;
    for (const Piece& piece : pieces) {
        tokens += piece.count;
        longest = std::max(longest, piece.member->s.computed + piece.count);
        if (!piece.samples) continue;
        ++outputs;
        const SampleKind& wanted = piece.member->answer.kind();
        kind.greedy = kind.greedy && wanted.greedy;
        if (wanted.logprobs) kind.logprobs = std::max(kind.logprobs.value_or(0), *wanted.logprobs);
    }
    if (kind.logprobs && !top)
        top = vk::Buffer(engine.device, 4ull * SAMPLE_TOP_WORDS * rows, vk::MemoryUse::readback);
    const std::shared_ptr<KvCache>& cache = pieces.front().member->s.cache.cache();
    constexpr size_t most_recorded = 2 * max_outputs;
    if (recorded_for.lock() != cache || steps.size() > most_recorded) forget_recorded();
    recorded_for = cache;
    on_device = false;  // until it is over: what a failed one leaves on its way is waited for, and made anew

    for (const Piece& piece : pieces) piece.member->s.advance_states(piece.member->s.computed, piece.count);
    reserve_scratch(tokens);
    Batch work(*engine.weights, *cache, workspace, tokens, outputs, {{}, uint32_t(pieces.size())});
    if (tokens == outputs) {
        vk::Recorder recorder(engine.device, engine.pipelines, engine.recorder_options());
        write(recorder, pieces);
        update = recorder.finish();
        submit(update);
        Step& step = steps[{outputs, kind}];
        if (!stands(step, tokens))
            record_step(step, work, longest,
                        {.behind = [&](vk::Recorder& behind) { sample(behind, kind, outputs); }});
        land_until(submit_step(step, tokens));
    } else {
        work.fold_step();
        compute(work, engine.plan.encoder_kernels, outputs ? engine.plan.kernels.size() : body_kernels(),
                longest,
                {.before = [&](vk::Recorder& recorder) { write(recorder, pieces); },
                 .behind =
                     [&](vk::Recorder& recorder) {
                         if (outputs) sample(recorder, kind, outputs);
                     }});
    }
    const auto words_of = [](const vk::Buffer& buffer, size_t count) {
        const auto* words = reinterpret_cast<const uint32_t*>(buffer.mapped().data());
        return std::vector<uint32_t>(words, words + count);
    };
    if (outputs) sampled = words_of(results, 2 * size_t{outputs});
    if (outputs && kind.logprobs) likeliest = words_of(top, size_t{SAMPLE_TOP_WORDS} * outputs);
    for (const Piece& piece : pieces) {  // nothing fails from here on, so that no sampled token is lost
        piece.member->s.computed += piece.count;
        piece.member->s.logits_ready = false;
    }
    on_device = true;
}

/// Gives each answer the token that the pass has sampled for it.
void Batcher::Impl::take(const Pieces& pieces) {
    size_t row = 0;
    for (const auto& [member, count, samples] : pieces) {
        if (!samples) continue;
        Member& m = *member;
        if (!m.begun) m.begun = std::chrono::steady_clock::now();
        const auto row_of = [&](const std::vector<uint32_t>& all, size_t words) {
            return std::span(all).subspan(words * row, words);
        };
        try {
            m.ended = !m.answer.take(row_of(sampled, 2), m.answer.kind().logprobs
                                                             ? row_of(likeliest, SAMPLE_TOP_WORDS)
                                                             : std::span<const uint32_t>());
        } catch (...) {
            m.error = std::current_exception();
            m.ended = true;
        }
        ++row;
    }
}

/// What later passes begin with sooner; nothing of what was lost with its device.
void Batcher::Impl::keep(const Pieces& pieces) {
    for (const Piece& piece : pieces) {
        Session::Impl& s = piece.member->s;
        if (!s.cache) continue;
        s.keep_wanted_states();
        s.share_prefix();
    }
}

/// Whether a member's whole answer, if it is as long as it may be, finds too few blocks on some device.
bool Batcher::Impl::lacks_room(const Member& m) const {
    const uint64_t context = engine.memory.context, most = m.options.max_tokens;
    const uint64_t end = most ? std::min(context, m.s.tokens.size() + most) : context;
    const size_t wanted = kv_blocks_for(uint32_t(std::max(end, uint64_t{m.s.source_ids.size()})));
    for (Session::Impl* part = &m.s; part; part = part->front.get())
        if (part->cache->free_blocks() + part->cache.table().size() < wanted) return true;
    return false;
}

/// Of those that have a part of its cache, who came last gives way first.
void Batcher::Impl::make_room_alone(Member& m) {
    engine.survive([&] {
        for (Session::Impl* part = &m.s; part; part = part->front.get()) part->take_cache();
        for (auto other = members.rbegin(); other != members.rend() && lacks_room(m); ++other)
            if (&*other != &m && other->s.cache && &*other->s.cache == &*m.s.cache) give_way(*other);
    });
}

void Batcher::Impl::answer_alone(Member& m) {
    try {
        if (engine.options.sequences > 1) make_room_alone(m);
        m.answer.result() = m.s.generate(m.options);
    } catch (...) {
        m.error = std::current_exception();
    }
    m.ended = true;
}

void Batcher::Impl::finish_ended() {
    for (auto at = members.begin(); at != members.end();) {
        const auto here = at++;
        if (!here->ended) continue;
        std::list<Member> gone;
        gone.splice(gone.end(), members, here);
        Member& m = gone.front();
        if (m.error && m.s.tokens.size() == m.prompt) {
            const auto lock = engine.use();
            m.s.tokens.resize(std::max(m.kept, size_t(m.s.computed)));
        }
        if (m.begun)
            m.answer.result().seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - *m.begun).count();
        GenerateResult result;
        try {
            result = m.answer.finish();
        } catch (...) {
            if (!m.error) m.error = std::current_exception();
        }
        if (m.done) m.done(std::move(result), m.error);
    }
}

Batcher::Batcher(Engine& engine) : impl_(make_tenant<Impl>(engine.impl())) {}
Batcher::Batcher(Batcher&& other) noexcept = default;
Batcher::~Batcher() = default;

size_t Batcher::size() const { return impl_->members.size(); }

void Batcher::add(Session& session, std::span<const TokenId> ids, GenerateOptions options, Done done) {
    Session::Impl& s = session.impl();
    if (&s.engine != &impl_->engine)
        fail(Status::bad_argument, "batch", "expected a session of the batcher's engine, got one of another");
    if (std::ranges::any_of(impl_->members, [&](const Impl::Member& m) { return &m.s == &s; }))
        fail(Status::bad_argument, "batch", "expected a session that is not in the batch, got one that is");
    s.needs_decoder("batch");
    s.check_ids(ids);
    if (s.tokens.empty() && ids.empty())
        fail(Status::bad_argument, "batch", "expected at least one token, got none");
    std::list<Impl::Member> added;
    Impl::Member& m = added.emplace_back(s, std::move(options), std::move(done));
    (void)m.answer.sampler();          // its options are checked
    const auto lock = s.engine.use();  // evict() changes what is computed
    s.tokens.insert(s.tokens.end(), ids.begin(), ids.end());
    m.prompt = s.tokens.size();
    if (s.computed == s.tokens.size()) --s.computed;
    if (impl_->together) {
        s.forget_overwritten();
        s.choose_keep();
    }
    if (s.tokens.size() >= s.engine.memory.context) {
        m.answer.end(StopReason::context_full);
        m.ended = true;
    }
    impl_->members.splice(impl_->members.end(), added);
}

bool Batcher::step() {
    Impl& b = *impl_;
    if (b.stepping)
        fail(Status::busy, "batch", "expected a call from outside of its callbacks, got one from inside");
    struct Stepping {
        bool& is;
        explicit Stepping(bool& flag) : is(flag) { is = true; }
        ~Stepping() { is = false; }
    } const stepping(b.stepping);
    for (Impl::Member& m : b.members)
        if (m.options.cancel && *m.options.cancel && !m.ended) {
            m.answer.end(StopReason::cancelled);
            m.ended = true;
        }
    b.finish_ended();
    const auto alone =
        std::ranges::find_if(b.members, [&](const Impl::Member& m) { return b.takes_turns(m); });
    if (alone != b.members.end()) b.answer_alone(*alone);
    if (!std::ranges::all_of(b.members, [&](const Impl::Member& m) { return b.takes_turns(m); })) {
        Impl::Pieces pieces;
        b.engine.survive([&] {
            b.ready();
            b.take_slots();
            pieces = b.choose();
            b.leave_out_failed(pieces);
            if (!pieces.empty()) b.pass(pieces);
        });
        std::exception_ptr failure;  // of which the sampled tokens are none
        try {
            b.engine.survive([&] { b.keep(pieces); });
        } catch (...) {
            failure = std::current_exception();
        }
        b.take(pieces);
        if (failure) std::rethrow_exception(failure);
    }
    b.finish_ended();
    return !b.members.empty();
}

}  // namespace scoria
