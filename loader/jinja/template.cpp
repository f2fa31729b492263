#include "jinja/template.h"

#include "jinja/evaluator.h"
#include "jinja/read_json.h"

namespace scoria::jinja {

struct Template::Tree {
    Body body;
};

Template::Template(std::string_view source) : tree_(new Tree{parse(source)}) {}
Template::~Template() = default;

Text Template::render(const std::vector<Variable>& variables, CivilSeconds now, const Limits& limits) const {
    Evaluator evaluator(limits, now);
    std::vector<std::pair<std::string, Value>> values;
    for (const Variable& variable : variables)
        values.emplace_back(variable.name, value_of_json(evaluator, variable.value, variable.from_input));
    return evaluator.render(tree_->body, values);
}

}  // namespace scoria::jinja
