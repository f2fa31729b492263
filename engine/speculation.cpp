// See speculation.h.
#include "speculation.h"

#include "fail.h"
#include "log.h"
#include "session_impl.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace scoria {
namespace {

constexpr size_t least_match = 2, enough_match = 16;  // tokens

/// How many tokens before `a` are those before `b`; a < b.
size_t match_before(std::span<const TokenId> tokens, size_t a, size_t b) {
    size_t length = 0;
    while (length < std::min(a, enough_match) && tokens[a - 1 - length] == tokens[b - 1 - length]) ++length;
    return length;
}

/// Where the tokens after the best match begin; 0: none is long enough.
size_t find_match(std::span<const TokenId> tokens) {
    size_t best = 0, longest = least_match - 1;
    for (size_t i = tokens.size(); i-- > least_match && longest < enough_match;)
        if (const size_t length = match_before(tokens, i, tokens.size()); length > longest)
            best = i, longest = length;
    return best;
}

}  // namespace

void check_draft(const Model& draft, const Model& target) {
    if (draft.architecture.bidirectional() || !draft.architecture.encoder.empty())
        fail(Status::unsupported, "draft", "expected a decoder, got ", draft.architecture.family);
    const Architecture &of = draft.architecture, &by = target.architecture;
    const uint32_t taken = of.features ? of.features / std::max(uint32_t(of.takes.size()), 1u) : of.hidden;
    if (of.guesses_ahead() && (of.takes != by.shows || by.hidden != taken))
        fail(Status::bad_argument, "draft", "expected an engine that shows ", taken,
             " values of each token to a model that guesses ahead, got ", by.shows.empty() ? 0 : by.hidden);
    const auto size = [](const Model& model) {
        return model.tokenizer ? model.tokenizer->size() : model.architecture.vocab;
    };
    if (!draft.tokenizer != !target.tokenizer || size(draft) != size(target))
        fail(Status::bad_argument, "draft", "expected the model's vocabulary of ", size(target),
             " tokens, got ", draft.tokenizer ? "one of " : "a model without texts for its ", size(draft));
    for (uint32_t i = 0; target.tokenizer && i < size(target); ++i) {
        const std::string wanted = target.tokenizer->piece(TokenId(i), true),
                          got = draft.tokenizer->piece(TokenId(i), true);
        if (got != wanted)
            fail(Status::bad_argument, "draft", "expected the model's vocabulary, where token ", i, " is \"",
                 wanted, "\", got one where it is \"", got, "\"");
    }
}

bool PromptLookup::promising(std::span<const TokenId> tokens) const { return find_match(tokens) != 0; }

std::vector<TokenId> PromptLookup::propose(std::span<const TokenId> tokens, uint32_t most,
                                           const SamplingOptions&) {
    std::vector<TokenId> guess;
    const size_t first = find_match(tokens), period = tokens.size() - first;
    // Past the end a guess goes on as it began: text in a loop.
    for (size_t i = 0; first != 0 && i < most; ++i)
        guess.push_back(i < period ? tokens[first + i] : guess[i - period]);
    return guess;
}

DraftModel::DraftModel(std::shared_ptr<Engine> draft, const Model& target)
    : engine_(std::move(draft)), session_(*engine_) {
    check_draft(engine_->model(), target);
}

bool DraftModel::promising(std::span<const TokenId> tokens) const {
    return tokens.size() < session_.capacity();
}

void DraftModel::prepare(Session::Impl& target, const std::atomic<bool>* cancel) noexcept {
    target_ = &target;
    cancel_ = cancel;
    if (!std::exchange(lost_, false)) return;
    auto lose = [once = true]() mutable {
        if (std::exchange(once, false)) fail(Status::device_lost, "draft", "its device was lost");
    };
    try {
        engine_->impl().survive(lose);
    } catch (const std::exception& error) {
        log(cat("no guesses by the draft: ", error.what()));
    }
}

