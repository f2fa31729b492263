// Operations gather in a barrier-free group, which a hazard writes to the command buffer behind one global
// memory barrier. That lies between what the group before did and what this one does, dispatches or
// transfers, and no more: for a transfer's writes RADV waits until caches of pixels are flushed, too. Groups
// are a chain, so that it orders all that came earlier. Every command buffer opens with a barrier of
// everything: submissions to one queue start in order but overlap, so what earlier command buffers wrote must
// be waited for.
#include "recorder.h"
#include "commands_impl.h"
#include "hazards.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

namespace scoria::vk {
namespace {

struct Operation {
    enum class Kind : uint8_t { dispatch, copy, update, fill };
    Kind kind{};
    const Pipeline* pipeline = nullptr;  // dispatch
    VkDescriptorSet set = VK_NULL_HANDLE;
    Grid grid{};
    std::string_view label{};
    std::vector<std::byte> bytes{};  // push constants, or the bytes of an update
    View from{}, to{};
    uint32_t word = 0;  // fill
};

/// What one side of a barrier is.
struct Scope {
    VkPipelineStageFlags stages = 0;
    VkAccessFlags reads = 0, writes = 0;

    Scope operator|(const Scope& other) const {
        return {stages | other.stages, reads | other.reads, writes | other.writes};
    }
};
constexpr Scope transfers{VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT,
                          VK_ACCESS_TRANSFER_WRITE_BIT};
constexpr Scope dispatches{VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT,
                           VK_ACCESS_SHADER_WRITE_BIT};
/// Apart, since drivers invalidate another cache for these: few kernels have such buffers.
constexpr Scope uniforms{VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_UNIFORM_READ_BIT, 0};
constexpr Scope host_reads{VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT, 0};

Scope scope_of(const Operation& operation) {
    if (operation.kind != Operation::Kind::dispatch) return transfers;
    const auto& bindings = operation.pipeline->module->bindings;
    const bool has_uniforms = std::ranges::find(bindings, Access::uniform) != bindings.end();
    return has_uniforms ? dispatches | uniforms : dispatches;
}

RangeAccess range(const View& view, Access access) {
    return {reinterpret_cast<uint64_t>(view.buffer), view.offset, view.offset + view.size, access};
}

void check_transfer(const View& view, const char* what) {
    if (!view.buffer || view.size == 0 || view.offset % 4 != 0 || view.size % 4 != 0)
        fail(Status::bad_argument, what, "expected a range of whole 4-byte words of a buffer, got offset ",
             view.offset, " and ", view.size, " bytes");
}

}  // namespace

struct Recorder::Impl {
    Pipelines& pipelines;
    RecorderOptions options;
    std::unique_ptr<Commands::Impl> commands;
    Device& device;
    const VolkDeviceTable& fn;
    bool timestamps;
    Scope all;  // that this queue can do
    HazardTracker hazards;
    std::vector<Operation> group;
    std::optional<Scope> behind;  // what the group waits for
    std::mt19937_64 random;
    const Pipeline* bound = nullptr;

    Impl(Device& on, Pipelines& from, const RecorderOptions& wanted)
        : pipelines(from), options(wanted), commands(std::make_unique<Commands::Impl>(on, wanted.queue)),
          device(on), fn(on.fn()), timestamps(wanted.timestamps && on.caps().timestamp_bits > 0),
          random(wanted.shuffle_seed) {
        all = transfers;
        if (options.queue == QueueKind::compute || !device.has_transfer_queue())
            all = all | dispatches | uniforms;
        auto begin = vk_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
        if (options.simultaneous_use) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
        check(fn.vkBeginCommandBuffer(commands->handle, &begin), "vkBeginCommandBuffer");
        if (!options.omit_barriers) barrier(all, all);
        if (options.timed = options.timed && !timestamps && on.caps().timestamp_bits > 0; options.timed)
            commands->write_timestamp(commands->timestamp_pair("all", 0, 1),
                                      false);  // each is reset at every replay
    }

    void barrier(const Scope& from, const Scope& to) {
        auto memory = vk_struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
        memory.srcAccessMask = from.writes;
        memory.dstAccessMask = to.reads | to.writes;
        fn.vkCmdPipelineBarrier(commands->handle, from.stages, to.stages, 0, 1, &memory, 0, nullptr, 0,
                                nullptr);
    }

