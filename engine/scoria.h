/* The C interface of libscoria: opaque handles, status codes, versioned structs. scoria_vulkan.h adds what a
 * host needs that brings its own VkDevice.
 *
 * What holds for every call:
 * - It returns a status and never aborts, exits, throws, writes to stdout or stderr, or reads the environment
 *   (the Vulkan loader and drivers do read theirs). scoria_last_error() tells in words what went wrong.
 * - NULL, a handle that is destroyed, of the other kind, of before a fork() or never was one, and a struct
 *   whose size cannot be are SCORIA_BAD_ARGUMENT. NULL texts and arrays are allowed where their count is 0 or
 *   a comment says so.
 * - Structs begin with `size`, which the caller sets to sizeof(the struct). Of an older one the library fills
 *   in what is missing; of a newer one it accepts what is all 0 in the part it does not know.
 * - Texts are UTF-8. A result text is written with a NUL if it fits into `capacity` bytes, else not at all;
 *   *length is its length without the NUL in either case. Of a result array as many elements are written as
 *   fit; *count is how many there are.
 * - Options are read during the call only; nothing of the caller's is kept but the callbacks that say so, of
 *   an engine and of an answer in a batch, with their `user`.
 *
 * Threads: every call may be made from every thread at any time. A session does one thing at a time: a second
 * call on it, from another thread or from inside its own callbacks, is SCORIA_BUSY at once (but for
 * scoria_session_cancel), and so does a batch. Sessions of one engine run side by side and take turns on its
 * queue; those in a batch are computed together. No call needs more than
 * 512 KiB of its thread's stack, drivers apart.
 *
 * Callbacks run on the thread that made the call, must return in the end and must not throw; they may make
 * any call. `user` is handed on untouched.
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
    SCORIA_BAD_ARGUMENT = 2, /* the caller could have known */
    SCORIA_BAD_FILE = 3,     /* missing, truncated, or it lies */
    SCORIA_UNSUPPORTED = 4,  /* valid, but not something that this build or device can do */
    SCORIA_OUT_OF_HOST_MEMORY = 5,
    SCORIA_OUT_OF_DEVICE_MEMORY = 6,
    SCORIA_DEVICE_LOST = 7, /* call again; if it stays, destroy the sessions and the engine */
    SCORIA_CANCELLED = 8,
    SCORIA_CONTEXT_FULL = 9,
    SCORIA_NON_FINITE = 10, /* the model computed no number */
    SCORIA_TIMEOUT = 11,
    SCORIA_BUSY = 12 /* in use: see Threads; an engine: by its sessions and batches */
} scoria_status;

typedef struct scoria_engine scoria_engine;   /* a model on a device */
typedef struct scoria_session scoria_session; /* one conversation */
typedef struct scoria_batch scoria_batch;     /* answers of several sessions, computed together */
struct scoria_vulkan;                         /* scoria_vulkan.h */
struct scoria_shared;                         /* the same */

/* What went wrong in the last call on this thread that did not return SCORIA_OK: "[where] expected X, got Y".
 * Never NULL; valid until such a call. */
SCORIA_API const char* scoria_last_error(void);
SCORIA_API const char* scoria_status_name(scoria_status status); /* "SCORIA_OK"; never NULL */
SCORIA_API const char* scoria_version(void);                     /* "0.1.0" */

/* Where the process's messages for people go (a slower path taken, a cache ignored); NULL: nowhere, as at the
 * start. Lines come from any thread, one at a time, and nobody but scoria_set_log waits for the callback:
 * what other threads say meanwhile comes next. `line` is valid during the callback, and what the callback
 * causes is not logged. When the call returns, the callback before is not called any more. Errors: busy, from
 * inside a log callback. */
typedef void (*scoria_log_callback)(void* user, const char* line);
SCORIA_API scoria_status scoria_set_log(scoria_log_callback callback, void* user);

/* --- devices ---------------------------------------------------------------------------------------------
 */

enum {
    SCORIA_DEVICE_OTHER,
    SCORIA_DEVICE_INTEGRATED,
    SCORIA_DEVICE_DISCRETE,
    SCORIA_DEVICE_VIRTUAL,
    SCORIA_DEVICE_CPU
};

