// Builds the grammar of a schema: an expression per schema, a rule for each one that is an object (schemas
// with equal text share it, which is what makes recursion end).
#include "json_schema.h"

#include "fail.h"
#include "json_text.h"
#include "unicode_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace scoria::grammar {
namespace {

constexpr uint32_t most_rules = 100'000;
constexpr size_t most_alternatives = 256;  // of a oneOf: they are compared in pairs

Expr quoted(Expr inside) { return sequence({text("\""), std::move(inside), text("\"")}); }

class Builder {
  public:
    explicit Builder(std::string_view schema) : document_(schema) {}

    Grammar run() {
        grammar_.root = new_rule("root");
        Expr body = value(document_.root(), "#", 0);
        set(grammar_.root, std::move(body));
        return std::move(grammar_);
    }

  private:
    uint32_t new_rule(std::string name) {
        if (grammar_.rules.size() == most_rules)
            fail(Status::unsupported, "json schema", "expected at most ", most_rules, " rules, got more");
        grammar_.rules.push_back({std::move(name), {}});
        return uint32_t(grammar_.rules.size() - 1);
    }
    void set(uint32_t rule, Expr body) { grammar_.rules[rule].body = std::move(body); }
    uint32_t new_rule(const std::string& name, Expr body) {
        const uint32_t rule = new_rule(name);
        set(rule, std::move(body));
        return rule;
    }
    /// A rule that is made once.
    template <class Body> Expr shared(const char* name, const Body& body) {
        if (const auto at = shared_.find(name); at != shared_.end()) return rule_reference(at->second);
        const uint32_t rule = shared_[name] = new_rule(name);
        set(rule, body());
        return rule_reference(rule);
    }

    Expr value(const Json& schema, const std::string& where, uint32_t depth);
    Expr described(const Json& schema, const std::string& where, uint32_t depth);
    Expr listed(const Json& schema, const Json& values, const std::string& where);
    Expr alternatives(const Json& schema, const char* keyword, const std::string& where, uint32_t depth);
    Expr typed(const Json& schema, const std::string& where, uint32_t depth);
    Expr of_type(const std::string& type, const Json& schema, const std::string& where, uint32_t depth);
    Expr object(const Json& schema, const std::string& where, uint32_t depth);
    Expr array(const Json& schema, const std::string& where, uint32_t depth);
    Expr distinct(const Json& items, uint32_t least, uint32_t most, const Expr& comma,
                  const std::string& where);
    Expr string(const Json& schema, const std::string& where);
    Expr integer(const Json& schema, const std::string& where);
    Expr number(const Json& schema, const std::string& where);
    Expr other_key(const Json& properties);

    void check_keywords(const Json& schema, const std::string& where) const;
    std::optional<uint32_t> count(const Json& schema, const char* keyword, const std::string& where) const;
    std::optional<Bound> bound(const Json& schema, bool up, const std::string& where) const;
    Expr multiples(const Json& schema, bool whole, const std::optional<Bound>& least,
                   const std::optional<Bound>& most, const std::string& where);

    /// A space, or a line end and a short indent: what models write, without end.
    Expr space() {
        return shared("space", [] {
            const Expr indent = repeat(characters({{'\t', '\t'}, {' ', ' '}}), 0, 20);
            return optional(choice({text(" "), sequence({text("\n"), indent})}));
        });
    }
    Expr any_character() {
        return shared("character", [] { return json_any_character(); });
    }
    Expr any_value(const std::string& where, uint32_t depth) { return value(Json(true), where, depth); }

