// See hf_scales.h.
#include "hf_scales.h"

#include "binding.h"
#include "fail.h"
#include "hf_families.h"
#include "hf_joiner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace scoria {
namespace {

constexpr const char* field = "quantization_config";

constexpr std::string_view other_scales[] = {".input_scale",        ".activation_scale", ".input_zero_point",
                                             ".input_global_scale", ".k_scale",          ".v_scale",
                                             ".output_scale",       ".weight_format"};

/// Whether a half holds 256 times the scale of 8-bit floats as a normal number.
bool fits_half(float scale) {
    constexpr float least = 0x1p-22f, most = 255;
    return scale == 0 || (std::abs(scale) >= least && std::abs(scale) <= most);
}

class FolderJoiner final : public Joiner {
  public:
    using Joiner::Joiner;

    std::vector<Scales> join() {
        const std::string method = config_.text("quant_method");
        const auto found = std::ranges::find(methods, method, &Method::name);
        if (found == std::end(methods)) {
            std::string names;
            for (const Method& each : methods) names += cat(names.empty() ? "" : ", ", each.name);
            other("quant_method", names);
        }
        (this->*found->join)();
        return finish();
    }

  private:
    struct Method {
        std::string_view name;
        void (FolderJoiner::*join)();
    };
    static const Method methods[9];

    void fp8() {
        std::vector<double> block = config_.numbers("weight_block_size");
        if (block.empty()) block = {128, 128};
        if (block.size() != 2 || !(block[0] >= 1) || !(block[1] >= 1) || block[0] > most_size ||
            block[1] > most_size)
            config_.wrong("weight_block_size", "two sizes");
        scale_floats({uint64_t(block[0]), uint64_t(block[1])});
    }

    void compressed_tensors() {
        expect_format(config_);
        const Settings groups = config_.section("config_groups");
        if (const nlohmann::json* all = config_.find("config_groups"))
            for (const auto& [name, group] : all->items())
                if (groups.section(name).has("format")) expect_format(groups.section(name));
        config_.section("transform_config").refuse(std::array{"config_groups"});  // rotations
        expect_text(config_.section("sparsity_config"), "format", "dense");
        join_nvfp4(true);
        join_mxfp4(".weight_packed");
        scale_integers(true);
        scale_integers(false);
        scale_floats({128, 128});
    }
    static void expect_format(const Settings& of) {
        constexpr std::string_view formats[] = {
            "float-quantized", "int-quantized", "naive-quantized",      "pack-quantized",
            "mixed-precision", "dense",         "nvfp4-pack-quantized", "mxfp4-pack-quantized"};
        const std::string format = of.text("format");
        if (std::ranges::find(formats, format) != std::end(formats)) return;
        fail(Status::unsupported, of.where(), of.full_name("format"),
             ": expected float-, int-, pack-, nvfp4-pack- or mxfp4-pack-quantized, got ", format);
    }

    void gptq() {
        const std::string format = config_.text("checkpoint_format", config_.text("format", "gptq"));
        if (format != "gptq" && format != "gptq_v2")
            other(config_.has("checkpoint_format") ? "checkpoint_format" : "format", "gptq or gptq_v2");
        expect_flag(config_, "is_marlin_format", false, false);
        expect_text(config_, "pack_dtype", "int32");
        join_columns(false);
    }
    void awq() {
        const std::string version = config_.text("version", "gemm");
        if (version != "gemm" && version != "GEMM") other("version", "gemm");
        join_columns(true);
    }

    void mxfp4() { join_blocks(); }

    /// What a config says of weights, of all or of some: fp4 by exponents, or FP8.
    static void expect_quark(const Settings& scheme) {
        const Settings weight = scheme.section("weight");
        const std::string type = weight.text("dtype", "none");
        if (type == "fp8_e4m3" || !scheme.has("weight")) return;
        if (type != "fp4")
            fail(Status::unsupported, weight.where(), weight.full_name("dtype"),
                 ": expected fp4 or fp8_e4m3, got ", type);
        expect_text(weight, "scale_format", "e8m0");
    }
    void quark() {
        expect_quark(config_.section("global_quant_config"));
        for (const char* part : {"layer_quant_config", "layer_type_quant_config"}) {
            const Settings layers = config_.section(part);
            if (const nlohmann::json* all = config_.find(part))
                for (const auto& [name, scheme] : all->items()) expect_quark(layers.section(name));
        }
        join_mxfp4(".weight");
        scale_floats({1, 1});
    }

    void modelopt() {
        expect_algorithm(config_);
        const Settings layers = config_.section("quantized_layers");
        if (const nlohmann::json* all = config_.find("quantized_layers"))
            for (const auto& [name, layer] : all->items()) expect_algorithm(layers.section(name));
        for (const StoredTensor& tensor : tensors_)
            for (const char* ending : {".pre_quant_scale", ".svdquant_lora_a"})
                if (tensor.name.ends_with(ending))
                    fail(Status::unsupported, "safetensors", "tensor ", tensor.name,
                         ": expected weights by their scales alone");
        join_nvfp4(false);
        scale_floats({128, 128});
    }
    static void expect_algorithm(const Settings& of) {
        constexpr std::string_view known[] = {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4",
                                              "MIXED_PRECISION"};
        const std::string algorithm = of.text("quant_algo");
        if (std::ranges::find(known, algorithm) != std::end(known)) return;
        fail(Status::unsupported, of.where(), of.full_name("quant_algo"),
             ": expected FP8, NVFP4 or MIXED_PRECISION of these, got ", algorithm);
    }

