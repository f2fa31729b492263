// See device_model.h.
#include "device_model.h"

#include "fail.h"
#include "ops/rope.h"
#include "ops/weight_layout.h"
#include "reference/dequantise.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace scoria {
namespace {

constexpr uint64_t staging_slot_bytes = 8ull << 20;
constexpr uint64_t mapped_piece_bytes = 512ull << 10;  // as a CPU's second cache holds
constexpr uint32_t staging_slots = 2;

}  // namespace

/// Moves bytes to the device: in place where the host sees device memory, else through a ring of staging
/// buffers whose copies run, on the transfer queue if there is one, while the next piece is read.
class Uploader {
  public:
    Uploader(vk::Device& device, vk::Pipelines& pipelines) : device_(device), pipelines_(pipelines) {}
    ~Uploader() {
        for (Slot& slot : slots_) try {
                settle(slot);
            } catch (const std::exception&) {  // lost, or it hangs, and then the platform frees nothing
            }
    }

    void write(const vk::Buffer& to, uint64_t first, std::span<const std::byte> bytes) {
        const PlaneCopy whole{0, first, bytes.size()};
        write(to, {&whole, 1}, bytes);
    }
    /// Copies the listed pieces of `bytes`.
    void write(const vk::Buffer& to, std::span<const PlaneCopy> pieces, std::span<const std::byte> bytes) {
        if (const std::span<std::byte> mapped = to.mapped(); !mapped.empty()) {
            for (const PlaneCopy& piece : pieces)
                std::memcpy(&mapped[piece.to], &bytes[piece.from], piece.bytes);
            return;
        }
        Slot& slot = free_slot(bytes.size());
        std::memcpy(slot.buffer.mapped().data(), bytes.data(), bytes.size());
        vk::Recorder recorder(device_, pipelines_, {.queue = queue()});
        for (const PlaneCopy& piece : pieces)
            recorder.copy(slot.buffer.view(piece.from, piece.bytes), to.view(piece.to, piece.bytes));
        slot.commands = recorder.finish();
        const VkCommandBuffer handle = slot.commands.handle();
        slot.ticket = device_.submit({&handle, 1}, queue());
    }
    /// One as in the file and one repacked, for whoever fills them: kept, since new memory costs a page fault
    /// every 4 KiB.
    struct Pieces {
        std::vector<std::byte> file_rows, planes;
    };
    Pieces& pieces() { return pieces_; }
    void finish() {
        for (Slot& slot : slots_) settle(slot);
    }

  private:
    struct Slot {
        vk::Buffer buffer;
        vk::Commands commands;
        std::optional<vk::Device::Ticket> ticket;
    };
    vk::QueueKind queue() const {
        return device_.has_transfer_queue() ? vk::QueueKind::transfer : vk::QueueKind::compute;
    }
    void settle(Slot& slot) {
        if (slot.ticket) device_.wait(*slot.ticket);
        slot.ticket.reset();  // where a wait fails, the next one is for it, too
    }
    Slot& free_slot(uint64_t bytes) {
        next_ = (next_ + 1) % staging_slots;
        Slot& slot = slots_[next_];
        settle(slot);
        if (slot.buffer.size() < bytes)
            slot.buffer = vk::Buffer(device_, std::max(bytes, staging_slot_bytes), vk::MemoryUse::staging);
        return slot;
    }

    vk::Device& device_;
    vk::Pipelines& pipelines_;
    std::array<Slot, staging_slots> slots_;
    size_t next_ = 0;
    Pieces pieces_;
};

/// Rows of a shard that are read, repacked and moved at once.
struct DeviceModel::Piece {
    const WeightGroup& group;
    const DeviceWeight::Shard& shard;
    const vk::Buffer& buffer;
    uint32_t first, rows;  // of the shard
};

