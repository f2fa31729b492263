// See stub_vulkan.h.
#define VK_NO_PROTOTYPES
#include "stub_vulkan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace scoria::test {
namespace stub {

std::atomic<size_t> living{0};
std::atomic<uint32_t> unwritten{0};  // what memory holds

struct Object {
    int uses = 0;
    Object() { ++living; }
    ~Object() { --living; }
    Object(const Object&) = delete;
    /// Of a call before and after which Vulkan wants other threads to keep away.
    void use() { ++uses; }
};

struct Memory : Object {
    std::vector<std::byte> bytes;
};
struct Buffer : Object {
    VkDeviceSize size = 0, offset = 0;
    Memory* memory = nullptr;
    std::byte* at(VkDeviceSize from) const { return memory->bytes.data() + offset + from; }
    VkDeviceSize whole(VkDeviceSize from, VkDeviceSize range) const {
        return range == VK_WHOLE_SIZE ? size - from : range;
    }
};
struct Bound {
    const Buffer* buffer = nullptr;
    VkDeviceSize offset = 0, range = 0;
};
struct BufferView : Object {
    Bound bound;
};
struct DescriptorSet : Object {
    std::map<uint32_t, Bound> bindings;
};
struct DescriptorPool : Object {
    std::vector<std::unique_ptr<DescriptorSet>> sets;
};
struct QueryPool : Object {
    std::vector<std::atomic<uint64_t>> values;
    explicit QueryPool(uint32_t count) : values(count) {}
};
struct CommandPool : Object {};
struct CommandBuffer : Object {
    CommandPool* pool = nullptr;
    std::vector<std::function<void()>> work;
    std::map<uint32_t, Bound> bindings;  // of the set that is bound
    void use() {
        Object::use();
        pool->use();
    }
};
struct Semaphore : Object {
    uint64_t value = 0;  // guarded by `reached_mutex`
};
std::mutex reached_mutex;
std::condition_variable reached;

/// Runs submissions in their order.
class Queue : public Object {
  public:
    void submit(std::function<void()> work) {
        use();
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(work));
        more_.notify_one();
    }
    ~Queue() {
        submit(nullptr);
        thread_.join();
    }

  private:
    void run() {
        for (;;) {
            std::function<void()> work;
            {
                std::unique_lock lock(mutex_);
                more_.wait(lock, [&] { return !waiting_.empty(); });
                work = std::move(waiting_.front());
                waiting_.pop_front();
            }
            if (!work) return;
            work();
        }
    }
    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<std::function<void()>> waiting_;
    std::thread thread_{[this] { run(); }};
};

template <class Type, class Handle> Type* of(Handle handle) { return reinterpret_cast<Type*>(handle); }

// --- objects: made, counted, destroyed; of most nothing more is needed
template <class Type, class Handle, class Info>
VkResult create(VkDevice, const Info*, const VkAllocationCallbacks*, Handle* made) {
    *made = reinterpret_cast<Handle>(new Type);
    return VK_SUCCESS;
}
template <class Type, class Handle> void destroy(VkDevice, Handle handle, const VkAllocationCallbacks*) {
    if (handle) of<Type>(handle)->use();
    delete of<Type>(handle);
}

VkResult create_buffer(VkDevice, const VkBufferCreateInfo* info, const VkAllocationCallbacks*,
                       VkBuffer* made) {
    auto* buffer = new Buffer;
    buffer->size = info->size;
    *made = reinterpret_cast<VkBuffer>(buffer);
    return VK_SUCCESS;
}
VkResult create_buffer_view(VkDevice, const VkBufferViewCreateInfo* info, const VkAllocationCallbacks*,
                            VkBufferView* made) {
    auto* view = new BufferView;
    view->bound = {of<Buffer>(info->buffer), info->offset, info->range};
    *made = reinterpret_cast<VkBufferView>(view);
    return VK_SUCCESS;
}
VkResult create_query_pool(VkDevice, const VkQueryPoolCreateInfo* info, const VkAllocationCallbacks*,
                           VkQueryPool* made) {
    *made = reinterpret_cast<VkQueryPool>(new QueryPool(info->queryCount));
    return VK_SUCCESS;
}
VkResult create_pipelines(VkDevice, VkPipelineCache, uint32_t count, const VkComputePipelineCreateInfo*,
                          const VkAllocationCallbacks*, VkPipeline* made) {
    for (uint32_t i = 0; i < count; ++i) made[i] = reinterpret_cast<VkPipeline>(new Object);
    return VK_SUCCESS;
}
VkResult pipeline_cache_data(VkDevice, VkPipelineCache, size_t* size, void*) {
    *size = 0;
    return VK_SUCCESS;
}