    void bitsandbytes() {
        join_tables();
        join_vectorwise();
    }

    void bitnet() {
        expect_text(config_, "quantization_mode", "offline");
        expect_flag(config_, "use_rms_norm", false, false);
        unpack_ternary(config_.text("linear_class", "bitlinear") == "autobitlinear");
    }

    struct Block {
        uint64_t rows, cols;
    };

    /// A scale for all, for each row, or for each block, of every matrix of a tensor.
    void scale_floats(Block block) {
        bool fit = true;  // all or none: what is bound together has one type
        for (StoredTensor& tensor : tensors_) {
            if (tensor.decode != Decode::f8_e4m3 && tensor.decode != Decode::f8_e5m2) continue;
            if (tensor.shape.size() < 2 || !stem_of(tensor, "")) continue;
            const StoredTensor& stored = beside(tensor, tensor.name, {"_scale_inv", "_scale"});
            std::vector<uint64_t> shape = stored.shape;
            const size_t n = tensor.shape.size();
            if (shape.size() == 1 && shape[0] != 1)
                shape.resize(n == 3 && shape[0] == tensor.shape[0] ? 3 : 2, 1);
            while (shape.size() < n) shape.insert(shape.begin(), 1);
            const uint64_t rows = tensor.shape[n - 2], cols = tensor.shape[n - 1];
            uint64_t matrices = 1, of_scales = 1;
            for (size_t i = 0; i + 2 < n; ++i) matrices *= tensor.shape[i];
            for (size_t i = 0; i + 2 < shape.size(); ++i) of_scales *= shape[i];
            const auto each = [&](uint64_t size, uint64_t count, uint64_t of_block) -> uint64_t {
                if (count == 1) return size;
                if (count == size) return 1;
                return (size + of_block - 1) / of_block == count ? of_block : 0;
            };
            if (shape.size() != n || rows == 0 || cols == 0) misshapen(stored, tensor);
            Scales scales{matrices * rows,
                          cols,
                          {},
                          each(rows, shape[n - 2], block.rows),
                          each(cols, shape[n - 1], block.cols),
                          shape[n - 1]};
            if (of_scales == 1 && matrices > 1 && shape[n - 2] == 1) scales.rows_each = scales.rows;
            const bool split = matrices > 1 && of_scales > 1;  // no block may reach into the next matrix
            if (scales.rows_each == 0 || scales.cols_each == 0 ||
                (of_scales != matrices && scales.rows_each != scales.rows) ||
                (split && rows % scales.rows_each != 0))
                misshapen(stored, tensor);
            const std::vector<float> values = source_.floats(stored);
            scales.values = values;
            tensor.blocks = tensor.decode == Decode::f8_e4m3 && cols % 32 == 0 && scales.cols_each % 32 == 0;
            fit = fit && std::ranges::all_of(values, fits_half);
            give(tensor, std::move(scales));
        }
        for (StoredTensor& tensor : tensors_) tensor.blocks = tensor.blocks && fit;
    }

    /// `multiplies`: or else a scale divides.
    void unpack_ternary(bool multiplies) {
        for (StoredTensor& tensor : tensors_) {
            if (tensor.decode != Decode::u8 || tensor.shape.size() != 2) continue;
            const StoredTensor& stored = beside(tensor, tensor.name, {"_scale"});
            if (std::ranges::any_of(stored.shape, [](uint64_t size) { return size != 1; }))
                misshapen(stored, tensor);
            const float scale = source_.floats(stored).front();
            tensor.shape[0] *= 4;
            tensor.decode = Decode::ternary;
            tensor.type = tensor.shape[1] % 256 == 0 ? TensorType::tq2_0 : TensorType::bf16;
            give(tensor, {tensor.shape[0], tensor.shape[1], std::vector{multiplies ? scale : 1 / scale}});
        }
    }
};

constinit const FolderJoiner::Method FolderJoiner::methods[9] = {
    {"fp8", &FolderJoiner::fp8},           {"compressed-tensors", &FolderJoiner::compressed_tensors},
    {"gptq", &FolderJoiner::gptq},         {"awq", &FolderJoiner::awq},
    {"mxfp4", &FolderJoiner::mxfp4},       {"quark", &FolderJoiner::quark},
    {"modelopt", &FolderJoiner::modelopt}, {"bitsandbytes", &FolderJoiner::bitsandbytes},
    {"bitnet", &FolderJoiner::bitnet},
};

/// Expert @ of "..experts.@..", so that those of a layer have one name.
std::string without_expert(const std::string& name) {
    constexpr std::string_view experts = ".experts.";
    const size_t at = name.find(experts);
    if (at == std::string::npos) return {};
    const size_t number = at + experts.size(), after = name.find('.', number);
    return after == std::string::npos ? std::string() : name.substr(0, number) + name.substr(after);
}

}  // namespace

