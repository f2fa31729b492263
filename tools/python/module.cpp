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
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
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

/// Of names that come from files, which need not be UTF-8.
nb::str text_of(std::string_view bytes) {
    return nb::steal<nb::str>(PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "replace"));
}

std::string bytes_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

/// For members that end at the first NUL: what stood behind one would be lost.
const char* c_text(const std::string& text) {
    if (text.find('\0') != std::string::npos) throw nb::value_error("embedded null character");
    return text.c_str();
}

/// A handle that is in use stays.
template <auto destroy, class Handle> void release(Handle*& handle) {
    check(destroy(handle));
    handle = nullptr;
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
    uint32_t sequences = 1, shared_context = 0;
    bool deterministic = false, mmap = false, layer_ahead = false, shows_hidden = false;
    float submission_ms = 0;
    std::optional<Progress> progress;
};

struct Engine {
    scoria_engine* handle = nullptr;
    const uint32_t sequences;

    explicit Engine(const EngineArguments& from) : sequences(std::max(from.sequences, 1u)) {
        scoria_engine_options options;
        check(scoria_engine_options_init(&options, sizeof options));
        std::vector<scoria_adapter> adapters;
        for (const auto& [path, scale] : from.adapters) adapters.push_back({c_text(path), scale, 0});
        options.model_path = c_text(from.model);
        options.device = from.device.empty() ? nullptr : c_text(from.device);
        options.cache_folder = from.cache_folder.empty() ? nullptr : c_text(from.cache_folder);
        options.adapters = adapters.data();
        options.adapter_count = adapters.size();
        options.memory_budget = from.memory_budget;
        options.context = from.context;
        options.precision = from.precision;
        options.kv = from.kv;
        options.prompt_chunk = from.prompt_chunk;
        options.sequences = from.sequences;
        options.shared_context = from.shared_context;
        options.deterministic = from.deterministic;
        options.mmap = from.mmap;
        options.layer_ahead = from.layer_ahead;
        options.shows_hidden = from.shows_hidden;
        options.submission_ms = from.submission_ms;
        std::pair<const Progress*, std::optional<nb::python_error>> called;
        options.user = &called;
        if (from.progress) called.first = &*from.progress;
        options.progress = [](void* user, uint64_t done, uint64_t total) {
            auto& [progress, raised] = *static_cast<decltype(called)*>(user);
            const nb::gil_scoped_acquire locked;
            try {
                if (PyErr_CheckSignals() != 0) throw nb::python_error();  // KeyboardInterrupt
                return int(!progress || !(*progress)(done, total).is(nb::bool_(false)));
            } catch (nb::python_error& error) {
                raised.emplace(std::move(error));
                return 0;
            }
        };
        scoria_status status = SCORIA_OK;
        {
            const Unlocked unlocked;
            status = scoria_engine_create(&options, &handle);
        }
        if (called.second) throw std::move(*called.second);
        check(status);
    }
    ~Engine() {
        const Unlocked unlocked;
        (void)scoria_engine_destroy(handle);
    }
    Engine(const Engine&) = delete;
    void close() {
        const Unlocked unlocked;
        release<scoria_engine_destroy>(handle);
    }
    void evict() {
        const Unlocked unlocked;
        check(scoria_engine_evict(handle));
    }
    void restore() {
        const Unlocked unlocked;
        check(scoria_engine_restore(handle, nullptr, nullptr));
    }

