// The graph: every op's inputs exist before it, shapes agree, and each switch
// of a layer adds its ops.
#include "graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace scoria;

namespace {

Architecture one_layer() {
    Architecture a;
    a.family = "llama";
    a.vocab = 50, a.hidden = 24;
    a.norm.epsilon = 1e-5f;
    Layer layer;
    layer.attention = {.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1, .window = 0, .qk_norm = {}};
    layer.feed_forward.size = 40;
    a.layers = {layer};
    return a;
}

void use_experts_apart(Architecture& a) {
    a.layers[0].feed_forward.size = 0;
    a.layers[0].feed_forward.routing = {
        .experts = 4, .used = 2, .size = 16, .shared_size = 40, .apart = true};
}

std::vector<std::string> described(const Graph& graph) {
    std::vector<std::string> lines;
    for (const Op& op : graph.ops) lines.push_back(describe(graph, op));
    return lines;
}

}  // namespace

TEST_CASE("graph: a llama block, op by op") {
    const Graph graph = build_graph(one_layer());
    CHECK(described(graph) == std::vector<std::string>{
                                  "embed -> embedding",
                                  "norm -> layer 0 attention norm",
                                  "linear -> layer 0 q",
                                  "linear -> layer 0 k",
                                  "linear -> layer 0 v",
                                  "rope -> layer 0 q rotated",
                                  "rope -> layer 0 k rotated",
                                  "attention -> layer 0 attention heads",
                                  "linear -> layer 0 attention out",
                                  "add -> layer 0 attention residual",
                                  "norm -> layer 0 feed-forward norm",
                                  "linear -> layer 0 gate",
                                  "linear -> layer 0 up",
                                  "glu -> layer 0 gated",
                                  "linear -> layer 0 feed-forward out",
                                  "add -> layer 0 feed-forward residual",
                                  "select -> selected",
                                  "norm -> output norm",
                                  "linear -> logits",
                              });
    REQUIRE(graph.hidden.size() == 2);
    CHECK(graph.tensors[graph.hidden[0].index].name == "embedding");
    CHECK(graph.tensors[graph.hidden[1].index].name == "layer 0 feed-forward residual");
    CHECK(graph.tensors[graph.last_hidden.index].name == "output norm");
    CHECK(graph.tensors[graph.logits.index].cols == 50);
}

TEST_CASE("graph: switches of the architecture") {
    struct Row {
        const char* what;
        void (*change)(Architecture&);
        WeightRef weight;  // read by some op only if changed
    };
    const Row rows[] = {
        {"q bias", [](Architecture& a) { a.layers[0].attention.q_bias = true; }, {Role::q_bias, 0}},
        {"k bias", [](Architecture& a) { a.layers[0].attention.k_bias = true; }, {Role::k_bias, 0}},
        {"v bias", [](Architecture& a) { a.layers[0].attention.v_bias = true; }, {Role::v_bias, 0}},
        {"o bias", [](Architecture& a) { a.layers[0].attention.o_bias = true; }, {Role::o_bias, 0}},
        {"q norm",
         [](Architecture& a) { a.layers[0].attention.qk_norm.group = QkNorm::Group::head; },
         {Role::q_norm, 0}},
        {"k norm",
         [](Architecture& a) { a.layers[0].attention.qk_norm.group = QkNorm::Group::head; },
         {Role::k_norm, 0}},
        {"per-layer table", [](Architecture& a) { a.per_layer = 8; }, {Role::per_layer_embedding, -1}},
        {"per-layer norm", [](Architecture& a) { a.per_layer = 8; }, {Role::per_layer_norm, -1}},
        {"per-layer gate", [](Architecture& a) { a.per_layer = 8; }, {Role::per_layer_gate, 0}},
        {"norms of experts", [](Architecture& a) { use_experts_apart(a); }, {Role::expert_norm, 0}},
        {"norm of the router", [](Architecture& a) { use_experts_apart(a); }, {Role::router_norm, 0}},
        {"norm behind the shared",
         [](Architecture& a) { use_experts_apart(a); },
         {Role::shared_post_norm, 0}},
        {"untied", [](Architecture& a) { a.tied_embeddings = false; }, {Role::output, -1}},
    };
    const auto weights = [](const Graph& graph) {
        std::set<WeightRef> all;
        for (const Op& op : graph.ops) {
            if (const auto* embed = std::get_if<op::Embed>(&op)) all.insert(embed->table);
            if (const auto* norm = std::get_if<op::Norm>(&op)) all.insert(*norm->weight);
            if (const auto* linear = std::get_if<op::Linear>(&op)) {
                all.insert(linear->weight);
                if (linear->bias) all.insert(*linear->bias);
            }
        }
        return all;
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        Architecture a = one_layer();
        a.tied_embeddings = true;
        CHECK_FALSE(weights(build_graph(a)).contains(row.weight));
        row.change(a);
        CHECK(weights(build_graph(a)).contains(row.weight));
    }
}

