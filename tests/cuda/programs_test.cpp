// Programs on a played CUDA device against the interpreter.
#include "cuda/played_device.h"
#include "etrace/etrace.h"
#include "support/random_programs.h"

namespace etrace {
namespace {

using namespace testing;

class CudaPrograms : public PlayedDevice {};

void expect_same(const Program& p, const Tensors& args, double tolerance) {
  const Tensors expected = run_interpreter(p, args), found = run_on_device(p, args);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(distance(found[i], expected[i]), tolerance) << i << " " << to_string(expected[i].aval());
}

Tensor numbers(const Aval& type, std::uint64_t seed) {
  return convert(random::uniform(random::key(seed), type.shape, Dtype::F64, -1.0, 1.0), type.dtype).tensor();
}

// f of arguments of these types, with values drawn for them.
void expect_same(const Function& f, const Avals& types, double tolerance = 1e-6) {
  Tensors args;
  for (std::size_t i = 0; i < types.size(); ++i) args.push_back(numbers(types[i], i));
  expect_same(as_program(make_jaxpr(f, types)), args, tolerance);
}

TEST_F(CudaPrograms, ElementsAndProducts) {
  expect_same(
      [](ArraySpan x) -> Arrays {
        const Array h = tanh(matmul(x[0], x[1]) + x[2]);
        return {h, matmul(h, x[3]), h * 2.0};
      },
      {{Dtype::F32, {5, 7}}, {Dtype::F32, {7, 33}}, {Dtype::F32, {33}}, {Dtype::F32, {33, 2}}});
}

}  // namespace
}  // namespace etrace
