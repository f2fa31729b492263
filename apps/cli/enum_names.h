// What people read instead of the enums of architecture.h.
#pragma once

#include <cstddef>

namespace scoria::cli {

inline constexpr const char* norm_names[] = {"RMS", "layer"};
inline constexpr const char* placement_names[] = {
    "pre",      "pre, also of the residual", "post", "post, twice after attention", "sandwich", "output",
    "parallel", "parallel, two norms"};
inline constexpr const char* activation_names[] = {"identity", "silu",   "gelu",    "gelu-tanh", "gelu-quick",
                                                   "relu",     "relu^2", "sigmoid", "elu",       "selu",
                                                   "softplus", "tanh",   "xielu"};
inline constexpr const char* mask_names[] = {"causal",
                                             "strided",
                                             "fixed block",
                                             "fixed summary",
                                             "strided union",
                                             "fixed union",
                                             "local block",
                                             "bidirectional",
                                             "prefix",
                                             "source",
                                             "window and global tokens",
                                             "global rows",
                                             "compressed memory",
                                             "chosen keys"};
inline constexpr const char* qk_norm_names[] = {"none", "head", "projection"};
inline constexpr const char* bias_names[] = {"none", "linear (ALiBi)", "table", "table, both directions",
                                             "by query and distance"};
inline constexpr const char* score_names[] = {"softmax", "softmax of chosen", "sigmoid",
                                              "softmax of near ones"};

inline constexpr const char* recurrence_names[] = {
    "none", "convolution", "delta", "state space", "selective state space", "lightning", "wkv"};

template <class T, size_t n> const char* name_of(const char* const (&names)[n], T value) {
    return names[static_cast<size_t>(value)];
}

}  // namespace scoria::cli
