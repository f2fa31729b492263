// See pool_heads.h.
#include "pool_heads.h"

#include "fail.h"
#include "file.h"
#include "model.h"
#include "quantise/quantise.h"
#include "reference/dequantise.h"
#include "safetensors.h"
#include "tokenizer/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace scoria {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t pooler_chunk = 8 << 20;
constexpr const char* pooling_where = "convert";

/// Names of the tensors whose rows are heads of keys or values. Errors: unsupported.
std::set<std::string> pooled_tensors(const Model& model) {
    std::set<std::string> names, others;
    for (const auto& [ref, view] : model.weights) {
        const bool pooled = ref.role == Role::k || ref.role == Role::v || ref.role == Role::k_bias ||
                            ref.role == Role::v_bias;
        (pooled ? names : others).insert(view.name);
    }
    for (const std::string& name : names)
        if (others.contains(name))
            fail(Status::unsupported, pooling_where, "expected keys and values in tensors of their own, got ",
                 name, " with others");
    return names;
}

void check_model(const Model& model, uint32_t kv_heads) {
    const Architecture& architecture = model.architecture;
    for (const Layer& layer : architecture.layers) {
        const Attention& attention = layer.attention;
        const bool several =
            attention.qk_norm.group == QkNorm::Group::projection || attention.qk_norm.own_weights;
        if (!architecture.encoder.empty() || attention.latent.kv_rank != 0 || several ||
            attention.value_dim != 0 || layer.recurs() ||
            attention.kv_heads != architecture.layers.front().attention.kv_heads ||
            attention.head_dim != architecture.layers.front().attention.head_dim)
            fail(Status::unsupported, pooling_where, "expected plain attention of a decoder, got ",
                 architecture.family);
        if (kv_heads == 0 || attention.kv_heads % kv_heads != 0)
            fail(Status::bad_argument, pooling_where, "expected a divisor of ", attention.kv_heads,
                 " key/value heads, got ", kv_heads);
    }
}

/// Means of `group` heads each, rows being [heads, head_dim] of `cols`.
std::vector<std::byte> pooled(const SafetensorsArray& array, const std::string& name,
                              std::span<const std::byte> bytes, uint32_t head_dim, uint32_t group) {
    constexpr std::pair<const char*, TensorType> types[] = {
        {"F32", TensorType::f32}, {"F16", TensorType::f16}, {"BF16", TensorType::bf16}};
    const auto type =
        std::ranges::find(types, array.type, [](const auto& each) { return std::string(each.first); });
    if (type == std::end(types))
        fail(Status::unsupported, pooling_where, name, ": expected F32, F16 or BF16, got ", array.type);
    std::vector<float> values(array.elements());
    reference::dequantise(type->second, bytes, values);
    const size_t head = head_dim * (array.elements() / array.shape[0]);  // numbers of a head
    std::vector<float> means(values.size() / group);
    for (size_t i = 0; i < means.size(); ++i) {
        double sum = 0;
        for (size_t g = 0; g < group; ++g) sum += double(values[(i / head * group + g) * head + i % head]);
        means[i] = float(sum / group);
    }
    std::vector<std::byte> out(bytes.size() / group);
    quantise_row(type->second, means, {}, out);
    return out;
}

struct PooledPart {
    const SafetensorsArray* array;
    std::string name;
    bool pooled;
    uint64_t bytes;  // as written
};

class HeadPooler {
  public:
    HeadPooler(const Model& model, std::set<std::string> names, uint32_t kv_heads, uint64_t total,
               const std::function<bool(uint64_t, uint64_t)>& progress)
        : attention_(model.architecture.layers.front().attention), names_(std::move(names)),
          group_(attention_.kv_heads / kv_heads), total_(total), progress_(progress) {}

    void write(const fs::path& from, const fs::path& to) {
        const Safetensors stored(from.string());
        std::vector<PooledPart> parts;
        for (const auto& [name, array] : stored.arrays()) {
            const bool pools = names_.contains(name);
            if (pools && (array.shape.empty() ||
                          array.shape[0] != uint64_t{attention_.kv_heads} * attention_.head_dim))
                fail(Status::unsupported, pooling_where, name, ": expected ",
                     attention_.kv_heads * attention_.head_dim, " rows, got another shape");
            parts.push_back({&array, name, pools, array.bytes / (pools ? group_ : 1)});
        }
        std::ranges::sort(parts, {}, [](const PooledPart& part) { return part.array->offset; });
        const std::string header = header_of(parts);
        uint64_t place = header.size();
        for (const PooledPart& part : parts) place += part.bytes;
        NewFile file(to.string(), place);
        file.write(0, std::as_bytes(std::span(header)));
        place = header.size();
        const File source(from.string());
        for (const PooledPart& part : parts) {
            copy(source, part, file, place);
            place += part.bytes;
        }
        file.commit();
    }

