// See vulkan_host.h.
#define VK_NO_PROTOTYPES
#include "vulkan_host.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace scoria::test {
namespace {

constexpr const char* layer_name = "VK_LAYER_KHRONOS_validation";

void need(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

template <class Struct> Struct made(VkStructureType type, void* next = nullptr) {
    Struct result{};
    result.sType = type;
    result.pNext = next;
    return result;
}

}  // namespace

#define HOST_FUNCTIONS(X)                     \
    X(EnumeratePhysicalDevices)               \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(GetPhysicalDeviceFeatures2)             \
    X(EnumerateDeviceExtensionProperties)     \
    X(CreateDevice)                           \
    X(DestroyDevice)                          \
    X(GetDeviceQueue)                         \
    X(CreateDebugUtilsMessengerEXT)           \
    X(DestroyDebugUtilsMessengerEXT)          \
    X(DestroyInstance)

struct VulkanHost::Functions {
    PFN_vkGetInstanceProcAddr get = nullptr;
#define MEMBER(name) PFN_vk##name name = nullptr;
    HOST_FUNCTIONS(MEMBER)
#undef MEMBER
    template <class Function> Function global(const char* name) const {
        return reinterpret_cast<Function>(get(VK_NULL_HANDLE, name));
    }
};

struct VulkanHost::Features {
    VkPhysicalDeviceFeatures2 base =
        made<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    VkPhysicalDeviceVulkan11Features v11 =
        made<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    VkPhysicalDeviceVulkan12Features v12 =
        made<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT sizes =
        made<VkPhysicalDeviceSubgroupSizeControlFeaturesEXT>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT);
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = made<VkPhysicalDeviceTimelineSemaphoreFeatures>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    VkPhysicalDevice16BitStorageFeatures storage16 =
        made<VkPhysicalDevice16BitStorageFeatures>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    std::vector<const char*> extensions;
};

struct VulkanHost::Messages {
    std::mutex mutex;
    std::vector<std::string> errors;
    VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;

    static VkBool32 VKAPI_PTR hear(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                   const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
        auto& heard = *static_cast<Messages*>(user);
        const std::lock_guard lock(heard.mutex);
        heard.errors.emplace_back(data->pMessage ? data->pMessage : "");
        return VK_FALSE;
    }
};

VulkanHost::VulkanHost(const Enabled& enabled)
    : fn_(std::make_unique<Functions>()), features_(std::make_unique<Features>()),
      messages_(std::make_unique<Messages>()) {
    create_instance(enabled.validation);
    create_device(enabled);
    description_.size = sizeof description_;
    description_.get_instance_proc_addr = fn_->get;
    description_.extensions = features_->extensions.data();
    description_.extension_count = features_->extensions.size();
    description_.features = &features_->base;
    description_.api_version = VK_API_VERSION_1_2;
    description_.user = this;
    description_.lock_queue = [](void* user) {
        auto& host = *static_cast<VulkanHost*>(user);
        host.queue_mutex_.lock();
        ++host.locks_;
    };
    description_.unlock_queue = [](void* user) { static_cast<VulkanHost*>(user)->queue_mutex_.unlock(); };
}

void VulkanHost::create_instance(bool validation) {
    fn_->get = open_vulkan();
    need(fn_->get, "no Vulkan loader");
    const auto list =
        fn_->global<PFN_vkEnumerateInstanceLayerProperties>("vkEnumerateInstanceLayerProperties");
    uint32_t count = 0;
    list(&count, nullptr);
    std::vector<VkLayerProperties> layers(count);
    list(&count, layers.data());
    validated_ = validation && std::ranges::any_of(layers, [](const auto& l) {
                     return !std::strcmp(l.layerName, layer_name);
                 });

    auto messenger =
        made<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = Messages::hear;
    messenger.pUserData = messages_.get();
    const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    auto application = made<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = VK_API_VERSION_1_2;
    auto info = made<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    info.pApplicationInfo = &application;
    if (validated_) {
        info.enabledLayerCount = info.enabledExtensionCount = 1;
        info.ppEnabledLayerNames = &layer_name;
        info.ppEnabledExtensionNames = &extension;
    }
    need(fn_->global<PFN_vkCreateInstance>("vkCreateInstance")(&info, nullptr, &description_.instance) ==
             VK_SUCCESS,
         "no instance");
#define LOAD(name) fn_->name = reinterpret_cast<PFN_vk##name>(fn_->get(description_.instance, "vk" #name));
    HOST_FUNCTIONS(LOAD)
#undef LOAD
    if (validated_)
        need(fn_->CreateDebugUtilsMessengerEXT(description_.instance, &messenger, nullptr,
                                               &messages_->messenger) == VK_SUCCESS,
             "no messenger");
}

void VulkanHost::create_device(const Enabled& enabled) {
    uint32_t count = 1;
    need(fn_->EnumeratePhysicalDevices(description_.instance, &count, &description_.physical_device) >= 0 &&
             count,
         "no device");
    const VkPhysicalDevice physical = description_.physical_device;
    fn_->GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    fn_->GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    while (!(families.at(description_.queue_family).queueFlags & VK_QUEUE_COMPUTE_BIT))
        ++description_.queue_family;

    fn_->EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> offered(count);
    fn_->EnumerateDeviceExtensionProperties(physical, nullptr, &count, offered.data());
    const auto offers = [&](const char* name) {
        return std::ranges::any_of(offered,
                                   [&](const auto& e) { return !std::strcmp(e.extensionName, name); });
    };
    Features& f = *features_;
    f.base.pNext = &f.v11;
    f.v11.pNext = &f.v12;
    if (enabled.everything && offers(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
        f.extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        f.v12.pNext = &f.sizes;
    }
    if (enabled.everything) {
        fn_->GetPhysicalDeviceFeatures2(physical, &f.base);
        f.base.features.robustBufferAccess = VK_FALSE;
        if (offers(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME))
            f.extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    }
    f.v12.timelineSemaphore = f.timeline.timelineSemaphore = enabled.timeline;
    if (enabled.as_own_structs) {
        f.storage16.storageBuffer16BitAccess = f.v11.storageBuffer16BitAccess;
        f.base.pNext = &f.timeline;
        f.timeline.pNext = &f.storage16;
        f.storage16.pNext = nullptr;
        f.extensions.clear();
    }
    exports_ = enabled.exports && offers(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    if (exports_) f.extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    const float priority = 1;
    auto queue = made<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queue.queueFamilyIndex = description_.queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    auto info = made<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &f.base);
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = uint32_t(f.extensions.size());
    info.ppEnabledExtensionNames = f.extensions.data();
    need(fn_->CreateDevice(physical, &info, nullptr, &description_.device) == VK_SUCCESS, "no VkDevice");
    fn_->GetDeviceQueue(description_.device, description_.queue_family, 0, &description_.queue);
}

void VulkanHost::destroy_device() {
    fn_->DestroyDevice(description_.device, nullptr);
    description_.device = VK_NULL_HANDLE;
}

VulkanHost::~VulkanHost() {
    destroy_device();
    if (messages_->messenger)
        fn_->DestroyDebugUtilsMessengerEXT(description_.instance, messages_->messenger, nullptr);
    fn_->DestroyInstance(description_.instance, nullptr);
}

std::vector<std::string> VulkanHost::errors() const {
    const std::lock_guard lock(messages_->mutex);
    return messages_->errors;
}

}  // namespace scoria::test
