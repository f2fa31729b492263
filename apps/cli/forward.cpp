// forward: what a model computes for given tokens, in the names of the fixtures.
#include "common.h"
#include "io.h"
#include "messages.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "hash_rotations.h"
#include "safetensors.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace scoria::cli {
namespace {

struct ForwardOptions {
    std::string ids, encoder_ids, inputs, test_case, output;
    uint32_t greedy = 0;
    bool hidden = false;
};

/// Integers of --inputs by the fixtures' names; none if there is no such array and it is `optional`.
std::vector<TokenId> read_input(const ForwardOptions& options, const std::string& array, bool optional) {
    const std::string name = options.test_case.empty() ? array : cat(options.test_case, ".", array);
    std::vector<TokenId> ids;
    if (optional && (options.inputs.empty() || !Safetensors(options.inputs).has(name))) return ids;
    for (const int64_t id : Safetensors(options.inputs).read<int64_t>(name)) {
        if (id < 0 || id > std::numeric_limits<TokenId>::max())
            fail(Status::bad_file, options.inputs, "expected token ids in ", name, ", got ", id);
        ids.push_back(TokenId(id));
    }
    return ids;
}

std::vector<TokenId> input_ids(const ForwardOptions& options, const char* array) {
    if (options.ids.empty() == options.inputs.empty())
        fail(Status::bad_argument, "forward", "expected one of --ids and --inputs");
    return options.ids.empty() ? read_input(options, array, false) : parse_ids("forward", options.ids);
}

/// What an encoder-decoder's encoder sees.
std::vector<TokenId> source_ids(const ForwardOptions& options) {
    if (options.encoder_ids.empty() == options.inputs.empty())
        fail(Status::bad_argument, "forward",
             "expected --encoder-ids beside --ids, or --inputs, for an encoder-decoder");
    return options.inputs.empty() ? parse_ids("forward", options.encoder_ids)
                                  : read_input(options, "encoder_input_ids", false);
}

void add_states(std::vector<NamedArray>& arrays, const ForwardResult& result, const char* prefix) {
    const std::vector<uint64_t> shape = {result.tokens, result.hidden_size},
                                last_shape = {result.tokens, result.last_hidden_size()};
    arrays.emplace_back(cat(prefix, "last_hidden_state"), last_shape, result.last_hidden);
    for (size_t i = 0; i < result.hidden.size(); ++i)
        arrays.emplace_back(cat(prefix, "hidden.", i), shape, result.hidden[i]);
}

std::vector<NamedArray> output_arrays(const ForwardResult& result,
                                      const std::optional<ForwardResult>& encoder,
                                      const std::vector<int64_t>& greedy, bool has_head) {
    std::vector<NamedArray> arrays;
    if (encoder) add_states(arrays, *encoder, "encoder_");
    add_states(arrays, result, "");
    if (has_head)
        arrays.emplace_back("logits", std::vector<uint64_t>{result.tokens, result.vocab}, result.logits);
    if (!greedy.empty()) arrays.emplace_back("greedy", std::vector<uint64_t>{greedy.size()}, greedy);
    return arrays;
}

/// The model with the hash rotations of --inputs, if there are any; they are the same for all cases.
std::shared_ptr<const Model> with_rotations(std::shared_ptr<const Model> model,
                                            const ForwardOptions& options) {
    const std::string name = "rotations";
    if (options.inputs.empty() || !Safetensors(options.inputs).has(name)) return model;
    const Safetensors inputs(options.inputs);
    const auto changed = std::make_shared<Model>(*model);
    set_rotations(*changed, inputs.array(name).shape, inputs.read<float>(name));
    return changed;
}

int forward(const ForwardOptions& options, const Common& common) {
    check_no_model("forward", common.model, options.output);
    EngineOptions engine_flags = engine_options(common);
    const std::shared_ptr<const Model> model = with_rotations(load_model(common), options);
    const bool encodes = !model->architecture.encoder.empty();
    const std::vector<TokenId> ids = input_ids(options, encodes ? "decoder_input_ids" : "input_ids");
    if (ids.empty()) fail(Status::bad_argument, "forward", "expected at least one token, got none");
    std::optional<std::vector<TokenId>> source;
    if (encodes) source = source_ids(options);
    if (!encodes && !options.encoder_ids.empty())
        fail(Status::bad_argument, "forward", "expected an encoder-decoder beside --encoder-ids, got ",
             model->architecture.family);
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    Session session(*engine);
    if (const std::vector<TokenId> prefix = read_input(options, "prefix_length", true); !prefix.empty())
        session.set_prefix(uint32_t(prefix.front()));
    std::optional<ForwardResult> encoder;
    const std::vector<TokenId> global = read_input(options, "global_attention_mask", true);
    if (source) encoder = session.encode(*source, options.hidden, global);
    const ForwardResult result =
        session.forward(ids, options.hidden, read_input(options, "token_type_ids", true),
                        source ? std::vector<TokenId>{} : global);
    std::vector<int64_t> greedy;
    if (options.greedy > 0) {
        GenerateOptions generate;
        generate.max_tokens = options.greedy;
        generate.ignore_end = true;
        const GenerateResult generated = session.generate(generate);
        if (generated.tokens.size() != options.greedy)
            fail(Status::context_full, "forward", "expected ", options.greedy, " greedy tokens, got ",
                 generated.tokens.size(), ": the context of ", session.capacity(), " is full");
        greedy.assign(generated.tokens.begin(), generated.tokens.end());
    }
    write_safetensors(options.output, output_arrays(result, encoder, greedy, model->architecture.has_head));

    const auto last = result.logits.end() - result.vocab;
    const auto best = std::max_element(last, result.logits.end()) - last;
    if (common.json)
        print(json_text(nlohmann::json{{"tokens", result.tokens},
                                       {"vocab", result.vocab},
                                       {"next", best},
                                       {"greedy", greedy},
                                       {"precision", precision_name(engine_flags.precision)},
                                       {"output", options.output}}),
              '\n');
    else
        print(result.tokens, " tokens, vocabulary ", result.vocab, ", next token ", best, " -> ",
              options.output, '\n');
    return finish(*engine);
}

}  // namespace

Action define_forward(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ForwardOptions>();
    app.add_option("--ids", options->ids, "token ids, e.g. 1,2,3");
    app.add_option("--encoder-ids", options->encoder_ids,
                   "of an encoder-decoder: what the encoder sees; --ids are the decoder's");
    CLI::Option* const inputs =
        app.add_option("--inputs", options->inputs,
                       "a safetensors file with input_ids, or encoder_input_ids and decoder_input_ids")
            ->check(CLI::ExistingFile);
    app.add_option("--case", options->test_case, "prefix of the names in --inputs: NAME.input_ids")
        ->needs(inputs);
    app.add_flag("--hidden", options->hidden,
                 "also write hidden.<i>, the residual stream before and after each layer");
    app.add_option("--greedy", options->greedy,
                   "also write N greedily chosen tokens; end-of-generation ids are not special");
    app.add_option("-o,--output", options->output, "safetensors file to write")
        ->required()
        ->check(writable());
    return [options, &common] { return forward(*options, common); };
}

}  // namespace scoria::cli
