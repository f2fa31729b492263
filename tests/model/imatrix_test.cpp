// Activation sums of the device against those of the reference, and the file they make.
#include "support/device.h"
#include "support/golden.h"

#include "fail.h"
#include "instruments/activation_sums.h"
#include "reference/executor.h"
#include "system.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

using namespace scoria;
using namespace scoria::test;

namespace {

/// By name; of matrices that the plan does not take apart.
std::map<std::string, ActivationSums> expected_sums(const Model& model, std::span<const TokenId> ids) {
    std::map<std::string, ActivationSums> sums;
    std::map<TensorId, std::vector<double>> values;
    const auto add = [&](const WeightRef& weight, std::span<const double> row, size_t matrix,
                         size_t matrices) {
        if (weight.role == Role::token_embedding || weight.role == Role::output) return;
        ActivationSums& of = sums[model.weights.at(weight).name];
        of.squares.resize(matrices * row.size());
        of.counts.resize(matrices);
        ++of.counts[matrix];
        for (size_t i = 0; i < row.size(); ++i) of.squares[matrix * row.size() + i] += row[i] * row[i];
    };
    const auto observe = [&](const Graph& graph, const Op& op, std::span<const double> output) {
        values[output_of(op)].assign(output.begin(), output.end());
        const auto cols_of = [&](TensorId id) { return size_t{graph.tensors[id.index].cols}; };
        if (const auto* linear = std::get_if<op::Linear>(&op)) {
            const size_t cols = cols_of(linear->x);
            const std::span<const double> x = values.at(linear->x);
            for (size_t at = 0; at < x.size(); at += cols) add(linear->weight, x.subspan(at, cols), 0, 1);
        } else if (const auto* expert = std::get_if<op::ExpertLinear>(&op)) {
            const std::vector<double>&x = values.at(expert->x), &routes = values.at(expert->routes);
            const size_t tokens = routes.size() / (2 * expert->used), width = x.size() / tokens,
                         cols = model.weights.at(expert->weight).cols;
            for (size_t t = 0; t < tokens; ++t)
                for (size_t s = 0; s < expert->used; ++s)
                    add(expert->weight,
                        std::span(x).subspan(t * width + (width == cols ? 0 : s * cols), cols),
                        size_t(routes[t * 2 * expert->used + s]), expert->experts);
        }
    };
    reference::Executor executor(model);
    if (!model.architecture.encoder.empty()) executor.encode(ids, observe);
    executor.forward(ids, reference::Outputs::all, observe);
    return sums;
}

}  // namespace

TEST_CASE("vulkan: sums of squared activations are the reference's" * needs_fixtures()) {
    struct Case {
        const char* file;
        size_t fewest;  // weights
    };
    for (const Case& c : {Case{"qwen3", 14}, Case{"mixtral", 14}, Case{"t5", 20}, Case{"bert", 10}}) {
        CAPTURE(std::string(c.file));
        const auto model =
            std::make_shared<const Model>(open_model(cat(fixtures(), "/gguf/", c.file, ".gguf")));
        std::vector<TokenId> ids(24);
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = TokenId(3 + 7 * i);
        const std::map<std::string, ActivationSums> expected = expected_sums(*model, ids);
        EngineOptions options = engine_options(Precision::strict);
        options.context = 64;
        Engine engine(model, options);
        ActivationMeter meter(engine);
        CHECK(meter.window(512) <= 64);
        meter.add(ids);
        meter.add(ids);
        const std::filesystem::path path =
            std::filesystem::temp_directory_path() / cat("scoria_imatrix_", process_id(), ".gguf");
        write_importance(path.string(), meter.sums(), {"a text", 2, 24});
        const ImportanceMatrix written = read_importance(path.string());
        std::filesystem::remove(path);

        CHECK(expected.size() >= c.fewest);
        CHECK(written.size() == expected.size());
        for (const auto& each : expected) {
            const auto& [name, sums] = each;
            CAPTURE(each.first);
            REQUIRE(meter.sums().contains(name));
            const ActivationSums& got = meter.sums().at(name);
            REQUIRE(got.counts.size() == sums.counts.size());
            REQUIRE(got.squares.size() == sums.squares.size());
            const size_t cols = sums.squares.size() / sums.counts.size();
            const double all = std::accumulate(sums.squares.begin(), sums.squares.end(), 0.0);
            // Activations err by some roundings of the tensor's size: of squares that are small (a ReLU just
            // above 0) that is a large part.
            const double error = 5e-5 * std::sqrt(all / double(sums.squares.size()));
            bool alike = true;
            for (size_t i = 0; i < sums.squares.size(); ++i) {
                const uint64_t count = sums.counts[i / cols];
                const double bound = 2 * error * std::sqrt(sums.squares[i]) + error * error;
                alike = alike && got.counts[i / cols] == 2 * count &&
                        std::abs(got.squares[i] - 2 * sums.squares[i]) <= 2 * bound;
                const double tokens = double(std::max<uint64_t>(count, 1));
                const double mean = count > 0 ? sums.squares[i] / tokens : 1;
                alike = alike && std::abs(double(written.at(name)[i]) - mean) <= bound / tokens + 1e-7 * mean;
            }
            CHECK(alike);
        }
    }
}
