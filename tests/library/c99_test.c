/* The header as C99 sees it, with all warnings: compiled, linked, called once. */
#include "scoria.h"
#include "scoria_vulkan.h"

int scoria_c99_test(void);

int scoria_c99_test(void) {
    scoria_engine_options options;
    scoria_engine* engine = NULL;
    if (scoria_engine_options_init(&options, sizeof options) != SCORIA_OK) return 1;
    if (options.precision != SCORIA_BALANCED || options.size != sizeof options) return 2;
    options.model_path = "/nowhere.gguf";
    if (scoria_engine_create(&options, &engine) != SCORIA_BAD_FILE || engine) return 3;
    return scoria_last_error()[0] == '[' ? 0 : 4;
}
