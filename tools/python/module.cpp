// The C interface as Python objects: handles with owners, numpy arrays, the GIL released while the library
// works. scoria/__init__.py dresses it.
#include <scoria.h>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Unlocked = nb::gil_scoped_release;
using Named = nb::typed<nb::dict, nb::str, nb::object>;

namespace {

struct Failure {
    scoria_status status;
    std::string message;
};

void check(scoria_status status) {
    if (status != SCORIA_OK) throw Failure{status, scoria_last_error()};
}

/// Calls `get(data, capacity, &count)` until everything fits.
template <class T, class Get> std::vector<T> all_of(Get get, size_t guess) {
    std::vector<T> values(guess);
    size_t count = 0;
    check(get(values.data(), values.size(), &count));
    const bool again = count > values.size();
    values.resize(count);
    if (again) check(get(values.data(), values.size(), &count));
    return values;
}

template <class T> auto as_numpy(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

using Progress = std::function<nb::object(uint64_t, uint64_t)>;

struct EngineArguments {
    std::string model, device, cache_folder;
    std::vector<std::pair<std::string, float>> adapters;
    uint64_t memory_budget = 0;
    uint32_t context = 0, precision = SCORIA_BALANCED, kv = 0, prompt_chunk = 0;
    bool deterministic = false, mmap = false;
    float submission_ms = 0;
    std::optional<Progress> progress;
};

struct Engine {
    scoria_engine* handle = nullptr;

    explicit Engine(const EngineArguments& from) {
        scoria_engine_options options;
        check(scoria_engine_options_init(&options, sizeof options));
        std::vector<scoria_adapter> adapters;
        for (const auto& [path, scale] : from.adapters) adapters.push_back({path.c_str(), scale, 0});
        options.model_path = from.model.c_str();
        options.device = from.device.empty() ? nullptr : from.device.c_str();
        options.cache_folder = from.cache_folder.empty() ? nullptr : from.cache_folder.c_str();
        options.adapters = adapters.data();
        options.adapter_count = adapters.size();
        options.memory_budget = from.memory_budget;
        options.context = from.context;
        options.precision = from.precision;
        options.kv = from.kv;
        options.prompt_chunk = from.prompt_chunk;
        options.deterministic = from.deterministic;
        options.mmap = from.mmap;
        options.submission_ms = from.submission_ms;
        std::pair<const Progress*, std::optional<nb::python_error>> called;
        options.user = &called;
        if (from.progress) {
            called.first = &*from.progress;
            options.progress = [](void* user, uint64_t done, uint64_t total) {
                auto& [progress, raised] = *static_cast<decltype(called)*>(user);
                const nb::gil_scoped_acquire locked;
                try {
                    return int(!(*progress)(done, total).is(nb::bool_(false)));
                } catch (nb::python_error& error) {
                    raised.emplace(std::move(error));
                    return 0;
                }
            };
        }
        scoria_status status = SCORIA_OK;
        {
            const Unlocked unlocked;
            status = scoria_engine_create(&options, &handle);
        }
        if (called.second) throw std::move(*called.second);
        check(status);
    }
    ~Engine() { (void)scoria_engine_destroy(handle); }
    Engine(const Engine&) = delete;
    void close() { check(scoria_engine_destroy(std::exchange(handle, nullptr))); }

    Named info() const {
        scoria_engine_info info{};
        info.size = sizeof info;
        check(scoria_engine_get_info(handle, &info));
        Named d;
        d["model_name"] = info.model_name;
        d["family"] = info.family;
        d["tokenizer"] = info.tokenizer;
        d["device_name"] = info.device_name;
        d["driver_name"] = info.driver_name;
        constexpr const char* kinds[] = {"decoder", "encoder", "encoder-decoder"};
        d["kind"] = kinds[info.kind];
        d["vocab"] = info.vocab;
        d["hidden"] = info.hidden;
        d["layers"] = info.layers;
        d["context"] = info.context;
        d["has_chat_template"] = info.has_chat_template != 0;
        d["bos"] = info.bos;
        d["eos"] = info.eos;
        d["decoder_start"] = info.decoder_start;
        d["prompt_chunk"] = info.prompt_chunk;
        return d;
    }
    nb::typed<nb::dict, nb::str, nb::int_> memory() const {
        scoria_memory memory{};
        memory.size = sizeof memory;
        check(scoria_engine_memory(handle, &memory));
        nb::typed<nb::dict, nb::str, nb::int_> d;
        d["weights"] = memory.weights;
        d["kv"] = memory.kv;
        d["scratch"] = memory.scratch;
        d["staging"] = memory.staging;
        d["heap_size"] = memory.heap_size;
        d["heap_budget"] = memory.heap_budget;
        d["in_use"] = memory.in_use;
        d["context"] = memory.context;
        d["source"] = memory.source;
        d["host_weights"] = memory.host_weights;
        d["host_budget"] = memory.host_budget;
        return d;
    }
    auto tokenize(const std::string& text, uint32_t flags) const {
        const auto get = [&](int32_t* ids, size_t capacity, size_t* count) {
            const Unlocked unlocked;
            return scoria_tokenize(handle, text.data(), text.size(), flags, ids, capacity, count);
        };
        return as_numpy(all_of<int32_t>(get, text.size() + 8));
    }
    nb::bytes detokenize(const Ids& ids, bool special) const {
        const auto get = [&](char* text, size_t capacity, size_t* length) {
            const scoria_status status =
                scoria_detokenize(handle, ids.data(), ids.size(), special, text, capacity, length);
            ++*length;  // the NUL
            return status;
        };
        const std::vector<char> text = all_of<char>(get, 8 * ids.size() + 64);
        return nb::bytes(text.data(), text.size() - 1);
    }
    auto chat_tokens(const std::string& json, bool generation_prompt) const {
        const scoria_chat_options options{sizeof options, nullptr, 0, json.c_str(), !generation_prompt, 0};
        const auto get = [&](int32_t* ids, size_t capacity, size_t* count) {
            const Unlocked unlocked;
            return scoria_chat_tokens(handle, &options, ids, capacity, count);
        };
        return as_numpy(all_of<int32_t>(get, json.size() + 64));
    }
};

struct Session {
    std::shared_ptr<Engine> owner;
    scoria_session* handle = nullptr;

    explicit Session(std::shared_ptr<Engine> engine) : owner(std::move(engine)) {
        const Unlocked unlocked;
        check(scoria_session_create(owner->handle, &handle));
    }
    ~Session() { (void)scoria_session_destroy(handle); }
    Session(const Session&) = delete;
    void close() { check(scoria_session_destroy(std::exchange(handle, nullptr))); }
    void cancel() { check(scoria_session_cancel(handle)); }
    template <scoria_status (*call)(scoria_session*, const int32_t*, size_t)> void feed(const Ids& ids) {
        const Unlocked unlocked;
        check(call(handle, ids.data(), ids.size()));
    }
    void truncate(size_t length) { check(scoria_session_truncate(handle, length)); }
    auto tokens() {
        return as_numpy(all_of<int32_t>(
            [&](int32_t* ids, size_t capacity, size_t* count) {
                return scoria_session_tokens(handle, ids, capacity, count);
            },
            256));
    }
    auto logits() {
        size_t count = 0;
        std::vector<float> values(nb::cast<size_t>(owner->info()["vocab"]));
        {
            const Unlocked unlocked;
            check(scoria_session_logits(handle, values.data(), values.size(), &count));
        }
        return as_numpy(std::move(values));
    }
    auto embed(const Ids& ids, uint32_t pooling, bool normalise) {
        const scoria_embed_options options{sizeof options, pooling, !normalise};
        size_t size = 0;
        std::vector<float> vector(nb::cast<size_t>(owner->info()["hidden"]));
        {
            const Unlocked unlocked;
            check(scoria_session_embed(handle, ids.data(), ids.size(), &options, vector.data(), vector.size(),
                                       &size));
        }
        return as_numpy(std::move(vector));
    }
};

/// scoria_generate_options with owners of its texts.
struct GenerateOptions {
    scoria_generate_options plain;
    std::vector<std::string> stop;
    std::vector<std::pair<int32_t, float>> logit_bias;
    std::optional<std::string> grammar, json_schema;

    GenerateOptions() { check(scoria_generate_options_init(&plain, sizeof plain)); }
};

/// One generation on a thread of its own, which never touches Python; tokens wait here until asked for.
class Stream {
  public:
    Stream(std::shared_ptr<Session> session, const GenerateOptions& options)
        : session_(std::move(session)), options_(options), worker_([this] { run(); }) {}
    ~Stream() {
        const Unlocked unlocked;
        stop();
    }
    Stream(const Stream&) = delete;

    /// The next token and its text, or None at the end, once the session is free again.
    std::optional<std::pair<int32_t, nb::bytes>> next() {
        std::optional<std::pair<int32_t, std::string>> token;
        {
            const Unlocked unlocked;
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return done_ || !waiting_.empty(); });
            if (!waiting_.empty()) {
                token.emplace(std::move(waiting_.front()));
                waiting_.pop_front();
                changed_.notify_all();
            } else {
                lock.unlock();
                join();
            }
        }
        if (token) return std::pair(token->first, nb::bytes(token->second.data(), token->second.size()));
        if (status_ != SCORIA_OK && status_ != SCORIA_CANCELLED) throw Failure{status_, message_};
        return std::nullopt;
    }
    void cancel() {
        const Unlocked unlocked;
        stop();
    }
    std::optional<std::string> stop_reason() {
        const std::lock_guard lock(mutex_);
        constexpr const char* reasons[] = {"end", "token_limit", "context_full", "cancelled", "text"};
        if (!done_ || result_.stop >= std::size(reasons)) return std::nullopt;
        return status_ == SCORIA_CANCELLED ? "cancelled" : reasons[result_.stop];
    }

