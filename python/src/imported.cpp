// Steps that came as programs: what a module whose update is such a program needs (etrace/_imported.py).
#include "convert.h"
#include "learner.h"

namespace etrace::python {

namespace {

// "leaf_key" as a name among the leaves of a state.
std::string key_text(const StatePath& key) { return to_string(key); }

nb::list path_parts(const StatePath& path) {
  nb::list out;
  for (const PathPart& part : path) out.append(nb::cast(part));
  return out;
}

nb::list inputs_of(const Model& model) {
  nb::list out;
  for (const InputRecord& in : model.inputs)
    out.append(nb::make_tuple(std::string(name(in.role)), in.index, path_parts(in.path),
                              key_text(in.leaf_key), in.type,
                              in.role == Role::Arg ? nb::none() : nb::cast(Array(in.init))));
  return out;
}

nb::list outputs_of(const Model& model) {
  nb::list out;
  for (const OutputRecord& o : model.outputs)
    out.append(nb::make_tuple(std::string(name(o.role)), o.index, path_parts(o.path), key_text(o.leaf_key)));
  return out;
}

std::string describe(const InputRecord& in) {
  if (in.role == Role::Arg) return "argument " + std::to_string(in.index);
  return std::string(in.role == Role::Param ? "parameter " : "state ") + to_string(in.path) +
         (in.leaf_key.empty() ? "" : "." + key_text(in.leaf_key));
}

// Numbers get the element type of the program, and floats of other libraries its width.
Array fitted(nb::handle given, const InputRecord& in, const Aval& type) {
  const Array a = is_floating(type.dtype) ? adapted(given, type.dtype) : to_array(given, {});
  if (a.is_weak() && type.shape.rank() == 0) return full(type.shape, *a.splat(), type.dtype);
  if (a.aval() == type) return a;
  // A learner brings all data to the type of its hidden states; a step may take some in another width.
  const bool width = in.role == Role::Arg && is_floating(a.dtype()) && is_floating(type.dtype);
  if (width && a.shape() == type.shape) return convert(a, type.dtype);
  throw ValueError(
      "imported model",
      describe(in) + " is " + to_string(a.aval()) + ", but the step was imported for " + to_string(type) +
          "; a program has fixed shapes: import it with an example (and batch_size) like this, or "
          "compile an unbatched one with vmap=True",
      OriginScope::current());
}

nb::list apply(const Model& model, nb::handle given) {
  const std::vector<Var>& invars = model.program.jaxpr.invars;
  Arrays x;
  for (nb::handle h : nb::iter(given)) {
    if (x.size() == invars.size()) throw ValueError("imported model", "too many values for the program");
    x.push_back(fitted(h, model.inputs[x.size()], invars[x.size()].aval));
  }
  if (x.size() != invars.size()) throw ValueError("imported model", "too few values for the program");
  const LineScope line(x);
  nb::list out;
  for (const Array& y : eval_jaxpr(model.program, x)) out.append(nb::cast(y));
  return out;
}

}  // namespace

void bind_imported(nb::module_& m) {
  m.def(
      "_read_model_text",
      [](const std::string& json, const std::string& name) { return read_model(json, name); }, "json"_a,
      "name"_a);
  m.def("_model_inputs", inputs_of, "model"_a,
        "(role, index, path, leaf key, type, initial value) of every input.");
  m.def("_model_outputs", outputs_of, "model"_a, "(role, index, path, leaf key) of every output.");
  m.def("_model_apply", apply, "model"_a, "values"_a, "The program, on a list of values.");
}

}  // namespace etrace::python
