// See metrics.h.
#include "metrics.h"

#include "fail.h"

namespace scoria::server {

std::string metrics_text(const Metrics& metrics, size_t running, size_t waiting) {
    constexpr const char* outcomes[] = {"answered", "refused", "busy", "failed", "cancelled"};
    static_assert(std::size(outcomes) == std::tuple_size_v<decltype(metrics.requests)>);
    const auto head = [](const char* name, const char* type, const char* help) {
        return cat("# HELP scoria_", name, ' ', help, "\n# TYPE scoria_", name, ' ', type, '\n');
    };
    std::string text = head("requests_total", "counter", "Requests by what became of them.");
    for (size_t i = 0; i < std::size(outcomes); ++i)
        text +=
            cat("scoria_requests_total{outcome=\"", outcomes[i], "\"} ", metrics.requests[i].load(), '\n');
    const auto add = [&](const char* name, const char* type, const char* help, auto value) {
        text += head(name, type, help) + cat("scoria_", name, ' ', value, '\n');
    };
    add("prompt_tokens_total", "counter", "Tokens of prompts, reused ones too.",
        metrics.prompt_tokens.load());
    add("reused_tokens_total", "counter", "Tokens of prompts that earlier answers had computed.",
        metrics.reused_tokens.load());
    add("generated_tokens_total", "counter", "Tokens of answers.", metrics.generated_tokens.load());
    add("guessed_tokens_total", "counter", "Tokens that speculation guessed.", metrics.guessed_tokens.load());
    add("accepted_tokens_total", "counter", "Guessed tokens that came true.", metrics.accepted_tokens.load());
    add("prompt_seconds_total", "counter", "Seconds from answers' begin to their first token.",
        metrics.prompt_seconds.load());
    add("generation_seconds_total", "counter", "Seconds from answers' first token to their end.",
        metrics.generation_seconds.load());
    add("answers_running", "gauge", "Answers under way.", running);
    add("answers_waiting", "gauge", "Answers and embeddings that wait.", waiting);
    return text;
}

}  // namespace scoria::server
