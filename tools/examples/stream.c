/* Streams a model's answer: stream_c MODEL.gguf "a question" */
#include <scoria.h>
#include <stdio.h>
#include <stdlib.h>

static void check(scoria_status status) {
    if (status == SCORIA_OK) return;
    fprintf(stderr, "%s\n", scoria_last_error());
    exit(1);
}

static int show(void* user, int32_t id, const char* text, size_t bytes) {
    (void)user, (void)id;
    return fwrite(text, 1, bytes, stdout) == bytes && !fflush(stdout);
}

int main(int count, char** arguments) {
    scoria_engine_options options;
    scoria_generate_options answer;
    scoria_message message = {"user", count == 3 ? arguments[2] : NULL};
    scoria_chat_options chat = {sizeof chat, &message, 1, NULL, 0, 0};
    scoria_engine* engine = NULL;
    scoria_session* session = NULL;
    int32_t* prompt;
    size_t length = 0;
    if (count != 3) return fprintf(stderr, "usage: %s MODEL.gguf QUESTION\n", arguments[0]), 2;
    check(scoria_engine_options_init(&options, sizeof options));
    options.model_path = arguments[1];
    check(scoria_engine_create(&options, &engine));
    check(scoria_session_create(engine, &session));
    check(scoria_chat_tokens(engine, &chat, NULL, 0, &length));
    prompt = malloc(length * sizeof *prompt); /* without memory the next call has no place to write */
    check(scoria_chat_tokens(engine, &chat, prompt, length, &length));
    check(scoria_session_append(session, prompt, length)), free(prompt);
    check(scoria_generate_options_init(&answer, sizeof answer));
    answer.on_token = show;
    answer.max_tokens = 32;
    check(scoria_session_generate(session, &answer, NULL));
    return check(scoria_session_destroy(session)), check(scoria_engine_destroy(engine)), 0;
}
