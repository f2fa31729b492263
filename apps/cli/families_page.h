// The page of model families, engine/families.md, made from the loader's tables.
#pragma once

#include <string>

namespace scoria::cli {

/// Markdown: a table of Hugging Face folders' families and one of GGUF files'.
std::string families_page();

}  // namespace scoria::cli
