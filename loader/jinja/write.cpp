// str(), repr() and JSON.
#include "jinja/operators.h"

#include "jinja/unicode.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <cmath>

namespace scoria::jinja {
namespace {

void append_hex(std::string& out, std::string_view prefix, uint32_t value, int digits) {
    out += prefix;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[value >> shift & 15];
}

/// In single quotes, or in double quotes if it holds single ones alone.
std::string in_quotes(std::string_view text) {
    const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
    std::string out(1, quote);
    for (size_t at = 0; at < text.size();) {
        const char32_t code = next_code(text, at);
        if (code == '\\' || code == static_cast<char32_t>(quote))
            (out += '\\') += static_cast<char>(code);
        else if (code == '\n')
            out += "\\n";
        else if (code == '\r')
            out += "\\r";
        else if (code == '\t')
            out += "\\t";
        else if (has(Property::printable, code))
            utf8::append(out, code);
        else if (code < 0x100)
            append_hex(out, "\\x", code, 2);
        else if (code < 0x10000)
            append_hex(out, "\\u", code, 4);
        else
            append_hex(out, "\\U", code, 8);
    }
    return out += quote;
}

void write_items(Writer& out, Runtime& runtime, const std::vector<Value>& items) {
    bool first = true;
    for (const Value& item : items) {
        if (!first) out.append(", ");
        first = false;
        write_repr(out, runtime, item);
    }
}

void write_list(Writer& out, Runtime& runtime, const List& list) {
    if (list.kind == ListKind::range) {
        const auto at = [&](size_t i) { return list.items[i].whole(); };
        const size_t count = list.items.size();
        const Integer first = count > 0 ? at(0) : 0, step = count > 1 ? at(1) - first : 1;
        const Integer end = count > 0 ? at(count - 1) + step : 0;
        out.append(cat("range(", integer_text(first), ", ", integer_text(end)));
        out.append(step == 1 ? ")" : cat(", ", integer_text(step), ")"));
        return;
    }
    constexpr std::string_view open[] = {"[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    constexpr std::string_view close[] = {"]", ")", "", "])", "])", "])"};
    out.append(open[static_cast<size_t>(list.kind)]);
    write_items(out, runtime, list.items);
    if (list.kind == ListKind::tuple && list.items.size() == 1) out.append(",");
    out.append(close[static_cast<size_t>(list.kind)]);
}

void write_dict(Writer& out, Runtime& runtime, const Dict& dict) {
    out.append("{");
    bool first = true;
    for (const auto& [key, value] : dict.items) {
        if (!first) out.append(", ");
        first = false;
        write_repr(out, runtime, key);
        out.append(": ");
        write_repr(out, runtime, value);
    }
    out.append("}");
}

}  // namespace

void write_repr(Writer& out, Runtime& runtime, const Value& value) {
    runtime.spend(1);
    switch (value.kind()) {
    case Kind::undefined:
        return out.append("Undefined");
    case Kind::none:
        return out.append("None");
    case Kind::boolean:
        return out.append(value.boolean() ? "True" : "False");
    case Kind::integer:
        return out.append(integer_text(value.whole()));
    case Kind::real:
        return out.append(float_repr(value.number()));
    case Kind::string:
        runtime.reserve(4 * value.text().size());  // the longest escapes
        return out.append(in_quotes(value.text().bytes()), value.text().has_input());
    case Kind::list:
        return write_list(out, runtime, value.list());
    case Kind::dict:
        return write_dict(out, runtime, value.dict());
    case Kind::object:
        return out.append(cat("<", value.object().type(), ">"));
    }
}

void write_str(Writer& out, Runtime& runtime, const Value& value) {
    if (value.is(Kind::string))
        out.append(value.text());
    else if (!value.is(Kind::undefined))
        write_repr(out, runtime, value);
}

Text to_text(Runtime& runtime, const Value& value) {
    if (value.is(Kind::string)) return value.text();
    Writer out(runtime);
    write_str(out, runtime, value);
    return out.take();
}

