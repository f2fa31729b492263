// What stands behind pooling, computed on the host: a product with a vector for each layer, once per text.
#pragma once

#include "model.h"

namespace scoria {

class DenseLayers {
  public:
    /// Reads the weights. Errors: bad_file.
    DenseLayers(const TensorSource& tensors, std::span<const Dense> layers);
    bool empty() const { return layers_.empty(); }
    uint32_t size() const { return layers_.back().rows; }  // of what comes out; not of empty ones
    /// features: as many as the first layer takes. In double.
    std::vector<double> operator()(std::vector<double> features) const;

  private:
    struct Layer {
        uint32_t rows = 0;
        std::vector<float> weight, bias;  // [rows, cols]; [rows] or none
        std::vector<double> norm;         // likewise
        Activation activation = Activation::identity;
        double epsilon = 0;
    };
    std::vector<Layer> layers_;
};

}  // namespace scoria