    SchemaDocument document_;
    Grammar grammar_;
    std::map<std::string, uint32_t> shared_, by_text_;
};

Expr Builder::value(const Json& schema, const std::string& where, uint32_t depth) {
    if (depth > most_depth)
        fail(Status::unsupported, "json schema", "at ", where, ": expected schemas nested at most ",
             most_depth, " deep, got more");
    if (schema == Json(false)) refuse_schema(where, "a schema that some value satisfies");
    if (!schema.is_object() && !schema.is_boolean())
        fail(Status::bad_argument, "json schema", "at ", where, ": expected a schema, got ", type_of(schema));
    const auto [at, added] = by_text_.try_emplace(schema.dump());
    if (!added) return rule_reference(at->second);
    const uint32_t rule = at->second = new_rule(where);
    if (schema.is_boolean())
        set(rule, typed(Json::object(), where, depth));
    else if (schema.contains("$ref") || schema.contains("allOf"))
        set(rule, value(document_.flat(schema, where), where, depth + 1));
    else
        set(rule, described(schema, where, depth));
    return rule_reference(rule);
}

Expr Builder::described(const Json& schema, const std::string& where, uint32_t depth) {
    if (schema.contains("$id") && where != "#") refuse_keyword(where, "$id", "below the root");
    if (const auto at = schema.find("const"); at != schema.end())
        return listed(schema, Json::array({*at}), where);
    if (const auto at = schema.find("enum"); at != schema.end()) return listed(schema, *at, where);
    for (const char* keyword : {"anyOf", "oneOf"})
        if (schema.contains(keyword)) return alternatives(schema, keyword, where, depth);
    check_keywords(schema, where);
    return typed(schema, where, depth);
}

void Builder::check_keywords(const Json& schema, const std::string& where) const {
    for (const auto& [keyword, given] : schema.items()) {
        if (is_annotation(keyword) || keyword == "type" || keyword == "$id") continue;
        if (type_of_keyword(keyword).empty()) refuse_keyword(where, keyword);
    }
}

Expr Builder::listed(const Json& schema, const Json& values, const std::string& where) {
    for (const auto& [keyword, given] : schema.items())
        if (!is_annotation(keyword) && keyword != "type" && keyword != "enum" && keyword != "const" &&
            keyword != "$id")
            refuse_keyword(where, keyword, "beside enum or const");
    if (!values.is_array()) refuse_schema(where, "a list of values in enum");
    const Json allowed = schema.value("enum", values);
    std::vector<Expr> all;
    for (const Json& each : values) {
        if (schema.contains("type") && !has_type(each, types_of(schema, where))) continue;
        if (std::ranges::find(allowed, each) != allowed.end()) all.push_back(text(each.dump()));
    }
    if (all.empty()) refuse_schema(where, "a value in enum or const that satisfies the schema");
    return choice(std::move(all));
}

Expr Builder::alternatives(const Json& schema, const char* keyword, const std::string& where,
                           uint32_t depth) {
    const Json list = document_.alternatives(schema, keyword, where);
    if (keyword == std::string_view("oneOf")) {
        if (list.size() > most_alternatives)
            refuse_keyword(where, "oneOf", cat("of more than ", most_alternatives, " schemas"));
        // With what stands beside oneOf: objects are made of listed properties, and it may list some.
        for (size_t i = 0; i < list.size(); ++i)
            for (size_t j = i + 1; j < list.size(); ++j)
                if (!document_.apart(list[i], list[j], where))
                    refuse_keyword(where, "oneOf",
                                   cat("whose schemas ", i, " and ", j, " may both hold (anyOf would do)"));
    }
    std::vector<Expr> all;
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i] == Json(false)) continue;
        all.push_back(value(list[i], cat(where, "/", keyword, "/", i), depth + 1));
    }
    if (all.empty()) refuse_schema(where, "a schema that some value satisfies");
    return choice(std::move(all));
}

Expr Builder::typed(const Json& schema, const std::string& where, uint32_t depth) {
    std::vector<Expr> all;
    const std::vector<std::string> types = types_of(schema, where);
    const bool numbers = std::ranges::find(types, "number") != types.end();
    for (const std::string& type : types)
        if (type != "integer" || !numbers) all.push_back(of_type(type, schema, where, depth));
    return all.size() == 1 ? std::move(all[0]) : choice(std::move(all));
}