    Named info() const {
        scoria_engine_info info{};
        info.size = sizeof info;
        check(scoria_engine_get_info(handle, &info));
        Named d;
        d["model_name"] = text_of(info.model_name);
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
        d["decoder_next"] = info.decoder_next;
        d["source"] = info.source;
        d["prompt_chunk"] = info.prompt_chunk;
        return d;
    }
    nb::typed<nb::dict, nb::str, nb::int_> memory() const {
        scoria_memory memory{};
        memory.size = sizeof memory;
        {
            const Unlocked unlocked;
            check(scoria_engine_memory(handle, &memory));
        }
        nb::typed<nb::dict, nb::str, nb::int_> d;
        d["weights"] = memory.weights;
        d["kv"] = memory.kv;
        d["scratch"] = memory.scratch;
        d["staging"] = memory.staging;
        d["heap_size"] = memory.heap_size;
        d["heap_budget"] = memory.heap_budget;
        d["in_use"] = memory.in_use;
        d["context"] = memory.context;
        d["shared"] = memory.shared;
        d["source"] = memory.source;
        d["host_weights"] = memory.host_weights;
        d["host_kv"] = memory.host_kv;
        d["host_budget"] = memory.host_budget;
        return d;
    }
    auto tokenize(const nb::bytes& utf8, uint32_t flags) const {
        const std::string text = bytes_of(utf8);
        const auto get = [&](int32_t* ids, size_t capacity, size_t* count) {
            const Unlocked unlocked;
            return scoria_tokenize(handle, text.data(), text.size(), flags, ids, capacity, count);
        };
        return as_numpy(all_of<int32_t>(get, text.size() + 8));
    }
    nb::bytes detokenize(const Ids& ids, bool special) const {
        const auto get = [&](char* text, size_t capacity, size_t* length) {
            const Unlocked unlocked;
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
    std::vector<std::shared_ptr<Engine>> drafts;  // which it may hold
    // Of a stream, which has the session before its thread is in the library.
    std::atomic<bool> streams{false}, cancelled{false};

    explicit Session(std::shared_ptr<Engine> engine) : owner(std::move(engine)) {
        const Unlocked unlocked;
        check(scoria_session_create(owner->handle, &handle));
    }
    ~Session() {
        const Unlocked unlocked;
        (void)scoria_session_destroy(handle);
    }
    Session(const Session&) = delete;
    /// The handle, unless a stream has it.
    scoria_session* free() const {
        if (streams)
            throw Failure{SCORIA_BUSY, "[session] expected one that is free, got one that generates"};
        return handle;
    }
    /// For a stream, until all copies of what is returned are gone.
    std::shared_ptr<void> claimed() {
        (void)free();
        streams = true;
        cancelled = false;
        return {this, [](Session* session) { session->streams = false; }};
    }
    void close() {
        (void)free();
        const Unlocked unlocked;
        release<scoria_session_destroy>(handle);
    }
    void cancel() {
        cancelled = true;
        check(scoria_session_cancel(handle));
    }
    template <scoria_status (*call)(scoria_session*, const int32_t*, size_t)> void feed(const Ids& ids) {
        scoria_session* const session = free();
        const Unlocked unlocked;
        check(call(session, ids.data(), ids.size()));
    }
    void truncate(size_t length) {
        scoria_session* const session = free();
        const Unlocked unlocked;
        check(scoria_session_truncate(session, length));
    }
    auto tokens() {
        return as_numpy(all_of<int32_t>(
            [&](int32_t* ids, size_t capacity, size_t* count) {
                return scoria_session_tokens(free(), ids, capacity, count);
            },
            256));
    }
    auto logits() {
        scoria_session* const session = free();
        size_t count = 0;
        std::vector<float> values(nb::cast<size_t>(owner->info()["vocab"]));
        {
            const Unlocked unlocked;
            check(scoria_session_logits(session, values.data(), values.size(), &count));
        }
        return as_numpy(std::move(values));
    }
    auto embed(const Ids& ids, uint32_t pooling, bool normalise) {
        scoria_session* const session = free();
        const scoria_embed_options options{sizeof options, pooling, !normalise};
        size_t size = 0;
        std::vector<float> vector(nb::cast<size_t>(owner->info()["hidden"]));
        {
            const Unlocked unlocked;
            check(scoria_session_embed(session, ids.data(), ids.size(), &options, vector.data(),
                                       vector.size(), &size));
        }
        return as_numpy(std::move(vector));
    }
    double rank(const nb::bytes& query, const nb::bytes& document) {
        scoria_session* const session = free();
        double score = 0;
        {
            const Unlocked unlocked;
            check(scoria_session_rank(session, query.c_str(), query.size(), document.c_str(), document.size(),
                                      &score));
        }
        return score;
    }
};

/// scoria_generate_options with owners of its texts.
struct GenerateOptions {
    scoria_generate_options plain;
    std::vector<std::string> stop;
    std::vector<std::pair<int32_t, float>> logit_bias;
    std::optional<std::string> grammar, json_schema;
    std::shared_ptr<Engine> draft;

    GenerateOptions() { check(scoria_generate_options_init(&plain, sizeof plain)); }
};

/// The same as C options; they point into it.
class PlainOptions {
  public:
    explicit PlainOptions(const GenerateOptions& from) : from_(from) {
        for (const std::string& text : from_.stop) stops_.push_back(c_text(text));
        for (const auto* text : {&from_.grammar, &from_.json_schema})
            if (*text) (void)c_text(**text);
        for (const auto& [token, bias] : from_.logit_bias) biases_.push_back({token, bias});
        if (from_.draft && !from_.draft->handle)
            throw Failure{SCORIA_BAD_ARGUMENT, "[draft] expected a live engine, got one that is closed"};
    }
    PlainOptions(const PlainOptions&) = delete;
    scoria_generate_options get() const {
        scoria_generate_options options = from_.plain;
        options.stop = stops_.data();
        options.stop_count = stops_.size();
        options.logit_bias = biases_.data();
        options.logit_bias_count = biases_.size();
        options.grammar = from_.grammar ? from_.grammar->c_str() : nullptr;
        options.json_schema = from_.json_schema ? from_.json_schema->c_str() : nullptr;
        options.draft = from_.draft ? from_.draft->handle : nullptr;
        return options;
    }

  private:
    const GenerateOptions from_;
    std::vector<const char*> stops_;
    std::vector<scoria_logit_bias> biases_;
};

/// How an answer ended.
struct Ended {
    scoria_status status = SCORIA_CANCELLED;
    std::string message;
    uint32_t stop = SCORIA_STOP_CANCELLED;
    const char* reason() const {
        constexpr const char* reasons[] = {"end", "token_limit", "context_full", "cancelled", "text"};
        return status == SCORIA_OK && stop < std::size(reasons) ? reasons[stop]
               : status == SCORIA_CANCELLED                     ? "cancelled"
                                                                : "failed";
    }
    bool failed() const { return status != SCORIA_OK && status != SCORIA_CANCELLED; }
};

/// A thread that never touches Python makes tokens, which wait here until asked for.
template <class Token> class Producer {
  public:
    Producer() = default;
    Producer(const Producer&) = delete;
    ~Producer() { stop(); }
    void start(std::function<void()> make) {
        worker_ = std::thread([this, make = std::move(make)] {
            make();
            const std::lock_guard lock(mutex_);
            done_ = true;
            changed_.notify_all();
        });
    }
    /// Of the thread: whether it shall go on. Waits for a slow reader.
    bool push(Token token) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || waiting_.size() < most_waiting; });
        if (stopping_) return false;
        waiting_.push_back(std::move(token));
        changed_.notify_all();
        return true;
    }
    bool stopping() {
        const std::lock_guard lock(mutex_);
        return stopping_;
    }
    /// Of readers, with the GIL, which is free meanwhile; none at the end, when the thread is no more.
    std::optional<Token> next() {
        while (true) {
            {
                const Unlocked unlocked;
                std::unique_lock lock(mutex_);
                const auto ready = [&] { return done_ || !waiting_.empty(); };
                if (changed_.wait_for(lock, between_signals, ready)) {
                    if (waiting_.empty()) {
                        lock.unlock();
                        join();
                        return std::nullopt;
                    }
                    Token token = std::move(waiting_.front());
                    waiting_.pop_front();
                    changed_.notify_all();
                    return token;
                }
            }
            if (PyErr_CheckSignals() != 0) throw nb::python_error();  // KeyboardInterrupt
        }
    }
    bool done() {
        const std::lock_guard lock(mutex_);
        return done_;
    }
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
            changed_.notify_all();
        }
        join();
    }

  private:
    static constexpr size_t most_waiting = 64;
    static constexpr std::chrono::milliseconds between_signals{50};

    void join() {
        const std::lock_guard lock(join_mutex_);
        if (worker_.joinable()) worker_.join();
    }

    std::mutex mutex_, join_mutex_;
    std::condition_variable changed_;
    std::deque<Token> waiting_;
    bool done_ = false, stopping_ = false;
    std::thread worker_;
};