std::vector<DeviceModel::Piece> DeviceModel::pieces() const {
    std::vector<Piece> all;
    auto buffer = buffers_.begin();
    for (size_t i = 0; i < plan_.weight_groups.size(); ++i) {
        const WeightGroup& group = plan_.weight_groups[i];
        for (const DeviceWeight::Shard& shard : weights_[i].shards) {
            const uint64_t bytes = buffer->mapped().empty() ? staging_slot_bytes : mapped_piece_bytes;
            const uint32_t most = rows_within(group.type, shard.rows, group.cols, bytes);
            for (uint32_t first = 0; first < shard.rows; first += most)
                all.push_back({group, shard, *buffer, first, std::min(most, shard.rows - first)});
            ++buffer;
        }
    }
    return all;
}

/// Rows [first, last) of a concatenated group come from consecutive parts; an interleaved one takes every
/// n-th row from each of its n parts. Returns how many bytes of the files they were.
uint64_t DeviceModel::upload_piece(Uploader& uploader, const Model& model, const Piece& piece) {
    const auto& [group, shard, buffer, first_row, rows] = piece;
    auto& [file_rows, planes] = uploader.pieces();
    const uint32_t first = shard.first_row + first_row, last = first + rows;  // of the group
    planes.resize(layout_bytes(group.type, rows, group.cols));
    uint32_t base = 0;  // first group row of the part
    uint64_t read = 0;
    const uint32_t parts = uint32_t(group.parts.size());
    for (uint32_t p = 0; p < parts; ++p) {
        const TensorView& tensor = model.weights.at(group.parts[p]);
        const uint32_t step = group.interleaved ? parts : 1;
        // Rows [from, to) of the part lie in the piece.
        const uint32_t from = group.interleaved ? (first - p + parts - 1) / parts
                                                : std::clamp(first, base, base + tensor.rows) - base;
        const uint32_t to = group.interleaved ? (last - p + parts - 1) / parts
                                              : std::clamp(last, base, base + tensor.rows) - base;
        if (from < to) {
            file_rows.resize((to - from) * tensor.row_bytes());
            model.tensors->read(tensor, from * tensor.row_bytes(), file_rows);
            const uint32_t target = group.interleaved ? from * parts + p - first : base + from - first;
            repack(group.type, rows, group.cols, file_rows, target, step, planes);
            read += file_rows.size();
        }
        base += tensor.rows;
    }
    uploader.write(buffer, plane_copies(group.type, shard.rows, group.cols, first_row, rows), planes);
    return read;
}

DeviceModel::DeviceModel(vk::Device& device, const Model& model, const Graph& graph, const Plan& plan,
                         const WeightPlaces& places, uint32_t positions, vk::MemoryUse use)
    : architecture_(model.architecture), graph_(graph), plan_(plan), positions_(positions),
      slots_bytes_(places.slots_bytes) {
    for (size_t i = 0; i < plan.weight_groups.size(); ++i) {
        const WeightGroup& group = plan.weight_groups[i];
        const auto& [on_host, shard_limit] = places.groups[i];
        DeviceWeight weight{group.type, group.rows, group.cols, shards_of(group, shard_limit),
                            on_host && device.caps().has_bus()};
        for (DeviceWeight::Shard& shard : weight.shards) {
            buffers_.emplace_back(device, layout_bytes(group.type, shard.rows, group.cols),
                                  on_host && use == vk::MemoryUse::device ? vk::MemoryUse::staging : use);
            shard.view = buffers_.back().view();
        }
        weights_.push_back(std::move(weight));
    }
    place_vectors(device, use);
}

/// Norm weights and biases as float32, and the rotary tables, in one buffer.
void DeviceModel::place_vectors(vk::Device& device, vk::MemoryUse use) {
    std::vector<std::pair<uint64_t, uint64_t>> places;  // first byte, bytes
    uint64_t all = 0;
    const auto place = [&](uint64_t bytes) {
        places.emplace_back(all, bytes);
        all += device.caps().aligned(bytes);
    };
    for (const VectorGroup& group : plan_.vector_groups) place(4 * group.floats());
    for (const Rope& rope : architecture_.ropes) place(4 * rope_table_floats(rope, positions_));
    if (all == 0) return;
    buffers_.emplace_back(device, all, use);
    for (const auto& [first, bytes] : places) vectors_.push_back(buffers_.back().view(first, bytes));
    ropes_.assign(vectors_.end() - std::ptrdiff_t(architecture_.ropes.size()), vectors_.end());
    vectors_.resize(plan_.vector_groups.size());
}

