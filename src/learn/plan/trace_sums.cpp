#include "learn/plan/trace_sums.h"

#include <unordered_map>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/trace_window.h"
#include "learn/plan/bodies.h"

namespace etrace {

namespace {

constexpr std::size_t kGradient = 1;  // among the results of a pass

class Sums {
 public:
  explicit Sums(Jaxpr& j) : j_(j) {
    for (std::size_t i = 0; i < j_.eqns.size(); ++i) {
      for (const Var& v : j_.eqns[i].out) made_by_[v.id] = i;
      count_uses(j_.eqns[i].in);
    }
    count_uses(j_.outs);
  }

  void run() {
    std::vector<bool> gone(j_.eqns.size(), false);
    for (std::size_t i = 0; i < j_.eqns.size(); ++i) gone[i] = taken(i);
    std::vector<Eqn> kept;
    for (std::size_t i = 0; i < gone.size(); ++i)
      if (!gone[i]) kept.push_back(std::move(j_.eqns[i]));
    j_.eqns = std::move(kept);
  }

 private:
  void count_uses(const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) ++uses_[v->id];
  }

  // Whether a pass has taken over this equation.
  bool taken(std::size_t i) {
    const Eqn& sum = j_.eqns[i];
    if (sum.prim != &add_p && sum.prim != &add_any_p) return false;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      Eqn* pass = pass_of(sum.in[side]);
      const Var* so_far = as_var(sum.in[1 - side]);
      if (pass == nullptr || so_far == nullptr || so_far->aval != sum.out[0].aval) continue;
      const std::size_t at = static_cast<std::size_t>(pass - j_.eqns.data());
      if (const auto made = made_by_.find(so_far->id); made != made_by_.end() && made->second >= at) continue;
      pass->in.emplace_back(*so_far);
      pass->params = pass->params.with("has_total", true);
      pass->out[kGradient] = sum.out[0];
      made_by_[sum.out[0].id] = at;
      return true;
    }
    return false;
  }

  // The pass whose gradient this is, if nobody else wants it and it has nothing to add to yet.
  Eqn* pass_of(const Atom& gradient) {
    const Var* v = as_var(gradient);
    if (v == nullptr || uses_[v->id] != 1) return nullptr;
    const auto made = made_by_.find(v->id);
    if (made == made_by_.end()) return nullptr;
    Eqn& eqn = j_.eqns[made->second];
    const bool fits = is_trace_pass(eqn) && eqn.out.size() > kGradient && eqn.out[kGradient] == *v &&
                      !eqn.params.boolean_or("has_total", false);
    return fits ? &eqn : nullptr;
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_, uses_;
};

}  // namespace

ClosedJaxpr sum_in_passes(ClosedJaxpr program) {
  for (Eqn& eqn : program.jaxpr.eqns) map_bodies(eqn, sum_in_passes);
  Sums(program.jaxpr).run();
  return program;
}

}  // namespace etrace
