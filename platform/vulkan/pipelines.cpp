// Creation of compute pipelines: every use of a module is checked against its reflected interface and
// the device's caps first, in release builds too.
#include "pipelines.h"
#include "device_impl.h"
#include "file.h"
#include "log.h"
#include "pipeline_cache.h"
#include "prune.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>

namespace scoria::vk {
namespace {

struct Need {
    ModuleNeeds bit;
    const char* name;
    bool (*met)(const Caps&);
};
constexpr Need needs_table[] = {
    {ModuleNeeds::subgroup_basic, "native subgroups", [](const Caps& c) { return c.native_subgroups(); }},
    {ModuleNeeds::subgroup_arithmetic, "subgroup_arithmetic",
     [](const Caps& c) { return c.subgroup_arithmetic; }},
    {ModuleNeeds::subgroup_shuffle, "subgroup_shuffle", [](const Caps& c) { return c.subgroup_shuffle; }},
    {ModuleNeeds::subgroup_ballot, "subgroup_ballot", [](const Caps& c) { return c.subgroup_ballot; }},
    {ModuleNeeds::float16, "float16", [](const Caps& c) { return c.float16; }},
    {ModuleNeeds::storage16, "storage16", [](const Caps& c) { return c.storage16; }},
    {ModuleNeeds::int8, "int8", [](const Caps& c) { return c.int8; }},
    {ModuleNeeds::storage8, "storage8", [](const Caps& c) { return c.storage8; }},
    {ModuleNeeds::int_dot, "int_dot", [](const Caps& c) { return c.int_dot; }},
    {ModuleNeeds::cooperative_matrix, "cooperative matrices",
     [](const Caps& c) { return c.cooperative_matrix; }},
    {ModuleNeeds::cooperative_matrix2, "cooperative matrices of any size",
     [](const Caps& c) { return c.cooperative_matrix2; }},
    {ModuleNeeds::matrix_reductions, "reductions and conversions of cooperative matrices",
     [](const Caps& c) { return c.matrix_reductions; }},
    {ModuleNeeds::bfloat16, "bfloat16", [](const Caps& c) { return c.bfloat16; }},
    {ModuleNeeds::vulkan_memory_model, "vulkan_memory_model",
     [](const Caps& c) { return c.vulkan_memory_model; }},
    {ModuleNeeds::int16, "int16", [](const Caps& c) { return c.int16; }},
    {ModuleNeeds::int64, "int64", [](const Caps& c) { return c.int64; }},
    {ModuleNeeds::texel_words, "texel_words", [](const Caps& c) { return c.texel_words; }},
    {ModuleNeeds::uniform_scalars, "uniform_scalars", [](const Caps& c) { return c.uniform_scalars; }},
};

std::optional<uint32_t> value_of(std::span<const Constant> constants, uint32_t id) {
    const auto found = std::ranges::find(constants, id, &Constant::id);
    return found == constants.end() ? std::nullopt : std::optional(found->value);
}

void check_module(const ShaderModule& module, std::span<const Constant> constants, const Caps& caps) {
    const std::string where = cat("shader ", module.name);
    if (has(module.needs, ModuleNeeds::unknown))  // that no device is asked for, whether or not it has it
        fail(Status::unsupported, where, "it needs a capability that Scoria does not know");
    for (const Need& need : needs_table)
        if (has(module.needs, need.bit) && !need.met(caps))
            fail(Status::unsupported, where, "it needs ", need.name, ", which \"", caps.name, "\" lacks");
    if (module.bindings.size() > caps.max_storage_buffers)
        fail(Status::unsupported, where, "expected at most ", caps.max_storage_buffers, " bindings, got ",
             module.bindings.size());
    if (module.push_size > caps.push_constants)
        fail(Status::unsupported, where, "expected at most ", caps.push_constants,
             " bytes of push constants, got ", module.push_size);
    for (const Constant& constant : constants)
        if (std::ranges::find(module.constant_ids, constant.id) == module.constant_ids.end())
            fail(Status::unsupported, where, "expected a specialization constant that it declares, got id ",
                 constant.id);
    if (!module.ours) return;
    const uint32_t most = std::min(caps.max_invocations, caps.max_workgroup_x);
    const uint32_t workgroup = value_of(constants, constant_workgroup).value_or(1);
    if (workgroup < 1 || workgroup > most)
        fail(Status::unsupported, where, "expected a workgroup of 1 to ", most, ", got ", workgroup);
}

// How a module is created. `size` 0 leaves it to the device, which then has only one.
struct Subgroup {
    bool full = false;
    uint32_t size = 0;
};

Subgroup check_subgroup(const ShaderModule& module, std::span<const Constant> constants, const Caps& caps) {
    const std::string where = cat("shader ", module.name);
    const std::optional<uint32_t> wanted = value_of(constants, constant_subgroup);
    if (!module.ours || !has(module.needs, ModuleNeeds::subgroup_basic)) return {};
    if (!wanted)
        fail(Status::unsupported, where, "expected the subgroup size as constant ", constant_subgroup);
    const uint32_t size = *wanted;
    if (size < caps.subgroup_min || size > caps.subgroup_max || (size & (size - 1)) != 0)
        fail(Status::unsupported, where, "expected a subgroup of ", caps.subgroup_min, " to ",
             caps.subgroup_max, ", got ", size);
    const uint32_t workgroup = value_of(constants, constant_workgroup).value_or(1);
    if (workgroup % size != 0)
        fail(Status::unsupported, where, "expected a workgroup of whole subgroups of ", size, ", got ",
             workgroup);
    if (caps.subgroup_min == caps.subgroup_max) return {caps.subgroup_size_control, 0};
    if (workgroup / size > caps.max_required_subgroups)
        fail(Status::unsupported, where, "expected at most ", caps.max_required_subgroups,
             " subgroups per workgroup, got ", workgroup / size);
    return {true, size};
}

}  // namespace

struct Pipelines::Impl {
    using Key = std::pair<const ShaderModule*, std::vector<std::pair<uint32_t, uint32_t>>>;
    struct Layout {
        VkDescriptorSetLayout set = VK_NULL_HANDLE;
        VkPipelineLayout pipeline = VK_NULL_HANDLE;
    };