// --- memory
VkResult allocate_memory(VkDevice, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks*,
                         VkDeviceMemory* made) {
    auto* memory = new Memory;
    memory->bytes.resize(info->allocationSize);
    const uint32_t word = unwritten;
    for (size_t i = 0; i + 4 <= memory->bytes.size(); i += 4) std::memcpy(&memory->bytes[i], &word, 4);
    *made = reinterpret_cast<VkDeviceMemory>(memory);
    return VK_SUCCESS;
}
VkResult map_memory(VkDevice, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize, VkMemoryMapFlags,
                    void** data) {
    of<Memory>(memory)->use();
    *data = of<Memory>(memory)->bytes.data() + offset;
    return VK_SUCCESS;
}
void unmap_memory(VkDevice, VkDeviceMemory memory) { of<Memory>(memory)->use(); }
VkResult of_ranges(VkDevice, uint32_t, const VkMappedMemoryRange*) { return VK_SUCCESS; }
VkResult bind_memory(VkDevice, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
    of<Buffer>(buffer)->use();
    of<Buffer>(buffer)->memory = of<Memory>(memory);
    of<Buffer>(buffer)->offset = offset;
    return VK_SUCCESS;
}
VkResult bind_memory2(VkDevice device, uint32_t count, const VkBindBufferMemoryInfo* infos) {
    for (uint32_t i = 0; i < count; ++i)
        bind_memory(device, infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
    return VK_SUCCESS;
}
void requirements(VkDevice, VkBuffer buffer, VkMemoryRequirements* needs) {
    *needs = {(of<Buffer>(buffer)->size + 63) / 64 * 64, 64, 3};
}
void requirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2* info,
                   VkMemoryRequirements2* needs) {
    requirements(device, info->buffer, &needs->memoryRequirements);
}
VkResult no_images() { return VK_ERROR_UNKNOWN; }  // the allocator wants them to be there

// --- descriptors
VkResult allocate_sets(VkDevice, const VkDescriptorSetAllocateInfo* info, VkDescriptorSet* made) {
    auto* pool = of<DescriptorPool>(info->descriptorPool);
    pool->use();
    for (uint32_t i = 0; i < info->descriptorSetCount; ++i)
        made[i] = reinterpret_cast<VkDescriptorSet>(
            pool->sets.emplace_back(std::make_unique<DescriptorSet>()).get());
    return VK_SUCCESS;
}
void update_sets(VkDevice, uint32_t count, const VkWriteDescriptorSet* writes, uint32_t,
                 const VkCopyDescriptorSet*) {
    for (const VkWriteDescriptorSet* write = writes; write < writes + count; ++write) {
        of<DescriptorSet>(write->dstSet)->use();
        Bound& bound = of<DescriptorSet>(write->dstSet)->bindings[write->dstBinding];
        if (write->descriptorType == VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER)
            bound = of<BufferView>(*write->pTexelBufferView)->bound;
        else
            bound = {of<Buffer>(write->pBufferInfo->buffer), write->pBufferInfo->offset,
                     write->pBufferInfo->range};
    }
}

