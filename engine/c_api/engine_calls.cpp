// Devices and engines of the C interface.
#include "engine.h"
#include "file.h"
#include "lora.h"
#include "objects.h"
#include "scoria_vulkan.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

constexpr scoria_engine_options engine_defaults{.size = sizeof(scoria_engine_options),
                                                .precision = SCORIA_BALANCED};
static_assert(offsetof(scoria_engine_options, draft_path) + sizeof(char*) == sizeof(scoria_engine_options));
static_assert(offsetof(scoria_allocation, device_local) + 4 == sizeof(scoria_allocation));
static_assert(offsetof(scoria_engine_info, prompt_chunk) + 4 == sizeof(scoria_engine_info));
static_assert(offsetof(scoria_memory, host_kv) + 8 == sizeof(scoria_memory));
static_assert(offsetof(scoria_vulkan, reserved) + 4 == sizeof(scoria_vulkan));
static_assert(offsetof(scoria_device, uuid) + 16 == sizeof(scoria_device));

std::shared_ptr<const vk::HostDevice> host_device(const scoria_vulkan* given) {
    if (!given) return nullptr;
    const scoria_vulkan host = versioned(given, {.size = sizeof(scoria_vulkan)});
    require(host.get_instance_proc_addr && host.instance && host.physical_device && host.device && host.queue,
            "scoria_vulkan with vkGetInstanceProcAddr, instance, physical device, device and queue");
    require(!host.lock_queue == !host.unlock_queue, "both lock_queue and unlock_queue, or neither");
    require(host.extensions || !host.extension_count, "extensions for their count");
    require((host.export_memory & (host.export_memory - 1)) == 0, "one handle type or none");
    auto device = std::make_shared<vk::HostDevice>();
    device->get_instance_proc = host.get_instance_proc_addr;
    device->instance = host.instance;
    device->physical = host.physical_device;
    device->device = host.device;
    device->queue = host.queue;
    device->queue_family = host.queue_family;
    device->api_version = host.api_version;
    device->exports = host.export_memory;
    for (size_t i = 0; i < host.extension_count; ++i) {
        require(host.extensions[i] != nullptr, "a name for every extension");
        device->extensions.emplace_back(host.extensions[i]);
    }
    device->features = vk::copy_features(host.features);
    if (host.allocator) {
        require(host.allocator->pfnAllocation && host.allocator->pfnReallocation && host.allocator->pfnFree,
                "an allocator that allocates, reallocates and frees");
        device->allocator = *host.allocator;
    }
    if (host.lock_queue) {
        device->lock = [host] { host.lock_queue(host.user); };
        device->unlock = [host] { host.unlock_queue(host.user); };
    }
    return device;
}

scoria_allocation as_c(const vk::MemoryPiece& piece) {
    return {.size = sizeof(scoria_allocation),
            .bytes = piece.bytes,
            .in_use = piece.in_use,
            .count = piece.count,
            .device_local = piece.device_local};
}

void check_submission_ms(float ms) {
    require(ms >= 0 && ms <= 1e6f, "milliseconds of a submission from 0 to 1000000");
}

void set_callbacks(EngineOptions& to, const scoria_engine_options& options) {
    void* const user = options.user;
    if (options.progress)
        to.progress = [progress = options.progress, user](uint64_t done, uint64_t total) {
            if (!progress(user, done, total)) fail(Status::cancelled, "engine", "cancelled by the caller");
        };
    if (options.on_submission)
        to.on_slice = [on = options.on_submission, user](double seconds) { on(user, float(1e3 * seconds)); };
    if (options.on_allocate)
        to.device.memory.may_allocate = [on = options.on_allocate, user](const vk::MemoryPiece& piece) {
            const scoria_allocation allocation = as_c(piece);
            return on(user, &allocation) != 0;
        };
    if (options.on_free)
        to.device.memory.freed = [on = options.on_free, user](const vk::MemoryPiece& piece) {
            const scoria_allocation allocation = as_c(piece);
            on(user, &allocation);
        };
    if (options.available_memory)
        to.available_memory = [available = options.available_memory, user] { return available(user); };
    to.device.memory.most_pieces = options.max_allocations;
}

/// What scoria_engine_options ask for.
struct Wanted {
    std::shared_ptr<const Model> model;
    EngineOptions options;
};

