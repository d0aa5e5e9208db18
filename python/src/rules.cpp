// Learning rules: their rows, rules made from them, and coordinates.
#include "rules.h"

#include "convert.h"

namespace etrace::python {

namespace {

Attr option_value(nb::handle h) {
  if (nb::isinstance<Array>(h) || nb::hasattr(h, "__array__")) return from_object<Attr>(nb::float_(h));
  return from_object<Attr>(h);
}

RuleOptions options_of(const nb::dict& given) {
  RuleOptions out;
  for (const auto& [key, value] : given)
    if (!value.is_none()) out.set(nb::cast<std::string>(key), option_value(value));
  return out;
}

const char* type_word(RuleOption::Type t) {
  switch (t) {
    case RuleOption::Type::Number:
      return "float";
    case RuleOption::Type::Integer:
      return "int";
    case RuleOption::Type::Text:
      return "str";
    case RuleOption::Type::Flag:
      return "bool";
    case RuleOption::Type::Dtype:
      return "dtype";
  }
  return "";
}

nb::dict option_dict(const RuleOption& o) {
  nb::dict d;
  d["name"] = o.name;
  d["type"] = type_word(o.type);
  d["default"] = o.fallback;
  d["range"] = o.range;
  d["help"] = o.help;
  return d;
}

nb::list rows() {
  nb::list out;
  for (const RuleRow* row : rule_rows()) {
    nb::dict d;
    d["name"] = row->name;
    d["aliases"] = nb::cast(row->aliases);
    d["doc"] = row->doc;
    d["gradient"] = row->gradient;
    nb::list options;
    for (const RuleOption& o : row->options) options.append(option_dict(o));
    d["options"] = options;
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_rules(nb::module_& m) {
  nb::class_<Rule>(m, "_Rule", "A learning rule with its options. Immutable.")
      .def_prop_ro("name", [](const Rule& r) { return r.rule->name(); })
      .def("describe", [](const Rule& r) { return r.rule->describe(); })
      .def_prop_ro("takes_modulator", [](const Rule& r) { return r.rule->takes_modulator(); })
      .def("_config", [](const Rule& r) -> std::optional<std::string> {
        if (r.rule->config() == nullptr) return std::nullopt;
        return r.rule->config()->describe();
      });
  m.def("_rule_rows", rows);
  m.def(
      "_find_rule", [](const std::string& name) { return find_rule(name).name; }, "name"_a);
  m.def(
      "_make_rule",
      [](const std::string& name, const nb::dict& options) {
        return Rule{make_rule(name, options_of(options))};
      },
      "name"_a, "options"_a);

  nb::class_<ETraceConfig>(m, "_Config")
      .def(
          "__init__", [](ETraceConfig* self, const nb::dict& o) { new (self) ETraceConfig(options_of(o)); },
          "options"_a)
      .def(
          "replace", [](const ETraceConfig& c, const nb::dict& o) { return c.replace(options_of(o)); },
          "options"_a)
      .def("describe", &ETraceConfig::describe)
      .def("options",
           [](const ETraceConfig& c) {
             nb::dict out;
             const RuleOptions given = c.options();
             for (const auto& [name, value] : given.items()) out[name.c_str()] = to_object(value);
             return out;
           })
      .def("rule", [](const ETraceConfig& c) { return Rule{std::make_shared<ConfiguredRule>(c)}; })
      .def(
          "__eq__", [](const ETraceConfig& a, const ETraceConfig& b) { return a == b; }, nb::is_operator());
  m.def("_config_options", [] {
    nb::list out;
    for (const RuleOption& o : config_options()) out.append(option_dict(o));
    return out;
  });
}

}  // namespace etrace::python