  private:
    static constexpr size_t most_waiting = 64;  // then the model waits for the reader

    void run() {
        std::vector<const char*> stops;
        for (const std::string& text : options_.stop) stops.push_back(text.c_str());
        std::vector<scoria_logit_bias> biases;
        for (const auto& [token, bias] : options_.logit_bias) biases.push_back({token, bias});
        scoria_generate_options options = options_.plain;
        options.stop = stops.data();
        options.stop_count = stops.size();
        options.logit_bias = biases.data();
        options.logit_bias_count = biases.size();
        options.grammar = options_.grammar ? options_.grammar->c_str() : nullptr;
        options.json_schema = options_.json_schema ? options_.json_schema->c_str() : nullptr;
        options.user = this;
        options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) {
            return int(static_cast<Stream*>(user)->push(id, {text, bytes}));
        };
        scoria_generate_result result{};
        result.size = sizeof result;
        const scoria_status status = scoria_session_generate(session_->handle, &options, &result);
        const std::lock_guard lock(mutex_);
        result_ = result;
        status_ = status;
        if (status != SCORIA_OK) message_ = scoria_last_error();
        done_ = true;
        changed_.notify_all();
    }
    bool push(int32_t id, std::string text) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || waiting_.size() < most_waiting; });
        if (stopping_) return false;
        waiting_.emplace_back(id, std::move(text));
        changed_.notify_all();
        return true;
    }
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
            changed_.notify_all();
        }
        join();
    }
    void join() {
        const std::lock_guard lock(join_mutex_);
        if (worker_.joinable()) worker_.join();
    }

    std::shared_ptr<Session> session_;
    const GenerateOptions options_;
    std::mutex mutex_, join_mutex_;
    std::condition_variable changed_;
    std::deque<std::pair<int32_t, std::string>> waiting_;
    bool done_ = false, stopping_ = false;
    scoria_status status_ = SCORIA_OK;
    std::string message_;
    scoria_generate_result result_{};
    std::thread worker_;  // last: it uses all of the above
};

