// Models split over several GGUF files, NAME-00001-of-0000N.gguf: the first holds the metadata, each a part
// of the tensors. Format: the keys split.no, split.count and split.tensors.count of llama.cpp's gguf-split.
#pragma once

#include "gguf.h"

#include <filesystem>

namespace scoria {

struct GgufFiles {
    std::vector<File> files;
    Gguf gguf;  // of the first file, with the tensors of all; GgufTensor::file says whose
};

/// A model in one file, or all files of the one that `path` is part of. Errors: those of read_gguf, and
/// bad_file where a part is missing, belongs elsewhere, or holds a tensor twice.
GgufFiles open_gguf_files(const std::filesystem::path& path);

}  // namespace scoria
