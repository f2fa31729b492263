// The first-run self-test: the variants that a model uses on a device, each at the model's sizes, against the
// double-precision reference on sampled outputs. It runs before weights are uploaded and on data of its own,
// so that a driver that fails costs no loading.
#include "self_test.h"

#include "engine.h"
#include "fail.h"
#include "log.h"
#include "ops/kv_layout.h"
#include "validate/checks.h"
#include "verdicts.h"

#include <algorithm>

namespace scoria {
namespace {

using validate::CheckContext;

/// Runs the check of one use.
class UseCheck {
  public:
    UseCheck(CheckContext& context, const Engine::Impl& engine, const VariantUse& use)
        : context_(context), engine_(engine), use_(use) {}

    void run() {
        context_.only_op = use_.op;
        context_.only_variant = use_.chosen;
        if (use_.kernel < engine_.plan.kernels.size())
            std::visit(*this, engine_.plan.kernels[use_.kernel].kernel);
        else
            table(use_.op);
    }

    void operator()(const kernel::Linear& k) {
        const WeightGroup& weight = group(k.weight);
        const bool activate = k.activation && !k.glu;
        const Activation activation =
            k.activation.value_or(engine_.model->architecture.layers[0].feed_forward.activation);
        const LinearVariant variant =
            engine_.choices.linear(context_.caps(), {use_.tokens, weight.rows, weight.cols, weight.type});
        // No test may take the 2 s after which Windows resets a GPU: the slowest do some 1e10 products in a
        // second.
        constexpr uint64_t most_products = 5'000'000'000;
        constexpr uint32_t least_tokens = 64;  // more than any tile's
        const uint64_t fitting = most_products / (uint64_t{weight.rows} * weight.cols);
        const uint32_t tokens = std::min(use_.tokens, std::max(least_tokens, uint32_t(fitting)));
        validate::ModelLinear shape{tokens,
                                    weight.rows,
                                    weight.cols,
                                    weight.type,
                                    k.bias.has_value(),
                                    k.residual.has_value(),
                                    k.glu,
                                    activate,
                                    activation,
                                    k.norm && variant.folds_norm(use_.tokens)};
        validate::check_linear(context_, shape, variant);
        if (!k.heads) return;
        const auto& heads = std::get<kernel::RopeCache>(engine_.plan.kernels[*k.heads].kernel);
        if (!ends_heads(variant, rope_shape(heads, engine_.model->architecture, engine_.kv_type()))) return;
        const auto column = [&](TensorId tensor) { return engine_.plan.placements[tensor.index].first; };
        constexpr uint32_t most_rotated = 16;  // tokens: the reference makes every row of them
        shape.tokens = std::min(tokens, most_rotated);
        validate::check_linear_heads(context_, shape, rope_of(heads),
                                     (column(k.out) - column(heads.q)) / heads.shape.head_dim, variant);
    }
    void operator()(const kernel::Attention& k) {
        if (k.shape.mask == Mask::global_rows) return table("attention");
        // Of masks that see ahead or count from a start, a sequence from its first token on.
        // A sequence as long as tells, not as long as fits: the reference reads all of it.
        constexpr uint32_t most_positions = 1024;
        const uint32_t positions = std::max(engine_.memory.context, engine_.memory.source);
        const uint32_t end = std::max(use_.tokens, std::min(positions, most_positions));
        validate::check_attention(
            context_,
            {k.shape, engine_.kv_type(), use_.tokens,
             use_.tokens == 1 && k.shape.mask == Mask::causal ? end - 1 : 0, wraps(k.layer)},
            engine_.choices.attention(context_.caps(), attention_shape(k.shape, use_.tokens, positions),
                                      engine_.kv_type()));
    }
    void operator()(const kernel::Embed& k) {
        validate::check_embed(context_, group(k.table).type, group(k.table).rows, group(k.table).cols);
    }
    void operator()(const kernel::Norm& k) {
        validate::check_norm(context_, {k.kind, use_.tokens, cols(k.out), k.group, k.own_weights,
                                        k.weight.has_value(), k.bias.has_value()});
    }
    void operator()(const kernel::RopeCache& k) { validate::check_rope_cache(context_, rope_of(k)); }
    void operator()(const kernel::Glu& k) {
        if (k.clamp.limit > 0) return table("glu");
        validate::check_glu(context_, use_.tokens, cols(k.out), k.activation);
    }
    void operator()(const kernel::Add& k) {
        validate::check_add(context_, use_.tokens, cols(k.out), k.scale);
    }
    void operator()(const kernel::ExpertLinear& k) {
        const ExpertShape shape = expert_shape(engine_.plan, engine_.graph, k, use_.tokens);
        validate::check_experts(
            context_, {shape, k.bias.has_value(), k.glu.has_value(), k.glu.value_or(Activation::silu)},
            engine_.choices.experts(context_.caps(), shape));
    }
    /// The rest is small, and general in its sizes: the op's table of cases serves.
    template <class Kernel> void operator()(const Kernel&) {
        constexpr std::pair<std::string_view, const char*> in_tables_of[] = {{"route", "experts"},
                                                                             {"expert_sum", "experts"},
                                                                             {"hash", "chunk_attention"},
                                                                             {"sort", "chunk_attention"}};
        for (const auto& [op, of] : in_tables_of)
            if (use_.op == op) return table(of);
        table(use_.op);
    }

