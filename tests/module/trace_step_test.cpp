// A stateful step as a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/interp.h"
#include "etrace/module.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

const Dtype kF64 = Dtype::F64;

// A module from a function, so that each test shows its step.
struct Step : Module {
  HiddenState& v = hidden("v", {3}, kF64);
  HiddenState& a = hidden("a", {3}, kF64);
  ParamState& w =
      param("w", {{"weight", random::normal(random::key(1), {3, 3}, kF64)}, {"bias", ones({3}, kF64)}});
  ShortTermState& count = short_term("count", full({}, std::int64_t{0}, Dtype::I32), false);
  std::function<Array(Step&, const Array&)> f;
  explicit Step(std::function<Array(Step&, const Array&)> function) : f(std::move(function)) {}
  Array update(const Array& x) override { return f(*this, x); }
};
const Array kX = array({1, -2, 3}, kF64);

std::vector<std::string> input_names(const Model& model) {
  std::vector<std::string> out;
  for (const InputRecord& r : model.inputs)
    out.push_back(r.role == Role::Arg ? "arg" : to_string(r.path) + ":" + to_string(r.leaf_key));
  return out;
}

TEST(TraceStep, StatesInOrderOfFirstTouch) {
  Step m([](Step& s, const Array& x) {
    s.count.set(s.count.value() + 1);
    const Array kept = 0.9 * s.v.value();
    s.v.set(kept + matmul(x, s.w.value("weight"), s.w.value("bias")));
    s.a.set(s.v.value());  // written, never read
    return s.v.value();
  });
  const TracedStep step = trace_step(m, kX, "leaky");
  const Model& model = step.model;
  EXPECT_EQ(model.name, "leaky");
  EXPECT_THAT(input_names(model), ElementsAre("arg", "count:", "v:", "w:bias", "w:weight", "a:"));
  EXPECT_EQ(model.inputs[1].role, Role::Other);
  EXPECT_EQ(model.inputs[1].type, "ShortTermState");
  EXPECT_EQ(model.inputs[2].role, Role::Hidden);
  EXPECT_EQ(model.inputs[3].role, Role::Param);
  EXPECT_EQ(model.inputs[3].leaf, 0);
  EXPECT_EQ(model.inputs[4].leaf, 1);
  EXPECT_EQ(model.inputs[4].init, m.w.value("weight").tensor());
  EXPECT_EQ(model.outputs[0].role, Role::Out);
  ASSERT_EQ(model.outputs.size(), model.inputs.size());
  for (std::size_t i = 1; i < model.outputs.size(); ++i)
    EXPECT_EQ(model.outputs[i].path, model.inputs[i].path);
  EXPECT_THAT(step.touched, ElementsAre(&m.count, &m.v, &m.w, &m.a));
  EXPECT_TRUE(step.untouched.empty());
  EXPECT_TRUE(step.unknown.empty());
  check(model.program);
  EXPECT_FALSE(m.v.value().is_tracer());
}

TEST(TraceStep, ProgramDoesWhatTheStepDoes) {
  Step m([](Step& s, const Array& x) {
    s.v.set(tanh(0.9 * s.v.value() + matmul(x, s.w.value("weight"), s.w.value("bias"))));
    s.a.set(s.a.value() - s.v.value());
    return s.a.value() * 2.0;
  });
  m.v.set(array({0.1, 0.2, 0.3}, kF64));
  const TracedStep step = trace_step(m, kX);
  Tensors in{kX.tensor()};
  for (std::size_t i = 1; i < step.model.inputs.size(); ++i) in.push_back(step.model.inputs[i].init);
  const Tensors out = evaluate(step.model.program, in);
  const Array y = m(kX);
  EXPECT_EQ(out[0], y.tensor());
  for (std::size_t i = 1; i < out.size(); ++i) {
    const State* state = find_state(m, step.model.outputs[i].path);
    EXPECT_EQ(out[i], state->leaves()[static_cast<std::size_t>(step.model.outputs[i].leaf)].tensor()) << i;
  }
}

TEST(TraceStep, UnwrittenStatesPassThrough) {
  Step m([](Step& s, const Array& x) { return x + s.v.value(); });
  const Model model = trace_step(m, kX).model;
  EXPECT_EQ(*as_var(model.program.jaxpr.outs[1]), model.program.jaxpr.invars[1]);
}

