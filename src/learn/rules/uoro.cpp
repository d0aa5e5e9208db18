// UORO: an unbiased estimate of RTRL within each group, of rank one (learn/rules/random_projection.cpp).
#include "etrace/rules.h"

namespace etrace {

UORO::UORO(const RandomProjectionOptions& o)
    : ConfiguredRule("UORO",
                     ETraceAxes{.trace_factorization = TraceFactorization::RandomProjection,
                                .recurrence_scope = RecurrenceScope::Coupled},
                     {.projection = o}) {}

namespace {

const RegisterRule kUoro(
    {.name = "UORO",
     .aliases = {"RandomProjectionVjpAlgorithm"},
     .doc = "a random estimate of all influence within a group; memory parameters + batch x states of "
            "all units",
     .expectation = LearningRule::Theory::Approximate,
     .gradient = "exact in the mean over its draws, within each group; noisy",
     .options = {{"projection_key", RuleOption::Type::Integer, "42", "any", "from which signs are drawn"},
                 {"projection_eps", RuleOption::Type::Number, "1e-12", "positive",
                  "keeps the two factors apart from zero"},
                 {"fast_solve", RuleOption::Type::Flag, "true", "true, false",
                  "how the reference system sums; it changes nothing"}},
     .make = [](const RuleOptions& o) {
       RandomProjectionOptions own;
       if (const auto key = o.integer("projection_key"))
         own.projection_key = static_cast<std::uint64_t>(*key);
       own.projection_eps = o.number("projection_eps").value_or(own.projection_eps);
       return std::make_shared<UORO>(own);
     }});

}  // namespace

}  // namespace etrace
