// pp_prop (ES-D-RTRL): the trace as a product of an input side and an output side, both low-pass filtered
// (learn/rules/filtered_sides.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "etrace/rules.h"

namespace etrace {

DecayOrRank::DecayOrRank(double decay) : decay_(decay) {
  if (!(decay >= 0.0 && decay < 1.0))
    throw ValueError("pp_prop", fmt::format("decay {}; it must lie in [0, 1)", decay));
}
DecayOrRank::DecayOrRank(int rank) : decay_(static_cast<double>(rank - 1) / static_cast<double>(rank + 1)) {
  if (rank < 1) throw ValueError("pp_prop", fmt::format("rank {}; it must be at least 1", rank));
}
int DecayOrRank::rank() const { return static_cast<int>(std::lround(2.0 / (1.0 - decay_) - 1.0)); }

pp_prop::pp_prop(const IODimOptions& o)
    : ConfiguredRule("pp_prop", ETraceAxes{.trace_factorization = TraceFactorization::IoFactorized,
                                           .decay = PerSide<double>(
                                               o.input_decay_or_rank.value_or(o.decay_or_rank).decay(),
                                               o.decay_or_rank.decay())}) {}

namespace {

// A whole number is a rank, any other a decay.
DecayOrRank decay_or_rank_of(const Attr& a) {
  if (const auto* rank = a.get_if<std::int64_t>())
    return {static_cast<int>(std::clamp<std::int64_t>(*rank, -1, 1 << 30))};
  if (const auto* decay = a.get_if<double>()) return {*decay};
  throw TypeError(
      "pp_prop", "decay_or_rank is " + to_string(a) + "; it takes a decay in [0, 1) or a rank of at least 1");
}

const RegisterRule kPpProp(
    {.name = "pp_prop",
     .aliases = {"ES_D_RTRL", "ESD_RTRL", "IODimVjpAlgorithm"},
     .doc = "the trace as a product of two low-pass filtered sides; memory batch x (inputs + outputs "
            "x states of a unit)",
     .expectation = LearningRule::Theory::Approximate,
     .gradient = "approximate: a rank-one trace",
     .options = {{"decay_or_rank", RuleOption::Type::Number, "0.95", "a decay in [0, 1) or a rank ≥ 1",
                  "how slowly both sides forget; in files also a pair (input side, output side)"},
                 {"input_decay_or_rank", RuleOption::Type::Number, "", "a decay in [0, 1) or a rank ≥ 1",
                  "the same for the input side alone"}},
     .make =
         [](const RuleOptions& o) {
           IODimOptions own;
           if (const Attr* both = o.find("decay_or_rank")) {
             const Attr::List* pair = both->list_items();
             const Dims* ranks = both->ints();
             if (pair != nullptr && pair->size() == 2) {
               own.input_decay_or_rank = decay_or_rank_of((*pair)[0]);
               own.decay_or_rank = decay_or_rank_of((*pair)[1]);
             } else if (ranks != nullptr && ranks->size() == 2) {
               own.input_decay_or_rank = decay_or_rank_of((*ranks)[0]);
               own.decay_or_rank = decay_or_rank_of((*ranks)[1]);
             } else {
               own.decay_or_rank = decay_or_rank_of(*both);
             }
           }
           if (const Attr* x = o.find("input_decay_or_rank")) own.input_decay_or_rank = decay_or_rank_of(*x);
           return std::make_shared<pp_prop>(own);
         },
     .compared = {{}, {{"decay_or_rank", 0.8}}}});

}  // namespace

}  // namespace etrace
