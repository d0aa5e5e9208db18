// CSV: one sample per line (numbers of all steps, the label in one column), or a long table in which a column
// numbers the series that a line belongs to. Lines of text at the top are names of columns.
//   form=rows    x1,x2,…,xn,label     `channels` numbers per step
//   form=steps   series,label,a,b,…   one step per line; `series` and `label` name columns
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "data/csv_line.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

Fields csv_fields(const std::string& path, std::size_t number, std::string_view line, char separator) {
  Fields out;
  if (!split_fields(line, separator, out)) bad_line(path, number, "a quote that is not closed");
  return out;
}

struct CsvTable {
  Fields names;  // of columns; empty: the file has none
  std::vector<Fields> rows;
  std::vector<std::size_t> lines;  // of each row
};

CsvTable read_table(const std::string& path, const std::string& text) {
  CsvTable out;
  std::size_t number = 0;
  char separator = '\0';
  for (std::string_view line : lines_of(text)) {
    ++number;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (trimmed(line).empty() || line.front() == '#') continue;
    if (separator == '\0') separator = separator_of(line);
    Fields fields = csv_fields(path, number, line, separator);
    if (out.rows.empty() && out.names.empty() && no_numbers(fields)) {
      out.names = std::move(fields);
      continue;
    }
    const std::size_t expected = !out.rows.empty()   ? out.rows.front().size()
                                 : out.names.empty() ? fields.size()
                                                     : out.names.size();
    if (fields.size() != expected)
      bad_line(path, number, fmt::format("{} columns, expected {}", fields.size(), expected));
    out.rows.push_back(std::move(fields));
    out.lines.push_back(number);
  }
  if (out.rows.empty()) bad_line(path, number, "the file has no line of numbers");
  return out;
}

std::size_t column(const std::string& path, const CsvTable& table, const std::string& option,
                   const std::string& text) {
  return column_of(path, table.names, table.rows.front().size(), option, text);
}

float csv_number(const std::string& path, const CsvTable& table, std::size_t row, std::size_t col) {
  double value = 0.0;
  const std::string& text = table.rows[row][col];
  if (parse_number(text, value) && std::isfinite(value)) return static_cast<float>(value);
  const std::string name = table.names.empty() ? std::to_string(col) : table.names[col];
  // A column of texts is not a wrong number: somebody has to say what it is.
  const bool texts = std::none_of(table.rows.begin(), table.rows.end(),
                                  [&](const Fields& r) { return parse_number(r[col], value); });
  bad_line(
      path, table.lines[row],
      fmt::format(
          "'{}' in column {} is no number{}", text.substr(0, 40), name,
          texts ? fmt::format(
                      "; say what the column is: label={0}, series={0} (which series a line belongs to), "
                      "group={0} (who a sample is of) or leave_out={0} (no input), for `etrace data show` "
                      "as --option leave_out={0}, for `etrace train` as --set read=leave_out={0}, in Python "
                      "as et.data.load(…, leave_out='{0}')",
                      name)
                : ""));
}

// Columns that are no numbers.
struct CsvColumns {
  std::optional<std::size_t> label, series, group;
  std::set<std::size_t> left_out;
  bool is_number(std::size_t c) const {
    return c != label && c != series && c != group && !left_out.contains(c);
  }
};

std::int64_t numbers_of_a_line(const CsvTable& table, const CsvColumns& columns) {
  std::int64_t count = 0;
  for (std::size_t c = 0; c < table.rows.front().size(); ++c) count += columns.is_number(c) ? 1 : 0;
  return count;
}

void add_sample(DenseData& data, const CsvTable& table, const CsvColumns& columns, std::size_t row,
                const std::vector<float>& values, Given part) {
  const auto text = [&](std::size_t c) { return std::string(trimmed(table.rows[row][c])); };
  data.add({.steps = static_cast<std::int64_t>(values.size()) / data.channels,
            .label = class_number(data, columns.label ? text(*columns.label) : kNoLabel),
            .part = part,
            .group = columns.group ? text(*columns.group) : "",
            .name = columns.series ? text(*columns.series) : ""},
           values);
}

void add_numbers(const std::string& path, const CsvTable& table, const CsvColumns& columns, std::size_t row,
                 std::vector<float>& values) {
  for (std::size_t c = 0; c < table.rows[row].size(); ++c)
    if (columns.is_number(c)) values.push_back(csv_number(path, table, row, c));
}

void add_rows(DenseData& data, const std::string& path, const CsvTable& table, const CsvColumns& columns,
              std::int64_t channels, Given part) {
  const std::int64_t numbers = numbers_of_a_line(table, columns);
  if (numbers < 1 || numbers % channels != 0)
    throw ValueError("data",
                     fmt::format("'{}': a line has {} numbers beside the label, which is no multiple of "
                                 "channels={}",
                                 path, numbers, channels));
  data.channels = channels;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<float> values;
    add_numbers(path, table, columns, r, values);
    add_sample(data, table, columns, r, values, part);
  }
}

void add_steps(DenseData& data, const std::string& path, const CsvTable& table, const CsvColumns& columns,
               Given part) {
  const std::int64_t channels = numbers_of_a_line(table, columns);
  const std::size_t series = *columns.series;
  if (channels < 1 || columns.label == columns.series)
    throw ValueError("data",
                     fmt::format("'{}': expected a column for the series, one for the label, and one or "
                                 "more for numbers",
                                 path));
  data.channels = channels;
  std::vector<float> values;
  std::set<std::string> seen;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::string& name = table.rows[r][series];
    if (values.empty() && !seen.insert(name).second)
      bad_line(path, table.lines[r],
               fmt::format("series {} goes on behind another one; sort the lines by series", name));
    add_numbers(path, table, columns, r, values);
    const bool last = r + 1 == table.rows.size() || table.rows[r + 1][series] != name;
    if (!last && columns.label && table.rows[r + 1][*columns.label] != table.rows[r][*columns.label])
      bad_line(path, table.lines[r + 1], fmt::format("series {} has two labels", name));
    if (!last) continue;
    add_sample(data, table, columns, r, values, part);
    values.clear();
  }
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

void add_csv(DenseData& data, const std::string& path, const ReaderOptions& o, Given part) {
  const CsvTable table = read_table(path, read_unpacked(path));
  CsvColumns columns;
  if (o.text("label") != "none") columns.label = column(path, table, "label", o.text("label"));
  if (!o.text("series").empty()) columns.series = column(path, table, "series", o.text("series"));
  if (!o.text("group").empty()) columns.group = column(path, table, "group", o.text("group"));
  for (const std::string& name : names_in(o.text("leave_out")))
    columns.left_out.insert(column(path, table, "leave_out", name));
  const std::int64_t before = data.channels, channels = o.whole("channels", 1, 1 << 24);
  if (columns.series && channels != 1)
    throw ValueError("data",
                     fmt::format("'{}': channels={} is for tables with a sample per line; with series={} "
                                 "every column of numbers is a channel, but those of leave_out",
                                 path, channels, o.text("series")));
  if (columns.series)
    add_steps(data, path, table, columns, part);
  else
    add_rows(data, path, table, columns, channels, part);
  if (before != 0 && before != data.channels)
    throw ValueError(
        "data", fmt::format("'{}' has {} channels, the file before had {}", path, data.channels, before));
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
     .recognises =
         [](const std::string& path) { return has_ending(path, ".csv") || has_ending(path, ".tsv"); },
     .read = read_csv});

}  // namespace

}  // namespace etrace::data