// --- commands
VkResult reset_pool(VkDevice, VkCommandPool pool, VkCommandPoolResetFlags) {
    of<CommandPool>(pool)->use();
    return VK_SUCCESS;
}
VkResult allocate_commands(VkDevice, const VkCommandBufferAllocateInfo* info, VkCommandBuffer* made) {
    of<CommandPool>(info->commandPool)->use();
    for (uint32_t i = 0; i < info->commandBufferCount; ++i) {
        auto* commands = new CommandBuffer;
        commands->pool = of<CommandPool>(info->commandPool);
        made[i] = reinterpret_cast<VkCommandBuffer>(commands);
    }
    return VK_SUCCESS;
}
void free_commands(VkDevice, VkCommandPool pool, uint32_t count, const VkCommandBuffer* commands) {
    of<CommandPool>(pool)->use();
    for (uint32_t i = 0; i < count; ++i) delete of<CommandBuffer>(commands[i]);
}
VkResult begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo*) {
    of<CommandBuffer>(commands)->use();
    of<CommandBuffer>(commands)->work.clear();
    return VK_SUCCESS;
}
VkResult end(VkCommandBuffer commands) {
    of<CommandBuffer>(commands)->use();
    return VK_SUCCESS;
}
void record(VkCommandBuffer commands, std::function<void()> work) {
    of<CommandBuffer>(commands)->use();
    of<CommandBuffer>(commands)->work.push_back(std::move(work));
}
void copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count, const VkBufferCopy* regions) {
    for (const VkBufferCopy* each = regions; each < regions + count; ++each)
        record(commands, [source = of<Buffer>(from), target = of<Buffer>(to), region = *each] {
            std::memcpy(target->at(region.dstOffset), source->at(region.srcOffset), region.size);
        });
}
void fill(VkCommandBuffer commands, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, uint32_t word) {
    record(commands, [target = of<Buffer>(to), offset, size, word] {
        const VkDeviceSize bytes = target->whole(offset, size);
        for (VkDeviceSize i = 0; i + 4 <= bytes; i += 4) std::memcpy(target->at(offset + i), &word, 4);
    });
}
void update(VkCommandBuffer commands, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, const void* data) {
    const auto* bytes = static_cast<const std::byte*>(data);
    record(commands, [target = of<Buffer>(to), offset, copied = std::vector(bytes, bytes + size)] {
        std::memcpy(target->at(offset), copied.data(), copied.size());
    });
}
void bind_sets(VkCommandBuffer commands, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t count,
               const VkDescriptorSet* sets, uint32_t, const uint32_t*) {
    of<CommandBuffer>(commands)->use();
    if (count) of<CommandBuffer>(commands)->bindings = of<DescriptorSet>(sets[0])->bindings;
}
void dispatch(VkCommandBuffer commands, uint32_t, uint32_t, uint32_t) {
    record(commands, [bindings = of<CommandBuffer>(commands)->bindings] {
        for (const auto& [binding, bound] : bindings) {
            const VkDeviceSize bytes = bound.buffer->whole(bound.offset, bound.range);
            if (!bytes) continue;
            (void)*static_cast<volatile std::byte*>(bound.buffer->at(bound.offset));
            (void)*static_cast<volatile std::byte*>(bound.buffer->at(bound.offset + bytes - 1));
        }
    });
}
void bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint, VkPipeline) {
    of<CommandBuffer>(commands)->use();
}
void push(VkCommandBuffer commands, VkPipelineLayout, VkShaderStageFlags, uint32_t, uint32_t, const void*) {
    of<CommandBuffer>(commands)->use();
}
void barrier(VkCommandBuffer commands, VkPipelineStageFlags, VkPipelineStageFlags, VkDependencyFlags,
             uint32_t, const VkMemoryBarrier*, uint32_t, const VkBufferMemoryBarrier*, uint32_t,
             const VkImageMemoryBarrier*) {
    of<CommandBuffer>(commands)->use();
}
void timestamp(VkCommandBuffer commands, VkPipelineStageFlagBits, VkQueryPool pool, uint32_t query) {
    record(commands, [to = of<QueryPool>(pool), query] {
        to->values[query] = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
    });
}
void reset_queries(VkCommandBuffer commands, VkQueryPool pool, uint32_t first, uint32_t count) {
    record(commands, [from = of<QueryPool>(pool), first, count] {
        for (uint32_t i = 0; i < count; ++i) from->values[first + i] = 0;
    });
}
VkResult query_results(VkDevice, VkQueryPool pool, uint32_t first, uint32_t count, size_t, void* data,
                       VkDeviceSize stride, VkQueryResultFlags) {
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t value = of<QueryPool>(pool)->values[first + i];
        if (!value) return VK_NOT_READY;
        std::memcpy(static_cast<std::byte*>(data) + i * stride, &value, sizeof value);
    }
    return VK_SUCCESS;
}

// --- submissions and their timelines
VkResult counter(VkDevice, VkSemaphore semaphore, uint64_t* value) {
    const std::lock_guard lock(reached_mutex);
    *value = of<Semaphore>(semaphore)->value;
    return VK_SUCCESS;
}
VkResult wait(VkDevice, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
    std::unique_lock lock(reached_mutex);
    const auto all = [&] {
        for (uint32_t i = 0; i < info->semaphoreCount; ++i)
            if (of<Semaphore>(info->pSemaphores[i])->value < info->pValues[i]) return false;
        return true;
    };
    if (timeout == 0) return all() ? VK_SUCCESS : VK_TIMEOUT;
    reached.wait(lock, all);  // it comes to pass
    return VK_SUCCESS;
}
VkResult submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence) {
    for (const VkSubmitInfo* info = infos; info < infos + count; ++info) {
        const auto& timeline = *static_cast<const VkTimelineSemaphoreSubmitInfo*>(info->pNext);
        const auto points = [](const VkSemaphore* all, const uint64_t* values, uint32_t some) {
            std::vector<std::pair<Semaphore*, uint64_t>> result;
            for (uint32_t i = 0; i < some; ++i) result.emplace_back(of<Semaphore>(all[i]), values[i]);
            return result;
        };
        of<Queue>(queue)->submit(
            [waits = points(info->pWaitSemaphores, timeline.pWaitSemaphoreValues, info->waitSemaphoreCount),
             signals =
                 points(info->pSignalSemaphores, timeline.pSignalSemaphoreValues, info->signalSemaphoreCount),
             commands =
                 std::vector(info->pCommandBuffers, info->pCommandBuffers + info->commandBufferCount)] {
                {
                    std::unique_lock lock(reached_mutex);
                    for (const auto& wait : waits)
                        reached.wait(lock, [&] { return wait.first->value >= wait.second; });
                }
                for (const VkCommandBuffer each : commands)
                    for (const auto& work : of<CommandBuffer>(each)->work) work();
                const std::lock_guard lock(reached_mutex);
                for (const auto& [semaphore, value] : signals) semaphore->value = value;
                reached.notify_all();
            });
    }
    return VK_SUCCESS;
}