Expr Builder::of_type(const std::string& type, const Json& schema, const std::string& where, uint32_t depth) {
    if (type == "object") return object(schema, where, depth);
    if (type == "array") return array(schema, where, depth);
    if (type == "string") return string(schema, where);
    if (type == "integer") return integer(schema, where);
    if (type == "number") return number(schema, where);
    if (type == "boolean") return choice({text("true"), text("false")});
    return text("null");
}

std::optional<uint32_t> Builder::count(const Json& schema, const char* keyword,
                                       const std::string& where) const {
    const auto at = schema.find(keyword);
    if (at == schema.end()) return std::nullopt;
    const bool whole = at->is_number() && at->get<double>() == std::floor(at->get<double>());
    if (!whole || at->get<double>() < 0 || at->get<double>() > 1e6)
        fail(Status::bad_argument, "json schema", "at ", where, ": expected ", keyword,
             " from 0 to 1000000, got ", at->dump());
    return uint32_t(at->get<double>());
}

/// A number as it is written in decimals.
Bound decimal(const Json& schema, const char* keyword, const std::string& where) {
    const Json& given = schema[keyword];
    const double size = given.is_number() ? std::abs(given.get<double>()) : 1e300;
    if (size > 4e18)
        fail(Status::bad_argument, "json schema", "at ", where, ": expected ", keyword,
             " to be a number within 4e18, got ", given.dump());
    char digits[400];
    const std::to_chars_result end =
        std::to_chars(digits, std::end(digits), given.get<double>(), std::chars_format::fixed);
    const std::string text = given.is_number_integer() ? given.dump() : std::string(digits, end.ptr);
    const size_t sign = text[0] == '-', point = std::min(text.find('.'), text.size());
    Bound bound{.negative = sign && size > 0,
                .whole = std::stoull(text.substr(sign, point - sign)),
                .fraction = text.substr(std::min(point + 1, text.size()))};
    if (bound.fraction.size() > 16) refuse_keyword(where, keyword, "of more than 16 decimals");
    return bound;
}

/// The tighter one of the inclusive and the exclusive lower (`up`) or upper bound.
std::optional<Bound> Builder::bound(const Json& schema, bool up, const std::string& where) const {
    const char* const closed = up ? "minimum" : "maximum";
    const char* const open = up ? "exclusiveMinimum" : "exclusiveMaximum";
    std::optional<Bound> inclusive, exclusive;
    if (schema.contains(closed)) inclusive = decimal(schema, closed, where);
    if (!schema.contains(open)) return inclusive;
    exclusive = decimal(schema, open, where);
    exclusive->open = true;
    const bool wider = inclusive && (up ? schema[open] < schema[closed] : schema[open] > schema[closed]);
    return wider ? inclusive : exclusive;
}

Expr Builder::multiples(const Json& schema, bool whole, const std::optional<Bound>& least,
                        const std::optional<Bound>& most, const std::string& where) {
    const Bound step = decimal(schema, "multipleOf", where);
    uint32_t decimals = uint32_t(step.fraction.size());
    if (step.negative || (step.whole == 0 && decimals == 0)) refuse_schema(where, "a multipleOf above 0");
    if (decimals > 9 || step.whole > UINT32_MAX) refuse_keyword(where, "multipleOf", "of so many digits");
    uint64_t power = 1;
    for (uint32_t i = 0; i < decimals; ++i) power *= 10;
    uint64_t divisor = step.whole * power + (decimals ? std::stoull(step.fraction) : 0);
    if (whole) {
        divisor /= std::gcd(divisor, power);
        decimals = 0;
    }
    std::optional<int64_t> low, high;
    if (least) low = least->scaled(decimals, true);
    if (most) high = most->scaled(decimals, false);
    const auto rule = [this](Expr body) { return new_rule("multiple", std::move(body)); };
    std::optional<Expr> all =
        low && high && *low > *high ? std::nullopt : json_multiples(divisor, decimals, low, high, rule);
    if (!all) refuse_schema(where, "a multiple within the bounds");
    return *std::move(all);
}

