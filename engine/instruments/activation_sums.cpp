// See activation_sums.h. The sums are the host's, in double precision, over activations fetched a kernel at a
// time.
#include "instruments/activation_sums.h"

#include "engine.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace scoria {

/// Rows of activations: [count, stride], of which columns from `first` on meet a matrix.
struct ActivationMeter::Rows {
    std::span<const float> values;
    uint32_t stride, first, cols;
    uint32_t matrices = 1;
    std::vector<uint32_t> matrix_of;  // by row; empty: row modulo `matrices`
};

ActivationMeter::ActivationMeter(Engine& engine) : engine_(engine), session_(engine) {
    if (engine.model().path.extension() != ".gguf")
        fail(Status::unsupported, "imatrix",
             "expected a GGUF file, whose tensor names the matrix goes by, got ",
             engine.model().path.string());
}

uint32_t ActivationMeter::window(uint32_t wanted) const {
    const Architecture& architecture = engine_.model().architecture;
    uint32_t most = std::min(wanted, session_.capacity());
    if (architecture.bidirectional() || architecture.recomputes())
        most = std::min(most, session_.head_rows());
    return architecture.encoder.empty() ? most : std::min(most, engine_.memory_plan().source);
}

void ActivationMeter::add(std::span<const TokenId> ids) {
    session_.truncate(0);
    session_.trace(ids, [&](const PlannedKernel& planned, const TraceFetch& fetch) { see(planned, fetch); });
}

/// Of the weights that a kernel reads together; several may be rows of one tensor of the file. `whole`: only
/// those that are a tensor of the file as it stands.
std::vector<std::string> ActivationMeter::names(uint32_t group, bool whole) const {
    std::set<std::string> found;
    for (const WeightRef& part : engine_.impl().plan.weight_groups[group].parts) {
        const bool table = part.role == Role::token_embedding || part.role == Role::output;
        if (table || part.part != WeightPart::base) continue;
        const TensorView& view = engine_.model().weights.at(part);
        if (!whole || view.recipe < 0) found.insert(view.name);
    }
    return {found.begin(), found.end()};
}

void ActivationMeter::add_rows(const std::string& name, const Rows& rows) {
    ActivationSums& sums = sums_[name];
    sums.squares.resize(size_t{rows.matrices} * rows.cols);
    sums.counts.resize(rows.matrices);
    for (size_t row = 0; (row + 1) * rows.stride <= rows.values.size(); ++row) {
        const size_t matrix = rows.matrix_of.empty() ? row % rows.matrices : rows.matrix_of[row];
        ++sums.counts[matrix];
        for (size_t col = 0; col < rows.cols; ++col) {
            const double value = rows.values[row * rows.stride + rows.first + col];
            sums.squares[matrix * rows.cols + col] += value * value;
        }
    }
    if (!std::ranges::all_of(sums.squares, [](double sum) { return std::isfinite(sum); }))
        fail(Status::non_finite, "imatrix", "expected finite activations, got others at ", name);
}

void ActivationMeter::see(const PlannedKernel& planned, const TraceFetch& fetch) {
    const auto add = [&](uint32_t group, bool whole, const auto& rows_of) {
        const std::vector<std::string> found = names(group, whole);
        if (found.empty()) return;
        const Rows rows = rows_of(engine_.impl().plan.weight_groups[group].cols);
        for (const std::string& name : found) add_rows(name, rows);
    };
    std::vector<float> x;
    if (const auto* linear = std::get_if<kernel::Linear>(&planned.kernel)) {
        add(linear->weight, false, [&](uint32_t cols) {
            x = fetch(linear->x);
            return Rows{x, cols, 0, cols, 1, {}};
        });
    } else if (const auto* expert = std::get_if<kernel::ExpertLinear>(&planned.kernel)) {
        add(expert->weight, true, [&](uint32_t cols) {
            if (!expert->routes) {
                x = fetch(expert->x);
                const uint32_t stride = engine_.impl().graph.tensors[expert->x.index].cols / expert->experts;
                return Rows{x, stride, expert->first, cols, expert->experts, {}};
            }
            const std::vector<float> in = fetch(expert->x), routes = fetch(*expert->routes);
            const size_t tokens = routes.size() / (2 * expert->used);
            const bool parts = in.size() == tokens * expert->used * cols;  // a row for each chosen expert
            Rows rows{{}, cols, 0, cols, expert->experts, {}};
            for (size_t t = 0; t < tokens; ++t)
                for (size_t s = 0; s < expert->used; ++s) {
                    const size_t row = parts ? t * expert->used + s : t;
                    x.insert(x.end(), in.begin() + std::ptrdiff_t(row * cols),
                             in.begin() + std::ptrdiff_t((row + 1) * cols));
                    const float id = routes[t * 2 * expert->used + s];
                    rows.matrix_of.push_back(id > 0 ? std::min(uint32_t(id), expert->experts - 1)
                                                    : 0);  // NaN: 0, as the kernel
                }
            rows.values = x;
            return rows;
        });
    }
}

}  // namespace scoria
