// A template's text as tokens. Whitespace beside tags is already as trim_blocks, lstrip_blocks and the
// signs in the tags leave it.
#pragma once

#include "jinja/value.h"

#include <string>
#include <variant>
#include <vector>

namespace scoria::jinja {

enum class TokenKind : uint8_t {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    op,
    end
};

struct Token {
    TokenKind kind;
    uint32_t line;
    std::string text;  // of data, names, operators; the value of a string
    std::variant<Integer, double> number{Integer(0)};

    bool is(TokenKind wanted, std::string_view spelling) const { return kind == wanted && text == spelling; }
};

/// The last token is `end`. Errors: bad_file "[template] line N: expected X, got Y".
std::vector<Token> tokenize(std::string_view source);

}  // namespace scoria::jinja