    Device& device;
    const VolkDeviceTable& fn;
    VkPipelineCache cache = VK_NULL_HANDLE;
    mutable std::mutex mutex;  // guards all below
    /// Nodes do not move: references stay valid. Without a handle: some thread is making it.
    std::map<Key, Pipeline> pipelines;
    std::condition_variable settled;  // such a one is made, or gone
    size_t finished = 0;              // pipelines with a handle
    std::set<const Pipeline*> used;
    std::map<std::vector<VkDescriptorType>, Layout> layouts;  // by bindings
    double seconds = 0;                                       // of all threads
    std::optional<size_t> saved;                              // pipelines that the cache file has

    explicit Impl(Device& on) : device(on), fn(on.fn()) { open_cache(); }
    ~Impl() {
        if (!device.impl().may_free()) return;
        for (const auto& [key, pipeline] : pipelines)
            fn.vkDestroyPipeline(device.handle(), pipeline.handle, device.callbacks());
        for (const auto& [bindings, layout] : layouts) {
            fn.vkDestroyPipelineLayout(device.handle(), layout.pipeline, device.callbacks());
            fn.vkDestroyDescriptorSetLayout(device.handle(), layout.set, device.callbacks());
        }
        fn.vkDestroyPipelineCache(device.handle(), cache, device.callbacks());
    }

