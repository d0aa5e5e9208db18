// A table line by line, from a file or a pipe; see etrace/stream.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/utf8.h"
#include "data/csv_line.h"
#include "data/dataset.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/stream.h"
#include "io/tensor_file.h"

namespace etrace {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16U, kLongestLine = std::size_t{16} << 20U;
constexpr int kPatience = 100;  // milliseconds between two questions whether to stop
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

std::int32_t StreamKind::class_of(const std::string& name) const {
  const auto at = std::find(classes.begin(), classes.end(), name);
  return at == classes.end() ? -1 : static_cast<std::int32_t>(at - classes.begin());
}

struct CsvStream::Impl {
  struct Ahead {
    Next next;
    StreamRow row;
  };
  int fd = -1;
  std::string buffer, line;  // what was read; the line that is looked at
  std::size_t at = 0;        // of the buffer
  std::int64_t number = 0;   // lines so far
  std::int64_t byte = 0;     // where the next line begins
  bool begun = false, ended = false;

  data::Fields names, fields;
  char separator = '\0';
  std::size_t columns = 0, label = 0;  // 0 columns: not known yet
  std::vector<std::size_t> inputs;     // columns, in the order of the kind's inputs
  std::optional<StreamKind> known;     // what the columns are called; none: what comes first says it
  std::deque<Ahead> ahead;