Joiner::Joiner(const Settings& config, std::vector<StoredTensor>& tensors, const GatheredTensors& source)
    : config_(config), tensors_(tensors), source_(source) {
    for (const StoredTensor& tensor : tensors)
        if (const auto [other, is_new] = by_name_.emplace(tensor.name, &tensor); !is_new)
            refuse_two("safetensors", *other->second, tensor);
}

std::optional<std::string> Joiner::stem_of(const StoredTensor& tensor, std::string_view ending) const {
    if (!tensor.name.ends_with(ending) || tensor.scales >= 0 || joined_.contains(tensor.name))
        return std::nullopt;
    return tensor.name.substr(0, tensor.name.size() - ending.size());
}

const StoredTensor* Joiner::find(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    joined_.insert(name);
    return found->second;
}

const StoredTensor& Joiner::beside(const StoredTensor& tensor, const std::string& stem,
                                   std::initializer_list<const char*> endings) {
    const StoredTensor* found = nullptr;
    for (const char* ending : endings) {
        const StoredTensor* other = find(stem + ending);
        if (found != nullptr && other != nullptr)
            fail(Status::bad_file, "safetensors", "tensor ", tensor.name, ": expected its scales once, got ",
                 found->name, " and ", other->name);
        if (found == nullptr) found = other;
    }
    if (found != nullptr) return *found;
    fail(Status::bad_file, "safetensors", "tensor ", tensor.name, ": expected its scales, ", stem,
         *endings.begin(), ", got none");
}

void Joiner::misshapen(const StoredTensor& scales, const StoredTensor& of) const {
    fail(Status::bad_file, "safetensors", "tensor ", scales.name, ": expected scales of ", of.name, ", ",
         shape_text(of.shape), ", got ", shape_text(scales.shape));
}

void Joiner::other(const char* name, std::string_view expected) const {
    const nlohmann::json* value = config_.find(name);
    const std::string got = value == nullptr     ? "nothing"
                            : value->is_string() ? value->get<std::string>().substr(0, 80)
                                                 : value->dump().substr(0, 80);
    fail(Status::unsupported, config_.where(), config_.full_name(name), ": expected ", expected, ", got ",
         got);
}

void Joiner::give(StoredTensor& tensor, Scales scales) {
    tensor.scales = static_cast<int32_t>(scales_.size());
    scales_.push_back(std::move(scales));
}

/// Experts of a layer are one weight: where their types differ, the widest, which holds the others' numbers.
void Joiner::join_expert_types() {
    std::map<std::string, TensorType> widest;
    const auto width = [](TensorType type) {
        return stored_bytes(type, Decode::none, tensor_type_info(type).block) * 32 /
               tensor_type_info(type).block;
    };
    const auto each = [&](const auto& use) {
        for (StoredTensor& tensor : tensors_) {
            if (tensor.scales < 0 || tensor.decode < Decode::int8 || tensor.decode > Decode::awq) continue;
            const std::string name = without_expert(tensor.name);
            if (!name.empty()) use(tensor, widest.emplace(name, tensor.type).first->second);
        }
    };
    each([&](StoredTensor& tensor, TensorType& type) {
        if (width(tensor.type) > width(type)) type = tensor.type;
    });
    each([&](StoredTensor& tensor, TensorType& type) { tensor.type = type; });
}

std::vector<Scales> Joiner::finish() {
    join_expert_types();
    std::erase_if(tensors_, [&](const StoredTensor& each) {
        return joined_.contains(each.name) ||
               std::ranges::any_of(other_scales, [&](auto ending) { return each.name.ends_with(ending); });
    });
    return std::move(scales_);
}

namespace {

/// Bytes whose scales stand beside them are no weights without these, and nobody says how they are meant.
void refuse_lone_scales(const Settings& config, const std::vector<StoredTensor>& tensors) {
    std::set<std::string_view> names;
    for (const StoredTensor& tensor : tensors) names.insert(tensor.name);
    for (const StoredTensor& tensor : tensors)
        for (const char* ending : {"_scale", "_scale_inv"})
            if ((tensor.decode == Decode::f8_e4m3 || tensor.decode == Decode::f8_e5m2) &&
                names.contains(tensor.name + ending))
                fail(Status::unsupported, config.where(), field, ": expected one for ", tensor.name, ending,
                     ", got none");
}

}  // namespace

std::vector<Scales> join_scales(const Settings& config, std::vector<StoredTensor>& tensors,
                                const GatheredTensors& source) {
    if (!config.has(field) || config.find(field)->empty()) {
        refuse_lone_scales(config, tensors);
        return {};
    }
    return FolderJoiner(config.section(field), tensors, source).join();
}

}  // namespace scoria
