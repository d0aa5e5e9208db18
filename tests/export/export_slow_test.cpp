// Exported learners beside the native engine, on this machine and on emulated boards. tools/boards.py runs
// all models and reference cases.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "etrace/etrace.h"
#include "etrace/export.h"
#include "io/step_outputs.h"
#include "support/errors.h"
#include "support/exported.h"

namespace etrace {
namespace {

using Answer = ExportCheck::Run::Answer;
using testing::expect_same;
using testing::Made;
using testing::own_folder;

TEST(Export, HasTheBitsOfTheNativeEngine) {
  for (const char* name : {"gru", "lif", "lstm"}) {
    SCOPED_TRACE(name);
    expect_same(Made(name).checked(500));
  }
}

TEST(Export, OptionsKeepTheBits) {
  expect_same(Made("lif", {8, 16, 2}).checked(200, {.skip_zeros = true}));
  expect_same(Made("gru", {}, "D_RTRL", {{"trace_dtype", Attr("bf16")}}).checked(200));
  expect_same(Made("gru", {}, "D_RTRL", {{"trace_dtype", Attr("f16")}}).checked(200));
}

// Batches, positions that share a parameter, several states, sparse weights, sines: sums in the kernels'
// order.
TEST(Export, OtherModelsHaveTheBitsToo) {
  for (const char* name : {"conv_gru", "lru"}) {
    SCOPED_TRACE(name);
    expect_same(Made(name).checked(60));
  }
  for (const char* name : {"op_conv1d_b3", "op_sparse_csr_b3", "snn_alif_expcu_b3"}) {
    SCOPED_TRACE(name);
    const Model model = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
    const D_RTRL rule;
    CompileOptions how;
    rule.configure(how);
    const Learner learner(compile_etrace_graph(model, how), rule, {.backend = "interpreter"});
    const auto sgd = optim::make("sgd", {});
    expect_same(check_export(learner, loss::mse, *sgd, result_types(model)[0], {}, {.updates = 60}));
  }
}

// A window of steps is passed in a form without code for devices; in another one it has code.
TEST(Export, PassesWithoutCodeAreRefusedByName) {
  const Model model = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/struct_scan_long.json");
  const D_RTRL rule;
  CompileOptions how;
  rule.configure(how);
  const ETraceGraph graph = compile_etrace_graph(model, how);
  const auto sgd = optim::make("sgd", {});
  const Learner learner(graph, rule, {.backend = "interpreter"});
  const Aval target = result_types(model)[0];
  const std::string text =
      testing::message_of<NotSupportedError>([&] { export_learner(learner, loss::mse, *sgd, target); });
  EXPECT_NE(text.find("relation0/group0/weight is passed in the form tiles"), std::string::npos) << text;
  EXPECT_NE(text.find("--trace-pass relation0/group0/weight=rows"), std::string::npos) << text;
  const std::vector<TracePassWish> wishes = passes_for_devices(learner, loss::mse, *sgd, target);
  ASSERT_EQ(wishes.size(), 1U);
  const Learner other(graph, rule, {.backend = "interpreter", .trace_passes = wishes});
  expect_same(check_export(other, loss::mse, *sgd, target, {}, {.updates = 60}));
}

// What the compilers of boards say, and the emulators, where they are installed.
TEST(Export, BoardsHaveTheBitsWhereTheyAreAtHand) {
  const Made m("gru");
  const ExportCheck c =
      check_export(m.learner, loss::mse, m.sgd, m.target, {},
                   {.updates = 60, .targets = {"cortex-m4", "cortex-m7", "cortex-m55", "rv32"}});
  ASSERT_EQ(c.runs.size(), 4U);
  std::size_t ran = 0;
  for (const ExportCheck::Run& r : c.runs) {
    EXPECT_NE(r.answer, Answer::Different) << r.target << ": " << r.text;
    if (r.answer != Answer::Same) continue;
    ++ran;
    EXPECT_GT(r.instructions, 1000) << r.target;
    EXPECT_GT(r.code_bytes, 1000) << r.target;
    EXPECT_GT(r.stack, 0) << r.target;
    EXPECT_LE(r.stack, m.exported().report.stack) << r.target;
  }
  if (ran == 0) GTEST_SKIP() << "no board's tools are installed: " << c.runs[0].text;
}

// What is written beside a model: `make run` learns, here and on the boards whose tools are at hand; the
// sketch is C++ that knows the model's header.
TEST(Export, ExampleProjectsLearn) {
  const auto folder = own_folder("etrace-export-project");
  const auto run = [](const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    std::string text;
    char part[256];
    while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
    return std::pair(::pclose(pipe), text);
  };
  const Made m("gru", {3, 8, 3}, "D_RTRL", {}, 0.02);
  for (const ExportTarget& t : export_targets()) {
    const bool host = t.compiler.empty();
    if (!host &&
        run("command -v " + std::string(t.compiler) + " && command -v " + std::string(t.emulator)).first != 0)
      continue;
    SCOPED_TRACE(t.name);
    std::filesystem::remove_all(folder);
    ExportedModel e = m.exported({.name = "sensor", .target = std::string(t.name)});
    add_project(e, t);
    if (host) add_arduino(e);
    e.write(folder.string());
    const auto [status, text] = run("make -s -C '" + folder.string() + "' run");
    EXPECT_EQ(status, 0) << text;
    EXPECT_EQ(text.find("warning"), std::string::npos) << text;
    std::vector<double> losses;
    for (std::size_t at = text.find("millionths: "); at != std::string::npos;
         at = text.find("millionths: ", at + 1))
      losses.push_back(std::stod(text.substr(at + 12)));
    ASSERT_EQ(losses.size(), 20U) << text;
    EXPECT_LT(losses.back(), 0.5 * losses.front()) << text;
    if (!host) continue;
    std::ofstream(folder / "sketch.cpp") << "#define A0 0\nint analogRead(int); void delay(int);\n"
                                            "struct Port { void begin(int); void println(const char*); void "
                                            "println(double, int); } Serial;\n"
                                            "#include \"sensor_arduino/examples/learn/learn.ino\"\n";
    const auto [compiled, errors] = run("c++ -fsyntax-only -Wall -Wextra -Werror -I'" + folder.string() +
                                        "/sensor_arduino/src' '" + folder.string() + "/sketch.cpp'");
    EXPECT_EQ(compiled, 0) << errors;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace etrace
