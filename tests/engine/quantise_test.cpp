// Quantisers against the field's on the same numbers, against exhaustive search, and on rows made to break
// them.
#include "quantise/quantise.h"
#include "reference/dequantise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

using namespace scoria;

namespace {

/// A generator that is easily written again in another program: numbers below are measured on its rows.
struct Random {
    uint32_t state;
    float uniform() {
        state = state * 1664525u + 1013904223u;
        return static_cast<float>(state >> 8) * 0x1p-24f;
    }
    float gaussian() {
        float sum = 0;
        for (int i = 0; i < 12; ++i) sum += uniform();
        return sum - 6;
    }
};

std::vector<float> round_trip(TensorType type, const std::vector<float>& x,
                              const std::vector<float>& importance = {}) {
    const TensorTypeInfo& info = tensor_type_info(type);
    std::vector<std::byte> blocks(x.size() / info.block * info.block_bytes, std::byte{0xA5});
    quantise_row(type, x, importance, blocks);
    std::vector<float> y(x.size());
    reference::dequantise(type, blocks, y);
    return y;
}

/// sqrt(sum w (x - y)^2 / sum w x^2)
double relative_error(const std::vector<float>& x, const std::vector<float>& y,
                      const std::vector<float>& w = {}) {
    double error = 0, total = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double weight = w.empty() ? 1.0 : w[i], off = double{x[i]} - y[i];
        error += weight * off * off;
        total += weight * x[i] * x[i];
    }
    return std::sqrt(error / total);
}

}  // namespace

TEST_CASE("quantise: the error is the field's or less") {
    // llama.cpp's (llama-cpp-python 0.3.36, ggml_quantize_chunk) relative errors on the same numbers:
    // gaussian and its cube, each without and with importance (then weighted by it).
    struct Case {
        TensorType type;
        double gaussian, gaussian_importance, heavy, heavy_importance;
    };
    constexpr Case cases[] = {
        {TensorType::q8_0, 0.00533, 0.00528, 0.00870, 0.00880},
        {TensorType::q6_k, 0.01768, 0.01549, 0.02490, 0.02369},
        {TensorType::q5_k, 0.03601, 0.03183, 0.05047, 0.04801},
        {TensorType::q5_1, 0.03768, 0.02958, 0.05474, 0.04208},
        {TensorType::q5_0, 0.04251, 0.03742, 0.06044, 0.05818},
        {TensorType::q4_k, 0.07110, 0.06205, 0.09153, 0.08502},
        {TensorType::q4_1, 0.07723, 0.06095, 0.11581, 0.08040},
        {TensorType::q4_0, 0.08509, 0.07476, 0.11186, 0.10681},
        {TensorType::iq4_nl, 0.07588, 0.06856, 0.09343, 0.08685},
        {TensorType::q3_k, 0.14995, 0.12789, 0.15662, 0.14301},
        {TensorType::q2_k, 0.29416, 0.22168, 0.39673, 0.24609},
    };
    constexpr size_t cols = 1024, rows = 8;
    for (const bool heavy : {false, true}) {
        Random random{7};
        std::vector<float> x(cols * rows), importance(cols);
        for (float& value : x) {
            value = random.gaussian();
            if (heavy) value = value * value * value;
        }
        for (float& value : importance) {
            value = random.gaussian();
            value *= value;
        }
        std::vector<float> all_importance;
        for (size_t row = 0; row < rows; ++row)
            all_importance.insert(all_importance.end(), importance.begin(), importance.end());
        for (const Case& c : cases) {
            CAPTURE(std::string(tensor_type_info(c.type).name));
            CAPTURE(heavy);
            CHECK(relative_error(x, round_trip(c.type, x)) <= 1.01 * (heavy ? c.heavy : c.gaussian));
            const double weighted = relative_error(x, round_trip(c.type, x, all_importance), all_importance);
            CHECK(weighted <= 1.01 * (heavy ? c.heavy_importance : c.gaussian_importance));
        }
    }
}