    std::string cache_path() const {
        const std::string& folder = device.options().cache_folder;
        return folder.empty() ? "" : folder + "/" + pipeline_cache_name(device.caps());
    }
    void open_cache();
    void save_cache();
    const Layout& layout(std::span<const Access> bindings);
    VkShaderModule shader(std::span<const uint32_t> words);
    const Pipeline& made_once(const Key& key, const ShaderModule& module);
    VkPipeline compile(const ShaderModule& module, std::span<const Constant> constants, Subgroup subgroup,
                       VkPipelineLayout layout);
    void report(const Key& key, const Pipeline& pipeline, std::vector<PipelineReport>& reports) const;
};

void Pipelines::Impl::open_cache() {
    namespace fs = std::filesystem;
    std::vector<std::byte> blob;
    const std::string path = cache_path();
    if (!path.empty()) {
        try {
            const std::string file = read_file(path, 256ull << 20);
            std::string why;
            blob = unwrap_pipeline_cache(device.caps(), std::as_bytes(std::span(file)), why);
            if (!why.empty()) log_once(cat("pipeline cache ", path, " is ignored: ", why));
        } catch (const Error&) {
            // no cache yet
        }
    }
    auto info = vk_struct<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
    const auto create = [&] {
        return fn.vkCreatePipelineCache(device.handle(), &info, device.callbacks(), &cache);
    };
    if (!blob.empty()) {
        // Drivers have crashed on what they gave out themselves: it lies aside meanwhile, so that this
        // happens once.
        const fs::path file = path_of(path), aside = path_of(path + ".tried");
        std::error_code ignored;
        fs::rename(file, aside, ignored);
        info.initialDataSize = blob.size();
        info.pInitialData = blob.data();
        const VkResult result = create();
        if (result == VK_SUCCESS) return fs::rename(aside, file, ignored);
        log(cat("pipeline cache ", path, " is given up: vkCreatePipelineCache returned ",
                result_text(result)));
        info.initialDataSize = 0;
    }
    check(create(), "vkCreatePipelineCache");
}

void Pipelines::Impl::save_cache() {
    const std::string path = cache_path();
    if (path.empty()) return;
    const std::lock_guard lock(mutex);
    if (saved == finished) return;
    saved = finished;  // also what fails below: it would again
    std::vector<std::byte> blob;
    VkResult result = VK_INCOMPLETE;
    for (int attempt = 0; attempt < 4 && result == VK_INCOMPLETE; ++attempt) {  // others compile meanwhile
        size_t bytes = 0;
        check(fn.vkGetPipelineCacheData(device.handle(), cache, &bytes, nullptr), "vkGetPipelineCacheData");
        blob.resize(bytes);
        result = fn.vkGetPipelineCacheData(device.handle(), cache, &bytes, blob.data());
        blob.resize(bytes);
    }
    check(result, "vkGetPipelineCacheData");
    const std::vector<std::byte> file = wrap_pipeline_cache(device.caps(), blob);
    // Mesa 26's lavapipe hands out less than a header: what would not be believed is not kept.
    if (std::string why; unwrap_pipeline_cache(device.caps(), file, why).empty()) return;
    make_folders(device.options().cache_folder);
    write_file_atomic(path, file);
}

// Layouts promise the device's whole push-constant range, so that they depend on the bindings alone.
const Pipelines::Impl::Layout& Pipelines::Impl::layout(std::span<const Access> bindings) {
    std::vector<VkDescriptorType> types;
    for (const Access binding : bindings) types.push_back(descriptor_type(binding));
    Layout& made = layouts[types];
    if (made.pipeline) return made;
    std::vector<VkDescriptorSetLayoutBinding> slots;
    for (const VkDescriptorType type : types)
        slots.push_back({uint32_t(slots.size()), type, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
    auto set =
        vk_struct<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    set.bindingCount = uint32_t(slots.size());
    set.pBindings = slots.data();
    if (!made.set)
        check(fn.vkCreateDescriptorSetLayout(device.handle(), &set, device.callbacks(), &made.set),
              "vkCreateDescriptorSetLayout");
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, device.caps().push_constants / 4 * 4};
    auto info = vk_struct<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    info.setLayoutCount = 1;
    info.pSetLayouts = &made.set;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &range;
    check(fn.vkCreatePipelineLayout(device.handle(), &info, device.callbacks(), &made.pipeline),
          "vkCreatePipelineLayout");
    return made;
}

VkShaderModule Pipelines::Impl::shader(std::span<const uint32_t> words) {
    auto info = vk_struct<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    info.codeSize = words.size_bytes();
    info.pCode = words.data();
    VkShaderModule made = VK_NULL_HANDLE;
    check(fn.vkCreateShaderModule(device.handle(), &info, device.callbacks(), &made), "vkCreateShaderModule");
    return made;
}

VkPipeline Pipelines::Impl::compile(const ShaderModule& module, std::span<const Constant> constants,
                                    Subgroup subgroup, VkPipelineLayout layout) {
    std::vector<VkSpecializationMapEntry> entries;
    std::vector<uint32_t> values;
    for (const Constant& constant : constants) {
        entries.push_back({constant.id, uint32_t(values.size() * 4), 4});
        values.push_back(constant.value);
    }
    const VkSpecializationInfo specialization{uint32_t(entries.size()), entries.data(), values.size() * 4,
                                              values.data()};
    auto required = vk_struct<VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT>(
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT);
    required.requiredSubgroupSize = subgroup.size;

    auto info = vk_struct<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.layout = layout;
    info.stage =
        vk_struct<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &specialization;
    if (subgroup.size) info.stage.pNext = &required;
    if (subgroup.full) info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    if (device.options().capture_statistics && device.caps().pipeline_statistics)
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    // Drivers check bounds unless told not to (NVIDIA's: three instructions a load); kernels stay within
    // their buffers.
    auto robustness =
        vk_struct<VkPipelineRobustnessCreateInfoEXT>(VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT);
    robustness.storageBuffers = robustness.uniformBuffers =
        VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DISABLED_EXT;
    if (device.caps().pipeline_robustness) info.pNext = &robustness;
    std::vector<uint32_t> words = prune(module.words, constants);
    const bool unpacks = module.ours && std::ranges::count(module.constant_ids, constant_halves_flush) != 0;
    if (unpacks && device.caps().denorm_preserve_f16)
        words = with_halves_kept(words, device.caps().denorm_f16_as_f64);
    info.stage.module = shader(words);
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result =
        fn.vkCreateComputePipelines(device.handle(), cache, 1, &info, device.callbacks(), &pipeline);
    fn.vkDestroyShaderModule(device.handle(), info.stage.module, device.callbacks());
    // What a driver cannot compile it mostly tells as memory that is lacking: hardly any other result is
    // allowed.
    if (result == VK_ERROR_DEVICE_LOST) check(result, "vkCreateComputePipelines");
    if (result != VK_SUCCESS || !pipeline)
        fail(Status::failed, "vulkan", "vkCreateComputePipelines(", module.name, ") returned ",
             result == VK_SUCCESS ? "no pipeline" : result_text(result));
    return pipeline;
}

double number_of(const VkPipelineExecutableStatisticKHR& statistic) {
    switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        return statistic.value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        return double(statistic.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        return double(statistic.value.u64);
    default:
        return statistic.value.f64;
    }
}

void Pipelines::Impl::report(const Key& key, const Pipeline& pipeline,
                             std::vector<PipelineReport>& reports) const {
    auto about = vk_struct<VkPipelineInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR);
    about.pipeline = pipeline.handle;
    uint32_t count = 0;
    const auto executables_of = fn.vkGetPipelineExecutablePropertiesKHR;
    check(executables_of(device.handle(), &about, &count, nullptr), "vkGetPipelineExecutablePropertiesKHR");
    std::vector executables(count, vk_struct<VkPipelineExecutablePropertiesKHR>(
                                       VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR));
    check(executables_of(device.handle(), &about, &count, executables.data()),
          "vkGetPipelineExecutablePropertiesKHR");
    for (uint32_t i = 0; i < count; ++i) {
        PipelineReport& made = reports.emplace_back();
        made.module = key.first->name;
        for (const auto& [id, value] : key.second) made.constants.push_back({id, value});
        made.executable = executables[i].name;
        made.subgroup = executables[i].subgroupSize;
        auto which = vk_struct<VkPipelineExecutableInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR);
        which.pipeline = pipeline.handle;
        which.executableIndex = i;
        uint32_t number = 0;
        const auto statistics_of = fn.vkGetPipelineExecutableStatisticsKHR;
        check(statistics_of(device.handle(), &which, &number, nullptr),
              "vkGetPipelineExecutableStatisticsKHR");
        std::vector statistics(number, vk_struct<VkPipelineExecutableStatisticKHR>(
                                           VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR));
        check(statistics_of(device.handle(), &which, &number, statistics.data()),
              "vkGetPipelineExecutableStatisticsKHR");
        for (const auto& statistic : statistics)
            made.statistics.emplace_back(statistic.name, number_of(statistic));
    }
}

