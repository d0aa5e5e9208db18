// Recording: what becomes an input, a constant, a literal or an equation; nesting; origins; evaluation of
// what was recorded.
#include <gtest/gtest.h>

#include "etrace/array.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/primitive.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::difference;

const Aval kVector{Dtype::F64, {3}};
const Array kX = Tensor::of(std::vector<double>{0.5, -1.0, 2.0}, {3});

std::vector<std::string> operations(const Jaxpr& jaxpr) {
  std::vector<std::string> names;
  for (const Eqn& e : jaxpr.eqns) names.emplace_back(e.prim->name());
  return names;
}

TEST(Record, WritesEquationsInTheOrderOfCalls) {
  const ClosedJaxpr j = make_jaxpr(
      [](ArraySpan x) {
        return Arrays{tanh(x[0]) * x[1], x[0] + x[1]};
      },
      Avals{kVector, kVector});
  EXPECT_EQ(operations(j.jaxpr), (std::vector<std::string>{"tanh", "mul", "add"}));
  EXPECT_EQ(j.in_avals(), (Avals{kVector, kVector}));
  EXPECT_EQ(j.out_avals(), (Avals{kVector, kVector}));
  EXPECT_TRUE(j.consts.empty());
  EXPECT_NO_THROW(check(j));
}

TEST(Record, WhatDoesNotDependOnInputsRunsNow) {
  const Array w = kX * 2.0;
  const ClosedJaxpr j = make_jaxpr([&](ArraySpan x) { return Arrays{x[0] * exp(w)}; }, Avals{kVector});
  EXPECT_EQ(operations(j.jaxpr), (std::vector<std::string>{"mul"}));
  ASSERT_EQ(j.consts.size(), 1U);
  EXPECT_FALSE(difference(j.consts[0], exp(w).tensor(), 0.0));
}

TEST(Record, CapturesAnArrayOnce) {
  const ClosedJaxpr j = make_jaxpr([&](ArraySpan x) { return Arrays{x[0] * kX + kX, kX}; }, Avals{kVector});
  EXPECT_EQ(j.jaxpr.constvars.size(), 1U);
  ASSERT_EQ(j.consts.size(), 1U);
  EXPECT_EQ(j.consts[0], kX.tensor());
  EXPECT_EQ(std::get<Var>(j.jaxpr.outs[1]), j.jaxpr.constvars[0]);
}

TEST(Record, ScalarsBecomeLiterals) {
  const Array scalar = Tensor::full({Dtype::F64, {}}, 0.25);
  const ClosedJaxpr j = make_jaxpr(
      [&](ArraySpan x) {
        return Arrays{x[0] * 3.0, bind1(mul_p, {x[0], scalar})};
      },
      Avals{kVector});
  EXPECT_TRUE(j.jaxpr.constvars.empty());
  ASSERT_EQ(j.jaxpr.eqns.size(), 2U);
  const auto* literal = std::get_if<Literal>(&j.jaxpr.eqns[1].in[1]);
  ASSERT_NE(literal, nullptr);
  EXPECT_EQ(*literal, (Literal{Dtype::F64, 0.25}));
}

TEST(Record, SplatsBecomeOneBroadcastLiteral) {
  const ClosedJaxpr j = make_jaxpr(
      [](ArraySpan x) {
        const Array one = full({3}, 1.0, Dtype::F64);
        return Arrays{bind1(add_p, {x[0], one}), bind1(mul_p, {x[0], full({3}, 1.0, Dtype::F64)}),
                      full({3}, 2.0, Dtype::F64)};
      },
      Avals{kVector});
  EXPECT_TRUE(j.jaxpr.constvars.empty());
  EXPECT_EQ(operations(j.jaxpr),
            (std::vector<std::string>{"broadcast_in_dim", "add", "mul", "broadcast_in_dim"}));
  EXPECT_FALSE(difference(eval_jaxpr(j, Arrays{kX}), Arrays{kX + 1.0, kX, full({3}, 2.0, Dtype::F64)}, 0.0));
}

