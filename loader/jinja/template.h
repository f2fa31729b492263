// A chat template: Jinja as model makers write it, in the environment that Hugging Face's transformers gives
// it (trim_blocks, lstrip_blocks, loop controls, an immutable sandbox). No template reaches anything outside
// its variables, and none runs, grows or nests without limit.
#pragma once

#include "jinja/runtime.h"

#include <nlohmann/json.hpp>

namespace scoria::jinja {

/// Where a variable comes from: the engine (bos_token), or outside.
struct Variable {
    std::string name;
    nlohmann::ordered_json value;
    bool from_input = true;
};

class Template {
  public:
    /// Errors: bad_file, unsupported; "[template] line N: expected X, got Y".
    explicit Template(std::string_view source);
    ~Template();
    /// Thread-safe. A later variable hides an earlier of its name. Errors: failed, also where the template
    /// itself refuses its variables or a limit is reached.
    Text render(const std::vector<Variable>& variables, CivilSeconds now, const Limits& limits = {}) const;

  private:
    struct Tree;
    std::unique_ptr<const Tree> tree_;
};

}  // namespace scoria::jinja
