// Flags that every verb takes, and the model, device and engine that they describe.
#pragma once

#include "model.h"
#include "session.h"

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace scoria::cli {

struct Common {
    std::string model;                  // path of a GGUF or a pulled name; empty: smollm2
    std::vector<std::string> adapters;  // PATH or PATH:SCALE
    std::vector<std::string> variants;  // OP=NAME
    std::string device;                 // index or part of a name, or indices: 0,1
    std::string caps;                   // path of a profile
    std::string precision = "balanced", self_test = "auto";
    std::string kv;  // of kv_type_names; empty: by precision
    uint32_t context = 0;
    std::vector<uint64_t> gpu_memory;  // bytes, of each device; none: what the driver offers
    bool json = false, verbose = false, deterministic = false, no_fusion = false, validation = false;
    bool mmap = false, no_tune = false;
};

void add_common_flags(CLI::App& app, Common& common);

vk::DeviceOptions device_options(const Common& common);
EngineOptions engine_options(const Common& common);

/// With its adapters.
std::shared_ptr<const Model> load_model(const Common& common, ModelPart part = ModelPart::whole);
/// Errors: unsupported, when the file has no vocabulary.
std::shared_ptr<const Tokenizer> load_tokenizer(const Common& common);
const Tokenizer& tokenizer_of(const Model& model);
/// Windows of `length` tokens begin with BOS where the vocabulary adds it, as the model has seen texts begin.
void begin_windows(std::span<TokenId> ids, size_t length, const Tokenizer& tokenizer);

/// Uploads the weights with a progress bar, and says on stderr which device runs them.
std::unique_ptr<Engine> load_engine(std::shared_ptr<const Model> model, const EngineOptions& options,
                                    const Common& common);

/// Exit code after work on `device`: 1, with the messages on stderr, if validation layers objected.
int finish(const vk::Device& device);
int finish(Engine& engine);

const char* precision_name(Precision precision);

}  // namespace scoria::cli
