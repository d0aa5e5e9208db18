// et.tasks: seeded streams of batches.
#include "base/nearest.h"
#include "convert.h"
#include "fields.h"

namespace etrace::python {

namespace {

std::shared_ptr<Task> made(const std::string& name, const nb::dict& given, const Given<Dtype>& dtype,
                           nb::handle seed) {
  TaskOptions o;
  o.dtype = dtype.get_or(Dtype::F32);
  o.seed = Reader<std::uint64_t>::read({name, "seed"}, seed);
  for (const auto& [key, value] : given) {
    const auto setting = nb::cast<std::string>(key);
    if (nb::isinstance<nb::str>(value))
      o.texts.emplace_back(setting, nb::cast<std::string>(value));
    else
      o.settings.emplace_back(setting, Reader<double>::read({name, setting}, value));
  }
  return make_task(name, o);
}

nb::list rows() {
  nb::list out;
  for (const TaskEntry* entry : tasks()) {
    const TaskEntry& t = *entry;
    nb::list settings;
    for (const TaskSetting& s : t.settings)
      settings.append(
          nb::make_tuple(std::string(s.name), s.value, s.low, s.high, s.whole, std::string(s.doc)));
    out.append(nb::make_tuple(std::string(t.name), std::string(t.doc), settings));
  }
  return out;
}

}  // namespace

void bind_tasks(nb::module_& core) {
  nb::class_<TaskBatch>(
      core, "TaskBatch",
      "inputs [steps, batch, num_inputs]; targets: labels i32 [steps, batch], or numbers [steps, batch,\n"
      "num_outputs]; mask [steps], 1 where a step is scored. `inputs, targets, mask = batch`.")
      .def_ro("inputs", &TaskBatch::inputs, "[steps, batch, num_inputs].")
      .def_ro("targets", &TaskBatch::targets,
              "Labels [steps, batch], or numbers [steps, batch, num_outputs].")
      .def_ro("mask", &TaskBatch::mask, "[steps], 1 where a step is scored.")
      .def("__iter__",
           [](const TaskBatch& b) { return nb::iter(nb::make_tuple(b.inputs, b.targets, b.mask)); });
  nb::class_<Task>(core, "Task",
                   "A seeded stream of batches: batch i is a function of the options, i and the batch size.",
                   nb::dynamic_attr())
      .def_prop_ro(
          "name", [](const Task& t) { return std::string(t.spec().name); }, "As in et.tasks.")
      .def_prop_ro(
          "num_inputs", [](const Task& t) { return t.spec().num_inputs; }, "Numbers per step and sample.")
      .def_prop_ro(
          "num_outputs", [](const Task& t) { return t.spec().num_outputs; },
          "What a model has to give per step and sample: classes, or numbers.")
      .def_prop_ro(
          "steps", [](const Task& t) { return t.spec().steps; }, "The length of a sequence.")
      .def_prop_ro(
          "loss", [](const Task& t) { return std::string(t.spec().loss); },
          "The name of its loss in et.loss.")
      .def_prop_ro(
          "seed", [](const Task& t) { return t.spec().seed; }, "From which the batches follow.")
      .def_prop_ro(
          "dtype", [](const Task& t) { return t.spec().dtype; }, "The type of the inputs.")
      .def(
          "batch",
          [](const Task& t, nb::handle index, nb::handle size) {
            return t.batch(Reader<std::uint64_t>::read({"batch", "index"}, index),
                           Reader<std::int64_t>::read({"batch", "batch_size"}, size));
          },
          "index"_a, "batch_size"_a, "The batch of this number: always the same one.")
      .def("__repr__", [](const Task& t) {
        return "Task(" + std::string(t.spec().name) + ", " + std::to_string(t.spec().steps) + " steps, " +
               std::to_string(t.spec().num_inputs) + " inputs, " + std::to_string(t.spec().num_outputs) +
               " outputs)";
      });
  core.def("_make_task", made, "name"_a, "settings"_a, "dtype"_a.none(), "seed"_a);
  core.def("_task_rows", rows);
  core.def(
      "_task_accuracy", [](ArrayLike outputs, const TaskBatch& batch) { return accuracy(outputs, batch); },
      "outputs"_a, "batch"_a);
}

}  // namespace etrace::python
