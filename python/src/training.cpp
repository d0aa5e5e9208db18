// Runs: et.train and what belongs to it. Python gives options as texts, as the command line has them, and
// objects in the place of names; everything else is the library's (etrace/train.h).
#include <chrono>

#include "convert.h"
#include "etrace/host.h"
#include "etrace/train.h"
#include "fields.h"
#include "gil.h"
#include "io/json.h"
#include "options.h"
#include "recording.h"
#include "train/compare_page.h"

namespace etrace::python {

void show_warnings();  // host.cpp

namespace {

// A run that is told to stop ends with its batch, so that its checkpoint stands there; a batch that takes
// longer than this is given up.
constexpr std::chrono::milliseconds kPatience{100};

// Calls a Python function. Ctrl-C inside of it ends the run as between two programs, and no earlier; `again`:
// the function is then called once more, for its result.
template <class F>
nb::object called(Call* call, bool again, const F& f) {
  try {
    return f();
  } catch (nb::python_error& e) {
    const bool kept = call != nullptr && call->on_signal && e.matches(PyExc_KeyboardInterrupt) &&
                      call->on_signal(std::current_exception());
    if (!kept) throw;
    call->signalled = true;
  }
  return again ? f() : nb::none();
}

// --- tasks written in Python
// -----------------------------------------------------------------------------------------------

// Batches come from a function (number, samples) -> (inputs, targets, mask). It is called on the thread of
// the run, with the GIL.
class PythonTask final : public Task {
 public:
  PythonTask(Spec spec, nb::handle batch)
      : Task(std::move(spec)), batch_(batch, KeptFunction::Hold::Strong) {}

 private:
  TaskBatch draw(const Draw& d) const override {
    const Taken gil;
    const std::uint64_t number = first_batch(d.part) + d.index;
    const nb::object given =
        called(Call::current(), true, [&] { return batch_.get(spec().name.c_str())(number, d.size); });
    TaskBatch out;
    nb::list parts;
    try {
      parts = nb::list(nb::borrow(given));
    } catch (nb::python_error&) {
      wrong(describe(given));
    }
    if (nb::len(parts) < 2 || nb::len(parts) > 3) wrong(std::to_string(nb::len(parts)) + " values");
    out.inputs = floats(parts[0]);
    const Array targets = to_owned(parts[1]);
    const bool labels = spec().loss == "cross_entropy" && !is_floating(targets.dtype());
    out.targets = labels ? convert(targets, Dtype::I32) : floats(parts[1]);
    out.mask = nb::len(parts) == 3 ? floats(parts[2]) : ones({spec().steps}, spec().dtype);
    return out;
  }
  [[noreturn]] void wrong(const std::string& what) const {
    throw TypeError("tasks", "batch() of the task " + spec().name + " gave " + what +
                                 "; expected (inputs, targets) or (inputs, targets, mask)");
  }
  Array floats(nb::handle h) const { return convert(to_owned(h), spec().dtype); }

