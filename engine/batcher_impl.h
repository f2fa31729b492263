// What a Batcher owns; for batcher.cpp and batcher_choose.cpp only.
#pragma once

#include "answer.h"
#include "batcher.h"

#include <list>
#include <map>

namespace scoria {

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
        const std::chrono::steady_clock::time_point added = std::chrono::steady_clock::now();
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

}  // namespace scoria
