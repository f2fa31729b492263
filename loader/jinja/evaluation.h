// For the files of the evaluator: its guard of depth.
#pragma once

#include "jinja/evaluator.h"

namespace scoria::jinja {

/// One level of the walk, at a line.
class Evaluator::Nesting {
  public:
    Nesting(Evaluator& evaluator, uint32_t line) : evaluator_(evaluator), line_(evaluator.line()) {
        evaluator_.set_line(line);
        evaluator_.spend(1);
        if (evaluator_.depth_ >= evaluator_.limits().depth)
            evaluator_.fail("expected at most ", evaluator_.limits().depth, " nested evaluations, got more");
        ++evaluator_.depth_;
    }
    ~Nesting() {
        --evaluator_.depth_;
        evaluator_.set_line(line_);
    }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

  private:
    Evaluator& evaluator_;
    uint32_t line_;  // of the level outside
};

}  // namespace scoria::jinja
