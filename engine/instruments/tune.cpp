// See tune.h.
#include "instruments/tune.h"

#include "engine.h"
#include "fail.h"
#include "file.h"
#include "instruments/op_timer.h"
#include "log.h"
#include "ops/experts.h"
#include "ops/kv_layout.h"
#include "ops/weight_layout.h"
#include "tuned_variants.h"
#include "validate/checks.h"
#include "verdicts.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>

namespace scoria {
namespace {

using TuneClock = std::chrono::steady_clock;

// A gain below this is the clock's noise; a variant this many times slower is not timed more closely, and
// after so many of them no other of their kernel is timed, unless it is the default's.
constexpr double least_gain = 0.03, hopeless = 1.5;
constexpr uint32_t most_hopeless = 3;
// A step reads each matrix once, from memory: as many copies take turns as no cache holds.
constexpr uint64_t cache_bytes = 128ull << 20;
constexpr uint32_t most_keys = 4096;  // that attention is timed over, where the context is longer

std::string name_of(const LinearVariant& variant) { return variant.name; }
std::string name_of(const AttentionVariant& variant) { return attention_text(variant); }
/// What variants have in common that are slow together.
std::pair<Shader, bool> kernel_of(const LinearVariant& variant) { return {variant.shader, variant.sorted}; }
std::pair<Shader, bool> kernel_of(const AttentionVariant& variant) { return {variant.shader, false}; }

class Tuner {
  public:
    Tuner(Engine::Impl& engine, const TuneOptions& options)
        : engine_(engine), options_(options), caps_(engine.device.caps()),
          timer_(engine.device, engine.pipelines, engine.options.precision, {}),
          tuned_(engine.options.device.cache_folder, caps_),
          verdicts_(engine.options.device.cache_folder, caps_) {}

    TuneReport run() {
        const std::vector<TuneTarget> targets =
            tune_targets(engine_.plan, engine_.graph, engine_.choices, engine_.limits());
        TuneReport report{.targets = targets.size()};
        verdicts_.open_journal();
        for (const TuneTarget& target : targets) {
            if (late()) break;
            report.rows.push_back(
                std::visit([&](const auto& shape) { return search(target, shape); }, target.shape));
            timer_.forget();
            tuned_.save();
            if (options_.on_row) options_.on_row(report.rows.back());
        }
        report.seconds = seconds();
        const TunedBook kept(engine_.options.device.cache_folder, caps_);  // what the next start finds
        if (std::filesystem::exists(path_of(kept.path())) && kept.entries() == tuned_.entries())
            report.path = kept.path();
        return report;
    }

  private:
    double seconds() const { return std::chrono::duration<double>(TuneClock::now() - start_).count(); }
    bool late() const { return seconds() > options_.seconds; }

    TuneRow search(const TuneTarget& target, const LinearShape& shape) {
        const auto& k = std::get<kernel::Linear>(engine_.plan.kernels[target.kernel].kernel);
        const Activation activation =
            k.activation.value_or(engine_.model->architecture.layers[0].feed_forward.activation);
        const bool activate = k.activation && !k.glu;
        const std::vector<DeviceWeight> copies = weights(shape);
        const Matrix x = timer_.matrix(target.tokens, shape.cols),
                     out = timer_.matrix(target.tokens, k.glu ? shape.rows / 2 : shape.rows);
        const auto record = [&](const LinearVariant& variant) -> OpTimer::Record {
            const vk::View scratch =
                timer_.room(linear_scratch_bytes(variant, target.tokens, shape.rows, shape.cols));
            return [&, variant, scratch, turn = size_t{0}](OpContext& ops) mutable {
                record_linear(ops,
                              {.x = x,
                               .out = out,
                               .weight = copies[turn++ % copies.size()],
                               .glu = k.glu,
                               .activate = activate,
                               .activation = activation,
                               .scratch = scratch},
                              variant);
            };
        };
        const auto prove = [&](validate::CheckContext& context, const LinearVariant& variant) {
            validate::check_linear(context,
                                   {target.tokens, shape.rows, shape.cols, shape.type, k.bias.has_value(),
                                    k.residual.has_value(), k.glu, activate, activation},
                                   variant);
        };
        LinearShape at = shape;
        at.tokens = target.tokens;
        return pick(target, "linear", linear_of(shape.type), engine_.choices.linear(caps_, at),
                    linear_candidates(caps_, shape), record, prove);
    }

