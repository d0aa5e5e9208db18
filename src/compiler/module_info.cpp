// Pass 1: the traced step, flattened, with tables from Vars to states.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/canonicalize.h"
#include "compiler/diagonal_products.h"
#include "compiler/held_slopes.h"
#include "compiler/own_outvars.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/param_values.h"

namespace etrace {

namespace {

bool is_stacked(const std::string& type) { return type == "HiddenGroupState" || type == "HiddenTreeState"; }

const OutputRecord* find_output(const Model& model, const OutputRecord& state, std::size_t& index) {
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const OutputRecord& o = model.outputs[i];
    if (o.role == state.role && o.path == state.path && o.leaf == state.leaf) {
      index = i;
      return &o;
    }
  }
  return nullptr;
}

HiddenInfo hidden_info(const InputRecord& record, const Var& in, const Var& out) {
  HiddenInfo info{record.path, record.type, in, out, in.aval.shape, 1};
  if (!is_floating(in.aval.dtype))
    throw CompilationError(
        "module_info",
        fmt::format("hidden state {} has type {}; traces follow derivatives, so a hidden state must be "
                    "floating. Convert it to f32 or f64, or keep counters and indices in a ShortTermState",
                    to_string(record.path), to_string(in.aval)));
  if (!is_stacked(record.type)) return info;
  if (in.aval.shape.rank() < 2)
    throw CompilationError(
        "module_info",
        fmt::format("hidden state {} of type {} has shape {}; states are stacked on the last axis, so "
                    "it needs at least two",
                    to_string(record.path), record.type, to_string(in.aval.shape)));
  info.num_state = in.aval.shape.back();
  info.varshape = in.aval.shape.without(in.aval.shape.rank() - 1);
  return info;
}

void require_unwritten(const Model& model, const ClosedJaxpr& program, std::size_t input) {
  std::size_t at = 0;
  if (find_output(model, model.inputs[input], at) == nullptr) return;
  const Var* out = as_var(program.jaxpr.outs[at]);
  if (out != nullptr && *out == program.jaxpr.invars[input]) return;
  throw NotSupportedError("module_info", fmt::format("parameter {} is written during the step; parameters "
                                                     "are constant while a step runs, so update them "
                                                     "outside, or keep the value in another state",
                                                     to_string(model.inputs[input].path)));
}

// Sizes of the leading axis of batched operators, at any depth.
void collect_batches(const Jaxpr& jaxpr, std::vector<std::int64_t>& found) {
  for (const Eqn& eqn : jaxpr.eqns) {
    const EtpRules* rules = etp_rules(*eqn.prim);
    if (rules == nullptr) {
      for (const JaxprPtr& body : nested_jaxprs(eqn)) collect_batches(body->jaxpr, found);
    } else if (const std::int64_t n = rules->batched ? eqn.out[0].aval.shape[0] : 0;
               rules->batched && std::find(found.begin(), found.end(), n) == found.end()) {
      found.push_back(n);
    }
  }
}

// Inputs in the order of the table of weights: parameters by first appearance, leaves of each by their
// number, wherever they stand among the inputs.
std::vector<std::size_t> leaves_in_order(const Model& model) {
  std::vector<std::size_t> out;
  for (std::size_t first = 0; first < model.inputs.size(); ++first) {
    const InputRecord& p = model.inputs[first];
    const auto same = [&](std::size_t i) {
      return model.inputs[i].role == Role::Param && model.inputs[i].path == p.path;
    };
    if (p.role != Role::Param || std::any_of(out.begin(), out.end(), same)) continue;
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (std::size_t i = first; i < model.inputs.size(); ++i)
      if (same(i)) out.push_back(i);
    std::sort(out.begin() + begin, out.end(),
              [&](std::size_t a, std::size_t b) { return model.inputs[a].leaf < model.inputs[b].leaf; });
    for (std::int64_t leaf = 0; begin + leaf < static_cast<std::ptrdiff_t>(out.size()); ++leaf)
      if (model.inputs[out[static_cast<std::size_t>(begin + leaf)]].leaf != leaf)
        throw CompilationError("module_info",
                               fmt::format("parameter {} has no leaf {} among the inputs, but later ones; "
                                           "every leaf must be an input",
                                           to_string(p.path), leaf));
  }
  return out;
}

std::optional<std::int64_t> batch_of(const ModuleInfo& info, const CompileOptions& options) {
  if (!options.batch_size) {
    std::vector<std::int64_t> found;
    collect_batches(info.jaxpr(), found);
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
  }
  for (const HiddenInfo& h : info.hidden)
    if (h.varshape.is_scalar() || h.varshape[0] != *options.batch_size)
      throw ValueError("module_info",
                       fmt::format("batch_size is {}, but hidden state {} has type {}; its leading axis must "
                                   "count the samples, so initialise the states with that batch",
                                   *options.batch_size, to_string(h.path), to_string(h.invar.aval)));
  return options.batch_size;
}

}  // namespace

