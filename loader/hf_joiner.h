// What the readers of quantised Hugging Face folders share (hf_scales.h): tensors by name, and which of them
// have found the one they belong to.
#pragma once

#include "hf_scales.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <set>

namespace scoria {

class Joiner {
  public:
    /// `config` is quantization_config.
    Joiner(const Settings& config, std::vector<StoredTensor>& tensors, const GatheredTensors& source);

  protected:
    // hf_integers.cpp
    /// Of compressed-tensors: X.weight of 8 bits, or X.weight_packed in words of 32, by X.weight_scale for
    /// all, for each row, or for groups of a row's columns.
    void scale_integers(bool packed);
    /// GPTQ's and AWQ's X.qweight, X.qzeros and X.scales, groups of columns being rows of the latter two.
    void join_columns(bool awq);
    /// bitsandbytes' X.weight of 8 bits by X.SCB, 127 times the scale of each row.
    void join_vectorwise();

    // hf_codes.cpp
    /// MXFP4, as gpt-oss has it: X_blocks of 16 bytes, 32 columns each, by X_scales.
    void join_blocks();
    /// The same in a matrix X.weight or X.weight_packed by X.weight_scale.
    void join_mxfp4(const char* ending);
    /// NVFP4: X.weight_packed by X.weight_scale and over X.weight_global_scale; or X.weight by the first and
    /// by X.weight_scale_2.
    void join_nvfp4(bool packed);
    /// bitsandbytes' numbers of 4 bits, which stand for those of a table.
    void join_tables();

    /// The name without `ending`; nothing, if it has another, or if the tensor was joined to one.
    std::optional<std::string> stem_of(const StoredTensor& tensor, std::string_view ending) const;
    /// What has that name, joined; or null.
    const StoredTensor* find(const std::string& name);
    /// The first there is of X with each of these endings, joined. Errors: bad_file.
    const StoredTensor& beside(const StoredTensor& tensor, const std::string& stem,
                               std::initializer_list<const char*> endings);
    [[noreturn]] void misshapen(const StoredTensor& scales, const StoredTensor& of) const;
    /// Errors: unsupported.
    [[noreturn]] void other(const char* name, std::string_view expected) const;
    void give(StoredTensor& tensor, Scales scales);
    /// Takes what was joined off the list, and scales of activations.
    std::vector<Scales> finish();

    const Settings& config_;
    std::vector<StoredTensor>& tensors_;
    const GatheredTensors& source_;

  private:
    struct Groups;
    bool has_dynamic() const;
    Groups groups_of(const StoredTensor& of, const std::string& index, uint64_t cols, uint64_t count,
                     bool ordered);
    void give_integers(StoredTensor& tensor, Scales scales, const std::vector<float>& values,
                       std::vector<float> zeros, TensorType floats);
    void join_expert_types();

    std::map<std::string, const StoredTensor*> by_name_;
    std::set<std::string> joined_;
    std::vector<Scales> scales_;
};

}  // namespace scoria
