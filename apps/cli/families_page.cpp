// See families_page.h.
#include "families_page.h"

#include "enum_names.h"

#include "fail.h"
#include "gguf_families.h"
#include "hf_families.h"

namespace scoria::cli {
namespace {

/// Adds `text` to a comma-separated list if `there`.
void list(std::string& items, bool there, const std::string& text) {
    if (there) items += cat(items.empty() ? "" : ", ", text);
}

std::string when_biased(const char* what, const Bias& bias) {
    return cat(what, "bias", bias.when == Bias::When::always ? "" : "?");
}

std::string norms_of(const Family& family) {
    std::string text =
        cat(name_of(norm_names, family.norm), ", ", name_of(placement_names, family.placement));
    list(text, !family.norm_weight, "no weights");
    list(text, family.norm_bias, "biases");
    return text;
}

std::string positions_of(const Family& family) {
    std::string text;
    list(text, family.positions, "learned");
    list(text, family.rope, family.pairs == RopePairs::halves ? "RoPE" : "RoPE of neighbours");
    list(text, family.rope && family.rotary < 1, cat(family.rotary, " of a head"));
    list(text, family.full_rotary < 1, cat(family.full_rotary, " of that where not windowed"));
    list(text, family.local_rope_base > 0, "another base where windowed");
    list(text, family.no_rope_every > 0, cat("none in one layer of ", family.no_rope_every));
    list(text, family.full_layers != Family::FullLayers::rotate, "only where windowed");
    return text;
}

std::string attention_of(const Family& family) {
    constexpr const char* windows[] = {"",
                                       "windows",
                                       "windows but in some layers",
                                       "windows in later layers",
                                       "windows in odd early layers",
                                       "windows in layers without positions",
                                       "chunks in layers with positions",
                                       "keys that an indexer chooses"};
    static_assert(std::size(windows) == size_t(WindowRule::Layers::indexed) + 1);
    std::string text;
    const bool windowed = family.window.layers != WindowRule::Layers::none;
    list(text, windowed, name_of(windows, family.window.layers));
    list(text, family.split_heads, "heads of another size where windowed");
    list(text, family.qk_norm != QkNorm::Group::none,
         cat("q/k norm per ", name_of(qk_norm_names, family.qk_norm)));
    list(text, family.qkv_bias.when != Bias::When::never, when_biased("q/k/v ", family.qkv_bias));
    list(text, family.o_bias.when != Bias::When::never, when_biased("output ", family.o_bias));
    list(text, family.clips, "clipped q/k/v");
    constexpr const char* recurrences[] = {"",
                                           "short convolutions",
                                           "gated delta rule",
                                           "state spaces",
                                           "selective state spaces",
                                           "lightning attention",
                                           "RWKV-7's states"};
    list(text, family.recurrence != RecurrenceKind::none,
         cat(name_of(recurrences, family.recurrence), family.recurs_alone    ? " alone"
                                                      : family.recurs_beside ? " beside it"
                                                                             : " in most layers"));
    return text;
}

std::string feed_forward_of(const Family& family) {
    if (family.recurs_alone && !family.feeds) return "none";
    std::string text = cat(family.gated ? "gated " : "", name_of(activation_names, family.activation));
    list(text, family.feed_forward_bias.when != Bias::When::never, when_biased("", family.feed_forward_bias));
    if (const Routing* routing = family.routing) {
        list(text, true, cat("experts by ", name_of(score_names, routing->score)));
        list(text, routing->shared_gate, "a gated shared expert");
        list(text, routing->choice_bias, "bias of the choice");
        list(text, routing->apart, "beside a dense one");
    }
    return text;
}

std::string rest_of(const Family& family) {
    std::string text;
    list(text, !family.encoder_tensors[0].empty(), "encoder-decoder");
    list(text, family.embedding_norm, "embedding norm");
    list(text, family.root_embedding_scale, "embeddings times sqrt(hidden)");
    list(text, scale_tensor(family) != nullptr, "layers scaled");
    list(text, family.output_bias.when != Bias::When::never, when_biased("logit ", family.output_bias));
    list(text, family.adjust != nullptr, "rules of its own");
    return text;
}

std::string table_of(std::span<const Family> families, const char* key) {
    std::string text = cat(
        "| ", key, " | norms | positions | attention | feed-forward | and |\n|---|---|---|---|---|---|\n");
    for (const Family& family : families)
        text += cat("| `", family.name, "` | ", norms_of(family), " | ", positions_of(family), " | ",
                    attention_of(family), " | ", feed_forward_of(family), " | ", rest_of(family), " |\n");
    return text;
}

constexpr const char* introduction = R"(# Model families

Printed by `scoria inspect --families` from the tables that read them; a test compares. What a row says holds where a
model's file says nothing else: sizes, scalings of RoPE, activations and flags come from the file. Families differ in
data alone (loader/families.h); what only one of them has is in its rule (`adjust` of its row), and is computed by the
same graph (engine/graph.cpp). A file that asks for what is not here is refused, naming the field. A question mark: if the
file has it.

To add a family: a row beside its nearest relative in loader/hf_families*.cpp or loader/gguf_families*.cpp with its tensors'
names, and a tiny model with goldens among the tests'. Nothing else knows a family's name.

)";

}  // namespace

std::string families_page() {
    return cat(introduction, "## Hugging Face folders\n\n", table_of(hugging_face_families(), "`model_type`"),
               "\n## GGUF files\n\n", table_of(gguf_families(), "`general.architecture`"));
}

}  // namespace scoria::cli