Wanted wanted(const scoria_engine_options* given) {
    const scoria_engine_options options = versioned(given, engine_defaults);
    require(options.model_path != nullptr, "a model_path");
    require(options.precision <= SCORIA_FAST, "a precision from 0 to 2");
    require(options.kv <= SCORIA_KV_Q4_0, "a kv from 0 to 5");
    require(options.mmap <= 1 && options.deterministic <= 1 && options.layer_ahead <= 1 &&
                options.shows_hidden <= 1,
            "mmap, deterministic, layer_ahead and shows_hidden of 0 or 1");
    check_submission_ms(options.submission_ms);
    require(!options.available_memory || !options.memory_budget,
            "available_memory or memory_budget, not both");
    require(options.adapters || !options.adapter_count, "adapters for their count");
    Wanted result;
    EngineOptions& to = result.options;
    to.device.host = host_device(options.vulkan);
    if (options.device) to.device.select = options.device;
    if (options.cache_folder) to.device.cache_folder = options.cache_folder;
    to.precision = Precision(options.precision);
    if (options.kv != SCORIA_KV_BY_PRECISION) to.kv = KvType(options.kv - SCORIA_KV_F32);
    to.context = options.context;
    to.prompt_chunk = options.prompt_chunk;
    to.deterministic = options.deterministic;
    to.rehearse.prompt = usual_prompt;
    to.submission_budget_ms = double{options.submission_ms};
    to.memory_budget = options.memory_budget;
    to.sequences = std::max(options.sequences, 1u);
    to.shared_context = options.shared_context;
    require(!options.shows_hidden || !options.draft_path, "shows_hidden or a draft_path, not both");
    if (options.shows_hidden) to.shows = {read_by_head};
    set_callbacks(to, options);
    std::vector<AdapterChoice> adapters;
    for (size_t i = 0; i < options.adapter_count; ++i) {
        require(options.adapters[i].path != nullptr, "a path for every adapter");
        reserved_is_zero(options.adapters[i]);
        adapters.push_back({path_of(options.adapters[i].path), double{options.adapters[i].scale}});
    }
    const ModelPart part = options.layer_ahead ? ModelPart::ahead : ModelPart::whole;
    const Reads reads = options.mmap ? Reads::mapped : Reads::positioned;
    const auto model =
        std::make_shared<Model>(open_model(path_of(options.model_path), reads, Floats8::blocks, part));
    attach_adapters(*model, adapters);
    result.model = model;
    const auto other = [&](const char* path) {
        return std::make_shared<const Model>(open_model(path_of(path), reads));
    };
    if (options.target_path) result.model = with_target(result.model, other(options.target_path));
    if (options.draft_path)
        to.shows = with_target(other(options.draft_path), result.model)->architecture.takes;
    return result;
}

/// Of several devices, the sum of them all.
scoria_memory as_c(MemoryPlan plan, uint64_t in_use) {
    for (const MemoryPlan& other : plan.before)
        for (uint64_t MemoryPlan::*bytes :
             {&MemoryPlan::weights, &MemoryPlan::kv, &MemoryPlan::states, &MemoryPlan::scratch,
              &MemoryPlan::staging, &MemoryPlan::heap_size, &MemoryPlan::heap_budget,
              &MemoryPlan::host_weights, &MemoryPlan::host_kv})
            plan.*bytes += other.*bytes;
    return {.size = sizeof(scoria_memory),
            .weights = plan.weights,
            .kv = plan.kv + plan.states,
            .scratch = plan.scratch,
            .staging = plan.staging,
            .heap_size = plan.heap_size,
            .heap_budget = plan.heap_budget,
            .in_use = in_use,
            .context = plan.context,
            .source = plan.source,
            .host_weights = plan.host_weights,
            .host_budget = plan.host_budget,
            .shared = plan.shared,
            .host_kv = plan.host_kv};
}

scoria_engine_info info_of(EngineObject& object) {
    const Model& model = *object.model;
    const Architecture& architecture = model.architecture;
    const bool pair = !architecture.encoder.empty();
    const Tokenizer* tokenizer = model.tokenizer.get();
    return {.size = sizeof(scoria_engine_info),
            .model_name = model.name.c_str(),
            .family = architecture.family.c_str(),
            .tokenizer = object.tokenizer_kind.c_str(),
            .device_name = object.device_name.c_str(),
            .driver_name = object.driver_name.c_str(),
            .kind = uint32_t(pair                           ? SCORIA_ENCODER_DECODER
                             : architecture.bidirectional() ? SCORIA_ENCODER
                                                            : SCORIA_DECODER),
            .vocab = architecture.logits(),
            .hidden = object.embedder.size(),
            .layers = uint32_t(architecture.layers.size()),
            .context = object.engine.memory_plan().context,
            .has_chat_template = !model.chat_template.empty(),
            .bos = tokenizer ? tokenizer->bos() : -1,
            .eos = tokenizer ? tokenizer->eos() : -1,
            .decoder_start = pair ? int32_t(architecture.decoder_start) : -1,
            .decoder_next = model.begins.empty() ? -1 : model.begins.front(),
            .source = object.engine.memory_plan().source,
            .prompt_chunk = object.engine.impl().layout.tokens};
}

}  // namespace

