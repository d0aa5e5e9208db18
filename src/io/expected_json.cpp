// What a model file expects of compiler and learner: graphs, Jacobians, runs. Readers and writers stand in
// pairs.
#include "io/expected_json.h"

#include "io/program_json.h"

namespace etrace {

namespace {

std::vector<StatePath> read_paths(const Node& node) { return read_list(node, read_path); }
OrderedJson write_paths(const std::vector<StatePath>& paths) { return write_list(paths, write_path); }

std::string read_text(const Node& node) { return node.text(); }

Tensors read_tensors(const Node& node) { return read_list(node, read_tensor); }
OrderedJson write_tensors(const Tensors& list) { return write_list(list, write_tensor); }

Named<Tensor> read_named_tensors(const Node& node) { return read_named(node, read_tensor); }
OrderedJson write_named_tensors(const Named<Tensor>& named) { return write_named(named, write_tensor); }

template <class T, class F>
void read_optional(const Node& node, const char* key, std::optional<T>& out, F f) {
  if (const auto found = node.find(key)) out = f(*found);
}
template <class T, class F>
void write_optional(OrderedJson& json, const char* key, const std::optional<T>& value, F f) {
  if (value) json[key] = f(*value);
}

// Texts and arrays that are absent are empty or undefined.
void read_optional(const Node& node, const char* key, std::string& out) {
  if (const auto found = node.find(key)) out = found->text();
}
void write_optional(OrderedJson& json, const char* key, const std::string& value) {
  if (!value.empty()) json[key] = value;
}
void read_optional(const Node& node, const char* key, Tensor& out) {
  if (const auto found = node.find(key)) out = read_tensor(*found);
}
void write_optional(OrderedJson& json, const char* key, const Tensor& value) {
  if (value.defined()) json[key] = write_tensor(value);
}
void read_optional(const Node& node, const char* key, Attr& out) {
  if (const auto found = node.find(key)) out = read_attr(*found);
}
void write_optional(OrderedJson& json, const char* key, const Attr& value) {
  if (!value.is_null()) json[key] = write_attr(value);
}

// Graphs ----------------------------------------------------------------------------------------------------
SnapPattern read_snap(const Node& node) {
  node.allow({"n", "num_neighbour", "neighbours", "valid", "conservative", "reason"});
  SnapPattern out;
  out.n = node.at("n").count();
  out.num_neighbour = node.at("num_neighbour").count();
  out.neighbours = read_list(node.at("neighbours"), [](const Node& n) { return n.dims(); });
  out.valid = read_list(node.at("valid"), [](const Node& n) {
    return read_list(n, [](const Node& b) { return b.boolean(); });
  });
  out.conservative = node.at("conservative").boolean();
  out.reason = node.at("reason").text();
  return out;
}

OrderedJson write_snap(const SnapPattern& s) {
  OrderedJson out;
  out["n"] = s.n;
  out["num_neighbour"] = s.num_neighbour;
  out["neighbours"] = s.neighbours;
  out["valid"] = s.valid;
  out["conservative"] = s.conservative;
  out["reason"] = s.reason;
  return out;
}

ExpectedGroup read_group(const Node& node) {
  node.allow({"index", "hidden_paths", "varshape", "num_state", "snap"});
  ExpectedGroup out;
  out.index = node.at("index").count();
  out.hidden_paths = read_paths(node.at("hidden_paths"));
  out.varshape = node.at("varshape").dims();
  out.num_state = node.at("num_state").count();
  read_optional(node, "snap", out.snap, read_snap);
  return out;
}

OrderedJson write_group(const ExpectedGroup& g) {
  OrderedJson out;
  out["index"] = g.index;
  out["hidden_paths"] = write_paths(g.hidden_paths);
  out["varshape"] = g.varshape;
  out["num_state"] = g.num_state;
  write_optional(out, "snap", g.snap, write_snap);
  return out;
}

ExpectedTrainable read_trainable(const Node& node) {
  node.allow({"path", "leaf"});
  return {read_path(node.at("path")), node.at("leaf").count()};
}

OrderedJson write_trainable(const ExpectedTrainable& t) {
  OrderedJson out;
  out["path"] = write_path(t.path);
  out["leaf"] = t.leaf;
  return out;
}

ExpectedRelation read_relation(const Node& node) {
  node.allow({"primitive", "weight_path", "trainable", "hidden_paths", "groups", "path_classification",
              "processing_chains", "x_shape", "y_shape"});
  ExpectedRelation out;
  out.primitive = node.at("primitive").text();
  out.weight_path = read_path(node.at("weight_path"));
  out.trainable = read_named(node.at("trainable"), read_trainable);
  out.hidden_paths = read_paths(node.at("hidden_paths"));
  out.groups = node.at("groups").dims();
  out.path_classification = read_named(node.at("path_classification"), read_text);
  out.processing_chains =
      read_named(node.at("processing_chains"), [](const Node& n) { return read_list(n, read_text); });
  read_optional(node, "x_shape", out.x_shape, [](const Node& n) { return n.dims(); });
  out.y_shape = node.at("y_shape").dims();
  return out;
}

OrderedJson write_relation(const ExpectedRelation& r) {
  OrderedJson out;
  out["primitive"] = r.primitive;
  out["weight_path"] = write_path(r.weight_path);
  out["trainable"] = write_named(r.trainable, write_trainable);
  out["hidden_paths"] = write_paths(r.hidden_paths);
  out["groups"] = r.groups;
  out["path_classification"] = write_named(r.path_classification, [](const std::string& s) { return s; });
  out["processing_chains"] =
      write_named(r.processing_chains, [](const auto& chain) { return OrderedJson(chain); });
  out["x_shape"] = r.x_shape ? OrderedJson(*r.x_shape) : OrderedJson(nullptr);
  out["y_shape"] = r.y_shape;
  return out;
}

ExpectedDiagnostic read_diagnostic(const Node& node) {
  node.allow({"kind", "level", "weight_path", "hidden_paths"});
  ExpectedDiagnostic out;
  out.kind = node.at("kind").text();
  out.level = node.at("level").text();
  read_optional(node, "weight_path", out.weight_path, read_path);
  out.hidden_paths = read_paths(node.at("hidden_paths"));
  return out;
}

OrderedJson write_diagnostic(const ExpectedDiagnostic& d) {
  OrderedJson out;
  out["kind"] = d.kind;
  out["level"] = d.level;
  out["weight_path"] = d.weight_path ? write_path(*d.weight_path) : OrderedJson(nullptr);
  out["hidden_paths"] = write_paths(d.hidden_paths);
  return out;
}

ExpectedGraph read_graph(const Node& node) {
  node.allow({"groups", "relations", "diagnostics"});
  ExpectedGraph out;
  read_optional(node, "groups", out.groups, [](const Node& n) { return read_list(n, read_group); });
  read_optional(node, "relations", out.relations, [](const Node& n) { return read_list(n, read_relation); });
  read_optional(node, "diagnostics", out.diagnostics,
                [](const Node& n) { return read_list(n, read_diagnostic); });
  if (out.groups && out.relations)
    for (std::size_t i = 0; i < out.relations->size(); ++i)
      for (const std::int64_t g : (*out.relations)[i].groups)
        if (g < 0 || static_cast<std::size_t>(g) >= out.groups->size())
          node.at("relations")
              .fail("relation " + std::to_string(i) + " names group " + std::to_string(g) + " of " +
                    std::to_string(out.groups->size()));
  return out;
}

OrderedJson write_graph(const ExpectedGraph& g) {
  OrderedJson out = OrderedJson::object();
  write_optional(out, "groups", g.groups, [](const auto& list) { return write_list(list, write_group); });
  write_optional(out, "relations", g.relations,
                 [](const auto& list) { return write_list(list, write_relation); });
  write_optional(out, "diagnostics", g.diagnostics,
                 [](const auto& list) { return write_list(list, write_diagnostic); });
  return out;
}

// Runs ------------------------------------------------------------------------------------------------------
ReferenceError read_reference_error(const Node& node) {
  node.allow({"type", "message"});
  return {node.at("type").text(), node.at("message").text()};
}

OrderedJson write_reference_error(const ReferenceError& e) {
  OrderedJson out;
  out["type"] = e.type;
  out["message"] = e.message;
  return out;
}

TraceValue read_trace(const Node& node) {
  if (node.is_object() && node.json().contains("data")) return read_tensor(node);
  return read_named_tensors(node);
}

OrderedJson write_trace(const TraceValue& t) {
  if (const Tensor* tensor = std::get_if<Tensor>(&t)) return write_tensor(*tensor);
  return write_named_tensors(std::get<Named<Tensor>>(t));
}

ExpectedRun read_run(const Node& node) {
  node.allow({"id",       "algorithm", "options", "graph",           "vjp_method", "window", "loss",
              "args",     "targets",   "outputs", "losses",          "hidden",     "grads",  "traces",
              "feedback", "equals",    "compat",  "reference_error", "rtol",       "atol"});
  ExpectedRun out;
  out.id = node.at("id").text();
  out.algorithm = node.at("algorithm").text();
  read_optional(node, "options", out.options);
  if (!out.options.is_null() && out.options.dict_items() == nullptr)
    node.at("options").fail("expected an object");
  read_optional(node, "graph", out.graph);
  read_optional(node, "vjp_method", out.vjp_method);
  read_optional(node, "window", out.window, [](const Node& n) { return n.count(); });
  read_optional(node, "loss", out.loss);
  read_optional(node, "args", out.args, read_tensors);
  read_optional(node, "targets", out.targets);
  read_optional(node, "outputs", out.outputs);
  read_optional(node, "losses", out.losses);
  read_optional(node, "hidden", out.hidden, read_named_tensors);
  read_optional(node, "grads", out.grads, [](const Node& n) { return read_named(n, read_tensors); });
  read_optional(node, "traces", out.traces, [](const Node& n) { return read_named(n, read_trace); });
  read_optional(node, "feedback", out.feedback);
  read_optional(node, "equals", out.equals);
  read_optional(node, "compat", out.compat, [](const Node& n) { return n.boolean(); });
  read_optional(node, "reference_error", out.reference_error, read_reference_error);
  read_optional(node, "rtol", out.rtol, [](const Node& n) { return n.number(); });
  read_optional(node, "atol", out.atol, [](const Node& n) { return n.number(); });
  return out;
}

OrderedJson write_run(const ExpectedRun& r) {
  auto as_is = [](const auto& value) { return value; };
  OrderedJson out;
  out["id"] = r.id;
  out["algorithm"] = r.algorithm;
  write_optional(out, "options", r.options);
  write_optional(out, "graph", r.graph);
  write_optional(out, "vjp_method", r.vjp_method);
  write_optional(out, "window", r.window, as_is);
  write_optional(out, "loss", r.loss);
  write_optional(out, "args", r.args, write_tensors);
  write_optional(out, "targets", r.targets);
  write_optional(out, "outputs", r.outputs);
  write_optional(out, "losses", r.losses);
  write_optional(out, "hidden", r.hidden, write_named_tensors);
  write_optional(out, "grads", r.grads, [](const auto& named) { return write_named(named, write_tensors); });
  write_optional(out, "traces", r.traces, [](const auto& named) { return write_named(named, write_trace); });
  write_optional(out, "feedback", r.feedback);
  write_optional(out, "equals", r.equals);
  write_optional(out, "compat", r.compat, as_is);
  write_optional(out, "reference_error", r.reference_error, write_reference_error);
  write_optional(out, "rtol", r.rtol, as_is);
  write_optional(out, "atol", r.atol, as_is);
  return out;
}

}  // namespace

StatePath read_path(const Node& node) {
  return read_list(node, [](const Node& n) -> PathPart {
    if (n.json().is_number_integer()) return n.integer();
    return n.text();
  });
}

OrderedJson write_path(const StatePath& path) {
  return write_list(path, [](const PathPart& part) {
    return std::visit([](const auto& value) { return OrderedJson(value); }, part);
  });
}

Expected read_expected(const Node& node) {
  node.allow({"graphs", "jacobians", "runs"});
  Expected out;
  read_optional(node, "graphs", out.graphs, [](const Node& n) { return read_named(n, read_graph); });
  read_optional(node, "jacobians", out.jacobians, read_named_tensors);
  read_optional(node, "runs", out.runs, [](const Node& n) { return read_list(n, read_run); });
  return out;
}

OrderedJson write_expected(const Expected& e) {
  OrderedJson out = OrderedJson::object();
  write_optional(out, "graphs", e.graphs, [](const auto& named) { return write_named(named, write_graph); });
  write_optional(out, "jacobians", e.jacobians, write_named_tensors);
  write_optional(out, "runs", e.runs, [](const auto& list) { return write_list(list, write_run); });
  return out;
}

}  // namespace etrace
