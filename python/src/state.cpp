// States: places that hold a value from step to step.
#include "bind.h"
#include "convert.h"

namespace etrace::python {

namespace {

// What a place of this type is set to. Numbers fill it; floats of another width are converted unless they are
// arrays of ours, whose type was chosen.
Array fitted(nb::handle source, const Aval& type) {
  const Array a = to_array(source);
  if (a.is_weak() || is_array(source) || a.dtype() == type.dtype) return a;
  const bool same_kind = is_floating(a.dtype()) == is_floating(type.dtype) && type.dtype != Dtype::Bool &&
                         a.dtype() != Dtype::Bool;
  return same_kind ? to_array(source, type.dtype) : a;
}

bool is_dictionary(const State& s) { return !s.leaf_keys().empty(); }

nb::object value_of(const State& s) {
  if (!is_dictionary(s)) return nb::cast(s.value());
  nb::dict out;
  const Arrays leaves = s.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) out[s.leaf_keys()[i].c_str()] = leaves[i];
  return out;
}

std::size_t leaf_index(const State& s, const std::string& key) {
  for (std::size_t i = 0; i < s.leaf_keys().size(); ++i)
    if (s.leaf_keys()[i] == key) return i;
  (void)s.value(key);  // says which there are
  return 0;
}

void set_leaf(State& s, const std::string& key, nb::handle value) {
  s.set(key, fitted(value, s.avals()[leaf_index(s, key)]));
}

// All leaves or none.
void set_value(State& s, nb::handle value) {
  if (!is_dictionary(s)) return s.set(fitted(value, s.avals()[0]));
  if (!nb::isinstance<nb::dict>(value))
    throw TypeError("state", std::string(s.type()) + " '" + s.name_in_owner() +
                                 "' is a dictionary; set it to one, or set a leaf: state['" +
                                 s.leaf_keys()[0] + "'] = ...");
  Arrays leaves = s.leaves();
  const Avals types = s.avals();
  for (const auto& [key, leaf] : nb::borrow<nb::dict>(value)) {
    const std::size_t i = leaf_index(s, nb::cast<std::string>(key));
    leaves[i] = fitted(leaf, types[i]);
  }
  s.set_leaves(leaves);
}

// What a state is made of: an array or a dictionary of them, always copied.
struct Made {
  Array array;
  NamedArrays leaves;
};
Made made_of(nb::handle value, const Given<Dtype>& dtype) {
  Made out;
  if (!nb::isinstance<nb::dict>(value)) {
    out.array = to_owned(value, dtype.optional());
    return out;
  }
  for (const auto& [key, leaf] : nb::borrow<nb::dict>(value))
    out.leaves.emplace_back(nb::cast<std::string>(key), to_owned(leaf, dtype.optional()));
  return out;
}

template <class S, class... Args>
std::shared_ptr<S> make(nb::handle value, const Given<Dtype>& dtype, Args... args) {
  Made from = made_of(value, dtype);
  if (from.array.defined()) return std::make_shared<S>(from.array, args...);
  if constexpr (std::is_constructible_v<S, NamedArrays, Args...> && !std::derived_from<S, HiddenState>)
    return std::make_shared<S>(std::move(from.leaves), args...);
  throw TypeError(
      "state", "a hidden state holds one array, not a dictionary; use et.HiddenTreeState, or one state each");
}

std::shared_ptr<HiddenTreeState> make_tree(const nb::dict& value, const Given<Dtype>& dtype) {
  NamedArrays init;
  for (const auto& [key, leaf] : value)
    init.emplace_back(nb::cast<std::string>(key), to_owned(leaf, dtype.optional()));
  return std::make_shared<HiddenTreeState>(init);
}

std::string state_text(const State& s) {
  std::string out = std::string(s.type()) + "(";
  const Avals types = s.avals();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i > 0) out += ", ";
    if (is_dictionary(s)) out += s.leaf_keys()[i] + ": ";
    out += to_string(types[i]);
  }
  return out + ")";
}

