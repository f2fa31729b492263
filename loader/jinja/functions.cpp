// Global functions.
#include "jinja/native.h"
#include "jinja/operators.h"

#include <algorithm>
#include <chrono>

namespace scoria::jinja {
namespace {

Value raise_exception(Runtime& runtime, const Value&, Bound& arguments) {
    runtime.fail("the template refuses: ", to_text(runtime, arguments.at(0)).bytes());
}

Value range(Runtime& runtime, const Value&, Bound& arguments) {
    constexpr int64_t most = 100'000;  // as the sandbox's
    const std::vector<Value>& given = arguments.all().positional;
    if (given.size() > 3 || !arguments.all().named.empty())
        runtime.fail("expected 1 to 3 arguments of 'range', got others");
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < given.size(); ++i) {
        if (!given[i].is_whole()) runtime.fail("expected ints for 'range', got ", type_name(given[i]));
        constexpr Integer far = int64_t(1) << 40;
        bounds[i] = static_cast<int64_t>(std::clamp(given[i].whole(), -far, far));
    }
    if (given.size() == 1) std::swap(bounds[0], bounds[1]);
    const auto [begin, end, step] = bounds;
    if (step == 0) runtime.fail("expected a step other than 0, got 0");
    const int64_t distance = step > 0 ? end - begin : begin - end, stride = std::abs(step);
    const int64_t count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
    if (count > most) runtime.fail("expected a range of at most ", most, " items, got ", count);
    std::vector<Value> items;
    for (int64_t i = 0; i < count; ++i) items.emplace_back(Integer(begin + i * step));
    runtime.spend(static_cast<uint64_t>(count));
    return runtime.list(std::move(items), ListKind::range);
}

std::vector<std::pair<Value, Value>> named_items(Runtime& runtime, Arguments& given) {
    std::vector<std::pair<Value, Value>> items;
    for (const Value& value : given.positional) {
        if (value.is(Kind::dict)) {
            items.insert(items.end(), value.dict().items.begin(), value.dict().items.end());
        } else {
            runtime.each(value, [&](const Value& pair) {
                std::vector<Value> both = runtime.items(pair);
                if (both.size() != 2)
                    runtime.fail("expected pairs of key and value, got ", both.size(), " values");
                if (items.size() == items.capacity()) runtime.reserve(2 * items.size() * sizeof(items[0]));
                items.emplace_back(std::move(both[0]), std::move(both[1]));
                return true;
            });
        }
    }
    for (auto& [name, value] : given.named) items.emplace_back(runtime.text(name), std::move(value));
    return items;
}

Value make_dict(Runtime& runtime, const Value&, Bound& arguments) {
    return runtime.dict(named_items(runtime, arguments.all()));
}

Value make_namespace(Runtime& runtime, const Value&, Bound& arguments) {
    const Value made = runtime.object<Namespace>();
    auto& space = static_cast<Namespace&>(made.object());
    runtime.keep(made.object().shared_from_this());
    for (auto& [name, value] : named_items(runtime, arguments.all())) {
        if (!name.is(Kind::string)) runtime.fail("expected names for a namespace, got ", type_name(name));
        space.set(runtime, name.text().bytes(), std::move(value));
    }
    return made;
}

/// cycler(a, b): each next() gives the next one.
class Cycler final : public Object {
  public:
    explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
    std::string_view type() const override { return "cycler"; }
    void empty() override { items_.assign(1, Value()); }
    std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
    Value advance() {
        const Value value = items_[at_];
        at_ = (at_ + 1) % items_.size();
        return value;
    }
    void reset() { at_ = 0; }

