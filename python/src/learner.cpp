// Learners: compile, sequences, access. Single steps are in step.cpp.
#include "learner.h"
#include "gil.h"

#include "convert.h"
#include "options.h"
#include "paths.h"
#include "python_rule.h"
#include "rules.h"

namespace etrace::python {

namespace {
const void* this_thread() {
  thread_local const char mark = 0;
  return &mark;
}
[[noreturn]] void other_thread() {
  throw Error(
      "learner",
      "another thread is using this learner: one learner serves one thread at a time. Compile one for each");
}
}  // namespace

Use::Use(Core& core) : core_(core) {
  const void* nobody = nullptr;
  if (core.user.compare_exchange_strong(nobody, this_thread(), std::memory_order_acquire)) return;
  if (nobody != this_thread()) other_thread();
  throw NotSupportedError(
      "learner",
      "the learner is at work already, and was called by a function that it is recording; such a "
      "function may call learner(x), and nothing else that changes the learner");
}

void require_no_other_thread(const Core& core) {
  const void* const user = core.user.load(std::memory_order_acquire);
  if (user != nullptr && user != this_thread()) other_thread();
}

StepInput step_input(nb::handle h, Dtype working) {
  if (nb::isinstance<MultiStepData>(h)) return nb::cast<MultiStepData>(h);
  if (nb::isinstance<SingleStepData>(h)) return nb::cast<SingleStepData>(h);
  return adapted(h, working);
}
std::vector<StepInput> step_inputs(nb::handle list, Dtype working) {
  std::vector<StepInput> out;
  for (nb::handle h : nb::iter(list)) out.push_back(step_input(h, working));
  return out;
}

void follow_rule(LearnerObject& l) {
  if (!l.rule.is_valid()) return;
  const nb::object numbers = l.rule.attr("_own_numbers")();
  if (!l.rule_numbers.is_valid()) l.rule_numbers = numbers;
  if (!numbers.equal(l.rule_numbers)) l.rule.attr("_refuse_changes")(l.rule_numbers);
  NamedTensors now = own_arrays(l.rule);
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool known = i < l.rule_arrays.size() && l.rule_arrays[i].first == now[i].first;
    if (!known || l.rule_arrays[i].second != now[i].second)
      l.core->learner.set_rule_param(now[i].first, Array(now[i].second));
  }
  l.rule_arrays = std::move(now);
}

