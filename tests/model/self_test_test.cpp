// First-run self-tests: what computes nonsense is found, named and left out, and the model answers as its
// golden does; what is stored about it may be damaged, stale or of a crash.
#include "self_test.h"

#include "engine.h"
#include "fail.h"
#include "file.h"
#include "support/cache_folder.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"
#include "verdicts.h"

#include <algorithm>
#include <fstream>

using namespace scoria;
using namespace scoria::test;
namespace fs = std::filesystem;

namespace {

doctest::skip needs_time() {
    const bool few = few_models();
    return doctest::skip(few || floor_tier() || !have_fixtures());
}

const ModelFixture& fixture() {
    return *std::ranges::find(model_fixtures, std::string("gguf/llama3.gguf"), &ModelFixture::gguf);
}
std::shared_ptr<const Model> self_tested_model() {
    static const auto model = std::make_shared<const Model>(open_fixture(fixture()));
    return model;
}

struct Cache : CacheFolder {
    bool says(std::string_view text) const { return logged.find(text) != std::string::npos; }
    fs::path file(const std::string& extension) const {
        for (const auto& entry : fs::directory_iterator(folder))
            if (entry.path().filename().string().starts_with("verdicts-") &&
                entry.path().extension() == extension)
                return entry.path();
        return {};
    }
};

/// A shader that adds where it should multiply, while this lives. Its words are the process's own.
class Broken {
  public:
    explicit Broken(Shader shader) : words_(words_of(shader)), whole_(words_.begin(), words_.end()) {
        constexpr uint32_t header = 5, float_add = 129, float_multiply = 133;
        for (size_t at = header; at < words_.size(); at += words_[at] >> 16)
            if ((words_[at] & 0xFFFF) == float_multiply) words_[at] = (words_[at] & ~0xFFFFu) | float_add;
        CHECK(!std::ranges::equal(words_, whole_));
    }
    ~Broken() { std::ranges::copy(whole_, words_.begin()); }
    Broken(const Broken&) = delete;

  private:
    static std::span<uint32_t> words_of(Shader shader) {
        const std::span<const uint32_t> words = shader_module(shader).words;
        return {const_cast<uint32_t*>(words.data()), words.size()};
    }
    std::span<uint32_t> words_;
    std::vector<uint32_t> whole_;
};

/// The golden's logits within the strict bound, and its tokens.
bool answers(Engine& engine) {
    const Safetensors golden(fixtures() + "/" + fixture().golden);
    Session session(engine);
    const std::vector<float> expected = golden.read<float>("short.logits");
    if (!(largest_error(expected, session.forward(read_ids(golden, "short.input_ids"), false).logits) <=
          strict_error))
        return false;
    GenerateOptions generate{.sampling = {}, .max_tokens = 4, .ignore_end = true, .on_token = {}};
    std::vector<TokenId> tokens = read_ids(golden, "short.greedy");
    tokens.resize(4);
    return session.generate(generate).tokens == tokens;
}

VariantUse use_of(const std::string& op) {
    Engine engine(self_tested_model(), engine_options(Precision::strict));
    const std::vector<VariantUse> uses = engine.impl().uses();
    return *std::ranges::find(uses, op, &VariantUse::op);
}

size_t quarantined(Engine& engine) { return engine.impl().choices.quarantined.size(); }

}  // namespace

TEST_CASE("vulkan: a variant that computes nonsense is quarantined and the answer stays" * needs_time()) {
    const VariantUse norm = use_of("norm");
    if (norm.names.size() < 2) return;  // emulated subgroups are all there is
    Cache cache;
    const Broken broken(norm.shader);
    {
        Engine untested(self_tested_model(), cache.options(SelfTest::never));
        CHECK(!answers(untested));
    }
    {
        Engine engine(self_tested_model(), cache.options(SelfTest::always));
        CHECK(engine.impl().choices.quarantined.contains(norm.key()));
        CHECK(quarantined(engine) == 1);
        CHECK(answers(engine));
    }
    CHECK(cache.says("[self-test] norm/" + norm.chosen + " on "));
    CHECK(cache.says("; using " + norm.names[1] + " instead"));
    cache.logged.clear();
    Engine later(self_tested_model(), cache.options(SelfTest::never));
    CHECK(quarantined(later) == 1);
    CHECK(answers(later));
    CHECK(cache.logged.empty());
    const std::vector<StoredVerdicts> stored = stored_verdicts(cache.folder.string());
    REQUIRE(stored.size() == 1);
    CHECK(stored[0].current);
    CHECK(stored[0].verdicts.failed.contains(norm.key()));
    CHECK(stored[0].verdicts.passed.size() > 5);
    // Forced, it is still left out.
    EngineOptions options = cache.options(SelfTest::never);
    options.variants = {"norm=" + norm.chosen};
    Engine forced(self_tested_model(), options);
    CHECK(answers(forced));
}

