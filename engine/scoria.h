/* The C interface of libscoria. Opaque handles, status codes, versioned structs (set `size` first); no
 * exception, abort or output leaves the library, and it reads no environment of its own.
 *
 * Threads: different engines are independent. An engine may be shared by threads; a session is used by
 * one thread at a time, except scoria_session_cancel(), which any thread may call.
 *
 * Young: what is here stays source-compatible within 0.x only as far as CHANGELOG says. */
#ifndef SCORIA_H
#define SCORIA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define SCORIA_API
#else
#define SCORIA_API __attribute__((visibility("default")))
#endif

typedef enum scoria_status {
    SCORIA_OK = 0,
    SCORIA_FAILED = 1,
    SCORIA_BAD_ARGUMENT = 2,
    SCORIA_BAD_FILE = 3,
    SCORIA_UNSUPPORTED = 4,
    SCORIA_OUT_OF_HOST_MEMORY = 5,
    SCORIA_OUT_OF_DEVICE_MEMORY = 6,
    SCORIA_DEVICE_LOST = 7,
    SCORIA_CANCELLED = 8,
    SCORIA_CONTEXT_FULL = 9,
    SCORIA_NON_FINITE = 10,
    SCORIA_TIMEOUT = 11
} scoria_status;

typedef struct scoria_engine scoria_engine;   /* a model on a device */
typedef struct scoria_session scoria_session; /* one conversation */

/* Text of what went wrong in the last call on this thread that did not return SCORIA_OK; never NULL,
 * valid until the thread's next call. */
SCORIA_API const char* scoria_last_error(void);
SCORIA_API const char* scoria_version(void); /* "0.1.0" */

typedef struct scoria_adapter {
    const char* path; /* a LoRA adapter: PEFT folder or GGUF file */
    float scale;      /* times the file's own */
} scoria_adapter;

typedef struct scoria_engine_options {
    size_t size;            /* sizeof(scoria_engine_options) */
    const char* model_path; /* GGUF file */
    const char* device;     /* NULL: best; else an index or part of a name */
    uint32_t context;       /* positions; 0: the least of the model's, what fits, and 8192 */
    uint32_t precision;     /* 0 strict (f32), 1 balanced (f16), 2 fast (8-bit activations) */
    /* Bytes of weights uploaded so far; called on the calling thread. May be NULL. */
    void (*progress)(void* user, uint64_t done, uint64_t total);
    void* user;
    const scoria_adapter* adapters; /* added to the model at run time; may be NULL */
    size_t adapter_count;
} scoria_engine_options;

/* Opens the model, plans memory, uploads. On failure *engine is NULL. */
SCORIA_API scoria_status scoria_engine_create(const scoria_engine_options* options, scoria_engine** engine);
SCORIA_API void scoria_engine_destroy(scoria_engine* engine); /* NULL is ignored; sessions must be gone */

/* Token ids of `text`, at most `capacity` of them; *count is how many there are. Special tokens in the
 * text are parsed if `special`, which also adds the model's BOS. */
SCORIA_API scoria_status scoria_tokenize(const scoria_engine* engine, const char* text, size_t bytes,
                                         int special, int32_t* ids, size_t capacity, size_t* count);
/* The prompt of one user message through the model's chat template, NUL-terminated if it fits;
 * *length is its length without the NUL. */
SCORIA_API scoria_status scoria_chat_prompt(const scoria_engine* engine, const char* user_message, char* text,
                                            size_t capacity, size_t* length);

SCORIA_API scoria_status scoria_session_create(scoria_engine* engine, scoria_session** session);
SCORIA_API void scoria_session_destroy(scoria_session* session); /* NULL is ignored */

/* Appends tokens and computes them. On failure nothing is appended beyond what was computed. */
SCORIA_API scoria_status scoria_session_append(scoria_session* session, const int32_t* ids, size_t count);
/* Encoder-decoders: runs the encoder over the ids and begins the decoder's sequence anew; append its start
 * token next (scoria_decoder_start). */
SCORIA_API scoria_status scoria_session_encode(scoria_session* session, const int32_t* ids, size_t count);
SCORIA_API scoria_status scoria_decoder_start(const scoria_engine* engine, int32_t* id);
SCORIA_API scoria_status scoria_session_truncate(scoria_session* session, size_t length);
SCORIA_API size_t scoria_session_length(const scoria_session* session);

typedef struct scoria_logit_bias {
    int32_t token;
    float bias; /* added to the token's logit; -INFINITY bans it */
} scoria_logit_bias;

/* Members that `size` does not reach have the defaults of the program's flags. */
typedef struct scoria_generate_options {
    size_t size;              /* sizeof(scoria_generate_options) */
    uint32_t max_tokens;      /* 0: until the model ends or the context is full */
    float temperature;        /* 0: greedy */
    uint32_t top_k;           /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float repetition_penalty; /* 1: off */
    uint64_t seed;
    /* One token and the UTF-8 text that is certain with it (`bytes` may be 0); 0 stops. At the end what was
     * held back, if anything, comes with id -1. */
    int (*on_token)(void* user, int32_t id, const char* text, size_t bytes);
    void* user;
    uint32_t repetition_window; /* tokens back that the three penalties look, at most 256 */
    float frequency_penalty;    /* 0: off; per time the token was seen */
    float presence_penalty;     /* 0: off; if it was seen at all */
    float typical_p;            /* 1: off */
    float xtc_probability;      /* 0: off */
    float xtc_threshold;
    float mirostat_tau; /* bits of surprise aimed at; 0: off. On, no other filter is */
    float mirostat_eta;
    const scoria_logit_bias* logit_bias; /* one per token at most; may be NULL */
    size_t logit_bias_count;
    const char* const* stop; /* texts that end the answer and are left out of it; may be NULL */
    size_t stop_count;
    /* Before on_token: natural logarithms of the model's own probabilities, of the token and of the
     * `logprobs` likeliest (at most 64). May be NULL. */
    void (*on_logprobs)(void* user, int32_t id, float logprob, const int32_t* best_ids,
                        const float* best_logprobs, size_t count);
    uint32_t logprobs;
    /* Text that the answer must be one of the words of: a GBNF grammar, or a JSON schema. Not both. */
    const char* grammar;     /* may be NULL */
    const char* json_schema; /* may be NULL */
    float dry_multiplier;    /* 0: off */
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_range;              /* tokens back; 0: all */
    const char* const* dry_breakers; /* NULL: newline, colon, quote, asterisk */
    size_t dry_breaker_count;
} scoria_generate_options;

/* Samples and appends tokens. SCORIA_CANCELLED if stopped by on_token or scoria_session_cancel. */
SCORIA_API scoria_status scoria_session_generate(scoria_session* session,
                                                 const scoria_generate_options* options);
/* Stops a running append or generate soon; callable from any thread. */
SCORIA_API void scoria_session_cancel(scoria_session* session);

#ifdef __cplusplus
}
#endif

#endif
