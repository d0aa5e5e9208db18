// Rows and their sums; the text is in summary_text.cpp.
#include "etrace/summary.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <typeinfo>

#include "compiler/memory_table.h"
#include "etrace/compiler.h"
#include "etrace/error.h"

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

Summary::Row row_at(const StatePath& path) {
  Summary::Row row;
  row.path = path.empty() ? "" : to_string(path);
  row.depth = static_cast<int>(path.size());
  return row;
}

void add_state(Summary::Row& row, const std::string& name, const Aval& type, Role role) {
  const char* const what = role == Role::Param ? "" : role == Role::Hidden ? " hidden" : " state";
  row.states.push_back(name + " " + to_string(type) + what);
  (role == Role::Param ? row.param_bytes : row.state_bytes) += static_cast<std::int64_t>(type.bytes());
  if (role == Role::Param) row.params += type.shape.size();
}

// Of a module: every module and every state at its first place.
class ModuleRows {
 public:
  ModuleRows(const Module& model, const std::vector<SummaryColumn>& columns) : columns_(columns) {
    visit(model, {});
  }
  std::vector<Summary::Row> rows;

 private:
  void visit(const Module& module, const StatePath& path) {
    if (!seen_.insert(&module).second) return;
    Summary::Row row = row_at(path);
    row.type = type_name(module);
    row.extra.resize(columns_.size());
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
    const Role role = state.kind() == StateKind::Param        ? Role::Param
                      : is_a(state.kind(), StateKind::Hidden) ? Role::Hidden
                                                              : Role::Other;
    const Avals types = state.avals();
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string key = state.leaf_keys().empty() ? "" : "." + state.leaf_keys()[i];
      add_state(row, to_string(StatePath{member.name}) + key, types[i], role);
    }
    if (role != Role::Param) return;
    StatePath own = path;
    own.push_back(member.name);
    for (std::size_t c = 0; c < columns_.size(); ++c) row.extra[c] += columns_[c].bytes(own);
  }

  const std::vector<SummaryColumn>& columns_;
  std::set<const Module*> seen_;
  std::set<const State*> seen_states_;
};

// Of a traced step: the modules that its states are of, in the order of their names.
std::vector<Summary::Row> rows_of(const Model& model) {
  std::map<StatePath, Summary::Row> rows{{{}, row_at({})}};
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const InputRecord& r = model.inputs[i];
    if (r.role == Role::Arg) continue;
    StatePath owner = r.path;
    owner.pop_back();
    for (StatePath p = owner; !p.empty(); p.pop_back()) rows.try_emplace(p, row_at(p));
    std::string name = to_string(StatePath{r.path.back()});
    if (!r.leaf_key.empty()) name += "." + to_string(r.leaf_key);
    add_state(rows.at(owner), name, model.program.jaxpr.invars[i].aval, r.role);
  }
  std::vector<Summary::Row> out;
  for (auto& [path, row] : rows) out.push_back(std::move(row));
  return out;
}

Summary::Row* find(std::vector<Summary::Row>& rows, const std::string& path) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.path == path; });
  return at == rows.end() ? nullptr : &*at;
}

// The last value that each module computes, by the path of its origin.
void add_outputs(Summary& s, const Model& model) {
  for (const Eqn& e : model.program.jaxpr.eqns) {
    std::string path;
    for (const std::string& part : e.origin.module) {
      path += (path.empty() ? "" : "/") + part;
      if (Summary::Row* row = find(s.rows, path)) row->output = to_string(e.out[0].aval);
    }
  }
  find(s.rows, "")->output = to_string(model.program.jaxpr.out_avals()[0]);
}

// A relation counts for the module that has its (first) parameter.
void add_traces(Summary& s, const Model& model, const CompileOptions& scope) {
  const ETraceGraph graph = compile_etrace_graph(model, scope);
  const std::vector<HiddenParamOpRelation>& relations = graph.hidden_param_op_relations;
  if (relations.empty()) return;
  const auto bytes_of = [](const HiddenParamOpRelation& r) {
    return static_cast<std::int64_t>(Aval{r.y_var.aval.dtype, {}}.bytes());
  };
  for (const RulesAlike& alike : rules_alike(trace_memory(graph))) {
    s.traces.push_back({alike.rules, alike.memory.shared * bytes_of(relations.front())});
    for (Summary::Row& row : s.rows) row.traces.push_back(0);
    for (std::size_t r = 0; r < relations.size(); ++r) {
      StatePath owner = relations[r].path();
      owner.pop_back();
      if (Summary::Row* row = find(s.rows, owner.empty() ? "" : to_string(owner)))
        row->traces.back() += alike.memory.relations[r] * bytes_of(relations[r]);
    }
  }
}

void add_all_traces(Summary& s, const Model& model) {
  add_traces(s, model, {});
  CompileOptions wider;
  wider.include_recurrent_mixing = true;
  add_traces(s, model, wider);
  wider.sparse_n = 2;
  try {
    add_traces(s, model, wider);
  } catch (const NotSupportedError&) {  // a pattern too large to be looked at
  }
}

void add_up(Summary& s) {
  s.total.extra.resize(s.columns.size());
  for (const Summary::Traces& t : s.traces) s.total.traces.push_back(t.shared_bytes);
  const auto add = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  for (const Summary::Row& r : s.rows) {
    s.total.params += r.params;
    s.total.param_bytes += r.param_bytes;
    s.total.state_bytes += r.state_bytes;
    add(s.total.traces, r.traces);
    add(s.total.extra, r.extra);
  }
}

}  // namespace

Summary summary(Module& model, const Array& example, const std::vector<SummaryColumn>& columns) {
  Summary s;
  s.rows = ModuleRows(model, columns).rows;
  for (const SummaryColumn& c : columns) s.columns.push_back(c.title);
  if (example.defined()) {
    const Model traced = trace_step(model, example).model;
    add_outputs(s, traced);
    add_all_traces(s, traced);
  }
  add_up(s);
  return s;
}

Summary summary(const Model& model) {
  Summary s;
  s.rows = rows_of(model);
  add_outputs(s, model);
  add_all_traces(s, model);
  add_up(s);
  return s;
}

}  // namespace etrace
