// SnAp: how many positions a trace follows, and from when on it is RTRL.
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Six units in a directed ring with self edges; the recurrent weight alone is learned online.
SparsePattern ring(std::int64_t n) {
  Dims row, col;
  for (std::int64_t i = 0; i < n; ++i)
    for (const std::int64_t j : {i, (i + 1) % n}) {
      row.push_back(i);
      col.push_back(j);
    }
  return SparsePattern::coo(n, n, row, col);
}

Model ring_model(std::int64_t n = 6) {
  Model m =
      step_model({arg("x", {3}), hidden("h", {n}), param("w", {2 * n}), param("win", {3, n})}, [n](In& in) {
        in.set("h", tanh(matmul_plain(in["x"], in["win"]) + sparse_matmul(in["h"], in["w"], ring(n))));
        return in["h"];
      });
  set_initial(m, "h", zeros({n}, Dtype::F64));
  return m;
}

std::int64_t largest_array(const Jaxpr& program) {
  std::int64_t most = 0;
  for (const Eqn& eqn : program.eqns) {
    for (const Var& v : eqn.out) most = std::max(most, v.aval.shape.size());
    for (const JaxprPtr& body : nested_jaxprs(eqn)) most = std::max(most, largest_array(body->jaxpr));
  }
  return most;
}

TEST(SnAp, L64_L65_TheRing) {
  const Model m = ring_model();
  const Sequence data = draw_sequence(m, 8);
  const ParamValues expected = bptt(m, data).grads;
  const std::vector<std::size_t> neighbours{1, 2, 3, 4, 5, 6, 6};
  const std::vector<std::int64_t> scalars{12, 24, 36, 48, 60, 72, 72};
  double before = 1e9;
  for (std::int64_t n = 1; n <= 7; ++n) {
    SCOPED_TRACE("n " + std::to_string(n));
    const auto at = static_cast<std::size_t>(n - 1);
    Learner learner = make_learner(m, InWindows(SnAp({.n = n})));
    const auto& snap = learner.graph().hidden_groups[0].snap;
    EXPECT_EQ(snap ? snap->num_neighbour() : 1, neighbours[at]);
    EXPECT_EQ(learner.get_etrace_of("w")[0].value.size(), scalars[at]);
    const double deviation = largest_deviation(online(learner, data, 3), expected, {"w"});
    if (n >= 5) {  // from rest, four hops are all that windows of three out of eight steps can see
      EXPECT_LE(deviation, 1e-9);
    } else {
      EXPECT_GT(deviation, 1e-6);
      EXPECT_LT(deviation, before) << "every hop more is nearer";
    }
    before = deviation;
  }
}

// Saturated: one step more than the diameter. Windows of every length and single steps.
TEST(SnAp, L64_SaturatedIsReverseMode) {
  Model m = ring_model();
  set_initial(m, "h", array({0.3, -0.2, 0.5, 0.1, -0.4, 0.2}, Dtype::F64));
  const Sequence data = draw_sequence(m, 8);
  const ParamValues expected = bptt(m, data).grads;
  expect_gradients(gradients_of(m, SnAp({.n = 6}), data), expected, 1e-9, {"w"});
  for (const std::int64_t window : {1, 3, 7})
    expect_gradients(gradients_of(m, InWindows(SnAp({.n = 6})), data, window), expected, 1e-9, {"w"});
  EXPECT_GT(largest_deviation(gradients_of(m, InWindows(SnAp({.n = 5})), data, 1), expected, {"w"}), 1e-9);
}

TEST(SnAp, L63_OrderOneIsTheCoupledScope) {
  const Model m = ring_model();
  const Sequence data = draw_sequence(m, 8);
  const ParamValues one = gradients_of(m, InWindows(SnAp({.n = 1})), data, 2);
  EXPECT_EQ(largest_deviation(one, gradients_of(m, InWindows(OSTLRecurrent()), data, 2)), 0.0);
  EXPECT_GT(largest_deviation(one, gradients_of(m, InWindows(D_RTRL()), data, 2), {"w"}), 1e-6);
}

// L67: a dense recurrence is saturated at n = 2, in a batch sample by sample.
TEST(SnAp, L67_DenseInABatch) {
  for (const std::optional<std::int64_t> batch :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)}) {
    const Model m = tanh_rnn(batch);
    const Sequence data = draw_sequence(m, 6);
    const ParamValues expected = bptt(m, data).grads;
    Learner learner = make_learner(m, SnAp());
    EXPECT_EQ(learner.graph().hidden_groups[0].snap->num_neighbour(), 4U);
    expect_gradients(online(learner, data), expected, 1e-9);
    expect_gradients(gradients_of(m, InWindows(SnAp()), data, 2), expected, 1e-9);
    EXPECT_GT(largest_deviation(gradients_of(m, SnAp({.n = 1}), data), expected), 1e-6);
  }
}