TEST(Record, OutputsMayBeInputsLiteralsAndDuplicates) {
  const ClosedJaxpr j = make_jaxpr(
      [](ArraySpan x) {
        return Arrays{x[0], x[0], full({}, 7.0, Dtype::F64)};
      },
      Avals{kVector});
  EXPECT_TRUE(j.jaxpr.eqns.empty());
  EXPECT_EQ(std::get<Var>(j.jaxpr.outs[0]), j.jaxpr.invars[0]);
  EXPECT_EQ(std::get<Var>(j.jaxpr.outs[1]), j.jaxpr.invars[0]);
  EXPECT_TRUE(std::holds_alternative<Literal>(j.jaxpr.outs[2]));
}

TEST(Record, FunctionsWithoutInputsOrOutputs) {
  const ClosedJaxpr constant = make_jaxpr([](ArraySpan) { return Arrays{kX}; }, Avals{});
  EXPECT_EQ(constant.consts.size(), 1U);
  const ClosedJaxpr nothing = make_jaxpr([](ArraySpan) { return Arrays{}; }, Avals{kVector});
  EXPECT_TRUE(nothing.jaxpr.outs.empty());
  EXPECT_NO_THROW(check(nothing));
}

TEST(Record, TracersHaveTypesButNoNumbers) {
  make_jaxpr(
      [](ArraySpan x) {
        EXPECT_TRUE(x[0].is_tracer());
        EXPECT_EQ(x[0].aval(), kVector);
        EXPECT_FALSE(x[0].splat().has_value());
        EXPECT_THROW(x[0].tensor(), TypeError);
        EXPECT_THROW((void)sum(x[0]).item<double>(), TypeError);
        EXPECT_THROW(to_tensors(x), TypeError);
        return Arrays{};
      },
      Avals{kVector});
}

TEST(Record, LeakedTracerIsATypeError) {
  Array leaked;
  make_jaxpr(
      [&](ArraySpan x) {
        leaked = x[0];
        return Arrays{x[0]};
      },
      Avals{kVector});
  EXPECT_THROW(leaked + 1.0, TypeError);
  EXPECT_THROW(leaked.tensor(), TypeError);
  EXPECT_THROW(make_jaxpr([&](ArraySpan x) { return Arrays{x[0] + leaked}; }, Avals{kVector}), TypeError);
  EXPECT_THROW(make_jaxpr([&](ArraySpan) { return Arrays{leaked}; }, Avals{kVector}), TypeError);
}

TEST(Record, TracerOfATraceThatFailedIsATypeErrorToo) {
  Array leaked;
  EXPECT_THROW(make_jaxpr(
                   [&](ArraySpan x) -> Arrays {
                     leaked = x[0];
                     throw ValueError("model", "stop");
                   },
                   Avals{kVector}),
               ValueError);
  EXPECT_THROW(leaked + 1.0, TypeError);
}

TEST(Record, NestedRecordingCapturesTracersOfTheOuterOne) {
  const ClosedJaxpr outer = make_jaxpr(
      [](ArraySpan x) {
        const Array y = sin(x[0]);
        const Recording inner =
            record(Avals{kVector}, [&](ArraySpan z) { return Arrays{z[0] * y + kX * y}; });
        // kX * y has no operand of the inner recording, so it belongs to the outer one.
        EXPECT_EQ(operations(inner.jaxpr), (std::vector<std::string>{"mul", "add"}));
        EXPECT_EQ(inner.captured.size(), 2U);
        for (const Array& c : inner.captured) EXPECT_TRUE(c.is_tracer());
        EXPECT_THROW(close(inner), CompilationError);
        return eval_jaxpr(inner.jaxpr, inner.captured, Arrays{x[0]});
      },
      Avals{kVector});
  EXPECT_FALSE(difference(eval_jaxpr(outer, Arrays{kX}), Arrays{kX * sin(kX) + kX * sin(kX)}, 1e-15));
  EXPECT_EQ(outer.consts.size(), 1U);
}

