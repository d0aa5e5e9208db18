#include "data/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/nearest.h"
#include "data/catalog.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

namespace fs = std::filesystem;

std::map<std::string, Reader, std::less<>>& reader_table() {
  static std::map<std::string, Reader, std::less<>> rows;
  return rows;
}

std::vector<std::string> reader_names() {
  std::vector<std::string> names;
  for (const auto& [name, row] : reader_table()) names.push_back(name);
  return names;
}

ReaderOptions complete_options(const Reader& reader, const GivenOptions& given) {
  ReaderOptions out;
  for (const ReaderOption& o : reader.options) out.values.emplace_back(o.name, o.value);
  for (const auto& [name, value] : given) {
    const auto is_it = [&, &wanted = name](const auto& o) { return o.first == wanted; };
    const auto at = std::find_if(out.values.begin(), out.values.end(), is_it);
    if (at == out.values.end())
      throw ValueError("data",
                       fmt::format("the reader {} has no option '{}'{}; it has {}", reader.name, name,
                                   did_you_mean(name, row_names(reader.options)),
                                   reader.options.empty()
                                       ? "none"
                                       : fmt::format("{}", fmt::join(row_names(reader.options), ", "))));
    at->second = value;
  }
  return out;
}

}  // namespace

const std::string& ReaderOptions::text(std::string_view name) const {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  throw InternalError("data", fmt::format("the option '{}' is not in the reader's row", name));
}

double ReaderOptions::number(std::string_view name, double low, double high) const {
  double value = 0.0;
  if (!parse_number(text(name), value) || !(value >= low && value <= high))
    throw ValueError("data", fmt::format("the option {} is '{}'; expected a number from {} to {}", name,
                                         text(name), low, high));
  return value;
}

std::int64_t ReaderOptions::whole(std::string_view name, std::int64_t low, std::int64_t high) const {
  const double value = number(name, static_cast<double>(low), static_cast<double>(high));
  if (value != std::floor(value))
    throw ValueError("data", fmt::format("the option {} is '{}'; expected a whole number", name, text(name)));
  return static_cast<std::int64_t>(value);
}

RegisterReader::RegisterReader(Reader row) {
  std::string name = row.name;
  if (!reader_table().emplace(name, std::move(row)).second)
    throw ValueError("data", fmt::format("there is a reader {} already", name));
}

std::vector<const Reader*> readers() {
  std::vector<const Reader*> out;
  for (const auto& [name, row] : reader_table()) out.push_back(&row);
  return out;
}

const Reader* find_reader(std::string_view name) {
  const auto at = reader_table().find(name);
  return at == reader_table().end() ? nullptr : &at->second;
}

const Reader& reader_for(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    throw IoError("data", fmt::format("there is no file or folder '{}'{}", path,
                                      did_you_mean(path, row_names(known_data()))));
  for (const Reader* r : readers())
    if (r->recognises(path)) return *r;
  throw ValueError("data",
                   fmt::format("'{}' is none of the formats that are known; give one of {} with --set "
                               "format=NAME, or see `etrace data`",
                               path, fmt::join(reader_names(), ", ")));
}

std::unique_ptr<Dataset> read_data(const std::string& path, const std::string& format,
                                   const GivenOptions& given, const Expected* expected) {
  const Reader* reader = format.empty() ? &reader_for(path) : find_reader(format);
  if (reader == nullptr) throw ValueError("data", no_such_name("data format", format, reader_names()));
  ReaderOptions options = complete_options(*reader, given);
  options.expected = expected;
  std::unique_ptr<Dataset> out = reader->read(path, options);
  if (out->name.empty()) out->name = file_name(path);
  if (out->samples.empty()) throw ValueError("data", fmt::format("'{}' holds no samples", path));
  if (reader->named && expected != nullptr &&
      (out->columns.inputs.empty() || expected->columns.inputs.empty()))
    note_by_place(*out, path);
  return out;
}

void require_columns(const std::string& path, const std::vector<std::string>& missing,
                     const std::vector<std::string>& names) {
  if (missing.empty()) return;
  throw ValueError("data", fmt::format("'{}' has no column {}{}, which the run has learned from; it has {}",
                                       path, first_names(missing),
                                       missing.size() == 1 ? did_you_mean(missing.front(), names) : "",
                                       first_names(names)));
}

void note_left(Dataset& data, const std::string& path, const std::vector<std::string>& left) {
  if (!left.empty())
    data.notes.push_back(
        fmt::format("'{}': not used, as the run has not learned from it: {}", path, first_names(left)));
}

void note_by_place(Dataset& data, const std::string& path) {
  const bool none = data.columns.inputs.empty();
  data.notes.push_back(
      none ? fmt::format("'{}' has no names of columns: they are taken by their places", path)
           : fmt::format(
                 "what was learned from had no names of columns: those of '{}' are taken by their places",
                 path));
}

bool has_ending(const std::string& path, std::string_view ending) {
  std::string name = path;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(ending);
}

namespace {
template <class F>
std::vector<std::string> entries_in(const std::string& folder, F&& wanted) {
  std::vector<std::string> out;
  std::error_code error;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, error))
    if (wanted(e)) out.push_back(e.path().string());
  if (error)
    throw IoError("data", fmt::format("the folder '{}' cannot be read: {}", folder, error.message()));
  std::sort(out.begin(), out.end());
  return out;
}
}  // namespace

std::vector<std::string> files_in(const std::string& folder) {
  return entries_in(folder, [](const fs::directory_entry& e) { return e.is_regular_file(); });
}
std::vector<std::string> folders_in(const std::string& folder) {
  return entries_in(folder, [](const fs::directory_entry& e) { return e.is_directory(); });
}
bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}
bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}
std::string file_name(const std::string& path) {
  const fs::path p(path);
  return (p.has_filename() ? p : p.parent_path()).filename().string();
}

void note_file(Dataset& data, const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  data.files.push_back({path, error ? 0 : static_cast<std::int64_t>(bytes)});
}

}  // namespace etrace::data