// Two products on the way make a pattern of all to all, but not across the samples of a batch.
TEST(SnAp, SamplesOfABatchStayApart) {
  const auto gru = [](std::int64_t batch, double meet) {
    return step_model({arg("x", {batch, 2}), hidden("h", {batch, 3}), param("wh", {5, 3}),
                       param("wr", {5, 3}), param("wz", {5, 3})},
                      [=](In& in) {
                        const Array h = in["h"], xh = concatenate(Arrays{in["x"], h}, 1);
                        const Array z = logistic(matmul(xh, in["wz"])), r = logistic(matmul(xh, in["wr"]));
                        const Array pushed = meet == 0.0 ? r * h : r * h - meet * sum(h, {0}, true);
                        const Array n = tanh(matmul(concatenate(Arrays{in["x"], pushed}, 1), in["wh"]));
                        in.set("h", (1.0 - z) * h + z * n);
                        return in["h"];
                      });
  };
  const Model m = gru(3, 0.0);
  const Sequence data = draw_sequence(m, 5);
  Learner learner = make_learner(m, SnAp());
  const PositionPattern& pattern = *learner.graph().hidden_groups[0].snap;
  EXPECT_TRUE(pattern.conservative);
  EXPECT_EQ(pattern.num_neighbour(), 3U);
  expect_gradients(online(learner, data), bptt(m, data).grads, 1e-9, {"wh", "wz"});
  EXPECT_GT(largest_deviation(gradients_of(m, SnAp({.n = 1}), data), bptt(m, data).grads, {"wh", "wz"}),
            1e-6);
  // Nothing grows with the square of the batch, in scope coupled either.
  const auto largest = [&](std::int64_t batch, const LearningRule& rule) {
    const Model wide = gru(batch, 0.0);
    CompileOptions options;
    rule.configure(options);
    const ETraceGraph g = compile_etrace_graph(wide, options);
    const Program step = PlanBuilder(g, rule, VjpMethod::SingleStep).evolve({});
    return largest_array(lean(step).jaxpr.jaxpr);
  };
  EXPECT_EQ(largest(16, SnAp()), 2 * largest(8, SnAp()));
  EXPECT_EQ(largest(16, OSTLRecurrent()), 2 * largest(8, OSTLRecurrent()));
  // Samples that do meet are neighbours.
  const Model meeting = gru(2, 0.5);
  Learner all = make_learner(meeting, SnAp());
  EXPECT_EQ(all.graph().hidden_groups[0].snap->num_neighbour(), 6U);
  const Sequence other = draw_sequence(meeting, 5);
  expect_gradients(online(all, other), bptt(meeting, other).grads, 1e-9, {"wh", "wz"});
}

// L66: two states per position; L75: positions that stay apart have one neighbour.
TEST(SnAp, L66_L75_TwoStates) {
  const Model two =
      step_model({arg("x", {3}), hidden("v", {5}), hidden("a", {5}), param("w", {10}), param("win", {3, 5})},
                 [](In& in) {
                   const Array v = 0.6 * in["v"] + tanh(matmul_plain(in["x"], in["win"])) +
                                   0.5 * tanh(sparse_matmul(in["v"], in["w"], ring(5))) - 0.2 * in["a"];
                   const Array a = 0.9 * in["a"] + 0.3 * in["v"];
                   in.set("v", v);
                   in.set("a", a);
                   return v + a;
                 });
  const Sequence data = draw_sequence(two, 7);
  Learner learner = make_learner(two, InWindows(SnAp({.n = 5})));
  EXPECT_EQ(learner.graph().hidden_groups[0].trace_state_width(), 10);
  expect_gradients(online(learner, data, 3), bptt(two, data).grads, 1e-9, {"w"});
  const Model apart = two_state();
  const Sequence other = draw_sequence(apart, 6);
  Learner degenerate = make_learner(apart, InWindows(SnAp({.n = 3})));
  EXPECT_TRUE(degenerate.graph().hidden_groups[0].snap->degenerate());
  EXPECT_EQ(
      largest_deviation(online(degenerate, other, 2), gradients_of(apart, InWindows(D_RTRL()), other, 2)),
      0.0);
}

TEST(SnAp, L77_OverTheBudget) {
  expect_error<NotSupportedError>("= 64 Jacobian elements, over snap_max_jacobian_elements=63", [] {
    make_learner(tanh_rnn(), SnAp({.n = 2, .max_jacobian_elements = 63}));
  });
  expect_error<ValueError>("n is 0; it must be at least 1", [] { SnAp rule({.n = 0}); });
}

// A recurrent convolution over three axes: its positions are all taken to act on each other.
Model volume() {
  return step_model(
      {arg("x", {1, 2, 2, 2, 1}), hidden("h", {1, 2, 2, 2, 3}), param("w", {2, 2, 2, 4, 3})}, [](In& in) {
        const Array seen = concatenate(Arrays{in["x"], in["h"]}, -1);
        in.set("h",
               tanh(conv(seen, in["w"], {}, {.strides = {1, 1, 1}, .layout = {"NDHWC", "DHWIO", "NDHWC"}})));
        return in["h"];
      });
}

