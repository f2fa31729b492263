// VK_LAYER_SCORIA_test: reports the limits of the profile in $SCORIA_LAYER_PROFILE to everything above it
// and fails the calls named in $SCORIA_LAYER_FAIL (read when a device is created); $SCORIA_LAYER_FAMILY adds
// a queue family. It belongs below the validation layer, which then checks against the profile. Newer loaders
// keep the order of
//   VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation:VK_LAYER_SCORIA_test
// (the first is nearest to the program); 1.3.239 takes the order in which it finds the manifests, so also
//   VK_LAYER_PATH=/usr/share/vulkan/explicit_layer.d:BUILD/tests/layer/manifest
#include "faults.h"
#include "profile.h"
#include "second_family.h"

#include <vulkan/vk_layer.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

namespace scoria_layer {
namespace {

struct InstanceState {
    Profile profile;
    PFN_vkGetInstanceProcAddr get = nullptr;
    PFN_vkDestroyInstance destroy = nullptr;
    PFN_vkGetPhysicalDeviceProperties properties = nullptr;
    PFN_vkGetPhysicalDeviceProperties2 properties2 = nullptr;
    PFN_vkGetPhysicalDeviceFeatures features = nullptr;
    PFN_vkGetPhysicalDeviceFeatures2 features2 = nullptr;
    PFN_vkGetPhysicalDeviceMemoryProperties memory = nullptr;
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory2 = nullptr;
    VkQueueFlags added = 0;  // family
    PFN_vkGetPhysicalDeviceQueueFamilyProperties families = nullptr;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties2 families2 = nullptr;
    PFN_vkGetPhysicalDeviceSurfaceSupportKHR presents = nullptr;

    uint32_t families_below(VkPhysicalDevice device) const {
        uint32_t count = 0;
        families(device, &count, nullptr);
        return count;
    }
    std::vector<VkQueueFamilyProperties> families_above(VkPhysicalDevice device) const {
        uint32_t count = families_below(device);
        std::vector<VkQueueFamilyProperties> all(count);
        families(device, &count, all.data());
        if (added) all.push_back({added, 1, 64, {1, 1, 1}});
        return all;
    }
};

struct DeviceState {
    Faults faults;
    SecondFamily second;
    PFN_vkGetDeviceProcAddr get = nullptr;
    PFN_vkDestroyDevice destroy = nullptr;
    PFN_vkGetDeviceQueue queue = nullptr;
    PFN_vkGetDeviceQueue2 queue2 = nullptr;
    PFN_vkQueueWaitIdle wait_idle = nullptr;
    PFN_vkQueuePresentKHR present = nullptr;
    std::array<PFN_vkVoidFunction, size_t(Failable::count)> next{};
};

// States by the loader's dispatch pointer: an instance and its physical devices share one, a device and
// its queues and command buffers another.
std::mutex mutex;
std::map<void*, std::unique_ptr<InstanceState>> instances;
std::map<void*, std::unique_ptr<DeviceState>> devices;

template <class Handle> void* key(Handle handle) { return *reinterpret_cast<void**>(handle); }
template <class Handle> InstanceState& instance_of(Handle handle) {
    const std::lock_guard lock(mutex);
    return *instances.at(key(handle));
}
template <class Handle> DeviceState& device_of(Handle handle) {
    const std::lock_guard lock(mutex);
    return *devices.at(key(handle));
}

// The loader's link to the next layer, taken from (and advanced in) the pNext chain.
template <class Info> Info* find_link(const void* chain, VkStructureType type) {
    for (auto* each = static_cast<const VkBaseInStructure*>(chain); each; each = each->pNext) {
        auto* info = reinterpret_cast<Info*>(const_cast<VkBaseInStructure*>(each));
        if (each->sType == type && info->function == VK_LAYER_LINK_INFO) return info;
    }
    return nullptr;
}

VkResult refuse(const std::exception& error) {
    std::fprintf(stderr, "VK_LAYER_SCORIA_test: %s\n", error.what());
    return VK_ERROR_INITIALIZATION_FAILED;
}

VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                    VkInstance* instance) try {
    auto* link =
        find_link<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    auto state = std::make_unique<InstanceState>();
    if (const char* path = std::getenv("SCORIA_LAYER_PROFILE"); path && *path) state->profile = Profile(path);
    if (const char* kind = std::getenv("SCORIA_LAYER_FAMILY")) state->added = added_family(kind);
    state->get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create =
        reinterpret_cast<PFN_vkCreateInstance>(state->get(VK_NULL_HANDLE, "vkCreateInstance"));
    const VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS) return result;
    const auto load = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(state->get(*instance, name));
    };
    load(state->destroy, "vkDestroyInstance");
    load(state->properties, "vkGetPhysicalDeviceProperties");
    load(state->properties2, "vkGetPhysicalDeviceProperties2");
    load(state->features, "vkGetPhysicalDeviceFeatures");
    load(state->features2, "vkGetPhysicalDeviceFeatures2");
    load(state->memory, "vkGetPhysicalDeviceMemoryProperties");
    load(state->memory2, "vkGetPhysicalDeviceMemoryProperties2");
    load(state->families, "vkGetPhysicalDeviceQueueFamilyProperties");
    load(state->families2, "vkGetPhysicalDeviceQueueFamilyProperties2");
    load(state->presents, "vkGetPhysicalDeviceSurfaceSupportKHR");
    const std::lock_guard lock(mutex);
    instances[key(*instance)] = std::move(state);
    return VK_SUCCESS;
} catch (const std::exception& error) {
    return refuse(error);
}

