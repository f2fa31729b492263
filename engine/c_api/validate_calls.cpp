// Proof of kernels and of whole models, for hosts.
#include "objects.h"
#include "pipelines.h"
#include "validate/model_check.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

constexpr scoria_validate_options validate_defaults{.size = sizeof(scoria_validate_options)};
static_assert(offsetof(scoria_validate_options, reserved) + 4 == sizeof(scoria_validate_options));
static_assert(offsetof(scoria_check, reserved) + 4 == sizeof(scoria_check));
static_assert(offsetof(scoria_check_counts, failed) + 4 == sizeof(scoria_check_counts));

/// Counts results, and hands them on.
struct Listener {
    int (*on_check)(void* user, const scoria_check* check);
    void* user;
    scoria_check_counts counts{.size = sizeof(scoria_check_counts)};

    void operator()(const validate::CheckResult& result) {
        ++counts.cases;
        counts.failed += !result.passed;
        const scoria_check check{.size = sizeof(scoria_check),
                                 .op = result.op.c_str(),
                                 .variant = result.variant.c_str(),
                                 .shape = result.shape.c_str(),
                                 .detail = result.detail.c_str(),
                                 .share = result.share(),
                                 .passed = result.passed};
        if (on_check && !on_check(user, &check))
            fail(Status::cancelled, "validate", "cancelled by the caller");
    }
};

}  // namespace

scoria_status scoria_validate(const scoria_validate_options* given, scoria_check_counts* counts) {
    return guarded([&] {
        const scoria_validate_options options =
            given ? versioned(given, validate_defaults) : validate_defaults;
        require(options.full <= 1, "full of 0 or 1");
        require(counts != nullptr, "a place for the counts");
        check_size<scoria_check_counts>(counts->size);
        const auto wanted = [&](const validate::OpCheck& check) {
            return !options.op || std::string_view(options.op) == check.op;
        };
        require(std::ranges::any_of(validate::op_checks(), wanted), "an op that there is");
        vk::Device device({.select = options.device ? options.device : ""});
        vk::Pipelines pipelines(device);
        Listener listener{options.on_check, options.user};
        validate::CheckContext context(
            device, pipelines, options.full ? validate::Tier::full : validate::Tier::quick, /*seed=*/1);
        context.on_result = std::ref(listener);
        for (const validate::OpCheck& check : validate::op_checks())
            if (wanted(check) && !validate::run_check(context, check))
                fail(Status::device_lost, check.op, "the device was lost");
        fill(counts, listener.counts);
    });
}

scoria_status scoria_engine_validate(scoria_engine* engine, const int32_t* ids, size_t count,
                                     int (*on_check)(void* user, const scoria_check* check), void* user,
                                     scoria_check_counts* counts) {
    return guarded([&] {
        const EngineUse use(engine);
        require(ids && count, "ids");
        require(counts != nullptr, "a place for the counts");
        check_size<scoria_check_counts>(counts->size);
        Listener listener{on_check, user};
        for (const validate::CheckResult& result : validate::check_model(use->engine, ids_of(ids, count)).ops)
            listener(result);
        fill(counts, listener.counts);
    });
}
