// Cases of compress: what a cache holds after a segment of a compressed memory.
#include "cache_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/compress.h"
#include "reference/compress.h"

namespace scoria::validate {
namespace {

struct Case {
    CompressedMemory memory;
    uint32_t segment;  // entered now
    uint32_t kv_heads, head_dim;
    KvType type;
};
constexpr Case cases[] = {
    {{16, 16, 12, 2}, 2, 2, 12, KvType::f32},  // the first slots
    {{16, 16, 12, 2}, 3, 2, 12, KvType::f32},  // more slots than there is room for
    {{20, 33, 9, 3}, 5, 1, 64, KvType::f16},   // a rest is dropped, rows of several blocks
    {{8, 40, 16, 4}, 9, 3, 20, KvType::f16},  {{8, 40, 16, 4}, 9, 3, 20, KvType::bf16},
    {{7, 0, 5, 1}, 4, 2, 12, KvType::f32},  // no memory, nothing averaged
    {{4, 8, 0, 2}, 6, 2, 12, KvType::f32},  // no slots
};

void run_case(CheckContext& context, const Case& c) {
    const uint32_t end = c.memory.segment * c.segment, cols = c.kv_heads * c.head_dim;
    const CompressedWindow before = compressed_window(c.memory, c.segment - 1),
                           after = compressed_window(c.memory, c.segment);
    HostCache host(c.type, c.kv_heads, c.head_dim, end, 1, context.seed);
    const CheckSequence sequence{0, 1, host.own(end)};
    std::vector<double> expected[2];
    for (const bool value : {false, true}) {
        const std::vector<float> random = random_floats(size_t(end) * cols, context.seed + value);
        for (uint32_t p = 0; p < end; ++p) {
            host.set(sequence.table, value, p, std::span(random).subspan(size_t(p) * cols, cols));
            for (uint32_t i = 0; i < cols; ++i)
                expected[value].push_back(host.get(sequence.table, value, p, i));
        }
        reference::compress(expected[value], cols, before, after, c.memory.rate);
    }
    const std::vector<uint32_t> words = step_words(std::span(&sequence, 1));
    const vk::Buffer step = context.buffer_of<uint32_t>(words);
    const uint32_t table = uint32_t(words.size() - sequence.table.size());
    const Bounds bounds = c.type == KvType::f16    ? bounds_of(1, half_unit_roundoff)
                          : c.type == KvType::bf16 ? bounds_of(1, bfloat_unit_roundoff)
                                                   : bounds_of(c.memory.rate);
    for (const KernelVariant& variant : compress_variants(context.caps())) {
        if (context.leaves_out("compress", variant)) continue;
        const auto run = [&] {
            const CheckCache cache(context, host, 1);
            context.run([&](OpContext& ops) {
                record_compress(ops, {step.view(), table, &cache.device, before, after, c.memory.rate},
                                variant);
            });
            HostCache changed = host;
            cache.download(context, changed);
            return changed;
        };
        const HostCache changed = run();
        const std::string error =
            run().words == changed.words ? stray_writes(host, changed) : "a second run differs";
        for (const bool value : {false, true}) {
            std::vector<float> actual;
            for (uint32_t p = after.low; p < end; ++p)
                for (uint32_t i = 0; i < cols; ++i)
                    actual.push_back(float(changed.get(sequence.table, value, p, i)));
            context.compare("compress", variant.name,
                            cat("segment ", c.segment, " of ", c.memory.segment, ", memory ", c.memory.memory,
                                ", ", c.memory.slots, " slots of ", c.memory.rate, value ? ", v" : ", k"),
                            std::span(expected[value]).subspan(size_t(after.low) * cols), actual, cols,
                            bounds, error);
        }
    }
}

}  // namespace

void check_compress(CheckContext& context) {
    for (const Case& c : cases) run_case(context, c);
}

}  // namespace scoria::validate