  private:
    std::string header_of(const std::vector<PooledPart>& parts) const {
        nlohmann::ordered_json header;
        header["__metadata__"] = {{"format", "pt"}};
        uint64_t first = 0;
        for (const PooledPart& part : parts) {
            std::vector<uint64_t> shape = part.array->shape;
            if (part.pooled) shape[0] /= group_;
            header[part.name] = {
                {"dtype", part.array->type}, {"shape", shape}, {"data_offsets", {first, first + part.bytes}}};
            first += part.bytes;
        }
        std::string text = header.dump();
        text.resize((text.size() + 7) / 8 * 8, ' ');
        uint64_t length = text.size();
        std::string prefix(8, '\0');
        for (char& c : prefix) c = static_cast<char>(length & 0xff), length >>= 8;
        return prefix + text;
    }

    void copy(const File& from, const PooledPart& part, NewFile& to, uint64_t place) {
        const uint64_t step = part.pooled ? part.array->bytes : pooler_chunk;  // a pooled tensor at once
        for (uint64_t done = 0; done < part.array->bytes;) {
            buffer_.resize(std::min(step, part.array->bytes - done));
            from.read(part.array->offset + done, buffer_);
            if (part.pooled)
                to.write(place, pooled(*part.array, part.name, buffer_, attention_.head_dim, group_));
            else
                to.write(place + done, buffer_);
            done += buffer_.size();
            done_ += buffer_.size();
            if (progress_ && !progress_(done_, total_))
                fail(Status::cancelled, pooling_where, "cancelled after ", done_, " of ", total_, " bytes");
        }
    }

    const Attention attention_;
    const std::set<std::string> names_;
    const uint32_t group_;
    const uint64_t total_;
    const std::function<bool(uint64_t, uint64_t)>& progress_;
    uint64_t done_ = 0;
    std::vector<std::byte> buffer_;
};

/// Makes it empty. Errors: bad_argument, where it holds what no interrupted run for `in` has left.
void empty_folder(const fs::path& partial, const fs::path& in) {
    if (fs::exists(partial))
        for (const fs::directory_entry& entry : fs::directory_iterator(partial)) {
            fs::path name = entry.path().filename();
            if (name.extension() == ".partial") name.replace_extension();
            if (!entry.is_regular_file() || !fs::exists(in / name))
                fail(Status::bad_argument, pooling_where, entry.path().string(),
                     " is in the way: expected no such file, or another name to write to");
        }
    fs::remove_all(partial);
    make_folders(partial.string());
}

/// Errors: unsupported, where what was written is not the model with so many heads: tensors beside keys and
/// values have the heads of these, or the family's config.json does not say how many there are.
void check_written(const fs::path& folder, const Model& model, uint32_t kv_heads) {
    const auto refuse = [&](std::string_view why) {
        fail(Status::unsupported, pooling_where,
             "expected a model whose heads of keys and values may be fewer, got ", model.architecture.family,
             ": ", why);
    };
    try {
        for (const Layer& layer : open_model(folder).architecture.layers)
            if (layer.attention.kv_heads != kv_heads) refuse("config.json does not say how many");
    } catch (const Error& error) {
        if (error.status() != Status::bad_file) throw;
        refuse(error.what());
    }
}

}  // namespace

void pool_heads(const fs::path& in, const fs::path& given, uint32_t kv_heads,
                const std::function<bool(uint64_t done, uint64_t total)>& progress) {
    const fs::path out = given.has_filename() ? given : given.parent_path();  // "name/"
    if (!fs::is_directory(in) || !fs::exists(in / "config.json"))
        fail(Status::unsupported, pooling_where, "expected a Hugging Face folder, got ", in.string());
    if (fs::exists(out))
        fail(Status::bad_argument, pooling_where, out.string(), " exists: expected a new name");
    const Model model = open_model(in);
    check_model(model, kv_heads);
    auto config =
        parse_shallow<nlohmann::ordered_json>(read_file((in / "config.json").string()), pooling_where);
    if (config.contains("text_config"))
        fail(Status::unsupported, pooling_where, "expected a model of texts alone, got one of images, too");
    config["num_key_value_heads"] = kv_heads;
    const std::string config_text = config.dump(2) + "\n";

    uint64_t total = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(in))
        if (entry.path().extension() == ".safetensors") total += entry.file_size();
    HeadPooler writer(model, pooled_tensors(model), kv_heads, total, progress);
    const fs::path partial = path_of(out.string() + ".partial");
    empty_folder(partial, in);
    try {
        for (const fs::directory_entry& entry : fs::directory_iterator(in)) {
            const fs::path to = partial / entry.path().filename();
            if (entry.path().extension() == ".safetensors")
                writer.write(entry.path(), to);
            else if (entry.path().filename() == "config.json")
                write_file_atomic(to.string(), std::as_bytes(std::span(config_text)));
            else if (entry.is_regular_file() && entry.path().extension() != ".bin")
                fs::copy_file(entry.path(), to);
        }
        check_written(partial, model, kv_heads);
        fs::rename(partial, out);
    } catch (const fs::filesystem_error& error) {
        fs::remove_all(partial);
        fail(Status::failed, pooling_where, error.what());
    } catch (...) {
        fs::remove_all(partial);
        throw;
    }
}

}  // namespace scoria