namespace {

class JsonWriter {
  public:
    JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style), out_(runtime) {
        item_ = style.separators ? style.separators->first : style.indent ? "," : ", ";
        key_ = style.separators ? style.separators->second : ": ";
    }
    Text take() { return out_.take(); }

    void write(const Value& value, unsigned level) {
        runtime_.spend(1);
        switch (value.kind()) {
        case Kind::none:
            return out_.append("null");
        case Kind::boolean:
            return out_.append(value.boolean() ? "true" : "false");
        case Kind::integer:
            return out_.append(integer_text(value.whole()));
        case Kind::real:
            return out_.append(real_text(value.number()));
        case Kind::string:
            return write_string(value.text());
        case Kind::dict:
            return write_dict(value.dict(), level);
        case Kind::list:
            if (value.list().kind <= ListKind::tuple) return write_list(value.list().items, level);
            [[fallthrough]];
        default:
            runtime_.fail("expected a value that JSON can hold, got ", type_name(value));
        }
    }

  private:
    static std::string real_text(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
        return float_repr(value);
    }

    void line(unsigned level) {
        if (!style_.indent) return;
        out_.append("\n");
        for (unsigned i = 0; i < level; ++i) out_.append(*style_.indent);
    }

    void write_string(const Text& text) {
        runtime_.reserve(6 * text.size());  // the longest escapes
        std::string quoted = "\"";
        for (size_t at = 0; at < text.size();) write_code(quoted, next_code(text.bytes(), at));
        out_.append(quoted += '"', text.has_input());
    }

    void write_code(std::string& out, char32_t code) const {
        constexpr std::string_view plain = "\b\t\n\f\r\"\\", letters = "btnfr\"\\";
        const size_t named = code < 0x80 ? plain.find(static_cast<char>(code)) : plain.npos;
        if (named != plain.npos) {
            (out += '\\') += letters[named];
        } else if (code >= 0x20 && (code < 0x7F || !style_.ensure_ascii)) {
            utf8::append(out, code);
        } else if (code < 0x10000) {
            append_hex(out, "\\u", code, 4);
        } else {  // a surrogate pair
            append_hex(out, "\\u", 0xD800 + ((code - 0x10000) >> 10), 4);
            append_hex(out, "\\u", 0xDC00 + ((code - 0x10000) & 0x3FF), 4);
        }
    }

    void write_list(const std::vector<Value>& items, unsigned level) {
        out_.append("[");
        bool first = true;
        for (const Value& item : items) {
            if (!first) out_.append(item_);
            first = false;
            line(level + 1);
            write(item, level + 1);
        }
        if (!first) line(level);
        out_.append("]");
    }

    void write_key(const Value& key) {
        const bool writable = key.is(Kind::string) || key.is(Kind::none) || key.is_number();
        if (!writable) runtime_.fail("expected a key that JSON can hold, got ", type_name(key));
        if (!key.is(Kind::string)) out_.append("\"");
        write(key, 0);
        if (!key.is(Kind::string)) out_.append("\"");
    }

    void write_dict(const Dict& dict, unsigned level) {
        std::vector<const std::pair<Value, Value>*> items;
        for (const auto& item : dict.items) items.push_back(&item);
        if (style_.sort_keys)
            std::ranges::stable_sort(
                items, [&](const auto* a, const auto* b) { return less(runtime_, a->first, b->first); });
        out_.append("{");
        bool first = true;
        for (const auto* item : items) {
            if (!first) out_.append(item_);
            first = false;
            line(level + 1);
            write_key(item->first);
            out_.append(key_);
            write(item->second, level + 1);
        }
        if (!first) line(level);
        out_.append("}");
    }

    Runtime& runtime_;
    const JsonStyle& style_;
    Writer out_;
    std::string item_, key_;
};

}  // namespace

Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
    JsonWriter writer(runtime, style);
    writer.write(value, 0);
    return writer.take();
}

}  // namespace scoria::jinja
