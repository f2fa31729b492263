// JSON schemas: what their grammars let through, against tables and a validator of its own; what is refused.
#include "grammar/constraint.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"

#include "fail.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <regex>

using namespace scoria;
using namespace scoria::grammar;

namespace {

std::shared_ptr<const Program> compiled(std::string_view schema) {
    return std::make_shared<const Program>(json_schema_grammar(schema));
}

bool accepts(Matcher& matcher, std::string_view text) {
    Matcher::State state = matcher.start();
    for (const char byte : text) state = matcher.next(state, static_cast<uint8_t>(byte));
    return matcher.accepts(state);
}

/// JSON Schema as the specification says it, for the keywords that are supported.
bool valid(const Json& root, const Json& schema, const Json& value) {
    if (schema.is_boolean()) return schema.get<bool>();
    const auto holds = [&](const Json& each) { return valid(root, each, value); };
    if (schema.contains("$ref") &&
        !holds(root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1)))))
        return false;
    if (schema.contains("allOf") && !std::ranges::all_of(schema["allOf"], holds)) return false;
    if (schema.contains("anyOf") && std::ranges::none_of(schema["anyOf"], holds)) return false;
    if (schema.contains("oneOf") && std::ranges::count_if(schema["oneOf"], holds) != 1) return false;
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
        return false;
    if (schema.contains("type") && !has_type(value, types_of(schema, "#"))) return false;
    if (value.is_object()) {
        for (const Json& name : schema.value("required", Json::array()))
            if (!value.contains(name.get<std::string>())) return false;
        const Json properties = schema.value("properties", Json::object());
        const Json rest = schema.value("additionalProperties", Json(true));
        for (const auto& [name, each] : value.items())
            if (!valid(root, properties.contains(name) ? properties[name] : rest, each)) return false;
    }
    if (value.is_array()) {
        if (value.size() < schema.value("minItems", 0u) || value.size() > schema.value("maxItems", 1u << 30))
            return false;
        const Json prefix = schema.value("prefixItems", Json::array());
        const Json items = schema.value("items", Json(true));
        for (size_t i = 0; i < value.size(); ++i)
            if (!valid(root, i < prefix.size() ? prefix[i] : items, value[i])) return false;
    }
    if (value.is_array() && schema.value("uniqueItems", false))
        for (const Json& each : value)
            if (std::ranges::count(value, each) > 1) return false;
    if (value.is_string()) {
        const std::string text = value;
        const auto length = size_t(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
        if (length < schema.value("minLength", 0u) || length > schema.value("maxLength", 1u << 30))
            return false;
        if (schema.contains("pattern") &&
            !std::regex_search(text, std::regex(schema["pattern"].get<std::string>())))
            return false;
    }
    if (value.is_number()) {
        const double number = value;
        if (number < schema.value("minimum", -1e300) || number > schema.value("maximum", 1e300)) return false;
        if (number <= schema.value("exclusiveMinimum", -1e300) ||
            number >= schema.value("exclusiveMaximum", 1e300))
            return false;
        if (schema.contains("multipleOf") && std::remainder(number, schema["multipleOf"].get<double>()) != 0)
            return false;
    }
    return true;
}

/// A random text of the grammar, or "" when it grew too long.
std::string random_text(const std::shared_ptr<const Program>& program,
                        const std::shared_ptr<const TokenTrie>& trie, std::mt19937& random) {
    Constraint constraint(program, trie, {0});
    std::string text;
    for (int step = 0; step < 400; ++step) {
        const std::vector<uint32_t>& mask = constraint.mask();
        if ((mask[0] & 1) && (constraint.complete() || random() % 2 == 0)) return text;
        std::vector<uint32_t> allowed;
        for (uint32_t token = 1; token < trie->vocab(); ++token)
            if (mask[token / 32] >> token % 32 & 1) allowed.push_back(token);
        // Closing characters come first in the vocabulary: they are preferred, so that texts end.
        const uint32_t token = random() % 3 == 0 ? allowed[0] : allowed[random() % allowed.size()];
        constraint.accept(token);
        text += trie->piece(token);
    }
    return "";
}

