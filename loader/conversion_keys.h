// Keys of a GGUF made from a folder, as llama.cpp's gguf-py/gguf/constants.py names them.
#pragma once

#include "gguf_writer.h"
#include "rope_scaling.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria::conversion {

/// A model, and the rotations of its folder: of full layers, then of windowed ones where they differ.
struct Described {
    const Architecture& architecture;
    const std::vector<RopeSettings>& ropes;
    uint32_t feed_forward;  // columns of a dense one, which config.json may say even where there is none
    uint32_t buckets = 0;   // rows of T5's table of positions
};

/// Sets keys of one architecture.
class Keys {
  public:
    Keys(std::string architecture, GgufWriter& out) : prefix_(std::move(architecture) + "."), out_(out) {}
    void set(std::string_view name, uint32_t value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, bool value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, const char* value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, const std::vector<bool>& value) {
        out_.set(prefix_ + std::string(name), value);
    }
    void set(std::string_view name, const std::vector<uint32_t>& values) {
        const std::vector<int32_t> numbers(values.begin(), values.end());
        out_.set(prefix_ + std::string(name), std::span(numbers));
    }
    void set(std::string_view name, const std::vector<float>& values) {
        out_.set(prefix_ + std::string(name), std::span(values));
    }
    /// Without the architecture's name before it.
    void set_global(std::string_view name, const std::vector<float>& values) {
        out_.set(name, std::span(values));
    }
    void set(std::string_view name, double value) {
        out_.set(prefix_ + std::string(name), static_cast<float>(value));
    }

  private:
    std::string prefix_;
    GgufWriter& out_;
};

/// The keys that architectures share. Errors: unsupported, for a scaling of rotations that GGUF has no name
/// for.
void set_shared_keys(const Described& model, Keys& keys);
void set_shared_expert(const Described& model, Keys& keys);
void set_granite(const Described& model, Keys& keys);
void set_logit_scale(const Described& model, Keys& keys);
void set_choice(const Routing& routing, Keys& keys);
void set_deepseek_experts(const Described& model, Keys& keys);
/// Those, and of latent attention.
void set_deepseek(const Described& model, Keys& keys);
void set_granite_shared(const Described& model, Keys& keys);
/// Which layers rotate, where not all do.
void set_rotating(const Described& model, Keys& keys);
/// Which layers have the window.
void set_windowed(const Described& model, Keys& keys);
/// Key/value heads of every layer, 0 where it has no attention.
void set_heads_by_layer(const Described& model, Keys& keys);
/// Columns of the feed-forward that all tokens pass.
void set_columns_by_layer(const Described& model, Keys& keys);

}  // namespace scoria::conversion
