// See choices.h.
#include "choices.h"

#include "choose.h"
#include "chunk_attention.h"
#include "compress.h"
#include "elementwise.h"
#include "embed.h"
#include "experts.h"
#include "fail.h"
#include "norm.h"
#include "recurrence.h"
#include "rope.h"
#include "sample.h"
#include "select.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace scoria {
namespace {

struct SimpleRow {
    SimpleOp op;
    const char* name;
    std::vector<KernelVariant> (*variants)(const vk::Caps&);
};
constexpr SimpleRow simple_rows[] = {
    {SimpleOp::embed, "embed", embed_variants},
    {SimpleOp::norm, "norm", norm_variants},
    {SimpleOp::rope_cache, "rope_cache", rope_cache_variants},
    {SimpleOp::glu, "glu", binary_variants},
    {SimpleOp::add, "add", binary_variants},
    {SimpleOp::gate, "gate", binary_variants},
    {SimpleOp::map, "map", map_variants},
    {SimpleOp::pack, "pack", pack_variants},
    {SimpleOp::mix, "mix", mix_variants},
    {SimpleOp::select, "select", select_variants},
    {SimpleOp::route, "route", route_variants},
    {SimpleOp::expert_sum, "expert_sum", expert_sum_variants},
    {SimpleOp::compress, "compress", compress_variants},
    {SimpleOp::hash, "hash", hash_variants},
    {SimpleOp::sort, "sort", sort_variants},
    {SimpleOp::chunk_attention, "chunk_attention", chunk_attention_variants},
    {SimpleOp::choose, "choose", choose_variants},
    {SimpleOp::convolve, "convolve", convolve_variants},
    {SimpleOp::shift, "shift", shift_variants},
    {SimpleOp::scan, "scan", scan_variants},
    {SimpleOp::wkv, "wkv", wkv_variants},
    {SimpleOp::sample, "sample", sample_variants},
};
constexpr bool in_order() {
    for (size_t i = 0; i < std::size(simple_rows); ++i)
        if (size_t(simple_rows[i].op) != i) return false;
    return std::size(simple_rows) == size_t(SimpleOp::count);
}
static_assert(in_order());

uint32_t tuned_tokens(uint32_t tokens) {
    constexpr uint32_t batches[] = {1, 2, 4, 8, 16, 64, 512};
    const auto next = std::ranges::lower_bound(batches, tokens);
    return next == std::end(batches) ? *std::prev(next) : *next;
}

}  // namespace

const char* op_name(SimpleOp op) { return simple_rows[size_t(op)].name; }
std::vector<KernelVariant> simple_variants(const vk::Caps& caps, SimpleOp op) {
    return simple_rows[size_t(op)].variants(caps);
}

std::string variant_key(std::string_view op, std::string_view variant, std::string_view of) {
    return cat(op, "/", variant, of.empty() ? "" : " ", of);
}
std::string linear_of(TensorType type) { return std::string(tensor_type_info(type).name); }
std::string attention_of(uint32_t head_dim, KvType type) {
    return cat("dim ", head_dim, " ", kv_type_names[size_t(type)]);
}

bool names_variant(std::string_view wanted, std::string_view name) {
    return name.starts_with(wanted) && (name.size() == wanted.size() || name[wanted.size()] == ' ');
}

size_t Choices::index_of(std::string_view op, std::string_view of,
                         std::span<const std::string_view> names) const {
    const auto wanted = forced.find(op);
    std::optional<size_t> first;
    for (size_t i = 0; i < names.size(); ++i) {
        if (!quarantined.empty() && quarantined.contains(variant_key(op, names[i], of))) continue;
        if (wanted == forced.end() || names_variant(wanted->second, names[i])) return i;
        if (!first) first = i;
    }
    if (first) return *first;
    std::string all;
    for (const std::string_view name : names) all += cat(all.empty() ? "" : ", ", name);
    fail(Status::unsupported, cat(op, of.empty() ? "" : " ", of),
         "expected a variant that passes its self-test on this device, got failures of all: ", all,
         " (`scoria devices --forget` gives them another chance)");
}

std::vector<LinearVariant> Choices::linear_variants(const vk::Caps& caps, LinearShape shape) const {
    if (pinned) shape.tokens = 1;
    shape.precision = precision;
    return scoria::linear_variants(caps, shape);
}

std::vector<LinearVariant> Choices::expert_variants(const vk::Caps& caps, ExpertShape shape) const {
    if (pinned) shape.tokens = 1;
    shape.precision = precision;
    return expert_linear_variants(caps, shape);
}

std::vector<AttentionVariant> Choices::attention_variants(const vk::Caps& caps, AttentionShape shape) const {
    if (pinned) shape.tokens = 1;
    shape.precision = precision;
    std::vector<AttentionVariant> variants = scoria::attention_variants(caps, shape);
    if (pinned)  // where a split ends depends on the tokens beside it
        for (AttentionVariant& variant : variants) variant.splits = 1;
    return variants;
}

LinearShape tuned_shape(LinearShape shape) {
    shape.tokens = tuned_tokens(shape.tokens);
    return shape;
}

ExpertShape tuned_shape(ExpertShape shape) {
    shape.tokens = tuned_tokens(shape.tokens);
    return shape;
}

CachedAttention tuned_shape(CachedAttention attention) {
    AttentionShape& shape = attention.shape;
    shape.tokens = tuned_tokens(shape.tokens);
    shape.context = std::bit_ceil(std::max(shape.context, kv_block_tokens));
    return attention;
}

template <class Shape, class Variant>
const Variant* Choices::tuned(const std::map<Shape, Variant>& found, const Shape& shape, std::string_view op,
                              const std::string& of) const {
    if (found.empty() || pinned || forced.contains(op)) return nullptr;
    const auto entry = found.find(tuned_shape(shape));
    if (entry == found.end() || quarantined.contains(variant_key(op, entry->second.name, of))) return nullptr;
    return &entry->second;
}

LinearVariant Choices::linear(const vk::Caps& caps, const LinearShape& shape) const {
    LinearShape exact = shape;
    exact.precision = precision;
    if (const auto* variant = tuned(tuned_linear, exact, "linear", linear_of(shape.type))) return *variant;
    return choose("linear", linear_of(shape.type), linear_variants(caps, shape));
}

LinearVariant Choices::experts(const vk::Caps& caps, const ExpertShape& shape) const {
    const std::string_view op = op_name(shape);
    ExpertShape exact = shape;
    exact.precision = precision;
    if (const auto* variant = tuned(tuned_experts, exact, op, linear_of(shape.type))) return *variant;
    return choose(op, linear_of(shape.type), expert_variants(caps, shape));
}

AttentionVariant Choices::attention(const vk::Caps& caps, const AttentionShape& shape, KvType type) const {
    const std::string of = attention_of(shape.head_dim, type);
    AttentionShape exact = shape;
    exact.precision = precision;
    if (const auto* variant = tuned(tuned_attention, {exact, type}, "attention", of)) return *variant;
    return choose("attention", of, attention_variants(caps, shape));
}

KernelVariant Choices::simple(const vk::Caps& caps, SimpleOp op, std::string_view of) const {
    return choose(op_name(op), of, simple_variants(caps, op));
}

}  // namespace scoria