// Pickled by value: what is needed to make it again, and what it holds now.
nb::object numpy_of(nb::handle value) {
  if (nb::isinstance<nb::dict>(value)) {
    nb::dict out;
    for (const auto& [key, leaf] : nb::borrow<nb::dict>(value)) out[key] = numpy_of(leaf);
    return out;
  }
  return nb::module_::import_("numpy").attr("array")(value);
}
nb::tuple reduced(nb::handle self) {
  const auto& s = nb::cast<const State&>(self);
  nb::object first = value_of(s);
  nb::object rest = nb::none();
  if (const auto* t = dynamic_cast<const ShortTermState*>(&s)) {
    rest = nb::make_tuple(numpy_of(first), t->has_batch_axis().has_value(), t->batch(), t->per_sample());
    if (const auto* tree = dynamic_cast<const HiddenTreeState*>(&s)) {
      nb::dict parts;
      for (std::size_t i = 0; i < tree->names().size(); ++i)
        parts[tree->names()[i].c_str()] = squeeze(
            slice_axis(t->initial()[0], -1, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1),
            {-1});
      first = parts;
    } else if (is_dictionary(s)) {
      nb::dict parts;
      for (std::size_t i = 0; i < s.leaf_keys().size(); ++i)
        parts[s.leaf_keys()[i].c_str()] = t->initial()[i];
      first = parts;
    } else {
      first = nb::cast(t->initial()[0]);
    }
  }
  return nb::make_tuple(nb::module_::import_("etrace._module").attr("_restored_state"),
                        nb::make_tuple(self.type(), numpy_of(first), rest));
}
nb::object restored(nb::handle type, nb::handle first, nb::handle saved) {
  const bool shared = !saved.is_none() && !nb::cast<bool>(saved[3]);
  nb::object made = shared ? type(first, "per_sample"_a = false) : type(first);
  if (saved.is_none()) return made;
  auto& t = nb::cast<ShortTermState&>(made);
  if (nb::cast<bool>(saved[1])) t.init(nb::cast<std::optional<std::int64_t>>(saved[2]));
  set_value(t, saved[0]);
  return made;
}

constexpr const char* kValue = R"(The value: an array, or a dictionary of the leaves.

Setting it keeps element types and shapes; a number fills the array. While a step is traced the value is a
traced one, and reading and setting it are recorded.)";

template <class S, class Base>
auto state_class(nb::module_& m, const char* name, const char* doc) {
  return nb::class_<S, Base>(m, name, doc, nb::is_weak_referenceable());
}

}  // namespace