Pipelines::Pipelines(Device& device) : device_(device) { open(); }
Pipelines::~Pipelines() = default;
void Pipelines::open() { impl_ = std::make_unique<Impl>(device_); }
void Pipelines::close() { impl_.reset(); }

/// Of several threads that want the same pipeline one makes it; others' are made meanwhile.
const Pipeline& Pipelines::Impl::made_once(const Key& key, const ShaderModule& module) {
    std::unique_lock lock(mutex);
    auto [node, mine] = pipelines.try_emplace(key);
    while (!mine) {
        if (node->second.handle) return node->second;
        settled.wait(lock);
        std::tie(node, mine) = pipelines.try_emplace(key);
    }
    try {
        std::vector<Constant> constants;
        for (const auto& [id, value] : key.second) constants.push_back({id, value});
        check_module(module, constants, device.caps());
        const Subgroup subgroup = check_subgroup(module, constants, device.caps());
        const Layout& bindings = layout(module.bindings);
        lock.unlock();
        const auto start = std::chrono::steady_clock::now();
        const VkPipeline handle = compile(module, constants, subgroup, bindings.pipeline);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        lock.lock();
        seconds += took.count();
        ++finished;
        node->second = {handle, bindings.pipeline, bindings.set, &module};
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        pipelines.erase(node);
        settled.notify_all();
        throw;
    }
    settled.notify_all();
    return node->second;
}