// --- what it is: a GPU with memory of its own, at the limits that every device keeps
void properties(VkPhysicalDevice, VkPhysicalDeviceProperties* to) {
    *to = {};
    to->apiVersion = VK_API_VERSION_1_2;
    to->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    std::strcpy(to->deviceName, "stub");
    VkPhysicalDeviceLimits& limits = to->limits;
    limits.maxStorageBufferRange = 128u << 20;
    limits.maxPerStageDescriptorStorageBuffers = limits.maxDescriptorSetStorageBuffers = 8;
    limits.maxComputeWorkGroupInvocations = 128;
    for (uint32_t& size : limits.maxComputeWorkGroupSize) size = 128;
    for (uint32_t& count : limits.maxComputeWorkGroupCount) count = 65535;
    limits.maxComputeSharedMemorySize = 16384;
    limits.maxPushConstantsSize = 128;
    limits.maxMemoryAllocationCount = 4096;
    limits.minStorageBufferOffsetAlignment = limits.minUniformBufferOffsetAlignment = 64;
    limits.minMemoryMapAlignment = limits.nonCoherentAtomSize = limits.bufferImageGranularity = 64;
    limits.timestampPeriod = 1;
}
void properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* to) {
    properties(device, &to->properties);
    for (auto* each = static_cast<VkBaseOutStructure*>(to->pNext); each; each = each->pNext) {
        if (each->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES) continue;
        auto& v11 = *reinterpret_cast<VkPhysicalDeviceVulkan11Properties*>(each);
        v11.subgroupSize = 32;
        v11.maxMemoryAllocationSize = 1u << 30;
    }
}
void features2(VkPhysicalDevice, VkPhysicalDeviceFeatures2*) {}
void memory(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties* to) {
    *to = {};
    to->memoryHeapCount = to->memoryTypeCount = 2;
    to->memoryHeaps[0] = {4ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    to->memoryHeaps[1] = {4ull << 30, 0};
    to->memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    to->memoryTypes[1] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                              VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                          1};
}
void memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* to) {
    memory(device, &to->memoryProperties);
}
void families(VkPhysicalDevice, uint32_t* count, VkQueueFamilyProperties* to) {
    *count = 1;
    if (to) *to = {VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 1, 64, {1, 1, 1}};
}
VkResult extensions(VkPhysicalDevice, const char*, uint32_t* count, VkExtensionProperties*) {
    *count = 0;
    return VK_SUCCESS;
}

PFN_vkVoidFunction get_device(VkDevice, const char* name);

