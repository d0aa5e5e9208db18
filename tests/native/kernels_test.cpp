// Kernels that emitted code calls: by name, with descriptors that a person can read, on the threads it is
// given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "native/compile.h"
#include "session/program_run.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

using ::testing::HasSubstr;

const Tensors kArguments{random::normal(random::key(1), {40, 300}).tensor(),
                         random::normal(random::key(2), {300, 500}).tensor(),
                         random::normal(random::key(3), {4}).tensor()};

// A product, a sparse product and a row that only the host has.
Program sums_of_sorted() {
  Avals in;
  for (const Tensor& t : kArguments) in.push_back(t.aval());
  return as_program(make_jaxpr(
      [](ArraySpan x) -> Arrays {
        const SparseEntries entries{Dims{3, 0, 2, 299}, Dims{1, 0, 1, 2}, 300, 3};
        return {sort(dot_general(x[0], x[1], {{1}, {0}, {}, {}})), sparse_product(x[0], x[2], entries)};
      },
      in));
}

TEST(NativeKernels, AreCalledByName) {
  use_test_cache();
  const std::string source = native::emit_program(sums_of_sorted()).source;
  EXPECT_THAT(source, HasSubstr("static const etp_matrix_product matrix_product"));
  EXPECT_THAT(source, HasSubstr(".rows = 40, .columns = 500, .depth = 300"));
  EXPECT_THAT(source, HasSubstr("static const etp_sparse sparse_product"));
  EXPECT_THAT(source, HasSubstr("\"matrix_product\""));
  EXPECT_THAT(source, HasSubstr("\"sort#"));
}

TEST(NativeKernels, AreRefusedIfTheLibraryHasNone) {
  use_test_cache();
  native::EmittedProgram emitted = native::emit_program(sums_of_sorted());
  const std::string name = "\"sparse_product\"";
  emitted.source.replace(emitted.source.find(name), name.size(), "\"dense_product\"");
  try {
    native::compile_emitted(std::move(emitted), default_context());
    FAIL() << "an unknown kernel was bound";
  } catch (const IoError& e) {
    EXPECT_THAT(e.message(), HasSubstr("calls the kernel dense_product"));
  }
}

TEST(NativeKernels, RunOnTheThreadsTheyAreGiven) {
  use_test_cache();
  const Program p = sums_of_sorted();
  const Tensors expected = run_interpreter(p, kArguments);
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const etp_context context = context_of(pool);
    const Tensors native = run_program(*native::compile_native(p, context), p, kArguments);
    const Tensors interpreted = Executable(p.jaxpr, {}, &context)(kArguments);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(native[i], expected[i])) << threads;
      EXPECT_TRUE(same_bits(interpreted[i], expected[i])) << threads;
    }
  }
}

// One product of few rows, run again and again in a session: from the third run on, zeros of A are left out.
// A weight that is written anew is looked at anew: 0·∞ is NaN.
TEST(NativeKernels, ForgetWhatTheyKnewOfAWeightThatIsWritten) {
  use_test_cache();
  const Tensor spikes = convert(random::uniform(random::key(4), {2, 300}) < 0.1, Dtype::F32).tensor();
  Array infinite = kArguments[1];
  infinite = where(reshape(arange(300 * 500, Dtype::F32), {300, 500}) < 500.0,
                   full({300, 500}, std::numeric_limits<double>::infinity(), Dtype::F32), infinite);
  const Avals in{spikes.aval(), kArguments[1].aval()};
  const Program p = as_program(make_jaxpr(
      [](ArraySpan x) -> Arrays {
        return {dot_general(x[0], x[1], {{1}, {0}, {}, {}})};
      },
      in));
  ProgramRun native(p, native::compile_native(p));
  native.set(PortRole::Arg, "argument0", spikes);
  for (const Tensor& weight : {kArguments[1], infinite.tensor(), kArguments[1]}) {
    native.set(PortRole::Arg, "argument1", weight);
    const Tensors expected = run_interpreter(p, Tensors{spikes, weight});
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(native());
      EXPECT_TRUE(same_bits(native.result(PortRole::Result, "result0"), expected[0])) << i;
    }
  }
}

}  // namespace
}  // namespace etrace::testing