/// allOf of two references to allOf of two references, and so on.
std::string doubling_references(int levels) {
    std::string text = R"({"$ref": "#/$defs/a0", "$defs": {)";
    for (int i = 0; i < levels; ++i) {
        const std::string next = cat(R"({"$ref": "#/$defs/a)", i + 1, "\"}");
        text += cat("\"a", i, R"(": {"allOf": [)", next, ",", next, "]},");
    }
    return cat(text, "\"a", levels, R"(": {"type": "integer"}}})");
}

const std::vector<const char*> schemas{
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 120}, "tags": {"type": "array",
        "items": {"enum": ["a", "b", 3, null, {"x": [1]}]}, "minItems": 1, "maxItems": 3}}, "required": ["name", "tags"]})",
    R"({"type": ["string", "null", "boolean"], "minLength": 2, "maxLength": 3})",
    R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "number"},
        "left": {"$ref": "#/$defs/tree"}, "right": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
        "required": ["v"], "additionalProperties": false}}})",
    R"({"type": "array", "prefixItems": [{"const": "x"}, {"type": "integer"}], "items": {"type": "boolean"},
        "minItems": 1, "maxItems": 4})",
    R"({"type": "array", "prefixItems": [{"type": "null"}], "items": false})",
    R"({"type": "object", "properties": {"ab": {"type": "null"}, "a\"": {"type": "null"}},
        "additionalProperties": {"type": "integer"}})",
    R"({"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}, "required": ["k"]})",
    R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
        {"properties": {"a": {"maximum": 5}, "b": {"type": "null"}}, "required": ["b"]}]})",
    R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "dot"}, "x": {"type": "integer"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"enum": ["line", "arc"]}}, "required": ["kind"]}, {"type": "null"}]})",
    R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}]})",
    R"({"type": "string", "pattern": "^[A-Z]{2}-\\d{1,3}(\\.[a-f\"\\n]+)?$"})",
    R"({"type": "string", "pattern": "b|^\\w+$"})",
    R"({"type": "integer", "exclusiveMinimum": -120, "maximum": 1005})",
    R"({"minimum": 0.5, "exclusiveMaximum": 17, "type": "integer"})",
    R"({"properties": {"n": {"const": 1.5}}, "required": ["n"]})",
    R"({"items": {"type": "string", "maxLength": 0}, "maxItems": 2})",
    R"({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})",
    R"({"type": "object", "properties": {}, "additionalProperties": false})",
    R"({"type": "number"})",
    R"({"type": "number", "minimum": 0, "maximum": 1})",
    R"({"type": ["number", "null"], "maximum": -3})",
    R"({"type": "number", "exclusiveMinimum": -1.25, "maximum": 17.5})",
    R"({"type": "number", "multipleOf": 0.25, "minimum": -3})",
    R"({"type": "integer", "multipleOf": 12, "maximum": 1000})",
    R"({"type": "array", "items": {"enum": ["a", 1, null]}, "uniqueItems": true})",
    R"({})",
};

}  // namespace

TEST_CASE("what a schema's grammar writes is JSON of the schema") {
    std::vector<std::string> pieces{"",    "\"", "}", "]", "0", "null", "}}",
                                    "\"}", "],", ",", ":", "{", "[",    "true"};
    for (const char* each :
         {"1", "2", "5", "9", "-", ".", "e", "E",  "+",  "a", "b", "k", "name", "é",    "😀",    "\\",
          "u", "d", "D", "8", "c", "n", " ", "\n", "\t", "A", "Z", "x", "\"x",  "\xC3", "\xA9", "x\","})
        pieces.push_back(each);
    for (int byte = 0; byte < 256; ++byte) pieces.push_back(std::string(1, char(byte)));
    const auto trie = std::make_shared<const TokenTrie>(pieces);
    std::mt19937 random(1);
    for (const char* schema : schemas) {
        CAPTURE(schema);
        const auto program = compiled(schema);
        const Json root = Json::parse(schema);
        int ended = 0;
        for (int round = 0; round < 60; ++round) {
            const std::string text = random_text(program, trie, random);
            if (text.empty()) continue;
            ++ended;
            CAPTURE(text);
            Json value;
            REQUIRE_NOTHROW(value = Json::parse(text));
            CHECK(valid(root, root, value));
        }
        CHECK(ended > 10);
    }
}

