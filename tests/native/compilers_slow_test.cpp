// Golden cases by every C compiler of this machine: the numbers are the same bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "etrace/etrace.h"
#include "etrace/expected.h"
#include "native/toolchain.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string file, rule;
};

// One file of each kind by one rule; with ETRACE_ALL_CASES in the environment every file by both. Of all,
// some have nothing to run; of those that are named here, none may.
bool every_file() { return std::getenv("ETRACE_ALL_CASES") != nullptr; }
std::vector<Case> cases() {
  if (!every_file())
    return {{"cell_LSTMCell_b3", "D_RTRL"},   {"snn_alif_expcu_b3", "pp_prop"},
            {"op_conv1d_rec_b3", "D_RTRL"},   {"p2_f32_mix", "pp_prop"},
            {"op_sparse_csr_b3", "D_RTRL"},   {"struct_scan_long", "D_RTRL"},
            {"struct_while_settle", "D_RTRL"}};
  std::vector<Case> all;
  for (const auto& entry : fs::directory_iterator(ETRACE_REFERENCE_DIR))
    for (const char* rule : {"D_RTRL", "pp_prop"})
      if (entry.path().extension() == ".json") all.push_back({entry.path().stem(), rule});
  return all;
}

// The sequence that a file carries; none: it only has a graph.
const ExpectedRun* sequence_of(const Model& m) {
  if (m.expected && m.expected->runs)
    for (const ExpectedRun& run : *m.expected->runs)
      if (run.args && run.targets.defined()) return &run;
  return nullptr;
}

// Losses, gradients and traces of a rule over the sequence, in windows of three steps.
Arrays learned(const Model& m, const ExpectedRun& sequence, const LearningRule& rule) {
  CompileOptions compiling;
  rule.configure(compiling);
  LearnerOptions options;
  options.backend = "native";
  options.execution_window = 3;
  Learner learner(compile_etrace_graph(m, compiling), rule, options);
  Arrays data = to_arrays(*sequence.args);
  data.push_back(sequence.targets);
  const StepFunction f = [](StepCall& model, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss::mse(model(args)[0], s.back())};
  };
  const SequenceGradient g = learner.etrace_grad(data, f);
  Arrays out = g.grads.values;
  out.push_back(g.losses);
  for (const EligibilityTrace& t : learner.etraces()) out.push_back(t.value);
  return out;
}

// Compiles with CC into a folder of its own, which says afterwards whether anything was compiled: without a
// compiler the interpreter would run.
class WithCompiler {
 public:
  explicit WithCompiler(const std::string& cc)
      : folder_(::testing::TempDir() + "/etrace-" + cc + "-" + std::to_string(::getpid())) {
    ::setenv("CC", cc.c_str(), 1);
    ::setenv("ETRACE_CACHE_DIR", folder_.c_str(), 1);
  }
  ~WithCompiler() {
    ::unsetenv("CC");
    fs::remove_all(folder_);
    use_test_cache();
  }
  WithCompiler(const WithCompiler&) = delete;
  WithCompiler& operator=(const WithCompiler&) = delete;
  bool compiled() const { return fs::exists(folder_) && !fs::is_empty(folder_); }

 private:
  std::string folder_;
};

class NativeCompilers : public ::testing::TestWithParam<Case> {};

TEST_P(NativeCompilers, GoldenCasesHaveTheSameBits) {
  const Model m = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + GetParam().file + ".json");
  RuleOptions options;
  if (GetParam().rule == "pp_prop") options.set("decay_or_rank", 0.9);
  const ExpectedRun* sequence = sequence_of(m);
  if (sequence == nullptr) {
    if (!every_file()) FAIL() << "the file carries no sequence";
    GTEST_SKIP() << "the file carries no sequence";
  }
  std::vector<Arrays> found;
  for (const char* cc : {"gcc", "clang"}) {
    const WithCompiler with(cc);
    std::string reason;
    if (!native::find_compiler(reason)) GTEST_SKIP() << reason;
    try {
      found.push_back(learned(m, *sequence, *make_rule(GetParam().rule, options)));
    } catch (const CompilationError& e) {
      if (!every_file()) throw;
      GTEST_SKIP() << e.what();  // nothing in it is learned online
    } catch (const NotSupportedError& e) {
      if (!every_file()) throw;
      GTEST_SKIP() << e.what();
    }
    EXPECT_TRUE(with.compiled()) << cc;
  }
  ASSERT_EQ(found[0].size(), found[1].size());
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_TRUE(found[0][i].tensor() == found[1][i].tensor())
        << "number " << i << ": " << distance(found[0][i].tensor(), found[1][i].tensor());
}

INSTANTIATE_TEST_SUITE_P(Files, NativeCompilers, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.file + "_" + info.param.rule; });

}  // namespace
}  // namespace etrace::testing
