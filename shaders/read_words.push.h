// Push constants of read_words.comp.
#ifndef SCORIA_READ_WORDS_PUSH_H
#define SCORIA_READ_WORDS_PUSH_H

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct ReadWordsPush {
    uint count;   // of four words each
    uint groups;  // workgroups that share them
};

#ifdef __cplusplus
}
#endif
#endif
