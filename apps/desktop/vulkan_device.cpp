// See vulkan_device.h.
#include "vulkan_device.h"

#include <SDL.h>
#include <SDL_vulkan.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

namespace scoria::desktop {
namespace {

std::string result_name(VkResult result) {
    switch (result) {
    case VK_ERROR_DEVICE_LOST:
        return "the GPU was lost";
    case VK_ERROR_SURFACE_LOST_KHR:
        return "the window's surface was lost";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return "out of GPU memory";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return "out of memory";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return "no Vulkan driver";
    default:
        return "VkResult " + std::to_string(int(result));
    }
}

std::string lower(std::string text) {
    for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

bool has_extension(VkPhysicalDevice physical, const char* name) {
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> offered(count);
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, offered.data());
    return std::ranges::any_of(offered, [&](const auto& e) { return !std::strcmp(e.extensionName, name); });
}

std::vector<VkQueueFamilyProperties> families_of(VkPhysicalDevice physical) {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    return families;
}

int rank_of(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 1;
    default:
        return 0;
    }
}

/// Higher is better. A GPU's own driver goes before one that is layered over another API (Direct3D).
int rank(VkPhysicalDevice device) {
    VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &driver};
    vkGetPhysicalDeviceProperties2(device, &properties);
    constexpr auto dozen = VkDriverId(23);  // VK_DRIVER_ID_MESA_DOZEN, of newer headers
    return 2 * rank_of(properties.properties.deviceType) + (driver.driverID != dozen);
}

}  // namespace

VulkanError::VulkanError(VkResult result_, const std::string& call)
    : std::runtime_error(call + ": " + result_name(result_)), result(result_) {}

void check(VkResult result, const char* call) {
    if (result < 0) throw VulkanError(result, call);
}

/// What is enabled of the features that scoria_vulkan.h names; the renderer needs none.
struct VulkanDevice::Features {
    VkPhysicalDeviceFeatures2 base{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan13Features v13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
#ifdef VK_KHR_cooperative_matrix
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
#endif

    /// Chains the structs that the device knows.
    void link(bool has_13, bool has_matrix) {
        base.pNext = &v11;
        v11.pNext = &v12;
        if (has_13) v12.pNext = &v13;
#ifdef VK_KHR_cooperative_matrix
        if (has_matrix) (has_13 ? v13.pNext : v12.pNext) = &matrix;
#else
        (void)has_matrix;
#endif
    }

    void enable(const Features& offered) {
        base.features.shaderInt16 = offered.base.features.shaderInt16;
        v11.storageBuffer16BitAccess = offered.v11.storageBuffer16BitAccess;
        v12.timelineSemaphore = VK_TRUE;
        v12.shaderFloat16 = offered.v12.shaderFloat16;
        v12.shaderInt8 = offered.v12.shaderInt8;
        v12.storageBuffer8BitAccess = offered.v12.storageBuffer8BitAccess;
        v12.vulkanMemoryModel = offered.v12.vulkanMemoryModel;
        v12.vulkanMemoryModelDeviceScope = offered.v12.vulkanMemoryModelDeviceScope;
        v13.subgroupSizeControl = offered.v13.subgroupSizeControl;
        v13.computeFullSubgroups = offered.v13.computeFullSubgroups;
        v13.shaderIntegerDotProduct = offered.v13.shaderIntegerDotProduct;
#ifdef VK_KHR_cooperative_matrix
        matrix.cooperativeMatrix = offered.matrix.cooperativeMatrix;
#endif
    }
};

/// A device that can do both, and the queues on it: (family, index) of the renderer and of Scoria.
struct VulkanDevice::Choice {
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkPhysicalDeviceProperties properties{};
    uint32_t family = 0;
    uint32_t engine_family = 0, engine_index = 0;

    bool shared() const { return engine_family == family && engine_index == 0; }