    TuneRow search(const TuneTarget& target, const ExpertShape& shape) {
        const auto& k = std::get<kernel::ExpertLinear>(engine_.plan.kernels[target.kernel].kernel);
        const bool bias = k.bias.has_value(), glu = k.glu.has_value();
        const Activation activation = k.glu.value_or(Activation::silu);
        ExpertShape at = shape;
        at.tokens = target.tokens;
        const ExpertShape timed = affordable(at);
        const DeviceWeight& weight = timer_.weight(at.type, timed.experts * at.rows, at.cols);
        const Matrix x = timer_.matrix(timed.tokens, at.cols * (at.per_slot ? at.used : 1)),
                     out = timer_.matrix(timed.tokens, at.used * at.rows / (glu ? 2 : 1));
        // Each turn asks others: of one token, weights are as cold as in a step.
        constexpr uint32_t turns = 64;
        const vk::View routes = timer_.floats(random_routes(turns + timed.tokens, timed.experts, at.used));
        std::vector<LinearVariant> candidates = expert_candidates(caps_, shape);
        const LinearVariant standard = engine_.choices.experts(caps_, at);
        // A lane of it makes two rows of an expert, which of many tokens takes a CPU half a minute.
        std::erase_if(candidates, [](const LinearVariant& v) { return v.shader == Shader::linear_expert; });
        uint64_t most = expert_scratch_bytes(standard, timed);
        for (const LinearVariant& variant : candidates)
            most = std::max(most, expert_scratch_bytes(variant, timed));
        const vk::View scratch = timer_.room(most);
        const auto record = [&](const LinearVariant& variant) -> OpTimer::Record {
            return [&, variant, turn = 0u](OpContext& ops) mutable {
                std::optional<Matrix> of_turn;
                if (!at.heads)
                    of_turn = {routes, timed.tokens, 2 * at.used, 2 * at.used, turn++ % turns * 2 * at.used};
                record_expert_linear(
                    ops, {x, of_turn, out, weight, {}, timed.experts, at.used, glu, activation, scratch},
                    variant);
            };
        };
        const auto prove = [&](validate::CheckContext& context, const LinearVariant& variant) {
            validate::check_experts(context, {at, bias, glu, activation}, variant);
        };
        return pick(target, op_name(at), linear_of(at.type), standard, candidates, record, prove);
    }

    /// The same with fewer experts, for fewer tokens, as many to each: what a device has room and time for
    /// (Windows resets a GPU after 2 s).
    static ExpertShape affordable(ExpertShape shape) {
        constexpr uint64_t most_bytes = 256ull << 20, most_products = 5'000'000'000;
        const auto products = [&] { return uint64_t{shape.tokens} * shape.used * shape.rows * shape.cols; };
        while ((layout_bytes(shape.type, shape.experts * shape.rows, shape.cols) > most_bytes ||
                products() > most_products) &&
               shape.experts % 2 == 0 && shape.experts / 2 >= shape.used)
            shape.experts /= 2, shape.tokens = (shape.tokens + 1) / 2;
        return shape;
    }

    /// [tokens][ids of different experts, shares of a half]
    static std::vector<float> random_routes(uint32_t tokens, uint32_t experts, uint32_t used) {
        std::mt19937 random(1);
        std::vector<float> ids(experts), routes;
        std::iota(ids.begin(), ids.end(), 0.0f);
        for (uint32_t t = 0; t < tokens; ++t) {
            for (uint32_t s = 0; s < used; ++s) std::swap(ids[s], ids[s + random() % (experts - s)]);
            routes.insert(routes.end(), ids.begin(), ids.begin() + used);
            routes.insert(routes.end(), used, 0.5f);
        }
        return routes;
    }

    TuneRow search(const TuneTarget& target, const CachedAttention& attention) {
        const auto& k = std::get<kernel::Attention>(engine_.plan.kernels[target.kernel].kernel);
        AttentionShape at = attention.shape;
        at.tokens = target.tokens;
        const uint32_t keys = std::max(std::min(at.context, most_keys), at.tokens), first = keys - at.tokens;
        uint32_t outputs_word = 0;
        const vk::View step = timer_.step(first, at.tokens, outputs_word);
        const DeviceKv& kv = timer_.cache(keys, kv_rows(attention.kv, k.shape));
        const Matrix q = timer_.matrix(at.tokens, at.heads * at.head_dim),
                     out = timer_.matrix(at.tokens, q.cols);
        const auto record = [&](const AttentionVariant& variant) -> OpTimer::Record {
            const vk::View partials = timer_.room(attention_partial_bytes(variant, at));
            return [&, variant, partials](OpContext& ops) {
                record_attention(ops, {q, out, step, &kv, partials, k.shape, {}, {}}, variant);
            };
        };
        const auto prove = [&](validate::CheckContext& context, const AttentionVariant& variant) {
            constexpr uint32_t provable = 1024;  // keys: the reference reads all of them
            const uint32_t end = std::max(at.tokens, std::min(keys, provable));
            validate::check_attention(
                context, {k.shape, attention.kv, at.tokens, at.tokens == 1 ? end - 1 : 0, false}, variant);
        };
        return pick(target, "attention", attention_of(at.head_dim, attention.kv),
                    engine_.choices.attention(caps_, at, attention.kv), attention_candidates(caps_, at),
                    record, prove);
    }

