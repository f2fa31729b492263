// See report_html.h. Every table is rows of cells; what is text is escaped in one place.
#include "report_html.h"

#include "fail.h"
#include "pictures/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace scoria::validate {
namespace {

constexpr std::string_view page_head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>scoria validate</title>
<style>
:root { color-scheme: light dark; --line: #d0d4da; --soft: #f3f5f7; --ok: #1a7f37; --bad: #c62828; --badsoft: #fdecea; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3f47; --soft: #1d2127; --ok: #57c271; --bad: #ff7b72; --badsoft: #3b1d1c; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: var(--soft); }
.ok { color: var(--ok); } .bad { color: var(--bad); font-weight: 600; } tr.bad td { background: var(--badsoft); }
.number { text-align: right; white-space: nowrap; } .bars { font-family: monospace; white-space: pre; }
figure { display: inline-block; margin: 0 1.5rem 1.5rem 0; vertical-align: top; max-width: 34rem; }
figure img { image-rendering: pixelated; display: block; width: 32rem; max-width: 100%; border: 1px solid var(--line); }
figcaption { padding: .3rem 0; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; }
</style></head><body>
)";

struct Cell {
    std::string html;  // escaped
    const char* style = "";
};
std::string table_row(const std::vector<Cell>& cells, const char* style = "", const char* tag = "td") {
    std::string out = cat("<tr", *style ? cat(" class=", style) : "", ">");
    for (const Cell& cell : cells)
        out += cat("<", tag, *cell.style ? cat(" class=", cell.style) : "", ">", cell.html, "</", tag, ">");
    return out + "</tr>\n";
}
std::string table_head(std::initializer_list<const char*> names) {
    std::vector<Cell> cells;
    for (const char* name : names) cells.push_back({name});
    return "<div class=scroll><table>\n" + table_row(cells, "", "th");
}
constexpr const char* table_end = "</table></div>\n";

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2g", value);
    return text;
}

