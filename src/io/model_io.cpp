// The model file as a whole: head, program, records of inputs and outputs, expectations. Start with
// read_model.
#include "etrace/model_io.h"

#include <array>
#include <map>
#include <tuple>

#include "base/file.h"
#include "io/expected_json.h"
#include "io/json_node.h"
#include "io/program_json.h"

namespace etrace {

namespace {

constexpr const char* kFormat = "etrace.model";
constexpr std::int64_t kVersion = 1;
constexpr std::array<std::string_view, 5> kRoles{"arg", "param", "hidden", "other", "out"};

bool has_owner(Role role) { return role != Role::Arg && role != Role::Out; }

Role read_role(const Node& node, Role bare) {
  const std::string text = node.text();
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    const Role role = static_cast<Role>(i);
    if (text == kRoles[i] && (has_owner(role) || role == bare)) return role;
  }
  node.fail("there is no role '" + text + "' here; expected " + std::string(name(bare)) +
            ", param, hidden or other");
}

// `bare` is the role of what is no state: Arg among the inputs, Out among the outputs.
void read_record(const Node& node, Role bare, OutputRecord& out) {
  out.role = read_role(node.at("role"), bare);
  if (!has_owner(out.role)) {
    out.index = node.at("index").count();
    return;
  }
  out.path = read_path(node.at("path"));
  if (const auto leaf = node.find("leaf")) out.leaf = leaf->count();
  if (const auto key = node.find("leaf_key")) out.leaf_key = read_path(*key);
  if (const auto per_sample = node.find("per_sample")) out.per_sample = per_sample->boolean();
  if (const auto type = node.find("type")) out.type = type->text();
}

OutputRecord read_output(const Node& node) {
  node.allow({"role", "index", "path", "leaf", "leaf_key", "type", "per_sample"});
  OutputRecord out;
  read_record(node, Role::Out, out);
  return out;
}

InputRecord read_input(const Node& node) {
  node.allow({"role", "index", "path", "leaf", "leaf_key", "type", "per_sample", "init"});
  InputRecord out;
  read_record(node, Role::Arg, out);
  if (has_owner(out.role)) out.init = read_tensor(node.at("init"));
  return out;
}

OrderedJson write_output(const OutputRecord& r) {
  OrderedJson out;
  out["role"] = name(r.role);
  if (!has_owner(r.role)) {
    out["index"] = r.index;
    return out;
  }
  out["path"] = write_path(r.path);
  out["leaf"] = r.leaf;
  out["leaf_key"] = write_path(r.leaf_key);
  if (r.per_sample) out["per_sample"] = *r.per_sample;
  if (!r.type.empty()) out["type"] = r.type;
  return out;
}

OrderedJson write_input(const InputRecord& r) {
  OrderedJson out = write_output(r);
  if (has_owner(r.role)) out["init"] = write_tensor(r.init);
  return out;
}

void read_head(const Node& root) {
  const Node format = root.at("format"), version = root.at("version");
  if (format.text() != kFormat || version.integer() != kVersion)
    root.fail("this file is of format '" + format.text() + "' version " + std::to_string(version.integer()) +
              "; expected '" + kFormat + "' version " + std::to_string(kVersion));
}

// Consistency of records and program ------------------------------------------------------------------------
[[noreturn]] void fail(const std::string& place, const std::string& message) {
  throw CompilationError("model", place + ": " + message);
}

std::string at(const char* list, std::size_t i) { return std::string(list) + "[" + std::to_string(i) + "]"; }

std::string text_of(const OutputRecord& r) {
  return std::string(name(r.role)) + " " + (has_owner(r.role) ? to_string(r.path) : std::to_string(r.index)) +
         (r.leaf != 0 ? " leaf " + std::to_string(r.leaf) : "");
}

void require_count(const char* list, std::size_t found, const char* of, std::size_t expected) {
  if (found != expected)
    fail(list, "found " + std::to_string(found) + " records, expected one for each of the " +
                   std::to_string(expected) + " " + of);
}

void require_type(const std::string& place, const OutputRecord& r, const char* what, const Aval& found,
                  const Aval& expected) {
  if (!(found == expected))
    fail(place, std::string(what) + " of " + text_of(r) + " is " + to_string(found) + ", expected " +
                    to_string(expected));
}

void validate(const Model& model) {
  const Avals in = model.program.in_avals(), out = model.program.out_avals();
  require_count("inputs", model.inputs.size(), "invars", in.size());
  require_count("outputs", model.outputs.size(), "outvars", out.size());

  struct Entry {
    std::size_t input;
    bool has_output = false;
  };
  using Key = std::tuple<StatePath, std::int64_t>;
  std::map<Key, Entry> states;
  std::map<std::int64_t, std::size_t> bare;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const InputRecord& r = model.inputs[i];
    if (r.role == Role::Out) fail(at("inputs", i), "an input cannot have the role out");
    const bool is_new = has_owner(r.role) ? states.emplace(Key(r.path, r.leaf), Entry{i}).second
                                          : bare.emplace(r.index, i).second;
    if (!is_new) fail(at("inputs", i), text_of(r) + " is given twice");
    if (!has_owner(r.role)) continue;
    if (!r.init.defined())
      fail(at("inputs", i) + ".init", "the initial value of " + text_of(r) + " is missing");
    require_type(at("inputs", i) + ".init", r, "the initial value", r.init.aval(), in[i]);
  }
  bare.clear();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const OutputRecord& r = model.outputs[i];
    if (r.role == Role::Arg) fail(at("outputs", i), "an output cannot have the role arg");
    if (!has_owner(r.role)) {
      if (!bare.emplace(r.index, i).second) fail(at("outputs", i), text_of(r) + " is given twice");
      continue;
    }
    const auto it = states.find(Key(r.path, r.leaf));
    if (it == states.end() || model.inputs[it->second.input].role != r.role)
      fail(at("outputs", i), "there is no input for " + text_of(r) + "; a state is an input and an output");
    if (std::exchange(it->second.has_output, true)) fail(at("outputs", i), text_of(r) + " is given twice");
    require_type(at("outputs", i), r, "the new value", out[i], in[it->second.input]);
  }
  // Other states without an output keep their value; for a hidden one that would hide a mistake.
  for (std::size_t i = 0; i < in.size(); ++i) {
    const InputRecord& r = model.inputs[i];
    if (r.role == Role::Hidden && !states.at(Key(r.path, r.leaf)).has_output)
      fail(at("inputs", i), text_of(r) + " has no output for its new value");
  }
}

