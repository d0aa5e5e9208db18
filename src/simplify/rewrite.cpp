#include "simplify/rewrite.h"

#include <algorithm>
#include <cstring>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"

namespace etrace {

bool same_atom(const Atom& a, const Atom& b) {
  const Var *va = as_var(a), *vb = as_var(b);
  if ((va != nullptr) != (vb != nullptr)) return false;
  return va != nullptr ? *va == *vb : std::get<Literal>(a) == std::get<Literal>(b);
}

namespace {

constexpr std::int64_t kReadUpTo = 1 << 24;  // elements of what is evaluated while a program is rewritten

// Hashes ----------------------------------------------------------------------------------------------------
std::size_t mixed(std::size_t h, std::size_t next) { return (h ^ next) * 1099511628211U; }

// Nested programs count by their size only, long lists by their front: the comparison that follows looks at
// all.
std::size_t attr_hash(const Attr& attr) {
  std::size_t h = attr.value().index();
  if (const auto* b = attr.get_if<bool>()) return mixed(h, *b ? 1 : 0);
  if (const auto* i = attr.get_if<std::int64_t>()) return mixed(h, static_cast<std::size_t>(*i));
  if (const auto* d = attr.get_if<double>()) return mixed(h, *d == *d ? std::hash<double>()(*d) : 1);
  if (const auto* s = attr.get_if<std::string>()) return mixed(h, std::hash<std::string>()(*s));
  const auto integers = [&](const auto& list) {
    h = mixed(h, list.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(list.size(), 64); ++i)
      h = mixed(h, static_cast<std::size_t>(list[i]));
  };
  if (const Dims* dims = attr.ints()) integers(*dims);
  if (const auto* table = attr.table()) integers(**table);
  if (const Attr::List* list = attr.list_items())
    for (const Attr& item : *list) h = mixed(h, attr_hash(item));
  if (const Attr::Dict* items = attr.dict_items())
    for (const auto& item : *items) h = mixed(h, attr_hash(item.second));
  if (const JaxprPtr* j = attr.jaxpr(); j != nullptr && *j != nullptr) h = mixed(h, (*j)->jaxpr.eqns.size());
  return h;
}

std::size_t atom_hash(const Atom& a) {
  if (const Var* v = as_var(a)) return std::hash<std::uint64_t>()(v->id);
  const double d = to_double(std::get<Literal>(a).value);
  return d == d ? std::hash<double>()(d) : 1;
}

// a∘b and b∘a have the same bits (of two NaNs either may come out).
bool commutes(const Primitive& p) {
  return &p == &add_p || &p == &add_any_p || &p == &mul_p || &p == &and_p || &p == &or_p || &p == &xor_p ||
         &p == &eq_p || &p == &ne_p;
}

std::size_t computation_hash(const Eqn& eqn) {
  std::size_t h = std::hash<const void*>()(eqn.prim);
  if (commutes(*eqn.prim) && eqn.in.size() == 2)
    h = mixed(h, atom_hash(eqn.in[0]) + atom_hash(eqn.in[1]));
  else
    for (const Atom& a : eqn.in) h = mixed(h, atom_hash(a));
  for (const auto& item : eqn.params.items()) h = mixed(h, attr_hash(item.second));
  return h;
}

bool same_computation(const Eqn& a, const Eqn& b) {
  if (a.prim != b.prim || a.in.size() != b.in.size()) return false;
  const bool in_order = std::equal(a.in.begin(), a.in.end(), b.in.begin(), same_atom);
  const bool swapped = !in_order && a.in.size() == 2 && commutes(*a.prim) && same_atom(a.in[0], b.in[1]) &&
                       same_atom(a.in[1], b.in[0]);
  return (in_order || swapped) && a.params == b.params;
}

// Of a few elements spread over the whole: equal tensors have equal ones, and no more is asked.
std::size_t sample_hash(const Tensor& t) {
  const std::size_t bytes = t.aval().bytes(), step = std::max<std::size_t>(1, bytes / 64);
  std::size_t h = mixed(bytes, static_cast<std::size_t>(t.dtype()));
  for (const std::int64_t n : t.shape()) h = mixed(h, static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes; i += step) h = mixed(h, static_cast<std::size_t>(t.bytes()[i]));
  return h;
}

}  // namespace

std::optional<Literal> uniform_value(const Tensor& t) {
  const std::size_t bytes = t.aval().bytes(), one = size_of(t.dtype());
  if (bytes == 0 || std::memcmp(t.bytes(), t.bytes() + one, bytes - one) != 0) return std::nullopt;
  const Literal value{t.dtype(), t.at(0)};
  // A literal keeps no payload of a NaN.
  const Tensor back = Tensor::full({t.dtype(), {}}, value.value);
  return std::memcmp(back.bytes(), t.bytes(), one) == 0 ? std::optional(value) : std::nullopt;
}

namespace {

// A tensor as a smaller one, repeated along the axes that are not named.
struct Repeats {
  Tensor values;
  Dims axes;  // of the tensor, one for each axis of the values
};

// All entries along an axis are the same: blocks of `inner` bytes, `n` of them side by side.
bool same_along(const std::byte* data, std::size_t outer, std::size_t n, std::size_t inner) {
  for (std::size_t o = 0; o < outer; ++o)
    if (std::memcmp(data + o * n * inner, data + o * n * inner + inner, (n - 1) * inner) != 0) return false;
  return true;
}

// Looks no further along an axis than to the first difference.
Repeats repeats_of(const Tensor& t) {
  Repeats r{t, {}};
  if (t.size() == 0) {
    for (std::size_t i = 0; i < t.shape().rank(); ++i) r.axes.push_back(static_cast<std::int64_t>(i));
    return r;
  }
  for (std::size_t axis = 0, own = 0; axis < t.shape().rank(); ++axis) {
    const Shape& shape = r.values.shape();
    const auto n = static_cast<std::size_t>(shape[own]);
    std::size_t outer = 1, inner = size_of(t.dtype());
    for (std::size_t i = 0; i < shape.rank(); ++i)
      (i < own ? outer : inner) *= i == own ? 1 : static_cast<std::size_t>(shape[i]);
    if (n == 1 || !same_along(r.values.bytes(), outer, n, inner)) {
      r.axes.push_back(static_cast<std::int64_t>(axis));
      ++own;
      continue;
    }
    Tensor smaller = Tensor::uninitialized({t.dtype(), shape.without(own)});
    for (std::size_t o = 0; o < outer; ++o)
      std::memcpy(smaller.writable() + o * inner, r.values.bytes() + o * n * inner, inner);
    r.values = smaller;
  }
  return r;
}

}  // namespace

// Rules -----------------------------------------------------------------------------------------------------
std::vector<Rule> RuleTable::of(const Primitive& p) const {
  std::vector<Rule> out;
  if (const auto it = of_primitive_.find(&p); it != of_primitive_.end()) out = it->second;
  if (!elementwise_.empty() && p.spec.elementwise)
    out.insert(out.end(), elementwise_.begin(), elementwise_.end());
  return out;
}

const std::vector<ManyResultsRule>* RuleTable::many(const Primitive& p) const {
  const auto it = many_.find(&p);
  return it == many_.end() ? nullptr : &it->second;
}

const RuleTable& canonical_rules() {
  static const RuleTable table = [] {
    RuleTable t;
    add_shape_rules(t);
    add_arithmetic_rules(t);
    add_product_rules(t);
    add_final_rules(t);
    return t;
  }();
  return table;
}

const std::vector<Rule>& Rewriter::rules_of(const Primitive& p) {
  const auto [it, fresh] = rules_.try_emplace(&p);
  if (fresh && options_.rules != nullptr) it->second = options_.rules->of(p);
  return it->second;
}

// Questions -------------------------------------------------------------------------------------------------
const Eqn* Rewriter::definition(const Atom& a) const {
  const Var* v = as_var(a);
  if (v == nullptr) return nullptr;
  const auto it = definitions_.find(v->id);
  return it == definitions_.end() ? nullptr : it->second;
}

const Eqn* Rewriter::definition(const Atom& a, const Primitive& p) const {
  const Eqn* eqn = definition(a);
  return eqn != nullptr && eqn->prim == &p ? eqn : nullptr;
}

std::optional<Literal> Rewriter::uniform(const Atom& a) const {
  if (const auto* literal = std::get_if<Literal>(&a)) return *literal;
  const Eqn* eqn = definition(a, broadcast_in_dim_p);
  if (eqn == nullptr) return std::nullopt;
  const auto* literal = std::get_if<Literal>(&eqn->in[0]);
  return literal != nullptr ? std::optional(*literal) : std::nullopt;
}

bool Rewriter::used_once(const Atom& a) const {
  const Var* v = as_var(a);
  if (v == nullptr) return false;
  const auto it = uses_.find(v->id);
  return it == uses_.end() || it->second <= 1;
}

Array Rewriter::known(const Atom& a) const {
  if (const auto value = uniform(a)) return etrace::full(aval_of(a).shape, value->value, value->dtype);
  const auto it = constant_of_.find(std::get<Var>(a).id);
  if (it != constant_of_.end()) return consts_[it->second];
  const Eqn* repeat = definition(a, broadcast_in_dim_p);
  if (repeat == nullptr || aval_of(a).shape.size() > options_.fold_up_to) return {};
  const Array source = known(repeat->in[0]);
  return source.defined() ? bind1(broadcast_in_dim_p, {source}, repeat->params) : Array();
}

Atom Rewriter::replaced(const Atom& a) const {
  const Var* v = as_var(a);
  if (v == nullptr) return a;
  const auto it = replacements_.find(v->id);
  return it == replacements_.end() ? a : it->second;
}

void Rewriter::replace(const Var& from, const Atom& to) {
  const Var* v = as_var(to);
  if (v != nullptr && *v == from) return;
  ETRACE_CHECK(aval_of(to) == from.aval);
  changed_ = true;
  replacements_.insert_or_assign(from.id, to);
  if (v != nullptr) uses_[v->id] += uses_[from.id];
}

// Writing ---------------------------------------------------------------------------------------------------
Atom Rewriter::full(const Aval& aval, const Literal& value) {
  if (aval.shape.is_scalar()) return value;
  return write(broadcast_in_dim_p, {value}, {{"shape", aval.shape}, {"broadcast_dimensions", Dims{}}});
}

Atom Rewriter::add_constant(const Tensor& t, const Var* name) {
  if (options_.merge_constants) {
    if (const auto value = uniform_value(t)) return full(t.aval(), *value);
    if (const Repeats r = repeats_of(t); r.axes.size() < t.shape().rank())
      return write(broadcast_in_dim_p, {add_constant(r.values, nullptr)},
                   {{"shape", t.shape()}, {"broadcast_dimensions", r.axes}});
    const auto [first, last] = seen_constants_.equal_range(sample_hash(t));
    for (auto it = first; it != last; ++it)
      if (consts_[it->second] == t) return constvars_[it->second];
    seen_constants_.emplace(sample_hash(t), consts_.size());
  }
  const Var var = name != nullptr ? *name : fresh_var(t.aval());
  constant_of_.emplace(var.id, consts_.size());
  constvars_.push_back(var);
  consts_.push_back(t);
  return var;
}

Atom Rewriter::constant(const Tensor& t) { return add_constant(t, nullptr); }

Atom Rewriter::write(const Primitive& p, std::vector<Atom> in, const Params& params) {
  return write_all(p, std::move(in), params)[0];
}

std::vector<Atom> Rewriter::write_all(const Primitive& p, std::vector<Atom> in, const Params& params) {
  Avals types;
  for (const Atom& a : in) types.push_back(aval_of(a));
  std::vector<Var> out;
  for (const Aval& aval : abstract_eval(p, params, types)) out.push_back(fresh_var(aval));
  return reduce(make_eqn(p, std::move(in), std::move(out), params, origin_));
}

bool Rewriter::accepts(const Eqn& eqn, std::span<const Aval> in, const Aval& out) {
  try {
    return abstract_eval(*eqn.prim, eqn.params, in) == Avals{out};
  } catch (const Error&) {
    return false;
  }
}

std::vector<Atom> Rewriter::write_copy(const Eqn& eqn) {
  std::vector<Var> out;
  for (const Var& v : eqn.out) out.push_back(fresh_var(v.aval));
  return reduce(make_eqn(*eqn.prim, eqn.in, std::move(out), eqn.params, eqn.origin));
}

std::optional<std::vector<Atom>> Rewriter::rewritten(const Eqn& eqn) {
  if (eqn.out.size() == 1)
    for (const Rule rule : rules_of(*eqn.prim))
      if (std::optional<Atom> same = rule(*this, eqn)) return std::vector<Atom>{*same};
  if (options_.rules != nullptr)
    if (const auto* rules = options_.rules->many(*eqn.prim))
      for (const ManyResultsRule rule : *rules)
        if (auto same = rule(*this, eqn)) return same;
  return std::nullopt;
}

// What is known is evaluated; loops are left alone, since nobody knows how long they take.
std::optional<std::vector<Atom>> Rewriter::folded(const Eqn& eqn) {
  if (options_.fold_up_to == 0 || eqn.out.empty()) return std::nullopt;
  if (eqn.prim == &broadcast_in_dim_p) return std::nullopt;  // repeating computes nothing and costs memory
  std::int64_t size = 0;
  for (const Var& v : eqn.out) size += v.aval.shape.size();
  if (size > options_.fold_up_to) return std::nullopt;
  Arrays in;
  std::int64_t read = 0;
  for (const Atom& a : eqn.in) {
    in.push_back(known(a));
    if (!in.back().defined()) return std::nullopt;
    read += in.back().size();
  }
  if (read > kReadUpTo || !nested_jaxprs(eqn).empty()) return std::nullopt;
  std::vector<Atom> out;
  for (const Array& a : bind_primitive(*eqn.prim, in, eqn.params)) {
    if (a.shape().is_scalar())
      out.emplace_back(Literal{a.dtype(), a.tensor().at(0)});
    else
      out.push_back(constant(a.tensor()));
  }
  return out;
}

std::optional<std::vector<Atom>> Rewriter::twin(const Eqn& eqn, std::size_t hash) const {
  const auto [first, last] = seen_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (same_computation(*it->second, eqn))
      return std::vector<Atom>(it->second->out.begin(), it->second->out.end());
  return std::nullopt;
}

std::vector<Atom> Rewriter::reduce(Eqn eqn) {
  if (auto same = rewritten(eqn)) return std::move(*same);
  if (auto same = folded(eqn)) return std::move(*same);
  const std::size_t hash = computation_hash(eqn);
  if (auto same = twin(eqn, hash)) return std::move(*same);
  const Eqn& kept = eqns_.emplace_back(std::move(eqn));
  for (const Var& v : kept.out) definitions_.emplace(v.id, &kept);
  seen_.emplace(hash, &kept);
  return {kept.out.begin(), kept.out.end()};
}

ClosedJaxpr Rewriter::run(ClosedJaxpr closed) {
  const auto count_uses = [&](const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) ++uses_[v->id];
  };
  for (const Eqn& eqn : closed.jaxpr.eqns) count_uses(eqn.in);
  count_uses(closed.jaxpr.outs);
  const auto rename = [&](std::vector<Atom>& atoms) {
    for (Atom& a : atoms) a = replaced(a);
  };
  for (std::size_t i = 0; i < closed.consts.size(); ++i)
    replace(closed.jaxpr.constvars[i], add_constant(closed.consts[i], &closed.jaxpr.constvars[i]));
  for (Eqn& eqn : closed.jaxpr.eqns) {
    origin_ = eqn.origin;
    rename(eqn.in);
    const std::vector<Var> out = eqn.out;
    const std::vector<Atom> same = reduce(std::move(eqn));
    for (std::size_t i = 0; i < out.size(); ++i) replace(out[i], same[i]);
  }
  rename(closed.jaxpr.outs);
  closed.jaxpr.constvars = std::move(constvars_);
  closed.consts = std::move(consts_);
  closed.jaxpr.eqns.assign(std::make_move_iterator(eqns_.begin()), std::make_move_iterator(eqns_.end()));
  return closed;
}

ClosedJaxpr eliminate_common_subexpressions(const ClosedJaxpr& closed) {
  return Rewriter({.merge_constants = false}).run(closed);
}

ClosedJaxpr fold_constants(const ClosedJaxpr& closed, std::int64_t max_elements) {
  static const RuleTable identities = [] {
    RuleTable t;
    add_arithmetic_rules(t);
    return t;
  }();
  return eliminate_dead_code(Rewriter({.rules = &identities, .fold_up_to = max_elements}).run(closed));
}

bool rewrite(ClosedJaxpr& closed, const RewriteOptions& options) {
  Rewriter rewriter(options);
  closed = rewriter.run(std::move(closed));
  return rewriter.changed();
}

}  // namespace etrace
