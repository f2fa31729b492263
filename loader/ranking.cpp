// See ranking.h.
#include "ranking.h"

#include "conversation.h"
#include "embedding_texts.h"
#include "fail.h"
#include "model.h"

#include <algorithm>
#include <array>

namespace scoria {
namespace {

/// The text of a pair by a form or a template, which may put the document anywhere.
ChatPrompt composed(const Model& model, const EmbeddingTexts& texts, const std::string& prompt,
                    std::string_view query, std::string_view document) {
    const std::string& form = model.ranking->form;
    if (form.empty()) {
        Conversation conversation;
        conversation.add_generation_prompt = texts.add_generation_prompt;
        const auto say = [&](const char* role, std::string_view text) {
            nlohmann::ordered_json content = text;
            if (texts.in_parts) content = {{{"type", "text"}, {"text", text}}};
            conversation.messages.push_back({{"role", role}, {"content", content}});
        };
        if (!prompt.empty()) say("system", prompt);
        say("query", query);
        say("document", document);
        return model.chat_template.render(conversation);
    }
    ChatPrompt pair;
    for (size_t at = 0; at < form.size();) {
        const std::string_view rest = std::string_view(form).substr(at);
        const auto put = [&](std::string_view name, std::string_view text) {
            if (!rest.starts_with(name)) return false;
            pair.input.push_back({pair.text.size(), pair.text.size() + text.size()});
            pair.text += text;
            at += name.size();
            return true;
        };
        if (!put("{query}", query) && !put("{document}", document)) pair.text += form[at++];
    }
    return pair;
}

/// As composed(), with as much of the document as fits. Its tokens are those that are not there without it.
RankedPair encode_composed(const Model& model, const EmbeddingTexts& texts, const std::string& prompt,
                           std::string_view query, std::string_view document, size_t most) {
    const auto encoded = [&](std::string_view text) {
        return encode_prompt(*model.tokenizer, composed(model, texts, prompt, query, text));
    };
    RankedPair result{{encoded(document), {}}};
    std::vector<TokenId>& ids = result.pair.ids;
    if (ids.size() <= most) return result;
    const std::vector<TokenId> without = encoded("");
    const auto before = std::ranges::mismatch(ids, without).in1 - ids.begin();
    const auto after =
        std::mismatch(ids.rbegin(), ids.rend() - before, without.rbegin(), without.rend() - before).first;
    const auto surplus = std::ptrdiff_t(ids.size() - most);
    if (after.base() - ids.begin() - before <= surplus) return result;  // too long as it is
    ids.erase(after.base() - surplus, after.base());
    result.was_cut = true;
    return result;
}

/// Leaves `most` tokens of a pair of more. As tokenizers do, the shorter text gets half of the room, if it
/// needs that.
void shorten(EncodedPair& pair, size_t most) {
    const auto length = [&](size_t text) { return pair.texts[text].second - pair.texts[text].first; };
    const size_t frame = pair.ids.size() - length(0) - length(1), room = most - std::min(most, frame);
    const size_t shorter = length(0) > length(1) ? 1 : 0;
    std::array<size_t, 2> kept{};
    kept[shorter] = std::min(length(shorter), room / 2);
    kept[1 - shorter] = room - kept[shorter];
    for (const size_t text : {1, 0}) {  // from behind, so that places before stay
        const auto begin = std::ptrdiff_t(pair.texts[text].first + kept[text]),
                   end = std::ptrdiff_t(pair.texts[text].second);
        pair.ids.erase(pair.ids.begin() + begin, pair.ids.begin() + end);
        pair.types.erase(pair.types.begin() + begin, pair.types.begin() + end);
    }
}

}  // namespace

RankedPair encode_ranked(const Model& model, const EmbeddingTexts& texts, std::string_view query,
                         std::string_view document, const std::optional<std::string>& prompt, size_t most) {
    if (texts.most_tokens) most = std::min<size_t>(most, *texts.most_tokens);
    RankedPair result;
    const bool by_template = texts.pairs_as_messages || model.ranking->layers.empty();
    if (by_template && model.chat_template.empty())
        fail(Status::unsupported, "rank",
             "expected a chat template, which this model's pairs need, got none");
    if (by_template || !model.ranking->form.empty()) {
        result = encode_composed(model, texts, texts.prompt_text(prompt), query, document, most);
    } else {
        result.pair = model.tokenizer->encode_pair(texts.prepared(std::string(query), prompt),
                                                   texts.prepared(std::string(document), ""),
                                                   {.add_special = true, .parse_special = false});
        result.was_cut = result.pair.ids.size() > most;
        if (result.was_cut) shorten(result.pair, most);
    }
    if (result.pair.ids.size() > most)
        fail(Status::context_full, "rank", "expected a query that leaves a document room in ", most,
             " tokens");
    if (model.architecture.token_types < 2) result.pair.types.clear();
    return result;
}

}  // namespace scoria