TEST_CASE("quantise: scales are as good as an exhaustive search's") {
    struct Case {
        TensorType type;
        float lowest, highest;
        bool offset;
    };
    constexpr Case cases[] = {{TensorType::q4_0, -8, 7, false},
                              {TensorType::q5_0, -16, 15, false},
                              {TensorType::q4_1, 0, 15, true}};
    Random random{11};
    for (const Case& c : cases) {
        double ours = 0, best = 0;
        for (int block = 0; block < 20; ++block) {
            std::vector<float> x(32);
            for (float& value : x) value = random.gaussian() + (c.offset ? 0.7f : 0.0f);
            const auto error_of = [&](float scale, float offset) {
                double error = 0;
                for (size_t i = 0; i < 32; ++i) {
                    const float q = std::clamp(std::nearbyint((x[i] - offset) / scale), c.lowest, c.highest);
                    error += std::pow(x[i] - (scale * q + offset), 2);
                }
                return error;
            };
            const auto [low, high] = std::minmax_element(x.begin(), x.end());
            const float widest = c.offset ? *high - *low : 2 * std::max(*high, -*low),
                        levels = c.highest - c.lowest;
            double least = 1e30;
            for (float scale = 0.6f * widest / levels; scale < 1.3f * widest / levels;
                 scale += 0.001f * widest / levels)
                for (int shift = 0; shift <= (c.offset ? 40 : 0); ++shift) {
                    const float offset =
                        c.offset ? *low + (static_cast<float>(shift) - 10) * 0.05f * scale : 0;
                    least = std::min(least, error_of(scale, offset));
                    if (!c.offset) least = std::min(least, error_of(-scale, offset));
                }
            best += least;
            const std::vector<float> y = round_trip(c.type, x);
            for (size_t i = 0; i < 32; ++i) ours += std::pow(x[i] - y[i], 2);
        }
        CAPTURE(std::string(tensor_type_info(c.type).name));
        MESSAGE(std::string(tensor_type_info(c.type).name)
                << ": squared error " << ours / best << " of the exhaustive search's");
        CHECK(ours <= 1.03 * best);
    }
}

TEST_CASE("quantise: small weights are as near as large ones") {
    // Their scales are halves of few bits, which rounded down would cut the largest weights, or all to 0.
    for (const TensorTypeInfo& info : tensor_types()) {
        if (!can_quantise(info.type) || info.block == 1) continue;
        Random random{13};
        std::vector<float> x(4096);
        for (float& value : x) value = random.gaussian();
        const double plain = relative_error(x, round_trip(info.type, x));
        for (const float size : {1e-5f, 3e-5f, 1e-4f, 3e-4f}) {
            CAPTURE(std::string(info.name));
            CAPTURE(size);
            std::vector<float> small = x;
            for (float& value : small) value *= size;
            CHECK(relative_error(small, round_trip(info.type, small)) <= 1.5 * plain + 0.005);
        }
    }
}