void DraftModel::give(size_t first, size_t end) {
    TokenRows &given = session_.impl().given, &shown = target_->shown;
    const Architecture& architecture = engine_->model().architecture;
    std::vector<float> values;
    // Of the target's tokens Ahead::features has all but the first, with which nothing would come.
    const size_t before = architecture.features ? 0 : 1;
    for (size_t token = first; token < end; ++token) {
        const std::span<const float> row =
            token < before ? std::span<const float>() : shown.row(token - before);
        values.assign(architecture.features + architecture.hidden, 0.0f);
        std::ranges::copy(row, values.begin());
        given.put(token, values);
    }
    shown.forget_before(end - before);
}

std::vector<TokenId> DraftModel::by_features(uint32_t most) {
    const Model& model = engine_->model();
    Session::Impl& s = session_.impl();
    std::vector<TokenId> guess;
    std::vector<float> values;
    for (;;) {
        const size_t length = session_.tokens().size();
        const std::span<const float> made = s.shown.row(length - 1);
        values.assign(model.architecture.features, 0.0f);
        values.insert(values.end(), made.begin(), made.end());
        const TokenId likeliest = session_.generate({.max_tokens = 1, .ignore_end = true}).tokens.front();
        guess.push_back(model.output_ids.empty() ? likeliest : model.output_ids[size_t(likeliest)]);
        if (guess.size() == most) return guess;
        session_.truncate(uint32_t(length));
        s.given.put(length, values);
        session_.append(std::span(guess).last(1));
    }
}

std::vector<TokenId> DraftModel::propose(std::span<const TokenId> tokens, uint32_t most,
                                         const SamplingOptions& sampling) try {
    if (!promising(tokens)) return {};
    Session::Impl& s = session_.impl();
    const Architecture& architecture = engine_->model().architecture;
    if (architecture.features) tokens = tokens.subspan(1);
    if (tokens.empty()) return {};
    // Of a model ahead: what it computed last were tokens with what it had made itself.
    std::span<const TokenId> held = session_.tokens();
    if (takes_rows()) held = held.first(std::min({given_, held.size(), size_t{s.computed}}));
    const auto differs = std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).second;
    size_t done = size_t(differs - tokens.begin());
    session_.truncate(uint32_t(done));
    // In pieces, so that no row is there twice for long.
    const size_t piece = takes_rows() ? s.engine.layout.tokens : tokens.size();
    while (done < tokens.size()) {
        const size_t count = std::min(piece, tokens.size() - done);
        if (takes_rows()) give(done, done + count);
        session_.append(tokens.subspan(done, count), cancel_);
        done += count;
        s.given.forget_before(done - 1);
    }
    given_ = done;
    if (architecture.features) {
        const size_t room = session_.capacity() - tokens.size();
        return by_features(uint32_t(std::min<size_t>(most, room)));
    }
    s.engine.survive([&] { s.keep_states(); });  // a guess that was wrong is cut back to here
    return session_
        .generate(
            {.sampling = sampling, .max_tokens = most, .ignore_end = true, .on_token = {}, .cancel = cancel_})
        .tokens;
} catch (const Error& error) {
    lost_ = error.status() == Status::device_lost;
    throw;
}

void GuessPace::learn(size_t tokens, size_t guessed, size_t right) {
    constexpr uint32_t most_failures = 8;
    // A right token makes up for a wrong guess, so guesses of one token go on where half of them are right.
    failures_ =
        right ? failures_ - std::min(failures_, uint32_t(right)) : std::min(failures_ + 1, most_failures);
    resume_ = tokens + (right ? 0 : (1u << failures_) / 4);  // 0, 1, 2, 4, ... 64 tokens
    const uint32_t largest = std::bit_ceil(most_ + 1);
    batch_ = right == guessed ? std::min(2 * batch_, largest) : std::bit_ceil(uint32_t(right) + 2);
}

}  // namespace scoria