  private:
    std::vector<Value> items_;
    size_t at_ = 0;
};

Value cycler_next(Runtime&, const Value& self, Bound&) {
    return static_cast<Cycler&>(self.object()).advance();
}
Value cycler_reset(Runtime&, const Value& self, Bound&) {
    static_cast<Cycler&>(self.object()).reset();
    return None{};
}
constexpr Native cycler_methods[] = {{"next", "", 0, cycler_next}, {"reset", "", 0, cycler_reset}};

std::optional<Value> Cycler::attribute(Runtime& runtime, std::string_view name) {
    if (name == "current") return items_[at_];
    const Native* method = find(cycler_methods, name);
    if (method == nullptr) return std::nullopt;
    return runtime.object<NativeCall>(*method, Value(shared_from_this()));
}

Value cycler(Runtime& runtime, const Value&, Bound& arguments) {
    return runtime.object<Cycler>(std::move(arguments.all().positional));
}

/// joiner(", "): nothing when first called, then the separator.
class Joiner final : public Object {
  public:
    explicit Joiner(Value separator) : separator_(std::move(separator)) {}
    std::string_view type() const override { return "joiner"; }
    bool callable() const override { return true; }
    Value call(Runtime& runtime, Arguments) override {
        return std::exchange(used_, true) ? separator_ : runtime.text("");
    }

