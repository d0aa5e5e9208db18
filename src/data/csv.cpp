// CSV: one sample per line (numbers of all steps, the label in one column), or a long table in which a column
// numbers the series that a line belongs to. Lines of text at the top are names of columns.
//   form=rows    x1,x2,…,xn,label     `channels` numbers per step
//   form=steps   series,label,a,b,…   one step per line; `series` and `label` name columns
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/utf8.h"
#include "data/csv_line.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

// A table, line by line: no more of it is in memory than its text and one line.
class CsvTable {
 public:
  CsvTable(const std::string& path, std::string_view text)
      : path_(path), pieces_(text, '\n'), at_(pieces_.begin()) {
    if (!read()) bad_line(path_, number_, "the file has no line of numbers");
    if (no_numbers(fields_)) {
      for (std::string& name : fields_) {
        require_name("data", place(), "name of a column", trimmed(name));
        names_.emplace_back(trimmed(name));
      }
      if (!read()) bad_line(path_, number_, "the file has no line of numbers");
    }
    waiting_ = true;
  }

  const Fields& names() const { return names_; }  // of columns; empty: the file has none
  std::size_t columns() const { return columns_; }
  std::string name(std::size_t column) const {
    return names_.empty() ? std::to_string(column) : names_[column];
  }
  // The next line of the table; false: there is none.
  bool next() {
    if (!waiting_ && !read()) return false;
    waiting_ = false;
    return true;
  }
  const Fields& fields() const { return fields_; }
  std::size_t line() const { return number_; }
  std::string place() const { return fmt::format("'{}', line {}", path_, number_); }
  // A text of the line, which a run may keep.
  std::string text(std::size_t column, const char* what) const {
    const std::string_view out = trimmed(fields_[column]);
    require_name("data", place(), what, out);
    return std::string(out);
  }