    void add(Operation operation, std::span<const RangeAccess> accesses) {
        if (hazards.conflicts(accesses)) {
            const Scope before = flush();
            hazards.clear();
            if (!options.omit_barriers) {
                behind = before;
                ++commands->stats.barriers;
            }
        }
        hazards.add(accesses);
        group.push_back(std::move(operation));
    }

    /// Writes the group; what it did.
    Scope flush() {
        Scope scope;
        for (const Operation& operation : group) scope = scope | scope_of(operation);
        if (behind) barrier(*behind, scope);
        behind.reset();
        if (options.shuffle_seed) std::ranges::shuffle(group, random);
        for (const Operation& operation : group) write(operation);
        group.clear();
        return scope;
    }

    void write(const Operation& operation) {
        const VkCommandBuffer handle = commands->handle;
        const View &from = operation.from, &to = operation.to;
        switch (operation.kind) {
        case Operation::Kind::dispatch:
            write_dispatch(operation);
            break;
        case Operation::Kind::copy: {
            const VkBufferCopy region{from.offset, to.offset, to.size};
            fn.vkCmdCopyBuffer(handle, from.buffer, to.buffer, 1, &region);
            break;
        }
        case Operation::Kind::update:
            fn.vkCmdUpdateBuffer(handle, to.buffer, to.offset, to.size, operation.bytes.data());
            break;
        case Operation::Kind::fill:
            fn.vkCmdFillBuffer(handle, to.buffer, to.offset, to.size, operation.word);
            break;
        }
    }

