// devices: what is there, what each can do, what would be used. plan: the memory plan on one of them.
#include "common.h"
#include "io.h"
#include "verbs.h"

#include "console.h"
#include "paths.h"
#include "text_table.h"
#include "verdicts.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace scoria::cli {
namespace {

const char* type_name(vk::DeviceType type) {
    switch (type) {
    case vk::DeviceType::integrated:
        return "integrated";
    case vk::DeviceType::discrete:
        return "discrete";
    case vk::DeviceType::virtual_gpu:
        return "virtual";
    case vk::DeviceType::cpu:
        return "CPU";
    case vk::DeviceType::other:
        break;
    }
    return "other";
}

std::string subgroup_text(const vk::Caps& caps) {
    if (caps.subgroup_min == caps.subgroup_max) return cat(caps.subgroup_size);
    return cat(caps.subgroup_min, '-', caps.subgroup_max);
}

std::string feature_text(const vk::Caps& caps) {
    std::string text;
    for (const auto& [present, name] :
         {std::pair(caps.native_subgroups(), "subgroups"), std::pair(caps.float16, "f16"),
          std::pair(caps.storage16, "storage16"), std::pair(caps.int8, "int8"),
          std::pair(caps.int_dot_fast, "dot8"), std::pair(caps.bfloat16, "bf16"),
          std::pair(caps.unified_memory, "unified")})
        if (present) text += cat(text.empty() ? "" : " ", name);
    return text;
}

/// One GPU under two drivers is two devices of the same ids: the one a plain run prefers stands for both.
const vk::ListedDevice* shown_instead(const std::vector<vk::ListedDevice>& devices, size_t index) {
    const vk::Caps& caps = devices[index].caps;
    for (size_t other = 0; other < devices.size(); ++other) {
        const vk::Caps& twin = devices[other].caps;
        const bool same_gpu = !caps.is_cpu() && twin.vendor_id == caps.vendor_id &&
                              twin.device_id == caps.device_id && twin.driver_id != caps.driver_id;
        const bool preferred = devices[other].chosen || (other < index && !devices[index].chosen);
        if (same_gpu && preferred && devices[other].unusable.empty()) return &devices[other];
    }
    return nullptr;
}

std::string devices_table(const std::vector<vk::ListedDevice>& devices) {
    TextTable table({"", "device", "type", "driver", "Vulkan", "subgroup", "binding", "shared", "features"});
    std::string notes;
    for (size_t i = 0; i < devices.size(); ++i) {
        const vk::Caps& caps = devices[i].caps;
        if (!devices[i].unusable.empty()) {
            notes += cat(i, ": ", caps.name, " cannot be used: ", devices[i].unusable, '\n');
        } else if (const vk::ListedDevice* twin = shown_instead(devices, i)) {
            notes +=
                cat(i, ": ", twin->caps.name, " again, under ", caps.driver_name, " (--device ", i, ")\n");
        } else {
            table.add({cat(i, devices[i].chosen ? "*" : ""), caps.name, type_name(caps.type),
                       cat(caps.driver_name, ' ', caps.driver_info), vk::version_text(caps.api_version),
                       subgroup_text(caps), bytes_text(caps.max_binding), bytes_text(caps.shared_memory),
                       feature_text(caps)});
        }
    }
    return (table.empty() ? "" : table.text()) + notes + "* is used unless --device says otherwise\n";
}

/// One line per device with verdicts, and one per variant that is quarantined or suspected.
std::string verdicts_text(const std::vector<StoredVerdicts>& all) {
    std::string text;
    for (const StoredVerdicts& stored : all) {
        if (!stored.current) continue;
        const auto& [passed, failed, suspected] = stored.verdicts;
        text += cat("self-tests on ", stored.device, " (", stored.driver, "): ", passed.size(), " passed, ",
                    failed.size(), " variants left out\n");
        for (const auto& [variant, why] : failed) text += cat("  ", variant, ": ", why, '\n');
        for (const std::string& variant : suspected)
            text += cat("  ", variant,
                        ": the process ended while it was tested; once more, and it is left out\n");
    }
    return text;
}

nlohmann::json verdicts_json(const std::vector<StoredVerdicts>& all, const vk::Caps& caps) {
    for (const StoredVerdicts& stored : all)
        if (stored.current && stored.device == caps.name && stored.driver == driver_version(caps))
            return {{"passed", stored.verdicts.passed},
                    {"quarantined", stored.verdicts.failed},
                    {"suspected", stored.verdicts.suspected}};
    return nullptr;
}

std::string devices_json(const std::vector<vk::ListedDevice>& devices,
                         const std::vector<StoredVerdicts>& verdicts) {
    nlohmann::json rows = nlohmann::json::array();
    for (size_t i = 0; i < devices.size(); ++i)
        rows.push_back({{"index", i},
                        {"chosen", devices[i].chosen},
                        {"unusable", devices[i].unusable},
                        {"self_tests", verdicts_json(verdicts, devices[i].caps)},
                        {"caps", nlohmann::json::parse(vk::to_json(devices[i].caps))}});
    return json_text(rows, 1) + "\n";
}

nlohmann::json plan_json(const MemoryPlan& plan) {
    nlohmann::json parts = nlohmann::json::array();
    for (const KvPart& part : plan.kv_parts)
        parts.push_back({{"kind", kv_part_names[size_t(part.kind)]},
                         {"caches", part.slots},
                         {"positions", part.positions},
                         {"bytes", part.bytes}});
    nlohmann::json before = nlohmann::json::array();  // of several devices, those with the layers before
    for (const MemoryPlan& device : plan.before) before.push_back(plan_json(device));
    return {{"device", plan.device},
            {"layers", {plan.layers.first, plan.layers.end}},
            {"before", before},
            {"weights", plan.weights},
            {"kv", plan.kv},
            {"kv_parts", parts},
            {"states", plan.states},
            {"scratch", plan.scratch},
            {"total", plan.device_total()},
            {"heap_size", plan.heap_size},
            {"heap_budget", plan.heap_budget},
            {"host_weights", plan.host_weights},
            {"host_kv", plan.host_kv},
            {"staging", plan.staging},
            {"host_total", plan.host_total()},
            {"host_budget", plan.host_budget},
            {"context", plan.context},
            {"chunk", plan.chunk},
            {"fits", plan.fits()}};
}

/// "  12 layers: window, 1056 positions each"
std::string kv_text(const KvPart& part) {
    return cat("  ", part.slots, part.slots == 1 ? " layer: " : " layers: ", kv_part_names[size_t(part.kind)],
               part.positions ? cat(", ", part.positions, " positions") : "");
}

std::string plan_text(const MemoryPlan& plan, bool several) {
    TextTable table({"memory", "part", "size", "bytes"});
    const auto add = [&](const char* memory, const std::string& part, uint64_t bytes) {
        table.add({memory, part, bytes_text(bytes), cat(bytes)});
    };
    add("device", "weights", plan.weights);
    add("", "KV cache", plan.kv);
    if (!plan.host_kv)
        for (const KvPart& kv : plan.kv_parts) add("", kv_text(kv), kv.bytes);
    if (plan.states) add("", cat("states of ", plan.recurrences, " layers"), plan.states);
    add("", "scratch", plan.scratch);
    add("", "total", plan.device_total());
    add("", "may be used", plan.heap_budget);
    add("host", "weights", plan.host_weights);
    if (plan.host_kv) add("", "KV cache", plan.host_kv);
    add("", "staging, while loading", plan.staging);
    add("", "may be used", plan.host_budget);
    return cat(
        several ? cat("\nlayers ", plan.layers.first, " to ", plan.layers.end - 1, " on ", plan.device, '\n')
                : "",
        table.text());
}

}  // namespace