std::string value_text(const nlohmann::ordered_json& value) {
    return html_text(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string run_name(const Run& run, size_t index, size_t runs) {
    return runs == 1 ? html_text(run.facts.value("device", "device"))
                     : cat("#", index, " ", html_text(run.facts.value("device", "device")));
}

/// One row per fact, one column per run.
std::string facts_table(std::span<const Run> runs, const nlohmann::ordered_json& facts) {
    std::string out = "<div class=scroll><table>\n";
    for (const auto& [name, value] : facts.items())
        out += table_row({{html_text(name)}, {value_text(value)}});
    std::vector<std::string> names;
    for (const Run& run : runs)
        for (const auto& [name, value] : run.facts.items())
            if (!value.is_structured() && std::ranges::find(names, name) == names.end())
                names.push_back(name);
    for (const std::string& name : names) {
        std::vector<Cell> row{{html_text(name)}};
        for (const Run& run : runs)
            row.push_back({run.facts.contains(name) ? value_text(run.facts[name]) : "-"});
        out += table_row(row);
    }
    out += table_end;
    for (size_t i = 0; i < runs.size(); ++i)
        for (const auto& [name, value] : runs[i].facts.items())
            if (value.is_structured())
                out += cat("<details><summary>", html_text(name), " of ", run_name(runs[i], i, runs.size()),
                           "</summary><pre>", html_text(value.dump(1)), "</pre></details>\n");
    return out;
}

std::string summary_table(std::span<const Run> runs) {
    std::string out = "<div class=scroll><table>\n";
    std::vector<Cell> head{{"op"}, {"variant"}};
    for (size_t i = 0; i < runs.size(); ++i) head.push_back({run_name(runs[i], i, runs.size())});
    out += table_row(head, "", "th");
    std::vector<std::vector<Cell>> rows;
    for (size_t i = 0; i < runs.size(); ++i)
        for (const Group& group : group_results(runs[i].results)) {
            const std::string op = html_text(group.op), variant = html_text(group.variant);
            auto row = std::ranges::find_if(
                rows, [&](const auto& r) { return r[0].html == op && r[1].html == variant; });
            if (row == rows.end()) row = rows.insert(rows.end(), {{op}, {variant}});
            row->resize(2 + runs.size(), {"-"});
            const size_t failed = group.failed();
            (*row)[2 + i] = {
                failed ? cat(failed, " of ", group.results.size(), " failed")
                       : cat(group.results.size(), " ok, ", percent(group.worst().share()), " of a bound"),
                failed ? "bad" : "ok"};
        }
    for (const auto& row : rows) out += table_row(row);
    return out + table_end;
}

/// A column of block characters per bucket, tall as the logarithm of its count.
std::string ulp_bars(const CheckResult& result) {
    constexpr const char* blocks[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t last = result.ulps.size();
    while (last > 0 && result.ulps[last - 1] == 0) --last;
    std::string bars, title;
    for (size_t i = 0; i < last; ++i) {
        const uint32_t count = result.ulps[i];
        const size_t height = count == 0 ? 0 : std::min<size_t>(8, size_t(std::log2(count)) / 2 + 1);
        bars += blocks[height];
        if (count == 0) continue;
        title += cat(title.empty() ? "" : ", ", count,
                     i == 0                        ? std::string(" equal")
                     : i + 1 == result.ulps.size() ? std::string(" further")
                                                   : cat(" within ", 1u << (i - 1)));
    }
    return cat("<span class=bars title=\"", title, "\">", bars, "</span>");
}

struct Case {
    const CheckResult* result;
    size_t run;
};

std::vector<Case> cases_in_order(std::span<const Run> runs) {
    std::vector<Case> cases;
    for (size_t i = 0; i < runs.size(); ++i)
        for (const CheckResult& result : runs[i].results) cases.push_back({&result, i});
    std::ranges::stable_sort(cases, [](const Case& a, const Case& b) {
        if (a.result->passed != b.result->passed) return !a.result->passed;
        return a.result->share() > b.result->share();
    });
    return cases;
}

std::string cases_table(std::span<const Case> cases, size_t runs) {
    std::string out = table_head({"verdict", "op", "variant", "case", "on", "of bound", "NMSE", "worst row",
                                  "worst element", "ULPs", "where, or what is wrong"});
    for (const auto& [result, run] : cases) {
        const auto measure = [](double value, double bound) {
            return Cell{cat(short_number(value), " / ", short_number(bound)), "number"};
        };
        const CheckResult& r = *result;
        out += table_row({{r.passed ? "ok" : "FAILED", r.passed ? "ok" : "bad"},
                          {html_text(r.op)},
                          {html_text(r.variant)},
                          {html_text(r.shape)},
                          {runs == 1 ? "" : cat("#", run)},
                          {percent(r.share()), "number"},
                          measure(r.nmse, r.bounds.nmse),
                          measure(r.worst_row, r.bounds.worst_row),
                          measure(r.worst_element, r.bounds.worst_element),
                          {ulp_bars(r)},
                          {r.passed ? cat("[", r.row_at, ", ", r.col_at, "]") : html_text(r.detail)}},
                         r.passed ? "" : "bad");
    }
    return out + table_end;
}

std::string pictures(std::span<const Case> cases) {
    std::string out;
    for (const auto& [result, run] : cases) {
        if (!result->map) continue;
        const ErrorMap& map = *result->map;
        // A picture of one row would be a hair.
        const size_t height = std::clamp<size_t>(512 * map.cell_rows / map.cell_cols, 24, 512);
        out += cat(
            "<figure><img alt=\"\" style=\"height:", height, "px\" src=\"", data_uri(error_map_picture(map)),
            "\"><figcaption><span class=", result->passed ? "ok" : "bad", ">",
            result->passed ? "ok" : "FAILED", "</span> ", html_text(result->op), " ",
            html_text(result->variant), ", ", html_text(result->shape), ": ", map.rows, " x ", map.cols, ", ",
            html_text(percent(result->share())), " of a bound</figcaption></figure>\n");
    }
    return out;
}

}  // namespace

std::string report_html(std::span<const Run> runs, const nlohmann::ordered_json& facts) {
    const std::vector<Case> cases = cases_in_order(runs);
    const auto failed = std::ranges::count_if(cases, [](const Case& one) { return !one.result->passed; });
    std::string out(page_head);
    out +=
        cat("<h1>scoria validate: ",
            failed ? cat("<span class=bad>", failed, " of ", cases.size(), " cases failed</span>")
                   : cat("<span class=ok>", cases.size(), " cases passed</span>"),
            "</h1>\n<p>Every kernel against the same computation in double precision. NMSE is the squared "
            "error over the squared expectation; worst row and worst element are relative to the root mean "
            "square of their row; each stands before its bound. ULPs: how many elements equal the nearest "
            "float, lie within 1, 2, 4, ... units of its last place (bars by logarithm).</p>\n");
    out += "<h2>Where</h2>\n" + facts_table(runs, facts);
    out += "<h2>Ops and variants</h2>\n" + summary_table(runs);
    if (const std::string figures = pictures(cases); !figures.empty())
        out += "<h2>Errors by element</h2>\n<p>Failures, and of each op the case nearest to its bound. Rows "
               "downwards, columns to the right; a pixel is the worst of its elements. Black: exact; blue to "
               "white: within the bound; yellow to red: beyond it; magenta: not finite; green: never written."
               "</p>\n" +
               figures;
    out += "<h2>Cases</h2>\n" + cases_table(cases, runs.size());
    return out + "</body></html>\n";
}

}  // namespace scoria::validate
