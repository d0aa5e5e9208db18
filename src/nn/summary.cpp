#include "etrace/summary.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <typeinfo>

namespace etrace {

namespace {

std::string type_name(const Module& module) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : typeid(module).name();
  for (const std::string_view noise : {"(anonymous namespace)::", "etrace::"})
    for (std::size_t at = name.find(noise); at != std::string::npos; at = name.find(noise))
      name.erase(at, noise.size());
  return name;
}

std::string joined(const StatePath& path) { return to_string(path); }

// The last value that each module computed, by the path of its origin.
std::vector<std::pair<std::string, std::string>> outputs_of(Module& model, const Array& example) {
  std::vector<std::pair<std::string, std::string>> found;
  if (!example.defined()) return found;
  const Model traced = trace_step(model, example).model;
  for (const Eqn& e : traced.program.jaxpr.eqns) {
    std::string path;
    for (const std::string& part : e.origin.module) {
      path += (path.empty() ? "" : "/") + part;
      const auto at =
          std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == path; });
      const std::string type = to_string(e.out[0].aval);
      if (at == found.end())
        found.emplace_back(path, type);
      else
        at->second = type;
    }
  }
  found.emplace_back("", to_string(traced.program.jaxpr.out_avals()[0]));
  return found;
}

class Walk {
 public:
  Walk(Module& model, const Array& example, const std::vector<SummaryColumn>& columns)
      : columns_(columns), outputs_(outputs_of(model, example)) {
    visit(model, {});
  }
  std::vector<Summary::Row> rows;

 private:
  void visit(const Module& module, const StatePath& path) {
    if (!seen_.insert(&module).second) return;  // shared: at its first place
    Summary::Row row;
    row.path = path.empty() ? "" : joined(path);
    row.type = type_name(module);
    row.depth = static_cast<int>(path.size());
    row.extra.resize(columns_.size());
    for (const auto& [name, type] : outputs_)
      if (name == row.path) row.output = type;
    for (const Module::Member& m : module.members())
      if (m.state != nullptr && seen_states_.insert(m.state.get()).second) add(row, m, path);
    rows.push_back(std::move(row));
    for (const Module::Member& m : module.members())
      if (m.module != nullptr) {
        StatePath inner = path;
        inner.push_back(m.name);
        visit(*m.module, inner);
      }
  }

  void add(Summary::Row& row, const Module::Member& member, const StatePath& path) {
    const State& state = *member.state;
    const bool is_param = state.kind() == StateKind::Param;
    const Avals types = state.avals();
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string key = state.leaf_keys().empty() ? "" : "." + state.leaf_keys()[i];
      const char* const what = is_param ? "" : is_a(state.kind(), StateKind::Hidden) ? " hidden" : " state";
      row.states.push_back(to_string(StatePath{member.name}) + key + " " + to_string(types[i]) + what);
      (is_param ? row.param_bytes : row.state_bytes) += static_cast<std::int64_t>(types[i].bytes());
      if (is_param) row.params += types[i].shape.size();
    }
    if (!is_param) return;
    StatePath own = path;
    own.push_back(member.name);
    for (std::size_t c = 0; c < columns_.size(); ++c) row.extra[c] += columns_[c].bytes(own);
  }

  const std::vector<SummaryColumn>& columns_;
  std::vector<std::pair<std::string, std::string>> outputs_;
  std::set<const Module*> seen_;
  std::set<const State*> seen_states_;
};

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 10000) return fmt::format("{} B", bytes);
  const double kib = static_cast<double>(bytes) / 1024.0;
  return kib < 10000.0 ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / 1024.0);
}

std::vector<std::string> cells(const Summary::Row& r, const std::string& name) {
  std::vector<std::string> line{name,
                                r.type,
                                r.output,
                                fmt::format("{}", r.params),
                                bytes_text(r.param_bytes),
                                bytes_text(r.state_bytes)};
  for (const std::int64_t bytes : r.extra) line.push_back(bytes_text(bytes));
  return line;
}

// Characters, not bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string Summary::to_string() const {
  std::vector<std::vector<std::string>> table{{"module", "class", "output", "parameters", "bytes", "states"}};
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
  std::vector<std::size_t> widths(table[0].size());
  for (const auto& line : table)
    for (std::size_t c = 0; line.size() > 1 && c < line.size(); ++c)
      widths[c] = std::max(widths[c], width_of(line[c]));
  std::string text;
  for (const auto& line : table) {
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

Summary summary(Module& model, const Array& example, const std::vector<SummaryColumn>& columns) {
  Summary s;
  s.rows = Walk(model, example, columns).rows;
  for (const SummaryColumn& c : columns) s.columns.push_back(c.title);
  s.total.extra.resize(columns.size());
  for (const Summary::Row& r : s.rows) {
    s.total.params += r.params;
    s.total.param_bytes += r.param_bytes;
    s.total.state_bytes += r.state_bytes;
    for (std::size_t c = 0; c < columns.size(); ++c) s.total.extra[c] += r.extra[c];
  }
  return s;
}

}  // namespace etrace
