// Files: tensors by name, parameters, checkpoints, models.
#include "convert.h"
#include "gil.h"
#include "learner.h"

namespace etrace::python {

namespace {

std::string path_text(nb::handle path) {
  const nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  if (nb::isinstance<nb::bytes>(text)) return nb::cast<nb::bytes>(text).c_str();
  return nb::cast<std::string>(text);
}

using Texts = std::vector<std::pair<std::string, std::string>>;

Texts texts_of(nb::handle given) {
  Texts out;
  if (given.is_none()) return out;
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    if (!nb::isinstance<nb::str>(key) || !nb::isinstance<nb::str>(value))
      throw TypeError("save", "notes and metadata are texts by name; " + describe(value) +
                                  " was given: turn it into a text, for example with json.dumps");
    out.emplace_back(nb::cast<std::string>(key), nb::cast<std::string>(value));
  }
  return out;
}
nb::dict to_dict(const Texts& texts) {
  nb::dict out;
  for (const auto& [key, value] : texts) out[key.c_str()] = value;
  return out;
}

TensorFile file_of(nb::handle tensors, nb::handle metadata) {
  TensorFile out;
  for (const auto& [key, value] : nb::borrow<nb::dict>(tensors))
    out.tensors.emplace_back(nb::cast<std::string>(key), to_array(value).tensor());
  out.metadata = texts_of(metadata);
  return out;
}
nb::tuple to_tuple(const TensorFile& f) {
  nb::dict tensors;
  for (const auto& [name, t] : f.tensors) tensors[name.c_str()] = Array(t);
  return nb::make_tuple(tensors, to_dict(f.metadata));
}

// Work on files without the GIL.
template <class F>
auto freely(F&& f) {
  const Released free;
  return f();
}

}  // namespace

void bind_files(nb::module_& m) {
  m.def(
      "save_safetensors",
      [](nb::handle path, nb::handle tensors, nb::handle metadata) {
        const std::string to = path_text(path);
        const TensorFile f = file_of(tensors, metadata);
        freely([&] { save_safetensors(to, f); });
      },
      "path"_a, "tensors"_a, "metadata"_a = nb::none(),
      "Arrays by name as a safetensors file; the old one is replaced as a whole.");
  m.def(
      "load_safetensors",
      [](nb::handle path) {
        const std::string from = path_text(path);
        return to_tuple(freely([&] { return load_safetensors(from); }));
      },
      "path"_a, "(arrays by name, metadata)");
  m.def(
      "save_npz",
      [](nb::handle path, nb::handle tensors) {
        const std::string to = path_text(path);
        const TensorFile f = file_of(tensors, nb::none());
        freely([&] { save_npz(to, f); });
      },
      "path"_a, "tensors"_a);
  m.def(
      "load_npz",
      [](nb::handle path) {
        const std::string from = path_text(path);
        return nb::object(to_tuple(freely([&] { return load_npz(from); }))[0]);
      },
      "path"_a);
  m.def(
      "_save_parameters",
      [](const Module& module, nb::handle path) { save_parameters(module, path_text(path)); }, "module"_a,
      "path"_a);
  m.def(
      "_load_parameters", [](Module& module, nb::handle path) { load_parameters(module, path_text(path)); },
      "module"_a, "path"_a);
  m.def(
      "_read_model", [](nb::handle path) { return read_model_file(path_text(path)); }, "path"_a,
      "A model file: one traced step.");
  m.def(
      "_write_model", [](const Model& model, nb::handle path) { write_model_file(model, path_text(path)); },
      "model"_a, "path"_a);
}

void bind_learner_files(nb::class_<LearnerObject>& c) {
  using Optimizer = std::shared_ptr<optim::Optimizer>;
  c.def(
       "save",
       [](LearnerObject& l, nb::handle path, Optimizer o, nb::handle notes) {
         const std::string to = path_text(path);
         const Texts texts = texts_of(notes);
         LongCall call(l);
         call.run([&] { l.core->learner.save(to, o.get(), texts); });
       },
       "path"_a, "optimizer"_a = nb::none(), "notes"_a = nb::none(),
       "A checkpoint: parameters, states, traces, counters, the optimiser's state, and texts of your own.")
      .def(
          "load",
          [](LearnerObject& l, nb::handle path, Optimizer o) {
            const std::string from = path_text(path);
            LongCall call(l);
            return to_dict(call.run([&] { return l.core->learner.load(from, o.get()); }));
          },
          "path"_a, "optimizer"_a = nb::none(),
          "Goes on from a checkpoint; everything is checked first, and nothing is changed if it does not "
          "fit.")
      .def(
          "checkpoint",
          [](LearnerObject& l, Optimizer o, nb::handle notes) {
            const Texts texts = texts_of(notes);
            LongCall call(l);
            return to_tuple(call.run([&] { return l.core->learner.checkpoint(o.get(), texts); }));
          },
          "optimizer"_a = nb::none(), "notes"_a = nb::none(), "The same in memory: (arrays by name, texts).")
      .def(
          "restore",
          [](LearnerObject& l, nb::handle checkpoint, Optimizer o) {
            const TensorFile f = file_of(checkpoint[0], checkpoint[1]);
            LongCall call(l);
            return to_dict(call.run([&] { return l.core->learner.restore(f, o.get()); }));
          },
          "checkpoint"_a, "optimizer"_a = nb::none(),
          "Goes on from what checkpoint() has given, and returns its texts.");
}

}  // namespace etrace::python
