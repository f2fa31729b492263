/* Answers questions together, each on a line when it is done: batch_c MODEL.gguf QUESTION... */
#include <scoria.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void check(scoria_status status) {
    if (status != SCORIA_OK) exit((fprintf(stderr, "%s\n", scoria_last_error()), 1));
}
static int keep(void* text, int32_t id, const char* more, size_t bytes) {
    return (void)id, strlen(text) + bytes < 1024 && strcat(text, more);
}
static void show(void* text, scoria_session* session, scoria_status status, const char* message,
                 const scoria_generate_result* result) {
    (void)result, puts(status == SCORIA_OK ? (char*)text : message), free(text);
    check(scoria_session_destroy(session));
}
int main(int count, char** arguments) {
    size_t length, left = 1;
    scoria_engine_options options;
    scoria_engine* engine = NULL;
    scoria_batch* batch = NULL;
    check(scoria_engine_options_init(&options, sizeof options));
    options.model_path = arguments[1], options.sequences = (uint32_t)count - 2;
    options.deterministic = 1; /* each answer is to the bit what it would be alone */
    check(scoria_engine_create(&options, &engine)), check(scoria_batch_create(engine, &batch));
    for (int i = 2; i < count; i++) {
        scoria_chat_options chat = {sizeof chat, &(scoria_message){"user", arguments[i]}, 1, NULL, 0, 0};
        scoria_generate_options wanted;
        scoria_session* session = NULL;
        check(scoria_chat_tokens(engine, &chat, NULL, 0, &length));
        int32_t* ids = malloc(length * sizeof *ids); /* without memory the next call fails */
        check(scoria_chat_tokens(engine, &chat, ids, length, &length));
        check(scoria_generate_options_init(&wanted, sizeof wanted));
        wanted.on_token = keep, wanted.user = calloc(1, 1024), wanted.max_tokens = 32;
        check(scoria_session_create(engine, &session));
        check(scoria_batch_add(batch, session, ids, length, &wanted, show)), free(ids);
    }
    while (left) check(scoria_batch_step(batch, &left));
    return check(scoria_batch_destroy(batch)), check(scoria_engine_destroy(engine)), 0;
}