typedef struct scoria_device {
    size_t size;
    const char* name;
    const char* driver;   /* name and version, for people */
    const char* unusable; /* why it cannot be used; "" if it can */
    uint32_t index;       /* for scoria_engine_options.device */
    uint32_t type;        /* SCORIA_DEVICE_ ... */
    uint32_t chosen;      /* 1: what device = NULL takes */
    uint32_t api_version; /* as Vulkan packs it */
    uint8_t uuid[16];     /* VkPhysicalDeviceIDProperties::deviceUUID */
} scoria_device;

/* Calls back for each device of the machine. `device` is valid during the callback. Errors: unsupported (no
 * Vulkan loader, no driver). */
SCORIA_API scoria_status scoria_list_devices(void (*on_device)(void* user, const scoria_device* device),
                                             void* user);

/* --- engines ---------------------------------------------------------------------------------------------
 */

typedef struct scoria_adapter {
    const char* path;  /* a LoRA adapter: PEFT folder or GGUF file */
    float scale;       /* times the file's own */
    uint32_t reserved; /* 0 */
} scoria_adapter;

enum { SCORIA_STRICT, SCORIA_BALANCED, SCORIA_FAST }; /* f32; f16; 8-bit activations */
enum { SCORIA_KV_BY_PRECISION, SCORIA_KV_F32, SCORIA_KV_F16, SCORIA_KV_BF16, SCORIA_KV_Q8_0, SCORIA_KV_Q4_0 };

/* One piece of memory (a VkDeviceMemory): the device's, or the host's that the device sees. */
typedef struct scoria_allocation {
    size_t size;
    uint64_t bytes;
    uint64_t in_use;       /* bytes of the engine's other pieces on the same device */
    uint32_t count;        /* of them */
    uint32_t device_local; /* 1: of a heap of the device */
} scoria_allocation;

typedef struct scoria_engine_options {
    size_t size;
    const char* model_path; /* GGUF file or Hugging Face folder */
    const char* device;     /* NULL: best; an index or part of a name; "0,1": these share the layers */
    /* Where compiled pipelines are kept, and which kernels proved wrong on this device: with a folder, a GPU
     * of the library's own is tested at a model's first use, for seconds. NULL: nowhere, and nothing is. */
    const char* cache_folder;
    const scoria_adapter* adapters; /* added to the model at run time; may be NULL */
    size_t adapter_count;
    /* Bytes of weights uploaded so far; 0 stops (cancelled). May be NULL. */
    int (*progress)(void* user, uint64_t done, uint64_t total);
    void* user;
    const struct scoria_vulkan* vulkan; /* NULL: a device of the library's own */
    uint64_t memory_budget; /* device bytes that the plan may take; 0: what the driver offers. Weights beyond
                               it stay in host memory and, unless a GPU is integrated, cross the bus in every
                               step */
    uint32_t context;       /* positions; 0: the least of the model's, what fits, and 8192 */
    uint32_t precision;     /* SCORIA_BALANCED by default */
    uint32_t kv;            /* SCORIA_KV_ ... */
    uint32_t prompt_chunk;  /* tokens of a prompt computed at a time; 0: 512 */
    uint32_t deterministic; /* 1: equal bits however tokens are batched; slower prompts */
    /* 1: weights are read from a memory map. Faster, but a file that shrinks, or a disk that fails, ends the
     * process with SIGBUS; 0 makes that an error. */
    uint32_t mmap;
    float submission_ms; /* aim for the GPU time of one submission, so that a renderer keeps its
                          * frames; 0: 50, on CPU drivers 1000. See scoria_engine_set_submission_ms */
    uint32_t reserved;   /* 0 */
    /* What follows lives as long as the engine, with `user`; each may be NULL. */
    /* Before every submission of a prompt's or a token's part, on the thread of the call: the time to submit
     * work of the host's own to a queue that is shared, or to wait until it has. At most one such submission
     * of the session is on its way then, and two at other times. `ms`: GPU time of the last one known. */
    void (*on_submission)(void* user, float ms);
    /* Before memory is taken, from any thread; 0 refuses, and the call that needs it is out_of_device_memory.
     * After some is given back. All calls from inside these two are SCORIA_BUSY. */
    int (*on_allocate)(void* user, const scoria_allocation* allocation);
    void (*on_free)(void* user, const scoria_allocation* allocation);
    /* Instead of memory_budget, asked when the engine is planned, created or restored. */
    uint64_t (*available_memory)(void* user);
    /* Pieces of memory held at a time, on each of several devices; 0: as many as the device allows
     * (maxMemoryAllocationCount), on a host's device half of them. One more is out_of_device_memory. */
    uint32_t max_allocations;
    uint32_t reserved2; /* 0 */
    /* Sessions that share one cache, which a scoria_batch then computes together: at most 64; 0: 1, and each
     * session has a cache of its own. What sessions have in common from their first token on is computed and
     * held once, and stays, after they are gone, until others want its memory or the engine is evicted; who
     * must not tell by time what others have asked needs an engine of his own. */
    uint32_t sequences;
    uint32_t shared_context; /* positions of all that share; 0: as many as fit, `context` each at most */
    /* 1: of the model, only the layer that it has for guessing the token behind the next one (multi-token
     * prediction; "unsupported", if it has none), with its embedding and head: a draft for sessions of an
     * engine of the model itself that shows_hidden, and of no use by itself. */
    uint32_t layer_ahead;
    /* 1: such a draft may guess for its sessions. What heads read, 4 bytes of each hidden column of a token,
     * then stays in host memory until the draft takes it, or an answer ends without one. scoria_memory has
     * none of that. */
    uint32_t shows_hidden;
    /* Of a draft that reads layers of its target (EAGLE-3): that target's model, whose vocabulary and, where
     * the draft has none, embedding it takes; and of its target: that draft's model, what it reads being
     * shown as above. Each may be NULL. */
    const char *target_path, *draft_path;
} scoria_engine_options;