TEST_CASE("pipelines are made side by side, unless that ended a process before" * needs_fixtures()) {
    for (const bool ended : {false, true}) {
        Cache cache;
        Engine before(self_tested_model(), cache.options(SelfTest::never));
        if (before.device().caps().is_cpu()) return;
        if (ended) {
            VerdictBook book(cache.folder.string(), before.device().caps());
            REQUIRE(book.open_journal());
            book.begin("all pipelines at once");
        }
        Engine engine(self_tested_model(), cache.options(SelfTest::always));
        CHECK(cache.says("pipelines made by") == !ended);
        CHECK(cache.says("pipelines are made one by one") == ended);
        CHECK(quarantined(engine) == 0);
        CHECK(answers(engine));
    }
}

TEST_CASE("vulkan: an op without a variant left is an error that names it" * needs_fixtures()) {
    Cache cache;
    const VariantUse select = use_of("select");
    Engine engine(self_tested_model(), cache.options(SelfTest::never));
    {
        VerdictBook book(cache.folder.string(), engine.device().caps());
        book.failed(select.key(), "for the test");
        book.save();
    }
    CHECK_THROWS_WITH_AS(Engine(self_tested_model(), cache.options(SelfTest::never)),
                         doctest::Contains("[select]"), Error);
    CHECK(forget_verdicts(cache.folder.string()) == 1);
    CHECK_NOTHROW(Engine(self_tested_model(), cache.options(SelfTest::never)));
}

TEST_CASE("vulkan: stored verdicts may be damaged, stale, or of a crash" * needs_fixtures()) {
    Cache cache;
    const VariantUse embed = use_of("embed"), norm = use_of("norm");
    Engine engine(self_tested_model(), cache.options(SelfTest::never));
    const vk::Caps& caps = engine.device().caps();
    const auto failed = [&] { return VerdictBook(cache.folder.string(), caps).verdicts().failed.size(); };
    const auto write = [](const fs::path& path, const std::string& text) { std::ofstream(path) << text; };
    {
        VerdictBook book(cache.folder.string(), caps);
        book.failed(norm.key(), "for the test");
        REQUIRE(book.open_journal());
        book.save();
    }
    CHECK(failed() == 1);
    const fs::path file = cache.file(".json"), journal = cache.file(".journal");
    REQUIRE(!file.empty());
    REQUIRE(!journal.empty());

    const std::string whole = read_file(file.string());
    std::string stale = whole;
    stale.replace(stale.find("\"build\": \"") + 10, 1, "other");
    for (const std::string& text :
         {std::string(), std::string("[]"), whole.substr(0, whole.size() / 2), stale}) {
        write(file, text);
        CHECK(failed() == 0);
    }
    CHECK(cache.says("is ignored"));
    write(file, whole);

    write(journal, "half a li");
    CHECK(failed() == 1);
    write(journal, "another-build " + embed.key() + "\n");
    CHECK(failed() == 1);
    const auto end_in_test = [&] {
        VerdictBook book(cache.folder.string(), caps);
        REQUIRE(book.open_journal());
        book.begin(embed.key());
    };
    end_in_test();
    {
        const LockedFile other(journal.string());
        CHECK(failed() == 1);  // another process tests it now
        CHECK(!VerdictBook(cache.folder.string(), caps).open_journal());
    }
    CHECK(failed() == 1);  // suspected: who ended the process?
    CHECK(cache.says("the process ended while it was tested at an earlier start"));
    const VerdictBook suspicious(cache.folder.string(), caps);
    CHECK(suspicious.left_out(true).contains(embed.key()));
    CHECK(!suspicious.left_out(false).contains(embed.key()));
    end_in_test();
    CHECK(failed() == 2);
    CHECK(fs::file_size(journal) == 0);
    CHECK(failed() == 2);  // kept
}

TEST_CASE("when self-tests run") {
    vk::Caps cpu, gpu;
    cpu.type = vk::DeviceType::cpu;
    gpu.type = vk::DeviceType::discrete;
    EngineOptions options;
    CHECK(!self_test_wanted(options, gpu));  // nowhere to remember it
    options.device.cache_folder = "/some/where";
    CHECK(self_test_wanted(options, gpu));
    CHECK(!self_test_wanted(options, cpu));
    options.self_test = SelfTest::always;
    CHECK(self_test_wanted(options, cpu));
    options.device.host = std::make_shared<const vk::HostDevice>();
    CHECK(!self_test_wanted(options, gpu));
    options.device.host = nullptr;
    options.self_test = SelfTest::never;
    CHECK(!self_test_wanted(options, gpu));
}
