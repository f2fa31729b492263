// Which variant of an op runs: every choice of a whole engine in one place, so that a variant can be forced
// (tests, tuning) or left out (it failed its self-test, see engine/self_test.h).
#pragma once

#include "attention.h"
#include "linear.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// The ops whose list of variants depends on the device alone.
enum class SimpleOp : uint8_t {
    embed,
    norm,
    rope_cache,
    glu,
    add,
    gate,
    map,
    pack,
    mix,
    select,
    route,
    expert_sum,
    compress,
    hash,
    sort,
    chunk_attention,
    choose,
    convolve,
    shift,
    scan,
    wkv,
    sample,
    count
};
const char* op_name(SimpleOp op);
std::vector<KernelVariant> simple_variants(const vk::Caps& caps, SimpleOp op);

/// "linear/vec 8 tokens 1 q4_1": a variant with what its pipeline is made for.
std::string variant_key(std::string_view op, std::string_view variant, std::string_view of);
std::string linear_of(TensorType type);
std::string attention_of(uint32_t head_dim, KvType type);

/// Whether a name is meant by `wanted`: its first words, or all of it.
bool names_variant(std::string_view wanted, std::string_view name);

/// What attention is timed at, beside its cache's type.
struct CachedAttention {
    AttentionShape shape;
    KvType kv;
    auto operator<=>(const CachedAttention&) const = default;
};
/// The sizes that a variant is found for stand for those near them: batches up to the next of 1, 2, 4, 8, 16,
/// 64 and 512 tokens (of more, 512), contexts up to the next power of two.
LinearShape tuned_shape(LinearShape shape);
ExpertShape tuned_shape(ExpertShape shape);
CachedAttention tuned_shape(CachedAttention attention);

class Choices {
  public:
    Precision precision = Precision::strict;
    bool pinned = false;  // every batch size runs the variants of one token: equal bits however tokens are
                          // batched
    std::map<std::string, std::string, std::less<>> forced;       // variant by op
    std::map<std::string, std::string, std::less<>> quarantined;  // why, by variant_key
    // What measured fastest on this device, by tuned_shape: stands in for the default (tuned_variants.h).
    std::map<LinearShape, LinearVariant> tuned_linear;
    std::map<ExpertShape, LinearVariant> tuned_experts;
    std::map<CachedAttention, AttentionVariant> tuned_attention;

    /// Of these, default first: the forced one, where it is among them, else the first; no quarantined one.
    /// Errors: unsupported, when all are quarantined.
    template <class Variant>
    const Variant& choose(std::string_view op, std::string_view of,
                          const std::vector<Variant>& variants) const {
        if (forced.empty() && quarantined.empty()) return variants.front();
        std::vector<std::string_view> names;
        for (const Variant& variant : variants) names.push_back(variant.name);
        return variants[index_of(op, of, names)];
    }

    /// What linear(), experts() and attention() choose from.
    std::vector<LinearVariant> linear_variants(const vk::Caps& caps, LinearShape shape) const;
    std::vector<LinearVariant> expert_variants(const vk::Caps& caps, ExpertShape shape) const;
    std::vector<AttentionVariant> attention_variants(const vk::Caps& caps, AttentionShape shape) const;
    LinearVariant linear(const vk::Caps& caps, const LinearShape& shape) const;
    LinearVariant experts(const vk::Caps& caps, const ExpertShape& shape) const;
    AttentionVariant attention(const vk::Caps& caps, const AttentionShape& shape, KvType type) const;
    /// `of`: what else the pipeline is made for, a weight type.
    KernelVariant simple(const vk::Caps& caps, SimpleOp op, std::string_view of = {}) const;

  private:
    template <class Shape, class Variant>
    const Variant* tuned(const std::map<Shape, Variant>& found, const Shape& shape, std::string_view op,
                         const std::string& of) const;
    size_t index_of(std::string_view op, std::string_view of, std::span<const std::string_view> names) const;
};

}  // namespace scoria
