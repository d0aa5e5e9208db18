// Programs as JSON, in the vocabulary of JAX. Start with read_program and Writer::program.
#include "io/program_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/nearest.h"
#include "core/number_text.h"
#include "etrace/control.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

// What JAX and its versions call differently: the primitive and the parameter that holds its body.
struct Alias {
  std::string_view from, to, body_from, body_to;
};
constexpr Alias kAliases[] = {
    {"pjit", "jit", "jaxpr", "jaxpr"},
    {"closed_call", "jit", "call_jaxpr", "jaxpr"},
    {"core_call", "jit", "call_jaxpr", "jaxpr"},
    {"remat", "jit", "jaxpr", "jaxpr"},
    {"remat2", "jit", "jaxpr", "jaxpr"},
    {"checkpoint", "jit", "jaxpr", "jaxpr"},
    {"custom_vjp_call_jaxpr", "custom_vjp_call", "fun_jaxpr", "call_jaxpr"},
};

// What JAX may write beside any equation without bearing on its meaning: where arrays lie. What it writes
// beside the equations of one primitive stands in that one's row (ignored_params).
constexpr std::string_view kPlacement[] = {"sharding",   "out_sharding", "in_shardings", "out_shardings",
                                           "in_layouts", "out_layouts",  "ctx_mesh",     "effects"};

bool is_ignored(const Primitive& prim, std::string_view key) {
  return ignores_param(prim, key) ||
         std::find(std::begin(kPlacement), std::end(kPlacement), key) != std::end(kPlacement);
}

void require_known(const Primitive& prim, const std::string& key, const Node& value) {
  if (knows_param(prim, key)) return;
  std::string known;
  for (const std::string& p : prim.spec.params) known += (known.empty() ? "" : ", ") + p;
  value.fail("there is no parameter '" + key + "' of '" + std::string(prim.name()) + "', which has " +
             (known.empty() ? "none" : known) + "; an equation means what all of its parameters say");
}

// A rule that was not written is no rule that is not there.
void require_rule(const Primitive& prim, const Params& params, const Node& given) {
  if (&prim != &custom_vjp_call_p) return;
  const bool fwd = params.has("fwd_jaxpr"), bwd = params.has("bwd_jaxpr");
  if (fwd != bwd || (!fwd && given.find("fwd_jaxpr_thunk")))
    given.fail(std::string("the rule of this custom_vjp_call is not whole: ") +
               (fwd   ? "bwd_jaxpr is"
                : bwd ? "fwd_jaxpr is"
                      : "fwd_jaxpr and bwd_jaxpr are") +
               " missing. fwd_jaxpr maps inputs to results and residuals, bwd_jaxpr residuals and "
               "cotangents to the cotangents of the inputs");
}

Dtype read_dtype(const Node& node) {
  const std::string text = node.text();
  const auto dtype = dtype_from_name(text);
  if (!dtype)
    node.fail("there is no element type '" + text +
              "'; known are bool, int32, int64, uint32, float16, bfloat16, float32, float64");
  return *dtype;
}

Aval read_aval(const Node& node) {
  const Node shape = node.at("shape");
  try {
    return {read_dtype(node.at("dtype")), Shape(shape.dims())};
  } catch (const ValueError& e) {
    shape.fail(e.message());
  }
}

// One element of an array or a literal; false if the JSON value is no number of that type.
bool read_element(const Json& value, Dtype dtype, std::byte* element) {
  if (value.is_string()) {  // what JSON numbers cannot say
    const auto& text = value.get_ref<const std::string&>();
    return is_floating(dtype) && text.find_first_of("ni") != std::string::npos &&
           read_number(text, dtype, element);
  }
  if (value.is_boolean() || (dtype == Dtype::Bool && (value == 0 || value == 1))) {
    const bool b = value.is_boolean() ? value.get<bool>() : value == 1;
    std::memcpy(element, &b, 1);
    return dtype == Dtype::Bool;
  }
  if (dtype == Dtype::F64 && value.is_number()) {
    const double d = value.get<double>();
    std::memcpy(element, &d, sizeof d);
    return true;
  }
  if (!value.is_number() || dtype == Dtype::Bool) return false;
  if (dtype == Dtype::F32) {
    const auto f = static_cast<float>(value.get<double>());
    std::memcpy(element, &f, sizeof f);
    return !std::isinf(f);
  }
  return read_number(json_text(value), dtype, element);
}