    /// Times `standard`, what was kept before and the other candidates, and keeps the fastest that is proven.
    /// Where time ends before any of these, what was kept before stays.
    template <class Variant, class Record, class Prove>
    TuneRow pick(const TuneTarget& target, std::string_view op, const std::string& of,
                 const Variant& standard, std::vector<Variant> candidates, const Record& record,
                 const Prove& prove) {
        TuneRow row{.key = target.key(), .standard = name_of(standard), .variant = name_of(standard)};
        const auto key = [&](const Variant& variant) { return variant_key(op, variant.name, of); };
        double best = 1e30;
        std::vector<std::pair<double, const Variant*>> timed;
        // Candidates by turns with the default: their compilers leave a GPU idle, whose clock goes down.
        const OpTimer::Record of_standard = record(standard);
        const auto time = [&](const Variant& variant) {
            double us = 0;  // of what fails
            guarded(key(variant), [&] {
                us = timed.empty() ? timer_.time(of_standard)
                                   : row.standard_us * timer_.ratio(record(variant), of_standard,
                                                                    hopeless * best / row.standard_us);
                timed.emplace_back(us, &variant);
                if (options_.on_time) options_.on_time(target.key(), name_of(variant), us);
                best = std::min(best, us);
            });
            ++row.candidates;
            return us;
        };
        time(standard);
        if (timed.empty()) return row;
        row.standard_us = row.us = best;
        const auto kept = tuned_.entries().find(row.key);
        if (kept != tuned_.entries().end())
            std::ranges::stable_partition(
                candidates, [&](const Variant& variant) { return name_of(variant) == kept->second; });
        std::map<std::pair<Shader, bool>, uint32_t> slow;  // of a kernel, one after the other
        for (const Variant& variant : candidates) {
            if (late()) break;
            const bool left_out =
                verdicts_.verdicts().failed.contains(key(variant)) ||
                (variant.shader != standard.shader && slow[kernel_of(variant)] >= most_hopeless);
            if (left_out || name_of(variant) == row.standard) continue;
            uint32_t& in_a_row = slow[kernel_of(variant)];
            in_a_row = time(variant) > hopeless * best ? in_a_row + 1 : 0;
        }
        if (row.candidates == 1 && late()) {
            if (kept != tuned_.entries().end()) row.variant = kept->second;
            return row;
        }
        std::ranges::sort(timed, {}, [](const auto& each) { return each.first; });
        tuned_.erase(row.key);
        for (const auto& [us, variant] : timed) {
            if (us > row.standard_us * (1 - least_gain)) break;
            if (!guarded(key(*variant), [&, faster = variant] { proven(prove, *faster); })) continue;
            row.variant = name_of(*variant);
            row.us = us;
            tuned_.set(row.key, row.variant);
            break;
        }
        return row;
    }

    /// False, and quarantined, if `work` fails, as a variant does that no driver can run or that is wrong.
    template <class Work> bool guarded(const std::string& key, const Work& work) {
        if (options_.pause) options_.pause();
        verdicts_.begin(key);
        try {
            work();
            verdicts_.end();
            return true;
        } catch (const Error& error) {
            const Status status = error.status();
            if (status == Status::timeout) throw;  // the journal stays open
            verdicts_.end();
            if (status == Status::out_of_device_memory || status == Status::out_of_host_memory) throw;
            verdicts_.failed(key, error.what());
            verdicts_.save();
            log(cat("[tune] ", key, " is left out from now on: ", error.what()));
            if (status == Status::device_lost) throw;
            return false;
        }
    }

    template <class Prove, class Variant> void proven(const Prove& prove, const Variant& variant) {
        validate::CheckContext context(engine_.device, engine_.pipelines, validate::Tier::quick, 1);
        context.on_result = [](const validate::CheckResult& result) {
            if (!result.passed) fail(Status::failed, result.shape, result.detail);
        };
        prove(context, variant);
    }

    std::vector<DeviceWeight> weights(const LinearShape& shape) {
        const DeviceWeight& first = timer_.weight(shape.type, shape.rows, shape.cols);
        std::vector<DeviceWeight> copies{first};
        const uint64_t bytes = first.shards[0].view.size, step = caps_.aligned(bytes);
        const uint64_t room = std::min(cache_bytes, caps_.max_binding);
        if (first.shards.size() > 1 || caps_.is_cpu() || 2 * step > room) return copies;
        const vk::View pool = timer_.room(room / step * step);
        timer_.run([&](OpContext& ops) {
            for (uint64_t at = 0; at < pool.size; at += step)
                ops.recorder.copy(first.shards[0].view, pool.slice(at, bytes));
        });
        for (uint64_t at = 0; at < pool.size; at += step) {
            copies.push_back(first);
            copies.back().shards[0].view = pool.slice(at, bytes);
        }
        return copies;
    }

    Engine::Impl& engine_;
    const TuneOptions& options_;
    const vk::Caps& caps_;
    OpTimer timer_;
    TunedBook tuned_;
    VerdictBook verdicts_;
    TuneClock::time_point start_ = TuneClock::now();
};

}  // namespace

TuneReport tune(std::shared_ptr<const Model> model, const EngineOptions& options, const TuneOptions& how) {
    EngineOptions plain = options;
    plain.tuned = false;
    plain.variants.clear();
    Engine::Impl engine(std::move(model), plain);
    engine.self_test();
    TuneReport report = Tuner(engine, how).run();
    engine.pipelines.save_cache();
    return report;
}

}  // namespace scoria
