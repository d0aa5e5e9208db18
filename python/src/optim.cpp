// et.optim: from gradients to new parameters.
#include <cctype>

#include "base/nearest.h"
#include "calls.h"
#include "convert.h"
#include "fields.h"
#include "gil.h"
#include "layers.h"
#include "params.h"

namespace etrace::python {

namespace {

using optim::CommonOptions, optim::Constraint, optim::Optimizer, optim::ParamGroup, optim::Schedule;

// --- learning rates
// ------------------------------------------------------------------------------------------

Schedule schedule_of(const Place& at, nb::handle h) {
  if (nb::isinstance<Schedule>(h)) return nb::cast<Schedule>(h);
  if (PyCallable_Check(h.ptr()) != 0) {
    return Schedule([f = KeptFunction(h, KeptFunction::Hold::Strong)](const Array& step) {
      const Taken gil;
      const Array rate = returned(f.get("schedule")(step), "schedule");
      return rate.dtype() == step.dtype() ? rate : convert(rate, step.dtype());
    });
  }
  double rate = 0.0;
  if (h.is_none() || PyBool_Check(h.ptr()) || !nb::try_cast(h, rate))
    at.wrong_type("a number, a schedule of et.optim, or a function of the count of updates", h);
  return rate;
}

ParamValues gradients_of(const Optimizer& o, nb::handle given) {
  if (nb::isinstance<ParamValues>(given)) return nb::cast<ParamValues>(given);
  if (!nb::isinstance<nb::dict>(given))
    throw TypeError(
        "optim", "update takes gradients as etrace_grad gives them, or a dictionary of arrays by name, not " +
                     describe(given));
  ParamValues like{o.leaves(), {}};
  for (const auto& state : o.params())
    for (const Array& leaf : state->leaves()) like.values.push_back(leaf);
  return named_values(like, given);
}

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(
      m, "Schedule",
      "A learning rate as a function of the count of updates made so far: the first one asks for step 0.")
      .def(
          "__init__",
          [](Schedule* s, nb::handle rate) {
            new (s) Schedule(schedule_of({"Schedule", "rate"}, rate));
          },
          "rate"_a)
      .def("__call__", &Schedule::at, "step"_a, "The rate of the update after so many.");
  namespace s = optim::schedule;
  m.def("constant", s::constant, "rate"_a, "The same for ever.");
  m.def("step_decay", s::step_decay, "initial"_a, "factor"_a, "every"_a, "initial·factor^⌊step/every⌋");
  m.def("exponential", s::exponential, "initial"_a, "factor"_a, "every"_a = 1, "initial·factor^(step/every)");
  m.def("linear_warmup", s::linear_warmup, "peak"_a, "warmup"_a,
        "peak·(step + 1)/warmup, then peak: the first update already moves.");
  m.def("cosine", s::cosine, "peak"_a, "total"_a, "warmup"_a = 0, "final"_a = 0.0,
        "Linear warm-up, then half a cosine from peak at step `warmup` to `final` at step `total` and ever "
        "after.");
  m.def("piecewise", s::piecewise, "values"_a, "boundaries"_a,
        "values[i] from step boundaries[i − 1] on; one value more than boundaries, which ascend.");
}

// --- constraints and groups
// ----------------------------------------------------------------------------------

std::string text_of_constraint(const Constraint& c) {
  static const char* const kNames[] = {"non_negative", "non_positive", "keep_sign", "fixed_mask"};
  return std::string(kNames[static_cast<std::size_t>(c.kind)]) + "('" + c.leaf + "'" +
         (c.values.defined() ? ", …)" : ")");
}

void bind_constraints(nb::module_& m) {
  nb::class_<Constraint>(
      m, "Constraint",
      "What holds for a parameter after every update. `leaf` is the name of a parameter or of a leaf\n"
      "(\"rnn/W/weight\", \"rnn/W/weight.bias\"), or the beginning of names: \"rnn\" means everything below.")
      .def_ro("leaf", &Constraint::leaf, "The path of the parameter, or the beginning of several.")
      .def("__repr__", text_of_constraint);
  m.def("non_negative", optim::non_negative, "leaf"_a, "Never below 0.");
  m.def("non_positive", optim::non_positive, "leaf"_a, "Never above 0.");
  m.def(
      "keep_sign",
      [](std::string leaf, ArrayLike signs) {
        return signs.is_none() ? optim::keep_sign(std::move(leaf))
                               : optim::keep_sign(std::move(leaf), to_owned(signs.source()));
      },
      "leaf"_a, "signs"_a = nb::none(),
      "Dale's law: an element that would change its sign becomes 0. Elements of sign 0 are free. Without "
      "signs: those\n"
      "at the start. Signs broadcast: shape [n, 1] gives each row of a weight its own.");
  m.def(
      "fixed_mask",
      [](std::string leaf, ArrayLike mask) {
        return optim::fixed_mask(std::move(leaf), to_owned(mask.source()));
      },
      "leaf"_a, "mask"_a, "Zero stays where the mask is 0 or False.");

  nb::class_<ParamGroup>(
      m, "ParamGroup",
      "Some parameters treated differently: those that `leaf` covers, as in Constraint. What is None is\n"
      "as for all; of several groups that cover a leaf the last one counts.")
      .def(
          "__init__",
          [](ParamGroup* g, std::string leaf, nb::object rate, std::optional<double> decay,
             std::optional<double> norm, std::optional<double> value, bool frozen) {
            new (g) ParamGroup{std::move(leaf), {}, decay, norm, value, frozen};
            if (!rate.is_none()) g->learning_rate = schedule_of({"ParamGroup", "learning_rate"}, rate);
          },
          "leaf"_a, nb::kw_only(), "learning_rate"_a = nb::none(), "weight_decay"_a = nb::none(),
          "clip_norm"_a = nb::none(), "clip_value"_a = nb::none(), "frozen"_a = false)
      .def_ro("leaf", &ParamGroup::leaf, "The path of the parameter, or the beginning of several.")
      .def_ro("frozen", &ParamGroup::frozen, "Whether its parameters keep their values.");
}

}  // namespace