/* Sets `size` and every default of a struct of `size` bytes. */
SCORIA_API scoria_status scoria_engine_options_init(scoria_engine_options* options, size_t size);

/* Opens the model, plans memory, uploads. On failure *engine is NULL. Errors: bad_file, unsupported,
 * out_of_device_memory (with the plan in words), out_of_host_memory, cancelled, device_lost. */
SCORIA_API scoria_status scoria_engine_create(const scoria_engine_options* options, scoria_engine** engine);
/* Releases everything. NULL is fine. Errors: busy, while it has sessions or batches or a call on it
 * runs. */
SCORIA_API scoria_status scoria_engine_destroy(scoria_engine* engine);

/* Another submission_ms, while a window moves, say; 0: the default. Prompts and generated tokens are cut into
 * submissions predicted, from the times of those before, to take so long: layers, and rows of a prompt's
 * matrices and attention. The answer does not depend on it. What one token needs of one matrix, or of one
 * layer's cache, cannot be cut and takes as long as it takes. */
SCORIA_API scoria_status scoria_engine_set_submission_ms(scoria_engine* engine, float ms);

/* Gives all device memory of an engine and its sessions back to others; scoria_memory.in_use is 0 then. The
 * sessions keep their tokens, and what they are asked next goes on as if nothing had been: the weights are
 * read from the model's file again and the tokens computed again, by the first call that computes, or ahead
 * of it by _restore, which can show its progress or be stopped. Errors: of _evict, busy, while a session
 * computes (also from inside its callbacks, but a batch's, which come between two passes); of _restore, as
 * scoria_engine_create; the engine then is as evicted as before. Neither does anything when there is nothing
 * to do. While a call restores an engine, which after the loss of a device any may, those that its callbacks
 * (progress, available_memory, the log) make on that engine are busy, if they compute, evict or restore. */
SCORIA_API scoria_status scoria_engine_evict(scoria_engine* engine);
SCORIA_API scoria_status scoria_engine_restore(scoria_engine* engine,
                                               int (*progress)(void* user, uint64_t done, uint64_t total),
                                               void* user);

