// .ts, the format of the UCR and UEA archives: lines that begin with # are comments, those with @ say what
// follows, and behind @data each line is a case: dimensions separated by ':', values by ',', the label last.
// NAME_TRAIN.ts and NAME_TEST.ts lie side by side. A missing value ('?') is that of the step before.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/utf8.h"
#include "data/csv_line.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

struct TsHeader {
  bool has_labels = false, has_data = false;
  std::unordered_set<std::string> labels;
};

// Reads a line that begins with '@'.
void read_header_line(const std::string& path, std::size_t number, std::string_view line, TsHeader& header) {
  std::vector<std::string> words;
  for (const std::string_view w : split(line, ' '))
    if (!trimmed(w).empty()) words.emplace_back(trimmed(w));
  const std::string key = lower(words.front());
  const auto is_true = [&] { return words.size() > 1 && lower(words[1]) == "true"; };
  if (key == "@data") header.has_data = true;
  if (key == "@timestamps" && is_true())
    bad_line(path, number, "series with time stamps are not read; resample them to steps");
  if (key == "@targetlabel" && is_true())
    bad_line(path, number, "targets that are numbers are not learned from .ts files; labels are");
  if (key == "@classlabel" && is_true()) {
    header.has_labels = true;
    header.labels.insert(words.begin() + 2, words.end());
    for (const std::string& label : header.labels)
      require_name("data", fmt::format("'{}', line {}", path, number), "label", label);
  }
}

// The numbers of one dimension; '?' repeats the one before.
std::vector<float> read_dimension(const std::string& path, std::size_t number, std::string_view text,
                                  std::size_t& missing) {
  std::vector<float> out;
  if (trimmed(text).empty()) return out;
  for (const std::string_view field : Pieces(text, ',')) {
    double value = out.empty() ? 0.0 : static_cast<double>(out.back());
    if (trimmed(field) == "?")
      ++missing;
    else if (!parse_number(field, value) || !is_data_number(value))
      bad_line(path, number, fmt::format("'{}' is {}", shown_text(trimmed(field), 40), kNoNumber));
    out.push_back(static_cast<float>(value));
  }
  return out;
}

void add_case(DenseData& data, const std::string& path, std::size_t number, std::string_view line,
              const TsHeader& header, Given part, std::size_t& missing) {
  if (too_many_fields(line, ':'))
    bad_line(path, number, fmt::format("more than {} dimensions", kMostColumns));
  std::vector<std::string_view> fields = split(line, ':');
  if (fields.size() < 2) bad_line(path, number, "expected DIMENSION:…:LABEL");
  const std::string label(trimmed(fields.back()));
  require_name("data", fmt::format("'{}', line {}", path, number), "label", label);
  if (!header.labels.empty() && !header.labels.contains(label))
    bad_line(path, number, fmt::format("the label '{}' is none of @classLabel", shown_text(label, 40)));
  fields.pop_back();
  const auto channels = static_cast<std::int64_t>(fields.size());
  if (data.channels == 0) data.channels = channels;
  if (channels != data.channels)
    bad_line(path, number, fmt::format("{} dimensions, the cases before had {}", channels, data.channels));
  std::vector<std::vector<float>> dimensions;
  for (const std::string_view f : fields) dimensions.push_back(read_dimension(path, number, f, missing));
  const std::size_t steps = dimensions.front().size();
  std::vector<float> values;
  for (std::size_t t = 0; t < steps; ++t)
    for (const std::vector<float>& d : dimensions) {
      if (d.size() != steps)
        bad_line(path, number, fmt::format("dimensions of {} and {} steps in one case", steps, d.size()));
      values.push_back(d[t]);
    }
  if (steps == 0) bad_line(path, number, "a case without steps");
  data.add({.steps = static_cast<std::int64_t>(steps), .label = class_number(data, label), .part = part},
           values);
}

void add_ts_file(DenseData& data, const std::string& path, Given part) {
  const std::string text = read_unpacked(path);
  TsHeader header;
  std::size_t number = 0, missing = 0;
  for (const std::string_view raw : Pieces(text, '\n')) {
    ++number;
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#') continue;
    if (header.has_data)
      add_case(data, path, number, line, header, part, missing);
    else if (line.front() == '@')
      read_header_line(path, number, line, header);
    else
      bad_line(path, number, "expected a line that begins with # or @, before @data");
    if (header.has_data && !header.has_labels)
      bad_line(path, number, "cases without labels: @classLabel is not true");
  }
  if (!header.has_data) bad_line(path, number, "the file ends before @data");
  if (missing > 0)
    data.notes.push_back(fmt::format("{} missing values of {} are those of the step before", missing, path));
  note_file(data, path);
}

// NAME_TRAIN.ts -> NAME_TEST.ts, or empty.
std::string other_part(const std::string& path, std::string_view from, std::string_view to) {
  std::string out = path;
  const std::size_t at = out.rfind(from);
  if (at == std::string::npos) return {};
  out.replace(at, from.size(), to);
  return is_file(out) ? out : std::string();
}

std::string train_file(const std::string& path) {
  if (!is_folder(path)) return path;
  const std::string name = path + "/" + file_name(path) + "_TRAIN.ts";
  if (is_file(name)) return name;
  for (const std::string& file : files_in(path))
    if (has_ending(file, "_train.ts")) return file;
  return {};
}

std::unique_ptr<Dataset> read_ts(const std::string& path, const ReaderOptions&) {
  auto data = std::make_unique<DenseData>();
  const std::string train = train_file(path);
  if (train.empty()) throw ValueError("data", fmt::format("'{}' has no file that ends with _TRAIN.ts", path));
  const std::string test = other_part(train, "_TRAIN.", "_TEST.");
  add_ts_file(*data, train, test.empty() ? Given::Nothing : Given::Train);
  if (!test.empty()) add_ts_file(*data, test, Given::Test);
  sort_classes(*data);
  return data;
}

const RegisterReader kTs(
    {.name = "ts",
     .doc = "series of the UCR and UEA archives: NAME_TRAIN.ts with NAME_TEST.ts beside it, or their folder",
     .options = {},
     .named = true,
     .recognises =
         [](const std::string& path) {
           return is_folder(path) ? !train_file(path).empty() : has_ending(path, ".ts");
         },
     .read = read_ts});

}  // namespace

}  // namespace etrace::data
