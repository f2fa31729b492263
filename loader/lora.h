// LoRA adapters (Hu et al. 2021): y = W x + s B (A x), s = alpha / rank times a scale of the user's. They
// stay beside the model's weights and are added at run time, so a quantised W stays as it is. Files: PEFT's
// folders (adapter_config.json, adapter_model.safetensors) and GGUF, as llama.cpp's convert_lora_to_gguf.py
// writes it.
#pragma once

#include "gather.h"
#include "gguf.h"
#include "model.h"
#include "settings.h"

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace scoria {

struct Adapter {
    struct Pair {
        StoredTensor a, b;  // [rank, columns of W], [rows of W, rank]
        double scale = 0;   // alpha / rank, or as the file wants it
        uint32_t rank() const { return static_cast<uint32_t>(a.shape[0]); }
    };
    std::string name;         // the folder's or the file's, for messages
    Settings::Format format;  // whose tensor names it uses
    std::string base;         // GGUF: general.architecture; PEFT: the base model's name, may be empty
    std::map<std::string, Pair> pairs;  // by the name of W
    std::shared_ptr<const GatheredTensors> tensors;
};

/// Whether a folder, or a file by its name, is an adapter of PEFT and no model.
bool is_peft_adapter(const std::filesystem::path& path);
bool is_adapter(const Gguf& gguf);

/// Opens an adapter: a folder, its adapter_model.safetensors, or a GGUF file. Errors: bad_file (missing parts
/// or shapes that contradict each other, named); unsupported (DoRA and other kinds that are more than B A).
Adapter open_adapter(const std::filesystem::path& path);

struct AdapterChoice {
    std::filesystem::path path;
    double scale = 1;
};

/// Adds the adapters to an opened model that has none yet: its architecture gets their ranks, its weights
/// one A and one B per changed weight, those of several adapters concatenated along the rank. They are read
/// and kept as F32 in memory: B is scaled without being rounded again, and adapters are small beside models.
/// Errors: those of open_adapter; bad_file for a tensor that the model has no weight for, or of another
/// shape; unsupported for an architecture whose names are not known in the adapter's format.
void attach_adapters(Model& model, std::span<const AdapterChoice> choices);

}  // namespace scoria
