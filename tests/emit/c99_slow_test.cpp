// The second target: scalar C99 that stands alone. Every small reference case, its forward step and its step
// with gradients, is compiled as strict C99 and run beside the interpreter: the same bits where no kernel of
// the library takes part in what the interpreter does.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/etrace.h"
#include "etrace/expected.h"
#include "support/native.h"
#include "support/random_programs.h"

namespace etrace::emit {
namespace {

namespace fs = std::filesystem;

bool calls_kernels(const Program& p) { return !host_steps(build(p)).calls.empty(); }

// Files of one library, compiled as whoever takes the text elsewhere might.
class StandAlone {
 public:
  StandAlone() : folder_(fs::temp_directory_path() / ("etrace-c99-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~StandAlone() {
    if (library_ != nullptr) ::dlclose(library_);
    fs::remove_all(folder_);
  }
  StandAlone(const StandAlone&) = delete;
  StandAlone& operator=(const StandAlone&) = delete;

  void compile(const std::string& text) {
    std::ofstream(folder_ / "all.c") << text;
    const std::string command = "cd '" + folder_.string() +
                                "' && cc -std=c99 -O0 -Wall -Wextra -Werror -pedantic -fPIC -shared all.c -o "
                                "all.so -lm 2>errors";
    if (std::system(command.c_str()) != 0) {
      std::ifstream errors(folder_ / "errors");
      FAIL() << std::string(std::istreambuf_iterator<char>(errors), {}).substr(0, 4000);
    }
    library_ = ::dlopen((folder_ / "all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
  }
  using Entry = void (*)(const void* const*, void* const*);
  Entry entry(const std::string& program) const {
    return reinterpret_cast<Entry>(::dlsym(library_, ("etrace_" + program).c_str()));
  }

 private:
  fs::path folder_;
  void* library_ = nullptr;
};

struct Loaded final : Runnable {
  explicit Loaded(StandAlone::Entry e) : entry(e) {}
  void run(const void* const* arguments, void* const* results) const override { entry(arguments, results); }
  std::size_t arena_bytes() const override { return 0; }
  StandAlone::Entry entry;
};

// Of sums in another order; halves are rounded by a hash of such a sum: to the other neighbour, one unit
// away.
double tolerance(Dtype dtype) {
  return dtype == Dtype::F64 ? 1e-12 : dtype == Dtype::F32 ? 1e-5 : dtype == Dtype::F16 ? 0x1p-10 : 0x1p-7;
}

Tensors values_for(const Program& p) {
  Tensors out;
  for (const Port& port : p.arguments) {
    if (!is_floating(port.aval.dtype)) {
      out.push_back(Tensor::full(port.aval, std::int64_t{1}));
      continue;
    }
    const Array x = random::uniform(random::key(out.size()), port.aval.shape, Dtype::F64, -1.0, 1.0);
    out.push_back(convert(x, port.aval.dtype).tensor());
  }
  return out;
}

Program forward_step(const Model& m) {
  Program p = testing::as_program(m.program);
  p.name = m.name + "_forward";
  return p;
}

// Slices: one per argument, then the target of the first result.
Program gradient_step(const Model& m) {
  Avals slices;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) {
      slices.resize(std::max(slices.size(), static_cast<std::size_t>(m.inputs[i].index) + 1));
      slices[static_cast<std::size_t>(m.inputs[i].index)] = m.program.jaxpr.invars[i].aval;
    }
  for (std::size_t i = 0; i < m.outputs.size(); ++i)
    if (m.outputs[i].role == Role::Out && m.outputs[i].index == 0)
      slices.push_back(aval_of(m.program.jaxpr.outs[i]));
  CompileOptions options;
  const D_RTRL rule;
  rule.configure(options);
  const ETraceGraph graph = compile_etrace_graph(m, options);
  const PlanBuilder builder(graph, rule, VjpMethod::SingleStep);
  const StepFunction loss = [](StepCall& step, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.end() - 1);
    return LossAndAux{loss::mse(step(args)[0], s.back())};
  };
  Program p = lean(builder.plan(loss, slices, 3).at("step"));
  p.name = m.name + "_gradient";
  return p;
}

// What has no code for the target, and why.
const std::map<std::string, std::string> kRefused = {
    {"struct_while_settle_gradient", "tape_while"},  // a tape whose length is known at the end alone
};

class Cases {
 public:
  explicit Cases(const Target& t) : target_(t) {}