namespace {

// {group: value}; a value may say what its axes count.
std::vector<GroupModulator> group_modulators(nb::handle given, Dtype working) {
  std::vector<GroupModulator> out;
  for (const auto& [name, value] : nb::borrow<nb::dict>(given)) {
    const std::string group = path_text(name);
    if (nb::isinstance<ModulatorOver>(value)) {
      const auto& m = nb::cast<const ModulatorOver&>(value);
      out.push_back({group, m.value, m.over});
    } else {
      out.push_back({group, step_input(value, working)});
    }
  }
  return out;
}

struct PerSample : ModulatorOver {};
struct PerNeuron : ModulatorOver {};
template <class T, GroupModulator::Over kOver>
void make_over(T* self, nb::handle value) {
  const bool steps = nb::isinstance<MultiStepData>(value);
  new (self) T{{steps ? StepInput(nb::cast<MultiStepData>(value)) : StepInput(to_owned(value)), kOver}};
}

Learner& of(const LearnerObject& l) {
  require_no_other_thread(*l.core);
  return l.core->learner;
}

// --- making
// ------------------------------------------------------------------------------------------------------

Dtype working_type(const Learner& l) {
  return l.graph().hidden_groups.front().hidden_states.front().invar.aval.dtype;
}

void put(LearnerObject* self, std::shared_ptr<Core> core, nb::handle python_rule) {
  const Dtype working = working_type(core->learner);
  new (self) LearnerObject{.core = std::move(core), .working = working};
  if (python_rule.is_none()) return;
  self->rule = nb::borrow(python_rule);
  self->rule_arrays = own_arrays(self->rule);
  self->rule_numbers = self->rule.attr("_own_numbers")();
}

void compile_learner(LearnerObject* self, Module& module, nb::handle update, const Rule& rule,
                     Given<Arrays> example, const nb::dict& options, nb::handle python_rule) {
  const Arrays args = example.get();
  const LearnerOptions o = learner_options(options);
  Call call;
  call.root = &module;
  call.update = update.is_none() ? nb::handle() : update;
  if (!python_rule.is_none()) call.rules.push_back(python_rule);
  std::shared_ptr<Core> core;
  {
    const Released free;
    core = std::make_shared<Core>(compile(module, *rule.rule, ArraySpan(args), o));
  }
  show_warnings();
  put(self, std::move(core), python_rule);
}

void learner_of_model(LearnerObject* self, const Model& model, const Rule& rule, const nb::dict& options,
                      nb::handle python_rule) {
  const LearnerOptions o = learner_options(options);
  CompileOptions c;
  c.compat = o.compat;
  c.control_flow = o.control_flow;
  c.strict = o.strict;
  c.batch_size = o.batch_size;
  rule.rule->configure(c);
  Call call;
  if (!python_rule.is_none()) call.rules.push_back(python_rule);
  std::shared_ptr<Core> core;
  {
    const Released free;
    core = std::make_shared<Core>(Learner(compile_etrace_graph(model, c), *rule.rule, o));
  }
  put(self, std::move(core), python_rule);
}

// --- sequences
// ---------------------------------------------------------------------------------------------------

void read_sequence_options(SequenceOptions& o, Dtype working, Fields& fields) {
  fields.emplace_back("mask", [&o](nb::handle v) { o.mask = to_array(v); });
  fields.emplace_back("freeze", [&o](nb::handle v) { o.freeze = flag("freeze", v); });
  fields.emplace_back("chunk_size", [&o](nb::handle v) { o.chunk_size = integer("chunk_size", v); });
  fields.emplace_back("reduction", [&o](nb::handle v) { o.reduction = reduction(v); });
  fields.emplace_back("modulator", [&o, working](nb::handle v) {
    if (nb::isinstance<nb::dict>(v))
      o.modulators = group_modulators(v, working);
    else
      o.modulator = step_input(v, working);
  });
}

// Progress is told in steps from the beginning of the call.
void follow_progress(LongCall& call, LearnerObject& l, nb::handle progress) {
  if (progress.is_none()) return;
  call.call.progress = progress;
  Learner* const learner = &l.core->learner;
  call.call.done = [learner, begin = learner->age()] { return learner->age() - begin; };
}

Arrays data_of(const LearnerObject& l, nb::handle sequences) {
  Arrays out;
  for (nb::handle h : nb::iter(sequences)) out.push_back(adapted(h, l.working));
  return out;
}

nb::tuple grad(LearnerObject& l, nb::handle sequences, const PythonFunction& f, nb::handle function,
               const nb::dict& options, nb::handle progress) {
  const Arrays data = data_of(l, sequences);
  SequenceOptions o;
  Fields fields;
  if (nb::len(options) > 0) {
    read_sequence_options(o, l.working, fields);
    read_fields("etrace_grad", options, fields);
  }
  LongCall call(l);
  call.call.function = function;
  follow_progress(call, l, progress);
  SequenceGradient g = call.run([&] { return l.core->learner.etrace_grad(data, f.step, o); });
  nb::object aux = g.aux.empty() ? nb::object(nb::tuple()) : nb::object(to_list(g.aux));
  return nb::make_tuple(nb::cast(std::move(g.grads)), g.losses, g.loss, std::move(aux));
}

// The same n times without coming back to Python, for benchmarks.
void grad_again(LearnerObject& l, nb::handle sequences, const PythonFunction& f, nb::handle function,
                std::int64_t n) {
  const Arrays data = data_of(l, sequences);
  LongCall call(l);
  call.call.function = function;
  call.run([&] {
    SequenceGradient last;  // a loop holds what it got until it gets the next one
    for (std::int64_t i = 0; i < n; ++i) last = l.core->learner.etrace_grad(data, f.step, {});
  });
}

nb::tuple train(LearnerObject& l, nb::handle sequences, const PythonFunction& f, nb::handle function,
                std::shared_ptr<optim::Optimizer> optimizer, const nb::dict& options, nb::handle progress) {
  const Arrays data = data_of(l, sequences);
  TrainOptions o;
  Fields fields;
  read_sequence_options(o, l.working, fields);
  fields.emplace_back("update", [&o](nb::handle v) { o.update = update_every(v); });
  fields.emplace_back("window", [&o](nb::handle v) { o.window = integer("window", v); });
  read_fields("etrace_train", options, fields);
  LongCall call(l);
  call.call.function = function;
  follow_progress(call, l, progress);
  SequenceTraining t = call.run([&] { return l.core->learner.etrace_train(data, f.step, *optimizer, o); });
  return nb::make_tuple(t.losses, t.loss, to_list(t.aux), t.updates);
}

nb::list evolve(LearnerObject& l, nb::handle sequences, nb::handle mask, bool freeze, nb::handle progress) {
  const Arrays data = data_of(l, sequences);
  EvolveOptions o;
  if (!mask.is_none()) o.mask = to_array(mask);
  o.freeze = freeze;
  LongCall call(l);
  follow_progress(call, l, progress);
  return to_list(call.run([&] { return l.core->learner.etrace_evolve(data, o); }));
}

// While a step function is recorded, calling the learner is the model's step in it.
nb::list update(LearnerObject& l, nb::handle args) {
  const std::vector<StepInput> inputs = step_inputs(args, l.working);
  if (Call* const call = Call::current();
      call != nullptr && call->model != nullptr && call->learner == l.core.get())
    return to_list((*call->model)(inputs));
  LongCall call(l);
  return to_list(call.run([&] { return l.core->learner.update(inputs); }));
}

ParamValues solve(LearnerObject& l, nb::handle signals) {
  const Arrays data = data_of(l, signals);
  LongCall call(l);
  return call.run([&] { return l.core->learner.solve(data); });
}

std::vector<double> fit(LearnerObject& l, nb::handle sequences, const PythonFunction& f, nb::handle function,
                        const nb::dict& options, std::shared_ptr<optim::Optimizer> optimizer) {
  const Arrays data = data_of(l, sequences);
  SyntheticGradientOptions o;
  o.optimizer = optimizer.get();
  const Fields fields{{"chunk_size", [&](nb::handle v) { o.chunk_size = integer("chunk_size", v); }},
                      {"epochs", [&](nb::handle v) { o.epochs = integer("epochs", v); }},
                      {"learning_rate", [&](nb::handle v) { o.learning_rate = number("learning_rate", v); }},
                      {"reset", [&](nb::handle v) { o.reset = flag("reset", v); }}};
  read_fields("train_synthetic_gradient", options, fields);
  LongCall call(l);
  call.call.function = function;
  return call.run([&] { return train_synthetic_gradient(l.core->learner, data, f.step, o); });
}

// --- access
// ------------------------------------------------------------------------------------------------------

nb::list traces_of(const std::vector<EligibilityTrace>& traces) {
  nb::list out;
  for (const EligibilityTrace& t : traces) {
    nb::list params;
    for (const StatePath& p : t.params) params.append(to_string(p));
    out.append(nb::make_tuple(t.name, t.value, params));
  }
  return out;
}

void bind_sequences(nb::class_<LearnerObject>& c) {
  c.def("_grad", grad, "sequences"_a, "step"_a, "function"_a, "options"_a, "progress"_a.none())
      .def("_grad_again", grad_again, "sequences"_a, "step"_a, "function"_a, "n"_a)
      .def("_train", train, "sequences"_a, "step"_a, "function"_a, "optimizer"_a, "options"_a,
           "progress"_a.none())
      .def("_evolve", evolve, "sequences"_a, "mask"_a.none(), "freeze"_a, "progress"_a.none())
      .def("_update", update, "args"_a)
      .def("_fit", fit, "sequences"_a, "step"_a, "function"_a, "options"_a, "optimizer"_a.none())
      .def("solve", solve, "signals"_a,
           "Gradients for learning signals ∂L/∂h that come from elsewhere: one array [*varshape, S] per "
           "group. They are those of the traces: a parameter without one, such as a readout, is not among "
           "them, since the signals do not say what the loss is. Add them to a gradient of that loss; by "
           "themselves they leave such a parameter as it is.");
}

void bind_access(nb::class_<LearnerObject>& c) {
  c.def(
       "set_modulator",
       [](LearnerObject& l, nb::handle m) {
         if (nb::isinstance<nb::dict>(m)) {
           const std::vector<GroupModulator> all = group_modulators(m, l.working);
           const Use use(*l.core);
           return l.core->learner.set_modulator(all);
         }
         const Array a = to_owned(m);
         const Use use(*l.core);
         l.core->learner.set_modulator(a);
       },
       "modulator"_a,
       "The third factor where a call gives none, for rules that take one (ThreeFactor): a number, an array "
       "of "
       "the shape\nof the states, or {group: value} with one per group, of which et.PerSample(m) has [B] and "
       "et.PerNeuron(m)\nthe neurons without the batch. A group has the name of one of its states or of the "
       "module "
       "that holds it.")
      .def_prop_ro(
          "rule_param_names", [](const LearnerObject& l) { return of(l).rule_param_names(); },
          "Names of the rule's own parameters: fixed feedback, an estimator.")
      .def(
          "rule_param", [](const LearnerObject& l, const std::string& n) { return of(l).rule_param(n); },
          "name"_a, "A parameter of the rule's own: 'group0/feedback'.")
      .def(
          "set_rule_param",
          [](LearnerObject& l, const std::string& n, nb::handle v) {
            const Array a = to_owned(v);
            const Use use(*l.core);
            l.core->learner.set_rule_param(n, a);
          },
          "name"_a, "value"_a, "Sets a parameter of the rule's own.")
      .def(
          "reset_state",
          [](LearnerObject& l) {
            const Use use(*l.core);
            l.core->learner.reset_state();
          },
          "Traces and counters to zero; hidden states stay. reset_model_state() is the other half.")
      .def(
          "reset_model_state",
          [](LearnerObject& l) {
            const Use use(*l.core);
            l.core->learner.reset_model_state();
          },
          "Short-term states to their initial values; traces stay.")
      .def("_get_etrace_of",
           [](const LearnerObject& l, nb::handle p) { return traces_of(of(l).get_etrace_of(path_of(p))); })
      .def("_etraces", [](const LearnerObject& l) { return traces_of(of(l).etraces()); })
      .def(
          "sync",
          [](LearnerObject& l) {
            const Use use(*l.core);
            l.core->learner.sync();
          },
          "Model and optimiser get their newest values now, not when they are asked for them.")
      .def_prop_ro(
          "skipped", [](const LearnerObject& l) { return of(l).skipped(); },
          "Steps, windows and updates that would not have been finite and changed nothing.")
      .def_prop_ro(
          "running_index", [](const LearnerObject& l) { return of(l).running_index(); },
          "Calls so far: steps, or windows of a multi-step learner.")
      .def_prop_ro(
          "age", [](const LearnerObject& l) { return of(l).age(); }, "Steps that the traces have seen.")
      .def_prop_ro(
          "trace_bytes", [](const LearnerObject& l) { return of(l).trace_bytes(); }, "Memory of all traces.")
      .def_prop_ro(
          "fingerprint", [](const LearnerObject& l) { return of(l).fingerprint(); },
          "Of program, rule and traces: a checkpoint fits where it is the same.")
      .def_prop_ro(
          "execution", [](const LearnerObject& l) { return of(l).execution().to_string(); },
          "How sequences run, and why.")
      .def_prop_ro(
          "backend", [](const LearnerObject& l) { return of(l).options().backend; },
          "What runs the programs: 'auto', 'native' …")
      .def_prop_ro(
          "vjp_method", [](const LearnerObject& l) { return std::string(name(of(l).options().vjp_method)); },
          "'single-step' or 'multi-step'.")
      .def(
          "describe", [](const LearnerObject& l) { return of(l).describe(); },
          "The rule with its options, and the method: 'D_RTRL, single-step'.")
      .def_prop_rw(
          "params", [](const LearnerObject& l) { return of(l).params(); },
          [](LearnerObject& l, nb::handle given) {
            const ParamValues p = params_from(given, of(l).params());
            const Use use(*l.core);
            l.core->learner.set_params(p);
          },
          "All parameters that the step uses, by name.")
      .def_prop_ro(
          "state_names", [](const LearnerObject& l) { return of(l).state_names(); },
          "Paths of all states that are carried from step to step.")
      .def(
          "get_state", [](const LearnerObject& l, nb::handle p) { return of(l).state(path_text(p)); },
          "path"_a, "The newest value of a state, by its path.")
      .def(
          "set_state",
          [](LearnerObject& l, nb::handle p, nb::handle v) {
            const std::string name = path_text(p);
            const Dtype type = of(l).state(name).dtype();
            const Array a = is_array(v) ? to_owned(v) : to_owned(v, type);
            const Use use(*l.core);
            l.core->learner.set_state(name, a);
          },
          "path"_a, "value"_a, "Sets a state, by its path.");
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* l = nb::inst_ptr<LearnerObject>(self);
  for (const nb::object* each : {&l->loss, &l->evolved, &l->learned, &l->rule, &l->rule_numbers})
    Py_VISIT(each->ptr());
  return 0;
}
int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;  // its constructor has failed
  auto* l = nb::inst_ptr<LearnerObject>(self);
  for (nb::object* each : {&l->loss, &l->evolved, &l->learned, &l->rule, &l->rule_numbers}) each->reset();
  return 0;
}
PyType_Slot kSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {0, nullptr}};

}  // namespace