/// One generation.
class Stream {
  public:
    Stream(std::shared_ptr<Session> session, const GenerateOptions& options)
        : session_(std::move(session)), options_(options) {
        if (options.draft && std::ranges::find(session_->drafts, options.draft) == session_->drafts.end())
            session_->drafts.push_back(options.draft);
        tokens_.start([this, claim = session_->claimed()] { run(); });
    }
    ~Stream() { cancel(); }

    /// The next token and its text, or None at the end, once the session is free again.
    std::optional<std::pair<int32_t, nb::bytes>> next() {
        if (const auto token = tokens_.next())
            return std::pair(token->first, nb::bytes(token->second.data(), token->second.size()));
        if (ended_.failed()) throw Failure{ended_.status, ended_.message};
        return std::nullopt;
    }
    void cancel() {
        const Unlocked unlocked;
        if (!tokens_.done()) (void)scoria_session_cancel(session_->handle);  // of a prompt, too
        tokens_.stop();
    }
    std::optional<std::string> stop_reason() {
        if (!tokens_.done() || ended_.failed()) return std::nullopt;
        return ended_.reason();
    }

  private:
    void run() {
        scoria_generate_options options = options_.get();
        options.user = this;
        options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) {
            Stream& stream = *static_cast<Stream*>(user);
            return int(!stream.session_->cancelled && stream.tokens_.push({id, {text, bytes}}));
        };
        scoria_generate_result result{};
        result.size = sizeof result;
        ended_.status = scoria_session_generate(session_->handle, &options, &result);
        if (ended_.status != SCORIA_OK) ended_.message = scoria_last_error();
        ended_.stop = result.stop;
    }

    std::shared_ptr<Session> session_;
    const PlainOptions options_;
    Ended ended_;  // the thread's until it is done
    Producer<std::pair<int32_t, std::string>> tokens_;
};