    void write_dispatch(const Operation& operation) {
        const VkCommandBuffer handle = commands->handle;
        const Pipeline& pipeline = *operation.pipeline;
        if (bound != &pipeline) fn.vkCmdBindPipeline(handle, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
        bound = &pipeline;
        fn.vkCmdBindDescriptorSets(handle, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, 1,
                                   &operation.set, 0, nullptr);
        if (!operation.bytes.empty())
            fn.vkCmdPushConstants(handle, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                  uint32_t(operation.bytes.size()), operation.bytes.data());
        const uint64_t groups = uint64_t{operation.grid.x} * operation.grid.y * operation.grid.z;
        const uint32_t pair = timestamps ? commands->timestamp_pair(operation.label, groups) : 0;
        if (timestamps) commands->write_timestamp(pair, false);
        fn.vkCmdDispatch(handle, operation.grid.x, operation.grid.y, operation.grid.z);
        if (timestamps) commands->write_timestamp(pair, true);
    }

    void rehearse(const Pipeline& pipeline, std::span<const std::byte> push) {
        if (!options.rehearsal->buffer || !pipelines.first_use(pipeline)) return;
        const std::vector<View> views(pipeline.module->bindings.size(), *options.rehearsal);
        Operation operation;
        operation.kind = Operation::Kind::dispatch;
        operation.pipeline = &pipeline;
        operation.set = commands->descriptor_set(pipeline, views);
        operation.bytes.assign(push.begin(), push.end());
        barrier(dispatches, dispatches);  // all write the same range, as far as validation knows
        write(operation);
        ++commands->stats.first_uses;
    }

    void check_dispatch(const ShaderModule& module, std::span<const View> views, size_t push_bytes) const {
        const Caps& caps = device.caps();
        const std::string where = cat("dispatch of ", module.name);
        if (device.has_transfer_queue() && options.queue == QueueKind::transfer)
            fail(Status::bad_argument, where, "expected a recorder of the compute queue");
        if (views.size() != module.bindings.size())
            fail(Status::bad_argument, where, "expected ", module.bindings.size(), " bindings, got ",
                 views.size());
        if (push_bytes != module.push_size)
            fail(Status::bad_argument, where, "expected ", module.push_size, " bytes of push constants, got ",
                 push_bytes);
        for (size_t i = 0; i < views.size(); ++i) {
            if ((!views[i].buffer && !options.rehearsal) || views[i].size == 0)
                fail(Status::bad_argument, where, "binding ", i, " is empty");
            if (views[i].offset % caps.storage_alignment != 0)
                fail(Status::bad_argument, where, "binding ", i,
                     ": expected an offset that is a multiple of ", caps.storage_alignment, ", got ",
                     views[i].offset);
            const uint64_t most =
                module.bindings[i] == Access::uniform ? max_uniform_range : caps.max_storage_range;
            const uint64_t least = module.bindings[i] == Access::texels ? texel_bytes : 1;
            if (views[i].size < least || views[i].size > most)
                fail(Status::bad_argument, where, "binding ", i, ": expected ", least, " to ", most,
                     " bytes, got ", views[i].size);
        }
    }
};

Recorder::Recorder(Device& device, Pipelines& pipelines, const RecorderOptions& options)
    : impl_(std::make_unique<Impl>(device, pipelines, options)) {}
Recorder::~Recorder() = default;
Device& Recorder::device() const { return impl_->device; }
Pipelines& Recorder::pipelines() const { return impl_->pipelines; }
const RecorderStats& Recorder::stats() const { return impl_->commands->stats; }

void Recorder::dispatch(const Pipeline& pipeline, std::span<const View> views,
                        std::span<const std::byte> push, uint64_t groups, std::string_view label) {
    if (groups == 0) return impl_->check_dispatch(*pipeline.module, views, push.size());
    dispatch(pipeline, views, push, fold_grid(groups, impl_->device.caps().max_groups), label);
}

void Recorder::dispatch(const Pipeline& pipeline, std::span<const View> views,
                        std::span<const std::byte> push, const Grid& grid, std::string_view label) {
    const ShaderModule& module = *pipeline.module;
    impl_->check_dispatch(module, views, push.size());
    if (impl_->options.rehearsal) return impl_->rehearse(pipeline, push);
    std::vector<RangeAccess> accesses;
    for (size_t i = 0; i < views.size(); ++i) accesses.push_back(range(views[i], module.bindings[i]));
    Operation operation;
    operation.kind = Operation::Kind::dispatch;
    operation.pipeline = &pipeline;
    operation.set = impl_->commands->descriptor_set(pipeline, views);
    operation.grid = grid;
    operation.label = label;
    operation.bytes.assign(push.begin(), push.end());
    impl_->add(std::move(operation), accesses);
    ++impl_->commands->stats.dispatches;
    impl_->commands->stats.first_uses += impl_->pipelines.first_use(pipeline);
}

void Recorder::copy(const View& from, const View& to) {
    if (from.size != to.size)
        fail(Status::bad_argument, "copy", "expected equal sizes, got ", from.size, " and ", to.size);
    if (impl_->options.rehearsal) return;
    if (!from.buffer || !to.buffer || to.size == 0)
        fail(Status::bad_argument, "copy", "expected two ranges of buffers");
    Operation operation;
    operation.kind = Operation::Kind::copy;
    operation.from = from;
    operation.to = to;
    impl_->add(std::move(operation), std::array{range(from, Access::read), range(to, Access::write)});
}

void Recorder::update(const View& to, std::span<const std::byte> bytes) {
    if (impl_->options.rehearsal) return;
    check_transfer(to, "update");
    if (bytes.size() != to.size || bytes.size() > 65536)
        fail(Status::bad_argument, "update", "expected ", to.size, " bytes, at most 65536, got ",
             bytes.size());
    Operation operation;
    operation.kind = Operation::Kind::update;
    operation.to = to;
    operation.bytes.assign(bytes.begin(), bytes.end());
    impl_->add(std::move(operation), std::array{range(to, Access::write)});
}

void Recorder::fill(const View& to, uint32_t word) {
    if (impl_->options.rehearsal) return;
    check_transfer(to, "fill");
    Operation operation;
    operation.kind = Operation::Kind::fill;
    operation.to = to;
    operation.word = word;
    impl_->add(std::move(operation), std::array{range(to, Access::write)});
}

void Recorder::make_host_visible() {
    impl_->flush();
    impl_->hazards.clear();  // the barrier orders later operations of the device, too
    impl_->barrier(impl_->all, impl_->all | host_reads);
}

Commands Recorder::finish() {
    impl_->flush();
    if (impl_->options.timed) impl_->commands->write_timestamp(0, true);
    check(impl_->fn.vkEndCommandBuffer(impl_->commands->handle), "vkEndCommandBuffer");
    Commands commands;
    commands.impl_ = std::move(impl_->commands);
    return commands;
}

}  // namespace scoria::vk
