// Makes the pipelines of a first prompt and of decode while weights are on their way: whoever then computes
// finds them made.
#pragma once

#include "session.h"

#include <thread>
#include <vector>

namespace scoria {

class Rehearsal {
  public:
    /// Begins, on threads of its own; but never on a host's device, which only threads that call the library
    /// may use, and never for an encoder. `engine` must have its weights placed, and outlive this.
    /// `threads` 0: as many as do well on this device beside the one that uploads.
    Rehearsal(Engine::Impl& engine, const Rehearsed& what, size_t threads = 0);
    // Destroyed, it ends early: after the pipeline that is being made, and what was submitted.

    /// Until it is over.
    void wait() {
        for (std::jthread& thread : threads_) thread.join();
        threads_.clear();
    }

  private:
    std::vector<std::jthread> threads_;
};

}  // namespace scoria