 private:
  bool read() {
    for (; at_ != pieces_.end(); ++at_) {
      ++number_;
      std::string_view line = *at_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
      if (number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
      if (trimmed(line).empty() || line.front() == '#') continue;
      if (columns_ == 0) separator_ = separator_of(line);
      if (too_many_fields(line, separator_))
        bad_line(path_, number_, fmt::format("more than {} columns", kMostColumns));
      if (!split_fields(line, separator_, fields_)) bad_line(path_, number_, "a quote that is not closed");
      if (columns_ == 0) columns_ = fields_.size();
      if (fields_.size() != columns_)
        bad_line(path_, number_, fmt::format("{} columns, expected {}", fields_.size(), columns_));
      ++at_;
      return true;
    }
    return false;
  }

  const std::string& path_;
  Pieces pieces_;
  Pieces::Iterator at_;
  char separator_ = '\0';
  std::size_t number_ = 0, columns_ = 0;
  Fields names_, fields_;
  bool waiting_ = false;  // fields_ is a line that next() has not given yet
};

// What the columns of a table are.
struct CsvColumns {
  std::vector<std::size_t> inputs;  // in the order of channels
  std::optional<std::size_t> label, series, group;
};

struct CsvFile {
  DenseData& data;
  const std::string& path;
  std::string_view text;
  Given part;
};

// A column of texts is not a wrong number: somebody has to say what it is.
[[noreturn]] void refuse_number(const CsvFile& file, const CsvTable& table, std::size_t column) {
  double value = 0.0;
  bool texts = true;
  for (CsvTable all(file.path, file.text); texts && all.next();)
    texts = !parse_number(all.fields()[column], value);
  const std::string name = shown_text(table.name(column));
  bad_line(
      file.path, table.line(),
      fmt::format("'{}' in column {} is {}{}", shown_text(table.fields()[column], 40), name, kNoNumber,
                  texts ? fmt::format("; say what the column is: label={0}, series={0} (which series a line "
                                      "belongs to), group={0} (who a sample is of) or leave_out={0} (no "
                                      "input), for `etrace data show` as --option leave_out={0}, for "
                                      "`etrace train` as --set read=leave_out={0}, in Python as "
                                      "et.data.load(…, leave_out='{0}')",
                                      name)
                        : ""));
}

void add_numbers(const CsvFile& file, const CsvTable& table, const CsvColumns& columns,
                 std::vector<float>& values) {
  for (const std::size_t c : columns.inputs) {
    double value = 0.0;
    if (!parse_number(table.fields()[c], value) || !is_data_number(value)) refuse_number(file, table, c);
    values.push_back(static_cast<float>(value));
  }
}

Sample sample_of(const CsvFile& file, const CsvTable& table, const CsvColumns& columns) {
  return {.label = class_number(file.data, columns.label ? table.text(*columns.label, "label") : kNoLabel),
          .part = file.part,
          .group = columns.group ? table.text(*columns.group, "group") : "",
          .name = columns.series ? table.text(*columns.series, "series") : ""};
}

void add_rows(const CsvFile& file, CsvTable& table, const CsvColumns& columns, std::int64_t channels) {
  const auto numbers = static_cast<std::int64_t>(columns.inputs.size());
  if (numbers < 1 || numbers % channels != 0)
    throw ValueError("data",
                     fmt::format("'{}': a line has {} numbers beside the label, which is no multiple of "
                                 "channels={}",
                                 file.path, numbers, channels));
  std::vector<float> values;
  while (table.next()) {
    values.clear();
    add_numbers(file, table, columns, values);
    Sample sample = sample_of(file, table, columns);
    sample.steps = numbers / channels;
    file.data.add(std::move(sample), values);
  }
}

void add_steps(const CsvFile& file, CsvTable& table, const CsvColumns& columns) {
  if (columns.inputs.empty() || columns.label == columns.series)
    throw ValueError("data",
                     fmt::format("'{}': expected a column for the series, one for the label, and one or "
                                 "more for numbers",
                                 file.path));
  std::vector<float> values;
  std::optional<Sample> open;
  std::string label;
  const auto close = [&] {
    if (!open) return;
    open->steps = static_cast<std::int64_t>(values.size() / columns.inputs.size());
    file.data.add(std::move(*open), values);
    values.clear();
  };
  std::unordered_set<std::string> seen;
  while (table.next()) {
    const std::string name = table.text(*columns.series, "series");
    if (!open || open->name != name) {
      if (!seen.insert(name).second)
        bad_line(file.path, table.line(),
                 fmt::format("series {} goes on behind another one; sort the lines by series", name));
      close();
      open = sample_of(file, table, columns);
      if (columns.label) label = trimmed(table.fields()[*columns.label]);
    } else if (columns.label && trimmed(table.fields()[*columns.label]) != label) {
      bad_line(file.path, table.line(), fmt::format("series {} has two labels", name));
    }
    add_numbers(file, table, columns, values);
  }
  close();
}

// "a+b" as a, b.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// By name, if the data so far (or the run) has names and the table, too; else by what the option says.
std::size_t column(const CsvFile& file, const CsvTable& table, const char* option, const std::string& text,
                   const std::string& known = {}) {
  const std::string& wanted = known.empty() || table.names().empty() ? text : known;
  return column_of(file.path, table.names(), table.columns(), option, wanted);
}

// The inputs by their names; the others are left over.
std::vector<std::size_t> matched(const CsvFile& file, const CsvTable& table, const CsvColumns& columns,
                                 const std::set<std::size_t>& left_out,
                                 const std::vector<std::string>& wanted) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> places;  // of each name, last one first
  for (std::size_t c = table.columns(); c-- > 0;)
    if (c != columns.label && c != columns.series && !left_out.contains(c))
      places[table.names()[c]].push_back(c);
  std::vector<std::size_t> out;
  std::vector<std::string> missing, left;
  for (const std::string& name : wanted) {
    auto& found = places[name];
    if (found.empty()) {
      missing.push_back(name);
      continue;
    }
    out.push_back(found.back());
    found.pop_back();
  }
  require_columns(file.path, missing, table.names());
  for (const std::string& name : wanted)
    if (!places[name].empty())
      throw ValueError("data",
                       fmt::format("'{}' has more columns named '{}' than the run has learned from, so "
                                   "nothing says which is meant; rename the others, or leave them out",
                                   file.path, name));
  const std::set<std::size_t> used(out.begin(), out.end());
  for (std::size_t c = 0; c < table.columns(); ++c)
    if (!used.contains(c) && !left_out.contains(c) && c != columns.label && c != columns.series &&
        c != columns.group)
      left.push_back(table.names()[c]);
  note_left(file.data, file.path, left);
  return out;
}

