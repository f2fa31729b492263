// Records dispatches and copies into one command buffer. Barriers are derived: each operation's byte
// ranges and accesses (reflected from SPIR-V) are compared with those recorded since the last barrier,
// and one memory barrier is emitted only on a hazard. Grids over the device's limit are folded.
#pragma once

#include "gpu_memory.h"
#include "hazards.h"
#include "pipelines.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace scoria::vk {

/// Push constants as they lie in memory.
template <class Push> std::span<const std::byte> push_bytes(const Push& push) {
    return std::as_bytes(std::span<const Push, 1>(&push, 1));
}

struct RecorderOptions {
    /// Where the commands will be submitted; transfer records no dispatch.
    QueueKind queue = QueueKind::compute;
    bool simultaneous_use = false;  // the command buffer may be submitted again while it is in flight
    bool timestamps = false;        // one pair per dispatch, for Commands::times()
    bool timed = false;             // one pair around all, for Commands::seconds()
    uint64_t shuffle_seed = 0;      // != 0: shuffles the dispatches inside every barrier-free group (tests)
    /// A rehearsal: dispatches are checked, whose views need no buffer, and nothing is recorded. But where
    /// this range has one, of at least rehearsal_bytes, each pipeline's first use is: over no workgroups, and
    /// bound to the range alone.
    std::optional<View> rehearsal = std::nullopt;
    bool omit_barriers = false;  // tests only: proves that the validation layer speaks
};

inline constexpr uint64_t rehearsal_bytes = 256;

struct RecorderStats {
    uint32_t dispatches = 0;
    uint32_t first_uses = 0;  // of pipelines
    uint32_t barriers = 0;    // derived from hazards; the one that opens every command buffer is not counted
};

/// A recorded command buffer with everything it owns (descriptor sets, query pool). Movable; must
/// outlive its submissions.
class Commands;

class Recorder {
  public:
    Recorder(Device& device, Pipelines& pipelines, const RecorderOptions& options = {});
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Runs `groups` workgroups, folded into x, y (grid.glsl's group_index() undoes it; workgroups past
    /// the last one exist and must return). `label` names the dispatch in profiles: it must outlive the
    /// commands (a literal). `views` are bound in binding order and must match the module's bindings;
    /// offsets must respect caps.storage_alignment. A binding that two views alias is a hazard only by
    /// byte range.
    void dispatch(const Pipeline& pipeline, std::span<const View> views, std::span<const std::byte> push,
                  uint64_t groups, std::string_view label);

    /// The same over a grid as it stands, for shaders that take their place from gl_WorkGroupID.
    void dispatch(const Pipeline& pipeline, std::span<const View> views, std::span<const std::byte> push,
                  const Grid& grid, std::string_view label);

    template <class Push>
    void dispatch(const Pipeline& pipeline, std::initializer_list<View> views, const Push& push,
                  uint64_t groups, std::string_view label) {
        dispatch(pipeline, std::span(views.begin(), views.size()), push_bytes(push), groups, label);
    }

    void copy(const View& from, const View& to);                    // sizes equal
    void update(const View& to, std::span<const std::byte> bytes);  // at most 65,536 bytes, 4-byte multiple
    void fill(const View& to, uint32_t word);

    /// Makes every write so far visible to the host (before the submission's signal).
    void make_host_visible();

    Device& device() const;
    Pipelines& pipelines() const;
    const RecorderStats& stats() const;

    /// Ends recording. The recorder is empty afterwards and cannot be used again.
    Commands finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct DispatchTime {
    std::string_view label;
    uint64_t groups = 0;  // workgroups
    double microseconds = 0;
    double start = 0;  // microseconds since the first dispatch of the commands began
};

class Commands {
  public:
    Commands();
    Commands(Commands&&) noexcept;
    Commands& operator=(Commands&&) noexcept;
    ~Commands();
    VkCommandBuffer handle() const;
    const RecorderStats& stats() const;
    /// Per dispatch, of the last finished submission, of which there must be one; empty without timestamps or
    /// where caps.timestamp_bits is 0.
    std::vector<DispatchTime> times() const;
    /// The device's time for the last finished submission; empty as times() is.
    std::optional<double> seconds() const;

  private:
    friend class Recorder;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria::vk