OrderedJson write_element(Dtype dtype, const std::byte* element) {
  std::string text;
  append_number(text, dtype, element);
  if (dtype == Dtype::Bool) return text == "true";
  std::byte wide[8];
  if (!is_floating(dtype)) {
    read_number(text, Dtype::I64, wide);
    std::int64_t i = 0;
    std::memcpy(&i, wide, sizeof i);
    return i;
  }
  if (text.find_first_of("ni") != std::string::npos) return text;
  // The few digits that name a float name a double that rounds to it; in the rare case that they do not, all
  // digits.
  read_number(text, Dtype::F64, wide);
  double d = 0;
  std::memcpy(&d, wide, sizeof d);
  if (dtype == Dtype::F32) {
    float f = 0;
    std::memcpy(&f, element, sizeof f);
    if (static_cast<float>(d) != f) d = f;
  }
  return d;
}

using Scope = std::unordered_map<std::int64_t, Var>;  // nested programs are closed: each has its own

Var define(Scope& scope, const Node& node) {
  node.allow({"id", "shape", "dtype", "drop", "weak_type"});
  const Node id = node.at("id");
  const Var var = fresh_var(read_aval(node));
  if (!scope.emplace(id.integer(), var).second)
    id.fail("the variable " + std::to_string(id.integer()) + " is defined twice in one program");
  return var;
}

Scalar literal_value(const Node& node, Dtype dtype) {
  std::byte element[8];
  if (!read_element(node.json(), dtype, element)) node.fail("no number of type " + std::string(name(dtype)));
  return Tensor::copy_of({dtype, {}}, element).at(0);
}

Atom atom(const Scope& scope, const Node& node) {
  if (node.is_object()) {
    node.allow({"lit", "dtype", "shape"});
    const Aval aval = node.find("shape") ? read_aval(node) : Aval{read_dtype(node.at("dtype")), {}};
    if (!aval.shape.is_scalar()) node.fail("a literal is a scalar, found " + to_string(aval));
    return Literal{aval.dtype, literal_value(node.at("lit"), aval.dtype)};
  }
  const auto it = scope.find(node.integer());
  if (it == scope.end())
    node.fail("the variable " + std::to_string(node.integer()) +
              " is not defined before its use in this program");
  return it->second;
}

// "step.py:25": the line that an equation comes from.
Origin read_origin(const Node& node) {
  const std::string text = node.text();
  const std::size_t colon = text.rfind(':');
  Origin origin{{}, text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, origin.line);
  if (colon == std::string::npos || colon == 0 || rest != end || error != std::errc())
    node.fail("a line is FILE:NUMBER, found '" + text + "'");
  return origin;
}

Eqn named_equation(Scope& scope, const Node& node, const std::string& spelled) {
  const auto* alias = std::find_if(std::begin(kAliases), std::end(kAliases),
                                   [&](const Alias& a) { return a.from == spelled; });
  const bool aliased = alias != std::end(kAliases);
  std::string prim_name = aliased ? std::string(alias->to) : spelled;
  std::replace(prim_name.begin(), prim_name.end(), '-', '_');  // scatter-add
  const Primitive* prim = find_primitive(prim_name);
  if (prim == nullptr)
    node.at("prim").fail("there is no primitive '" + spelled + "'" +
                         did_you_mean(prim_name, row_names(primitives())) +
                         "; express it by known ones, or add its row");

  Attr::Dict params;
  const auto given = node.find("params");
  if (given)
    for (const auto& [key, value] : given->fields()) {
      if (is_ignored(*prim, key)) continue;
      const std::string own = aliased && key == alias->body_from ? std::string(alias->body_to) : key;
      const Attr attr = read_attr(value);
      if (attr.is_null() && own == "out_dtype" && !knows_param(*prim, own)) continue;  // JAX: as the operands
      require_known(*prim, own, value);
      params.emplace_back(own, attr);
    }
  if (given) require_rule(*prim, Params(params), *given);
  std::vector<Atom> in = read_list(node.at("in"), [&](const Node& n) { return atom(scope, n); });
  std::vector<Var> out = read_list(node.at("out"), [&](const Node& n) { return define(scope, n); });
  const auto where = node.find("where");
  return make_eqn(*prim, std::move(in), std::move(out), Params(std::move(params)),
                  where ? read_origin(*where) : Origin());
}

