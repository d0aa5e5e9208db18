// An ETraceGraph as JSON. Keys keep the order in which they are written here; lists have the graph's order.

#include "compiler/diagnostic_address.h"
#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "etrace/etp.h"
#include "etrace/explain.h"
#include "io/json.h"
#include "report/explain_view.h"

namespace etrace {

namespace {

template <class List, class F>
OrderedJson list_json(const List& list, F f) {
  OrderedJson out = OrderedJson::array();
  for (const auto& item : list) out.push_back(f(item));
  return out;
}

OrderedJson path_json(const StatePath& path) {
  return list_json(path, [](const PathPart& part) {
    return std::visit([](const auto& p) { return OrderedJson(p); }, part);
  });
}

OrderedJson aval_json(const Aval& a) { return {{"shape", a.shape.to_dims()}, {"dtype", name(a.dtype)}}; }

OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

// Nested programs become their text.
OrderedJson attr_json(const Attr& a) {
  if (const auto* b = a.get_if<bool>()) return *b;
  if (const auto* i = a.get_if<std::int64_t>()) return *i;
  if (const auto* d = a.get_if<double>()) return *d;
  if (const auto* s = a.get_if<std::string>()) return *s;
  if (const Dims* dims = a.ints()) return *dims;
  if (const auto* table = a.table()) return **table;
  if (const Attr::List* l = a.list_items()) return list_json(*l, attr_json);
  if (const Attr::Dict* items = a.dict_items()) {
    OrderedJson out = OrderedJson::object();
    for (const auto& [key, value] : *items) out[key] = attr_json(value);
    return out;
  }
  if (a.jaxpr() != nullptr) return to_string(a);
  return nullptr;
}

OrderedJson scan_json(const ScanInfo& s, const ExplainView::Relation* r) {
  OrderedJson out{{"length", s.length}};
  if (r != nullptr && r->equation) out["equation"] = *r->equation;
  return out;
}

OrderedJson dropped_json(const DroppedWay& way) {
  return {{"primitive", way.primitive->name()},
          {"weight_path", way.weight_path ? path_json(*way.weight_path) : OrderedJson()},
          {"from", list_json(way.from, path_json)},
          {"to", list_json(way.to, path_json)},
          {"kept_when_coupled", way.kept_when_coupled}};
}

// By rule, in all.
OrderedJson totals_json(const std::vector<TraceMemory>& memory) {
  OrderedJson out = OrderedJson::object();
  for (const TraceMemory& m : memory) out[m.rule] = m.total();
  return out;
}

OrderedJson scope_json(const ScopeCost& c) {
  if (!c.refused.empty()) return {{"scope", c.scope}, {"refused", c.refused}};
  return {{"scope", c.scope}, {"keeps", c.keeps}, {"numbers", totals_json(c.memory)}};
}

OrderedJson group_json(const HiddenGroup& g) {
  OrderedJson states = list_json(g.hidden_states, [](const HiddenInfo& h) {
    OrderedJson s{{"path", path_json(h.path)}, {"type", h.type}};
    s.update(aval_json(h.invar.aval));
    s["num_state"] = h.num_state;
    return s;
  });
  OrderedJson snap;
  if (g.snap)
    snap = {{"n", g.snap->n},
            {"num_neighbour", g.snap->num_neighbour()},
            {"neighbours", g.snap->neighbours},
            {"valid", g.snap->valid},
            {"conservative", g.snap->conservative},
            {"reason", text_or_null(g.snap->reason)}};
  return {{"index", g.index},
          {"hidden_paths", list_json(g.hidden_paths, path_json)},
          {"states", states},
          {"varshape", g.varshape().to_dims()},
          {"num_state", g.num_state()},
          {"batch_size", g.batch_size ? OrderedJson(*g.batch_size) : OrderedJson()},
          {"trace_state_width", g.trace_state_width()},
          {"depends_on_previous", ExplainView::recurs(g)},
          {"is_diagonal_recurrence", g.is_diagonal_recurrence},
          {"recurs", ExplainView::recurs(g)},
          {"mixing_reason", text_or_null(g.mixing_reason)},
          {"dropped", list_json(g.dropped, dropped_json)},
          {"snap", snap},
          {"descent", g.descent ? scan_json(g.descent->scan, nullptr) : OrderedJson()},
          {"transition", to_string(g.transition_jaxpr)}};
}

OrderedJson weight_json(const ExplainView::Weight& w) {
  OrderedJson leaves = OrderedJson::array();
  for (std::size_t i = 0; i < w.info->invars.size(); ++i) {
    OrderedJson leaf{{"name", leaf_text(w.info->path, w.info->leaf_keys[i])},
                     {"key", path_json(w.info->leaf_keys[i])},
                     {"learned_online", static_cast<bool>(w.leaf_learned[i])}};
    leaf.update(aval_json(w.info->invars[i].aval));
    leaves.push_back(leaf);
  }
  OrderedJson excluded;
  if (!w.excluded_leaves().empty())
    excluded = {{"reason", w.reason ? OrderedJson(name(*w.reason)) : OrderedJson()},
                {"why", w.why()},
                {"to_do", w.advice()}};
  return {{"path", path_json(w.info->path)},
          {"leaves", leaves},
          {"relations", w.relations},
          {"excluded", excluded}};
}

OrderedJson trainable_json(const ExplainView& v, const TrainableSource& t) {
  return {{"key", t.key},
          {"names", v.graph.module_info.leaf_names(t)},
          {"operand", t.operand},
          {"path", path_json(t.path)},
          {"leaf", t.leaf},
          {"processing_chain", t.processing_chain},
          {"processing", t.processing_chain.empty() ? OrderedJson() : OrderedJson(to_string(t.processing))},
          {"sources", list_json(t.leaves, [](const auto& l) {
             return OrderedJson{{"path", path_json(l.first)}, {"leaf", l.second}};
           })}};
}

// Numbers of one relation by rule, and the slots of its operator.
OrderedJson memory_json(const ExplainView& v, std::size_t relation) {
  OrderedJson slots = OrderedJson::object(), numbers = OrderedJson::object();
  for (const auto& s : v.relations[relation].slots.slots) slots[s.key] = s.shape.to_dims();
  for (const TraceMemory& m : v.report.memory) numbers[m.rule] = m.relations[relation];
  return {{"numbers", numbers}, {"slots", slots}, {"batch", v.relations[relation].slots.batch}};
}

OrderedJson relation_json(const ExplainView& v, std::size_t index) {
  const ExplainView::Relation& r = v.relations[index];
  const HiddenParamOpRelation& info = *r.info;
  const auto var_json = [&](const Var& var) {
    OrderedJson out{{"name", v.program.name_of(var)}};
    out.update(aval_json(var.aval));
    return out;
  };
  OrderedJson params = OrderedJson::object(), connected = OrderedJson::array(), tails = OrderedJson::array();
  for (const auto& [key, value] : info.eqn_params.items()) params[key] = attr_json(value);
  for (std::size_t i = 0; i < info.connected_hidden_paths.size(); ++i)
    connected.push_back({{"path", path_json(info.connected_hidden_paths[i])},
                         {"classification", name(info.path_classification[i])}});
  for (std::size_t i = 0; i < info.y_to_hidden_group_jaxprs.size(); ++i)
    tails.push_back({{"group", info.hidden_groups[i]},
                     {"moves_positions",
                      i < info.tail_reasons.size() ? text_or_null(info.tail_reasons[i]) : OrderedJson()},
                     {"program", to_string(info.y_to_hidden_group_jaxprs[i])}});
  return {
      {"index", index},
      {"primitive", info.primitive->name()},
      {"equation", r.equation ? OrderedJson(*r.equation) : OrderedJson()},
      {"path", path_json(info.path())},
      {"x", info.x_var ? var_json(*info.x_var) : OrderedJson()},
      {"y", var_json(info.y_var)},
      {"params", params},
      {"trainables",
       list_json(info.trainables, [&](const TrainableSource& t) { return trainable_json(v, t); })},
      {"hidden_groups", info.hidden_groups},
      {"connected", connected},
      {"tails", tails},
      {"reads", list_json(r.reads,
                          [](const ExplainView::Read& read) {
                            return OrderedJson{{"group", read.group}, {"at", read.previous ? "t-1" : "t"}};
                          })},
      {"control_flow", info.control_flow_context ? scan_json(*info.control_flow_context, &r) : OrderedJson()},
      {"trace_memory", memory_json(v, index)}};
}

OrderedJson record_json(const CompilationRecord& r) {
  OrderedJson context = OrderedJson::object();
  for (const auto& [key, value] : r.context) context[key] = attr_json(value);
  return {{"kind", name(r.kind)},
          {"address", diagnostic_address(r.kind)},
          {"level", name(r.level)},
          {"message", r.message},
          {"note", text_or_null(r.note)},
          {"primitive", text_or_null(r.primitive)},
          {"weight_path", r.weight_path ? path_json(*r.weight_path) : OrderedJson()},
          {"hidden_paths", list_json(r.hidden_paths, path_json)},
          {"context", context},
          {"origin", text_or_null(to_string(r.origin))}};
}

OrderedJson program_json(const ExplainView& v) {
  const std::vector<Eqn>& eqns = v.graph.module_info.jaxpr().eqns;
  OrderedJson equations = OrderedJson::array();
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    equations.push_back({{"text", v.program.equations[i]},
                         {"primitive", eqns[i].prim->name()},
                         {"etp", is_etp(*eqns[i].prim)},
                         {"relations", v.relations_at[i]},
                         {"origin", text_or_null(to_string(eqns[i].origin))}});
  }
  return {{"head", v.program.head}, {"equations", equations}, {"foot", v.program.foot}};
}

OrderedJson perturbation_json(const HiddenPerturbation& p) {
  OrderedJson vars = OrderedJson::array();
  for (std::size_t i = 0; i < p.perturb_vars.size(); ++i) {
    OrderedJson item{{"path", path_json(p.perturb_hidden_paths[i])}};
    item.update(aval_json(p.perturb_vars[i].aval));
    vars.push_back(item);
  }
  return {{"inputs", vars}, {"program", to_string(p.perturb_jaxpr.jaxpr)}};
}

}  // namespace