nb::typed<nb::list, Named> devices() {
    nb::typed<nb::list, Named> all;
    const auto add = [](void* user, const scoria_device* device) {
        constexpr const char* types[] = {"other", "integrated", "discrete", "virtual", "cpu"};
        nb::dict d;
        d["index"] = device->index;
        d["name"] = device->name;
        d["driver"] = device->driver;
        d["type"] = types[device->type];
        d["chosen"] = device->chosen != 0;
        d["unusable"] = device->unusable;
        static_cast<nb::list*>(user)->append(d);
    };
    check(scoria_list_devices(add, &all));
    return all;
}

/// The C options' members, by their names there.
template <class Member> auto member(Member scoria_generate_options::*at) {
    return std::pair([at](const GenerateOptions& o) { return o.plain.*at; },
                     [at](GenerateOptions& o, Member value) { o.plain.*at = value; });
}

}  // namespace

NB_MODULE(_scoria, m) {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Failure& failure) {
            const nb::object type = nb::module_::import_("scoria._error").attr("Error");
            const nb::object error = type(failure.message);
            error.attr("status") = scoria_status_name(failure.status);
            PyErr_SetObject(type.ptr(), error.ptr());
        }
    });
    m.def("version", &scoria_version);
    m.def("devices", &devices);

    nb::class_<EngineArguments> arguments(m, "EngineArguments");
    arguments.def(nb::init<>());