Eqn equation(Scope& scope, const Node& node) {
  node.allow({"prim", "in", "out", "params", "where"});
  const std::string spelled = node.at("prim").text();
  try {
    return named_equation(scope, node, spelled);
  } catch (const CompilationError& e) {
    throw CompilationError(e.stage(), e.message() + " (in '" + spelled + "')");
  }
}

class Writer {
 public:
  OrderedJson program(const ClosedJaxpr& closed) {
    const Jaxpr& jaxpr = closed.jaxpr;
    Ids ids;
    std::unordered_set<std::uint64_t> used;
    auto use = [&](const std::vector<Atom>& atoms) {
      for (const Atom& a : atoms)
        if (const Var* v = as_var(a)) used.insert(v->id);
    };
    for (const Eqn& eqn : jaxpr.eqns) use(eqn.in);
    use(jaxpr.outs);

    auto binder = [&](const Var& v) { return define(ids, v); };
    auto operand = [&](const Atom& a) { return atom(ids, a); };
    OrderedJson out;
    out["constvars"] = write_list(jaxpr.constvars, binder);
    out["consts"] = write_list(closed.consts, write_tensor);
    out["invars"] = write_list(jaxpr.invars, binder);
    out["eqns"] = write_list(jaxpr.eqns, [&](const Eqn& eqn) {
      OrderedJson e;
      e["prim"] = eqn.prim->name();
      e["in"] = write_list(eqn.in, operand);
      e["out"] = write_list(eqn.out, [&](const Var& v) {
        OrderedJson o = define(ids, v);
        if (!used.contains(v.id)) o["drop"] = true;
        return o;
      });
      e["params"] = write_named(eqn.params.items(), [&](const Attr& a) { return attribute(a); });
      return e;
    });
    out["outvars"] = write_list(jaxpr.outs, operand);
    return out;
  }

  OrderedJson attribute(const Attr& attr) {
    if (const auto* b = attr.get_if<bool>()) return *b;
    if (const auto* i = attr.get_if<std::int64_t>()) return *i;
    if (const auto* s = attr.get_if<std::string>()) return *s;
    if (const auto* d = attr.get_if<double>()) {
      if (std::isfinite(*d)) return *d;
      return {{"lit", number_text(Literal{Dtype::F64, *d})}, {"dtype", name(Dtype::F64)}};
    }
    if (const Dims* dims = attr.ints()) return *dims;
    if (const auto* table = attr.table()) return **table;
    if (const Attr::List* list = attr.list_items())
      return write_list(*list, [&](const Attr& a) { return attribute(a); });
    if (const Attr::Dict* dict = attr.dict_items()) {
      for (const char* reserved : {"jaxpr", "lit"})
        if (std::any_of(dict->begin(), dict->end(), [&](const auto& i) { return i.first == reserved; }))
          throw CompilationError("model",
                                 std::string("a dictionary among the parameters has the key '") + reserved +
                                     "', which the model file keeps for itself; choose another name");
      return write_named(*dict, [&](const Attr& a) { return attribute(a); });
    }
    if (const JaxprPtr* j = attr.jaxpr()) {
      OrderedJson out;
      out["jaxpr"] = program(**j);
      return out;
    }
    return nullptr;
  }

 private:
  using Ids = std::unordered_map<std::uint64_t, std::int64_t>;

  OrderedJson define(Ids& ids, const Var& v) {
    OrderedJson out;
    out["id"] = ids[v.id] = next_++;
    out["shape"] = v.aval.shape.to_dims();
    out["dtype"] = name(v.aval.dtype);
    return out;
  }