/// Answers to prompts in one batch, of as many sessions as the engine computes together: one that is done
/// takes the next prompt.
class Answers {
  public:
    Answers(std::shared_ptr<Engine> engine, std::vector<Ids> prompts, const GenerateOptions& options)
        : engine_(std::move(engine)), options_(options), ended_(prompts.size()) {
        for (const Ids& ids : prompts) prompts_.emplace_back(ids.data(), ids.data() + ids.size());
        tokens_.start([this] { run(); });
    }
    ~Answers() { cancel(); }

    /// The next token of any answer: its prompt's index, id, text; None at the end.
    std::optional<std::tuple<size_t, int32_t, nb::bytes>> next() {
        if (const auto token = tokens_.next())
            return std::tuple(token->index, token->id, nb::bytes(token->text.data(), token->text.size()));
        if (whole_.failed()) throw Failure{whole_.status, whole_.message};
        for (size_t i = 0; i < ended_.size(); ++i)
            if (ended_[i].failed())
                throw Failure{ended_[i].status, "answer " + std::to_string(i) + ": " + ended_[i].message};
        return std::nullopt;
    }
    void cancel() {
        const Unlocked unlocked;
        tokens_.stop();
    }
    std::optional<std::vector<std::string>> stop_reasons() {
        if (!tokens_.done()) return std::nullopt;
        std::vector<std::string> reasons;
        for (const Ended& each : ended_) reasons.push_back(each.reason());
        return reasons;
    }

  private:
    struct Token {
        size_t index;
        int32_t id;
        std::string text;
    };
    struct Slot {
        Answers* of;
        scoria_session* session = nullptr;
        size_t index = 0;
    };

