// See gguf_split.h.
#include "gguf_split.h"

#include "fail.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace scoria {
namespace {

constexpr uint64_t most_files = 4096;

std::string five_digits(uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

/// The path of part `no` (from 0), given that of part `known`.
std::string path_of_part(const std::filesystem::path& path, uint64_t known, uint64_t no, uint64_t count) {
    const std::string tail = "-of-" + five_digits(count) + ".gguf", text = path.string();
    const std::string end = "-" + five_digits(known + 1) + tail;
    if (!text.ends_with(end))
        fail(Status::bad_file, text, "expected a name that ends in ", end,
             ", as split.no and split.count say");
    return text.substr(0, text.size() - end.size()) + "-" + five_digits(no + 1) + tail;
}

}  // namespace

GgufFiles open_gguf_files(const std::filesystem::path& path) {
    File opened(path.string());
    Gguf gguf = read_gguf(opened);
    const uint64_t count = gguf.metadata.integer("split.count").value_or(1);
    const uint64_t known = gguf.metadata.integer("split.no").value_or(0);
    GgufFiles all;
    if (count <= 1) {
        all.files.push_back(std::move(opened));
        all.gguf = std::move(gguf);
        return all;
    }
    if (count > most_files || known >= count)
        fail(Status::bad_file, path.string(), "split.count: expected at most ", most_files,
             " and above split.no, got ", count, " and split.no ", known);

    std::set<std::string> names;
    for (uint64_t no = 0; no < count; ++no) {
        File file(path_of_part(path, known, no, count));
        Gguf part = read_gguf(file);
        const uint64_t its_no = part.metadata.integer("split.no").value_or(0),
                       its_count = part.metadata.integer("split.count").value_or(1);
        if (its_no != no || its_count != count)
            fail(Status::bad_file, file.path(), "expected split.no ", no, " of ", count, ", got ", its_no,
                 " of ", its_count);
        for (GgufTensor& tensor : part.tensors) {
            if (!names.insert(tensor.name).second)
                fail(Status::bad_file, file.path(), "tensor ", tensor.name,
                     ": expected in one part, got in two");
            tensor.file = static_cast<uint32_t>(no);
        }
        if (no == 0)
            all.gguf = std::move(part);
        else
            std::ranges::move(part.tensors, std::back_inserter(all.gguf.tensors));
        all.files.push_back(std::move(file));
    }
    const uint64_t tensors = all.gguf.tensors.size();
    const uint64_t expected = all.gguf.metadata.integer("split.tensors.count").value_or(tensors);
    if (tensors != expected)
        fail(Status::bad_file, path.string(), "split.tensors.count: expected ", expected, " tensors in ",
             count, " parts, got ", tensors);
    return all;
}

}  // namespace scoria