TEST(Record, InnerTracerReturnedToTheOuterTraceIsATypeError) {
  EXPECT_THROW(make_jaxpr(
                   [](ArraySpan x) {
                     Array inside;
                     record(Avals{kVector}, [&](ArraySpan z) {
                       inside = z[0] * x[0];
                       return Arrays{inside};
                     });
                     return Arrays{inside};
                   },
                   Avals{kVector}),
               TypeError);
}

TEST(EvalJaxpr, EvaluatesAndInlines) {
  const ClosedJaxpr f = make_jaxpr([](ArraySpan x) { return Arrays{tanh(x[0] * kX), x[0]}; }, Avals{kVector});
  EXPECT_FALSE(difference(eval_jaxpr(f, Arrays{kX}), Arrays{tanh(kX * kX), kX}, 0.0));
  const ClosedJaxpr g = make_jaxpr([&](ArraySpan x) { return eval_jaxpr(f, x); }, Avals{kVector});
  EXPECT_TRUE(equal(f, g)) << to_string(g);
}

TEST(EvalJaxpr, WrongNumberOfArgumentsIsAValueError) {
  const ClosedJaxpr f = make_jaxpr([](ArraySpan x) { return Arrays{x[0] + x[1]}; }, Avals{kVector, kVector});
  EXPECT_THROW(eval_jaxpr(f, Arrays{kX}), ValueError);
  EXPECT_THROW(eval_jaxpr(f.jaxpr, Arrays{kX}, Arrays{kX, kX}), ValueError);
}

TEST(EvalJaxpr, KeepsOriginsOfEquations) {
  ClosedJaxpr f;
  {
    const OriginScope scope({{"cell"}, "model.cpp", 7});
    f = make_jaxpr([](ArraySpan x) { return Arrays{tanh(x[0])}; }, Avals{kVector});
  }
  const OriginScope elsewhere({{"other"}, "other.cpp", 1});
  const ClosedJaxpr g = make_jaxpr([&](ArraySpan x) { return eval_jaxpr(f, x); }, Avals{kVector});
  EXPECT_EQ(to_string(g.jaxpr.eqns[0].origin), "cell (model.cpp:7)");
}

TEST(OriginScope, JoinsModulesAndRestores) {
  EXPECT_TRUE(OriginScope::current().empty());
  {
    const OriginScope net({{"net"}, "", 0});
    {
      const OriginScope cell({{"cell", "W"}, "model.cpp", 42});
      EXPECT_EQ(to_string(OriginScope::current()), "net.cell.W (model.cpp:42)");
      {
        const OriginScope absolute({{"elsewhere"}, "", 0}, OriginScope::Absolute);
        EXPECT_EQ(to_string(OriginScope::current()), "elsewhere");
      }
      {
        const OriginScope unknown({}, OriginScope::Absolute);
        EXPECT_EQ(to_string(OriginScope::current()), "net.cell.W (model.cpp:42)");
      }
    }
    EXPECT_EQ(to_string(OriginScope::current()), "net");
  }
  EXPECT_TRUE(OriginScope::current().empty());
}

TEST(OriginScope, MarksRecordedEquations) {
  const ClosedJaxpr j = make_jaxpr(
      [](ArraySpan x) {
        const OriginScope scope({{"rnn", "W"}, "model.cpp", 3});
        const Array y = x[0] * 2.0;
        const OriginScope inner({{"act"}, "", 0});
        return Arrays{tanh(y)};
      },
      Avals{kVector});
  EXPECT_EQ(to_string(j.jaxpr.eqns[0].origin), "rnn.W (model.cpp:3)");
  EXPECT_EQ(to_string(j.jaxpr.eqns[1].origin), "rnn.W.act (model.cpp:3)");
}

}  // namespace
}  // namespace etrace
