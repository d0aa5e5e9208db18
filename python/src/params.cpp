// ParamValues: gradients, or parameters, as a mapping.
#include "params.h"
#include "bind.h"
#include "convert.h"
#include "paths.h"

namespace etrace::python {

namespace {

// Names of parameters, each once, in order.
std::vector<std::string> names_of(const ParamValues& p) {
  std::vector<std::string> out;
  for (const ParamLeafId& id : p.leaves)
    if (std::string name = to_string(id.path); out.empty() || out.back() != name)
      out.push_back(std::move(name));
  return out;
}

Array filled(const ParamValues& p, std::size_t i) {
  if (p.values[i].defined()) return p.values[i];
  throw ValueError("params", to_string(p.leaves[i]) + " has no value");
}

[[noreturn]] void unknown(const ParamValues& p, const std::string& name) {
  std::string known;
  for (const ParamLeafId& id : p.leaves) known += (known.empty() ? "" : ", ") + to_string(id);
  throw nb::key_error(("no parameter '" + name + "'; there are: " + known).c_str());
}

// A parameter, as an array or a dictionary of its leaves, or one leaf by its full name.
nb::object find(const ParamValues& p, nb::handle key) {
  const std::string name = path_text(key);
  nb::dict leaves;
  for (std::size_t i = 0; i < p.leaves.size(); ++i) {
    const ParamLeafId& id = p.leaves[i];
    if (to_string(id.path) == name) {
      if (id.key.empty()) return nb::cast(filled(p, i));
      leaves[id.key.c_str()] = filled(p, i);
    } else if (to_string(id) == name) {
      return nb::cast(filled(p, i));
    }
  }
  if (leaves.size() == 0) unknown(p, name);
  return leaves;
}

bool contains(const ParamValues& p, nb::handle key) {
  if (!nb::isinstance<nb::str>(key) && !nb::isinstance<nb::tuple>(key)) return false;
  const std::string name = path_text(key);
  return std::any_of(p.leaves.begin(), p.leaves.end(), [&](const ParamLeafId& id) {
    return to_string(id.path) == name || to_string(id) == name;
  });
}

nb::dict leaves_of(const ParamValues& p) {
  nb::dict out;
  for (std::size_t i = 0; i < p.leaves.size(); ++i) out[to_string(p.leaves[i]).c_str()] = filled(p, i);
  return out;
}

nb::dict numpy_of(const ParamValues& p) {
  const nb::object array = nb::module_::import_("numpy").attr("array");
  nb::dict out;
  for (const auto& [name, value] : leaves_of(p)) out[name] = array(value);
  return out;
}

// Calls use(leaf, value) for what is given. Names are matched, not positions.
template <class Use>
void for_each_named(const ParamValues& p, nb::handle given, const Use& use) {
  const auto put = [&](const std::string& name, nb::handle value) {
    for (std::size_t i = 0; i < p.leaves.size(); ++i)
      if (to_string(p.leaves[i]) == name) {
        const Aval type = p.values[i].aval();
        const Array a = to_owned(value, type.dtype);
        if (a.shape() != type.shape)
          throw ValueError(
              "params", name + " has type " + to_string(type) + ", but the value has " + to_string(a.aval()));
        use(i, a);
        return;
      }
    unknown(p, name);
  };
  for (nb::handle key : nb::borrow(given)) {
    const nb::object value = given[key];
    const std::string name = path_text(key);
    if (!nb::isinstance<nb::dict>(value)) {
      put(name, value);
      continue;
    }
    for (const auto& [leaf, inner] : nb::borrow<nb::dict>(value))
      put(name + "." + nb::cast<std::string>(leaf), inner);
  }
}

// The same leaves with other values.
ParamValues with_values(const ParamValues& p, nb::handle given) {
  ParamValues out = p;
  for_each_named(p, given, [&](std::size_t i, const Array& value) { out.values[i] = value; });
  return out;
}

// One of them may name fewer parameters, which then are zero in it.
ParamValues combined(const ParamValues& a, const ParamValues& b, Array (*f)(const Array&, const Array&)) {
  std::optional<Arrays> x = a.values, y = values_for(a.leaves, b);
  ParamValues out = a;
  if (!y) {
    out = b;
    x = values_for(b.leaves, a);
    y = b.values;
  }
  if (!x)
    throw ValueError("params", "values of other parameters: " + std::to_string(a.leaves.size()) +
                                   " leaves and " + std::to_string(b.leaves.size()) + ", or other names");
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const Aval type = out.values[i].aval();
    out.values[i] = f(instantiate((*x)[i], type), instantiate((*y)[i], type));
  }
  return out;
}
ParamValues scaled(const ParamValues& a, double factor) {
  ParamValues out = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) out.values[i] = filled(a, i) * factor;
  return out;
}