const Pipeline& Pipelines::get(const ShaderModule& module, std::span<const Constant> given) {
    if (!impl_) fail(Status::device_lost, "vulkan", "the device was lost, and no pipelines can be made");
    const Caps& caps = impl_->device.caps();
    Impl::Key key{&module, {}};
    for (const Constant& constant : given) key.second.emplace_back(constant.id, constant.value);
    const std::pair<uint32_t, bool> own[] = {{constant_halves_flush, caps.may_flush_halves()},
                                             {constant_converts_bytes, caps.converts_bytes()},
                                             {constant_looks_up_shared, caps.looks_up_shared()}};
    for (const auto& [id, value] : own)
        if (module.ours && std::ranges::count(module.constant_ids, id) != 0)
            key.second.emplace_back(id, value);
    std::ranges::sort(key.second);
    return impl_->made_once(key, module);
}

bool Pipelines::first_use(const Pipeline& pipeline) {
    const std::lock_guard lock(impl_->mutex);
    return impl_->used.insert(&pipeline).second;
}

std::vector<PipelineReport> Pipelines::reports() const {
    std::vector<PipelineReport> reports;
    if (!impl_ || !impl_->device.options().capture_statistics || !impl_->device.caps().pipeline_statistics)
        return reports;
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [key, pipeline] : impl_->pipelines)
        if (pipeline.handle) impl_->report(key, pipeline, reports);
    return reports;
}

size_t Pipelines::created() const {
    if (!impl_) return 0;
    const std::lock_guard lock(impl_->mutex);
    return impl_->finished;
}

std::set<std::string_view> Pipelines::modules() const {
    std::set<std::string_view> names;
    if (!impl_) return names;
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [key, pipeline] : impl_->pipelines)
        if (pipeline.handle) names.insert(key.first->name);
    return names;
}

double Pipelines::seconds_compiling() const {
    if (!impl_) return 0;
    const std::lock_guard lock(impl_->mutex);
    return impl_->seconds;
}

void Pipelines::save_cache() noexcept try {
    if (impl_) impl_->save_cache();
} catch (const std::exception& error) {
    log_once(error.what());
}

}  // namespace scoria::vk
