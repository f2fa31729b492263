// Who of a batch is computed next, and who gives way where the cache is too small for all.
#include "batcher_impl.h"
#include "fail.h"
#include "ops/kv_layout.h"

#include <algorithm>

namespace scoria {
namespace {

/// Tokens of prompts that a pass takes beside answers: these then wait little, and the weights are read for
/// enough (tools/bench/RESULTS.md, "Answers at once"). By the kind of device, not by time: a seed's answers
/// are computed in the same batches again.
uint32_t prompt_beside_answers(const vk::Caps& caps) {
    return caps.is_cpu() ? 32 : caps.type == vk::DeviceType::discrete ? 128 : 64;
}

}  // namespace

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

}  // namespace scoria