TEST(TraceStep, UntouchedAndUnknownStates) {
  ShortTermState key(random::key(3), false);
  HiddenState stray(zeros({3}, kF64));
  Step m([&](Step& s, const Array& x) {
    const Array k = key.value();
    key.set(random::fold_in(k, 1));
    stray.set(x);
    s.v.set(x + random::normal(k, {3}, kF64));
    return s.v.value();
  });
  const TracedStep step = trace_step(m, kX);
  EXPECT_THAT(step.untouched, ElementsAre(StatePath{"a"}, StatePath{"count"}, StatePath{"w"}));
  EXPECT_THAT(step.unknown, ElementsAre(StatePath{"_unknown_path_0"}, StatePath{"_unknown_path_1"}));
  EXPECT_THAT(input_names(step.model), ElementsAre("arg", "_unknown_path_0:", "_unknown_path_1:", "v:"));
  EXPECT_FALSE(key.value().is_tracer());
}

TEST(TraceStep, AskingForTypesIsNoRead) {
  struct Group : Module {
    HiddenGroupState& s = hidden_group("s", {4, 2});
    Array update(const Array& x) override { return x * static_cast<double>(s.num_state() + s.varshape()[0]); }
  };
  Group m;
  EXPECT_THAT(trace_step(m, zeros({1})).untouched, ElementsAre(StatePath{"s"}));
}

TEST(TraceStep, WrittenAndReadBack) {
  Step m([](Step& s, const Array& x) {
    s.count.set(s.count.value() + 1);
    s.v.set(0.9 * s.v.value() + matmul(x, s.w.value("weight"), s.w.value("bias")));
    return s.v.value();
  });
  const Model model = trace_step(m, kX).model;
  const Model again = read_model(write_model(model));
  EXPECT_TRUE(equal(model.program, again.program));
  EXPECT_EQ(write_model(again), write_model(model));
}

TEST(TraceStep, SeveralInputsAndResults) {
  struct Pair : Module {
    HiddenState& h = hidden("h", {2});
    Arrays update_all(ArraySpan x) override {
      h.set(h.value() + x[0] * x[1]);
      return {h.value(), x[0] - x[1]};
    }
  };
  Pair m;
  const Model model = trace_step(m, Arrays{zeros({2}), ones({2})}).model;
  EXPECT_EQ(model.inputs[1].index, 1);
  EXPECT_EQ(model.outputs[1].index, 1);
  EXPECT_EQ(model.outputs[2].role, Role::Hidden);
  EXPECT_EQ(model.program.jaxpr.invars.size(), 3U);
}

TEST(TraceStep, ConcreteResultsBecomeConstants) {
  Step m([](Step& s, const Array&) {
    s.v.set(array({1, 2, 3}, kF64));
    s.a.set(0.0);
    return Array(full({}, 2.0, kF64));
  });
  const Model model = trace_step(m, kX).model;
  const Tensors out =
      evaluate(model.program, Tensors{kX.tensor(), model.inputs[1].init, model.inputs[2].init});
  EXPECT_THAT(out[1].to_doubles(), ElementsAre(1, 2, 3));
  EXPECT_THAT(out[2].to_doubles(), ElementsAre(0, 0, 0));
}

TEST(TraceStep, EquationsCarryTheModulePath) {
  struct Inner : Module {
    Array update(const Array& x) override { return sin(x); }
  };
  struct Outer : Module {
    Sequential& body = child<Sequential>("body");
    Outer() {
      body.add<Inner>();
      body.add<Inner>();
    }
    Array update(const Array& x) override { return cos(body(x)); }
  };
  struct Root : Module {
    Outer& outer = child<Outer>("outer");
    Array update(const Array& x) override { return outer(x) + 1.0; }
  };
  Root m;
  const Model model = trace_step(m, kX).model;
  const auto& eqns = model.program.jaxpr.eqns;
  ASSERT_EQ(eqns.size(), 4U);
  EXPECT_THAT(eqns[0].origin.module, ElementsAre("outer", "body", "layers", "0"));
  EXPECT_THAT(eqns[1].origin.module, ElementsAre("outer", "body", "layers", "1"));
  EXPECT_THAT(eqns[2].origin.module, ElementsAre("outer"));
  EXPECT_TRUE(eqns[3].origin.module.empty());
}

TEST(TraceStep, ParametersAreNotWritten) {
  Step m([](Step& s, const Array& x) {
    s.v.set(x);
    s.w.set("bias", x);
    return x;
  });
  EXPECT_THAT(message_of<NotSupportedError>([&] { trace_step(m, kX); }),
              HasSubstr("ParamState w was written"));
  EXPECT_FALSE(m.v.value().is_tracer());  // restored although the step threw
  EXPECT_EQ(m.v.value().tensor(), Tensor::zeros({kF64, {3}}));
}