typedef struct scoria_memory {
    size_t size;
    /* Device bytes of the plan. kv and scratch are each session's; where sessions share a cache, kv is that
     * of all, and scratch includes a batch's. */
    uint64_t weights, kv, scratch;
    uint64_t staging;                /* bytes of host memory while weights are uploaded */
    uint64_t heap_size, heap_budget; /* of the heap that holds them; the budget as planned with */
    uint64_t in_use;                 /* device and host-visible bytes allocated now; 0 in a plan */
    uint32_t context;                /* positions of a session */
    uint32_t source;                 /* tokens that an encoder-decoder's encoder takes; else 0 */
    uint64_t host_weights;           /* bytes of host memory for weights that the device has no room for */
    uint64_t host_budget;            /* bytes of host memory that the device can see, free as planned with */
    uint32_t shared;                 /* positions of all sessions that share a cache */
    uint32_t reserved;               /* 0 */
    uint64_t host_kv;                /* as host_weights, of the cache: what kv has no room for */
} scoria_memory;

/* What an engine would take; reads no weights. Errors: as scoria_engine_create. */
SCORIA_API scoria_status scoria_plan_memory(const scoria_engine_options* options, scoria_memory* memory);
SCORIA_API scoria_status scoria_engine_memory(scoria_engine* engine, scoria_memory* memory);

enum { SCORIA_DECODER, SCORIA_ENCODER, SCORIA_ENCODER_DECODER };

typedef struct scoria_engine_info { /* texts live as long as the engine */
    size_t size;
    const char* model_name;
    const char* family;
    const char* tokenizer; /* kind, for people; "" if the model has none */
    const char* device_name;
    const char* driver_name;
    uint32_t kind;   /* SCORIA_DECODER ... */
    uint32_t vocab;  /* logits per token */
    uint32_t hidden; /* size of an embedding */
    uint32_t layers;
    uint32_t context;
    uint32_t has_chat_template;
    int32_t bos, eos; /* -1: none */
    /* Of encoder-decoders, else -1: what the decoder begins with, and what is forced to follow it (a
     * translator's language; -1: nothing). */
    int32_t decoder_start, decoder_next;
    uint32_t source;       /* tokens that their encoder takes, else 0 */
    uint32_t prompt_chunk; /* tokens computed at a time: append so many per call to show progress */
} scoria_engine_info;

SCORIA_API scoria_status scoria_engine_get_info(scoria_engine* engine, scoria_engine_info* info);

/* --- text ------------------------------------------------------------------------------------------------
 */

enum {
    SCORIA_ADD_SPECIAL = 1, /* BOS and EOS, as the vocabulary says */
    SCORIA_PARSE_SPECIAL = 2
}; /* text that spells a special token becomes it: not for strangers' text */

SCORIA_API scoria_status scoria_tokenize(scoria_engine* engine, const char* text, size_t bytes,
                                         uint32_t flags, int32_t* ids, size_t capacity, size_t* count);
/* Special tokens are left out unless `special`. */
SCORIA_API scoria_status scoria_detokenize(scoria_engine* engine, const int32_t* ids, size_t count,
                                           int special, char* text, size_t capacity, size_t* length);

typedef struct scoria_message {
    const char* role; /* "system", "user", "assistant" */
    const char* content;
} scoria_message;

typedef struct scoria_chat_options {
    size_t size;
    const scoria_message* messages;
    size_t message_count;
    /* Instead of messages, all that a template may ask for: a JSON array of messages, or an object with
     * "messages" and where wanted "tools", "documents", "variables". May be NULL. */
    const char* json;
    uint32_t no_generation_prompt; /* 1: leave out the beginning of the answer */
    uint32_t reserved;             /* 0 */
} scoria_chat_options;

/* A conversation through the model's chat template, as text, or as ids in which no message can spell a
 * control token. Errors: unsupported (no template, or one that needs what this build has not), bad_file (the
 * template or the JSON is not valid), failed (the template refuses the messages). */
SCORIA_API scoria_status scoria_chat_text(scoria_engine* engine, const scoria_chat_options* options,
                                          char* text, size_t capacity, size_t* length);
SCORIA_API scoria_status scoria_chat_tokens(scoria_engine* engine, const scoria_chat_options* options,
                                            int32_t* ids, size_t capacity, size_t* count);

