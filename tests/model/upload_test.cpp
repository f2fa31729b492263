// Weights on their way to the device: by several threads, past errors, and with somebody who watches.
#include "engine.h"
#include "fail.h"
#include "loader/gguf_builder.h"
#include "support/device.h"
#include "support/quantised_llama.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

using namespace scoria;
using namespace scoria::test;
using namespace std::chrono_literals;

namespace {

/// A model's tensors, read slowly; one read fails. Those that come first wait for `awaited` threads.
class SlowTensors : public TensorSource {
  public:
    explicit SlowTensors(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        // Once it is over, long enough for word of that to be there before the next piece.
        const bool late = fails_at != 0 && reads >= fails_at;
        std::this_thread::sleep_for(late ? 10 * each : each);
        if (++reads == fails_at) fail(Status::bad_file, "slow", "tensor ", tensor.name, " is gone");
        source_->read(tensor, first, out);
        std::unique_lock lock(mutex_);
        threads.insert(std::this_thread::get_id());
        arrived_.notify_all();
        if (!arrived_.wait_for(lock, 20s, [&] { return threads.size() >= awaited; })) awaited = 0;
    }
    mutable std::atomic<uint32_t> reads{0};
    mutable std::set<std::thread::id> threads;
    mutable size_t awaited = 0;
    uint32_t fails_at = 0;
    std::chrono::milliseconds each{2};

  private:
    std::shared_ptr<const TensorSource> source_;
    mutable std::mutex mutex_;
    mutable std::condition_variable arrived_;
};

struct Loaded {
    explicit Loaded(const std::string& path) : model(std::make_shared<Model>(open_model(path))) {
        model->tensors = tensors = std::make_shared<SlowTensors>(model->tensors);
    }
    std::shared_ptr<Model> model;
    std::shared_ptr<SlowTensors> tensors;
};

EngineOptions by_threads(uint32_t threads, const std::string& profile = caps_profile()) {
    EngineOptions options = engine_options(Precision::strict);
    options.device.caps_profile = profile;
    options.upload_threads = threads;
    return options;
}

GgufFile eight_layers() {
    using enum TensorType;
    return quantised_llama(std::vector<Mix>(8, all_of(q8_0)), q8_0, q8_0);
}

uint32_t reads_of(const std::string& path) {
    const Loaded loaded(path);
    const Engine engine(loaded.model, by_threads(1));
    return loaded.tensors->reads;
}

}  // namespace

TEST_CASE("weights that several threads move are those that one moves" * doctest::skip(floor_tier())) {
    const TemporaryFile file(mixed_llama().bytes());
    // Device memory that the host sees, and such that it does not, in many shards.
    for (const std::string& profile :
         {caps_profile(), cat(SCORIA_SOURCE_DIR, "/tests/profiles/small_bindings.json")}) {
        CAPTURE(profile);
        std::vector<float> expected;
        for (const uint32_t threads : {1, 4}) {
            CAPTURE(threads);
            Loaded loaded(file.path());
            loaded.tensors->awaited = threads;
            Engine engine(loaded.model, by_threads(threads, profile));
            CHECK(loaded.tensors->threads.size() == threads);
            Session session(engine);
            const std::vector<float> logits =
                session.forward(std::vector<TokenId>{3, 50, 7, 99, 9}, false).logits;
            if (threads == 1) expected = logits;
            CHECK(logits == expected);
            CHECK(engine.device().validation_errors() == 0);
        }
    }
}

TEST_CASE("a read that fails on any thread is the engine's error" * doctest::skip(floor_tier())) {
    const TemporaryFile file(eight_layers().bytes());
    const uint32_t all = reads_of(file.path());
    for (const uint32_t threads : {1, 4})
        for (const uint32_t read : {1, 2, 3, 7}) {
            CAPTURE(threads);
            CAPTURE(read);
            Loaded loaded(file.path());
            loaded.tensors->fails_at = read;
            Status status = Status::ok;
            try {
                const Engine engine(loaded.model, by_threads(threads));
            } catch (const Error& error) {
                status = error.status();
                CHECK(std::string(error.what()).find(" is gone") != std::string::npos);
            }
            CHECK(status == Status::bad_file);
            CHECK(loaded.tensors->reads < all / 2);  // nobody goes on
        }
}

TEST_CASE("progress is the caller's, grows, and may end the upload" * doctest::skip(floor_tier())) {
    const TemporaryFile file(eight_layers().bytes());
    for (const uint32_t threads : {1, 4}) {
        CAPTURE(threads);
        Loaded loaded(file.path());
        EngineOptions options = by_threads(threads);
        uint64_t before = 0, all = 0;
        bool mine = true, grows = true;
        const std::thread::id caller = std::this_thread::get_id();
        options.progress = [&](uint64_t done, uint64_t total) {
            mine = mine && std::this_thread::get_id() == caller;
            grows = grows && done >= before && done <= total;
            before = done;
            all = total;
        };
        { const Engine engine(loaded.model, options); }
        const uint32_t all_reads = loaded.tensors->reads;
        CHECK(mine);
        CHECK(grows);
        CHECK(before == all);
        CHECK(all > 0);

        options.progress = [](uint64_t, uint64_t) { fail(Status::cancelled, "test", "enough"); };
        loaded.tensors->reads = 0;
        loaded.tensors->each *= 10;
        Status status = Status::ok;
        try {
            const Engine engine(loaded.model, options);
        } catch (const Error& error) {
            status = error.status();
        }
        CHECK(status == Status::cancelled);
        CHECK(loaded.tensors->reads < all_reads / 2);
    }
}