Expr Builder::integer(const Json& schema, const std::string& where) {
    const std::optional<Bound> least = bound(schema, true, where), most = bound(schema, false, where);
    if (schema.contains("multipleOf")) return multiples(schema, true, least, most, where);
    std::optional<int64_t> low, high;
    if (least) low = least->scaled(0, true);
    if (most) high = most->scaled(0, false);
    if (low && high && *low > *high) refuse_schema(where, "an integer within the bounds");
    return json_integers(low, high);
}

Expr Builder::number(const Json& schema, const std::string& where) {
    const std::optional<Bound> least = bound(schema, true, where), most = bound(schema, false, where);
    if (schema.contains("multipleOf")) return multiples(schema, false, least, most, where);
    if (least || most) {
        std::optional<Expr> all = json_numbers(least, most);
        if (!all) refuse_schema(where, "a number within the bounds");
        return *std::move(all);
    }
    // Short enough to be a finite double wherever it is read.
    return shared("number", [] {
        const Expr digit = characters({{'0', '9'}});
        const Expr whole = choice({text("0"), sequence({characters({{'1', '9'}}), repeat(digit, 0, 15)})});
        const Expr sign = optional(characters({{'+', '+'}, {'-', '-'}}));
        return sequence(
            {optional(text("-")), whole, optional(sequence({text("."), repeat(digit, 1, 16)})),
             optional(sequence({characters({{'E', 'E'}, {'e', 'e'}}), sign, repeat(digit, 1, 2)}))});
    });
}

Expr Builder::string(const Json& schema, const std::string& where) {
    const auto least = count(schema, "minLength", where), most = count(schema, "maxLength", where);
    const auto refuse_others = [&](std::string_view keyword) {
        for (const char* other : {"minLength", "maxLength", "pattern", "format"})
            if (other != keyword && schema.contains(other))
                refuse_keyword(where, other, cat("beside ", keyword));
    };
    const auto text_at = [&](const char* keyword) -> std::optional<std::string> {
        const auto at = schema.find(keyword);
        if (at == schema.end()) return std::nullopt;
        if (!at->is_string()) refuse_schema(where, cat("a string in ", keyword));
        refuse_others(keyword);
        return *at;
    };
    if (const auto pattern = text_at("pattern")) return quoted(json_pattern(*pattern, any_character()));
    if (const auto format = text_at("format")) {
        std::optional<Expr> inside = json_format(*format);
        if (!inside) refuse_keyword(where, "format", *format);
        return quoted(std::move(*inside));
    }
    if (least && most && *least > *most) refuse_schema(where, "a string within the bounds");
    return quoted(repeat(any_character(), least.value_or(0), most.value_or(unbounded)));
}

/// A string that is none of the properties. It is written without escapes, so each has one spelling.
Expr Builder::other_key(const Json& properties) {
    const CodeSet plain = complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
    struct Node {
        std::map<char32_t, size_t> next;
        bool ends = false;
    };
    std::vector<Node> nodes(1);
    for (const auto& [name, schema] : properties.items()) {
        size_t node = 0;
        bool spelled = true;
        for (std::string_view rest = name; !rest.empty() && spelled;) {
            const auto step = utf8_step(rest);  // JSON's parser lets nothing but UTF-8 through
            if (!step) break;
            rest.remove_prefix(step->bytes);
            const char32_t code = step->code;
            spelled = !intersection(plain, {{code, code}}).empty();
            const auto [at, added] = nodes[node].next.try_emplace(code, nodes.size());
            node = at->second;
            if (added) nodes.emplace_back();
        }
        nodes[node].ends = nodes[node].ends || spelled;
    }
    const Expr rest = shared("key", [&] { return repeat(characters(plain), 0, unbounded); });
    std::vector<uint32_t> rules;
    for (size_t i = 0; i < nodes.size(); ++i) rules.push_back(new_rule("other key"));
    for (size_t i = 0; i < nodes.size(); ++i) {
        CodeSet taken;
        std::vector<Expr> all;
        for (const auto& [code, next] : nodes[i].next) {
            taken.push_back({code, code});
            if (!intersection(plain, {{code, code}}).empty())
                all.push_back(sequence({characters({{code, code}}), rule_reference(rules[next])}));
        }
        all.push_back(sequence({characters(intersection(plain, complement(united(taken)))), rest}));
        if (!nodes[i].ends) all.push_back(text(""));
        set(rules[i], choice(std::move(all)));
    }
    return quoted(rule_reference(rules[0]));
}