void DeviceModel::upload(vk::Device& device, vk::Pipelines& pipelines, const Model& model, uint32_t threads,
                         const std::function<void(uint64_t, uint64_t)>& progress) {
    const std::vector<Piece> all = pieces();
    const uint64_t total = file_bytes(plan_, model);
    std::atomic<size_t> next{0};
    std::atomic<uint64_t> done{0};
    const auto work = [&](Uploader& uploader, const auto& moved) {
        for (size_t i = next++; i < all.size(); i = next++) {
            done += upload_piece(uploader, model, all[i]);
            moved();
        }
    };
    const auto report = [&] {
        if (progress) progress(done, total);
    };
    std::exception_ptr error;  // the first of a helper's
    std::once_flag failed;
    Uploader own(device, pipelines);
    {
        std::vector<std::jthread> helpers;
        const auto help = [&] {
            try {
                Uploader uploader(device, pipelines);
                work(uploader, [] {});
                uploader.finish();
            } catch (...) {
                std::call_once(failed, [&] { error = std::current_exception(); });
                next = all.size();
            }
        };
        try {
            for (uint32_t i = 1; i < threads && i < all.size(); ++i) helpers.emplace_back(help);
        } catch (const std::system_error&) {  // too few threads: fewer do it
        }
        try {
            work(own, report);
        } catch (...) {
            next = all.size();
            throw;
        }
    }
    if (error) std::rethrow_exception(error);
    report();
    upload_vectors(own, model);
    own.finish();
}

void DeviceModel::upload_vectors(Uploader& uploader, const Model& model) const {
    std::vector<float> all;
    const auto begin = [&](const vk::View& place) { all.resize(place.offset / 4); };
    for (size_t i = 0; i < vectors_.size(); ++i) {
        begin(vectors_[i]);
        for (const VectorGroup::Part& part : plan_.vector_groups[i].parts) {
            all.resize(all.size() + part.size);
            if (!part.weight) continue;
            const TensorView& tensor = model.weights.at(*part.weight);
            std::vector<std::byte> bytes(tensor.bytes());
            model.tensors->read(tensor, 0, bytes);
            reference::dequantise(tensor.type, bytes, std::span(all).last(part.size));
        }
    }
    for (size_t i = 0; i < ropes_.size(); ++i) {
        begin(ropes_[i]);
        const std::vector<float> tables = scoria::rope_tables(architecture_.ropes[i], positions_);
        all.insert(all.end(), tables.begin(), tables.end());
    }
    if (!all.empty()) uploader.write(buffers_.back(), 0, std::as_bytes(std::span<const float>(all)));
}

uint64_t DeviceModel::vector_bytes(const Plan& plan, const Architecture& architecture, const vk::Caps& caps,
                                   uint32_t positions) {
    uint64_t total = 0;
    for (const VectorGroup& group : plan.vector_groups) total += caps.aligned(4 * group.floats());
    for (const Rope& rope : architecture.ropes) total += caps.aligned(4 * rope_table_floats(rope, positions));
    return total;
}

uint64_t DeviceModel::file_bytes(const Plan& plan, const Model& model) {
    uint64_t total = 0;
    for (const WeightGroup& group : plan.weight_groups)
        for (const WeightRef& part : group.parts) total += model.weights.at(part).bytes();
    return total;
}

uint64_t DeviceModel::staging_bytes(const vk::Caps& caps, uint32_t threads) {
    return caps.unified_memory ? 0 : threads * staging_slots * staging_slot_bytes;
}

}  // namespace scoria