TEST_CASE("a schema's grammar lets through what people write") {
    struct Row {
        const char* schema;
        std::vector<std::string> yes, no;
    };
    const Row rows[] = {
        {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]})",
         {R"({"a": 1})", R"({"a":1,"b":"x"})", "{\n  \"a\": 1,\n  \"b\": \"\"\n}"},
         {"{}", R"({"b":"x","a":1})", R"({"a":1,"c":2})", R"({"a":1,})", R"({"a":01})"}},
        {R"({"type": "integer", "minimum": 7, "maximum": 123})",
         {"7", "9", "10", "99", "100", "119", "123"},
         {"6", "07", "124", "-7", "200", "1000", "7.0", ""}},
        {R"({"type": "integer", "minimum": -12, "maximum": -3})",
         {"-3", "-9", "-10", "-12"},
         {"-2", "-13", "3", "0"}},
        {R"({"type": "integer", "minimum": 9223372036854})",
         {"9223372036854", "9999999999999999"},
         {"9223372036853"}},
        {R"({"type": "number"})",
         {"0", "-0.5", "1e10", "12.25E-3"},
         {".5", "1.", "01", "1e400", "+1", "NaN"}},
        {R"({"type": "string"})",
         {R"("")", R"("a\"\\\/\n\u00e9")", R"("\ud83d\ude00")", "\"😀\""},
         {R"("\ud83d")", R"("\ude00")", R"("\x41")", "\"\n\"", R"("a)", "a"}},
        {R"({"type": "string", "minLength": 2, "maxLength": 2})",
         {R"("é😀")", R"("\ud83d\ude00x")"},
         {R"("a")", R"("abc")"}},
        {R"({"type": "string", "format": "date"})",
         {R"("2024-02-28")", R"("1999-12-31")"},
         {R"("2024-02-30")", R"("2024-13-01")", R"("2024-1-1")", R"("2024-04-31")"}},
        {R"({"type": "string", "format": "date-time"})",
         {R"("2024-02-28T23:59:59.5Z")", R"("2024-02-28T00:00:00+02:30")"},
         {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")"}},
        {R"({"type": "string", "format": "time"})", {R"("23:59:00Z")"}, {R"("23:60:00Z")"}},
        {R"({"type": "string", "format": "uuid"})",
         {R"("01234567-89ab-cdef-0123-456789abcdef")"},
         {R"("0123")"}},
        {R"({"type": "string", "format": "duration"})",
         {R"("P1Y2M3D")", R"("PT1H30M")", R"("P3W")", R"("P1DT12H")", R"("PT5S")"},
         {R"("P")", R"("PT")", R"("P1YT")", R"("1D")", R"("P1Y3D")", R"("PT1H5S")"}},
        {R"({"type": "string", "format": "email"})",
         {R"("a@b.co")", R"("first.last+tag@mail.example-site.co.uk")"},
         {R"("a@b")", R"("@b.co")", R"("a..b@c.de")", R"("a@-b.co")", R"("a@b.c")", R"("a b@c.de")",
          R"(".a@b.co")"}},
        {R"({"type": "string", "format": "hostname"})",
         {R"("localhost")", R"("www.example-site.com")", R"("4chan.org")"},
         {R"("")", R"("-a.com")", R"("a-.com")", R"("a..b")", R"("a_b")", R"("1.2.3.4")"}},
        {R"({"type": "string", "format": "ipv4"})",
         {R"("0.0.0.0")", R"("192.168.1.254")", R"("255.255.255.255")"},
         {R"("1.2.3")", R"("256.1.1.1")", R"("01.1.1.1")", R"("1.1.1.1.")"}},
        {R"({"type": "string", "format": "ipv6"})",
         {R"("::")", R"("::1")", R"("1::")", R"("2001:db8::8a2e:370:7334")", R"("1:2:3:4:5:6:7:8")",
          R"("1:2:3:4:5:6::8")"},
         {R"(":")", R"("1::2::3")", R"("1:2:3:4:5:6:7")", R"("1:2:3:4:5:6:7:8:9")", R"("1:2:3:4:5:6:7::8")",
          R"("g::")", R"("12345::")", R"(":::")"}},
        {R"({"type": "number", "exclusiveMinimum": 0})",
         {"0.01", "1", "12.5", "0.000001"},
         {"0", "0.0", "-1", "0.00"}},
        {R"({"type": "number", "minimum": -0.5, "exclusiveMaximum": 1.25})",
         {"-0.5", "-0.49", "-0.25", "0", "1", "1.2", "1.2499"},
         {"-0.51", "-0.6", "-1", "1.25", "1.3", "2", "1.250"}},
        {R"({"type": "number", "minimum": 0, "multipleOf": 0.01})",
         {"0", "1", "1.5", "1.50", "19.99", "0.07"},
         {"0.001", "-1", "1.", "01", "1.005"}},
        {R"({"type": "integer", "multipleOf": 5, "minimum": 0, "exclusiveMaximum": 100})",
         {"0", "5", "95"},
         {"100", "7", "-5", "05", "5.0"}},
        {R"({"multipleOf": 2.5, "type": "integer"})", {"5", "-10", "0"}, {"2", "-5.0", "2.5", "-0"}},
        {R"({"type": "integer", "exclusiveMinimum": 1.5, "maximum": 3.9})", {"2", "3"}, {"1", "4"}},
        {R"({"type": "array", "items": {"enum": ["a", "b", 1]}, "minItems": 1, "maxItems": 2, "uniqueItems": true})",
         {R"(["a"])", R"(["b", 1])", R"([1,"a"])"},
         {"[]", R"(["a","a"])", R"(["a","b",1])", R"([,"a"])"}},
        {R"({"type": "string", "pattern": "^a.c$"})", {R"("abc")", R"("a\"c")"}, {R"("ac")", R"("xabc")"}},
        {R"({"type": "string", "pattern": "b"})", {R"("b")", R"("abc")"}, {R"("ac")"}},
        {R"({"properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
         {R"({"ab": null, "a": 1, "abc": 2, "": 3})", "{}"},
         {R"({"ab": 1})", R"({"a": null})", R"({"\u0061b": 1})"}},
        {"true", {"[1, {\"a\": null}]", "\"x\""}, {"[", "nul"}},
        {R"({"enum": ["a b", 1.5, null, [1, {"k": "v"}]]})",
         {"\"a b\"", "1.5", "null", R"([1,{"k":"v"}])"},
         {"1", "a"}},
        {R"({"type": "integer", "enum": [1, "a", 2, 3.0, 0.5]})", {"1", "2", "3.0"}, {"\"a\"", "0.5"}},
        // Entries of one part stand under the other's items.
        {R"({"allOf": [{"type": "array", "prefixItems": [{"type": "number"}, true]},
                       {"type": "array", "items": {"type": "integer"}}]})",
         {"[]", "[1]", "[1, 2]", "[1, 2, 3]"},
         {"[1.5]", R"([1, "a"])"}},
        {R"({"allOf": [{"type": "array", "prefixItems": [{"type": "string"}, {"minimum": 1, "type": "integer"}]},
                       {"type": "array", "prefixItems": [true], "items": {"type": "integer", "maximum": 3}}]})",
         {R"(["a", 2])"},
         {R"(["a", 0])", R"(["a", 4])", "[1]"}},
        {R"({"allOf": [{"type": "array", "prefixItems": [{"type": "string"}]}, {"items": false}]})",
         {"[]"},
         {R"(["a"])"}},
        {R"({"type": "array", "prefixItems": [{"type": "null"}, false, {"type": "null"}]})",
         {"[]", "[null]"},
         {"[null, null]"}},
        // An optional property that one part forbids is left out.
        {R"({"allOf": [{"type": "object", "properties": {"x": {"type": "integer"}}},
             {"type": "object", "properties": {"y": {"type": "integer"}}, "additionalProperties": false}]})",
         {"{}", R"({"y":1})"},
         {R"({"x":1})", R"({"x":1,"y":1})"}},
        // What stands beside oneOf may tell its schemas apart, too.
        {R"({"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"],
             "oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}]})",
         {R"({"kind":"a"})", R"({"kind":"b"})"},
         {"{}", R"({"kind":"c"})"}},
        {R"({"oneOf": [{"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"],
                        "anyOf": [{"properties": {"z": {"type": "null"}}}, {}]},
                       {"type": "object", "properties": {"y": {"type": "null"}}, "required": ["y"]}]})",
         {R"({"x":null,"z":null})", R"({"y":null})"},
         {R"({"x":null,"y":null})"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.schema);
        Matcher matcher(compiled(row.schema));
        for (const std::string& text : row.yes) CHECK_MESSAGE(accepts(matcher, text), text);
        for (const std::string& text : row.no) CHECK_MESSAGE(!accepts(matcher, text), text);
    }
}

