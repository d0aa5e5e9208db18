// All reference cases for a CUDA device: proved, compiled by NVRTC for two architectures, and run on a played
// device against the interpreter.
#include <cstdlib>

#include "cuda/played_device.h"
#include "cuda/real_compiler.h"
#include "cuda/reference_programs.h"

namespace etrace {
namespace {

using namespace testing;

class CudaReference : public PlayedDevice {};

// f(program) for these programs of every case, or of one in so many, that the target takes; how many it
// refuses.
template <class F>
int for_all(std::initializer_list<const char*> programs, std::size_t one_in, const F& f) {
  int refused = 0;
  const std::vector<std::string> files = reference_files();
  for (std::size_t i = 0; i < files.size(); i += one_in) {
    Model m = read_model_file(files[i]);
    m.name = std::filesystem::path(files[i]).stem();
    SCOPED_TRACE(m.name);
    for (const char* which : programs) try {
        f(gradient_program(m, which, 3));
      } catch (const NotSupportedError& e) {  // a while loop with a weight in it, or with a tape
        EXPECT_TRUE(m.name.starts_with("struct_while_")) << e.what();
        ++refused;
      }
  }
  return refused;
}

TEST_F(CudaReference, IsProved) {
  const int refused = for_all({"step", "window"}, 1, [](const Program& p) {
    static_cast<void>(emit::build_proved(p, emit::find_target("cuda")));
  });
  EXPECT_LE(refused, 4);
}

TEST_F(CudaReference, IsTakenByTheCompiler) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  JoinedSources all;
  for_all({"window"}, 1, [&](const Program& p) { all.add(p); });
  EXPECT_GT(all.count(), 120);
  all.expect_taken();
}

TEST_F(CudaReference, BecomesMachineCode) {
  if (real_compiler() == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  // All of them take minutes: ETRACE_ALL_CASES=1.
  const std::size_t one_in = std::getenv("ETRACE_ALL_CASES") != nullptr ? 1 : 12;
  for_all({"window"}, one_in, [](const Program& p) { expect_compiles(p, {"sm_80", "sm_90"}); });
}

TEST_F(CudaReference, AgreesWithTheInterpreter) {
  for_all({"step", "window"}, 8, [](const Program& p) {
    const Tensors args = values_for(p), found = run_on_device(p, args), expected = run_interpreter(p, args);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(distance(found[i], expected[i]), expected[i].dtype() == Dtype::F64 ? 1e-9 : 1e-5)
          << p.name << " " << p.results[i].name;
  });
}

}  // namespace
}  // namespace etrace
