// The summary for readers and for programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/memory.h"
#include "etrace/summary.h"
#include "io/json.h"

namespace etrace {

namespace {

// The rule that a column is named after: the best known of those that keep the same.
const std::string& first_of(const std::vector<std::string>& rules) {
  for (const char* known : {"D_RTRL", "pp_prop", "OSTLRecurrent"})
    for (const std::string& r : rules)
      if (r == known) return r;
  return rules.front();
}

using Line = std::vector<std::string>;

Line cells(const Summary::Row& r, const std::string& name) {
  Line line{name,
            r.type,
            r.output,
            fmt::format("{}", r.params),
            bytes_text(r.param_bytes),
            bytes_text(r.state_bytes)};
  for (const std::int64_t bytes : r.traces) line.push_back(bytes_text(bytes));
  for (const std::int64_t bytes : r.extra) line.push_back(bytes_text(bytes));
  return line;
}

// Characters, not bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// Names and types to the left, numbers to the right; a line of one cell takes what room it needs.
std::string aligned(const std::vector<Line>& table) {
  std::vector<std::size_t> widths(table[0].size());
  for (const Line& line : table)
    for (std::size_t c = 0; line.size() > 1 && c < line.size(); ++c)
      widths[c] = std::max(widths[c], width_of(line[c]));
  std::string text;
  for (const Line& line : table) {
    std::string out = line[0];
    for (std::size_t c = 1; c < line.size(); ++c) {
      const std::string gap(widths[c] - width_of(line[c]), ' ');
      out += std::string(c == 1 ? widths[0] - width_of(line[0]) : 0, ' ') + "  ";
      out += c < 3 ? line[c] + gap : gap + line[c];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  }
  return text;
}

Json row_json(const Summary& s, const Summary::Row& r) {
  Json row{{"parameters", r.params}, {"parameter_bytes", r.param_bytes}, {"state_bytes", r.state_bytes}};
  for (std::size_t t = 0; t < s.traces.size(); ++t)
    for (const std::string& rule : s.traces[t].rules) row["trace_bytes"][rule] = r.traces[t];
  for (std::size_t c = 0; c < s.columns.size(); ++c) row["columns"][s.columns[c]] = r.extra[c];
  return row;
}

}  // namespace

std::string Summary::to_string() const {
  std::vector<Line> table{{"module", "class", "output", "parameters", "bytes", "states"}};
  for (const Traces& t : traces) table[0].push_back(first_of(t.rules));
  table[0].insert(table[0].end(), columns.begin(), columns.end());
  for (const Row& r : rows) {
    const std::size_t slash = r.path.rfind('/');
    const std::string name =
        r.path.empty() ? "model" : r.path.substr(slash == std::string::npos ? 0 : slash + 1);
    table.push_back(cells(r, std::string(static_cast<std::size_t>(2 * r.depth), ' ') + name));
    for (const std::string& state : r.states)
      table.push_back({std::string(static_cast<std::size_t>(2 * r.depth + 2), ' ') + state});
  }
  table.push_back(cells(total, "total"));
  std::string text = aligned(table);
  if (traces.empty()) return text;
  text +=
      "\nColumns named after a rule: what it keeps from step to step, whatever the length of the sequence.\n";
  for (const Traces& t : traces) {
    const std::string& first = first_of(t.rules);
    std::vector<std::string> others;
    std::copy_if(t.rules.begin(), t.rules.end(), std::back_inserter(others),
                 [&](const std::string& r) { return r != first; });
    if (!others.empty()) text += fmt::format("  as {}: {}\n", first, fmt::join(others, ", "));
    if (t.shared_bytes > 0)
      text +=
          fmt::format("  {}: {} of the total are of no parameter alone\n", first, bytes_text(t.shared_bytes));
  }
  return text;
}

std::string Summary::to_json() const {
  Json all{{"modules", Json::array()}, {"total", row_json(*this, total)}};
  for (const Row& r : rows) {
    Json row = row_json(*this, r);
    row["path"] = r.path;
    row["class"] = r.type;
    row["output"] = r.output;
    row["states"] = r.states;
    all["modules"].push_back(std::move(row));
  }
  return json_text(all, 2) + "\n";
}

}  // namespace etrace