std::string explain_json(const ETraceGraph& graph, const std::vector<std::string>& notes) {
  const ExplainView v(graph);
  const Model& model = graph.module_info.model;
  OrderedJson relations = OrderedJson::array();
  for (std::size_t i = 0; i < v.relations.size(); ++i) relations.push_back(relation_json(v, i));
  const OrderedJson out{
      {"format", "etrace.graph"},
      {"version", 1},
      {"name", model.name},
      {"source", model.source},
      {"summary",
       {{"text", v.summary()},
        {"scope", scope_name(graph.options)},
        {"batch_size",
         graph.module_info.batch_size ? OrderedJson(*graph.module_info.batch_size) : OrderedJson()},
        {"parameters", v.num_leaves()},
        {"learned_online", v.num_learned()},
        {"excluded", v.num_leaves() - v.num_learned()},
        {"relations", v.relations.size()},
        {"hidden_groups", graph.hidden_groups.size()},
        {"warnings", v.report.warnings},
        {"errors", v.report.errors},
        {"trace_memory", {{"numbers", totals_json(v.report.memory)}, {"bytes_per_number", v.number_bytes}}}}},
      {"notes", notes},
      {"weights", list_json(v.weights, weight_json)},
      {"hidden_groups", list_json(graph.hidden_groups, group_json)},
      {"relations", relations},
      {"scopes", list_json(v.scopes, scope_json)},
      {"dynamic_states", list_json(v.report.dynamic_states, path_json)},
      {"diagnostics", list_json(graph.diagnostics, record_json)},
      {"program", program_json(v)},
      {"perturbation", graph.hidden_perturb ? perturbation_json(*graph.hidden_perturb) : OrderedJson()},
  };
  return json_text(out, 2) + "\n";
}

}  // namespace etrace
