// Modules: the C++ side of a tree of Python modules and layers.
#include "bind.h"
#include "convert.h"
#include "recording.h"

namespace etrace::python {

namespace {

// An OriginScope as a context manager.
class Scope {
 public:
  explicit Scope(std::vector<std::string> module) : module_(std::move(module)) {}
  void enter() { scope_.emplace(Origin{module_, {}, 0}); }
  void exit() { scope_.reset(); }

 private:
  std::vector<std::string> module_;
  std::optional<OriginScope> scope_;
};

PathPart part(nb::handle h) {
  if (PyLong_Check(h.ptr())) return nb::cast<std::int64_t>(h);
  return nb::cast<std::string>(h);
}

StateKind kind_of(nb::handle type) {
  if (type.is_none()) return StateKind::Any;
  const auto name =
      nb::cast<std::string>(nb::isinstance<nb::str>(type) ? nb::borrow(type) : type.attr("__name__"));
  if (const auto kind = state_kind(name)) return *kind;
  throw ValueError("module",
                   "'" + name + "' is no class of states; expected et.ParamState, et.HiddenState …");
}

void put(Module& m, nb::handle name, nb::handle member) {
  if (nb::isinstance<State>(member))
    m.replace(part(name), nb::cast<std::shared_ptr<State>>(member));
  else
    m.replace(part(name), nb::cast<std::shared_ptr<Module>>(member));
}

nb::list members_of(const Module& m) {
  nb::list out;
  for (const Module::Member& each : m.members()) out.append(nb::cast(each.name));
  return out;
}

nb::list states_of(const Module& m, nb::handle type) {
  nb::list out;
  for (const StateEntry& e : states(m, kind_of(type)))
    out.append(nb::make_tuple(nb::cast(e.path), nb::cast(e.state->shared_from_this())));
  return out;
}

// A layer is called with arrays and gives one, or a tuple of them.
nb::object call(Module& m, const nb::args& given) {
  Arrays x;
  for (nb::handle h : given) x.push_back(to_array(h));
  const LineScope line(x);
  const Arrays y = m(ArraySpan(x));
  if (y.size() == 1) return nb::cast(y[0]);
  return to_tuple(y);
}

}  // namespace

void bind_modules(nb::module_& m) {
  nb::class_<Scope>(m, "_Scope")
      .def("__enter__", &Scope::enter)
      .def("__exit__", [](Scope& s, const nb::args&) { s.exit(); });

  nb::class_<Module>(m, "_ModuleBase", "A node of a model: named children, named states, and one time step.",
                     nb::is_weak_referenceable())
      .def("_put", put, "name"_a, "member"_a)
      .def(
          "_detach", [](Module& self, nb::handle name) { self.detach(part(name)); }, "name"_a)
      .def("_members", members_of)
      .def("_states", states_of, "kind"_a.none())
      .def("_place", [](const Module& self) { return self.place(); })
      .def("_scope", [](const Module& self) { return std::make_unique<Scope>(self.scope()); })
      .def(
          "train", [](Module& self, bool on) { self.train(on); }, "mode"_a = true,
          "Training, for the whole tree that the module belongs to.")
      .def("eval", &Module::eval, "Evaluating, for the whole tree that the module belongs to.")
      .def_prop_ro("is_training", &Module::is_training)
      .def_prop_ro("training", &Module::training, "A truth value for steps: et.where(self.training, a, b).")
      .def("__call__", call, "One step.")
      .def("update", call, "One step.");
  nb::class_<Node, Module>(m, "_Node")
      .def(nb::new_([](std::string type) { return std::make_shared<Node>(std::move(type)); }), "type"_a);
  nb::class_<ModuleList, Module>(m, "_ListNode").def(nb::new_([] { return std::make_shared<ModuleList>(); }));
  nb::class_<ModuleDict, Module>(m, "_DictNode").def(nb::new_([] { return std::make_shared<ModuleDict>(); }));

  m.def(
      "_init_all_states",
      [](Module& self, std::optional<std::int64_t> batch) { init_all_states(self, batch); }, "module"_a,
      "batch_size"_a.none());
  m.def(
      "_reset_all_states", [](Module& self) { reset_all_states(self); }, "module"_a);
  m.def("_is_tracing", [] { return Call::current() != nullptr; });
}

}  // namespace etrace::python