TEST_CASE("graph: v is k before its norm, and layers end with what is their own of the token") {
    Architecture a = one_layer();
    a.placement = NormPlacement::sandwich;
    Attention& attention = a.layers[0].attention;
    attention.qk_norm.group = QkNorm::Group::head;
    attention.v_norm = attention.v_is_k = true;
    a.per_layer = 6;
    a.layers.resize(2, Layer(a.layers[0]));
    a.layers[1].attention.kv_layer = 0;
    a.layers[1].scale = 0.5f;
    const Graph graph = build_graph(a);
    const std::vector<std::string> lines = described(graph);
    const auto of_layer = [&](const char* layer) {
        std::vector<std::string> some;
        for (const std::string& line : lines)
            if (const size_t at = line.find(layer); at != line.npos) some.push_back(line.substr(at + 8));
        return some;
    };
    CHECK(std::vector(lines.begin(), lines.begin() + 5) ==
          std::vector<std::string>{"embed -> embedding", "embed -> per-layer embedding",
                                   "linear -> per-layer projection", "norm -> per-layer normed",
                                   "add -> per-layer embeddings"});
    const std::vector<std::string> first = of_layer("layer 0 "), second = of_layer("layer 1 ");
    CHECK(std::vector(first.begin() + 1, first.begin() + 8) ==
          std::vector<std::string>{"q", "k", "v normed", "q normed", "k normed", "q rotated", "k rotated"});
    CHECK(std::vector(second.begin() + 1, second.begin() + 5) ==
          std::vector<std::string>{"q", "q normed", "q rotated", "attention heads"});
    CHECK(std::vector(second.end() - 6, second.end()) ==
          std::vector<std::string>{"per-layer gate", "per-layer gated", "per-layer out",
                                   "per-layer post-norm", "per-layer residual", "scaled"});
    CHECK(first.back() == "per-layer residual");
    for (const Op& op : graph.ops) {
        const GraphTensor& out = graph.tensors[output_of(op).index];
        if (out.name == "layer 0 v normed")
            CHECK(graph.tensors[std::get<op::Norm>(op).x.index].name == "layer 0 k");
        if (out.name == "layer 1 per-layer gated") CHECK(std::get<op::Glu>(op).up_first == 6);
    }
}

TEST_CASE("graph: q and k are clamped after their norms, before they rotate") {
    Architecture a = one_layer();
    a.layers[0].attention.clip = 1;
    a.layers[0].attention.qk_norm.group = QkNorm::Group::head;
    const std::vector<std::string> lines = described(build_graph(a));
    const auto at = [&](const char* text) {
        return std::ranges::find_if(lines, [&](const std::string& line) { return line.ends_with(text); });
    };
    CHECK(at("k normed") < at("q clamped"));
    CHECK(at("k clamped") < at("q rotated"));
    CHECK(at("v clamped") != lines.end());
}

TEST_CASE("graph: tensors are made once, before they are read, in shapes that "
          "agree") {
    Architecture a = one_layer();
    a.layers[0].attention.qk_norm.group = QkNorm::Group::head;
    a.layers.push_back(one_layer().layers[0]);
    const Graph graph = build_graph(a);
    std::set<TensorId> made;
    for (const Op& op : graph.ops) {
        CAPTURE(describe(graph, op));
        for (const TensorId input : inputs_of(op)) CHECK(made.contains(input));
        CHECK(made.insert(output_of(op)).second);
        const uint32_t cols = graph.tensors[output_of(op).index].cols;
        if (const auto* norm = std::get_if<op::Norm>(&op)) {
            CHECK(graph.tensors[norm->x.index].cols == cols);
            CHECK(cols % norm->group == 0);
        }
        if (const auto* rope = std::get_if<op::Rope>(&op)) CHECK(cols == rope->heads * rope->head_dim);
        if (const auto* add = std::get_if<op::Add>(&op)) {
            CHECK(graph.tensors[add->a.index].cols == cols);
            CHECK(graph.tensors[add->b.index].cols == cols);
        }
    }
    CHECK(made.size() == graph.tensors.size());
}