  void add(Program p, Tensors args = {}) {
    if (args.empty()) args = values_for(p);
    try {
      text_ += print_c(build(p, target_));
    } catch (const NotSupportedError& e) {
      const auto known = kRefused.find(p.name);
      ASSERT_NE(known, kRefused.end()) << p.name << ": " << e.what();
      EXPECT_NE(e.message().find("'" + known->second + "'"), std::string::npos) << e.what();
      return;
    }
    EXPECT_FALSE(kRefused.contains(p.name));
    programs_.push_back({std::move(p), std::move(args)});
  }
  void compare() {
    StandAlone library;
    ASSERT_NO_FATAL_FAILURE(library.compile(text_));
    for (const auto& [p, in] : programs_) {
      SCOPED_TRACE(p.name);
      const auto entry = library.entry(p.name);
      ASSERT_NE(entry, nullptr);
      const Tensors expected = testing::run_interpreter(p, in);
      const Tensors found = testing::run_program(Loaded(entry), p, in);
      const bool kernels = calls_kernels(p);
      same_bits += kernels ? 0 : 1;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!kernels)
          EXPECT_TRUE(testing::same_bits(found[i], expected[i]))
              << p.results[i].name << " is " << testing::distance(found[i], expected[i]) << " away";
        else
          EXPECT_LE(testing::distance(found[i], expected[i]), tolerance(expected[i].dtype()))
              << p.results[i].name << " " << to_string(expected[i].aval());
      }
    }
  }
  std::size_t size() const { return programs_.size(); }
  std::size_t same_bits = 0;

 private:
  const Target& target_;
  std::string text_;
  std::vector<std::pair<Program, Tensors>> programs_;
};

TEST(C99, RunsAllReferenceCases) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(ETRACE_REFERENCE_DIR))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Cases cases(find_target("c99"));
  for (const fs::path& file : files) {
    Model m = read_model_file(file.string());
    m.name = file.stem();
    cases.add(forward_step(m));
    try {
      cases.add(gradient_step(m));
    } catch (const NotSupportedError&) {  // no gradient to be had: a weight inside a while loop
      EXPECT_EQ(m.name, "struct_while_weight_inside");
    }
  }
  cases.compare();
  RecordProperty("programs", static_cast<int>(cases.size()));
  RecordProperty("same_bits", static_cast<int>(cases.same_bits));
  EXPECT_GT(cases.size(), 250U);
  EXPECT_GT(cases.same_bits, 130U);
}

Program program_of(const Primitive& p, const std::vector<PrimitiveSpec::Sample>& samples, Tensors& args) {
  Avals in;
  for (const auto& s : samples)
    for (const Array& a : s.operands) {
      in.push_back(a.aval());
      args.push_back(a.tensor());
    }
  Program out = testing::as_program(make_jaxpr(
      [&](ArraySpan x) {
        Arrays all;
        std::size_t at = 0;
        for (const auto& s : samples) {
          for (const Array& y : bind_primitive(p, x.subspan(at, s.operands.size()), s.params))
            all.push_back(y);
          at += s.operands.size();
        }
        return all;
      },
      in));
  out.name = "row_" + std::string(p.name());
  return out;
}

// Rows whose kernels have no formula. Of those that are not listed, every sample has code.
TEST(C99, EveryRowHasCodeOrIsRefused) {
  std::set<std::string> refused;
  Cases cases(find_target("c99"));
  for (const Primitive* p : primitives()) {
    if (p->spec.samples == nullptr || p->name().starts_with("test_")) continue;
    if (p->spec.kernel == nullptr && p->spec.lower == nullptr) continue;
    std::vector<PrimitiveSpec::Sample> samples;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(3)) {
      Tensors args;
      try {
        static_cast<void>(build(program_of(*p, {s}, args), find_target("c99")));
        samples.push_back(s);
      } catch (const NotSupportedError& e) {
        EXPECT_NE(e.message().find("the target 'c99'"), std::string::npos) << e.what();
        refused.insert(std::string(p->name()));
      }
    }
    Tensors args;
    const Program all = program_of(*p, samples, args);
    if (!samples.empty()) cases.add(all, args);
  }
  cases.compare();
  const std::set<std::string> expected{"argmax",       "argmin",
                                       "cumlogsumexp", "cummax",
                                       "cummin",       "cumprod",
                                       "cumsum",       "dynamic_update_slice",
                                       "dot_general",  // of one type into a wider one

                                       "polygamma",    "scatter",
                                       "scatter_add",  "sort",
                                       "stranger",     "stranger_that_speaks",
                                       "tape_while"};
  EXPECT_EQ(refused, expected);
}

// Folds, views and products of any shape, in both types.
TEST(C99, RandomProgramsHaveTheSameBits) {
  StandAlone library;
  std::string text;
  std::vector<testing::RandomPrograms> all;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    testing::RandomPrograms one =
        testing::random_programs(seed, 1, seed % 2 == 0 ? Dtype::F32 : Dtype::F64, 5);
    one.program.name = "random" + std::to_string(seed);
    if (calls_kernels(one.program)) continue;
    text += print_c(build(one.program, find_target("c99")));
    all.push_back(std::move(one));
  }
  EXPECT_GT(all.size(), 20U);
  ASSERT_NO_FATAL_FAILURE(library.compile(text));
  for (const testing::RandomPrograms& one : all) {
    const Tensors expected = testing::run_interpreter(one.program, one.arguments);
    const Tensors found =
        testing::run_program(Loaded(library.entry(one.program.name)), one.program, one.arguments);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(testing::same_bits(found[i], expected[i])) << one.labels[i];
  }
}

}  // namespace
}  // namespace etrace::emit
