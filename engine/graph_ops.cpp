// What an op is called, what it makes and what it reads.
#include "fail.h"
#include "graph.h"

namespace scoria {
namespace {

const char* kind_name(const op::Embed&) { return "embed"; }
const char* kind_name(const op::Norm&) { return "norm"; }
const char* kind_name(const op::Linear&) { return "linear"; }
const char* kind_name(const op::Map& op) {
    constexpr const char* names[] = {"scale", "clamp", "soft cap", "activate", "xielu"};
    return names[static_cast<size_t>(op.kind)];
}
const char* kind_name(const op::Rope&) { return "rope"; }
const char* kind_name(const op::Attention&) { return "attention"; }
const char* kind_name(const op::Glu&) { return "glu"; }
const char* kind_name(const op::Add&) { return "add"; }
const char* kind_name(const op::Select&) { return "select"; }
const char* kind_name(const op::Route&) { return "route"; }
const char* kind_name(const op::ExpertLinear&) { return "expert linear"; }
const char* kind_name(const op::ExpertSum&) { return "expert sum"; }
const char* kind_name(const op::HeadLinear&) { return "head linear"; }
const char* kind_name(const op::Pack&) { return "pack"; }
const char* kind_name(const op::Gate&) { return "gate"; }
const char* kind_name(const op::Mix&) { return "mix"; }
const char* kind_name(const op::Store&) { return "store"; }
const char* kind_name(const op::Hash&) { return "hash"; }
const char* kind_name(const op::Sort&) { return "sort"; }
const char* kind_name(const op::ChunkAttention&) { return "chunk attention"; }
const char* kind_name(const op::Convolve&) { return "convolve"; }
const char* kind_name(const op::Shift&) { return "shift"; }
const char* kind_name(const op::Columns&) { return "columns"; }
const char* kind_name(const op::Scan&) { return "scan"; }
const char* kind_name(const op::Wkv&) { return "wkv"; }
const char* kind_name(const op::Choose&) { return "choose"; }

struct Inputs {
    using Ids = std::vector<TensorId>;
    Ids operator()(const op::Embed&) const { return {}; }
    Ids operator()(const op::Attention& o) const {
        Ids ids = o.k ? Ids{o.q, *o.k, *o.v} : Ids{o.q};
        if (o.distances) ids.push_back(*o.distances);
        if (o.chosen) ids.push_back(*o.chosen);
        if (o.base) ids.push_back(*o.base);
        return ids;
    }
    Ids operator()(const op::Choose& o) const { return {o.q, o.k, o.weights}; }
    Ids operator()(const op::Glu& o) const { return {o.gate, o.up}; }
    Ids operator()(const op::Add& o) const { return {o.a, o.b}; }
    Ids operator()(const op::Route& o) const { return {o.scores}; }
    Ids operator()(const op::ExpertLinear& o) const { return {o.x, o.routes}; }
    Ids operator()(const op::ExpertSum& o) const { return {o.x, o.routes}; }
    Ids operator()(const op::Pack& o) const { return {o.a, o.b}; }
    Ids operator()(const op::Gate& o) const { return {o.x, o.gate}; }
    Ids operator()(const op::Norm& o) const { return o.like ? Ids{o.x, *o.like} : Ids{o.x}; }
    Ids operator()(const op::Mix& o) const { return o.factors ? Ids{o.x, o.y, *o.factors} : Ids{o.x, o.y}; }
    Ids operator()(const op::Store& o) const { return {o.k, o.v}; }
    Ids operator()(const op::ChunkAttention& o) const {
        return o.sorted ? Ids{o.q, o.k, o.v, *o.sorted} : Ids{o.q, o.k, o.v};
    }
    Ids operator()(const op::Convolve& o) const { return o.x; }
    Ids operator()(const op::Wkv& o) const { return {o.rk, o.v, o.w, o.rate}; }
    Ids operator()(const op::Scan& o) const {
        Ids ids{o.qk, o.v};
        if (o.step) ids.push_back(*o.step);
        if (o.beta) ids.push_back(*o.beta);
        return ids;
    }
    template <class Unary> Ids operator()(const Unary& o) const { return {o.x}; }
};

}  // namespace

TensorId output_of(const Op& op) {
    return std::visit([](const auto& each) { return each.out; }, op);
}

std::vector<TensorId> inputs_of(const Op& op) { return std::visit(Inputs{}, op); }

std::string describe(const Graph& graph, const Op& op) {
    const char* kind = std::visit([](const auto& each) { return kind_name(each); }, op);
    return cat(kind, " -> ", graph.tensors[output_of(op).index].name);
}

}  // namespace scoria