/// 123 hundredths as "1.23", without zeros at the end.
std::string hundredths(int64_t value) {
    const std::string size = std::to_string(std::abs(value) + 100), digits = size.substr(size.size() - 2);
    const size_t some = digits.find_last_not_of('0') + 1;
    return cat(value < 0 ? "-" : "", std::abs(value) / 100, some ? "." : "", digits.substr(0, some));
}

TEST_CASE("ranges of numbers hold their numbers, fractions too") {
    std::mt19937 random(4);
    for (int round = 0; round < 60; ++round) {
        const auto bound = [&] {  // in hundredths, often whole or of tenths
            const auto size = int64_t(random() % 500) - 250, coarse = int64_t{1} << random() % 3;
            return coarse == 1 ? size : coarse == 2 ? size / 10 * 10 : size / 100 * 100;
        };
        const auto of = [](int64_t value, bool open) {
            const std::string text = hundredths(value);
            const size_t sign = text[0] == '-', point = std::min(text.find('.'), text.size());
            return Bound{value < 0, std::stoull(text.substr(sign, point - sign)),
                         text.substr(std::min(point + 1, text.size())), open};
        };
        const int64_t a = bound(), b = bound(), least = std::min(a, b), most = std::max(a, b);
        const bool from_open = random() % 2, to_open = random() % 2;
        const auto holds = [&](int64_t value) {
            return (from_open ? value > least : value >= least) && (to_open ? value < most : value <= most);
        };
        const std::optional<Expr> numbers = json_numbers(of(least, from_open), of(most, to_open));
        REQUIRE(numbers.has_value() == (least < most || (!from_open && !to_open)));
        if (!numbers) continue;
        Grammar grammar;
        grammar.rules.push_back({"root", *numbers});
        Matcher matcher(std::make_shared<const Program>(grammar));
        for (int64_t value = -320; value <= 320; ++value)
            if (accepts(matcher, hundredths(value)) != holds(value))
                FAIL_CHECK(hundredths(value)
                           << " between " << hundredths(least) << " and " << hundredths(most));
    }
}

