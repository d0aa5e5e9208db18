// Programs with ports on the interpreter.
#include <gtest/gtest.h>

#include "etrace/backend.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/primitive.h"

namespace etrace {
namespace {

// e ← 0.5·e + x, and the sum of the old e and x.
Program decaying() {
  const Aval type{Dtype::F64, {3}};
  Program p{"decaying",
            make_jaxpr(
                [](ArraySpan in) {
                  return Arrays{0.5 * in[0] + in[1], in[0] + in[1]};
                },
                Avals{type, type}),
            {{"e", PortRole::Trace, type}, {"x", PortRole::Arg, type}},
            {{"e", PortRole::Trace, type}, {"y", PortRole::Result, type}},
            {{0, 0}}};
  return p;
}

TEST(InterpreterBackend, ReplacesAliasedArgumentsInPlace) {
  const auto code = find_backend("interpreter").compile(decaying());
  double e[3] = {2, 4, 6}, y[3];
  const double x[3] = {1, 1, 1};
  const void* in[] = {e, x};
  void* out[] = {e, y};
  code->run(in, out);
  EXPECT_EQ(e[0], 2.0);
  EXPECT_EQ(e[2], 4.0);
  EXPECT_EQ(y[0], 3.0);
  EXPECT_EQ(y[2], 7.0);
}

TEST(InterpreterBackend, AliasesOfDifferentTypesAreRefused) {
  Program p = decaying();
  p.aliases = {{0, 5}};
  EXPECT_THROW(check(p), CompilationError);
  EXPECT_THROW(find_backend("gpu"), ValueError);
}

TEST(InterpreterBackend, ProgramsPrintTheirPorts) {
  const std::string text = to_string(decaying());
  EXPECT_NE(text.find("replaces argument 0"), std::string::npos);
  EXPECT_NE(text.find("trace"), std::string::npos);
}

}  // namespace
}  // namespace etrace