  static OrderedJson atom(const Ids& ids, const Atom& a) {
    if (const Var* v = as_var(a)) return ids.at(v->id);
    const auto& literal = std::get<Literal>(a);
    OrderedJson out;
    out["lit"] = write_element(literal.dtype, Tensor::full(literal.aval(), canonical_value(literal)).bytes());
    out["dtype"] = name(literal.dtype);
    out["shape"] = OrderedJson::array();
    return out;
  }

  std::int64_t next_ = 0;  // over the whole file
};

}  // namespace

Tensor read_tensor(const Node& node) {
  node.allow({"shape", "dtype", "data"});
  const Aval aval = read_aval(node);
  const Node data = node.at("data");
  const Json& values = data.json();
  if (!values.is_array())
    data.fail("found a JSON " + std::string(values.type_name()) + ", expected a flat list of numbers");
  // Counted before anything is allocated: a shape alone must not cost memory.
  if (values.size() != static_cast<std::size_t>(aval.shape.size()))
    data.fail("found " + std::to_string(values.size()) + " numbers, expected " +
              std::to_string(aval.shape.size()) + " for " + to_string(aval));
  Tensor out = Tensor::uninitialized(aval);
  const std::size_t width = size_of(aval.dtype);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!read_element(values[i], aval.dtype, out.writable() + i * width)) {
      const Node element(values[i], data.place() + "[" + std::to_string(i) + "]");
      element.fail("no number of type " + std::string(name(aval.dtype)));
    }
  return out;
}

OrderedJson write_tensor(const Tensor& t) {
  OrderedJson data = OrderedJson::array();
  const std::size_t width = size_of(t.dtype());
  for (std::int64_t i = 0; i < t.size(); ++i)
    data.push_back(write_element(t.dtype(), t.bytes() + static_cast<std::size_t>(i) * width));
  OrderedJson out;
  out["shape"] = t.shape().to_dims();
  out["dtype"] = name(t.dtype());
  out["data"] = std::move(data);
  return out;
}

Attr read_attr(const Node& node) {
  const Json& j = node.json();
  if (j.is_null()) return {};
  if (j.is_boolean()) return node.boolean();
  if (j.is_number_integer()) return node.integer();
  if (j.is_number()) return node.number();
  if (j.is_string()) return node.text();
  if (j.is_array()) return Attr::list(read_list(node, read_attr));
  if (j.contains("jaxpr")) {
    node.allow({"jaxpr"});
    return share(read_program(node.at("jaxpr")));
  }
  if (j.contains("lit")) {  // a number that JSON cannot say
    node.allow({"lit", "dtype", "shape"});
    double value = 0;
    if (read_dtype(node.at("dtype")) != Dtype::F64 ||
        !read_element(node.at("lit").json(), Dtype::F64, reinterpret_cast<std::byte*>(&value)))
      node.fail("expected a number of type float64");
    return value;
  }
  return Attr::dict(read_named(node, read_attr));
}

OrderedJson write_attr(const Attr& attr) { return Writer().attribute(attr); }

ClosedJaxpr read_program(const Node& node) {
  node.allow({"constvars", "consts", "invars", "eqns", "outvars"});
  ClosedJaxpr closed;
  Jaxpr& jaxpr = closed.jaxpr;
  Scope scope;
  for (const Node& n : node.at("constvars").items()) jaxpr.constvars.push_back(define(scope, n));
  const Node values = node.at("consts");
  for (const Node& n : values.items()) closed.consts.push_back(read_tensor(n));
  if (closed.consts.size() != jaxpr.constvars.size())
    values.fail("found " + std::to_string(closed.consts.size()) +
                " values, expected one per constvar: " + std::to_string(jaxpr.constvars.size()));
  for (const Node& n : node.at("invars").items()) jaxpr.invars.push_back(define(scope, n));
  for (const Node& n : node.at("eqns").items()) jaxpr.eqns.push_back(equation(scope, n));
  for (const Node& n : node.at("outvars").items()) jaxpr.outs.push_back(atom(scope, n));
  return closed;
}

OrderedJson write_program(const ClosedJaxpr& program) { return Writer().program(program); }

}  // namespace etrace