/* --- sessions --------------------------------------------------------------------------------------------
 */

/* Allocates the cache. Errors: out_of_device_memory, device_lost. */
SCORIA_API scoria_status scoria_session_create(scoria_engine* engine, scoria_session** session);
/* NULL is fine. Errors: busy, while a call on it runs. */
SCORIA_API scoria_status scoria_session_destroy(scoria_session* session);

/* Stops the append, replace, restore or generate that runs on the session, soon; without one it does nothing.
 * Never busy, also inside callbacks but on_allocate and on_free. */
SCORIA_API scoria_status scoria_session_cancel(scoria_session* session);

/* Appends tokens and computes them. On failure what was computed stays. Errors: bad_argument (an id outside
 * the vocabulary), context_full (nothing is appended), cancelled, device_lost. */
SCORIA_API scoria_status scoria_session_append(scoria_session* session, const int32_t* ids, size_t count);
/* Makes these ids the sequence: what it begins with already is kept, the rest is computed. */
SCORIA_API scoria_status scoria_session_replace(scoria_session* session, const int32_t* ids, size_t count);
/* Forgets everything from `length` on. */
SCORIA_API scoria_status scoria_session_truncate(scoria_session* session, size_t length);
/* The same for a session alone: its cache goes and comes back. Errors of _restore: as append. */
SCORIA_API scoria_status scoria_session_evict(scoria_session* session);
SCORIA_API scoria_status scoria_session_restore(scoria_session* session);
/* All appended and generated tokens. */
SCORIA_API scoria_status scoria_session_tokens(scoria_session* session, int32_t* ids, size_t capacity,
                                               size_t* count);
/* Logits [vocab] of the last token. */
SCORIA_API scoria_status scoria_session_logits(scoria_session* session, float* logits, size_t capacity,
                                               size_t* count);
/* Encoder-decoders: runs the encoder over the ids and begins the decoder's sequence anew; append
 * scoria_engine_info.decoder_start next, then decoder_next (or another language's token) unless that is -1.
 */
SCORIA_API scoria_status scoria_session_encode(scoria_session* session, const int32_t* ids, size_t count);

enum { SCORIA_POOL_BY_MODEL, SCORIA_POOL_MEAN, SCORIA_POOL_FIRST, SCORIA_POOL_LAST };

typedef struct scoria_embed_options {
    size_t size;
    uint32_t pooling; /* SCORIA_POOL_ ... */
    uint32_t raw;     /* 1: not scaled to length 1 */
} scoria_embed_options;

/* The embedding [hidden] of a text's ids; its sequence is forgotten before and after. options may be NULL. */
SCORIA_API scoria_status scoria_session_embed(scoria_session* session, const int32_t* ids, size_t count,
                                              const scoria_embed_options* options, float* vector,
                                              size_t capacity, size_t* size);

/* How well a document answers a query, as a model made for ranking says (a cross-encoder; "unsupported" for
 * others): greater for better, from 0 to 1 but where the model was made otherwise. Texts are UTF-8 without an
 * end; what the model has no room for is cut from the longer one's end. Its sequence is forgotten before and
 * after. */
SCORIA_API scoria_status scoria_session_rank(scoria_session* session, const char* query, size_t query_length,
                                             const char* document, size_t document_length, double* score);

typedef struct scoria_logit_bias {
    int32_t token;
    float bias; /* added to the token's logit; -INFINITY bans it */
} scoria_logit_bias;

/* Members that `size` does not reach, and scoria_generate_options_init, have the defaults of the program's
 * flags. */
