// Variables, equations and programs: making them, asking for their types, comparing their structure.
#include <atomic>
#include <unordered_map>

#include "core/number_text.h"
#include "etrace/ir.h"

namespace etrace {

namespace {

// Ids are unique in the process and nothing else: they are not printed, not saved and not ordered on, so that
// no result depends on how threads interleave here.
std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

Avals avals_of_vars(const std::vector<Var>& vars) {
  Avals out;
  for (const Var& v : vars) out.push_back(v.aval);
  return out;
}

// Walks two programs side by side and gives their Vars the same numbers, in order of first appearance.
class Matcher {
 public:
  bool match(const Jaxpr& a, const Jaxpr& b) {
    return match(a.constvars, b.constvars) && match(a.invars, b.invars) && match(a.eqns, b.eqns) &&
           match(a.outs, b.outs);
  }

 private:
  using Numbers = std::unordered_map<std::uint64_t, std::size_t>;

  static std::size_t number(Numbers& numbers, const Var& v) {
    return numbers.try_emplace(v.id, numbers.size()).first->second;
  }

  bool match(const Var& a, const Var& b) { return a.aval == b.aval && number(in_a_, a) == number(in_b_, b); }
  bool match(const Atom& a, const Atom& b) {
    if (a.index() != b.index()) return false;
    if (const Var* v = as_var(a)) return match(*v, std::get<Var>(b));
    return std::get<Literal>(a) == std::get<Literal>(b);
  }
  bool match(const Eqn& a, const Eqn& b) {
    return a.prim == b.prim && match(a.in, b.in) && match(a.out, b.out) && a.params == b.params;
  }
  template <class T>
  bool match(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!match(a[i], b[i])) return false;
    return true;
  }

  Numbers in_a_, in_b_;
};

void collect(const Attr& a, std::vector<JaxprPtr>& out) {
  if (const JaxprPtr* j = a.jaxpr()) {
    if (*j != nullptr) out.push_back(*j);
  } else if (const Attr::List* l = a.list_items()) {
    for (const Attr& item : *l) collect(item, out);
  } else if (const Attr::Dict* d = a.dict_items()) {
    for (const auto& item : *d) collect(item.second, out);
  }
}

}  // namespace

Var fresh_var(const Aval& aval) { return {next_id(), aval}; }

Eqn make_eqn(const Primitive& prim, std::vector<Atom> in, std::vector<Var> out, Params params,
             Origin origin) {
  return {&prim, std::move(in), std::move(out), std::move(params), std::move(origin), next_id()};
}

bool operator==(const Literal& a, const Literal& b) {
  if (a.dtype != b.dtype) return false;
  const Scalar x = canonical_value(a), y = canonical_value(b);
  const double* d = std::get_if<double>(&x);
  return d != nullptr ? same_number(*d, std::get<double>(y)) : x == y;
}

Aval aval_of(const Atom& atom) {
  const Var* v = as_var(atom);
  return v != nullptr ? v->aval : std::get<Literal>(atom).aval();
}

Avals Jaxpr::in_avals() const { return avals_of_vars(invars); }

Avals Jaxpr::out_avals() const {
  Avals avals;
  for (const Atom& a : outs) avals.push_back(aval_of(a));
  return avals;
}

bool equal(const Jaxpr& a, const Jaxpr& b) { return &a == &b || Matcher().match(a, b); }

bool equal(const ClosedJaxpr& a, const ClosedJaxpr& b) {
  return equal(a.jaxpr, b.jaxpr) && a.consts == b.consts;
}

std::vector<JaxprPtr> nested_jaxprs(const Eqn& eqn) {
  std::vector<JaxprPtr> out;
  for (const auto& item : eqn.params.items()) collect(item.second, out);
  return out;
}

}  // namespace etrace
