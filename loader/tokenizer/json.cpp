// See json.h.
#include "json.h"

#include <map>
#include <vector>

namespace scoria {
namespace {

using Json = nlohmann::ordered_json;

/// Takes what nlohmann's parser reads, value by value.
class OrderedReader final : public nlohmann::json_sax<Json> {
  public:
    OrderedReader(std::string_view where, Status status, size_t most_depth)
        : where_(where), status_(status), most_depth_(most_depth) {}
    Json take() { return std::move(root_); }

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const std::string&) override { return put(value); }
    bool string(std::string& value) override { return put(std::move(value)); }
    bool binary(binary_t&) override { return false; }  // which a text has not
    bool start_object(size_t) override { return open(Json::value_t::object); }
    bool start_array(size_t) override { return open(Json::value_t::array); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        Open& in = open_.back();
        auto& members = in.value->get_ref<Json::object_t&>();
        const auto [at, fresh] = in.places.try_emplace(name, members.size());
        if (fresh) members.emplace_back(name, nullptr);
        in.member = &(members.begin() + ptrdiff_t(at->second))->second;
        return true;
    }
    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
        fail(status_, where_, "expected JSON, got: ", error.what());
    }

  private:
    struct Open {
        Json* value;
        std::map<std::string, size_t, std::less<>> places{};  // of an object's members
        Json* member = nullptr;                               // whose value is next
    };
    Json& place() {
        if (open_.empty()) return root_;
        const Open& in = open_.back();
        return in.value->is_object() ? *in.member : in.value->emplace_back(nullptr);
    }
    bool put(Json value) {
        place() = std::move(value);
        return true;
    }
    bool open(Json::value_t kind) {
        if (open_.size() == most_depth_)
            fail(status_, where_, "expected at most ", most_depth_, " levels of nesting, got more");
        Json& value = place() = Json(kind);
        open_.push_back({&value});
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    const std::string_view where_;
    const Status status_;
    const size_t most_depth_;
    Json root_;
    std::vector<Open> open_;  // none of the values moves: what grows is the innermost alone
};

}  // namespace

Json parse_ordered(std::string_view text, std::string_view where, Status status, size_t most_depth) {
    OrderedReader reader(where, status, most_depth);
    Json::sax_parse(text, &reader);
    return reader.take();
}

}  // namespace scoria
