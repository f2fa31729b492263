// See conversion_read_back.h.
#include "conversion_read_back.h"

#include "fail.h"
#include "file.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace scoria {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

bool near(const std::vector<double>& a, const std::vector<double>& b) {
    return std::ranges::equal(a, b, [](double x, double y) { return near(x, y); });
}

/// The rotation of a layer; null: none.
const Rope* rope_of(const Architecture& architecture, const Layer& layer) {
    return layer.attention.rope < 0 || architecture.ropes.empty()
               ? nullptr
               : &architecture.ropes[static_cast<size_t>(layer.attention.rope)];
}

bool same_rope(const Rope* a, const Rope* b) {
    if (a == nullptr || b == nullptr) return a == b;
    return a->width == b->width && near(a->inverse_frequencies, b->inverse_frequencies) &&
           near(a->magnitude, b->magnitude) && a->short_length == b->short_length &&
           near(a->long_inverse_frequencies, b->long_inverse_frequencies) && a->ntk_base == b->ntk_base &&
           a->ntk_factor == b->ntk_factor && near(a->query_growth, b->query_growth) &&
           a->growth_length == b->growth_length && a->growth_offset == b->growth_offset;
}

}  // namespace

ReadModel read_back(const GgufWriter& writer, const std::vector<std::byte>& bytes, ModelPart part) {
    const ScratchFile scratch;
    write_file_atomic(scratch.path(), bytes);
    std::vector<File> files;
    files.emplace_back(scratch.path());
    const Gguf gguf = read_gguf(files.front(), writer.file_bytes());
    return read_architecture(gguf, GatheredTensors(std::move(files)), part);
}

GgufMetadata metadata_read_back(GgufWriter writer) {
    constexpr uint32_t alignment = 32;
    const ScratchFile scratch;
    write_file_atomic(scratch.path(), writer.header(alignment));
    return read_gguf(File(scratch.path()), writer.file_bytes()).metadata;
}

std::string what_differs(const Architecture& ours, const Architecture& read, bool tiles_heads) {
    if (ours.layers.size() != read.layers.size()) return "layers";
    Architecture settled = read;
    settled.family = ours.family;
    settled.ropes = ours.ropes;
    settled.rows_before_positions = ours.rows_before_positions;  // of a folder
    for (Architecture& encoder : settled.encoder) encoder.family = ours.family;
    for (float Architecture::*scale :
         {&Architecture::embedding_scale, &Architecture::residual_scale, &Architecture::logit_scale})
        if (near(double{settled.*scale}, double{ours.*scale})) settled.*scale = ours.*scale;
    for (size_t i = 0; i < ours.layers.size(); ++i) {
        const Layer& layer = ours.layers[i];
        Layer& its = settled.layers[i];
        if (its.attention.window != layer.attention.window) return cat("window of layer ", i);
        if (its.attention.bias_span != layer.attention.bias_span) return "relative_attention_max_distance";
        if (!same_rope(rope_of(ours, layer), rope_of(read, its))) return cat("rotation of layer ", i);
        its.attention.rope = layer.attention.rope;
        if (tiles_heads) its.recurrence.tiled = layer.recurrence.tiled;
        if (near(double{its.attention.scale}, double{layer.attention.scale}))
            its.attention.scale = layer.attention.scale;
        const Routing &routing = layer.feed_forward.routing, &its_routing = its.feed_forward.routing;
        if (its.feed_forward.activation != layer.feed_forward.activation)
            return cat("activation of layer ", i);
        if (its_routing != routing) return cat("experts of layer ", i);
        if (its.attention != layer.attention) return cat("attention of layer ", i);
        if (its != layer) return cat("feed-forward of layer ", i);
    }
    if (settled.context != ours.context) return "context";
    if (settled.norm != ours.norm || settled.placement != ours.placement) return "norms";
    if (settled != ours) return "embeddings and output";
    return {};
}

}  // namespace scoria
