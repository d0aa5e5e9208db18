// Readers of data files: one file and one row per format.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset.h"

#pragma GCC visibility push(default)
namespace etrace::data {

// An option of a reader; its value is a text, checked by the reader.
struct ReaderOption {
  std::string name, value, doc;  // value: its default
};
class ReaderOptions {
 public:
  std::vector<std::pair<std::string, std::string>> values;  // complete: every option of the row
  const Expected* expected = nullptr;                       // of a run that the data is for; null: none

  const std::string& text(std::string_view name) const;
  // ValueError names the option, the value and what is expected.
  double number(std::string_view name, double low, double high) const;
  std::int64_t whole(std::string_view name, std::int64_t low, std::int64_t high) const;
};

struct Reader {
  std::string name;  // "idx"
  std::string doc;   // one line
  std::vector<ReaderOption> options;
  // Channels are columns, which may have names: then they are found by them, not by their places.
  bool named = false;
  // Whether a path (a file or a folder) looks like the format: by its name, its first bytes or what is in it.
  std::function<bool(const std::string& path)> recognises;
  std::function<std::unique_ptr<Dataset>(const std::string& path, const ReaderOptions&)> read;
};
// A format adds its row while the program starts: `const RegisterReader row({...});`. ValueError: it is
// there.
struct RegisterReader {
  explicit RegisterReader(Reader);
};
std::vector<const Reader*> readers();               // names ascending
const Reader* find_reader(std::string_view name);   // null if there is none
const Reader& reader_for(const std::string& path);  // ValueError: no such file, or none that knows it

// format: the name of a reader; empty: the one that recognises the path. Options that the reader does not
// have are refused with those that it has. `expected`: of a run that has learned from other data; columns are
// matched with it by name, and ValueError names those that are missing. What is left over, and that a source
// has no names, is said in the notes.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;
std::unique_ptr<Dataset> read_data(const std::string& path, const std::string& format = {},
                                   const GivenOptions& = {}, const Expected* expected = nullptr);

// The bytes of an npz file as the reader npz has them by default; `name` is for errors.
std::unique_ptr<Dataset> read_npz_data(std::string_view bytes, const std::string& name,
                                       const Expected* expected = nullptr);

// Columns by name: what is missing of those that a run has learned from, what is not used, and that there are
// no names to go by.
void require_columns(const std::string& path, const std::vector<std::string>& missing,
                     const std::vector<std::string>& names);
void note_left(Dataset&, const std::string& path, const std::vector<std::string>& left);
void note_by_place(Dataset&, const std::string& path);

// What readers share.
bool has_ending(const std::string& path,
                std::string_view ending);  // without regard to case; ".gz" behind it counts
std::vector<std::string> files_in(const std::string& folder);  // paths, ascending; folders left out
std::vector<std::string> folders_in(const std::string& folder);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);
std::string file_name(const std::string& path);  // without folders
void note_file(Dataset&, const std::string& path);

}  // namespace etrace::data
#pragma GCC visibility pop
