// Results go to stdout and every write is checked; messages go to stderr.
#pragma once

#include "fail.h"
#include "text_table.h"
#include "tokenizer/json.h"

#include <string>
#include <string_view>
#include <vector>

namespace scoria::cli {

/// The reader of stdout went away: the program ends with exit code 1 and says nothing.
struct ClosedPipe {};

/// As it is, but on a terminal as shown(). Throws ClosedPipe, or Error when the disk is
/// full and the like.
void write_out(std::string_view text);
/// The same, with what steers a terminal.
void write_raw(std::string_view text);
/// As shown().
void write_note(std::string_view text);

template <class... Parts> void print(const Parts&... parts) { write_out(cat(parts...)); }
/// One line on stderr.
template <class... Parts> void note(const Parts&... parts) { write_note(cat(parts..., '\n')); }

/// To a file, or to stdout for "-". Errors: failed.
void write_text(const std::string& path, const std::string& text);

/// The whole of a file or a pipe, or of stdin for "-". Errors: bad_file.
std::string read_text(const std::string& path);

/// A list of texts without the byte-order mark that editors on Windows begin files with.
std::string without_mark(std::string list);

/// The variable, or "".
std::string environment(const char* name);

/// The text of `-p TEXT` ("-": stdin) or `-f FILE`; with neither, stdin if it is piped.
/// Errors: bad_argument when there is no text to be had.
std::string prompt_text(std::string_view verb, const std::string& text, const std::string& file);

/// Texts given one by one ("-": stdin), then those of a file with one a line, if one is named. Errors:
/// bad_argument, where there are none.
std::vector<std::string> listed_texts(std::string_view verb, std::vector<std::string> texts,
                                      const std::string& file);

std::string fixed(double value, int digits);  // 12.30
std::string scientific(double value);         // 1.2e-07

}  // namespace scoria::cli
