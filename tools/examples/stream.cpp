// Streams a model's answer: stream_cpp MODEL.gguf "a question"
#include <iostream>
#include <scoria.h>
#include <stdexcept>
#include <vector>

static void check(scoria_status status) {
    if (status != SCORIA_OK) throw std::runtime_error(scoria_last_error());
}

int main(int count, char** arguments) try {
    if (count != 3) throw std::runtime_error("usage: stream_cpp MODEL.gguf QUESTION");
    scoria_engine_options options;
    check(scoria_engine_options_init(&options, sizeof options));
    options.model_path = arguments[1];
    scoria_engine* engine = nullptr;
    scoria_session* session = nullptr;
    check(scoria_engine_create(&options, &engine));
    check(scoria_session_create(engine, &session));
    const scoria_message message{"user", arguments[2]};
    const scoria_chat_options chat{sizeof chat, &message, 1, nullptr, 0, 0};
    size_t length = 0;
    check(scoria_chat_tokens(engine, &chat, nullptr, 0, &length));
    std::vector<int32_t> prompt(length);
    check(scoria_chat_tokens(engine, &chat, prompt.data(), length, &length));
    check(scoria_session_append(session, prompt.data(), length));

    scoria_generate_options answer;
    check(scoria_generate_options_init(&answer, sizeof answer));
    answer.max_tokens = 32;
    answer.on_token = [](void*, int32_t, const char* text, size_t bytes) {
        return int(bool(std::cout.write(text, std::streamsize(bytes)).flush()));
    };
    check(scoria_session_generate(session, &answer, nullptr));
    check(scoria_session_destroy(session));
    check(scoria_engine_destroy(engine));
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
