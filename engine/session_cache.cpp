// What of a session's tokens stands in its cache, and what it can go back to: blocks, which sequences that
// begin alike have in common, states of recurrences, the compressed memory.
#include "fail.h"
#include "ops/compress.h"
#include "session_impl.h"

#include <algorithm>

namespace scoria {
namespace {

// What templates put behind a message, as "<|im_start|>assistant\n<think>\n", is other once the answer is a
// part of the conversation, and then its thoughts are gone. So it is there that chats are taken up again. Of
// sequences that begin alike as many tokens less, since the next one may share fewer.
constexpr uint32_t behind = 16, apart = 64;

}  // namespace

void Session::Impl::take_cache() {
    if (!cache) cache = engine.share_cache();
}

void Session::Impl::write_table() {
    size_t& current = cache.current(KvShare::Copy::session);
    const std::span<const uint32_t> words = cache.table().subspan(current);
    if (!on_device || words.empty()) return;
    run([&](vk::Recorder& recorder) {
        write_words(recorder, workspace.step, workspace.layout.table_word() + uint32_t(current), words);
    });
    current = cache.table().size();
}

bool Session::Impl::reach(uint32_t first, size_t count) {
    const auto copy = [&](uint32_t from, uint32_t to) {
        run([&](vk::Recorder& recorder) { cache->copy_block(recorder, from, to); });
    };
    if (!cache.own(first, copy) || !cache.reach(first + count)) return false;
    write_table();
    written = std::max(first == 0 ? 0 : written, first + uint32_t(count));
    return true;
}

void Session::Impl::share_prefix() {
    if (!engine.shares_prefixes(*cache)) return;
    cache.publish(std::span(tokens).first(computed));
    const size_t wanted = tokens.empty() ? 0 : tokens.size() - 1;  // the last one's logits are wanted
    const uint32_t known = computed < wanted ? cache.adopt(std::span(tokens).first(wanted), computed) : 0;
    if (known > computed) {
        reused += known - computed;
        computed = written = known;
        logits_ready = false;
    }
    write_table();
}

void Session::Impl::writes(uint32_t first, size_t count) {
    if (!reach(first, count))
        fail(Status::context_full, "cache", "expected room for ", first + count,
             " positions in the cache that sessions share, got ", cache->free_blocks(), " free blocks of ",
             kv_block_tokens, " beside ", cache.table().size());
    advance_states(first, count);
}

uint32_t Session::Impl::tokens_of_batch(uint32_t position, size_t limit) const {
    const uint32_t length = engine.model->architecture.memory.segment;
    if (length) limit = std::min<size_t>(limit, length - position % length);
    for (const uint32_t at : {keep_at, share_at})
        if (at > position) limit = std::min<size_t>(limit, at - position);
    return uint32_t(limit);
}

void Session::Impl::choose_keep() {
    keep_at = 0;
    const uint32_t length = uint32_t(tokens.size()), at = length - std::min(length, behind);
    const uint32_t before = std::max(states.longest_kept(computed), share_at <= at ? share_at : 0);
    if (recurrent && at > computed && at - before >= apart) keep_at = at;
}

void Session::Impl::copy_states(const StateSlots::Copy& copy) {
    states.copies(copy);
    run([&](vk::Recorder& recorder) { cache->copy_states(recorder, cache.place(), copy.from, copy.to); });
    states.copied(copy);
}

void Session::Impl::keep_states() {
    if (!recurrent || computed == 0) return;
    const bool shared = computed == share_at;
    for (Impl* part = this; part; part = part->front.get()) part->copy_states(part->states.to_keep(shared));
    (shared ? share_at : keep_at) = 0;
}

void Session::Impl::advance_states(uint32_t first, size_t count) {
    if (!recurrent) return;
    if (const auto copy = states.to_go_on(first)) copy_states(*copy);
    states.advance(first, uint32_t(count));
}

void Session::Impl::enter_segment(uint32_t position) {
    const CompressedMemory& memory = engine.model->architecture.memory;
    if (memory.segment == 0 || position / memory.segment == segment) return;
    const uint32_t next = position / memory.segment;
    const vk::Caps& caps = engine.device.caps();
    const KernelVariant variant =
        engine.choices.simple(caps, SimpleOp::compress, kv_type_names[size_t(engine.kv_type())]);
    run([&](vk::Recorder& recorder) {
        OpContext context{recorder, caps};
        for (uint32_t layer = 0; layer < engine.model->architecture.layers.size(); ++layer)
            record_compress(context,
                            {workspace.step.view(), workspace.layout.table_word(), &cache->layer(layer),
                             compressed_window(memory, segment), compressed_window(memory, next),
                             memory.rate},
                            variant);
    });
    segment = next;
}

void Session::Impl::forget_overwritten() {
    const uint32_t length = engine.model->architecture.memory.segment;
    const bool averaged = length != 0 && segment > computed / length;
    if (!averaged && (!cache || holds(computed, written))) return;
    segment = 0;
    const uint32_t stands = averaged ? 0 : states.longest(computed);
    computed = stands != 0 && holds(stands, written) ? stands : 0;
}

void Session::truncate(uint32_t length) {
    Impl& s = *impl_;
    if (length >= s.tokens.size()) return;
    const auto lock = s.engine.use();  // evict() changes what rewind() does
    s.tokens.resize(length);
    s.rewind(length);
    for (Impl* part = &s; part; part = part->front.get())
        if (part->cache && part->cache->sequences() > 1) part->cache.shrink(std::max(length, s.source));
}

void Session::Impl::rewind(uint32_t length) {
    // Tokens of a prefix have seen those behind them, which may be others now.
    computed = length < prefix ? 0 : std::min(computed, length);
    given.cut(length);
    shown.cut(length);
    const uint32_t wanted = computed;
    forget_overwritten();
    share_at = recurrent && wanted - computed >= apart + behind ? wanted - behind : 0;
    logits_ready = false;
}

}  // namespace scoria