#define STUB(name, ...) \
    { "vk" #name, reinterpret_cast<PFN_vkVoidFunction>(PFN_vk##name(__VA_ARGS__)) }
#define STUB_OBJECT(name, type, ...) \
    STUB(Create##name, __VA_ARGS__), STUB(Destroy##name, destroy<type, Vk##name>)
const std::map<std::string_view, PFN_vkVoidFunction>& entry_points() {
    static const std::map<std::string_view, PFN_vkVoidFunction> all = {
        STUB(GetDeviceProcAddr, get_device),
        STUB(EnumerateDeviceExtensionProperties, extensions),
        STUB(GetPhysicalDeviceProperties, properties),
        STUB(GetPhysicalDeviceProperties2, properties2),
        STUB(GetPhysicalDeviceFeatures2, features2),
        STUB(GetPhysicalDeviceMemoryProperties, memory),
        STUB(GetPhysicalDeviceMemoryProperties2, memory2),
        STUB(GetPhysicalDeviceQueueFamilyProperties, families),
        STUB_OBJECT(Buffer, Buffer, create_buffer),
        STUB_OBJECT(BufferView, BufferView, create_buffer_view),
        STUB_OBJECT(QueryPool, QueryPool, create_query_pool),
        STUB_OBJECT(Semaphore, Semaphore, create<Semaphore, VkSemaphore, VkSemaphoreCreateInfo>),
        STUB_OBJECT(CommandPool, CommandPool, create<CommandPool, VkCommandPool, VkCommandPoolCreateInfo>),
        STUB_OBJECT(DescriptorPool, DescriptorPool,
                    create<DescriptorPool, VkDescriptorPool, VkDescriptorPoolCreateInfo>),
        STUB_OBJECT(DescriptorSetLayout, Object,
                    create<Object, VkDescriptorSetLayout, VkDescriptorSetLayoutCreateInfo>),
        STUB_OBJECT(PipelineLayout, Object, create<Object, VkPipelineLayout, VkPipelineLayoutCreateInfo>),
        STUB_OBJECT(PipelineCache, Object, create<Object, VkPipelineCache, VkPipelineCacheCreateInfo>),
        STUB_OBJECT(ShaderModule, Object, create<Object, VkShaderModule, VkShaderModuleCreateInfo>),
        STUB(CreateComputePipelines, create_pipelines),
        STUB(DestroyPipeline, destroy<Object, VkPipeline>),
        STUB(GetPipelineCacheData, pipeline_cache_data),
        STUB(AllocateMemory, allocate_memory),
        STUB(FreeMemory, destroy<Memory, VkDeviceMemory>),
        STUB(MapMemory, map_memory),
        STUB(UnmapMemory, unmap_memory),
        STUB(FlushMappedMemoryRanges, of_ranges),
        STUB(InvalidateMappedMemoryRanges, of_ranges),
        STUB(BindBufferMemory, bind_memory),
        STUB(BindBufferMemory2, bind_memory2),
        STUB(GetBufferMemoryRequirements, requirements),
        STUB(GetBufferMemoryRequirements2, requirements2),
        STUB(AllocateDescriptorSets, allocate_sets),
        STUB(UpdateDescriptorSets, update_sets),
        STUB(ResetCommandPool, reset_pool),
        STUB(AllocateCommandBuffers, allocate_commands),
        STUB(FreeCommandBuffers, free_commands),
        STUB(BeginCommandBuffer, begin),
        STUB(EndCommandBuffer, end),
        STUB(CmdCopyBuffer, copy),
        STUB(CmdFillBuffer, fill),
        STUB(CmdUpdateBuffer, update),
        STUB(CmdBindDescriptorSets, bind_sets),
        STUB(CmdBindPipeline, bind_pipeline),
        STUB(CmdPushConstants, push),
        STUB(CmdPipelineBarrier, barrier),
        STUB(CmdDispatch, dispatch),
        STUB(CmdWriteTimestamp, timestamp),
        STUB(CmdResetQueryPool, reset_queries),
        STUB(GetQueryPoolResults, query_results),
        STUB(QueueSubmit, submit),
        STUB(WaitSemaphores, wait),
        STUB(GetSemaphoreCounterValue, counter),
    };
    return all;
}
#undef STUB_OBJECT
#undef STUB

PFN_vkVoidFunction get_device(VkDevice, const char* name) {
    const auto found = entry_points().find(name);
    if (found != entry_points().end()) return found->second;
    const bool image = std::string_view(name).find("Image") != std::string_view::npos;
    return image ? reinterpret_cast<PFN_vkVoidFunction>(no_images) : nullptr;
}
PFN_vkVoidFunction get_instance(VkInstance, const char* name) { return get_device(VK_NULL_HANDLE, name); }

}  // namespace stub

struct StubVulkan::Device {
    stub::Queue queue;
    VkPhysicalDeviceFeatures2 base{};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
};

StubVulkan::StubVulkan(uint32_t word) : device_(std::make_unique<Device>()) {
    stub::unwritten = word;
    device_->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    device_->base.pNext = &device_->timeline;
    device_->timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    device_->timeline.timelineSemaphore = VK_TRUE;
    description_.size = sizeof description_;
    description_.get_instance_proc_addr = stub::get_instance;
    // Nothing is asked of these but that they are not NULL.
    description_.instance = reinterpret_cast<VkInstance>(this);
    description_.physical_device = reinterpret_cast<VkPhysicalDevice>(this);
    description_.device = reinterpret_cast<VkDevice>(this);
    description_.queue = reinterpret_cast<VkQueue>(&device_->queue);
    description_.features = &device_->base;
    description_.api_version = VK_API_VERSION_1_2;
}
StubVulkan::~StubVulkan() = default;
size_t StubVulkan::objects() { return stub::living; }

}  // namespace scoria::test