TEST(TraceStep, TracesDoNotNest) {
  Step inner([](Step&, const Array& x) { return x; });
  Step outer([&](Step&, const Array& x) {
    trace_step(inner, kX);
    return x;
  });
  EXPECT_THAT(message_of<NotSupportedError>([&] { trace_step(outer, kX); }), HasSubstr("already"));
  trace_step(inner, kX);  // the failed one has left nothing behind
}

TEST(TraceStep, StatesAreNotMadeOrInitialisedInAStep) {
  Step made([](Step&, const Array& x) {
    const HiddenState h(zeros({3}, kF64));
    return x;
  });
  EXPECT_THROW(trace_step(made, kX), NotSupportedError);
  Step reset([](Step& s, const Array& x) {
    reset_all_states(s);
    return x;
  });
  EXPECT_THROW(trace_step(reset, kX), NotSupportedError);
}

TEST(TraceStep, BodiesMayReadStates) {
  Step m([](Step& s, const Array& x) {
    const Array y = jit([&](ArraySpan in) { return Arrays{in[0] * s.v.value()}; })(Arrays{x})[0];
    const ScanResult r = scan(
        [&](ArraySpan carry, ArraySpan) -> ScanResult {
          return {{carry[0] * 0.5 + s.a.value()}, {}};
        },
        {y}, {}, {.length = 3});
    s.v.set(r.carry[0]);
    return s.v.value();
  });
  m.v.set(array({1, 1, 1}, kF64));
  m.a.set(array({2, 4, 6}, kF64));
  const TracedStep step = trace_step(m, kX);
  EXPECT_THAT(input_names(step.model), ElementsAre("arg", "v:", "a:"));
  check(step.model.program);
  const Tensors out = evaluate(step.model.program,
                               Tensors{kX.tensor(), step.model.inputs[1].init, step.model.inputs[2].init});
  EXPECT_EQ(out[0], m(kX).tensor());
}

TEST(TraceStep, BodiesMustNotWriteStates) {
  auto expect_refused = [](std::function<Array(Step&, const Array&)> f) {
    Step m(std::move(f));
    EXPECT_THAT(message_of<NotSupportedError>([&] { trace_step(m, kX); }),
                AllOf(HasSubstr("HiddenState v was written inside the body"), HasSubstr("set() it outside")));
    EXPECT_FALSE(m.v.value().is_tracer());
  };
  expect_refused([](Step& s, const Array& x) {
    return jit([&](ArraySpan in) {
      s.v.set(in[0]);
      return Arrays{in[0]};
    })(Arrays{x})[0];
  });
  expect_refused(
      [](Step& s, const Array& x) {  // a concrete value: nothing leaks, but it would always be written
        auto branch = [&](ArraySpan in) {
          s.v.set(0.0);
          return Arrays{in[0]};
        };
        return cond(sum(x) > 0.0, branch, branch, {x})[0];
      });
  expect_refused([](Step& s, const Array& x) {
    return grad([&](ArraySpan in) {
      s.v.set(in[0]);
      return sum(in[0]);
    })(Arrays{x})[0];
  });
}

TEST(TraceStep, StackedStatesAreDataMovementOnly) {
  struct Alif : Module {
    HiddenTreeState& s = hidden_tree("s", {{"v", zeros({3}, kF64)}, {"a", zeros({3}, kF64)}});
    Array update(const Array& x) override {
      const Array v = s.get_value("v"), a = s.get_value("a");
      s.set_value("v", 0.9 * v + x - a);
      s.set_value("a", 0.5 * a + v);
      return s.get_value("v");
    }
  };
  Alif m;
  const Model model = trace_step(m, kX).model;
  EXPECT_EQ(model.inputs[1].type, "HiddenTreeState");
  EXPECT_EQ(model.inputs[1].init.shape(), (Shape{3, 2}));
  for (const Eqn& e : model.program.jaxpr.eqns)
    EXPECT_TRUE(e.prim == &slice_p || e.prim == &squeeze_p || e.prim == &stack_p || e.prim == &mul_p ||
                e.prim == &add_p || e.prim == &sub_p)
        << e.prim->name();
  init_all_states(m, 2);
  EXPECT_EQ(trace_step(m, zeros({2, 3}, kF64)).model.inputs[1].init.shape(), (Shape{2, 3, 2}));
}

}  // namespace
}  // namespace etrace