ModuleInfo extract_module_info(const Model& model, Reporter& reporter, const CompileOptions& options) {
  ModuleInfo info;
  info.model = model;
  info.control_flow = options.control_flow;
  ClosedJaxpr program = hold_slopes(inline_calls(model.program));
  OutvarSeparator separator(program, options.compat == Compat::None);
  RelevanceTables tables;
  tables.weights_pass_operators = options.compat == Compat::Braintrace;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const InputRecord& record = model.inputs[i];
    const Var& var = program.jaxpr.invars[i];
    auto& states = info.compiled_model_states;
    if (record.role != Role::Arg && std::find(states.begin(), states.end(), record.path) == states.end())
      states.push_back(record.path);
    if (record.role == Role::Hidden) {
      std::size_t at = 0;
      if (find_output(model, record, at) == nullptr)
        throw CompilationError("module_info",
                               "hidden state " + to_string(record.path) + " has no value at step exit");
      if (info.hidden_at(record.path) != nullptr)
        throw NotSupportedError("module_info",
                                fmt::format("hidden state {} has several leaves; traces follow one array per "
                                            "hidden state, so give each a path of its own",
                                            to_string(record.path)));
      const Var out = separator.own(at, record.path);
      if (out.aval != var.aval)
        throw CompilationError(
            "module_info",
            fmt::format("hidden state {} enters the step as {} and leaves it as {}; both must agree",
                        to_string(record.path), to_string(var.aval), to_string(out.aval)));
      info.add_hidden(hidden_info(record, var, out));
      tables.hidden_in.insert(var.id);
      tables.hidden_out.insert(out.id);
    } else if (record.role == Role::Param) {
      require_unwritten(model, program, i);
      tables.weights.insert(var.id);
    }
  }
  for (const std::size_t i : leaves_in_order(model))
    info.add_weight_leaf(model.inputs[i].path, program.jaxpr.invars[i], model.inputs[i].leaf_key);
  for (const OutputRecord& o : model.outputs) ++(o.role == Role::Out ? info.num_var_out : info.num_var_state);
  info.closed_jaxpr = canonicalize_control_flow(program, tables, options.control_flow, reporter);
  if (options.compat == Compat::None)
    info.closed_jaxpr = keep_diagonal_products(std::move(info.closed_jaxpr), reporter);
  info.batch_size = batch_of(info, options);
  return info;
}

bool ModuleInfo::is_descended(const Eqn& eqn) const {
  return std::find(descended_scans.begin(), descended_scans.end(), eqn.id) != descended_scans.end();
}

void ModuleInfo::add_hidden(HiddenInfo h) {
  invar_to_hidden.emplace(h.invar.id, hidden.size());
  outvar_to_hidden.insert_or_assign(h.outvar.id, hidden.size());
  hidden.push_back(std::move(h));
}

void ModuleInfo::add_weight_leaf(const StatePath& path, const Var& leaf, const StatePath& leaf_key) {
  if (weights.empty() || weights.back().path != path) weights.push_back({path, {}, {}});
  weights.back().invars.push_back(leaf);
  weights.back().leaf_keys.push_back(leaf_key);
  invar_to_weight.emplace(leaf.id, weights.size() - 1);
}

namespace {
template <class T>
const T* lookup(const std::unordered_map<std::uint64_t, std::size_t>& map, const std::vector<T>& table,
                const Var& v) {
  const auto it = map.find(v.id);
  return it == map.end() ? nullptr : &table[it->second];
}
}  // namespace

const HiddenInfo* ModuleInfo::hidden_of_invar(const Var& v) const {
  return lookup(invar_to_hidden, hidden, v);
}
const HiddenInfo* ModuleInfo::hidden_of_outvar(const Var& v) const {
  return lookup(outvar_to_hidden, hidden, v);
}
const WeightInfo* ModuleInfo::weight_of(const Var& v) const { return lookup(invar_to_weight, weights, v); }

std::string ModuleInfo::leaf_name(const StatePath& param, std::int64_t leaf) const {
  const auto at = static_cast<std::size_t>(leaf);
  for (const WeightInfo& w : weights)
    if (w.path == param && at < w.leaf_keys.size())
      return to_string(ParamLeafId{param, leaf, to_string(w.leaf_keys[at])});
  return to_string(param);
}

std::vector<std::string> ModuleInfo::leaf_names(const TrainableSource& t) const {
  std::vector<std::string> names;
  for (const auto& [path, leaf] : t.leaves) names.push_back(leaf_name(path, leaf));
  if (names.empty()) names.push_back(leaf_name(t.path, t.leaf));
  return names;
}

const HiddenInfo* ModuleInfo::hidden_at(const StatePath& path) const {
  for (const HiddenInfo& h : hidden)
    if (h.path == path) return &h;
  return nullptr;
}

}  // namespace etrace