typedef struct scoria_generate_options {
    size_t size;
    /* One token and the UTF-8 text that is certain with it (`bytes` may be 0; a NUL follows); 0 stops. At the
     * end what was held back, if anything, comes with id -1. May be NULL. */
    int (*on_token)(void* user, int32_t id, const char* text, size_t bytes);
    /* Before on_token: natural logarithms of the model's own probabilities, of the token and of the
     * `logprobs` likeliest (at most 64). May be NULL. */
    void (*on_logprobs)(void* user, int32_t id, float logprob, const int32_t* best_ids,
                        const float* best_logprobs, size_t count);
    void* user;
    const scoria_logit_bias* logit_bias; /* one per token, and 1024, at most */
    size_t logit_bias_count;
    const char* const* stop; /* texts that end the answer and are left out of it: 64 of 4096 bytes at most */
    size_t stop_count;
    /* Text that the answer must be one of the words of: a GBNF grammar, or a JSON schema. Not both; may be
     * NULL. */
    const char* grammar;
    const char* json_schema;
    const char* const* dry_breakers; /* NULL: newline, colon, quote, asterisk */
    size_t dry_breaker_count;
    uint64_t seed;
    uint32_t max_tokens;        /* 0: until the model ends or the context is full */
    uint32_t logprobs;          /* for on_logprobs */
    float temperature;          /* 0: greedy */
    uint32_t top_k;             /* 0: off */
    float top_p;                /* 1: off */
    float min_p;                /* 0: off */
    float typical_p;            /* 1: off */
    float repetition_penalty;   /* 1: off */
    float frequency_penalty;    /* 0: off; per time the token was seen */
    float presence_penalty;     /* 0: off; if it was seen at all */
    uint32_t repetition_window; /* tokens back that the three penalties look, at most 256 */
    float xtc_probability;      /* 0: off */
    float xtc_threshold;
    float mirostat_tau; /* bits of surprise aimed at; 0: off. On, no other filter is */
    float mirostat_eta;
    float dry_multiplier; /* 0: off */
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_range;  /* tokens back; 0: all */
    uint32_t ignore_end; /* 1: tokens that end an answer are like others */
    /* Speculation: tokens are guessed and several computed at a time. The answer is the same one, sooner
     * where guesses come true. A smaller model of the same vocabulary guesses, or a model's own layer
     * for it (scoria_engine_options.layer_ahead), or how the text so far went on elsewhere (lookup); not
     * both. The session keeps a session of its own on the draft's engine, until it is destroyed or given
     * another draft. NULL and 0: none. */
    scoria_engine* draft;
    uint32_t lookup;       /* 1: by the text so far */
    uint32_t draft_tokens; /* the longest guess; 0: 15 */
    /* Before the two above: what the last token attends to in the layer that scoria_session_watch
     * (scoria_vulkan.h) chose. What the host does with it on the device ends before it returns. May be NULL;
     * not beside speculation. */
    void (*on_attention)(void* user, const struct scoria_shared* weights);
} scoria_generate_options;

SCORIA_API scoria_status scoria_generate_options_init(scoria_generate_options* options, size_t size);

enum {
    SCORIA_STOP_END,
    SCORIA_STOP_TOKEN_LIMIT,
    SCORIA_STOP_CONTEXT_FULL,
    SCORIA_STOP_CANCELLED,
    SCORIA_STOP_TEXT
};

typedef struct scoria_generate_result {
    size_t size;
    uint32_t stop;   /* SCORIA_STOP_ ...: why it ended */
    uint32_t tokens; /* generated, the one that ended it among them */
    double seconds;
    uint32_t proposed, accepted; /* tokens guessed, and those of them that came true */
    uint32_t reused;             /* tokens before it that other sessions of the engine had computed */
    uint32_t reserved;           /* 0 */
} scoria_generate_result;

/* Samples and appends tokens; needs at least one token before. `result` may be NULL. Errors: cancelled, if
 * on_token or scoria_session_cancel stopped it (what came stays, and result is filled); bad_argument (options
 * out of range, no token before, a draft of another vocabulary), context_full (others have the cache that
 * sessions share, before any token came: an answer that has some ends by SCORIA_STOP_CONTEXT_FULL),
 * device_lost, non_finite, timeout. */
SCORIA_API scoria_status scoria_session_generate(scoria_session* session,
                                                 const scoria_generate_options* options,
                                                 scoria_generate_result* result);

/* --- batches ---------------------------------------------------------------------------------------------
 * Answers that are generated together: a pass computes the next token of each, with pieces of prompts beside
 * them, and reads the weights once. Such are sessions of an engine with `sequences`. Others take turns, as do
 * answers with speculation or on_attention, and models whose passes know one sequence only: encoder-decoders
 * and what several devices share, for the most part. */