TEST_CASE("multiples are those within the bounds, in all their decimals or fewer") {
    std::mt19937 random(5);
    for (const auto& [divisor, decimals] : {std::pair<uint64_t, uint32_t>{1, 2},
                                            {5, 2},
                                            {25, 2},
                                            {7, 0},
                                            {60, 0},
                                            {3, 1},
                                            {1, 0},
                                            {1000, 0},
                                            {1024, 0},
                                            {1'000'000, 0}})
        for (int round = 0; round < 8; ++round) {
            const auto scale = int64_t(divisor > 100 ? 40 * divisor : 1500);
            const int64_t a = int64_t(random() % uint64_t(2 * scale)) - scale,
                          b = int64_t(random() % uint64_t(2 * scale)) - scale;
            const int64_t least = std::min(a, b), most = std::max(a, b);
            Grammar grammar;
            grammar.rules.push_back({"root", {}});
            const std::optional<Expr> all = json_multiples(divisor, decimals, least, most, [&](Expr body) {
                grammar.rules.push_back({"multiple", std::move(body)});
                return uint32_t(grammar.rules.size() - 1);
            });
            const int64_t first = least + (int64_t(divisor) - least % int64_t(divisor)) % int64_t(divisor);
            if (!all) {
                CHECK(first > most);
                continue;
            }
            grammar.rules[0].body = *all;
            Matcher matcher(std::make_shared<const Program>(grammar));
            int64_t power = 1;
            for (uint32_t i = 0; i < decimals; ++i) power *= 10;
            const int64_t step = std::max<int64_t>(1, int64_t(divisor) / 50);
            for (int64_t value = least / step * step - 3 * step; value <= most + 3 * step; value += step) {
                std::string text = std::to_string(std::abs(value) / power);
                if (decimals) text += "." + std::to_string(std::abs(value) % power + power).substr(1);
                if (value < 0) text.insert(0, "-");
                const bool is = value % int64_t(divisor) == 0 && value >= least && value <= most;
                if (accepts(matcher, text) != is) FAIL_CHECK(text << " of " << divisor);
                while (decimals && text.back() == '0') text.pop_back();
                if (text.back() == '.') text.pop_back();
                if (text != "-0" && accepts(matcher, text) != is) FAIL_CHECK(text << " of " << divisor);
            }
        }
}

