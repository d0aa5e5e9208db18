// The registry of built-in models.
#include "etrace/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/interp.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(Models, EveryOneTracesRunsAndSaves) {
  for (const BuiltinModel& entry : builtin_models())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64})
      for (const std::optional<std::int64_t> batch :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)}) {
        SCOPED_TRACE(entry.name);
        const ReadyModel ready = make_model(entry.name, {.batch = batch, .dtype = dtype});
        const TracedStep step = trace_step(*ready.module, ready.example, std::string(entry.name));
        EXPECT_TRUE(step.untouched.empty());
        EXPECT_TRUE(step.unknown.empty());
        check(step.model.program);
        Tensors in = to_tensors(ready.example);
        for (std::size_t i = 1; i < step.model.inputs.size(); ++i) in.push_back(step.model.inputs[i].init);
        const Tensors out = evaluate(step.model.program, in);
        EXPECT_EQ(out[0].dtype(), dtype);
        EXPECT_EQ(out[0].shape().rank(), batch ? 2U : 1U);
        EXPECT_EQ(out[0].shape().back(), entry.sizes.back());
        EXPECT_TRUE(equal(read_model(write_model(step.model)).program, step.model.program));
      }
}

TEST(Models, NamesAreSortedAndFound) {
  const auto all = builtin_models();
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const char* name : {"rnn", "two_layer_rnn", "gru", "lif"})
    EXPECT_NE(find_builtin_model(name), nullptr) << name;
  EXPECT_EQ(find_builtin_model("grru"), nullptr);
  EXPECT_THAT(message_of<ValueError>([] { make_model("grru"); }),
              AllOf(HasSubstr("grru"), HasSubstr("gru, lif")));
  EXPECT_THAT(message_of<ValueError>([] { make_model("gru", {.sizes = {3}}); }), HasSubstr("3 sizes"));
}

TEST(Models, NotebookNetwork) {
  const ReadyModel ready = make_model("two_layer_rnn");
  const Model model = trace_step(*ready.module, ready.example).model;
  EXPECT_EQ(ready.example[0].shape(), (Shape{10}));
  const auto is_product = [](const Eqn& e) { return e.prim == &etp_mv_p; };
  EXPECT_EQ(std::count_if(model.program.jaxpr.eqns.begin(), model.program.jaxpr.eqns.end(), is_product), 3);
  EXPECT_EQ(to_string(model.inputs[2].path), "rnn1/W/weight");
  EXPECT_EQ(model.program.jaxpr.invars[3].aval.shape, (Shape{42, 32}));
}

}  // namespace
}  // namespace etrace