CsvColumns columns_of(const CsvFile& file, const CsvTable& table, const ReaderOptions& o,
                      const Columns& known) {
  CsvColumns out;
  if (o.text("label") != "none") out.label = column(file, table, "label", o.text("label"), known.label);
  if (!o.text("series").empty()) out.series = column(file, table, "series", o.text("series"), known.series);
  const bool by_name = !known.inputs.empty() && !table.names().empty();
  const auto is_there = [&](const std::string& name) {
    return !by_name || std::find(table.names().begin(), table.names().end(), name) != table.names().end();
  };
  if (!o.text("group").empty() && is_there(o.text("group")))
    out.group = column(file, table, "group", o.text("group"));
  std::set<std::size_t> left_out;
  for (const std::string& name : names_in(o.text("leave_out")))
    if (is_there(name)) left_out.insert(column(file, table, "leave_out", name));
  if (by_name) {
    out.inputs = matched(file, table, out, left_out, known.inputs);
    return out;
  }
  for (std::size_t c = 0; c < table.columns(); ++c)
    if (c != out.label && c != out.series && c != out.group && !left_out.contains(c)) out.inputs.push_back(c);
  return out;
}

void add_csv(DenseData& data, const std::string& path, const ReaderOptions& o, Given part) {
  const std::string text = read_unpacked(path);
  CsvTable table(path, text);
  const CsvFile file{data, path, text, part};
  // The second file of a data set is matched with the first.
  const bool is_first = data.channels == 0;
  const Columns known = !is_first ? data.columns : o.expected != nullptr ? o.expected->columns : Columns();
  const CsvColumns columns = columns_of(file, table, o, known);
  const std::int64_t before = data.channels, channels = o.whole("channels", 1, 1 << 24);
  if (columns.series && channels != 1)
    throw ValueError("data",
                     fmt::format("'{}': channels={} is for tables with a sample per line; with series={} "
                                 "every column of numbers is a channel, but those of leave_out",
                                 path, channels, o.text("series")));
  data.channels = columns.series ? static_cast<std::int64_t>(columns.inputs.size()) : channels;
  if (!is_first && before != data.channels)
    throw ValueError(
        "data", fmt::format("'{}' has {} channels, the file before had {}", path, data.channels, before));
  if (is_first && !table.names().empty()) {
    for (const std::size_t c : columns.inputs) data.columns.inputs.push_back(table.names()[c]);
    if (columns.label) data.columns.label = table.names()[*columns.label];
    if (columns.series) data.columns.series = table.names()[*columns.series];
  }
  if (!is_first && known.inputs.empty() != table.names().empty()) note_by_place(data, path);
  if (columns.series)
    add_steps(file, table, columns);
  else
    add_rows(file, table, columns, channels);
  note_file(data, path);
}

// NAME_train.csv and NAME_test.csv side by side.
std::string beside(const std::string& path, std::string_view from, std::string_view to) {
  std::string out = path;
  const std::size_t at = out.rfind(from);
  if (at == std::string::npos) return {};
  out.replace(at, from.size(), to);
  return is_file(out) ? out : std::string();
}

std::unique_ptr<Dataset> read_csv(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<DenseData>();
  const std::string test = beside(path, "train", "test");
  add_csv(*data, path, o, test.empty() ? Given::Nothing : Given::Train);
  if (!test.empty()) add_csv(*data, test, o, Given::Test);
  sort_classes(*data);
  return data;
}

const RegisterReader kCsv(
    {.name = "csv",
     .doc = "a table, also .tsv and .gz: a sample per line, or a step per line where `series` names a column",
     .options =
         {{"label", "-1",
           "the column of the label: its name, or its number; -1 is the last one; none: there is no label"},
          {"channels", "1", "numbers per step, where a line is a sample"},
          {"series", "", "the column that says which series a line belongs to; empty: a line is a sample"},
          {"group", "", "the column of speakers, users …, which --set by_group=1 keeps together"},
          {"leave_out", "", "columns that are no input, as in leave_out=step+date"}},
     .named = true,
     .recognises =
         [](const std::string& path) { return has_ending(path, ".csv") || has_ending(path, ".tsv"); },
     .read = read_csv});

}  // namespace

}  // namespace etrace::data