/// Properties in order, each after a comma or first, the optional ones there or not; then others. Two rules
/// per property: what follows something and what comes first.
Expr Builder::object(const Json& schema, const std::string& where, uint32_t depth) {
    Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    if (!properties.is_object()) refuse_schema(where, "an object in properties");
    if (!required.is_array()) refuse_schema(where, "a list in required");
    const bool listed_only = schema.contains("properties") && !schema.contains("additionalProperties");
    const Json rest = schema.value("additionalProperties", Json(true));
    for (const Json& name : required) {
        if (!name.is_string()) refuse_schema(where, "names in required");
        if (properties.contains(name.get<std::string>())) continue;
        if (rest == Json(false)) refuse_schema(where, cat("an allowed property ", name.dump()));
        properties[name.get<std::string>()] = rest;
    }
    const Expr comma = sequence({text(","), space()});
    const Expr colon = sequence({text(":"), optional(text(" "))});
    Expr later = text(""), first = text("");
    if (!listed_only && rest != Json(false)) {
        const Expr pair = rule_reference(
            new_rule(where, sequence({other_key(properties), colon,
                                      value(rest, where + "/additionalProperties", depth + 1)})));
        later = repeat(sequence({comma, pair}), 0, unbounded);
        first = optional(sequence({pair, later}));
    }
    std::vector<std::pair<std::string, Json>> all;
    for (const auto& [name, property] : properties.items()) all.emplace_back(name, property);
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
        const auto& [name, property] = *at;
        const bool needed = std::ranges::find(required, Json(name)) != required.end();
        if (property == Json(false) && !needed) continue;
        const Expr pair = rule_reference(
            new_rule(where, sequence({text(Json(name).dump()), colon,
                                      value(property, cat(where, "/properties/", name), depth + 1)})));
        later = rule_reference(new_rule(where, std::move(later)));
        const Expr with_comma = sequence({comma, pair, later}), alone = sequence({pair, later});
        first = needed ? alone : choice({alone, rule_reference(new_rule(where, std::move(first)))});
        later = needed ? with_comma : choice({with_comma, later});
    }
    return sequence({text("{"), space(), std::move(first), space(), text("}")});
}