void bind_learners(nb::module_& m) {
  nb::class_<SingleStepData>(m, "SingleStepData", "An argument that is the same at every step of a call.")
      .def(
          "__init__", [](SingleStepData* self, ArrayLike v) { new (self) SingleStepData{v.get()}; },
          "value"_a)
      .def_ro("value", &SingleStepData::value);
  nb::class_<MultiStepData>(m, "MultiStepData",
                            "An argument with one value per step: its first axis is time.")
      .def(
          "__init__", [](MultiStepData* self, ArrayLike v) { new (self) MultiStepData{v.get()}; }, "value"_a)
      .def_ro("value", &MultiStepData::value);
  nb::class_<ModulatorOver> over(m, "_ModulatorOver");
  nb::class_<PerSample, ModulatorOver>(m, "PerSample", "A modulator with one number per sample, [B].")
      .def("__init__", make_over<PerSample, GroupModulator::Samples>, "value"_a);
  nb::class_<PerNeuron, ModulatorOver>(
      m, "PerNeuron", "A modulator with one number per neuron: the shape of the group without the batch.")
      .def("__init__", make_over<PerNeuron, GroupModulator::Neurons>, "value"_a);
  nb::class_<PythonFunction>(m, "_Function")
      .def_static("of_steps", &PythonFunction::of_steps)
      .def_static("of_loss", &PythonFunction::of_loss, "windows"_a, "per_sample"_a);
  nb::class_<LearnerObject> c(m, "_Learner", nb::type_slots(kSlots), nb::is_weak_referenceable());
  c.def("__init__", compile_learner, "module"_a, "update"_a.none(), "rule"_a, "example"_a, "options"_a,
        "python_rule"_a.none());
  c.def("__init__", learner_of_model, "model"_a, "rule"_a, "options"_a, "python_rule"_a.none());
  bind_sequences(c);
  bind_access(c);
  bind_steps(c, m);
  bind_learner_files(c);
  bind_learner_views(c);
}

}  // namespace etrace::python