TEST_CASE("quantise: rows made to break it") {
    struct Case {
        const char* name;
        std::function<float(size_t)> value;
        double bound;  // of max|x - y| / max|x|, for types of 4 bits and more
    };
    const Case cases[] = {
        {"zeros", [](size_t) { return 0.0f; }, 0},
        {"one outlier", [](size_t i) { return i == 77 ? 30000.0f : 1e-3f; }, 0.01},
        {"a negative outlier", [](size_t i) { return i == 77 ? -30000.0f : 1e-3f; }, 0.01},
        {"constant", [](size_t) { return 0.3f; }, 0.01},
        {"negative constant", [](size_t) { return -0.3f; }, 0.01},
        {"two values", [](size_t i) { return i % 2 ? 1.0f : -1.0f; }, 0.15},
        {"too small for a half", [](size_t i) { return i % 3 ? 1e-9f : -1e-9f; }, 1},
        {"the smallest floats", [](size_t i) { return i % 3 ? 1e-45f : -1e-45f; }, 1},
        {"all of one sign", [](size_t i) { return 1 + static_cast<float>(i) / 256; }, 0.1},
        {"the largest", [](size_t i) { return i % 2 ? 32768.0f : -32768.0f; }, 0.15},
        {"half zeros", [](size_t i) { return i < 128 ? 0.0f : 1.0f; }, 0.05},
    };
    for (const TensorTypeInfo& info : tensor_types()) {
        if (!can_quantise(info.type)) continue;
        for (const Case& c : cases)
            for (const float importance : {1.0f, 0.0f, 3e38f}) {
                CAPTURE(std::string(info.name));
                CAPTURE(std::string(c.name));
                CAPTURE(importance);
                std::vector<float> x(256);
                for (size_t i = 0; i < x.size(); ++i) x[i] = c.value(i);
                const std::vector<float> y = round_trip(info.type, x, std::vector<float>(256, importance));
                double most = 0, off = 0;
                for (size_t i = 0; i < x.size(); ++i) {
                    REQUIRE(std::isfinite(y[i]));
                    most = std::max(most, std::abs(double{x[i]}));
                    off = std::max(off, std::abs(double{x[i]} - y[i]));
                }
                const bool narrow = info.type == TensorType::q2_k || info.type == TensorType::q3_k;
                CHECK(off <= (narrow ? 2.5 : 1.0) * c.bound * most);
            }
    }
}

TEST_CASE("quantise: only weights of 0, or of next to nothing, are important") {
    for (const TensorTypeInfo& info : tensor_types()) {
        if (!can_quantise(info.type)) continue;
        for (const float important : {0.0f, 1e-40f, 1e-20f}) {
            CAPTURE(std::string(info.name));
            CAPTURE(important);
            std::vector<float> x(256, important), importance(256, 1.0f);
            for (size_t i = 0; i < x.size(); i += 2) x[i] = i % 4 ? 1.0f : -0.5f, importance[i] = 0;
            for (const float y : round_trip(info.type, x, importance)) REQUIRE(std::abs(y) <= 1.1f);
        }
    }
}

TEST_CASE("quantise: float types round to nearest even") {
    struct Case {
        float value, f16, bf16;
    };
    constexpr Case cases[] = {
        {1.0f, 1.0f, 1.0f},
        {1.00048828125f, 1.0f, 1.0f},           // halfway between two halves: to the even one
        {1.00146484375f, 1.001953125f, 1.0f},   // likewise, upwards
        {1.01171875f, 1.01171875f, 1.015625f},  // halfway between two bf16
        {65504.0f, 65504.0f, 65536.0f},
        {0x1p-24f, 0x1p-24f, 0x1p-24f},  // the least subnormal half
        {0x1p-25f, 0.0f, 0x1p-25f},      // halfway to zero
        {0x1.8p-24f, 0x1p-23f, 0x1.8p-24f},
        {-0x1.ffcp-15f, -0x1p-14f, -0x1p-14f},
        {-3.3e-3f, -0.003299713134765625f, -0.0032958984375f},
    };
    for (const Case& c : cases) {
        CAPTURE(c.value);
        CHECK(round_trip(TensorType::f16, {c.value})[0] == c.f16);
        CHECK(round_trip(TensorType::bf16, {c.value})[0] == c.bf16);
        CHECK(round_trip(TensorType::f32, {c.value})[0] == c.value);
    }
}

TEST_CASE("quantise: int8 has one scale per row") {
    Random random{3};
    std::vector<float> x(96), y(96);
    for (float& value : x) value = random.gaussian();
    x[40] = 9;
    std::vector<std::byte> blocks(3 * 34);
    quantise_row_int8(x, blocks);
    for (const size_t block : {size_t{1}, size_t{2}}) {
        CHECK(blocks[block * 34] == blocks[0]);
        CHECK(blocks[block * 34 + 1] == blocks[1]);
    }
    reference::dequantise(TensorType::q8_0, blocks, y);
    for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) <= 0.502 * 9 / 127);
    CHECK(y[40] == doctest::Approx(9).epsilon(0.001));
}
