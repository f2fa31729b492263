// A folder with a layer that guesses ahead (Architecture::ahead): its model and that layer, which are read
// one by one, as one GGUF.
#include "conversion_families.h"
#include "conversion_folder.h"
#include "conversion_read_back.h"
#include "fail.h"
#include "layer_ahead.h"
#include "log.h"

#include <algorithm>

namespace scoria {
namespace {

namespace fs = std::filesystem;

class AheadSource final : public ConversionSource {
  public:
    AheadSource(const fs::path& path, const Model& model, const Model& ahead, std::string architecture)
        : model_(open_conversion_part(path, model)), layer_(open_conversion_part(path, ahead)),
          architecture_(std::move(architecture)), layers_(model.architecture.layers.size()) {
        tensors_ = model_->tensors();
        facts_ = model_->facts();
        const auto shared = [&](const std::string& name) {  // the model's own
            return (name == "token_embd.weight" && same(model, ahead, Role::token_embedding)) ||
                   (name == "output.weight" && same(model, ahead, Role::output));
        };
        for (size_t i = 0; i < layer_->tensors().size(); ++i) {
            Tensor tensor = layer_->tensors()[i];
            if (shared(tensor.name)) continue;
            tensor.name = gguf_name_ahead(tensor.name, layers_);
            if (tensor.name.empty()) continue;  // of the whole model, which has it
            tensors_.push_back(std::move(tensor));
            of_layer_.push_back(i);
        }
        check_read_back(path, ahead);
    }
    std::vector<std::string> paths() const override { return model_->paths(); }
    void metadata(GgufWriter& out) const override {
        model_->metadata(out);
        out.set(architecture_ + ".block_count", uint32_t(layers_ + 1));
        out.set(architecture_ + ".nextn_predict_layers", 1u);
    }
    void read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const override {
        const size_t before = model_->tensors().size();
        tensor < before ? model_->read_rows(tensor, first_row, out)
                        : layer_->read_rows(of_layer_[tensor - before], first_row, out);
    }

  private:
    static bool same(const Model& a, const Model& b, Role role) {
        const auto left = a.weights.find({role}), right = b.weights.find({role});
        return left != a.weights.end() && right != b.weights.end() &&
               left->second.file == right->second.file && left->second.offset == right->second.offset &&
               left->second.name == right->second.name;
    }
    void check_read_back(const fs::path& path, const Model& ahead) const {
        GgufWriter writer;
        metadata(writer);
        for (const Tensor& tensor : tensors_) writer.add(tensor.name, tensor.dimensions, tensor.type);
        const ReadModel read = read_back(writer, writer.header(facts_.alignment), ModelPart::ahead);
        const std::string lost = what_differs(ahead.architecture, read.architecture, false);
        if (!lost.empty())
            fail(Status::unsupported, path.string(), lost, ": GGUF's ", architecture_,
                 " cannot say what the layer ahead does");
    }

    std::unique_ptr<const ConversionSource> model_, layer_;
    std::string architecture_;  // GGUF's
    size_t layers_;             // of the model
    std::vector<size_t> of_layer_;
};

}  // namespace

std::unique_ptr<const ConversionSource> open_conversion_folder(const fs::path& path) {
    const auto open = [&](ModelPart part) {
        return open_model(path, Reads::positioned, Floats8::bf16, part);
    };
    Model model = open(ModelPart::whole);
    const conversion::ConversionFamily* family = conversion::conversion_family(model.architecture);
    if (family != nullptr && family->ahead && has_layer_ahead(model)) try {
            return std::make_unique<const AheadSource>(path, model, open(ModelPart::ahead),
                                                       family->architecture);
        } catch (const Error& error) {
            if (error.status() != Status::bad_file && error.status() != Status::unsupported) throw;
            log(cat("without the layer that guesses further tokens: ", error.what()));
        }
    return open_conversion_part(path, std::move(model));
}

}  // namespace scoria