void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
    if (!instance) return;
    const std::lock_guard lock(mutex);
    const auto found = instances.find(key(instance));
    found->second->destroy(instance, allocator);
    instances.erase(found);
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                  const VkAllocationCallbacks* allocator, VkDevice* device) try {
    auto* link = find_link<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    const char* faults = std::getenv("SCORIA_LAYER_FAIL");
    const InstanceState& instance = instance_of(physical);
    const uint32_t added = instance.added ? instance.families_below(physical) : SecondFamily::none;
    std::unique_ptr<DeviceState> state(
        new DeviceState{.faults = Faults(faults ? faults : ""), .second = SecondFamily(added)});
    const auto get_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    state->get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateDevice>(get_instance(VK_NULL_HANDLE, "vkCreateDevice"));
    const std::vector<VkDeviceQueueCreateInfo> queues = state->second.below(*info);
    VkDeviceCreateInfo below = *info;
    below.queueCreateInfoCount = uint32_t(queues.size());
    below.pQueueCreateInfos = queues.data();
    const VkResult result = create(physical, &below, allocator, device);
    if (result != VK_SUCCESS) return result;
    const auto load = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(state->get(*device, name));
    };
    load(state->queue, "vkGetDeviceQueue");
    load(state->queue2, "vkGetDeviceQueue2");
    load(state->wait_idle, "vkQueueWaitIdle");
    load(state->present, "vkQueuePresentKHR");
    if (state->second.wanted(*info)) {
        VkQueue first = VK_NULL_HANDLE;
        state->queue(*device, 0, 0, &first);
        state->second.open(first, key(*device));
    }
    state->destroy = reinterpret_cast<PFN_vkDestroyDevice>(state->get(*device, "vkDestroyDevice"));
#define X(name) state->next[size_t(Failable::name)] = state->get(*device, "vk" #name);
    SCORIA_FAILABLE(X)
#undef X
    const std::lock_guard lock(mutex);
    devices[key(*device)] = std::move(state);
    return VK_SUCCESS;
} catch (const std::exception& error) {
    return refuse(error);
}

void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
    if (!device) return;
    std::unique_ptr<DeviceState> state;
    {
        const std::lock_guard lock(mutex);
        state = std::move(devices.at(key(device)));
        devices.erase(key(device));
    }
    state->destroy(device, allocator);
}

void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
    const InstanceState& state = instance_of(device);
    state.properties(device, out);
    state.profile.apply(*out);
}
void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
    const InstanceState& state = instance_of(device);
    state.properties2(device, out);
    state.profile.apply(out->properties);
    state.profile.apply_chain(out->pNext);
}
void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures* out) {
    const InstanceState& state = instance_of(device);
    state.features(device, out);
    state.profile.apply(*out);
}
void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
    const InstanceState& state = instance_of(device);
    state.features2(device, out);
    state.profile.apply(out->features);
    state.profile.apply_chain(out->pNext);
}
void VKAPI_CALL memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties* out) {
    const InstanceState& state = instance_of(device);
    state.memory(device, out);
    state.profile.apply(*out);
}
void VKAPI_CALL memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* out) {
    const InstanceState& state = instance_of(device);
    state.memory2(device, out);
    state.profile.apply(out->memoryProperties);
    state.profile.apply_chain(out->pNext);
}

void VKAPI_CALL families(VkPhysicalDevice device, uint32_t* count, VkQueueFamilyProperties* out) {
    const std::vector<VkQueueFamilyProperties> all = instance_of(device).families_above(device);
    *count = out ? std::min(*count, uint32_t(all.size())) : uint32_t(all.size());
    if (out) std::copy_n(all.begin(), *count, out);
}
void VKAPI_CALL families2(VkPhysicalDevice device, uint32_t* count, VkQueueFamilyProperties2* out) {
    const InstanceState& state = instance_of(device);
    if (!state.added) return state.families2(device, count, out);
    const std::vector<VkQueueFamilyProperties> all = state.families_above(device);
    *count = out ? std::min(*count, uint32_t(all.size())) : uint32_t(all.size());
    for (uint32_t i = 0; out && i < *count; ++i) out[i].queueFamilyProperties = all[i];
}
VkResult VKAPI_CALL presents(VkPhysicalDevice device, uint32_t family, VkSurfaceKHR surface, VkBool32* out) {
    const InstanceState& state = instance_of(device);
    if (!state.added || family < state.families_below(device))
        return state.presents(device, family, surface, out);
    *out = VK_FALSE;
    return VK_SUCCESS;
}

