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
    if (draft.architecture.guesses_ahead() &&
        (!target.architecture.shows_hidden || target.architecture.hidden != draft.architecture.hidden))
        fail(Status::bad_argument, "draft", "expected an engine that shows ", draft.architecture.hidden,
             " values of each token to the layers that guess ahead, got ",
             target.architecture.shows_hidden ? target.architecture.hidden : 0);
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

void DraftModel::prepare(Session::Impl& target) noexcept {
    target_ = &target;
    if (!std::exchange(lost_, false)) return;
    auto lose = [once = true]() mutable {
        if (std::exchange(once, false)) fail(Status::device_lost, "draft", "its device was lost");
    };
    try {
        engine_->impl().survive(lose);
    } catch (const Error& error) {
        log(cat("no guesses by the draft: ", error.what()));
    }
}

void DraftModel::give(size_t first, size_t end) {
    TokenRows &given = session_.impl().given, &shown = target_->shown;
    const std::vector<float> unknown(engine_->model().architecture.hidden);
    for (size_t token = first; token < end; ++token) {
        const std::span<const float> row = token ? shown.row(token - 1) : std::span<const float>();
        given.put(token, row.empty() ? std::span(unknown) : row);
    }
    shown.forget_before(end - 1);
}

std::vector<TokenId> DraftModel::propose(std::span<const TokenId> tokens, uint32_t most,
                                         const SamplingOptions& sampling) try {
    if (!promising(tokens)) return {};
    Session::Impl& s = session_.impl();
    const bool ahead = engine_->model().architecture.guesses_ahead();
    // Behind those a model ahead computed tokens of what it had made itself.
    const std::span<const TokenId> held = session_.tokens().first(
        ahead ? std::min(given_, session_.tokens().size()) : session_.tokens().size());
    const auto differs = std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).second;
    const size_t shared = size_t(differs - tokens.begin());
    session_.truncate(uint32_t(shared));
    if (ahead) give(shared, tokens.size());
    session_.append(tokens.subspan(shared));
    given_ = tokens.size();
    s.given.forget_before(given_ - 1);
    s.engine.survive([&] { s.keep_states(); });  // a guess that was wrong is cut back to here
    return session_.generate({.sampling = sampling, .max_tokens = most, .ignore_end = true, .on_token = {}})
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
