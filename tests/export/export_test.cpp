// Exported learners: what is written, what is refused, and the bits of the native engine on this machine.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "emit/emit.h"
#include "etrace/etrace.h"
#include "etrace/export.h"
#include "export/device_plan.h"
#include "support/errors.h"

namespace etrace {
namespace {

using Answer = ExportCheck::Run::Answer;

// A built-in model with a learner of its own.
struct Made {
  explicit Made(const char* name, Dims sizes = {}, std::string_view rule = "D_RTRL",
                const RuleOptions& options = {}, double rate = 0.01)
      : ready(make_model(name, {.sizes = std::move(sizes)})),
        learner(compile(*ready.module, rule, ready.example, {.backend = "interpreter"}, options)),
        sgd(*ready.module, rate) {
    target = ready.module->update(ready.example[0]).aval();
  }
  ExportedModel exported(const ExportOptions& o = {}) const {
    return export_learner(learner, loss::mse, sgd, target, o);
  }
  ExportCheck checked(std::int64_t updates, const ExportOptions& o = {}) const {
    return check_export(learner, loss::mse, sgd, target, o, {.updates = updates});
  }
  ReadyModel ready;
  Learner learner;
  optim::SGD sgd;
  Aval target;
};

void expect_same(const ExportCheck& c) {
  ASSERT_EQ(c.runs.size(), 1U);
  EXPECT_EQ(c.runs[0].answer, Answer::Same) << c.runs[0].text;
  EXPECT_EQ(c.finite_steps, c.steps);
}

TEST(Export, HasTheBitsOfTheNativeEngine) {
  for (const char* name : {"gru", "lif", "lstm"}) {
    SCOPED_TRACE(name);
    expect_same(Made(name).checked(500));
  }
}

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

TEST(Export, OptionsKeepTheBits) {
  expect_same(Made("lif", {8, 16, 2}).checked(200, {.skip_zeros = true}));
  expect_same(Made("gru", {}, "D_RTRL", {{"trace_dtype", Attr("bf16")}}).checked(200));
  expect_same(Made("gru", {}, "D_RTRL", {{"trace_dtype", Attr("f16")}}).checked(200));
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
  EXPECT_NE(m.exported().files[0].text.find("model_state_rnn_h_start"), std::string::npos);
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
  const auto folder = std::filesystem::temp_directory_path() / "etrace-export-test";
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

TEST(Export, RefusesWhatItCannotDo) {
  const Made m("gru");
  const auto says = [&]<class E>(E*, const auto& f, const char* part) {
    const std::string text = testing::message_of<E>(f);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(
      static_cast<ValueError*>(nullptr), [&] { m.exported({.name = "3d"}); }, "cannot begin names in C");
  says(
      static_cast<ValueError*>(nullptr), [&] { m.exported({.target = "cortex-m5"}); }, "cortex-m55");
  says(
      static_cast<IoError*>(nullptr), [&] { m.exported().write("/proc/nowhere"); }, "/proc/nowhere");
}

}  // namespace
}  // namespace etrace
