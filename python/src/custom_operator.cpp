// et.register_primitive: operators of one's own, whose rules are Python functions.
//
// A registered row lives as long as the program, longer than the interpreter: it keeps its functions without
// counting them, and calls them with the GIL.
#include "calls.h"
#include "gil.h"

namespace etrace::python {

// --- static parameters -----------------------------------------------------------------------------------

nb::object to_object(const Attr& a) {
  if (a.is_null()) return nb::none();
  if (const auto* b = a.get_if<bool>()) return nb::bool_(*b);
  if (const auto* i = a.get_if<std::int64_t>()) return nb::int_(*i);
  if (const auto* d = a.get_if<double>()) return nb::float_(*d);
  if (const auto* s = a.get_if<std::string>()) return nb::str(s->c_str());
  nb::list items;
  if (const Dims* ints = a.ints()) {
    for (const std::int64_t i : *ints) items.append(i);
  } else if (const auto* table = a.table()) {
    for (const std::int32_t i : **table) items.append(i);
  } else if (const Attr::List* list = a.list_items()) {
    for (const Attr& item : *list) items.append(to_object(item));
  } else if (const Attr::Dict* dict = a.dict_items()) {
    nb::dict d;
    for (const auto& [key, value] : *dict) d[key.c_str()] = to_object(value);
    return d;
  } else {
    throw TypeError("operator", "a nested program is no value of Python");
  }
  return nb::tuple(items);
}

template <>
Attr from_object<Attr>(nb::handle h) {
  if (h.is_none()) return {};
  if (PyBool_Check(h.ptr())) return {nb::cast<bool>(h)};
  if (PyLong_Check(h.ptr())) return {nb::cast<std::int64_t>(h)};
  if (PyFloat_Check(h.ptr())) return {nb::cast<double>(h)};
  if (nb::isinstance<nb::str>(h)) return {nb::cast<std::string>(h)};
  if (PyList_Check(h.ptr()) || PyTuple_Check(h.ptr())) {
    Attr::List items;
    for (nb::handle item : nb::iter(h)) items.push_back(from_object<Attr>(item));
    return Attr::list(std::move(items));
  }
  if (PyDict_Check(h.ptr())) {
    Attr::Dict items;
    for (auto [key, value] : nb::borrow<nb::dict>(h))
      items.emplace_back(nb::cast<std::string>(key), from_object<Attr>(value));
    return Attr::dict(std::move(items));
  }
  throw TypeError(
      "operator",
      "a static parameter is a number, a text, None, or a list or dictionary of them, not " + describe(h));
}

namespace {

Params params_of(const nb::dict& options) {
  Attr::Dict items;
  for (auto [key, value] : options) items.emplace_back(nb::cast<std::string>(key), from_object<Attr>(value));
  return Params(std::move(items));
}

nb::dict options_of(const Params& params) {
  nb::dict d;
  for (const auto& [key, value] : params.items()) d[key.c_str()] = to_object(value);
  return d;
}

// --- rules -----------------------------------------------------------------------------------------------

// A Python function that is never given back.
struct Rule {
  nb::handle f;
  explicit Rule(nb::object o) : f(o.release()) {}
};

Arrays forward(const Rule& rule, const Params& params, ArraySpan operands) {
  const Taken gil;
  const nb::object out = rule.f(*to_list(operands), **options_of(params));
  if (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr())) return returned_list(out);
  return {returned(out, "operator")};
}

nb::tuple shapes_of(std::span<const Aval> avals) {
  nb::list out;
  for (const Aval& a : avals) out.append(a.shape);
  return nb::tuple(out);
}

std::vector<int> axes_list(nb::handle h) {
  std::vector<int> out;
  for (const std::int64_t a : from_object<Dims>(h)) out.push_back(static_cast<int>(a));
  return out;
}

AnchorMap make_anchor_map(Given<Shape> slots, const nb::object& y_axes, const nb::object& table,
                          const nb::object& position_axes) {
  AnchorMap map;
  map.slots = slots;
  if (!y_axes.is_none()) map.y_axes = axes_list(y_axes);
  if (!table.is_none()) map.table = SharedList(from_object<Dims>(table));
  if (!position_axes.is_none()) map.position_axes = axes_list(position_axes);
  return map;
}

EtpRules etp_rules_of(const nb::dict& trainable, const nb::object& anchors, const nb::object& source,
                      nb::object x_operand, bool batched, bool gradient_enabled) {
  std::vector<Trainable> trainables;
  for (auto [key, operand] : trainable)
    trainables.push_back({nb::cast<std::string>(key), nb::cast<std::size_t>(operand)});
  if (anchors.is_none())
    throw TypeError(
        "register_primitive",
        "an operator with trainable operands needs anchors: a function (key, shapes of the operands, "
        "shape of y) -> et.AnchorMap");
  EtpRules rules;
  rules.batched = batched;
  rules.gradient_enabled = gradient_enabled;
  rules.x_operand = x_operand.is_none() ? std::nullopt : std::optional(nb::cast<std::size_t>(x_operand));
  rules.trainables = [trainables](const Params&) { return trainables; };
  rules.anchors = [rule = Rule(anchors)](const Params&, std::string_view key, std::span<const Aval> in,
                                         const Aval& y) {
    const Taken gil;
    const nb::object map = rule.f(std::string(key), shapes_of(in), y.shape);
    if (!nb::isinstance<AnchorMap>(map))
      throw TypeError("register_primitive",
                      "anchors returned " + describe(map) + ", expected an et.AnchorMap");
    return nb::cast<AnchorMap>(map);
  };
  if (!source.is_none())
    rules.source = [rule = Rule(source)](const Params&, std::string_view key,
                                         ArraySpan operands) -> std::optional<TraceSource> {
      const Taken gil;
      const nb::object found = rule.f(std::string(key), *to_list(operands));
      if (found.is_none()) return std::nullopt;
      if (!nb::isinstance<TraceSource>(found))
        throw TypeError("register_primitive",
                        "source returned " + describe(found) + ", expected an et.TraceSource or None");
      return nb::cast<TraceSource>(found);
    };
  return rules;
}

// A sample is a tuple of operands, or (operands, options).
std::vector<PrimitiveSpec::Sample> samples_of(const nb::object& list) {
  std::vector<PrimitiveSpec::Sample> out;
  for (nb::handle one : nb::iter(list)) {
    nb::object operands = nb::borrow(one);
    Params params;
    if (PyTuple_Check(one.ptr()) && nb::len(one) == 2 && PyDict_Check(nb::object(one[1]).ptr())) {
      operands = one[0];
      params = params_of(nb::borrow<nb::dict>(nb::object(one[1])));
    }
    PrimitiveSpec::Sample sample;
    for (nb::handle h : nb::iter(operands)) sample.operands.push_back(to_owned(h));
    sample.params = params;
    out.push_back(std::move(sample));
  }
  return out;
}

const Primitive& register_(const std::string& name, const nb::object& fun, const nb::object& samples,
                           const nb::object& trainable, const nb::object& anchors, const nb::object& source,
                           const nb::object& x_operand, bool batched, bool gradient_enabled,
                           const std::vector<std::string>& params, const std::string& doc) {
  if (!PyCallable_Check(fun.ptr()))
    throw TypeError("register_primitive",
                    "the forward function is a function of arrays, not " + describe(fun));
  PrimitiveSpec spec;
  spec.name = name;
  spec.doc = doc;
  spec.params = params;
  const Rule rule{fun};
  spec.lower = [rule](const Params& p, ArraySpan x) { return forward(rule, p, x); };
  spec.abstract = [rule](const Params& p, std::span<const Aval> in) {
    return record(in, [&](ArraySpan x) { return forward(rule, p, x); }).jaxpr.out_avals();
  };
  spec.samples = [s = samples_of(samples)](std::uint64_t) { return s; };
  if (!trainable.is_none())
    spec.etp = make_etp(
        etp_rules_of(nb::cast<nb::dict>(trainable), anchors, source, x_operand, batched, gradient_enabled));
  return register_primitive(spec);
}

Result call_primitive(const Primitive& p, nb::args operands, nb::kwargs options) {
  Arrays in;
  for (nb::handle h : operands) {
    const Array a = from_object<Array>(h);
    in.push_back(a.is_weak() ? to_owned(h) : a);
  }
  nb::dict d;
  for (auto [key, value] : options) {
    if (!knows_param(p, nb::cast<std::string>(key)))
      throw TypeError(std::string(p.name()),
                      "there is no static parameter '" + nb::cast<std::string>(key) + "'");
    d[key] = value;
  }
  const LineScope line(in);
  const Arrays out = bind_primitive(p, in, params_of(d));
  if (out.size() == 1) return out[0];
  return nb::object(nb::tuple(to_list(out)));
}

}  // namespace