scoria_status scoria_list_devices(void (*on_device)(void* user, const scoria_device* device), void* user) {
    return guarded([&] {
        require(on_device != nullptr, "a callback");
        const std::vector<vk::ListedDevice> devices = vk::list_devices();
        for (size_t i = 0; i < devices.size(); ++i) {
            const vk::Caps& caps = devices[i].caps;
            const std::string driver = cat(caps.driver_name, " ", caps.driver_info);
            scoria_device device{.size = sizeof(scoria_device),
                                 .name = caps.name.c_str(),
                                 .driver = driver.c_str(),
                                 .unusable = devices[i].unusable.c_str(),
                                 .index = uint32_t(i),
                                 .type = uint32_t(caps.type),
                                 .chosen = devices[i].chosen,
                                 .api_version = caps.api_version};
            std::ranges::copy(caps.device_uuid, device.uuid);
            on_device(user, &device);
        }
    });
}

scoria_status scoria_engine_options_init(scoria_engine_options* options, size_t size) {
    return guarded([&] { initialise(options, size, engine_defaults); });
}

scoria_status scoria_engine_create(const scoria_engine_options* options, scoria_engine** engine) {
    return guarded([&] {
        require(engine != nullptr, "a place for the engine");
        *engine = nullptr;
        Wanted from = wanted(options);
        auto object = std::make_shared<EngineObject>(std::move(from.model), from.options);
        *engine = reinterpret_cast<scoria_engine*>(engines().add(std::move(object), new_handle()));
    });
}

scoria_status scoria_engine_destroy(scoria_engine* engine) {
    return guarded([&] {
        if (!engine) return;
        int64_t nobody = 0;
        if (!engines().find(engine, "engine")->users.compare_exchange_strong(nobody, -1))
            fail(Status::busy, "scoria.h",
                 "expected an engine without sessions, batches and calls that run, got ", nobody, " of them");
        engines().end(engine);
    });
}

scoria_status scoria_engine_set_submission_ms(scoria_engine* engine, float ms) {
    return guarded([&] {
        const EngineUse use(engine);
        check_submission_ms(ms);
        use->engine.set_submission_budget(double{ms});
    });
}

scoria_status scoria_engine_evict(scoria_engine* engine) {
    return guarded([&] { EngineUse(engine)->engine.evict(); });
}

scoria_status scoria_engine_restore(scoria_engine* engine,
                                    int (*progress)(void* user, uint64_t done, uint64_t total), void* user) {
    return guarded([&] {
        EngineUse(engine)->engine.restore([&](uint64_t done, uint64_t total) {
            if (progress && !progress(user, done, total))
                fail(Status::cancelled, "engine", "cancelled by the caller");
        });
    });
}

scoria_status scoria_plan_memory(const scoria_engine_options* options, scoria_memory* memory) {
    return guarded([&] {
        require(memory != nullptr, "a place for the figures");
        check_size<scoria_memory>(memory->size);
        const Wanted from = wanted(options);
        fill(memory, as_c(plan_memory(*from.model, from.options), 0));
    });
}

scoria_status scoria_engine_memory(scoria_engine* engine, scoria_memory* memory) {
    return guarded([&] {
        const EngineUse use(engine);
        uint64_t in_use = 0;
        const auto no_recovery = use->engine.impl().use();
        for (const vk::Device* device : use->engine.devices())
            for (const vk::HeapState& heap : device->heaps()) in_use += heap.ours;
        fill(memory, as_c(use->engine.memory_plan(), in_use));
    });
}

scoria_status scoria_engine_get_info(scoria_engine* engine, scoria_engine_info* info) {
    return guarded([&] {
        const EngineUse use(engine);
        fill(info, info_of(*use.operator->()));
    });
}