  private:
    Value separator_;
    bool used_ = false;
};

Value joiner(Runtime& runtime, const Value&, Bound& arguments) {
    return runtime.object<Joiner>(arguments[0] ? *arguments[0] : runtime.text(", "));
}

// --- strftime ---------------------------------------------------------------------------------------

struct Civil {
    std::chrono::year_month_day date;
    unsigned weekday, day_of_year;  // from Sunday; from 0
    unsigned hour, minute, second;
};

Civil civil(CivilSeconds seconds) {
    using namespace std::chrono;
    const sys_seconds time{std::chrono::seconds(seconds)};
    const sys_days day = floor<days>(time);
    const hh_mm_ss clock(time - day);
    const year_month_day date(day);
    return {date,
            weekday(day).c_encoding(),
            static_cast<unsigned>((day - sys_days(date.year() / January / 1)).count()),
            static_cast<unsigned>(clock.hours().count()),
            static_cast<unsigned>(clock.minutes().count()),
            static_cast<unsigned>(clock.seconds().count())};
}

constexpr std::string_view months[] = {"January", "February", "March",     "April",   "May",      "June",
                                       "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                         "Thursday", "Friday", "Saturday"};

std::string digits(unsigned value, size_t width, char fill = '0') {
    std::string text = std::to_string(value);
    return text.size() < width ? std::string(width - text.size(), fill) + text : text;
}

std::string_view month_name(const Civil& c) { return months[unsigned(c.date.month()) - 1]; }
unsigned year(const Civil& c) { return static_cast<unsigned>(int(c.date.year())); }
unsigned hour12(const Civil& c) { return c.hour % 12 == 0 ? 12 : c.hour % 12; }

/// The Thursday of the date's week, whose year the week belongs to (ISO 8601).
std::chrono::sys_days thursday(const Civil& c) {
    return std::chrono::sys_days(c.date) + std::chrono::days(3 - int((c.weekday + 6) % 7));
}

unsigned week_year(const Civil& c) {
    return static_cast<unsigned>(int(std::chrono::year_month_day(thursday(c)).year()));
}

unsigned week(const Civil& c) {
    using namespace std::chrono;
    const sys_days day = thursday(c);
    return static_cast<unsigned>((day - sys_days(year_month_day(day).year() / January / 1)).count()) / 7 + 1;
}

/// Directives of C's locale, in English whatever the host's.
struct Directive {
    char letter;
    std::string (*write)(const Civil&);
};
constexpr Directive directives[] = {
    {'A', [](const Civil& c) { return std::string(weekdays[c.weekday]); }},
    {'a', [](const Civil& c) { return std::string(weekdays[c.weekday].substr(0, 3)); }},
    {'B', [](const Civil& c) { return std::string(month_name(c)); }},
    {'b', [](const Civil& c) { return std::string(month_name(c).substr(0, 3)); }},
    {'C', [](const Civil& c) { return digits(year(c) / 100, 2); }},
    {'d', [](const Civil& c) { return digits(unsigned(c.date.day()), 2); }},
    {'e', [](const Civil& c) { return digits(unsigned(c.date.day()), 2, ' '); }},
    {'f', [](const Civil&) { return std::string("000000"); }},
    {'G', [](const Civil& c) { return digits(week_year(c), 1); }},
    {'g', [](const Civil& c) { return digits(week_year(c) % 100, 2); }},
    {'H', [](const Civil& c) { return digits(c.hour, 2); }},
    {'h', [](const Civil& c) { return std::string(month_name(c).substr(0, 3)); }},
    {'I', [](const Civil& c) { return digits(hour12(c), 2); }},
    {'j', [](const Civil& c) { return digits(c.day_of_year + 1, 3); }},
    {'k', [](const Civil& c) { return digits(c.hour, 2, ' '); }},
    {'l', [](const Civil& c) { return digits(hour12(c), 2, ' '); }},
    {'M', [](const Civil& c) { return digits(c.minute, 2); }},
    {'m', [](const Civil& c) { return digits(unsigned(c.date.month()), 2); }},
    {'n', [](const Civil&) { return std::string("\n"); }},
    {'P', [](const Civil& c) { return std::string(c.hour < 12 ? "am" : "pm"); }},
    {'p', [](const Civil& c) { return std::string(c.hour < 12 ? "AM" : "PM"); }},
    {'S', [](const Civil& c) { return digits(c.second, 2); }},
    {'t', [](const Civil&) { return std::string("\t"); }},
    {'U', [](const Civil& c) { return digits((c.day_of_year + 7 - c.weekday) / 7, 2); }},
    {'u', [](const Civil& c) { return digits(c.weekday == 0 ? 7 : c.weekday, 1); }},
    {'V', [](const Civil& c) { return digits(week(c), 2); }},
    {'W', [](const Civil& c) { return digits((c.day_of_year + 7 - (c.weekday + 6) % 7) / 7, 2); }},
    {'w', [](const Civil& c) { return digits(c.weekday, 1); }},
    {'Y', [](const Civil& c) { return digits(year(c), 1); }},
    {'y', [](const Civil& c) { return digits(year(c) % 100, 2); }},
    {'Z', [](const Civil&) { return std::string(); }},  // a time without zone
    {'z', [](const Civil&) { return std::string(); }},
    {'%', [](const Civil&) { return std::string("%"); }},
};
constexpr std::pair<char, std::string_view> shorthands[] = {
    {'c', "%a %b %e %H:%M:%S %Y"}, {'D', "%m/%d/%y"}, {'F', "%Y-%m-%d"}, {'R', "%H:%M"},
    {'r', "%I:%M:%S %p"},          {'T', "%H:%M:%S"}, {'X', "%H:%M:%S"}, {'x', "%m/%d/%y"},
};

void write_time(Writer& out, std::string_view format, const Civil& time) {
    for (size_t at = 0; at < format.size(); ++at) {
        const size_t start = at;
        if (format[at] != '%' || at + 1 == format.size()) {
            out.append(format.substr(at, 1));
            continue;
        }
        const bool unpadded =
            format[++at] == '-' && at + 1 < format.size();  // glibc's: without leading zeros
        if (unpadded) ++at;
        if (const auto* shorthand =
                std::ranges::find(shorthands, format[at], &std::pair<char, std::string_view>::first);
            shorthand != std::end(shorthands)) {
            write_time(out, shorthand->second, time);
        } else if (const auto* directive = std::ranges::find(directives, format[at], &Directive::letter);
                   directive != std::end(directives)) {
            std::string text = directive->write(time);
            if (unpadded) text.erase(0, std::min(text.find_first_not_of("0 "), text.size() - 1));
            out.append(text);
        } else {
            out.append(format.substr(start, at + 1 - start));
        }
    }
}

Value strftime_now(Runtime& runtime, const Value&, Bound& arguments) {
    const Text format = arguments.text(0);
    Writer out(runtime);
    write_time(out, format.bytes(), civil(runtime.now()));
    return runtime.text(Text(out.take().bytes(), format.has_input()));
}

constexpr Native table[] = {
    {"cycler", any_arguments, 1, cycler},
    {"dict", any_arguments, 0, make_dict},
    {"joiner", "sep", 0, joiner},
    {"namespace", any_arguments, 0, make_namespace},
    {"raise_exception", "message", 1, raise_exception},
    {"range", any_arguments, 1, range},
    {"strftime_now", "format", 1, strftime_now},
};

}  // namespace

NativeTable functions() { return table; }

}  // namespace scoria::jinja
