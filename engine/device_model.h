// A model's weights on the device, shared by all sessions: matrices repacked and sharded, vectors as
// float32, the rotary tables. Read by positioned reads, chunk by chunk, straight into staging rings
// (or into device memory itself where the host can see it).
#pragma once

#include "model.h"
#include "ops/op.h"
#include "plan.h"
#include "weight_places.h"

#include <functional>

namespace scoria {

class Uploader;

class DeviceModel {
  public:
    /// Takes the memory of everything that `plan` reads, where `places` says. `positions`: how far the rotary
    /// tables reach. With `use` none it takes no memory, and is there to be recorded alone. Errors:
    /// out_of_device_memory.
    DeviceModel(vk::Device& device, const Model& model, const Graph& graph, const Plan& plan,
                const WeightPlaces& places, uint32_t positions, vk::MemoryUse use = vk::MemoryUse::device);
    /// By so many threads, the caller's among them, which alone calls `progress`. Errors: bad_file (a read
    /// fails), out_of_device_memory, device_lost, and what `progress` throws.
    void upload(vk::Device& device, vk::Pipelines& pipelines, const Model& model, uint32_t threads,
                const std::function<void(uint64_t, uint64_t)>& progress);

    const Architecture& architecture() const { return architecture_; }
    const Graph& graph() const { return graph_; }
    const Plan& plan() const { return plan_; }
    const DeviceWeight& weight(GroupId id) const { return weights_[id]; }
    const vk::View& vector(VectorId id) const { return vectors_[id]; }
    /// Of Architecture::ropes[index]; such that depend on the sequence's length are for a short one.
    const vk::View& rope_tables(uint32_t index) const { return ropes_[index]; }
    /// What a session needs as Workspace::slots.
    uint64_t slots_bytes() const { return slots_bytes_; }

    /// Device bytes that the vectors and rotary tables of a plan take, and of the staging rings.
    static uint64_t vector_bytes(const Plan& plan, const Architecture& architecture, const vk::Caps& caps,
                                 uint32_t positions);
    static uint64_t staging_bytes(const vk::Caps& caps, uint32_t threads);
    /// Bytes of the model's files that the matrices of a plan are.
    static uint64_t file_bytes(const Plan& plan, const Model& model);

  private:
    struct Piece;
    std::vector<Piece> pieces() const;
    static uint64_t upload_piece(Uploader& uploader, const Model& model, const Piece& piece);
    void place_vectors(vk::Device& device, vk::MemoryUse use);
    void upload_vectors(Uploader& uploader, const Model& model) const;

    const Architecture& architecture_;
    const Graph& graph_;
    const Plan& plan_;
    uint32_t positions_;
    std::vector<vk::Buffer> buffers_;  // of the weights' shards, in order, then of the vectors
    std::vector<DeviceWeight> weights_;
    std::vector<vk::View> vectors_;
    std::vector<vk::View> ropes_;
    uint64_t slots_bytes_;
};

}  // namespace scoria
