// Comparison and reports of `scoria validate`, without a device.
#include "validate/report_html.h"

#include "fail.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace scoria;
using namespace scoria::validate;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr Bounds tight{1e-12, 1e-6, 2e-7};

/// 3 rows of 4, actual spoilt by `spoil`.
CheckResult compared(void (*spoil)(std::vector<float>&), const Bounds& bounds = tight) {
    const std::vector<double> expected{1, 2, 3, 4, -1, -2, -3, -4, 10, 20, 30, 40};
    std::vector<float> actual(expected.begin(), expected.end());
    spoil(actual);
    return compare_values("add", "plain", "rows 3 <cols> 4", expected, actual, 4, bounds);
}

float next_up(float value, int steps) { return std::bit_cast<float>(std::bit_cast<int32_t>(value) + steps); }

}  // namespace

TEST_CASE("what was never written is no NaN that was wanted") {
    const std::vector<double> expected{1, double(nan_value)};
    const auto passes = [&](float second) {
        const std::vector<float> actual{1, second};
        return compare_values("add", "plain", "", expected, actual, 2, tight).passed;
    };
    CHECK(passes(nan_value));
    CHECK(!passes(std::bit_cast<float>(unwritten_word)));
}

TEST_CASE("a comparison says how far off, where, and in how many places") {
    struct Row {
        const char* what;
        void (*spoil)(std::vector<float>&);
        bool passed;
        size_t row, col;  // of the worst element
        uint32_t incomparable;
        size_t bucket;  // of the histogram that holds the spoilt element
    };
    const Row rows[] = {
        {"exact", [](auto&) {}, true, 0, 0, 0, 0},
        {"one place", [](auto& a) { a[5] = next_up(a[5], 1); }, true, 1, 1, 0, 1},
        {"two places", [](auto& a) { a[5] = next_up(a[5], 2); }, true, 1, 1, 0, 2},
        {"five places", [](auto& a) { a[5] = next_up(a[5], 5); }, false, 1, 1, 0, 4},
        {"far off", [](auto& a) { a[8] = -10; }, false, 2, 0, 0, 25},
        {"NaN", [](auto& a) { a[2] = nan_value, a[9] = 21; }, false, 0, 2, 1, 0},
        {"never written", [](auto& a) { a[11] = std::bit_cast<float>(unwritten_word); }, false, 2, 3, 1, 0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        const CheckResult result = compared(row.spoil);
        CHECK(result.passed == row.passed);
        CHECK(result.row_at == row.row);
        CHECK(result.col_at == row.col);
        CHECK(result.incomparable == row.incomparable);
        CHECK(result.detail.empty() == row.passed);
        CHECK((result.share() <= 1) == row.passed);
        if (row.bucket) CHECK(result.ulps[row.bucket] == 1);
        uint32_t total = result.incomparable;
        for (const uint32_t count : result.ulps) total += count;
        CHECK(total == 12);
    }
    // Signed zeros are equal; a floor under the scale excuses what is small beside it.
    const std::vector<double> zero(4), tiny{0, 0, 0, 1e-30};
    const std::vector<float> negative(4, -0.0f);
    CHECK(compare_values("x", "", "", zero, negative, 4, {0, 0, 0}).ulps[0] == 4);
    CHECK_FALSE(compare_values("x", "", "", tiny, negative, 4, tight).passed);
    CHECK(compare_values("x", "", "", tiny, negative, 4, {1e-12, 1e-6, 1e-6, 1e-20}).passed);
}

TEST_CASE("a map keeps the worst of each cell") {
    CHECK(ErrorMap::level_of(0) == 0);
    CHECK(ErrorMap::level_of(1) == ErrorMap::at_bound);
    CHECK(ErrorMap::level_of(1.01) > ErrorMap::at_bound);
    CHECK(ErrorMap::level_of(HUGE_VAL) == ErrorMap::largest);
    CHECK(ErrorMap::level_of(1e-30) == 1);
    std::vector<double> expected(3 * 1000, 1);
    std::vector<float> actual(3 * 1000, 1);
    actual[2 * 1000 + 999] = 2;
    actual[1000] = nan_value;
    actual[500] = std::bit_cast<float>(unwritten_word);
    const ErrorMap map = error_map(expected, actual, 1000, tight);
    CHECK(map.cell_rows == 3);
    CHECK(map.cell_cols == 256);
    CHECK(map.cells[2 * 256 + 255] > ErrorMap::at_bound);
    CHECK(map.cells[256] == ErrorMap::not_finite);
    CHECK(map.cells[128] == ErrorMap::never_written);
    CHECK(std::count(map.cells.begin(), map.cells.end(), 0) == 3 * 256 - 3);
    const std::string png = error_map_picture(map).png();
    CHECK(png.substr(1, 3) == "PNG");
    CHECK(png.find("IEND") != std::string::npos);
}

TEST_CASE("reports hold every case, failures first, and escape what they quote") {
    Run run{{{"device", "A&B"}, {"driver", "1.2"}}, {}};
    run.results.push_back(compared([](auto&) {}));
    run.results.push_back(compared([](auto& a) { a[8] = nan_value; }));
    run.results.back().map = std::make_shared<const ErrorMap>(3, 4);
    const std::vector<Run> runs{run, {{{"device", "C"}, {"driver", "3"}}, {run.results[0]}}};

    const auto json = report_json(runs, {{"tier", "quick"}});
    CHECK(json["schema"] == report_schema);
    CHECK(json["passed"] == false);
    CHECK(json["cases"] == 3);
    CHECK(json["failed"] == 1);
    CHECK(json["runs"][1]["passed"] == true);
    const auto& failed = json["runs"][0]["results"][1];
    CHECK(failed["case"] == "rows 3 <cols> 4");
    CHECK(failed["worst_element_at"] == nlohmann::ordered_json{2, 0});
    CHECK(failed["actual_there"] == "nan");
    CHECK(failed["ulps"] == nlohmann::ordered_json{11});
    CHECK(failed["incomparable"] == 1);

    const std::string html = report_html(runs, {{"tier", "quick"}});
    CHECK(html.find("rows 3 &lt;cols&gt; 4") != std::string::npos);
    CHECK(html.find("<cols>") == std::string::npos);
    CHECK(html.find("A&amp;B") != std::string::npos);
    CHECK(html.find("data:image/png;base64,iVBORw0KGgo") != std::string::npos);
    const size_t cases = html.find("<h2>Cases</h2>");
    CHECK(html.find("FAILED", cases) < html.find(">ok<", cases));

    const std::string table = comparison_table(runs);
    CHECK(table.find("1 of 2 FAILED") != std::string::npos);
    CHECK(table.find("1 ok, 0 %") != std::string::npos);
    CHECK(report_table(run.results).find("1 FAILED") != std::string::npos);
    CHECK(failure_text(run.results).find("element 0 of row 2: expected 10, got nan") != std::string::npos);
}