void bind_custom_operator(nb::module_& m) {
  nb::class_<AnchorMap>(
      m, "AnchorMap",
      "Which output each trace slot of a trainable belongs to, for one sample.\n\n"
      "slots: shape of the slots. y_axes: for each axis of y, the slot axis that gives its index; or table: "
      "slot\n"
      "(flat) -> position of y (flat). position_axes: slot axes that the parameter does not have.\n"
      "A dense weight [I, O] with y [O]: AnchorMap((I, O), y_axes=[1]).")
      .def(
          "__init__",
          [](AnchorMap* self, Given<Shape> slots, nb::object y_axes, nb::object table,
             nb::object position_axes) {
            new (self) AnchorMap(make_anchor_map(slots, y_axes, table, position_axes));
          },
          "slots"_a, "y_axes"_a = nb::none(), "table"_a = nb::none(), "position_axes"_a = nb::none());
  nb::class_<TraceSource>(m, "TraceSource",
                          "∂y[anchor]/∂θ[slot] as a product: gain[θ]·values[source of the slot]. axes: for "
                          "each axis of values (batch\n"
                          "apart), the slot axis that gives its index.")
      .def(
          "__init__",
          [](TraceSource* self, ArrayLike values, nb::object axes, ArrayLike gain) {
            new (self) TraceSource{values.is_none() ? Array() : values.get(),
                                   axes.is_none() ? std::vector<int>{} : axes_list(axes),
                                   {},
                                   gain.is_none() ? Array() : gain.get()};
          },
          "values"_a = nb::none(), "axes"_a = nb::none(), "gain"_a = nb::none());
  nb::class_<Primitive>(m, "Primitive", "An operation: call it on arrays; options of its own are keywords.")
      .def_prop_ro("name", [](const Primitive& p) { return std::string(p.name()); })
      .def_prop_ro("doc", [](const Primitive& p) { return p.spec.doc; })
      .def_prop_ro(
          "trainable", [](const Primitive& p) { return is_etp(p); },
          "True if weights learn online through it.")
      .def("__call__", &call_primitive, "operands"_a, "options"_a)
      .def("__repr__",
           [](const Primitive& p) { return "<operation " + std::string(p.name()) + ": " + p.spec.doc + ">"; })
      .def("__reduce__", [](const Primitive& p) {
        return nb::make_tuple(nb::module_::import_("etrace._pickle").attr("primitive"),
                              nb::make_tuple(std::string(p.name())));
      });
  m.def("register_primitive", &register_, "name"_a, "forward"_a, nb::kw_only(), "samples"_a,
        "trainable"_a = nb::none(), "anchors"_a = nb::none(), "source"_a = nb::none(), "x_operand"_a = 0,
        "batched"_a = false, "gradient_enabled"_a = false, "params"_a = std::vector<std::string>{},
        "doc"_a = "", nb::rv_policy::reference,
        "An operator of one's own, for the rest of the program.\n\n"
        "forward(*operands, **options): the function, in terms of et; derivatives, batching and native code "
        "follow from it.\n"
        "samples: operands (tuples) on which the rules are checked. An operator whose weights learn online "
        "has\n"
        "trainable: {key: position among the operands}, and anchors(key, shapes of the operands, shape of y) "
        "-> et.AnchorMap.\n"
        "source(key, *operands) -> et.TraceSource or None: optional, for speed. x_operand: the data (None: "
        "there is none).\n"
        "batched: operands (but trainable ones) and the result carry a leading batch axis. params: names of "
        "options.\n"
        "A wrong rule is refused with the slot and the output that disagree (et.CompilationError).");
  m.def(
      "primitive",
      [](const std::string& name) -> const Primitive& {
        const Primitive* p = find_primitive(name);
        if (p == nullptr)
          throw ValueError("primitive", "there is no operation '" + name + "'; et.primitives() lists them");
        return *p;
      },
      "name"_a, nb::rv_policy::reference, "The operation of that name.");
  m.def(
      "primitives",
      [] {
        nb::list names;
        for (const Primitive* p : primitives()) names.append(std::string(p->name()));
        return names;
      },
      "The names of all operations.");
  m.def(
      "_rows",
      [] {
        nb::dict rows;
        for (const Primitive* p : primitives()) {
          if (p->spec.bodies != nullptr || is_etp(*p)) continue;
          nb::list params;
          for (const std::string& key : p->spec.params) params.append(key);
          rows[nb::str(p->spec.name.c_str())] = nb::make_tuple(p->spec.elementwise, params);
        }
        return rows;
      },
      "Of every operation without bodies and weights: whether it is elementwise, and the names of its "
      "parameters.");
}

}  // namespace etrace::python