/// Some of the values of an enum, each once: a rule for every set of those that were.
Expr Builder::distinct(const Json& items, uint32_t least, uint32_t most, const Expr& comma,
                       const std::string& where) {
    constexpr size_t most_values = 8;
    const Json schema = document_.flat(items, where);
    const auto listed_values = schema.find("enum");
    if (listed_values == schema.end()) refuse_keyword(where, "uniqueItems", "of other items than an enum's");
    std::vector<Expr> values;
    Json seen = Json::array();
    for (const Json& each : *listed_values) {
        if (std::ranges::find(seen, each) != seen.end()) continue;
        seen.push_back(each);
        Json one = schema;
        one["enum"] = Json::array({each});
        if (!schema.contains("type") || has_type(each, types_of(schema, where)))
            values.push_back(listed(one, one["enum"], where + "/items"));
    }
    if (values.size() > most_values)
        refuse_keyword(where, "uniqueItems", cat("of more than ", most_values, " values"));
    if (least > values.size()) refuse_schema(where, "an array of so many different values");
    std::vector<uint32_t> rules;  // by the set of values that were
    for (size_t i = 0; i < size_t{1} << values.size(); ++i) rules.push_back(new_rule(where));
    for (size_t used = 0; used < rules.size(); ++used) {
        const auto count = uint32_t(std::popcount(used));
        std::vector<Expr> all;
        if (count >= least) all.push_back(text(""));
        for (size_t i = 0; i < values.size() && count < most; ++i)
            if (!(used >> i & 1))
                all.push_back(sequence(
                    {used ? comma : text(""), values[i], rule_reference(rules[used | size_t{1} << i])}));
        set(rules[used], choice(std::move(all)));
    }
    return rule_reference(rules[0]);
}

Expr Builder::array(const Json& schema, const std::string& where, uint32_t depth) {
    Json prefix = schema.value("prefixItems", Json::array());
    Json items = schema.value("items", Json(true));
    if (!prefix.is_array() || (schema.contains("prefixItems") && prefix.empty()))
        refuse_schema(where, "a list of schemas in prefixItems");
    if (items.is_array()) refuse_keyword(where, "items", "as a list (prefixItems is its name now)");
    const uint32_t least = count(schema, "minItems", where).value_or(0);
    uint32_t most = count(schema, "maxItems", where).value_or(unbounded);
    // Beyond the prefix only what was asked for.
    if (!prefix.empty() && !schema.contains("items"))
        most = std::min(most, std::max(uint32_t(prefix.size()), least));
    Json places = prefix;  // an array ends before what no value satisfies
    places.push_back(items);
    if (const auto none = std::ranges::find(places, Json(false)); none != places.end())
        most = std::min(most, uint32_t(none - places.begin()));
    if (least > most) refuse_schema(where, "an array within the bounds");
    if (most < prefix.size()) prefix.erase(prefix.begin() + most, prefix.end());

    const Expr comma = sequence({text(","), space()});
    if (schema.value("uniqueItems", false) && most > 1) {
        if (!prefix.empty()) refuse_keyword(where, "uniqueItems", "beside prefixItems");
        return sequence({text("["), space(), distinct(items, least, most, comma, where), space(), text("]")});
    }
    const uint32_t fixed = uint32_t(prefix.size());
    const uint32_t more = most == unbounded ? unbounded : most - fixed,
                   needed = least > fixed ? least - fixed : 0;
    Expr tail = text("");
    if (more > 0) {
        const Expr item = value(items, where + "/items", depth + 1);
        const uint32_t fewer = more == unbounded ? unbounded : more - 1;
        tail = fixed > 0
                   ? repeat(sequence({comma, item}), needed, more)
                   : sequence({item, repeat(sequence({comma, item}), needed > 0 ? needed - 1 : 0, fewer)});
        if (fixed == 0 && needed == 0) tail = optional(std::move(tail));
    }
    for (uint32_t i = fixed; i-- > 0;) {
        std::vector<Expr> parts;
        if (i > 0) parts.push_back(comma);
        parts.push_back(value(prefix[i], cat(where, "/prefixItems/", i), depth + 1));
        parts.push_back(rule_reference(new_rule(where, std::move(tail))));
        tail = i < least ? sequence(std::move(parts)) : optional(sequence(std::move(parts)));
    }
    return sequence({text("["), space(), std::move(tail), space(), text("]")});
}

}  // namespace

Grammar json_schema_grammar(std::string_view schema) {
    try {
        return Builder(schema).run();
    } catch (const nlohmann::json::exception& error) {  // a keyword's value is of a type that it cannot have
        fail(Status::bad_argument, "json schema",
             "expected a schema, got none: ", std::string_view(error.what()));
    }
}

}  // namespace scoria::grammar
