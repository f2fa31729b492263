// The language against what Jinja 3.1 and Python say, and templates that mean harm.
#include "jinja/template.h"

#include "fail.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace scoria;
using namespace scoria::jinja;
using nlohmann::ordered_json;

namespace {

constexpr CivilSeconds pi_day = 1773480413;  // 2026-03-14 09:26:53

const std::vector<Variable>& variables() {
    static const std::vector<Variable> all = {
        {"a", {1, 2, 3}},
        {"d", ordered_json::parse(R"({"x": 1, "items": "I", "B": [1, {"k": "v"}], "a b": null})")},
        {"s", "Hello World"},
        {"u", "straße ΟΔΟΣ"},
        {"n", nullptr},
        {"big", 18446744073709551615u},
        {"m", ordered_json::parse(
                  R"([{"role": "user", "content": "hi"}, {"role": "tool", "content": "x\ny", "n": 3},
                                      {"role": "User", "content": null}])")},
    };
    return all;
}

std::string render(const std::string& source, const Limits& limits = {}) {
    return Template(source).render(variables(), pi_day, limits).bytes();
}

/// What the rendering fails with, or "".
std::string failure(const std::string& source, const Limits& limits = {}) {
    try {
        render(source, limits);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::string repeated(std::string_view part, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += part;
    return out;
}

struct Case {
    std::string source, result;
};

}  // namespace

TEST_CASE("expressions") {
    const Case cases[] = {
        {"1 + 2 * 3 - 4 / 2", "5.0"},
        {"[-7 // 2, -7 % 3, 7 % -3, -7.5 // 2, -7.5 % 2, 2 ** -1, 2 ** 3 ** 2]",
         "[-4, 2, -2, -4.0, 0.5, 0.5, 64]"},
        {"[1e16, 1e15, 1e-5, 0.0001, 0.1 + 0.2, -0.0, 1_000, 0x1F]",
         "[1e+16, 1000000000000000.0, 1e-05, 0.0001, 0.30000000000000004, -0.0, 1000, 31]"},
        {"big + 1", "18446744073709551616"},
        {"['q\"q', \"q'q\", 'q\"\\'q', '\\n\\x7f\\u200bé']",
         "['q\"q', \"q'q\", 'q\"\\'q', '\\n\\x7f\\u200bé']"},
        {"[(1,), (), {'a': 1, 2: (3, none), 'a': 4}]", "[(1,), (), {'a': 4, 2: (3, None)}]"},
        {"[1 in {1.0: 2}, 1 == 1.0, '1' == 1, (1, 2) == [1, 2], 1 < 2 < 3, 1 < 3 < 2]",
         "[True, True, False, False, True, False]"},
        {"[a[-1], a[1:], a[::-1], a[5:], s[1:5], s[::-1], u[4], u[1:5]]",
         "[3, [2, 3], [3, 2, 1], [], 'ello', 'dlroW olleH', 'ß', 'traß']"},
        {"d['items'] ~ d.x ~ d.B[1].k ~ d.B.0 ~ d['a b'] ~ d.zz", "I1v1None"},
        {"d.items()", "dict_items([('x', 1), ('items', 'I'), ('B', [1, {'k': 'v'}]), ('a b', None)])"},
        {"('yes' if n) ~ ('no' if n is none else 'x') ~ (x or 'or') ~ (a and 'and')", "noorand"},
        {"'a' 'b' ~ 1 ~ none ~ x ~ 1.0 ~ 'ab' * 2", "ab1None1.0abab"},
        {"not a is defined or 1 in a and 'ell' in s and 4 not in a", "True"},
        {"[x is defined, x is iterable, d is mapping, s is sequence, d.items() is sequence, true is integer]",
         "[False, True, True, True, False, False]"},
        {"[4 is divisibleby 2, 3 is even, 'a' is in ['a'], s is not string, n is sameas none, 'upper' is "
         "filter]",
         "[True, False, True, False, True, True]"},
        {"1 if m | selectattr('role', 'equalto', 'zzz') else 2",
         "1"},  // a generator is true, whatever it holds
        {"a.append is defined or d.update is defined or s.__class__ is defined", "False"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.source);
        CHECK(render("{{ " + c.source + " }}") == c.result);
    }
}

TEST_CASE("filters and methods") {
    const Case cases[] = {
        {"d | tojson", R"({"x": 1, "items": "I", "B": [1, {"k": "v"}], "a b": null})"},
        {"[1.0, 'é<\\n', {1: true}] | tojson(indent=2)",
         "[\n  1.0,\n  \"é<\\n\",\n  {\n    \"1\": true\n  }\n]"},
        {"'é😀\\x7f' | tojson(ensure_ascii=true)", R"("\u00e9\ud83d\ude00\u007f")"},
        {"{'b': 1, 'a': []} | tojson(separators=(',', ':'), sort_keys=true)", R"({"a":[],"b":1})"},
        {"m | map(attribute='role') | unique | join('|')", "user|tool"},
        {"m | selectattr('n', 'defined') | map(attribute='n') | list", "[3]"},
        {"m | rejectattr('role', 'in', ['user']) | map(attribute='role') | list", "['tool', 'User']"},
        {"[a | select('odd') | list, a | select('>', 1) | list, [0, 'x', none] | reject | list]",
         "[[1, 3], [2, 3], [0, None]]"},
        {"{'b': 2, 'A': 1} | dictsort", "[('A', 1), ('b', 2)]"},
        {"(m | groupby('role') | first).grouper ~ (m | groupby('role') | map(attribute='list') | first | "
         "length) ~ "
         "('ab', 2).grouper",
         "tool1"},
        {"[a | sum, a | max, ['b', 'A'] | sort, a | reverse | list, a | batch(2, 'x') | list, a | slice(2) | "
         "list]",
         "[6, 3, ['A', 'b'], [3, 2, 1], [[1, 2], [3, 'x']], [[1, 2], [3]]]"},
        {"[['b', 'a'] | sort(attribute='x'), [none, none] | sort, ['b', 'a'] | unique(attribute='x') | list]",
         "[['b', 'a'], [None, None], ['b']]"},
        {"[[1, 2] | slice(2, 'x') | list, [1, 2, 3] | slice(2, 'x') | list, [] | slice(1, 'x') | list]",
         "[[[1, 'x'], [2, 'x']], [[1, 2], [3, 'x']], [['x']]]"},
        {"[x | default('E'), '' | d('E', true), '' | d('E'), n | d('E')]", "['E', 'E', '', None]"},
        {"['3' | int, 'x' | int(5), '3.7' | int, '1f' | int(base=16), 2.5 | round, 2.675 | round(2), '1' | "
         "float]",
         "[3, 5, 3, 31, 2.0, 2.67, 1.0]"},
        {"[u | upper, u | lower, 'a-b (c) d_e' | title, \"they're\".title(), u.capitalize()]",
         "['STRASSE ΟΔΟΣ', 'straße οδος', 'A-B (C) D_e', \"They'Re\", 'Straße οδος']"},
        {"['a,b,,c'.split(','), 'a,b,c'.rsplit(',', 1), ' a  b c '.split(), ' a  b c '.split(none, 1)]",
         "[['a', 'b', '', 'c'], ['a,b', 'c'], ['a', 'b', 'c'], ['a', 'b c ']]"},
        {"['xxaxx'.strip('x'), '  a '.lstrip(), s.startswith(('x', 'He')), s.find('o'), s.count('o'), "
         "s.replace('o', '0', 1)]",
         "['a', 'a ', True, 4, 2, 'Hell0 World']"},
        {"'a\\nb\\n\\nc' | indent(2, true) ~ '|' ~ 'abc' | center(8) ~ '|' ~ 'a' | truncate(9)",
         "  a\n  b\n\n  c|  abc   |a"},
        {"'%s-%5.2f-%05d-%x' | format('a', 2.5, 42, 255) ~ '{1}{0:>4}{b.x:,}'.format(1, 'a', b={'x': 1234})",
         "a- 2.50-00042-ffa   11,234"},
        {"('<b>' | safe) + '<' ~ ('<' | e)", "<b>&lt;&amp;lt;"},
        {"[n | map('upper') | list, '%s' | format(a) ~ 'x' % a, -3 % 1.5]", "[[], '[1, 2, 3]x', 0.0]"},
        {"range(5)[1:3] | list ~ (range(9, 0, -4) | list) ~ dict(a=1) ~ namespace(a=2).a",
         "[1, 2][9, 5, 1]{'a': 1}2"},
        {"strftime_now('%Y-%m-%d %H:%M:%S %A %d %b %Y %-d %j %p')",
         "2026-03-14 09:26:53 Saturday 14 Mar 2026 14 073 AM"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.source);
        CHECK(render("{{ " + c.source + " }}") == c.result);
    }
}

TEST_CASE("statements and whitespace") {
    const Case cases[] = {
        {"  {% if true %}\nx\n  {%+ if true %}\n  y\n  {% endif +%}\nz\n{% endif %}\nw\n",
         "x\n    y\n\nz\nw"},
        {"a\n  {# c #}\nb {# d #} e\n{#- f -#}\n  g\n", "a\nb  eg"},
        {"a {{- 'b' -}} c {{ 'd' }} \ne\n\n", "abc d \ne\n"},
        {"  {% raw %}\n {{ x }}\n  {% endraw %}\nz{%- raw -%} {% if %} {%- endraw %}",
         "\n {{ x }}\nz{% if %}"},
        {"{% for x in a if x != 2 %}{{ loop.index }}{{ x }}{{ loop.last }}{{ loop.length }} {% endfor %}",
         "11False2 23True2 "},
        {"{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.previtem }}{{ loop.nextitem }}{{ "
         "loop.cycle('o', 'e') }}{% endfor %}",
         "True1oFalse12eTrue1o"},
        {"{% for x in a %}{% if x == 1 %}{% continue %}{% elif x == 3 %}{% break %}{% endif %}{{ x }}{% "
         "endfor %}",
         "2"},
        {"{% for x in [] %}a{% else %}none{% endfor %}{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% "
         "endfor %}",
         "nonea1"},
        {"{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{{ "
         "loop.depth }}{% endif %}{% endfor %}",
         "[12[23]]31"},
        {"{% set x = 1 %}{% for i in a %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "2341"},
        {"{% set ns = namespace(x=1) %}{% for i in a %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "7"},
        {"{% set x %}b {{ s }}{% endset %}{% set y | upper %}c{% endset %}{{ x }}{{ y }}{% set p, q = 1, 2 "
         "%}{{ q }}",
         "b Hello WorldC2"},
        {"{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }} {% endmacro %}{{ f(1) }}{{ f(1, c=5) }}{{ f() }}",
         "121 125 2 "},
        {"{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=4) }}", "(2,){'k': 4}"},
        {"{% macro f() %}<{{ caller(1) }}>{% endmacro %}{% call(v) f() %}{{ v }}{{ s }}{% endcall %}",
         "<1Hello World>"},
        {"{% macro f() %}{{ late }}{% endmacro %}{% set late = 5 %}{{ f() }}", "5"},
        {"{% filter replace('a', 'b') | upper %}abc{% endfilter %}{% with x = 1 %}{{ x }}{% endwith %}{{ x "
         "}}",
         "BBC1"},
        {"{% generation %}{{ s }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}", "Hello WorldFalse"},
        {"{% for k, v in ('{\"b\": [1, null], \"a\": 2.5}' | from_json).items() %}{{ k }}{{ v }}{% endfor %}",
         "b[1, None]a2.5"},
        {"line1\r\nline2\rline3\n", "line1\nline2\nline3"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.source);
        CHECK(render(c.source) == c.result);
    }
}

TEST_CASE("what a template gets wrong is said with its line") {
    const Case cases[] = {
        {"\n{{ x.y }}", "[template] line 2: expected a value with 'y', got the undefined 'x'"},
        {"{{ 'a' + 1 }}", "[template] line 1: expected operands that '+' takes, got str and int"},
        {"{{ raise_exception('no') }}", "[template] line 1: the template refuses: no"},
        {"{% for x in none %}{% endfor %}",
         "[template] line 1: expected something to iterate over, got None"},
        {"\n\n{% if a %}", "[template] line 3: expected {% endif %}, got the end of the template"},
        {"{{ a b }}", "[template] line 1: expected '}}', got 'b'"},
        {"{% foo %}", "[template] line 1: expected a known statement, got 'foo'"},
        {"{{ a | nofilter }}", "[template] line 1: expected a known filter, got 'nofilter'"},
        {"{{ a.append(4) }}",
         "[template] line 1: expected something to call, got the forbidden attribute 'append' of list"},
        {"{{ s.__class__.__mro__ }}", "[template] line 1: expected a value with '__mro__', got the undefined "
                                      "attribute '__class__' of str"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
         "[template] line 1: expected at most 1 arguments of 'f', got 2"},
        {"{{ 1 // 0 }}", "[template] line 1: expected a divisor other than 0, got 0"},
        {"{{ x | tojson }}", "[template] line 1: expected a value that JSON can hold, got undefined"},
        {"{{ '[1' | from_json }}",
         "[template] line 1: expected JSON of at most 200 nested values for 'from_json', got another text"},
        {"{{ 1 | from_json }}", "[template] line 1: expected a str for 'from_json', got int"},
        {"{{ ('[' * 300 ~ ']' * 300) | from_json }}",
         "[template] line 1: expected JSON of at most 200 nested values for 'from_json', got another text"},
        {"{{ d | trim('a', 'b') }}", "[template] line 1: expected at most 1 arguments of 'trim', got 2"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.source);
        CHECK(failure(c.source) == c.result);
    }
}

TEST_CASE("templates that mean harm end with an error, soon and in little memory") {
    const std::string doubling =
        "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
    const std::string nest = "{% set ns = namespace(x=[]) %}{% for i in range(";
    const std::string sources[] = {
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        doubling,
        "{{ 'x' * 99999999999999999999 }}",
        "{{ [0] * 99999999999 }}",
        "{{ 'x' | center(10 ** 15) }}{{ 'x'.ljust(10 ** 15) }}",
        "{{ '%999999999999s' % 1 }}",
        "{{ '{:>99999999999}'.format(1) }}",
        "{{ 10 ** 10 ** 10 ** 10 }}",
        "{{ 7 ** 999999999999 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(x) %}{% call f(x) %}{% endcall %}{{ caller }}{% endmacro %}{{ f(1) }}",
        nest + "1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
        nest + "100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        nest + "100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}{{ ns.x | tojson }}",
        nest + "100) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
        "{% set l = range(100000) | list %}{% for i in range(100000) %}{% set q = l + l %}{{ 5 in q }}{{ "
        "l[-1] in l }}{% endfor %}",
        "{% set t = 'a' * 3000000 %}{{ (t ~ 'b' ~ t) in (t * 20) }}",
        "{% set t = 'a' * 3000000 %}{{ (t * 20).rsplit(t ~ 'b') }}",
        "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
        "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
        "{{ " + repeated("[", 100000),
        "{{ " + repeated("-", 100000) + "1 }}",
        "{{ " + repeated("not ", 100000) + "1 }}",
        "{{ 1" + repeated(" + 1", 100000) + " }}",
        "{{ a" + repeated(".b", 100000) + " }}",
        "{{ a" + repeated("|list", 100000) + " }}",
        "{{ 1" + repeated(" if 1 else 1", 50000) + " }}",
        repeated("{% if 1 %}", 50000),
        repeated("{% for (" + repeated("(", 1000), 1),
        std::string(2 << 20, 'x'),
        "{{ ('\\n' * 30000000).splitlines() }}",
        "{{ ('a ' * 15000000).split() }}",
        "{{ ('a,' * 15000000).split(',') }}",
        "{{ ('a,' * 15000000).rsplit(',') }}",
        "{{ range(99999999999) }}",
        "{{ '\\ud800' }}",
        "{{ [1, 2] | slice(99999999999) | list }}{{ [1] | batch(99999999999, 'x') | list }}",
        "{{ 1.5 | round(99999) }}{{ '%.99999f' % 1.5 }}",
    };
    for (const std::string& source : sources) {
        CAPTURE(source.substr(0, 120));
        CHECK(failure(source, {.steps = 10'000'000, .memory = 64 << 20, .output = 8 << 20}) != "");
    }
    // Values that hold themselves are only possible through namespaces, and end with the rendering.
    CHECK(render("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n] %}{% for i in a %}{% set n.loop "
                 "= loop %}"
                 "{{ loop.changed(loop) }}{% endfor %}{{ n.n.n.l | length }}") == "TrueFalseFalse1");
    CHECK(render("{% set ns = namespace() %}{% for i in range(100000) %}{% set t = namespace(next=ns.x) %}{% "
                 "set ns.x = t %}"
                 "{% endfor %}ok") == "ok");
    CHECK(failure("{% set ns = namespace() %}{% for i in a %}{% macro f() %}{{ i }}{% endmacro %}{% set ns.f "
                  "= f %}{% endfor %}"
                  "{{ ns.f() }}") != "");
}

TEST_CASE("hostile variables") {
    ordered_json deep = ordered_json::array();
    for (int i = 0; i < 5000; ++i) deep = ordered_json::array({std::move(deep)});
    CHECK_THROWS_AS(Template("{{ v }}").render({{"v", deep}}, pi_day), Error);
    // Text that is not UTF-8 is repaired before anything looks at it.
    CHECK(Template("{{ v | upper }}{{ v | length }}").render({{"v", "a\xFF\xC3"}}, pi_day).bytes() ==
          "A\xEF\xBF\xBD\xEF\xBF\xBD"
          "3");
    CHECK(Template("{{ '\xC3' }}").render({}, pi_day).bytes() == "\xEF\xBF\xBD");
}
