#include "etrace/facts.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/dataflow.h"

namespace etrace {

Sign opposite(Sign s) {
  if (s == Sign::Any) return s;
  return s == Sign::NotPositive ? Sign::NotNegative : Sign::NotPositive;
}
Sign product(Sign a, Sign b) {
  if (a == Sign::Any || b == Sign::Any) return Sign::Any;
  if (a == Sign::Unsigned && b == Sign::Unsigned) return Sign::Unsigned;
  return (a == Sign::NotPositive) == (b == Sign::NotPositive) ? Sign::NotNegative : Sign::NotPositive;
}

namespace {
Sign common(Sign a, Sign b) {
  if (a == b) return a;
  const bool negative = a == Sign::NotPositive || b == Sign::NotPositive;
  return negative || a == Sign::Any || b == Sign::Any ? Sign::Any : Sign::NotNegative;
}
}  // namespace

Facts& Facts::operator&=(const Facts& other) {
  sign = common(sign, other.sign);
  finite = std::min(finite, other.finite);
  whole = whole && other.whole;
  zeros = zeros || other.zeros;
  alike = alike && other.alike;
  decided = decided && other.decided;
  return *this;
}

bool FactRequest::any_zeros() const {
  return std::any_of(known.begin(), known.end(), [](const Facts& f) { return f.zeros; });
}
bool FactRequest::all_zeros() const {
  return std::all_of(known.begin(), known.end(), [](const Facts& f) { return f.zeros; });
}
Facts FactRequest::moved(Shows shows, std::size_t first) const {
  if (known.size() <= first) return {};
  Facts f = known[first];
  for (const Facts& other : known.subspan(first)) f &= other;
  f.zeros = any_zeros();
  f.alike = f.decided = false;
  f.shows = shows;
  return f;
}
Facts FactRequest::combined(Sign sign) const {
  Facts f = moved(Shows::All);
  f.sign = sign;
  f.finite = std::min(f.finite, Finite::UnlessOverflow);
  return f;
}

Facts facts_of(const Literal& l) {
  const double v = to_double(l.value);
  Facts f;
  f.sign = std::isnan(v)     ? Sign::Any
           : v < 0.0         ? Sign::NotPositive
           : std::signbit(v) ? Sign::NotNegative
                             : Sign::Unsigned;
  f.finite = std::isfinite(v) ? Finite::Always : Finite::Unknown;
  f.whole = std::isfinite(v) && v == std::floor(v);
  f.zeros = v == 0.0;
  f.alike = true;
  return f;
}

Facts facts_of(const Tensor& t) {
  if (!is_floating(t.dtype()) || t.size() == 0) return {};
  const std::vector<double> values = t.to_doubles();
  Facts f = facts_of(Literal{t.dtype(), values[0]});
  for (const double v : values) f &= facts_of(Literal{t.dtype(), v});
  f.alike = false;
  return f;
}

namespace {

// Do the pieces hold every element of the operands?
bool holds_all(const ViewCode& code, std::span<const Aval> in) {
  std::vector<std::int64_t> held(in.size(), 0);
  for (const ViewCode::Piece& piece : code.pieces) {
    std::int64_t n = 1;
    for (std::size_t a = 0; a < piece.size.size(); ++a) n *= piece.at.step[a] == 0 ? 1 : piece.size[a];
    held[piece.operand] += n;
  }
  for (std::size_t i = 0; i < in.size(); ++i)
    if (held[i] != in[i].shape.size() && i != code.fill) return false;
  return true;
}

Facts by_code(const FactRequest& q, const ViewCode& code) {
  Facts f = q.moved(holds_all(code, q.in) ? Shows::All : Shows::Part);
  f.zeros = f.zeros || code.fill.has_value();
  f.alike = q.in.size() == 1 && q.out[0].shape.size() > q.in[0].shape.size();
  return f;
}
Facts by_code(const FactRequest& q, const ReshapeCode&) { return q.moved(Shows::All); }
Facts by_code(const FactRequest& q, const FoldCode& code) {
  Facts f;
  if (code.op == FoldCode::Sum) f = q.combined(q.x(0).sign);
  if ((code.op == FoldCode::Max || code.op == FoldCode::Min) && q.in[0].shape.size() > 0)
    f = q.moved(Shows::None);
  return f;
}
Facts by_code(const FactRequest&, const MapCode&) { return {}; }
Facts by_code(const FactRequest&, const ProductCode&) { return {}; }
Facts by_code(const FactRequest&, const KernelCode&) { return {}; }

Facts by_class(const Primitive& prim, const FactRequest& q) {
  if (prim.spec.product) {
    Facts f = q.combined(Sign::Any);
    f.shows = Shows::Part;  // kernels leave out zeros
    return f;
  }
  const Emission code =
      prim.spec.emit != nullptr ? prim.spec.emit({q.params, q.in, q.out}) : Emission(KernelCode{});
  Facts f =
      std::visit([&](const auto& c) { return by_code(q, c); }, static_cast<const Emission::variant&>(code));
  f.zeros = f.zeros || q.any_zeros();
  return f;
}

bool is_alike(const FactRequest& q) {
  for (std::size_t i = 0; i < q.in.size(); ++i)
    if (!q.x(i).alike && q.in[i].shape.size() >= q.out[0].shape.size()) return false;
  return true;
}

struct FactRules : DataflowRules<std::optional<Facts>> {
  static bool reached(const Value&) { return true; }
  static Value literal(const Literal& l) { return facts_of(l); }
  static Value constant(const Tensor& t) { return facts_of(t); }
  static bool join(Value& into, const Value& more) {
    const Value before = into;
    if (!into)
      into = more;
    else if (more)
      *into &= *more;
    return into != before;
  }
  static std::vector<Value> step(const Eqn& eqn, const std::vector<Value>& in) {
    std::vector<Facts> known;
    for (const Value& v : in) known.push_back(v.value_or(Facts{}));
    std::vector<Value> out;
    for (std::size_t i = 0; i < eqn.out.size(); ++i) out.emplace_back(facts_of(eqn, known, i));
    return out;
  }
  // Values of rules of derivatives, or of a loop that has not begun, are not those of the equation.
  static void leave(const Eqn& eqn, const std::vector<Value>&, std::vector<Value>& out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = by_type(out[i].value_or(Facts{}), eqn.out[i].aval);
  }
  static Facts by_type(Facts f, const Aval& type) {
    if (is_floating(type.dtype)) return f;
    f.finite = Finite::Always;
    f.whole = true;
    if (type.dtype == Dtype::Bool) f.sign = Sign::Unsigned;
    return f;
  }
};

}  // namespace

Facts facts_of(const Eqn& eqn, std::span<const Facts> known, std::size_t result) {
  Avals in, out;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  for (const Var& v : eqn.out) out.push_back(v.aval);
  const FactRequest q{eqn.params, in, out, known, eqn.in.size() > 1 && eqn.in[0] == eqn.in[1]};
  Facts f = eqn.prim->spec.facts != nullptr ? eqn.prim->spec.facts(q) : by_class(*eqn.prim, q);
  if (eqn.prim->spec.elementwise) f.alike = is_alike(q);
  // Whole numbers wrap around.
  if (eqn.prim->spec.facts != nullptr && !is_floating(out[result].dtype)) f.sign = Sign::Any;
  return FactRules::by_type(f, out[result]);
}

struct KnownFacts::Flow {
  FactRules rules;
  Dataflow<FactRules> values{rules};
};

KnownFacts::KnownFacts(const Jaxpr& program, std::span<const Tensor> constants,
                       std::span<const std::pair<Var, Facts>> given)
    : flow_(std::make_unique<Flow>()) {
  for (const Var& v : program.invars) flow_->values.set(v, Facts{});
  for (std::size_t i = 0; i < program.constvars.size(); ++i)
    flow_->values.set(program.constvars[i], i < constants.size() ? facts_of(constants[i]) : Facts{});
  for (const auto& [v, facts] : given) flow_->values.set(v, facts);
  flow_->values.run(program);
}
KnownFacts::~KnownFacts() = default;
Facts KnownFacts::of(const Atom& a) const { return flow_->values.at(a).value_or(Facts{}); }

}  // namespace etrace