/* Takes no memory until its first step. */
SCORIA_API scoria_status scoria_batch_create(scoria_engine* engine, scoria_batch** batch);
/* Its sessions are free then; their answers end as they are, without on_done. NULL is fine. Errors: busy,
 * while a call on it runs. */
SCORIA_API scoria_status scoria_batch_destroy(scoria_batch* batch);

/* An answer is over, and its session free: it may be added again from inside, say. `status` and `message` are
 * what scoria_session_generate would have returned, and scoria_last_error would have told ("" if it is
 * SCORIA_OK). `result` is of SCORIA_OK and SCORIA_CANCELLED. All is valid during the callback. */
typedef void (*scoria_batch_done)(void* user, scoria_session* session, scoria_status status,
                                  const char* message, const scoria_generate_result* result);

/* Appends the ids, if any, to the session's tokens and answers them, from the next step on. The options are
 * copied with all that they point to; their callbacks and `user`, which is on_done's too, are kept until
 * on_done, which may be NULL. Until then every call on the session is SCORIA_BUSY, but for
 * scoria_session_cancel, which ends the answer with the next step (cancelled). May be called from inside the
 * batch's callbacks; during a step on another thread it is SCORIA_BUSY. Errors: as scoria_session_generate;
 * bad_argument (an id outside the vocabulary, a session of another engine), context_full (nothing is
 * appended), unsupported (an encoder). */
SCORIA_API scoria_status scoria_batch_add(scoria_batch* batch, scoria_session* session, const int32_t* ids,
                                          size_t count, const scoria_generate_options* options,
                                          scoria_batch_done on_done);
/* One pass: a token of each answer at most, and a chunk of prompts; where sessions take turns, a whole
 * answer. All callbacks of the answers come from inside. *left is how many are not done; `left` may be NULL.
 * What one answer meets is told by its on_done; what is returned is of the pass. Nothing is lost with it, and
 * a step may be tried again. Errors: device_lost, out_of_device_memory, timeout.
 * A session that is done keeps what it has of a shared cache, which others may want, until it is truncated,
 * evicted or destroyed. */
SCORIA_API scoria_status scoria_batch_step(scoria_batch* batch, size_t* left);

/* --- proof -----------------------------------------------------------------------------------------------
 */

typedef struct scoria_check { /* one comparison with the double-precision reference */
    size_t size;
    const char *op, *variant, *shape; /* of a model "linear", "layer 3 q", "5 x 576" */
    const char* detail;               /* of a failure, for people; else "" */
    double share; /* of the error allowed; above 1 in failures, infinite without a measure */
    uint32_t passed;
    uint32_t reserved; /* 0 */
} scoria_check;

typedef struct scoria_check_counts {
    size_t size;
    uint32_t cases, failed;
} scoria_check_counts;

typedef struct scoria_validate_options {
    size_t size;
    const char* device; /* as in scoria_engine_options; one */
    const char* op;     /* NULL: all */
    /* After each; `check` is valid during the callback; 0 stops (cancelled). May be NULL. */
    int (*on_check)(void* user, const scoria_check* check);
    void* user;
    uint32_t full;     /* 1: every case there is, for minutes */
    uint32_t reserved; /* 0 */
} scoria_validate_options;

/* Runs every kernel of this build that the device can run, on a device of the library's own. `options` may be
 * NULL. A check that fails is a count, not an error. Errors: bad_argument (no such op), unsupported,
 * cancelled, device_lost. */
SCORIA_API scoria_status scoria_validate(const scoria_validate_options* options, scoria_check_counts* counts);
/* Computes the ids with the engine's model, from an empty sequence, and compares each tensor that is kept.
 * The reference takes its time: a few ids will do. Errors: bad_argument (an id outside the vocabulary);
 * unsupported, where tensors cannot be traced; as scoria_session_append. */
SCORIA_API scoria_status scoria_engine_validate(scoria_engine* engine, const int32_t* ids, size_t count,
                                                int (*on_check)(void* user, const scoria_check* check),
                                                void* user, scoria_check_counts* counts);

#ifdef __cplusplus
}
#endif

#endif