// What the limit counts is the largest array of every program, in steps and in windows, but for the traces.
TEST(SnAp, NothingIsLargerThanWhatTheLimitCounts) {
  struct Case {
    const char* name;
    Model model;
    std::int64_t n, counted;
  };
  const Case cases[] = {{"dense", tanh_rnn(), 2, 4 * 4 * 4},
                        {"dense in a batch", tanh_rnn(3), 2, 3 * 4 * 4 * 4},
                        {"ring", ring_model(120), 3, 120 * 3 * 3},
                        {"volume", volume(), 2, 24 * 24 * 24}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const SnAp rule({.n = c.n, .max_jacobian_elements = c.counted});
    CompileOptions options;
    rule.configure(options);
    const ETraceGraph g = compile_etrace_graph(c.model, options);
    options.snap_max_jacobian_elements = c.counted - 1;
    EXPECT_THROW(compile_etrace_graph(c.model, options), NotSupportedError);
    for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep}) {
      const PlanBuilder builder(g, rule, method);
      std::int64_t most = c.counted;
      for (const TraceSlot& s : builder.memory()) most = std::max(most, s.aval.shape.size());
      for (const std::int64_t steps : {1, 3}) {
        const Program program = lean(builder.evolve({.steps = steps}));
        EXPECT_LE(largest_array(program.jaxpr.jaxpr), most) << name(method) << ", " << steps << " steps";
      }
    }
  }
}

// Windows of any length are the steps, with the filter and with steps that do not count, too.
TEST(SnAp, WindowsOfWideTracesAreTheirSteps) {
  for (const std::optional<std::int64_t> batch :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)})
    for (const std::optional<double> kappa : {std::optional<double>(), std::optional<double>(0.7)}) {
      const Model m = tanh_rnn(batch);
      const Sequence data = draw_sequence(m, 9);
      ETraceAxes axes{.recurrence_scope = RecurrenceScope::SparseN, .sparse_n = 2};
      if (kappa) axes.trace_filter = TraceFilter::Kappa;
      axes.kappa = kappa;
      const ConfiguredRule rule{ETraceConfig(axes)};
      const auto run = [&](std::int64_t window, bool freeze) {
        Learner learner = make_learner(m, rule, Compat::None, window);
        SequenceOptions how{.reduction = Reduction::Sum};
        if (freeze) {
          how.mask = array({1, 1, 0, 1, 1, 0, 0, 1, 1}, Dtype::F64);
          how.freeze = true;
        }
        return learner.etrace_grad(data.all(), squared_error(), how).grads;
      };
      for (const bool freeze : {false, true}) {
        const ParamValues by_step = run(1, freeze);
        for (const std::int64_t window : {2, 4, 9}) expect_gradients(run(window, freeze), by_step, 1e-11);
      }
    }
}

// L69, L74: every operator has anchors here, also those that the reference refuses; under compat they are
// refused.
// A pattern that has to assume that all act on all, in a batch whose samples are proven to keep apart.
TEST(SnAp, ConservativePatternsOfABatch) {
  const Model m = step_model(
      {arg("x", {3, 3}), hidden("h", {3, 3}), hidden("g", {3, 3}), param("u", {3}), param("w", {3, 3})},
      [](In& in) {
        const Array h = in["h"];
        const Function with = [&](ArraySpan g) {
          return Arrays{0.6 * g[0] + 0.5 * matmul_plain(h, in["w"])};
        };
        const Function without = [](ArraySpan g) { return Arrays{0.5 * g[0]}; };
        in.set("g", cond(sum(in["x"]) > 0.0, with, without, {in["g"]})[0]);
        in.set("h", 0.7 * h + element_wise(in["u"]) * h);
        return in["g"] + in["g"];
      });
  const Sequence data = draw_sequence(m, 5);
  const ParamValues expected = bptt(m, data).grads;
  for (const std::int64_t n : {1, 2, 3, 6}) {
    const ParamValues found = gradients_of(m, SnAp({.n = n}), data);
    if (n > 1) expect_gradients(found, expected, 1e-9, {"u"});
  }
}

TEST(SnAp, L69_L74_EveryOperator) {
  for (const char* op : {"emb", "einsum_shared", "conv_1d_first", "lora_mm", "elemwise"}) {
    SCOPED_TRACE(op);
    const Model m = operator_model(operator_case(op), Structure::Coupled);
    const Sequence data = draw_sequence(m, 5);
    expect_gradients(gradients_of(m, InWindows(SnAp()), data, 2), bptt(m, data).grads, 1e-9);
  }
  expect_error<NotSupportedError>("share a weight", [] {
    make_learner(operator_model(operator_case("einsum_shared")), SnAp(), Compat::Braintrace);
  });
}

}  // namespace
}  // namespace etrace