    /// Whether it went well; else what the last call met ends all.
    bool went(scoria_status status) {
        if (status != SCORIA_OK) whole_ = {status, scoria_last_error()};
        return status == SCORIA_OK;
    }
    void run() {
        if (prompts_.empty() || !went(scoria_batch_create(engine_->handle, &batch_))) return;
        std::vector<Slot> slots(std::min<size_t>(prompts_.size(), engine_->sequences), Slot{this});
        bool good = true;
        for (Slot& slot : slots) good = good && went(scoria_session_create(engine_->handle, &slot.session));
        if (good) {
            for (Slot& slot : slots) begin_next(slot);
            for (size_t left = 1; left != 0 && !tokens_.stopping();)
                if (!went(scoria_batch_step(batch_, &left))) break;
        }
        (void)scoria_batch_destroy(batch_);
        for (const Slot& slot : slots) (void)scoria_session_destroy(slot.session);
    }
    void begin_next(Slot& slot) {
        scoria_generate_options options = options_.get();
        options.user = &slot;
        options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) {
            const Slot& of = *static_cast<Slot*>(user);
            return int(of.of->tokens_.push({of.index, id, {text, bytes}}));
        };
        const auto on_done = [](void* user, scoria_session*, scoria_status status, const char* message,
                                const scoria_generate_result* result) {
            Slot& of = *static_cast<Slot*>(user);
            of.of->ended_[of.index] = {status, message, result->stop};
            of.of->begin_next(of);
        };
        while (begun_ < prompts_.size() && !tokens_.stopping()) {
            slot.index = begun_++;
            const std::vector<int32_t>& ids = prompts_[slot.index];
            scoria_status status = scoria_session_truncate(slot.session, 0);
            if (status == SCORIA_OK)
                status = scoria_batch_add(batch_, slot.session, ids.data(), ids.size(), &options, on_done);
            if (status == SCORIA_OK) return;
            ended_[slot.index] = {status, scoria_last_error()};
        }
    }

    std::shared_ptr<Engine> engine_;
    const PlainOptions options_;
    std::vector<std::vector<int32_t>> prompts_;
    // The thread's until it is done:
    scoria_batch* batch_ = nullptr;
    size_t begun_ = 0;
    std::vector<Ended> ended_;  // by prompt
    Ended whole_;
    Producer<Token> tokens_;
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
            const nb::object error = type(text_of(failure.message));
            error.attr("status") = scoria_status_name(failure.status);
            PyErr_SetObject(type.ptr(), error.ptr());
        }
    });
    m.def("version", &scoria_version);
    m.def("devices", &devices);

    nb::class_<EngineArguments> arguments(m, "EngineArguments");
    arguments.def(nb::init<>());
#define MEMBER(name) arguments.def_rw(#name, &EngineArguments::name)
    MEMBER(device);
    MEMBER(memory_budget);
    MEMBER(context);
    MEMBER(precision);
    MEMBER(kv);
    MEMBER(prompt_chunk);
    MEMBER(sequences);
    MEMBER(shared_context);
    MEMBER(deterministic);
    MEMBER(mmap);
    MEMBER(layer_ahead);
    MEMBER(shows_hidden);
    MEMBER(submission_ms);
    arguments.def_rw("progress", &EngineArguments::progress, nb::for_setter(nb::arg().none()));
#undef MEMBER
    // Paths, as os.fsencode makes them.
    arguments.def("set_model", [](EngineArguments& a, const nb::bytes& path) { a.model = bytes_of(path); });
    arguments.def("set_cache_folder",
                  [](EngineArguments& a, const nb::bytes& path) { a.cache_folder = bytes_of(path); });
    arguments.def("add_adapter", [](EngineArguments& a, const nb::bytes& path, float scale) {
        a.adapters.emplace_back(bytes_of(path), scale);
    });
    nb::class_<Engine>(m, "Engine")
        .def(nb::init<const EngineArguments&>())
        .def("close", &Engine::close)
        .def("evict", &Engine::evict)
        .def("restore", &Engine::restore)
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
        .def("embed", &Session::embed)
        .def("rank", &Session::rank);
    nb::class_<GenerateOptions> options(m, "GenerateOptions");
    options.def(nb::init<>());
    options.def(nb::init<const GenerateOptions&>());
    options.def_rw("stop", &GenerateOptions::stop);
    options.def_rw("logit_bias", &GenerateOptions::logit_bias);
    options.def_rw("grammar", &GenerateOptions::grammar, nb::for_setter(nb::arg().none()));
    options.def_rw("json_schema", &GenerateOptions::json_schema, nb::for_setter(nb::arg().none()));
    options.def(
        "set_draft", [](GenerateOptions& o, std::shared_ptr<Engine> draft) { o.draft = std::move(draft); },
        nb::arg().none());
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
    nb::class_<Answers>(m, "Answers")
        .def(nb::init<std::shared_ptr<Engine>, std::vector<Ids>, const GenerateOptions&>())
        .def("next", &Answers::next)
        .def("cancel", &Answers::cancel)
        .def("stop_reasons", &Answers::stop_reasons);
}
