// A host that lives long: answers of varied length, cancels and reloads, over as many tokens as
// SCORIA_SOAK_TOKENS says (200,000 take hours on a CPU driver), of the model SCORIA_SOAK_MODEL. Answers must
// stay what they were, and memory flat, but for what the driver itself keeps of a device that is gone.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace scoria::test;

namespace {

/// KiB of this process in memory, free heap given back first.
double resident_kib() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
    uint64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return double(resident) * double(::sysconf(_SC_PAGESIZE)) / 1024;
}

/// Growth per step, by least squares over the second half of the samples: the first half fills caches.
double growth(const std::vector<double>& samples) {
    const size_t first = samples.size() / 2, count = samples.size() - first;
    double x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = first; i < samples.size(); ++i) {
        const double at = double(i);
        x += at, y += samples[i], xx += at * at, xy += at * samples[i];
    }
    const double n = double(count);
    return count < 2 ? 0 : (n * xy - x * y) / (n * xx - x * x);
}

/// What the driver alone keeps: KiB per device created and destroyed.
double driver_growth(size_t cycles) {
    std::vector<double> samples;
    for (size_t i = 0; i < cycles; ++i) {
        { const VulkanHost host({.validation = false}); }
        samples.push_back(resident_kib());
    }
    return growth(samples);
}

struct Soak {
    std::mt19937_64 random{17};
    std::map<size_t, std::vector<int32_t>> answers;  // by prompt
    uint64_t tokens = 0, prompt_tokens = 0, whole = 0, cancelled = 0;

    size_t below(size_t count) { return size_t(random() % count); }

    /// One answer: to the end of a random length, or cancelled before; as it was whenever it was given.
    void answer(scoria_session* session, const scoria_engine_info& info) {
        constexpr size_t prompts = 24;
        const size_t which = below(prompts);
        std::vector<int32_t> prompt(1 + which * which % 61);
        for (size_t i = 0; i < prompt.size(); ++i)
            prompt[i] = int32_t((which * 7919 + i * i * 104729 + i) % info.vocab);
        scoria_generate_options options =
            greedy(uint32_t(1 + below(std::min<size_t>(120, info.context - prompt.size() - 1))));
        options.temperature = which % 3 == 0 ? 0.0f : 0.8f;
        options.seed = which;
        size_t left = below(4) == 0 ? 1 + below(options.max_tokens) : SIZE_MAX;
        options.user = &left;
        options.on_token = [](void* user, int32_t, const char*, size_t) {
            return --*static_cast<size_t*>(user) ? 1 : 0;
        };
        if (below(2)) REQUIRE_OK(scoria_session_truncate(session, 0));
        REQUIRE_OK(scoria_session_replace(session, prompt.data(), prompt.size()));
        scoria_generate_result result{};
        result.size = sizeof result;
        const scoria_status status = scoria_session_generate(session, &options, &result);
        REQUIRE((status == SCORIA_OK || status == SCORIA_CANCELLED));
        ++(status == SCORIA_OK ? whole : cancelled);
        std::vector<int32_t> all(prompt.size() + result.tokens);
        size_t count = 0;
        REQUIRE_OK(scoria_session_tokens(session, all.data(), all.size(), &count));
        REQUIRE(count == all.size());
        const std::vector<int32_t> given(all.begin() + std::ptrdiff_t(prompt.size()), all.end());
        std::vector<int32_t>& known = answers[which];
        const size_t shared = std::min(known.size(), given.size());
        CHECK(std::equal(given.begin(), given.begin() + std::ptrdiff_t(shared), known.begin()));
        if (given.size() > known.size()) known = given;
        tokens += given.size();
        prompt_tokens += prompt.size();
    }
};

}  // namespace

TEST_CASE("soak: answers stay what they were and memory stays flat" * needs_fixtures()) {
    const std::string model = variable("SCORIA_SOAK_MODEL", tiny_model());
    const uint64_t wanted = std::stoull(variable("SCORIA_SOAK_TOKENS", deep() ? "20000" : "800"));
    const double start_kib = resident_kib();
    const auto start = std::chrono::steady_clock::now();
    Soak soak;
    std::vector<double> lives, last_life;
    double within = 0;
    while (soak.tokens < wanted) {
        scoria_engine_options options = engine_options(model);
        options.deterministic = 1;  // so that an answer depends on nothing that came before it
        if (model != tiny_model()) options.context = 256;
        {
            const Loaded loaded(options);
            const scoria_engine_info info = info_of(loaded.engine);
            last_life.clear();
            for (size_t answers = 2 + soak.below(deep() ? 60 : 4); answers > 0; --answers) {
                soak.answer(loaded.session, info);
                last_life.push_back(resident_kib());
            }
            within = std::max(within, growth(last_life));
        }
        lives.push_back(resident_kib());
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double per_life = growth(lives), driver = driver_growth(std::min<size_t>(lives.size() + 2, 60));
    MESSAGE(soak.tokens << " tokens after " << soak.prompt_tokens << " of prompts, " << soak.whole
                        << " answers and " << soak.cancelled << " cancelled, " << lives.size() << " loads, "
                        << seconds << " s; KiB resident " << start_kib << " at first, " << lives.front()
                        << " after one load, " << lives.back() << " at the end; growth per load " << per_life
                        << ", of the driver's device alone " << driver << ", per answer at most " << within);
    if (lives.size() < 20) return;  // too few for a slope
    CHECK(per_life <= driver + 32);
}