  private:
    /// Whether positions wrap in a slot of the cache.
    bool wraps(uint32_t slot) const {
        const KvLength length = engine_.cache_length();
        return KvCache::slot_entries(engine_.model->architecture, length)[slot] <
               kv_blocks_for(length.positions);
    }
    validate::ModelRope rope_of(const kernel::RopeCache& k) const {
        const RopeShape rope = rope_shape(k, engine_.model->architecture, engine_.kv_type());
        return {use_.tokens,
                k.shape.heads,
                k.shape.kv_heads,
                rope.head_dim,
                rope.width,
                rope.pairs,
                rope.type,
                k.q_norm || k.k_norm,
                k.norm_after,
                wraps(k.layer),
                k.shape.latent.kv_rank != 0,
                rope.grows};
    }
    const WeightGroup& group(GroupId id) const { return engine_.plan.weight_groups[id]; }
    uint32_t cols(TensorId tensor) const { return engine_.graph.tensors[tensor.index].cols; }
    void table(std::string_view op) {
        for (const validate::OpCheck& check : validate::op_checks())
            if (op == check.op) check.run(context_);
    }

    CheckContext& context_;
    const Engine::Impl& engine_;
    const VariantUse& use_;
};

/// Why the variant of a use cannot be trusted; empty if it can. Errors: timeout, after which nothing can run;
/// out_of_device_memory and out_of_host_memory, which say nothing of the variant.
std::string fault_of(Engine::Impl& engine, const VariantUse& use) {
    // A driver's watchdog ends what hangs sooner; CPU drivers have none, and compile at the first dispatch.
    constexpr std::chrono::seconds hardware_patience(60);
    // Others may have lost the device: once is no verdict yet.
    for (int losses = 0;; ++losses) {
        try {
            CheckContext context(engine.device, engine.pipelines, validate::Tier::quick, 1);
            if (!engine.device.caps().is_cpu()) context.patience = hardware_patience;
            context.on_result = [](const validate::CheckResult& result) {
                if (!result.passed) fail(Status::failed, result.shape, result.detail);
            };
            UseCheck(context, engine, use).run();
            if (context.results().empty())
                log_once(cat("[self-test] no check knows ", use.key(), ": it runs untested"));
            return {};
        } catch (const Error& error) {
            if (error.status() == Status::timeout || error.status() == Status::out_of_device_memory ||
                error.status() == Status::out_of_host_memory)
                throw;
            if (error.status() != Status::device_lost) return error.what();
            engine.device.reopen([&] { engine.pipelines.close(); });
            engine.pipelines.open();
            if (losses > 0) return error.what();
        } catch (const std::bad_alloc&) {
            fail(Status::out_of_host_memory, "self-test", "out of host memory");
        }
    }
}

/// Makes the pipelines in use, several at once, before each is proven: drivers of GPUs compile one for a
/// third of a second (an H200, tools/bench/RESULTS.md). Whose fault it is if that ends the process nobody
/// knows: it is done once, and at later starts each is made when it is proven.
void make_pipelines(Engine::Impl& engine, VerdictBook& book) {
    constexpr const char* in_journal = "all pipelines at once";
    if (engine.device.caps().is_cpu()) return;
    if (book.verdicts().suspected.contains(in_journal)) {
        log("[self-test] pipelines are made one by one");
        return;
    }
    const size_t threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
    book.begin(in_journal);
    try {
        engine.weights.emplace(engine.device, *engine.model, engine.graph, engine.plan, engine.places,
                               engine.memory.context, vk::MemoryUse::none);
        Rehearsal(engine, {engine.layout.tokens, false}, threads).wait();
        log(cat("[self-test] ", engine.pipelines.created(), " pipelines made by ", threads, " threads"));
    } catch (const std::exception& error) {
        log_once(cat("[self-test] ", error.what()));
    }
    engine.forget_weights();
    book.end();
}

std::string test_name(const VariantUse& use) { return cat(use.key(), ", ", use.shape); }

/// What runs now where `failed` did.
std::string replacement(const std::vector<VariantUse>& uses, const VariantUse& failed) {
    for (const VariantUse& use : uses)
        if (use.kernel == failed.kernel && use.op == failed.op && use.tokens >= failed.tokens)
            return use.chosen;
    return "the next variant";
}

}  // namespace

bool self_test_wanted(const EngineOptions& options, const vk::Caps& caps) {
    if (options.device.host) return false;
    if (options.self_test != SelfTest::automatic) return options.self_test == SelfTest::always;
    // lavapipe compiles the kernels of SmolLM2 and runs them at its sizes for 4.5 s of processor time, more
    // than the rest of the first start; and CPU drivers are what every build is tested on.
    return !options.device.cache_folder.empty() && !caps.is_cpu();
}

void Engine::Impl::self_test() {
    const vk::Caps caps = device.caps();  // of this device or, once lost, the next
    if (!self_test_wanted(options, caps)) return;
    VerdictBook book(options.device.cache_folder, caps);
    const auto untested = [&](const std::vector<VariantUse>& all) {
        return std::ranges::find_if(
            all, [&](const VariantUse& use) { return !book.verdicts().passed.contains(test_name(use)); });
    };
    std::vector<VariantUse> all = uses();
    auto next = untested(all);
    const bool again = options.self_test == SelfTest::always;
    if ((next == all.end() && !again) || !book.open_journal()) return;
    if (again) book.forget_passed();
    next = untested(all);
    log(cat("[self-test] first use of ", caps.name, " (driver ", caps.driver_info,
            ") for these shapes: proving kernels"));
    if (next != all.end()) make_pipelines(*this, book);
    for (; next != all.end(); next = untested(all)) {
        // A copy: `all` changes.
        const auto use = VariantUse(*next);
        if (options.progress) options.progress(0, memory.weights + memory.host_weights);  // it may cancel
        book.begin(use.key());
        std::string fault;
        try {
            fault = fault_of(*this, use);
        } catch (const Error& error) {
            const bool memory_lacks = error.status() == Status::out_of_device_memory ||
                                      error.status() == Status::out_of_host_memory;
            if (!memory_lacks) throw;  // the journal stays open
            log(cat("[self-test] not finished at this start: ", error.what()));
            book.end();
            break;
        }
        book.end();
        if (fault.empty()) {
            book.passed(test_name(use));
            continue;
        }
        book.acquit(use.key());
        book.failed(use.key(), fault);
        book.save();
        choices.quarantined = book.verdicts().failed;
        plan_memory();  // which holds what variants keep for themselves
        all = uses();
        log(cat("[self-test] ", use.key(), " on ", caps.name, " (driver ", caps.driver_info, "): ", fault,
                "; using ", replacement(all, use), " instead"));
    }
    if (next == all.end())
        for (const VariantUse& use : all) book.acquit(use.key());  // all of its tests passed
    book.save();
    pipelines.save_cache();
}

}  // namespace scoria
