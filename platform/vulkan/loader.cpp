// The Vulkan loader, instance creation, and the messenger that counts validation errors.
#include "loader.h"
#include "log.h"
#include "system.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

namespace scoria::vk {
namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";
constexpr size_t kept_messages = 100;

PFN_vkGetInstanceProcAddr open_loader() {
    // Never unloaded: drivers leave threads and thread-local destructors behind.
    void* library = open_shared_library({"libvulkan.so.1", "vulkan-1.dll"});
    if (!library)
        fail(Status::unsupported, "vulkan",
             "no Vulkan loader (libvulkan.so.1, vulkan-1.dll) found: install your GPU's driver, or "
             "libvulkan1 and "
             "mesa-vulkan-drivers (Debian, Ubuntu), vulkan-loader (Fedora), vulkan-icd-loader (Arch)");
    const auto get =
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(find_procedure(library, "vkGetInstanceProcAddr"));
    if (!get)
        fail(Status::unsupported, "vulkan",
             "the library has no vkGetInstanceProcAddr: it is not a Vulkan loader");
    return get;
}

template <class Function> Function global(PFN_vkGetInstanceProcAddr get, const char* name) {
    return reinterpret_cast<Function>(get(VK_NULL_HANDLE, name));
}

/// Of Vulkan, which a layer knows; none if there is no such layer.
std::optional<uint32_t> layer_version(PFN_vkGetInstanceProcAddr get, const char* name) {
    const auto enumerate =
        global<PFN_vkEnumerateInstanceLayerProperties>(get, "vkEnumerateInstanceLayerProperties");
    uint32_t count = 0;
    check(enumerate(&count, nullptr), "vkEnumerateInstanceLayerProperties");
    std::vector<VkLayerProperties> layers(count);
    check(enumerate(&count, layers.data()), "vkEnumerateInstanceLayerProperties");
    const auto layer =
        std::ranges::find_if(layers, [&](const auto& each) { return !std::strcmp(each.layerName, name); });
    return layer == layers.end() ? std::nullopt : std::optional(layer->specVersion);
}

bool has_extension(PFN_vkGetInstanceProcAddr get, const char* layer, const char* name) {
    const auto enumerate =
        global<PFN_vkEnumerateInstanceExtensionProperties>(get, "vkEnumerateInstanceExtensionProperties");
    uint32_t count = 0;
    check(enumerate(layer, &count, nullptr), "vkEnumerateInstanceExtensionProperties");
    std::vector<VkExtensionProperties> found(count);
    check(enumerate(layer, &count, found.data()), "vkEnumerateInstanceExtensionProperties");
    return std::ranges::any_of(
        found, [&](const auto& extension) { return !std::strcmp(extension.extensionName, name); });
}

VkBool32 VKAPI_PTR on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    // Newer layers name what is wrong in the id alone.
    const std::string text =
        cat(data->pMessageIdName ? data->pMessageIdName : "", ": ", data->pMessage ? data->pMessage : "");
    scoria::log(text);  // heard even where the device is being destroyed
    auto& kept = *static_cast<ValidationLog*>(user);
    const std::lock_guard lock(kept.mutex);
    ++kept.errors;
    if (kept.messages.size() < kept_messages) kept.messages.push_back(text);
    return VK_FALSE;
}

#ifndef VK_EXT_layer_settings  // headers before 1.3.272 have no such extension, a newer layer has
#define VK_EXT_LAYER_SETTINGS_EXTENSION_NAME "VK_EXT_layer_settings"
constexpr auto VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT = VkStructureType(1000496000);
enum VkLayerSettingTypeEXT { VK_LAYER_SETTING_TYPE_BOOL32_EXT };
struct VkLayerSettingEXT {
    const char *pLayerName, *pSettingName;
    VkLayerSettingTypeEXT type;
    uint32_t valueCount;
    const void* pValues;
};
struct VkLayerSettingsCreateInfoEXT {
    VkStructureType sType;
    const void* pNext;
    uint32_t settingCount;
    const VkLayerSettingEXT* pSettings;
};
#endif

struct Setting {
    const char* name;
    bool on;
};
// Without the heuristic newer layers see no hazard between dispatches.
constexpr Setting usual_settings[] = {{"validate_sync", true}, {"syncval_shader_accesses_heuristic", true}};
// What else instrumented shaders are checked for would make some drivers compile for minutes.
constexpr Setting race_settings[] = {{"gpuav_enable", true},
                                     {"gpuav_shared_memory_data_race", true},
                                     {"gpuav_descriptor_checks", false},
                                     {"gpuav_buffer_address_oob", false},
                                     {"gpuav_buffers_validation", false},
                                     {"gpuav_post_process_descriptor_indexing", false},
                                     {"gpuav_shader_sanitizer", false},
                                     {"validate_core", false}};
constexpr uint32_t knows_races = VK_MAKE_API_VERSION(0, 1, 4, 350);

