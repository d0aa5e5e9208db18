// A built-in model with a learner of its own, for the tests of export.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "etrace/etrace.h"
#include "etrace/export.h"

namespace etrace::testing {

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

// A path that no other process uses.
inline std::filesystem::path own_folder(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / (name + "-" + std::to_string(::getpid()));
}

inline void expect_same(const ExportCheck& c) {
  ASSERT_EQ(c.runs.size(), 1U);
  EXPECT_EQ(c.runs[0].answer, ExportCheck::Run::Answer::Same) << c.runs[0].text;
  EXPECT_EQ(c.finite_steps, c.steps);
}

}  // namespace etrace::testing