  ~Impl() {
    if (fd > STDIN_FILENO) ::close(fd);
  }
};

CsvStream::CsvStream(const CsvStreamOptions& options) : options_(options), impl_(std::make_unique<Impl>()) {
  // A pipe without a writer is waited for by poll, where the wait can be ended.
  impl_->fd =
      options_.path == "-" ? STDIN_FILENO : ::open(options_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (impl_->fd > STDIN_FILENO) ::fcntl(impl_->fd, F_SETFL, ::fcntl(impl_->fd, F_GETFL) & ~O_NONBLOCK);
  struct stat info {};
  if (impl_->fd < 0 || ::fstat(impl_->fd, &info) != 0)
    throw IoError("stream", fmt::format("cannot open '{}': {}", options_.path, std::strerror(errno)));
  if (S_ISDIR(info.st_mode))
    throw IoError("stream", fmt::format("'{}' is a folder; a stream is a table, or - for standard input",
                                        options_.path));
  pipe_ = !S_ISREG(info.st_mode);
}

CsvStream::~CsvStream() = default;

// The next line without its end, into impl_->line. A pipe that is silent is waited for.
CsvStream::Got CsvStream::read_line() {
  Impl& s = *impl_;
  s.line.clear();
  for (;;) {
    const std::size_t end = s.buffer.find('\n', s.at);
    const std::size_t stop = std::min(end, s.buffer.size());
    s.line.append(s.buffer, s.at, stop - s.at);
    if (s.line.size() > kLongestLine)
      throw ValueError("stream", fmt::format("'{}', line {}: it has more than {} bytes; is it a table?",
                                             options_.path, s.number + 1, kLongestLine));
    s.at = stop;
    if (end != std::string::npos) {
      s.at = end + 1;
      ++s.number;
      s.byte += static_cast<std::int64_t>(s.line.size()) + 1;
      return Got::Line;
    }
    if (s.ended) return s.line.empty() ? Got::End : Got::Part;
    pollfd wait{s.fd, POLLIN, 0};
    while (::poll(&wait, 1, kPatience) <= 0)
      if (options_.stop && options_.stop()) {
        s.buffer = std::exchange(s.line, {});  // a part of a line: whoever goes on finds it whole
        s.at = 0;
        return Got::Stopped;
      }
    s.buffer.resize(kBlock);
    s.at = 0;
    ssize_t n = 0;
    do n = ::read(s.fd, s.buffer.data(), kBlock);
    while (n < 0 && errno == EINTR);
    if (n < 0)
      throw IoError("stream", fmt::format("cannot read '{}' behind line {}: {}", options_.path, s.number,
                                          std::strerror(errno)));
    s.buffer.resize(static_cast<std::size_t>(n));
    s.ended = n == 0;
  }
}

// The first line that is none of numbers has the names of the columns.
void CsvStream::take_names(std::string_view line) {
  Impl& s = *impl_;
  if (data::is_gzip(line))
    throw ValueError("stream",
                     fmt::format("'{}' is packed; give it unpacked: `zcat FILE | etrace train - --stream`",
                                 options_.path));
  if (!is_utf8(line))
    throw ValueError(
        "stream", fmt::format("'{}', line {}: it is no UTF-8 text; is it a table?", options_.path, s.number));
  s.separator = data::separator_of(line);
  if (data::too_many_fields(line, s.separator))
    throw ValueError("stream", fmt::format("'{}', line {}: more than {} columns", options_.path, s.number,
                                           data::kMostColumns));
  data::split_fields(line, s.separator, s.fields);
  s.columns = s.fields.size();
  s.names.clear();
  if (data::no_numbers(s.fields))
    for (const std::string& name : s.fields) s.names.emplace_back(data::trimmed(name));
  if (s.columns < 2)
    throw ValueError("stream", fmt::format("'{}', line {}: one column; expected numbers and a label",
                                           options_.path, s.number));
  arrange();
  if (!s.known) s.known = kind_so_far();
}

namespace {
// Columns without names are called by their numbers.
bool has_names(const StreamKind& kind) {
  double number = 0.0;
  return std::none_of(kind.inputs.begin(), kind.inputs.end(),
                      [&](const std::string& name) { return data::parse_number(name, number); });
}
}  // namespace

// Which columns are inputs, in which order, and which is the label: by name where there are names.
void CsvStream::arrange() {
  Impl& s = *impl_;
  const bool by_name = s.known && !s.names.empty() && has_names(*s.known);
  s.label =
      data::column_of(options_.path, s.names, s.columns, "label", by_name ? s.known->label : options_.label);
  s.inputs.clear();
  if (!by_name) {
    for (std::size_t c = 0; c < s.columns; ++c)
      if (c != s.label) s.inputs.push_back(c);
    if (!s.known) return;
    if (s.inputs.size() != s.known->inputs.size())
      throw ValueError(
          "stream",
          fmt::format("'{}', line {}: {} columns beside the label, but the stream had {}: {}", options_.path,
                      s.number, s.inputs.size(), s.known->inputs.size(), data::first_names(s.known->inputs)));
    tell(fmt::format("'{}' {} no names of columns: they are taken by their places", options_.path,
                     s.names.empty() ? "has" : "had"));
    return;
  }
  std::vector<bool> used(s.columns, false);
  used[s.label] = true;
  std::vector<std::string> missing, left;
  for (const std::string& name : s.known->inputs) {
    std::size_t c = 0;
    while (c < s.columns && (used[c] || s.names[c] != name)) ++c;
    if (c == s.columns) {
      missing.push_back(name);
      continue;
    }
    used[c] = true;
    s.inputs.push_back(c);
  }
  data::require_columns(options_.path, missing, s.names);
  for (std::size_t c = 0; c < s.columns; ++c)
    if (!used[c]) left.push_back(s.names[c]);
  if (!left.empty())
    tell(fmt::format("'{}', line {}: not used, as the stream had no such columns: {}", options_.path,
                     s.number, data::first_names(left)));
}

void CsvStream::tell(const std::string& text) const {
  if (options_.say) options_.say(text);
}

// Of a pipe that was opened again, perhaps by a writer with another order.
bool CsvStream::is_line_of_names() const {
  const Impl& s = *impl_;
  if (s.names.empty() || !data::no_numbers(s.fields)) return false;
  const auto is_there = [&](const std::string& name) {
    return std::any_of(s.fields.begin(), s.fields.end(),
                       [&](const std::string& f) { return data::trimmed(f) == name; });
  };
  return is_there(s.known->label) && std::all_of(s.known->inputs.begin(), s.known->inputs.end(), is_there);
}

CsvStream::Next CsvStream::parse(StreamRow& row, const std::string& problem) {
  Impl& s = *impl_;
  row.numbers.clear();
  row.problem.clear();
  row.line = s.number;
  row.next_byte = s.byte;
  const auto bad = [&](const std::string& what) {
    row.problem = fmt::format("'{}', line {}: {}", options_.path, s.number, what);
    return Next::Bad;
  };
  if (!problem.empty()) return bad(problem);
  if (s.fields.size() != s.columns)
    return bad(fmt::format("{} columns, expected {}", s.fields.size(), s.columns));
  for (const std::size_t c : s.inputs) {
    double value = 0.0;
    if (!data::parse_number(s.fields[c], value) || !data::is_data_number(value))
      return bad(fmt::format("'{}' in column {} is {}", shown_text(s.fields[c], 40),
                             s.names.empty() ? std::to_string(c) : s.names[c], data::kNoNumber));
    row.numbers.push_back(value);
  }
  row.label = data::trimmed(s.fields[s.label]);
  if (!is_utf8(row.label)) return bad("the label is no UTF-8 text");
  return row.label.empty() ? bad("the label is empty") : Next::Row;
}

CsvStream::Next CsvStream::fresh(StreamRow& row) {
  Impl& s = *impl_;
  for (;;) {
    switch (read_line()) {
      case Got::Line:
        break;
      case Got::End:
        return Next::End;
      case Got::Stopped:
        return Next::Stopped;
      case Got::Part:
        row = {};
        row.line = s.number + 1;
        row.next_byte = s.byte;
        row.problem = fmt::format("'{}' ends in the middle of line {}: it has no line end, and is left out",
                                  options_.path, s.number + 1);
        return Next::CutOff;
    }
    if (!s.begun && s.line.starts_with(kByteOrderMark)) s.line.erase(0, kByteOrderMark.size());
    s.begun = true;
    if (s.line.ends_with('\r')) s.line.pop_back();
    if (data::trimmed(s.line).empty() || s.line.front() == '#') {
      ++blank_;
      continue;
    }
    if (s.columns == 0) {
      take_names(s.line);
      if (!s.names.empty()) continue;
    }
    std::string problem;
    if (data::too_many_fields(s.line, s.separator))
      problem = fmt::format("more than {} columns", data::kMostColumns);
    else if (!data::split_fields(s.line, s.separator, s.fields))
      problem = "a quote that is not closed";
    else if (is_line_of_names()) {
      take_names(s.line);
      continue;
    }
    return parse(row, problem);
  }
}

CsvStream::Next CsvStream::next(StreamRow& row) {
  if (impl_->ahead.empty()) return fresh(row);
  Impl::Ahead first = std::move(impl_->ahead.front());
  impl_->ahead.pop_front();
  row = std::move(first.row);
  return first.next;
}

StreamKind CsvStream::kind_so_far() const {
  const Impl& s = *impl_;
  StreamKind kind;
  const auto name = [&](std::size_t c) {
    return s.names.empty() ? std::to_string(c) : std::string(data::trimmed(s.names[c]));
  };
  for (const std::size_t c : s.inputs) kind.inputs.push_back(name(c));
  if (s.columns > 0) kind.label = name(s.label);
  return kind;
}

StreamKind CsvStream::look(std::int64_t lines) {
  Impl& s = *impl_;
  std::string first_problem;
  data::DenseData classes;  // its list of classes is sorted as that of data is
  const std::int64_t most = 10 * lines + 1000;
  std::int64_t good = 0;
  for (std::int64_t all = 0; good < lines && all < most; ++all) {
    Impl::Ahead one{Next::End, {}};
    one.next = fresh(one.row);
    if (one.next == Next::Row) {
      ++good;
      data::class_number(classes, one.row.label);
    } else if (first_problem.empty()) {
      first_problem = one.row.problem;
    }
    const bool goes_on = one.next == Next::Row || one.next == Next::Bad;
    s.ahead.push_back(std::move(one));
    if (!goes_on) break;
  }
  if (good == 0 && s.ahead.back().next != Next::Stopped)
    throw ValueError("stream",
                     fmt::format("'{}' has no line that can be used{}", options_.path,
                                 first_problem.empty() ? "" : ", the first problem: " + first_problem));
  StreamKind kind = kind_so_far();
  data::sort_classes(classes);
  kind.classes = classes.classes;
  return kind;
}

void CsvStream::go_on(std::int64_t line, std::int64_t byte, const StreamKind& as_it_was) {
  Impl& s = *impl_;
  if (pipe_) {
    s.known = as_it_was;
    s.number = line;  // what comes is counted from there; its names, if any, are read as those of any stream
    return;
  }
  struct stat info {};
  if (::fstat(s.fd, &info) != 0 || info.st_size < byte)
    throw ValueError("stream", fmt::format("'{}' has {} bytes, but the run had learned up to byte {}: it is "
                                           "not the stream that it was",
                                           options_.path, info.st_size, byte));
  if (line > 0) {
    look(1);
    const StreamKind here = kind_so_far();
    if (here.inputs != as_it_was.inputs || here.label != as_it_was.label)
      throw ValueError("stream",
                       fmt::format("'{}' has the columns {} and the label {}; the run had {} and {}",
                                   options_.path, fmt::join(here.inputs, ","), here.label,
                                   fmt::join(as_it_was.inputs, ","), as_it_was.label));
  }
  s.ahead.clear();
  s.buffer.clear();
  s.at = 0;
  s.ended = false;
  s.number = line;
  s.byte = byte;
  if (::lseek(s.fd, byte, SEEK_SET) != byte)
    throw IoError("stream",
                  fmt::format("cannot go to byte {} of '{}': {}", byte, options_.path, std::strerror(errno)));
}

}  // namespace etrace