Action define_devices(CLI::App& app, const Common& common) {
    auto forget = std::make_shared<bool>(false);
    app.add_flag("--forget", *forget,
                 "forget what self-tests found: quarantined variants get another chance");
    return [forget, &common] {
        if (*forget) {
            note("forgot ", forget_verdicts(cache_folder()), " files of verdicts");
            return 0;
        }
        if (!common.device.empty() || !common.caps.empty())
            fail(Status::bad_argument, "devices",
                 "expected neither --device nor --caps: it shows all devices as they are");
        const std::vector<vk::ListedDevice> devices = vk::list_devices();
        const std::vector<StoredVerdicts> verdicts = stored_verdicts(cache_folder());
        print(common.json ? devices_json(devices, verdicts)
                          : devices_table(devices) + verdicts_text(verdicts));
        return 0;
    };
}

Action define_plan(CLI::App&, const Common& common) {
    return [&common] {
        const std::shared_ptr<const Model> model = load_model(common);
        const MemoryPlan plan = plan_memory(*model, engine_options(common));
        if (common.json) {
            print(json_text(plan_json(plan), 1), '\n');
        } else {
            print(shown(model->name, true), ", context ", plan.context, ", prompts by ", plan.chunk,
                  " tokens\n");
            for (const MemoryPlan& device : plan.before) print(plan_text(device, true));
            print(plan_text(plan, !plan.before.empty()));
        }
        if (plan.all_fit()) return 0;
        const auto unfit = std::ranges::find_if_not(plan.before, &MemoryPlan::fits);
        const MemoryPlan& too_big = unfit == plan.before.end() ? plan : *unfit;
        note("scoria: [plan] expected at most ", bytes_text(too_big.heap_budget), " of device memory and ",
             bytes_text(too_big.host_budget), " of the host's, got ", bytes_text(too_big.device_total()),
             " and ", bytes_text(too_big.host_total()),
             ": it does not fit (--ctx makes the KV cache smaller)");
        return 1;
    };
}

}  // namespace scoria::cli
