// Heads whose elements i and i + width / 2 rotate together (RopePairs::halves), in the order in which 2 i and
// 2 i + 1 do: what a kernel makes of two neighbouring rows it can then rotate before it stores it. Scores do
// not change, since the rows of q and of k move alike.
#pragma once

#include "model.h"

#include <memory>

namespace scoria {

/// `model` with the rows of q and k read so, those of biases and adapters too, and ropes that say so. `model`
/// itself where ropes are of such pairs already or a layer's heads are more than rows of q and k: normalised,
/// latent, or beside keys of a layer that rotates otherwise.
std::shared_ptr<const Model> with_paired_heads(std::shared_ptr<const Model> model);

}  // namespace scoria