ParamValues made_of(const nb::list& leaves) {
  ParamValues out;
  for (nb::handle each : leaves) {
    out.leaves.push_back({path_of(each[0]), nb::cast<std::int64_t>(each[1]), nb::cast<std::string>(each[2])});
    out.values.push_back(to_owned(each[3]));
  }
  return out;
}
nb::tuple reduced(nb::handle self) {
  const auto& p = nb::cast<const ParamValues&>(self);
  const nb::object array = nb::module_::import_("numpy").attr("array");
  nb::list leaves;
  for (std::size_t i = 0; i < p.leaves.size(); ++i)
    leaves.append(nb::make_tuple(path_tuple(p.leaves[i].path), p.leaves[i].leaf, p.leaves[i].key,
                                 array(nb::cast(filled(p, i)))));
  return nb::make_tuple(self.type(), nb::make_tuple(leaves));
}

constexpr const char* kDoc = R"(Gradients, or parameters, by name.

A mapping: `values["rnn/Wz/weight"]`, or the path as a tuple, is an array or a dictionary of leaves;
`values["rnn/Wz/weight.bias"]` is one leaf. Two of them can be added and subtracted, and each multiplied by a
number; `numpy()` gives plain NumPy arrays.)";

}  // namespace

ParamValues params_from(nb::handle given, const ParamValues& known) {
  if (nb::isinstance<ParamValues>(given)) return nb::cast<const ParamValues&>(given);
  if (nb::isinstance<nb::dict>(given)) return with_values(known, given);
  throw TypeError("params",
                  "parameters are et.ParamValues or a dictionary of arrays by name, not " + describe(given));
}

ParamValues named_values(const ParamValues& like, nb::handle given) {
  ParamValues out;
  for_each_named(like, given, [&](std::size_t i, const Array& value) {
    out.leaves.push_back(like.leaves[i]);
    out.values.push_back(value);
  });
  return out;
}

void bind_params(nb::module_& m) {
  nb::class_<ParamValues>(m, "ParamValues", kDoc)
      .def(
          "__init__",
          [](ParamValues* self, const nb::list& leaves) { new (self) ParamValues(made_of(leaves)); },
          "leaves"_a)
      .def("__getitem__", find, "name"_a)
      .def("__contains__", contains, "name"_a)
      .def("__len__", [](const ParamValues& p) { return names_of(p).size(); })
      .def("__iter__", [](const ParamValues& p) { return nb::iter(nb::cast(names_of(p))); })
      .def("keys", names_of)
      .def("values",
           [](const ParamValues& p) {
             nb::list out;
             for (const std::string& n : names_of(p)) out.append(find(p, nb::cast(n)));
             return out;
           })
      .def("items",
           [](const ParamValues& p) {
             nb::list out;
             for (const std::string& n : names_of(p)) out.append(nb::make_tuple(n, find(p, nb::cast(n))));
             return out;
           })
      .def(
          "get",
          [](const ParamValues& p, nb::handle key, nb::object fallback) {
            return contains(p, key) ? find(p, key) : fallback;
          },
          "name"_a, "default"_a = nb::none())
      .def("leaves", leaves_of, "One entry per leaf: {'rnn/Wz/weight.bias': array, …}.")
      .def("numpy", numpy_of, "One NumPy array per leaf, copied.")
      .def("replace", with_values, "values"_a, "The same with other values, given by name.")
      .def(
          "__add__", [](const ParamValues& a, const ParamValues& b) { return combined(a, b, add); },
          nb::is_operator())
      .def(
          "__sub__", [](const ParamValues& a, const ParamValues& b) { return combined(a, b, sub); },
          nb::is_operator())
      .def("__mul__", scaled, nb::is_operator())
      .def("__rmul__", scaled, nb::is_operator())
      .def(
          "__truediv__", [](const ParamValues& a, double d) { return scaled(a, 1.0 / d); }, nb::is_operator())
      .def("__neg__", [](const ParamValues& a) { return scaled(a, -1.0); })
      .def("__repr__",
           [](const ParamValues& p) {
             std::string out = "ParamValues(";
             for (std::size_t i = 0; i < p.leaves.size(); ++i)
               out += (i > 0 ? ", " : "") + to_string(p.leaves[i]) + ": " +
                      (p.values[i].defined() ? to_string(p.values[i].aval()) : "none");
             return out + ")";
           })
      .def("__reduce__", reduced);
  m.def(
      "_param_values", [](const Module& module) { return param_values(module); }, "module"_a);
  m.def(
      "_set_param_values", [](Module& module, const ParamValues& v) { set_param_values(module, v); },
      "module"_a, "values"_a);
}

}  // namespace etrace::python
