// Makes the pipelines of a first prompt and of decode while weights are on their way: whoever then computes
// finds them made.
#pragma once

#include "session.h"

#include <thread>

namespace scoria {

class Rehearsal {
  public:
    /// Begins, on a thread of its own; but never on a host's device, which only threads that call the library
    /// may use, and never for an encoder. `engine` must have its weights placed, and outlive this.
    explicit Rehearsal(Engine::Impl& engine);
    // Destroyed, it ends early: after the pipeline that is being made, and what was submitted.

    /// Until it is over.
    void wait() {
        if (thread_.joinable()) thread_.join();
    }

  private:
    std::jthread thread_;
};

}  // namespace scoria