    /// A second queue of the renderer's family, else a queue of another, else the renderer's own.
    void give_engine_a_queue(const std::vector<VkQueueFamilyProperties>& families) {
        engine_family = family;
        engine_index = families[family].queueCount > 1 ? 1 : 0;
        for (uint32_t f = 0; engine_index == 0 && f < families.size(); ++f)
            if (f != family && (families[f].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
                engine_family = f;
                return;
            }
    }

    static std::optional<Choice> of(VkPhysicalDevice physical, VkSurfaceKHR surface) {
        Choice choice{physical};
        vkGetPhysicalDeviceProperties(physical, &choice.properties);
        if (choice.properties.apiVersion < VK_API_VERSION_1_2 ||
            !has_extension(physical, VK_KHR_SWAPCHAIN_EXTENSION_NAME))
            return std::nullopt;
        Features offered;
        offered.link(false, false);
        vkGetPhysicalDeviceFeatures2(physical, &offered.base);
        if (!offered.v12.timelineSemaphore) return std::nullopt;
        const auto families = families_of(physical);
        for (uint32_t f = 0; f < families.size(); ++f) {
            VkBool32 presents = VK_FALSE;
            vkGetPhysicalDeviceSurfaceSupportKHR(physical, f, surface, &presents);
            constexpr VkQueueFlags both = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
            if (!presents || (families[f].queueFlags & both) != both) continue;
            choice.family = f;
            choice.give_engine_a_queue(families);
            return choice;
        }
        return std::nullopt;
    }

    static Choice best(VkInstance instance, VkSurfaceKHR surface, const std::string& gpu) {
        uint32_t count = 0;
        check(vkEnumeratePhysicalDevices(instance, &count, nullptr), "vkEnumeratePhysicalDevices");
        std::vector<VkPhysicalDevice> all(count);
        check(vkEnumeratePhysicalDevices(instance, &count, all.data()), "vkEnumeratePhysicalDevices");
        std::optional<Choice> best;
        std::string seen;
        for (const VkPhysicalDevice physical : all) {
            const std::optional<Choice> choice = of(physical, surface);
            if (!choice) continue;
            const std::string name = choice->properties.deviceName;
            seen += (seen.empty() ? "" : ", ") + name;
            if (lower(name).find(lower(gpu)) == std::string::npos) continue;
            if (!best || rank(choice->physical) > rank(best->physical)) best = choice;
        }
        if (!best)
            throw std::runtime_error("[gpu] expected a device '" + gpu +
                                     "' with Vulkan 1.2, graphics and compute that can show a window, got: " +
                                     (seen.empty() ? "none" : seen));
        return *best;
    }
};

VulkanDevice::VulkanDevice(SDL_Window* window, const std::string& gpu)
    : features_(std::make_unique<Features>()) {
    try {
        create_instance(window);
        create_device(Choice::best(instance(), surface_, gpu));
    } catch (...) {
        destroy();
        throw;
    }
}

VulkanDevice::~VulkanDevice() { destroy(); }

void VulkanDevice::destroy() {
    if (handle()) vkDestroyDevice(handle(), nullptr);
    if (surface_) vkDestroySurfaceKHR(instance(), surface_, nullptr);
    if (instance()) vkDestroyInstance(instance(), nullptr);
}

void VulkanDevice::create_instance(SDL_Window* window) {
    unsigned count = 0;
    if (!SDL_Vulkan_GetInstanceExtensions(window, &count, nullptr)) throw std::runtime_error(SDL_GetError());
    std::vector<const char*> extensions(count);
    SDL_Vulkan_GetInstanceExtensions(window, &count, extensions.data());
    uint32_t version = VK_API_VERSION_1_1;
    vkEnumerateInstanceVersion(&version);
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.pApplicationName = "scoria-desktop";
    application.apiVersion = std::min(version, VK_API_VERSION_1_3);
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    info.enabledExtensionCount = count;
    info.ppEnabledExtensionNames = extensions.data();
    check(vkCreateInstance(&info, nullptr, &description_.instance), "vkCreateInstance");
    description_.api_version = application.apiVersion;
    if (!SDL_Vulkan_CreateSurface(window, instance(), &surface_)) throw std::runtime_error(SDL_GetError());
}

void VulkanDevice::create_device(const Choice& choice) {
    const VkPhysicalDevice physical = choice.physical;
    extensions_ = {VK_KHR_SWAPCHAIN_EXTENSION_NAME};
    if (has_extension(physical, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME))
        extensions_.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    const uint32_t version = std::min(description_.api_version, choice.properties.apiVersion);
    bool has_matrix = false;
#ifdef VK_KHR_cooperative_matrix
    has_matrix = has_extension(physical, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    if (has_matrix) extensions_.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
#endif
    Features offered;
    offered.link(version >= VK_API_VERSION_1_3, has_matrix);
    vkGetPhysicalDeviceFeatures2(physical, &offered.base);
    features_->link(version >= VK_API_VERSION_1_3, has_matrix);
    features_->enable(offered);

    const float priorities[] = {1.0f, 0.5f};  // frames before tokens, where a driver heeds it
    std::vector<VkDeviceQueueCreateInfo> queues(1, {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO});
    queues[0].queueFamilyIndex = choice.family;
    queues[0].queueCount = choice.engine_family == choice.family ? choice.engine_index + 1 : 1;
    queues[0].pQueuePriorities = priorities;
    if (choice.engine_family != choice.family) {
        queues.push_back(queues[0]);
        queues[1].queueFamilyIndex = choice.engine_family;
        queues[1].pQueuePriorities = priorities + 1;
    }
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features_->base};
    info.queueCreateInfoCount = uint32_t(queues.size());
    info.pQueueCreateInfos = queues.data();
    info.enabledExtensionCount = uint32_t(extensions_.size());
    info.ppEnabledExtensionNames = extensions_.data();
    check(vkCreateDevice(physical, &info, nullptr, &description_.device), "vkCreateDevice");

    family_ = choice.family;
    name_ = choice.properties.deviceName;
    is_cpu_ = choice.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    vkGetDeviceQueue(handle(), family_, 0, &queue_);
    description_.size = sizeof description_;
    description_.get_instance_proc_addr = vkGetInstanceProcAddr;
    description_.physical_device = physical;
    description_.queue_family = choice.engine_family;
    vkGetDeviceQueue(handle(), choice.engine_family, choice.engine_index, &description_.queue);
    description_.extensions = extensions_.data();
    description_.extension_count = extensions_.size();
    description_.features = &features_->base;
    if (!choice.shared()) return;
    description_.user = this;
    description_.lock_queue = [](void* user) { static_cast<VulkanDevice*>(user)->queue_mutex_.lock(); };
    description_.unlock_queue = [](void* user) { static_cast<VulkanDevice*>(user)->queue_mutex_.unlock(); };
}

}  // namespace scoria::desktop