  KeptFunction batch_;
};

std::shared_ptr<const Task> python_task(const nb::dict& spec, nb::handle batch) {
  Task::Spec s;
  s.name = text("name", spec["name"]);
  s.num_inputs = integer("num_inputs", spec["num_inputs"]);
  s.num_outputs = integer("num_outputs", spec["num_outputs"]);
  s.steps = integer("steps", spec["steps"]);
  const std::string loss = text("loss", spec["loss"]);
  if (loss != "cross_entropy" && loss != "mse")
    throw ValueError(
        "tasks", "the loss of the task " + s.name + " is '" + loss + "'; expected 'cross_entropy' or 'mse'");
  s.loss = loss == "mse" ? "mse" : "cross_entropy";  // texts that live on
  s.dtype = from_object<Dtype>(spec["dtype"]);
  if (s.num_inputs < 1 || s.num_outputs < 1 || s.steps < 1)
    throw ValueError("tasks", "the task " + s.name + " has " + std::to_string(s.num_inputs) + " inputs, " +
                                  std::to_string(s.num_outputs) + " outputs and " + std::to_string(s.steps) +
                                  " steps; each must be at least 1");
  return std::make_shared<PythonTask>(std::move(s), batch);
}

// --- what a run is given
// ---------------------------------------------------------------------------------------------------

train::ConfigItems items_of(const nb::list& given) {
  train::ConfigItems out;
  for (nb::handle pair : given) out.emplace_back(text("option", pair[0]), text("option", pair[1]));
  return out;
}

train::SeriesArrays series_of(nb::handle given) {
  train::SeriesArrays out;
  if (given.is_none()) return out;
  out.xs = to_array(given[0]);
  if (!given[1].is_none()) out.ys = to_array(given[1]);
  if (!given[2].is_none()) out.lengths = to_array(given[2]);
  if (nb::len(given) > 3) out.channels = nb::cast<std::vector<std::string>>(given[3]);
  return out;
}

// "module", "arrays" (train, valid, test, classes, channels) and "task" (spec, function) of a dictionary.
void take_objects(train::TrainSettings& s, const nb::dict& objects) {
  if (objects.contains("module")) s.module = nb::cast<std::shared_ptr<Module>>(objects["module"]);
  if (objects.contains("arrays")) {
    const nb::object a = objects["arrays"];
    auto arrays = std::make_shared<train::TrainArrays>();
    arrays->train = series_of(a[0]);
    arrays->valid = series_of(a[1]);
    arrays->test = series_of(a[2]);
    arrays->classes = nb::cast<std::vector<std::string>>(a[3]);
    arrays->train.channels = nb::cast<std::vector<std::string>>(a[4]);
    s.arrays = std::move(arrays);
  }
  if (objects.contains("task")) {
    s.own_task = python_task(nb::cast<nb::dict>(objects["task"][0]), objects["task"][1]);
    s.prefetch = false;  // its function belongs to this thread
  }
}

// --- what it tells
// ---------------------------------------------------------------------------------------------------------

nb::dict to_dict(const train::Score& s) {
  nb::dict out;
  out["loss"] = s.loss;
  out["accuracy"] = nb::cast(s.accuracy);
  return out;
}

nb::dict to_dict(const std::vector<train::RunHistory::Point>& points) {
  nb::list batches, updates, loss, accuracy;
  for (const auto& p : points) {
    batches.append(p.batches);
    updates.append(p.updates);
    loss.append(p.score.loss);
    if (p.score.accuracy) accuracy.append(*p.score.accuracy);
  }
  nb::dict out;
  out["batches"] = batches;
  out["updates"] = updates;
  out["loss"] = loss;
  if (nb::len(accuracy) > 0) out["accuracy"] = accuracy;
  return out;
}

nb::dict to_dict(const train::RunResult& r) {
  nb::dict out;
  out["reason"] = nb::cast(std::string(name(r.reason)));
  out["score"] = to_dict(r.score);
  if (r.judgement) {
    out["outcome"] = nb::cast(std::string(name(r.judgement->outcome)));
    out["guess"] = to_dict(r.judgement->guess);
    out["goal"] = r.judgement->goal;
    out["text"] = r.judgement->text();
  }
  out["reached"] = r.reached;
  out["files_lost"] = r.files_lost;
  out["folder"] = r.folder.empty() ? nb::none() : nb::cast(r.folder);
  out["batches"] = r.batches;
  out["updates"] = r.updates;
  out["history"] = to_dict(r.history.batches);
  out["checks"] = to_dict(r.history.checks);
  return out;
}

// Tells Python's functions, and asks for signals between batches.
class PythonView final : public train::RunView {
 public:
  PythonView(Call& call, nb::handle told) : call_(call), told_(told) {
    call.on_signal = [this](std::exception_ptr e) { return keep(std::move(e)); };
  }
  ~PythonView() override { call_.on_signal = {}; }

  void say(const std::string& text) override { tell("say", text); }
  void result(const std::string& text) override { tell("say", text); }
  void warn(const std::string& text) override { tell("warn", text); }
  void start(std::int64_t updates, std::int64_t total) override { tell("start", updates, total); }
  void progress(std::int64_t updates, const train::Score& s) override {
    tell("progress", updates, s.loss, s.accuracy);
  }
  void check(std::int64_t updates, const train::Score& s) override {
    tell("check", updates, s.loss, s.accuracy);
  }
  bool stop_requested() override {
    if (stopped_ == nullptr && !asked_) {
      const Taken gil;
      check_interrupt();
    }
    return stopped_ != nullptr || asked_;
  }
  void rethrow() const {
    if (stopped_) std::rethrow_exception(stopped_);
  }

 private:
  template <class... Args>
  void tell(const char* what, const Args&... args) {
    const Taken gil;
    const nb::object answer = called(&call_, false, [&] { return nb::object(told_.attr(what)(args...)); });
    if (!answer.is_none() && nb::cast<bool>(answer)) asked_ = true;
  }
  // True: the run may go on to the end of its batch.
  bool keep(std::exception_ptr e) {
    using Clock = std::chrono::steady_clock;
    if (!stopped_) {
      stopped_ = std::move(e);
      since_ = Clock::now();
      return true;
    }
    return e == nullptr && Clock::now() - since_ < kPatience;
  }