Model read(std::string_view text) {
  const Json json = parse_json(text);
  const Node root(json, "");
  read_head(root);
  root.allow(
      {"format", "version", "name", "source", "jaxpr", "inputs", "outputs", "equations", "note", "expected"});
  Model model;
  for (auto [key, field] : {std::pair{"name", &Model::name},
                            {"source", &Model::source},
                            {"equations", &Model::equations},
                            {"note", &Model::note}})
    if (const auto found = root.find(key)) model.*field = found->text();
  model.program = read_program(root.at("jaxpr"));
  check(model.program);
  model.inputs = read_list(root.at("inputs"), read_input);
  model.outputs = read_list(root.at("outputs"), read_output);
  validate(model);
  if (const auto found = root.find("expected"))
    model.expected = std::make_shared<const Expected>(read_expected(*found));
  return model;
}

}  // namespace

std::string_view name(Role role) { return kRoles[static_cast<std::size_t>(role)]; }

std::string to_string(const StatePath& path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i != 0) text += '/';
    if (const auto* s = std::get_if<std::string>(&path[i]))
      text += *s;
    else
      text += std::to_string(std::get<std::int64_t>(path[i]));
  }
  return text;
}

Model read_model(std::string_view json_text, const std::string& source_name) {
  try {
    return read(json_text);
  } catch (const CompilationError& e) {
    throw CompilationError("model", source_name + ": " + e.message(), e.origin());
  } catch (const NotSupportedError& e) {
    throw NotSupportedError("model", source_name + ": " + e.message(), e.origin());
  }
}

Model read_model_file(const std::string& path) { return read_model(read_file(path), path); }

std::string write_model(const Model& model) {
  check(model.program);
  validate(model);
  OrderedJson out;
  out["format"] = kFormat;
  out["version"] = kVersion;
  out["name"] = model.name;
  out["source"] = model.source;
  out["jaxpr"] = write_program(model.program);
  out["inputs"] = write_list(model.inputs, write_input);
  out["outputs"] = write_list(model.outputs, write_output);
  if (!model.equations.empty()) out["equations"] = model.equations;
  if (!model.note.empty()) out["note"] = model.note;
  if (model.expected) out["expected"] = write_expected(*model.expected);
  return exact_json_text(out, "model", "the model") + "\n";
}

void write_model_file(const Model& model, const std::string& path) { write_file(path, write_model(model)); }

}  // namespace etrace