#define ETRACE_LIST_READER(T, type, what)                                     \
  template <>                                                                 \
  struct Reader<std::vector<T>> {                                             \
    static std::vector<T> read(const Place& at, nb::handle h) {               \
      if (h.is_none()) return {};                                             \
      std::vector<T> out;                                                     \
      if (!nb::isinstance<nb::list>(h) && !nb::isinstance<nb::tuple>(h))      \
        at.wrong_type("a list of " what, h);                                  \
      for (nb::handle each : nb::iter(h)) {                                   \
        if (!nb::isinstance<T>(each)) at.wrong_type("a list of " what, each); \
        out.push_back(nb::cast<T>(each));                                     \
      }                                                                       \
      return out;                                                             \
    }                                                                         \
    static constexpr const char* kType = (type);                              \
  };
ETRACE_LIST_READER(optim::Constraint, "Sequence[Constraint]", "constraints such as et.optim.keep_sign('rnn')")
ETRACE_LIST_READER(optim::ParamGroup, "Sequence[ParamGroup]", "et.optim.ParamGroup")
#undef ETRACE_LIST_READER

namespace {

// --- rules
// ---------------------------------------------------------------------------------------------------

void fields_of(FieldTable& f, optim::SgdOptions& o) {
  f("momentum", o.momentum);
  f("nesterov", o.nesterov);
}
void fields_of(FieldTable& f, optim::AdamOptions& o) {
  f("beta1", o.beta1);
  f("beta2", o.beta2);
  f("epsilon", o.epsilon);
  f("epsilon_first", o.epsilon_first);
}
void fields_of(FieldTable& f, optim::RmspropOptions& o) {
  f("decay", o.decay);
  f("epsilon", o.epsilon);
  f("momentum", o.momentum);
}
void fields_of(FieldTable& f, optim::AdagradOptions& o) {
  f("initial_sum", o.initial_sum);
  f("epsilon", o.epsilon);
}
void fields_of(FieldTable& f, optim::LionOptions& o) {
  f("beta1", o.beta1);
  f("beta2", o.beta2);
}
void fields_of(FieldTable& f, CommonOptions& o) {
  f("clip_norm", o.clip_norm);
  f("clip_value", o.clip_value);
  f("weight_decay", o.weight_decay);
  f("frozen", o.frozen);
  f("constraints", o.constraints);
  f("groups", o.groups);
}

// None: not bound, for the pure form.
void bind_to(Optimizer& o, nb::handle model) {
  if (model.is_none()) return;
  const nb::object node = nb::module_::import_("etrace._module").attr("node_of")(model);
  o.bind(nb::cast<Module&>(node));
}

template <class O, class Own>
void rule(nb::module_& m, const char* name, double initial_rate, const std::string& formula,
          const char* own_options) {
  const std::string doc =
      formula + "\n\nOptions: " + own_options +
      ";\nof all optimisers: clip_norm (of all gradients together), clip_value (of every element, before "
      "clip_norm),\n"
      "weight_decay, frozen (names that never move), constraints, groups (of ParamGroup). `learning_rate` is "
      "a number,\n"
      "a schedule, or a function of the count of updates. Without a model it is the pure form: init, apply.";
  nb::class_<O, Optimizer>(m, name, nb::is_final(), doc.c_str())
      .def(nb::new_([name, initial_rate](nb::handle model, nb::handle rate, const nb::kwargs& given) {
             Own own;
             CommonOptions common;
             FieldTable fields(name);
             fields_of(fields, own);
             fields_of(fields, common);
             fields.set_all(nb::borrow<nb::dict>(given));
             Schedule schedule =
                 rate.is_none() ? Schedule(initial_rate) : schedule_of({name, "learning_rate"}, rate);
             auto made = std::make_shared<O>(std::move(schedule), own, std::move(common));
             bind_to(*made, model);
             return made;
           }),
           nb::arg("model").none(), nb::arg("learning_rate").none() = nb::none(), nb::arg("options"));
}

nb::dict state_of(const Optimizer& o) {
  nb::dict out;
  for (const auto& [name, value] : o.state()) out[name.c_str()] = Array(value);
  return out;
}
void set_state(Optimizer& o, const nb::dict& state) {
  std::vector<std::pair<std::string, Tensor>> entries;
  for (const auto& [name, value] : state)
    entries.emplace_back(nb::cast<std::string>(name), to_owned(value).tensor());
  o.set_state(entries);
}

void set_rate(Optimizer& o, nb::handle rate, nb::handle group) {
  Schedule s = schedule_of({std::string(o.name()), "learning_rate"}, rate);
  if (group.is_none()) return o.set_learning_rate(std::move(s));
  o.set_learning_rate(nb::cast<std::string>(group), std::move(s));
}

std::string text_of_optimizer(const Optimizer& o) {
  std::string out = std::string(o.name()) + "(learning rate " +
                    initial_text(o.bound() ? o.learning_rate() : o.schedule().at(0));
  if (o.bound())
    out +=
        ", " + std::to_string(o.step()) + " updates of " + std::to_string(o.leaves().size()) + " parameters";
  return out + ")";
}

}  // namespace

