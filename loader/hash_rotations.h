// The random rotations of locality-sensitive hashing (Role::hash_rotations).
#pragma once

#include "model.h"

#include <vector>

namespace scoria {

/// Normal numbers as PyTorch's CPU generator makes them of `seed` (torch.randn of at least 16, float32):
/// Mersenne Twister 19937 (Matsumoto & Nishimura 1998), then Box and Muller's transform (1958) on blocks
/// of 16. The reference of Reformer draws its rotations so wherever config.json has a hash_seed.
std::vector<float> torch_normals(uint32_t seed, size_t count);

/// Puts other rotations in the place of the model's, [heads, head_dim, rounds, columns]. Errors: unsupported,
/// for a model that hashes nothing; bad_argument, for another shape.
void set_rotations(Model& model, std::span<const uint64_t> shape, std::vector<float> values);

}  // namespace scoria