void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
    DeviceState& state = device_of(device);
    if (!state.second.is(family)) return state.queue(device, family, index, queue);
    *queue = state.second.queue();
}
void VKAPI_CALL get_queue2(VkDevice device, const VkDeviceQueueInfo2* info, VkQueue* queue) {
    DeviceState& state = device_of(device);
    if (!state.second.is(info->queueFamilyIndex)) return state.queue2(device, info, queue);
    *queue = state.second.queue();
}
VkResult VKAPI_CALL wait_idle(VkQueue queue) {
    DeviceState& state = device_of(queue);
    const auto lock = state.second.lock();
    return state.wait_idle(state.second.below(queue));
}
VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR* info) {
    DeviceState& state = device_of(queue);
    const auto lock = state.second.lock();
    return state.present(queue, info);
}

// One wrapper per failable function, from its signature: count, fail or pass on.
template <Failable function, class Signature> struct Wrapper;
template <Failable function, class Handle, class... Arguments>
struct Wrapper<function, VkResult(VKAPI_PTR*)(Handle, Arguments...)> {
    static VkResult VKAPI_CALL call(Handle handle, Arguments... arguments) {
        DeviceState& state = device_of(handle);
        const VkResult failure = state.faults.next(function);
        if (failure == end_process) std::raise(SIGKILL);
        if (failure == no_work) return VK_SUCCESS;
        if (failure != VK_SUCCESS) return failure;
        const auto next =
            reinterpret_cast<VkResult(VKAPI_PTR*)(Handle, Arguments...)>(state.next[size_t(function)]);
        std::unique_lock<std::mutex> lock;
        if (std::is_same_v<Handle, VkQueue>) lock = state.second.lock();
        Below below(state.second);
        return next(below(handle), below(arguments)...);
    }
};

template <class Function> PFN_vkVoidFunction erased(Function* function) {
    return reinterpret_cast<PFN_vkVoidFunction>(function);
}

PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name);
PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name);

PFN_vkVoidFunction own_device_function(const char* name) {
    static const std::map<std::string_view, PFN_vkVoidFunction> table = {
        {"vkGetDeviceProcAddr", erased(get_device_proc)},
        {"vkDestroyDevice", erased(destroy_device)},
        {"vkGetDeviceQueue", erased(get_queue)},
        {"vkGetDeviceQueue2", erased(get_queue2)},
        {"vkQueueWaitIdle", erased(wait_idle)},
        {"vkQueuePresentKHR", erased(present)},
#define X(name) {"vk" #name, erased(Wrapper<Failable::name, PFN_vk##name>::call)},
        SCORIA_FAILABLE(X)
#undef X
    };
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

PFN_vkVoidFunction own_instance_function(const char* name) {
    static const std::map<std::string_view, PFN_vkVoidFunction> table = {
        {"vkGetInstanceProcAddr", erased(get_instance_proc)},
        {"vkCreateInstance", erased(create_instance)},
        {"vkDestroyInstance", erased(destroy_instance)},
        {"vkCreateDevice", erased(create_device)},
        {"vkGetPhysicalDeviceProperties", erased(properties)},
        {"vkGetPhysicalDeviceProperties2", erased(properties2)},
        {"vkGetPhysicalDeviceProperties2KHR", erased(properties2)},
        {"vkGetPhysicalDeviceFeatures", erased(features)},
        {"vkGetPhysicalDeviceFeatures2", erased(features2)},
        {"vkGetPhysicalDeviceFeatures2KHR", erased(features2)},
        {"vkGetPhysicalDeviceMemoryProperties", erased(memory)},
        {"vkGetPhysicalDeviceMemoryProperties2", erased(memory2)},
        {"vkGetPhysicalDeviceMemoryProperties2KHR", erased(memory2)},
        {"vkGetPhysicalDeviceQueueFamilyProperties", erased(families)},
        {"vkGetPhysicalDeviceQueueFamilyProperties2", erased(families2)},
        {"vkGetPhysicalDeviceQueueFamilyProperties2KHR", erased(families2)},
        {"vkGetPhysicalDeviceSurfaceSupportKHR", erased(presents)},
    };
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name) {
    if (const PFN_vkVoidFunction own = own_device_function(name)) return own;
    return device_of(device).get(device, name);
}

PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name) {
    if (const PFN_vkVoidFunction own = own_instance_function(name)) return own;
    if (const PFN_vkVoidFunction own = own_device_function(name)) return own;
    return instance ? instance_of(instance).get(instance, name) : nullptr;
}

}  // namespace
}  // namespace scoria_layer

extern "C" VKAPI_ATTR __attribute__((visibility("default"))) VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* wanted) {
    if (wanted->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    wanted->loaderLayerInterfaceVersion = 2;
    wanted->pfnGetInstanceProcAddr = scoria_layer::get_instance_proc;
    wanted->pfnGetDeviceProcAddr = scoria_layer::get_device_proc;
    wanted->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}