void bind_optimizers(nb::module_& core) {
  nb::module_ m = core.def_submodule("_optim", "Optimisers, schedules of the learning rate, constraints.");
  bind_schedules(m);
  bind_constraints(m);
  nb::class_<Optimizer>(
      m, "Optimizer",
      "From gradients to new parameters.\n\n"
      "    optimizer = et.optim.Adam(model, 1e-3, clip_norm=1.0)\n"
      "    optimizer.update(result.grads)\n\n"
      "One update: clip_value, clip_norm, weight decay, the rule's direction times the rate, constraints.",
      nb::is_weak_referenceable())
      .def_prop_ro(
          "name", [](const Optimizer& o) { return std::string(o.name()); }, "'adam', 'sgd' …")
      .def(
          "update", [](Optimizer& o, nb::handle grads) { o.update(gradients_of(o, grads)); }, "grads"_a,
          nb::sig("def update(self, grads: etrace._core.ParamValues | dict[str, Any]) -> None"),
          "One update of the model's parameters, from what etrace_grad gives or a dictionary of arrays by "
          "name. A leaf that `grads` does not name keeps its value.")
      .def_prop_ro("step", &Optimizer::step, "Updates so far.")
      .def_prop_rw(
          "learning_rate", &Optimizer::learning_rate,
          [](Optimizer& o, nb::handle rate) { set_rate(o, rate, nb::none()); }, "Of the next update.")
      .def("set_learning_rate", set_rate, "rate"_a, "group"_a = nb::none(),
           "From the next update on, for all parameters or for the group of this name.")
      .def_prop_ro("weight_decay", &Optimizer::weight_decay,
                   "Of all parameters that no group treats differently.")
      .def_prop_ro("bound", &Optimizer::bound, "Whether it knows its model.")
      .def_prop_ro(
          "leaves",
          [](const Optimizer& o) {
            std::vector<std::string> out;
            for (const ParamLeafId& id : o.leaves()) out.push_back(to_string(id));
            return out;
          },
          "Paths of the parameters that it updates.")
      .def(
          "bind", [](Optimizer& o, nb::handle model) { bind_to(o, model); }, "model"_a,
          "Takes all parameters of the model and starts with a fresh state.")
      .def("state", state_of, "What it remembers, by name: counts and averages.")
      .def("set_state", set_state, "state"_a, "The inverse; nothing changes unless everything fits.")
      .def(
          "init", [](const Optimizer& o, Given<Arrays> params) { return to_list(o.init(params.get())); },
          "params"_a, "Pure form: the first state for these arrays.")
      .def(
          "apply",
          [](const Optimizer& o, Given<Arrays> params, Given<Arrays> grads, Given<Arrays> state) {
            const optim::Updated u = o.apply(params.get(), grads.get(), state.get());
            return nb::make_tuple(to_list(u.params), to_list(u.state));
          },
          "params"_a, "grads"_a, "state"_a, "Pure form: (new params, new state). May be recorded.")
      .def("__repr__", text_of_optimizer)
      .def("__reduce__", [](nb::handle) -> nb::object {
        throw TypeError(
            "optim",
            "an optimiser is not pickled; take optimizer.state(), or write a checkpoint of the learner");
      });
  rule<optim::SGD, optim::SgdOptions>(m, "SGD", 0.01, "θ ← θ − η·v, v ← momentum·v + g.",
                                      "momentum (0), nesterov (False)");
  rule<optim::Adam, optim::AdamOptions>(m, "Adam", 1e-3, "Averages m of g and v of g²: θ ← θ − η·m̂/(√v̂ + ε).",
                                        "beta1 (0.9), beta2 (0.999), epsilon (1e-8), epsilon_first (False: ε "
                                        "is added after the root's bias is corrected)");
  rule<optim::AdamW, optim::AdamOptions>(
      m, "AdamW", 1e-3, "Adam with the weight decay (0.01 unless given) outside of its averages.",
      "beta1 (0.9), beta2 (0.999), epsilon (1e-8), epsilon_first (False)");
  rule<optim::RMSprop, optim::RmspropOptions>(m, "RMSprop", 1e-3, "θ ← θ − η·g/(√v + ε), v an average of g².",
                                              "decay (0.99), epsilon (1e-8), momentum (0)");
  rule<optim::Adagrad, optim::AdagradOptions>(m, "Adagrad", 0.01, "θ ← θ − η·g/(√s + ε), s the sum of g².",
                                              "initial_sum (0), epsilon (1e-10)");
  rule<optim::Lion, optim::LionOptions>(
      m, "Lion", 1e-4, "θ ← θ − η·sign(β₁·m + (1 − β₁)·g), m an average of g.", "beta1 (0.9), beta2 (0.99)");
  m.def(
      "make",
      [](const std::string& name, nb::object model, nb::object rate, const nb::kwargs& options) {
        for (const char* each : {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion"}) {
          std::string lower(each);
          for (char& c : lower) c = static_cast<char>(std::tolower(c));
          if (lower == name) return nb::module_::import_("etrace.optim").attr(each)(model, rate, **options);
        }
        throw ValueError("optim", no_such_name("optimiser", name, row_names(optim::all())));
      },
      "name"_a, nb::arg("model").none(), nb::arg("learning_rate").none() = nb::none(), "options"_a,
      "An optimiser by the name that command lines know: 'adam'.");
  core.attr("_Optimizer") = nb::type<Optimizer>();
}

}  // namespace etrace::python
