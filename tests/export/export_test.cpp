// Exported learners: what is written, what is refused, and the bits of the native engine on this machine.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "emit/emit.h"
#include "etrace/etrace.h"
#include "etrace/export.h"
#include "export/device_plan.h"
#include "support/errors.h"
#include "support/exported.h"

namespace etrace {
namespace {

using Answer = ExportCheck::Run::Answer;

using testing::expect_same;
using testing::Made;
using testing::own_folder;

// Loops that share memory, followed with names in place of numbers.
TEST(Export, NoLoopReadsWhatWasOverwritten) {
  for (const char* name : {"hodgkin_huxley", "lstm", "alif"}) {
    SCOPED_TRACE(name);
    const Made m(name, {2, 9, 1});
    const device::DevicePlan plan = device::plan_device(m.learner, loss::mse, m.sgd, m.target);
    for (const Program* p : {&plan.evolve, &plan.learn})
      EXPECT_NO_THROW(emit::build_proved(*p, emit::find_target("c99")));
  }
}

// A learner that has learned goes on where it is, and Learner::step gives the same numbers as the check's
// engine.
TEST(Export, GoesOnFromWhatTheLearnerHolds) {
  Made m("gru");
  m.learner.bind_step(loss::mse, &m.sgd);
  const Array x = full({3}, 0.5, Dtype::F32), y = full({1}, 0.25, Dtype::F32);
  for (int i = 0; i < 5; ++i) m.learner.step(x, y);
  m.learner.sync();
  expect_same(m.checked(50));
  EXPECT_NE(m.exported().files[0].text.find("model_start_state_rnn_h"), std::string::npos);
}

TEST(Export, WritesWhatUsersCall) {
  const Made m("gru");
  ExportedModel e = m.exported({.name = "sensor"});
  ASSERT_EQ(e.files.size(), 2U);
  EXPECT_EQ(e.files[0].path, "sensor.c");
  const std::string& h = e.files[1].text;
  for (const char* part : {"int sensor_init(void);", "int sensor_step(const float* x, float* y);",
                           "int sensor_step_target(const float* x, const float* target, float* y);",
                           "float sensor_loss(void);", "void sensor_set_learning_rate(double rate);",
                           "#define SENSOR_X_SIZE 3", "#define SENSOR_TARGET_SIZE 1", "-ffp-contract=off",
                           "const sensor_array* sensor_find(const char* role, const char* path);"})
    EXPECT_NE(h.find(part), std::string::npos) << part;
  EXPECT_EQ(e.files[0].text.find("malloc"), std::string::npos);
  EXPECT_EQ(e.files[0].text.find("#include <math.h>"), std::string::npos);
  add_project(e, find_export_target("cortex-m4"));
  add_arduino(e);
  const auto folder = own_folder("etrace-export-test");
  e.write(folder.string());
  for (const char* f : {"sensor.c", "sensor.h", "Makefile", "cortex_m.c", "cortex_m.ld", "main.c", "board.h",
                        "sensor_arduino/library.properties", "sensor_arduino/src/sensor.c",
                        "sensor_arduino/examples/learn/learn.ino"})
    EXPECT_TRUE(std::filesystem::exists(folder / f)) << f;
  for (const ExportedFile& f : e.files)
    EXPECT_EQ(f.text.find('@' + std::string("name@")), std::string::npos) << f.path;
  std::filesystem::remove_all(folder);
}

TEST(Export, ReportsAndRefusesABudget) {
  const Made m("lif", {32, 64, 4});
  const ExportReport r = m.exported().report;
  EXPECT_EQ(r.params, 25856);
  EXPECT_EQ(r.traces, 25856);
  EXPECT_LT(r.ram(), 54000);
  EXPECT_GT(r.instructions, r.multiply_adds);
  EXPECT_NE(r.to_string().find("RAM, static"), std::string::npos);
  try {
    m.exported({.ram = 48 * 1024});
    FAIL() << "48 KiB are too few";
  } catch (const ValueError& e) {
    EXPECT_NE(e.message().find("the model needs 52"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("--trace-dtype bf16"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("the rule pp_prop"), std::string::npos) << e.message();
  }
  const Made half("lif", {32, 64, 4}, "D_RTRL", {{"trace_dtype", Attr("bf16")}});
  EXPECT_LT(half.exported({.ram = 48 * 1024}).report.ram(), 42000);
}

TEST(Export, SaysWhichToolIsMissing) {
  const Made m("gru");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const ExportCheck c = check_export(m.learner, loss::mse, m.sgd, m.target, {},
                                     {.updates = 1, .targets = {"cortex-m4", "rv32"}});
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(c.runs.size(), 2U);
  EXPECT_EQ(c.runs[0].answer, Answer::NotRun);
  EXPECT_EQ(c.runs[0].text, "arm-none-eabi-gcc is not installed; Debian has it in gcc-arm-none-eabi");
  EXPECT_EQ(c.runs[1].text,
            "riscv64-unknown-elf-gcc is not installed; Debian has it in gcc-riscv64-unknown-elf");
  EXPECT_FALSE(c.all_ran());
  EXPECT_FALSE(c.same());
}

// Names that C would take for something else, and paths that are alike once they are names.
TEST(Export, OddNamesOfParameters) {
  struct Odd : Module {
    ParamState& a = param("w", full({2, 2}, 0.5, Dtype::F32));
    ParamState& b = param("w_start", full({2}, 0.25, Dtype::F32));
    ParamState& c = param("w\"?\\*", full({2}, 0.125, Dtype::F32));
    ParamState& d = param("w start", full({2}, 0.0625, Dtype::F32));
    HiddenState& h = hidden("int", zeros({2}));
    Array update(const Array& x) override {
      h.set(tanh(matmul(x, a.value()) + h.value() * b.value() + c.value()));
      return h.value() * d.value();
    }
  };
  Odd model;
  const Learner learner = compile(model, D_RTRL{}, zeros({2}), {.backend = "interpreter"});
  optim::SGD sgd(model, 0.01);
  expect_same(check_export(learner, loss::mse, sgd, {Dtype::F32, {2}}, {}, {.updates = 20}));
}

TEST(Export, LeavesFilesThatOthersWrote) {
  const Made m("gru");
  const auto folder = own_folder("etrace-export-kept");
  std::filesystem::remove_all(folder);
  ExportedModel e = m.exported();
  add_project(e, find_export_target("c99"));
  EXPECT_TRUE(e.write(folder.string()).empty());
  std::ofstream(folder / "main.c") << "mine";
  EXPECT_EQ(e.write(folder.string()), (std::vector<std::string>{"board.h", "host.c", "main.c", "Makefile"}));
  std::ifstream kept(folder / "main.c");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), "mine");
  std::ofstream(folder / "model.c") << "mine";
  const std::string text = testing::message_of<IoError>([&] { e.write(folder.string()); });
  EXPECT_NE(text.find("model.c is there, and etrace did not write it"), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

TEST(Export, RefusesWhatItCannotDo) {
  const Made m("gru");
  const auto says = [&]<class E>(E*, const auto& f, const char* part) {
    const std::string text = testing::message_of<E>(f);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(
      static_cast<ValueError*>(nullptr), [&] { m.exported({.name = "3d"}); }, "cannot begin names in C");
  for (const char* taken : {"main", "board", "_x", "etp_x"})
    says(
        static_cast<ValueError*>(nullptr), [&] { m.exported({.name = taken}); }, "is taken");
  says(
      static_cast<ValueError*>(nullptr),
      [&] {
        Made("lif", {3, 2100, 1}).exported();
      },
      "may have 32 MiB; make the model smaller");
  says(
      static_cast<ValueError*>(nullptr), [&] { m.exported({.target = "cortex-m5"}); }, "cortex-m55");
  says(
      static_cast<IoError*>(nullptr), [&] { m.exported().write("/proc/nowhere"); }, "/proc/nowhere");
}

}  // namespace
}  // namespace etrace