void bind_states(nb::module_& m) {
  nb::class_<State>(m, "State", "A value that outlives a step: one array, or a dictionary of named leaves.",
                    nb::is_weak_referenceable())
      .def_prop_rw("value", value_of, set_value, kValue)
      .def(
          "__getitem__", [](const State& s, const std::string& leaf) { return s.value(leaf); }, "leaf"_a)
      .def("__setitem__", set_leaf, "leaf"_a, "value"_a)
      .def_prop_ro(
          "leaf_keys", [](const State& s) { return s.leaf_keys(); },
          "Names of the leaves; empty for a bare array.")
      .def_prop_ro(
          "name", [](const State& s) { return s.name_in_owner(); },
          "The name in the module that holds it; empty outside of every module.")
      .def_prop_ro(
          "kind", [](const State& s) { return std::string(s.type()); }, "The name of its class.")
      .def_prop_ro(
          "shape", [](const State& s) { return s.avals().at(0).shape; }, "Of the (first) array.")
      .def_prop_ro(
          "dtype", [](const State& s) { return s.avals().at(0).dtype; }, "Of the (first) array.")
      .def("__repr__", state_text)
      .def("__reduce__", reduced);
  m.def("_restored_state", restored, "type"_a, "first"_a, "saved"_a.none());

  state_class<LongTermState, State>(m, "LongTermState",
                                    "Kept over resets: running statistics, and parameters.")
      .def(nb::new_(&make<LongTermState>), "value"_a.none(), nb::kw_only(), "dtype"_a = nb::none());
  state_class<ParamState, LongTermState>(m, "ParamState", "Trainable. A step must not write it.")
      .def(nb::new_(&make<ParamState>), "value"_a.none(), nb::kw_only(), "dtype"_a = nb::none());
  state_class<RandomState, LongTermState>(
      m, "RandomState",
      "A random key that goes on from step to step and over resets. A step draws with `key.next()`.")
      .def(nb::new_([](nb::handle seed) {
             if (PyLong_Check(seed.ptr()))
               return std::make_shared<RandomState>(nb::cast<std::uint64_t>(seed));
             return std::make_shared<RandomState>(to_owned(seed));
           }),
           "seed"_a = 0)
      .def("next", &RandomState::next, "A key of its own for one draw; the state moves on.")
      .def("seed", &RandomState::seed, "seed"_a, "Begins anew with this seed.");
  state_class<ModeState, LongTermState>(m, "ModeState", "Whether the model trains or is evaluated.");
  state_class<ShortTermState, State>(m, "ShortTermState",
                                     "Set back to its initial value by init_all_states and reset_all_states: "
                                     "delays, counters. With a batch every\n"
                                     "sample has a copy, along a leading axis, unless `per_sample` is false.")
      .def(nb::new_(&make<ShortTermState, bool>), "init"_a.none(), nb::kw_only(), "dtype"_a = nb::none(),
           "per_sample"_a = true)
      .def("init", &ShortTermState::init, "batch_size"_a = nb::none(),
           "Its initial value, with or without a batch axis.")
      .def("reset", &ShortTermState::reset, "Back to its initial value, for the batch that it has.")
      .def_prop_ro("batch_size", &ShortTermState::batch, "Samples; None: it has no batch axis.");
  state_class<KeyState, ShortTermState>(
      m, "KeyState",
      "A random key that every reset sets back, so that each sequence has the same noise; RandomState goes "
      "on.\nWith a batch each sample has a key of its own, unless `per_sample` is false.")
      .def(nb::new_([](nb::handle seed, bool per_sample) {
             if (PyLong_Check(seed.ptr()))
               return std::make_shared<KeyState>(nb::cast<std::uint64_t>(seed), per_sample);
             return std::make_shared<KeyState>(to_owned(seed), per_sample);
           }),
           "seed"_a = 0, nb::kw_only(), "per_sample"_a = true)
      .def("next", &KeyState::next, "A key of its own for one draw; the state moves on.")
      .def("seed", &KeyState::seed, "seed"_a, "Begins anew with this seed, and after every reset.");
  state_class<HiddenState, ShortTermState>(m, "HiddenState",
                                           "One array that the compiler takes for the network's memory.")
      .def(nb::new_(&make<HiddenState>), "init"_a.none(), nb::kw_only(), "dtype"_a = nb::none());
  state_class<HiddenGroupState, HiddenState>(
      m, "HiddenGroupState", "Several hidden states of one shape, stacked on the last axis: [*varshape, S].")
      .def(nb::new_(&make<HiddenGroupState>), "init"_a.none(), nb::kw_only(), "dtype"_a = nb::none())
      .def_prop_ro("num_state", &HiddenGroupState::num_state)
      .def_prop_ro("varshape", &HiddenGroupState::varshape)
      .def(
          "get_value", [](const HiddenGroupState& s, std::int64_t i) { return s.get_value(i); }, "index"_a)
      .def(
          "set_value", [](HiddenGroupState& s, std::int64_t i, ArrayLike v) { s.set_value(i, v.get()); },
          "index"_a, "value"_a)
      .def(
          "set_values", [](HiddenGroupState& s, Given<Arrays> v) { s.set_values(v.get()); }, "values"_a,
          "All of them, in order.");
  state_class<HiddenTreeState, HiddenGroupState>(
      m, "HiddenTreeState", "The same with a name for each, in the order of the dictionary.")
      .def(nb::new_(&make_tree), "init"_a, nb::kw_only(), "dtype"_a = nb::none())
      .def_prop_ro("names", &HiddenTreeState::names)
      .def(
          "get_value", [](const HiddenTreeState& s, const std::string& n) { return s.get_value(n); },
          "name"_a)
      .def(
          "get_value", [](const HiddenTreeState& s, std::int64_t i) { return s.get_value(i); }, "index"_a)
      .def(
          "set_value", [](HiddenTreeState& s, const std::string& n, ArrayLike v) { s.set_value(n, v.get()); },
          "name"_a, "value"_a)
      .def(
          "set_value", [](HiddenTreeState& s, std::int64_t i, ArrayLike v) { s.set_value(i, v.get()); },
          "index"_a, "value"_a);
}

}  // namespace etrace::python