TEST_CASE("ranges of integers hold exactly their integers") {
    std::mt19937 random(3);
    for (int round = 0; round < 60; ++round) {
        const int64_t a = int64_t(random() % 2600) - 1300, b = int64_t(random() % 2600) - 1300;
        const int64_t least = std::min(a, b), most = std::max(a, b);
        Grammar grammar;
        grammar.rules.push_back({"root", json_integers(least, most)});
        Matcher matcher(std::make_shared<const Program>(grammar));
        for (int64_t i = -1500; i <= 1500; ++i)
            if (accepts(matcher, std::to_string(i)) != (i >= least && i <= most))
                FAIL_CHECK(i << " in [" << least << ", " << most << "]");
    }
}

TEST_CASE("schemas that cannot be kept are refused by keyword and place") {
    const auto many = [](std::string_view piece) {
        std::string all;
        for (int i = 0; i < 8192; ++i) all += piece;
        return all;
    };
    struct Row {
        std::string schema, named;
    };
    const char* one_of_x_or_y = R"("type": "object", "oneOf": [
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"]}])";
    const Row rows[] = {
        {"", "JSON"},
        {"{", "JSON"},
        {"3", "schema"},
        {R"({"type": "strin"})", "strin"},
        {R"({"type": []})", "type"},
        {R"({"type": "string", "colour": 1})", "colour"},
        {R"({"not": {"type": "null"}})", "not"},
        {R"({"if": {}, "then": {}})", "if"},
        {R"({"type": "object", "patternProperties": {}})", "patternProperties"},
        {R"({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}})", "uniqueItems"},
        {R"({"type": "object", "properties": {"a": {"type": "array", "contains": {}}}})", "#/properties/a"},
        {R"({"type": "array", "items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "uniqueItems": true})",
         "more than 8"},
        {R"({"type": "array", "items": {"enum": ["a", "a"]}, "minItems": 2, "uniqueItems": true})",
         "different"},
        {R"({"type": "array", "uniqueItems": 1})", "expected a schema"},
        {R"({"type": "number", "minimum": 1.5, "exclusiveMaximum": 1.5})", "bounds"},
        {R"({"type": "number", "minimum": 1e-30})", "decimals"},
        {R"({"type": "number", "exclusiveMaximum": true})", "exclusiveMaximum"},
        {R"({"type": "integer", "multipleOf": 0})", "multipleOf"},
        {R"({"type": "integer", "multipleOf": -2})", "multipleOf"},
        {R"({"type": "integer", "multipleOf": "2"})", "multipleOf"},
        {R"({"type": "integer", "multipleOf": 999983})", "remainders"},
        {R"({"type": "integer", "multipleOf": 99999999999})", "multipleOf"},
        {R"({"type": "integer", "multipleOf": 7, "minimum": 8, "maximum": 13})", "bounds"},
        {R"({"type": "number", "multipleOf": 0.01, "minimum": 1e17})", "18 digits"},
        {R"({"type": "integer", "minimum": 5, "maximum": 4})", "bounds"},
        {R"({"type": "integer", "minimum": "5"})", "minimum"},
        {R"({"type": "string", "minLength": -1})", "minLength"},
        {R"({"type": "string", "minLength": 2, "maxLength": 1})", "bounds"},
        {R"({"type": "string", "format": "uri"})", "uri"},
        {R"({"type": "string", "pattern": "a", "maxLength": 3})", "maxLength"},
        {R"({"type": "string", "pattern": "(?=a)b"})", "pattern"},
        {R"({"type": "string", "pattern": "\\bword"})", "pattern"},
        {R"({"type": "string", "pattern": "(a)\\1"})", "pattern"},
        {R"({"type": "string", "pattern": "a^b"})", "pattern"},
        {R"({"type": "string", "pattern": "(a"})", "')'"},
        {R"({"type": "string", "pattern": 3})", "pattern"},
        {R"({"$ref": "other.json"})", "outside"},
        {R"({"$ref": "#/$defs/no"})", "#/$defs/no"},
        {R"({"$ref": "#"})", "come to an end"},
        {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"})",
         "left recursion"},
        {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "can end"},
        {R"({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": false})",
         "\"a\""},
        {R"({"type": "object", "properties": 3})", "properties"},
        {R"({"enum": []})", "enum"},
        {R"({"type": "string", "enum": [1]})", "enum"},
        {R"({"enum": [1], "minimum": 0})", "minimum"},
        {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "oneOf"},
        {R"({"oneOf": [{"const": 1.0}, {"type": "integer"}]})", "may both hold"},
        {R"({"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]})", "oneOf"},
        {cat(R"({"properties": {"x": {}, "y": {}}, )", one_of_x_or_y, "}"), "may both hold"},
        {cat(R"({"required": ["x", "y"], )", one_of_x_or_y, "}"), "may both hold"},
        {cat(R"({"additionalProperties": {"type": "integer"}, )", one_of_x_or_y, "}"), "may both hold"},
        {R"({"oneOf": [{"type": "object", "properties": {"x": {}}, "required": ["x"],
                        "anyOf": [{"properties": {"y": {}}}, {"required": ["x"]}]},
                       {"type": "object", "properties": {"y": {}}, "required": ["y"]}]})",
         "may both hold"},
        {doubling_references(22), "combinations"},
        {R"({"$ref": "#/$defs/a", "$defs": {
            "a": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
            "b": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/a"}]}}}})",
         "combinations"},
        {R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "allOf"},
        {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "pattern"},
        {R"({"anyOf": [false]})", "satisfies"},
        {"false", "satisfies"},
        {R"({"type": "array", "items": [{}]})", "prefixItems"},
        {R"({"type": "array", "minItems": 3, "maxItems": 2})", "bounds"},
        {R"({"type": "array", "items": false, "minItems": 1})", "bounds"},
        {R"({"properties": {"a": {"$id": "x"}}})", "$id"},
        {std::string(300, '['), "nesting"},
        {"{\"enum\":[0" + many(",0") + "]}", "at most 8192 members"},
        {"{\"properties\":{\"a\":{\"required\":[\"a\"" + many(",\"a\"") + "]}}}", "at most 8192 members"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.schema.substr(0, 80));
        std::string text;
        try {
            (void)compiled(row.schema);
        } catch (const Error& error) {
            text = error.what();
        }
        CAPTURE(text);
        CHECK(text.find(row.named) != std::string::npos);
    }
}
