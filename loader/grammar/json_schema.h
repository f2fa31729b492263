// JSON Schema to a grammar of JSON texts that satisfy it. A text may be narrower than the schema: properties
// come in the schema's order, none is added unless `additionalProperties` is there, white space is short.
// What a grammar cannot say is refused by its keyword, never left out.
#pragma once

#include "grammar.h"

#include <nlohmann/json.hpp>

namespace scoria::grammar {

using Json = nlohmann::ordered_json;

/// Supported: type (lists too), properties, required, additionalProperties; items, prefixItems, minItems,
/// maxItems, uniqueItems of few enumerated values; enum, const; anyOf, oneOf of alternatives that can be told
/// apart, allOf of what can be combined; $ref within the document, recursive too; minLength, maxLength,
/// pattern, formats (json_text.h); minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf; true and
/// false. Errors: bad_argument; unsupported, naming the keyword and where it stands.
Grammar json_schema_grammar(std::string_view schema);

/// Schemas as data: what several keywords mean together.
class SchemaDocument {
  public:
    /// Errors: bad_argument, when it is no JSON or nested too deep.
    explicit SchemaDocument(std::string_view text);
    const Json& root() const { return root_; }
    /// What a $ref names. Errors: bad_argument; unsupported outside the document.
    const Json& target(const Json& reference, const std::string& where) const;
    /// An equal schema without $ref and allOf in its outermost level.
    Json flat(const Json& schema, const std::string& where, uint32_t depth = 0);
    /// Both at once. Errors: unsupported, naming a keyword of which there is no telling.
    Json both(const Json& a, const Json& b, const std::string& where, uint32_t depth = 0);
    /// The schemas in anyOf or oneOf of a flat schema, flat too, each with all that it says beside them.
    Json alternatives(const Json& schema, const char* keyword, const std::string& where);
    /// Certainty that no JSON made for one of them satisfies the other.
    bool apart(const Json& a, const Json& b, const std::string& where, uint32_t depth = 0);

  private:
    Json root_;
    size_t merged_ = 0;  // bytes, against a bound: schemas of few references can double at every level
};

/// Keywords that say nothing of a value: title, description and so on.
bool is_annotation(std::string_view keyword);
/// The types a schema allows, of all seven: those it names, or those whose keywords it has, or all.
std::vector<std::string> types_of(const Json& schema, const std::string& where);
/// A value's type; integer where it is one, 1.0 too.
std::string type_of(const Json& value);
bool has_type(const Json& value, const std::vector<std::string>& types);
/// The type that a keyword constrains; empty if none.
std::string_view type_of_keyword(std::string_view keyword);

[[noreturn]] void refuse_schema(const std::string& where, std::string_view what);  // bad_argument
[[noreturn]] void refuse_keyword(const std::string& where, std::string_view keyword,
                                 std::string_view why = {});

}  // namespace scoria::grammar
