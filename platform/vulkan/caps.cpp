// One table of the members of Caps serves both the narrowing by profiles and the JSON report.
#include "caps.h"
#include "fail.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace scoria::vk {
namespace {

using Json = nlohmann::ordered_json;

enum class Narrows : uint8_t { down, up };  // alignment: larger is poorer

// visit(name, member, Narrows) for every member that a profile may narrow.
template <class CapsRef, class Visitor> void visit_narrowable(CapsRef& caps, Visitor visit) {
#define SCORIA_CAP(member) visit(#member, caps.member, Narrows::down)
    SCORIA_CAP(max_storage_range);
    SCORIA_CAP(max_allocation);
    SCORIA_CAP(max_binding);
    SCORIA_CAP(max_storage_buffers);
    SCORIA_CAP(max_invocations);
    SCORIA_CAP(max_workgroup_x);
    SCORIA_CAP(max_groups);
    SCORIA_CAP(shared_memory);
    SCORIA_CAP(push_constants);
    visit("storage_alignment", caps.storage_alignment, Narrows::up);
    SCORIA_CAP(subgroup_arithmetic);
    SCORIA_CAP(subgroup_shuffle);
    SCORIA_CAP(subgroup_ballot);
    SCORIA_CAP(subgroup_size_control);
    SCORIA_CAP(float16);
    SCORIA_CAP(storage16);
    SCORIA_CAP(int8);
    SCORIA_CAP(storage8);
    SCORIA_CAP(int16);
    SCORIA_CAP(int64);
    SCORIA_CAP(texel_words);
    SCORIA_CAP(uniform_scalars);
    SCORIA_CAP(int_dot);
    SCORIA_CAP(vulkan_memory_model);
    SCORIA_CAP(bfloat16);
    SCORIA_CAP(cooperative_matrix);
    SCORIA_CAP(cooperative_matrix2);
    SCORIA_CAP(matrix_reductions);
    SCORIA_CAP(memory_budget);
    SCORIA_CAP(pipeline_statistics);
    SCORIA_CAP(pipeline_robustness);
    SCORIA_CAP(unified_memory);
    SCORIA_CAP(denorm_preserve_f16);
    SCORIA_CAP(rte_f16);
    SCORIA_CAP(inf_nan_preserve_f32);
    SCORIA_CAP(timestamp_bits);
#undef SCORIA_CAP
}

template <class Number>
void narrow_number(const Json& value, Number& member, Narrows way, const std::string& where) {
    // A limit of 0 would describe a device that can do nothing; 0 timestamp bits means there are none.
    const bool may_be_zero = where.ends_with("timestamp_bits");
    if (!value.is_number_unsigned() || (value == 0u && !may_be_zero))
        fail(Status::bad_file, where, "expected a positive whole number, got ", value.dump());
    const uint64_t wanted = value.get<uint64_t>();
    if (way == Narrows::up) {
        if (!std::has_single_bit(wanted) || wanted > 1u << 16)
            fail(Status::bad_file, where, "expected a power of two of at most 65536, got ", wanted);
        member = std::max(member, Number(wanted));
    } else if (wanted < member) {
        member = Number(wanted);
    }
}

void narrow(const Json& value, uint32_t& member, Narrows way, const std::string& where) {
    narrow_number(value, member, way, where);
}
void narrow(const Json& value, uint64_t& member, Narrows way, const std::string& where) {
    narrow_number(value, member, way, where);
}
void narrow(const Json& value, bool& member, Narrows, const std::string& where) {
    if (!value.is_boolean()) fail(Status::bad_file, where, "expected true or false, got ", value.dump());
    member = member && value.get<bool>();
}

constexpr const char* type_names[] = {"other", "integrated", "discrete", "virtual", "cpu"};

/// What kernels are chosen by and nothing else depends on is taken as it is, so that a CPU driver runs what a
/// GPU would. False: `key` is no such member.
bool imitate(const std::string& key, const Json& value, Caps& caps, const std::string& where) {
    if (key == "type") {
        const auto name = std::ranges::find(type_names, value.is_string() ? value.get<std::string>() : "");
        if (name == std::end(type_names))
            fail(Status::bad_file, where, "expected a type of device, got ", value.dump());
        caps.type = DeviceType(name - std::begin(type_names));
    } else if (key == "vendor_id" || key == "cores") {
        if (!value.is_number_unsigned())
            fail(Status::bad_file, where, "expected a number, got ", value.dump());
        (key == "cores" ? caps.cores : caps.vendor_id) =
            uint32_t(std::min<uint64_t>(value.get<uint64_t>(), UINT32_MAX));
    } else if (key == "int_dot_fast") {
        if (!value.is_boolean()) fail(Status::bad_file, where, "expected true or false, got ", value.dump());
        caps.int_dot_fast = value.get<bool>();
    } else {
        return false;
    }
    return true;
}

std::string hex(const std::array<uint8_t, 16>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

}  // namespace

std::string version_text(uint32_t packed) {  // VK_API_VERSION_MAJOR and so on, without Vulkan's headers
    return cat((packed >> 22) & 0x7F, ".", (packed >> 12) & 0x3FF, ".", packed & 0xFFF);
}

std::string below_floor(const Caps& caps) {
    struct Limit {
        const char* name;
        uint32_t Caps::*member;
    };
    constexpr Limit limits[] = {{"max_storage_buffers", &Caps::max_storage_buffers},
                                {"max_invocations", &Caps::max_invocations},
                                {"max_workgroup_x", &Caps::max_workgroup_x},
                                {"shared_memory", &Caps::shared_memory},
                                {"push_constants", &Caps::push_constants}};
    const Caps floor;  // of which these are the defaults
    for (const auto& [name, member] : limits)
        if (caps.*member < floor.*member)
            return cat(name, " of at least ", floor.*member, ", got ", caps.*member);
    return "";
}

Caps narrowed(const Caps& caps, const std::string& json_text, const std::string& where) {
    const Json profile = Json::parse(json_text, nullptr, false);
    if (!profile.is_object()) fail(Status::bad_file, where, "expected a JSON object of limits and features");
    Caps result = caps;
    for (const auto& [key, value] : profile.items()) {
        if (key.starts_with('_') || imitate(key, value, result, cat(where, ": ", key))) continue;
        bool known = false;
        visit_narrowable(
            result, [&, &name = key, &wanted = value](const char* member_name, auto& member, Narrows way) {
                if (name != member_name) return;
                known = true;
                narrow(wanted, member, way, cat(where, ": ", name));
            });
        if (!known)
            fail(Status::bad_file, where, "expected the name of a limit or feature, got \"", key, "\"");
    }
    if (const std::string low = below_floor(result); !low.empty())
        fail(Status::bad_file, where, "expected ", low);
    result.int_dot_fast = result.int_dot_fast && result.int_dot;
    // Its kernels need all of these too.
    result.cooperative_matrix = result.cooperative_matrix && result.float16 && result.vulkan_memory_model &&
                                result.native_subgroups();
    result.cooperative_matrix2 = result.cooperative_matrix2 && result.cooperative_matrix;
    result.matrix_reductions = result.matrix_reductions && result.cooperative_matrix2;
    result.max_binding = std::min({result.max_binding, result.max_storage_range, result.max_allocation});
    return result;
}

std::string to_json(const Caps& caps) {
    Json grains = Json::array();
    for (const MatrixGrain& grain : caps.matrix_grains)
        grains.push_back(
            {{"m", grain.m}, {"n", grain.n}, {"k", grain.k}, {"invocations", grain.invocations}});
    Json out = {{"name", caps.name},
                {"type", type_names[size_t(caps.type)]},
                {"driver_name", caps.driver_name},
                {"driver_info", caps.driver_info},
                {"vendor_id", caps.vendor_id},
                {"int_dot_fast", caps.int_dot_fast},
                {"device_id", caps.device_id},
                {"driver_id", caps.driver_id},
                {"driver_version", caps.driver_version},
                {"api_version", version_text(caps.api_version)},
                {"pipeline_cache_uuid", hex(caps.pipeline_cache_uuid)},
                {"device_uuid", hex(caps.device_uuid)},
                {"driver_uuid", hex(caps.driver_uuid)},
                {"subgroup_size", caps.subgroup_size},
                {"subgroup_min", caps.subgroup_min},
                {"subgroup_max", caps.subgroup_max},
                {"max_required_subgroups", caps.max_required_subgroups},
                {"matrix_m", caps.matrix_m},
                {"matrix_n", caps.matrix_n},
                {"matrix_k", caps.matrix_k},
                {"matrix_subgroup", caps.matrix_subgroup},
                {"matrix_grains", grains},
                {"matrix_most", caps.matrix_most},
                {"matrix_reserved", caps.matrix_reserved},
                {"cores", caps.cores},
                {"denorm_f16_as_f64", caps.denorm_f16_as_f64},
                {"timeline_semaphore", caps.timeline_semaphore},
                {"timestamp_period", caps.timestamp_period}};
    visit_narrowable(caps, [&](const char* name, const auto& member, Narrows) { out[name] = member; });
    return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

bool Caps::old_lavapipe() const {
    constexpr std::string_view before = "Mesa ";  // which calls its lavapipe's driver_version 1
    if (driver_id != driver_lavapipe || !driver_info.starts_with(before)) return false;
    const unsigned long mesa = std::strtoul(driver_info.c_str() + before.size(), nullptr, 10);
    return mesa > 0 && mesa < 26;
}

}  // namespace scoria::vk
