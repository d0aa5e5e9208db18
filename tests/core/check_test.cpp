// The type checker: one test per kind of fault; each message names place, primitive, found and expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/programs.h"

namespace etrace {
namespace {

using test::call;
using test::kF32x3;
using test::kF64;
using test::literal;
using test::square_plus;
using ::testing::HasSubstr;
using ::testing::Not;

std::string fault_of(const ClosedJaxpr& program) {
  try {
    check(program);
  } catch (const CompilationError& e) {
    EXPECT_EQ(e.stage(), "check");
    return e.what();
  }
  return "no error";
}

TEST(Check, AcceptsWellFormedPrograms) {
  EXPECT_EQ(fault_of(square_plus(1.0)), "no error");
  EXPECT_EQ(fault_of(call(square_plus(1.0))), "no error");
  EXPECT_EQ(fault_of({{{}, {}, {}, {}}, {}}), "no error");
}

TEST(Check, UseBeforeDefinition) {
  ClosedJaxpr p = square_plus(1.0);
  std::swap(p.jaxpr.eqns[0], p.jaxpr.eqns[1]);
  EXPECT_THAT(fault_of(p),
              HasSubstr("jaxpr.eqns[0] (add): operand 0: the variable is used before its definition"));
}

TEST(Check, UndefinedOutput) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.outs.push_back(fresh_var(kF64));
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.outvars[1]: the variable is used before its definition"));
}

TEST(Check, SecondDefinitionOfAnInput) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.invars.push_back(p.jaxpr.constvars[0]);
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.invars[1]: the variable is defined twice"));
}

TEST(Check, SecondDefinitionByAnEquation) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[1].out[0] = p.jaxpr.invars[0];
  p.jaxpr.outs = {p.jaxpr.invars[0]};
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[1] (add): result 0 is already defined"));
}

TEST(Check, WrongTypeOfResult) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[1].out[0].aval = kF32x3;
  EXPECT_THAT(fault_of(p),
              HasSubstr("jaxpr.eqns[1] (add): found results of type (f32[3]), expected (f64[]) for "
                        "operands of type (f64[], f64[])"));
}

TEST(Check, UseWithAnotherTypeThanDefined) {
  ClosedJaxpr p = square_plus(1.0);
  Var s = p.jaxpr.eqns[0].out[0];
  s.aval = kF32x3;
  p.jaxpr.eqns[1].in[0] = s;
  EXPECT_THAT(fault_of(p), HasSubstr("operand 0: the variable is used as f32[3] but defined as f64[]"));
}

TEST(Check, WrongNumberOfResults) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[1].out.push_back(fresh_var(kF64));
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[1] (add): found 2 results, expected 1: (f64[])"));
}

TEST(Check, OperandsThatDoNotFit) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[1].in[1] = literal(1.0, Dtype::I32);
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[1] (add): "));
  p.jaxpr.eqns[1].in.pop_back();
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[1] (add): "));
}

TEST(Check, MissingParameter) {
  ClosedJaxpr p = call(square_plus(1.0));
  p.jaxpr.eqns[0].params = {};
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[0] (jit): the parameter 'jaxpr' is missing"));
}

TEST(Check, EquationWithoutPrimitive) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[0].prim = nullptr;
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.eqns[0]: the equation has no primitive"));
}

TEST(Check, Constants) {
  ClosedJaxpr p = square_plus(1.0);
  p.consts = {};
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.consts: 0 values are given for 1 constvars"));
  p.consts = {Tensor::zeros(kF32x3)};
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.consts[0]: the value is f32[3] but its constvar is f64[]"));
  p.consts = {Tensor()};
  EXPECT_THAT(fault_of(p), HasSubstr("jaxpr.consts[0]: the value is undefined"));
}

TEST(Check, FaultInsideNestedProgram) {
  ClosedJaxpr inner = square_plus(1.0);
  std::swap(inner.jaxpr.eqns[0], inner.jaxpr.eqns[1]);
  ClosedJaxpr p = call(inner);
  p.jaxpr.eqns[0].origin = {{"rnn", "cell"}, "model.cpp", 12};
  const std::string fault = fault_of(p);
  EXPECT_THAT(fault, HasSubstr("jaxpr.eqns[0].params.jaxpr.jaxpr.eqns[0] (add): operand 0"));
  EXPECT_THAT(fault, HasSubstr("rnn.cell (model.cpp:12)"));  // the nearest place that is known
}

TEST(Check, NestedProgramsAreClosed) {
  const Var x = fresh_var(kF64), y = fresh_var(kF64), z = fresh_var(kF64);
  // The body uses x, a Var of the program around it.
  const ClosedJaxpr body{{{}, {}, {make_eqn(sin_p, {x}, {y})}, {y}}, {}};
  const ClosedJaxpr p{{{}, {x}, {make_eqn(jit_p, {}, {z}, {{"jaxpr", share(body)}})}, {z}}, {}};
  EXPECT_THAT(fault_of(p), HasSubstr("never defined in this program"));
}

TEST(Check, ShowsTheEquationsAroundTheFault) {
  Jaxpr j;
  j.invars = {fresh_var(kF64)};
  Var last = j.invars[0];
  for (int i = 0; i < 12; ++i) {
    const Var next = fresh_var(kF64);
    j.eqns.push_back(make_eqn(sin_p, {last}, {next}));
    last = next;
  }
  j.eqns[6].out[0].aval = kF32x3;
  const std::string fault = fault_of({j, {}});
  EXPECT_THAT(fault, HasSubstr("\n      e:f64[] = sin d\n      f:f64[] = sin e\n      g:f64[] = sin f"
                               "\n  --> h:f32[3] = sin g\n      i:f64[] = sin h"));
  EXPECT_THAT(fault, Not(HasSubstr("= sin c")));
  EXPECT_THAT(fault, Not(HasSubstr("= sin k")));
}

TEST(Check, OriginNamesTheModule) {
  ClosedJaxpr p = square_plus(1.0);
  p.jaxpr.eqns[1].out.push_back(fresh_var(kF64));
  p.jaxpr.eqns[1].origin = {{"rnn1", "W"}, "model.cpp", 42};
  EXPECT_THAT(fault_of(p), HasSubstr("rnn1.W (model.cpp:42)"));
}

TEST(Check, AbsurdParametersAreAnErrorOfTheProgram) {
  EXPECT_THROW(parse("{ lambda ; a:i64[]. let b:i64[] = while["
                     "body_jaxpr={ lambda ; c:i64[]. let in (c,) }, body_nconsts=9223372036854775807, "
                     "cond_jaxpr={ lambda ; d:i64[]. let e:bool[] = lt d 3:i64[] in (e,) }, "
                     "cond_nconsts=9223372036854775807] a in (b,) }"),
               CompilationError);
}

TEST(Check, JaxprFormIgnoresConstants) { EXPECT_NO_THROW(check(square_plus(1.0).jaxpr)); }

}  // namespace
}  // namespace etrace