  Call& call_;
  nb::handle told_;
  std::exception_ptr stopped_;
  std::chrono::steady_clock::time_point since_;
  bool asked_ = false;  // by an answer of a function
};

template <class F>
nb::dict told_run(const nb::dict& objects, nb::handle told, F&& run) {
  Call call;
  if (objects.contains("module")) {
    call.root = nb::cast<std::shared_ptr<Module>>(objects["module"]).get();
    call.update = objects["update"].is_none() ? nb::handle() : nb::handle(objects["update"]);
  }
  PythonView view(call, told);
  train::RunResult result;
  {
    const Released free;
    result = run(view);
  }
  show_warnings();
  view.rethrow();
  return to_dict(result);
}

nb::dict trained(const nb::list& items, const nb::dict& objects, nb::handle told) {
  train::RunConfig c = train::run_config(items_of(items));
  take_objects(c.settings, objects);
  return told_run(objects, told, [&](train::RunView& view) { return train::run(c.settings, c.plan, &view); });
}

nb::dict resumed(const std::string& folder, const nb::list& changes, const nb::dict& objects,
                 nb::handle told) {
  train::TrainSettings own;
  take_objects(own, objects);
  const train::ConfigItems items = items_of(changes);
  return told_run(objects, told,
                  [&](train::RunView& view) { return train::resume(folder, items, &view, own); });
}

nb::dict evaluated(const std::string& folder, const std::string& part, std::int64_t batches,
                   const std::string& backend, const nb::dict& objects) {
  train::EvaluateOptions o;
  o.batches = batches;
  if (part == "check")
    o.part = Part::Check;
  else if (part != "final")
    throw ValueError("eval", "part is '" + part + "'; it must be 'final' or 'check'");
  if (!backend.empty()) o.backend = backend;
  take_objects(o.own, objects);
  Call call;
  train::Score score;
  {
    const Released free;
    score = train::evaluate(folder, o);
  }
  show_warnings();
  return to_dict(score);
}

nb::tuple to_tuple(const train::Predictions& p) {
  nb::list answers, probabilities, labels, names;
  for (const auto& row : p.rows) {
    answers.append(row.answer);
    probabilities.append(row.probability);
    labels.append(row.label);
    names.append(row.name);
  }
  return nb::make_tuple(nb::cast(p.classes), answers, probabilities, labels, names);
}

nb::tuple predicted(const std::string& folder, nb::handle data, const std::string& backend, bool labelled) {
  const std::string on = backend.empty() ? default_backend() : backend;
  Call call;
  train::Predictions out;
  if (nb::isinstance<nb::str>(data)) {
    const auto file = nb::cast<std::string>(data);
    const Released free;
    out = train::predict(folder, file, on, labelled);
  } else {
    const train::SeriesArrays arrays = series_of(data);
    const Released free;
    out = train::predict(folder, arrays, on);
  }
  for (const std::string& note : out.notes) warn(note);
  show_warnings();
  return to_tuple(out);
}

// compare.json and the page of a comparison, from the run.json of each run; its table as text and JSON.
nb::tuple compared(const std::string& folder, const std::string& task, const std::string& model,
                   const nb::list& groups) {
  std::vector<train::RunGroup> rows;
  for (nb::handle group : groups) {
    std::vector<train::RunOutcome> runs;
    for (nb::handle text : nb::iter(group[1]))
      runs.push_back({parse_json(nb::cast<std::string>(text)), {}, false});
    rows.push_back(train::group_of(nb::cast<std::string>(group[0]), runs));
  }
  train::write_comparison(folder, {.task = task, .model = model, .command = {"et.compare_training"}}, rows);
  OrderedJson json = OrderedJson::array();
  for (const train::RunGroup& row : rows) json.push_back(train::to_json(row));
  return nb::make_tuple(train::groups_text(rows, "rule"), json_text(json));
}

}  // namespace

void bind_training(nb::module_& m) {
  m.def("_train", trained, "items"_a, "objects"_a, "told"_a);
  m.def("_resume", resumed, "folder"_a, "changes"_a, "objects"_a, "told"_a);
  m.def("_evaluate_run", evaluated, "folder"_a, "part"_a, "batches"_a, "backend"_a, "objects"_a);
  m.def("_predict_run", predicted, "folder"_a, "data"_a, "backend"_a, "labelled"_a);
  m.def("_write_comparison", compared, "folder"_a, "task"_a, "model"_a, "groups"_a);
  m.def("_run_options", &train::run_options);
  m.def(
      "_list_runs",
      [](const std::string& folder) {
        std::vector<std::string> problems;
        nb::list out;
        for (const train::ListedRun& run : train::list_runs(folder, &problems))
          out.append(nb::make_tuple(run.folder, run.json));
        return nb::make_tuple(out, problems);
      },
      "folder"_a);
}

}  // namespace etrace::python