// Everything that validation chains to VkInstanceCreateInfo; the addresses stay valid while it lives.
struct ValidationChain {
    VkValidationFeatureEnableEXT enabled[1] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features{
        VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, enabled, 0, nullptr};
    VkDebugUtilsMessengerCreateInfoEXT messenger = vk_struct<VkDebugUtilsMessengerCreateInfoEXT>(
        VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    VkBool32 yes = VK_TRUE, no = VK_FALSE;
    std::vector<VkLayerSettingEXT> settings;
    VkLayerSettingsCreateInfoEXT layer{VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT, nullptr, 0, nullptr};
    std::vector<const char*> extensions;

    const void* link(PFN_vkGetInstanceProcAddr get, Validation validation, ValidationLog& log) {
        messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
        messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
        messenger.pfnUserCallback = on_message;
        messenger.pUserData = &log;
        extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
        const void* head = &messenger;
        const bool usual = validation == Validation::usual;
        if (usual && has_extension(get, validation_layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
            extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
            features.pNext = std::exchange(head, &features);
        }
        if (has_extension(get, validation_layer, VK_EXT_LAYER_SETTINGS_EXTENSION_NAME)) {
            extensions.push_back(VK_EXT_LAYER_SETTINGS_EXTENSION_NAME);
            for (const auto& [name, on] : usual ? std::span<const Setting>(usual_settings) : race_settings)
                settings.push_back(
                    {validation_layer, name, VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, on ? &yes : &no});
            layer.settingCount = uint32_t(settings.size());
            layer.pSettings = settings.data();
            layer.pNext = std::exchange(head, &layer);
        }
        return head;
    }
};

VkInstance create_instance(PFN_vkGetInstanceProcAddr get, const ValidationChain& validation,
                           const void* chain) {
    auto application = vk_struct<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.pEngineName = "scoria";
    application.apiVersion = VK_API_VERSION_1_3;  // the most that is used where a device has it
    auto info = vk_struct<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    info.pNext = chain;
    info.pApplicationInfo = &application;
    info.enabledLayerCount = chain ? 1 : 0;
    info.ppEnabledLayerNames = &validation_layer;
    info.enabledExtensionCount = uint32_t(validation.extensions.size());
    info.ppEnabledExtensionNames = validation.extensions.data();
    VkInstance instance = VK_NULL_HANDLE;
    const VkResult result = global<PFN_vkCreateInstance>(get, "vkCreateInstance")(&info, nullptr, &instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        fail(Status::unsupported, "vulkan",
             "no Vulkan driver found: install your GPU's driver, or mesa-vulkan-drivers");
    check(result, "vkCreateInstance");
    return instance;
}

}  // namespace

void Instance::load_functions() {
#define SCORIA_LOAD(name) fn_.name = reinterpret_cast<PFN_vk##name>(get_instance_proc_(handle_, "vk" #name));
    SCORIA_INSTANCE_FUNCTIONS(SCORIA_LOAD)
#undef SCORIA_LOAD
    get_device_proc_ =
        reinterpret_cast<PFN_vkGetDeviceProcAddr>(get_instance_proc_(handle_, "vkGetDeviceProcAddr"));
}

Instance::Instance(const HostDevice& host)
    : owned_(false), get_instance_proc_(host.get_instance_proc), handle_(host.instance) {
    load_functions();
    if (!fn_.GetPhysicalDeviceFeatures2 || !get_device_proc_)
        fail(Status::unsupported, "vulkan",
             "expected the entry points of Vulkan 1.1 from the host's "
             "vkGetInstanceProcAddr, got none");
}

Instance::Instance(Validation validation) : owned_(true), get_instance_proc_(open_loader()) {
    const auto version =
        global<PFN_vkEnumerateInstanceVersion>(get_instance_proc_, "vkEnumerateInstanceVersion");
    uint32_t loader_version = VK_API_VERSION_1_0;
    if (version) check(version(&loader_version), "vkEnumerateInstanceVersion");
    if (loader_version < VK_API_VERSION_1_2)
        fail(Status::unsupported, "vulkan", "expected a Vulkan loader of version 1.2 or later, got 1.",
             VK_API_VERSION_MINOR(loader_version));
    const bool layered = validation != Validation::none;
    const std::optional<uint32_t> layer =
        layered ? layer_version(get_instance_proc_, validation_layer) : std::nullopt;
    if (layered && !layer)
        fail(Status::unsupported, "vulkan", validation_layer, " not found: install vulkan-validationlayers");
    if (validation == Validation::races && *layer < knows_races)
        fail(Status::unsupported, "vulkan", "expected ", validation_layer, " of version ",
             version_text(knows_races), " or later, which looks for data races, got ", version_text(*layer));

    ValidationChain setup;
    const void* chain = layered ? setup.link(get_instance_proc_, validation, *log_) : nullptr;
    handle_ = create_instance(get_instance_proc_, setup, chain);
    load_functions();
    if (!layered) return;
    const VkResult result = fn_.CreateDebugUtilsMessengerEXT(handle_, &setup.messenger, nullptr, &messenger_);
    if (result != VK_SUCCESS) fn_.DestroyInstance(handle_, nullptr);
    check(result, "vkCreateDebugUtilsMessengerEXT");
}

Instance::~Instance() {
    if (messenger_) fn_.DestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
    if (owned_) fn_.DestroyInstance(handle_, nullptr);
}

std::vector<VkPhysicalDevice> Instance::physical_devices() const {
    uint32_t count = 0;
    std::vector<VkPhysicalDevice> devices;
    VkResult result = VK_INCOMPLETE;
    while (result == VK_INCOMPLETE) {  // a device may appear between the two calls
        result = fn_.EnumeratePhysicalDevices(handle_, &count, nullptr);
        if (result == VK_ERROR_INITIALIZATION_FAILED) break;  // every driver failed to start: no device
        check(result, "vkEnumeratePhysicalDevices");
        devices.resize(count);
        result = fn_.EnumeratePhysicalDevices(handle_, &count, devices.data());
    }
    if (result == VK_ERROR_INITIALIZATION_FAILED)
        count = 0;
    else
        check(result, "vkEnumeratePhysicalDevices");
    devices.resize(count);
    return devices;
}

}  // namespace scoria::vk
