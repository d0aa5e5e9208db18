// What a row of somebody else says of itself counts; of one that says nothing, nothing is known (tests/
// strangers.cpp).
#include <gtest/gtest.h>

#include "compiler/position_graph.h"
#include "etrace/axes.h"
#include "etrace/facts.h"
#include "etrace/transform.h"

namespace etrace::testing {
namespace {

ClosedJaxpr program_of(const char* name) {
  const Primitive& p = *find_primitive(name);
  return make_jaxpr([&](ArraySpan x) { return bind_primitive(p, x); }, Avals{{Dtype::F64, {2, 3}}});
}

TEST(Strangers, SayNothingAndNothingIsKnown) {
  const ClosedJaxpr program = program_of("stranger");
  const AxisTable t = axes_of(program.jaxpr.eqns[0]);
  for (const auto& axis : t.from[0]) EXPECT_EQ(axis[0], AxisSource{});
  EXPECT_EQ(KnownFacts(program.jaxpr).of(program.jaxpr.outs[0]), Facts{});
  EXPECT_NE(why_sample_values_mix(program.jaxpr, program.jaxpr.invars, 2), "");
  EXPECT_NE(why_samples_mix(program.jaxpr, program.jaxpr.invars, 2), "");
}

TEST(Strangers, AreBelievedWhatTheySay) {
  const ClosedJaxpr program = program_of("stranger_that_speaks");
  EXPECT_EQ(KnownFacts(program.jaxpr).of(program.jaxpr.outs[0]).sign, Sign::Unsigned);
  EXPECT_EQ(why_sample_values_mix(program.jaxpr, program.jaxpr.invars, 2), "");
  EXPECT_EQ(why_samples_mix(program.jaxpr, program.jaxpr.invars, 2), "");
  const PositionSweep units = sweep_positions(program.jaxpr, program.jaxpr.invars, {2, 3}, Compat::None);
  EXPECT_FALSE(units.preserving());
  EXPECT_NE(units.reason.find("stranger_that_speaks"), std::string::npos) << units.reason;
}

}  // namespace
}  // namespace etrace::testing
