// Whatever is cached, however a sequence came and whatever else the engine is doing, the logits are those of
// the whole sequence computed at once, bit for bit (EngineOptions::deterministic). $SCORIA_ONLY=NAME runs one
// model.
#include "support/compare.h"
#include "support/device.h"
#include "support/families.h"
#include "support/golden.h"

#include <algorithm>

using namespace scoria;
using namespace scoria::test;

namespace {

/// A kind of cache each, for the quick tier and slow drivers.
const char* const of_each_cache[] = {"mistral", "llama-dynamic-ntk", "deepseek-v2", "transformer-xl", "t5"};

/// A golden's long case: its tokens and those that continue it.
struct Sequence {
    std::vector<TokenId> ids, source;
    uint32_t prompt = 0, prefix = 0;  // tokens of the prompt; that see each other
    std::vector<float> last;          // the golden's logits of the prompt's last token
};

Sequence sequence_of(const std::string& folder, uint32_t vocab) {
    const Safetensors golden(folder + "/golden.safetensors");
    Sequence s;
    if (golden.has("long.encoder_input_ids")) s.source = read_ids(golden, "long.encoder_input_ids");
    s.ids = read_ids(golden, s.source.empty() ? "long.input_ids" : "long.decoder_input_ids");
    s.prompt = uint32_t(s.ids.size());
    if (golden.has("long.prefix_length")) s.prefix = uint32_t(read_ids(golden, "long.prefix_length")[0]);
    const std::vector<TokenId> greedy = read_ids(golden, "long.greedy");
    s.ids.insert(s.ids.end(), greedy.begin(), greedy.end());
    const std::vector<float> logits = golden.read<float>("long.logits");
    s.last.assign(logits.end() - vocab, logits.end());
    return s;
}

/// A sequence in an engine, told by its length; whatever it gives is compared with `whole`, by length.
struct Growing {
    Growing(Engine& engine, const Sequence& of, std::span<const std::vector<float>> expected = {})
        : session(engine), sequence(of), whole(expected) {
        if (sequence.prefix) session.set_prefix(sequence.prefix);
        if (!sequence.source.empty()) session.encode(sequence.source);
    }
    void append_until(uint32_t length) {
        const size_t there = session.tokens().size();
        session.append(std::span(sequence.ids).subspan(there, length - there));
        check();
    }
    void generate_one() {
        const GenerateOptions greedy{.sampling = {}, .max_tokens = 1, .ignore_end = true, .on_token = {}};
        const TokenId next = sequence.ids[session.tokens().size()];
        CHECK(session.generate(greedy).tokens == std::vector{next});
        check();
    }
    void check() {
        const size_t length = session.tokens().size();
        CAPTURE(length);
        if (!whole[length].empty()) CHECK(largest_error(whole[length], session.logits()) == 0);
    }
    Session session;
    const Sequence& sequence;
    std::span<const std::vector<float>> whole;
};

}  // namespace

TEST_CASE("vulkan: a sequence token by token, in parts, and among others, is the sequence at once" *
          needs_fixtures_and_time()) {
    for (const std::string& family : decoders_or(of_each_cache)) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        EngineOptions options = engine_options(Precision::strict);
        options.deterministic = true;
        options.device.poison = true;  // else a cache begins with what the session before it left there
        options.device.poison_word = 0x7FC0DEADu;
        Engine engine(std::make_shared<const Model>(open_model(folder)), options);
        const Sequence sequence = sequence_of(folder, engine.model().architecture.logits());
        const uint32_t least = std::max(sequence.prefix, 1u), length = uint32_t(sequence.ids.size());

        // Each length computed at once: in the quick tier one in seven, and those that are generated.
        std::vector<std::vector<float>> whole(length + 1);
        for (uint32_t n = least; n <= length; ++n) {
            if (!deep() && n % 7 != 0 && n < sequence.prompt) continue;
            Growing fresh(engine, sequence);
            fresh.session.append(std::span(sequence.ids).first(n));
            whole[n] = fresh.session.logits();
            if (n >= sequence.prompt && n < length)
                CHECK(std::ranges::max_element(whole[n]) - whole[n].begin() == sequence.ids[n]);
        }
        CHECK(largest_error(sequence.last, whole[sequence.prompt]) <= strict_error);

        Growing single(engine, sequence, whole), parts(engine, sequence, whole);
        for (uint32_t n = least; n <= length; ++n) single.append_until(n);
        for (uint32_t n = least, part = 2; n <= length; n += part++) parts.append_until(n);
        // By turns, each of its own length.
        std::vector<Growing> sessions;
        for (const uint32_t first : {least, (least + sequence.prompt) / 2, sequence.prompt}) {
            sessions.emplace_back(engine, sequence, whole);
            sessions.back().append_until(first);
        }
        for (uint32_t turn = 0; turn < length - sequence.prompt; ++turn) {
            for (size_t i = 0; i < 2; ++i)
                sessions[i].append_until(uint32_t(sessions[i].session.tokens().size()) + 1);
            sessions.back().generate_one();
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}