#define MEMBER(name) arguments.def_rw(#name, &EngineArguments::name)
    MEMBER(model);
    MEMBER(device);
    MEMBER(cache_folder);
    MEMBER(adapters);
    MEMBER(memory_budget);
    MEMBER(context);
    MEMBER(precision);
    MEMBER(kv);
    MEMBER(prompt_chunk);
    MEMBER(deterministic);
    MEMBER(mmap);
    MEMBER(submission_ms);
    arguments.def_rw("progress", &EngineArguments::progress, nb::for_setter(nb::arg().none()));
#undef MEMBER
    nb::class_<Engine>(m, "Engine")
        .def(nb::init<const EngineArguments&>())
        .def("close", &Engine::close)
        .def("info", &Engine::info)
        .def("memory", &Engine::memory)
        .def("tokenize", &Engine::tokenize)
        .def("detokenize", &Engine::detokenize)
        .def("chat_tokens", &Engine::chat_tokens);
    nb::class_<Session>(m, "Session")
        .def(nb::init<std::shared_ptr<Engine>>())
        .def("close", &Session::close)
        .def("cancel", &Session::cancel)
        .def("append", &Session::feed<scoria_session_append>)
        .def("replace", &Session::feed<scoria_session_replace>)
        .def("encode", &Session::feed<scoria_session_encode>)
        .def("truncate", &Session::truncate)
        .def("tokens", &Session::tokens)
        .def("logits", &Session::logits)
        .def("embed", &Session::embed);
    nb::class_<GenerateOptions> options(m, "GenerateOptions");
    options.def(nb::init<>());
    options.def_rw("stop", &GenerateOptions::stop);
    options.def_rw("logit_bias", &GenerateOptions::logit_bias);
    options.def_rw("grammar", &GenerateOptions::grammar, nb::for_setter(nb::arg().none()));
    options.def_rw("json_schema", &GenerateOptions::json_schema, nb::for_setter(nb::arg().none()));
    const auto property = [&](const char* name, auto at) {
        const auto [get, set] = member(at);
        options.def_prop_rw(name, get, set);
    };
#define PLAIN(name) property(#name, &scoria_generate_options::name)
    PLAIN(seed);
    PLAIN(max_tokens);
    PLAIN(temperature);
    PLAIN(top_k);
    PLAIN(top_p);
    PLAIN(min_p);
    PLAIN(typical_p);
    PLAIN(repetition_penalty);
    PLAIN(frequency_penalty);
    PLAIN(presence_penalty);
    PLAIN(repetition_window);
    PLAIN(xtc_probability);
    PLAIN(xtc_threshold);
    PLAIN(mirostat_tau);
    PLAIN(mirostat_eta);
    PLAIN(dry_multiplier);
    PLAIN(dry_base);
    PLAIN(dry_allowed_length);
    PLAIN(dry_range);
    PLAIN(ignore_end);
    PLAIN(lookup);
    PLAIN(draft_tokens);
#undef PLAIN
    nb::class_<Stream>(m, "Stream")
        .def(nb::init<std::shared_ptr<Session>, const GenerateOptions&>())
        .def("next", &Stream::next)
        .def("cancel", &Stream::cancel)
        .def("stop_reason", &Stream::stop_reason);
}
