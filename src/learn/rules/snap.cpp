// SnAp-n: D-RTRL whose traces hold the influence of a parameter on every position that its own position
// reaches within n − 1 steps of the recurrence. The compiler finds these positions (PositionPattern); per
// anchor p
//   e[(k,a)] ← Σ J[nbr(p,k),a, nbr(p,k'),b]·e[(k',b)] + [k = 0]·f[p,a]·x        signals λ[nbr(p,k),a]
// n = 1 keeps the position itself: OSTLRecurrent. Once nothing more is reached, it is RTRL.
#include <fmt/format.h>

#include "etrace/error.h"
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

namespace {

ETraceAxes snap_axes(std::int64_t n) {
  if (n < 1) throw ValueError("SnAp", fmt::format("n is {}; it must be at least 1", n));
  return {.recurrence_scope = RecurrenceScope::SparseN, .sparse_n = n};
}

}  // namespace

SnAp::SnAp(const SnApOptions& o)
    : ConfiguredRule("SnAp", snap_axes(o.n),
                     {.trace_dtype = o.trace_dtype, .snap_max_jacobian_elements = o.max_jacobian_elements}) {}

namespace {

const RegisterRule kSnap(
    {.name = "SnAp",
     .aliases = {"snap_n"},
     .doc = "D_RTRL with the influence on all positions that are reached within n - 1 steps; memory batch x "
            "weights x states of a unit x positions",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "exact once n - 1 steps reach every position that is ever reached",
     .options = {{"n", RuleOption::Type::Integer, "2", "at least 1",
                  "steps + 1 within which influence is kept"},
                 {"snap_max_jacobian_elements", RuleOption::Type::Integer, "16777216", "at least 1",
                  "refuse if positions x (neighbours x states)² is more"},
                 trace_dtype_option()},
     .make = [](const RuleOptions& o) {
       SnApOptions own;
       own.n = o.integer("n").value_or(own.n);
       own.max_jacobian_elements =
           o.integer("snap_max_jacobian_elements").value_or(own.max_jacobian_elements);
       own.trace_dtype = o.dtype("trace_dtype");
       return std::make_shared<SnAp>(own);
     }});

}  // namespace

}  // namespace etrace
