// What is exact and was once not called so: axes of size 1 (a sample without a batch, as convolutions have
// it), and spikes that read the state before the step.
#include "etrace/nn.h"
#include "etrace/verify.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Every parameter that reaches h must be called exact, and be it, in single steps and in windows.
void expect_exact(const Model& m, const char* what) {
  SCOPED_TRACE(what);
  CompileOptions strict;
  strict.strict = true;
  const ETraceGraph g = compile_etrace_graph(m, strict);
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    for (const std::string& reason : r.tail_reasons) EXPECT_EQ(reason, "");
  const Sequence data = draw_sequence(m, 7);
  const VerifyReport report = verify(m, D_RTRL(), data.all(), squared_error(), {.windows = {1, 3}});
  EXPECT_TRUE(report.met()) << report.to_string();
  for (const VerifyReport::Leaf& l : report.leaves) {
    EXPECT_TRUE(l.alive);
    EXPECT_EQ(l.expected.single_step.expectation, Expectation::Exact) << l.expected.single_step.reason;
    EXPECT_EQ(l.expected.windows.expectation, Expectation::Exact) << l.expected.windows.reason;
  }
}

TEST(UnitAxes, ConvolutionsWithoutABatchAreExact) {
  // One sample goes into the operator as a batch of one, and comes back without it.
  expect_exact(step_model({arg("x", {6, 2}), hidden("h", {6, 3}), param("b", {3}), param("k", {3, 2, 3})},
                          [](In& in) {
                            const Array y = conv(expand_dims(in["x"], {0}), in["k"], in["b"],
                                                 {.layout = {"NWC", "WIO", "NWC"}});
                            in.set("h", 0.8 * in["h"] + squeeze(y, {0}));
                            return in["h"];
                          }),
               "by squeeze");
  expect_exact(
      step_model(
          {arg("x", {6, 2}), hidden("h", {6, 3}), param("k", {3, 2, 3})},
          [](In& in) {
            const Array y = conv(reshape(in["x"], {1, 6, 2}), in["k"], {}, {.layout = {"NWC", "WIO", "NWC"}});
            in.set("h", 0.8 * in["h"] + tanh(reshape(y, {6, 3})));
            return in["h"];
          }),
      "by reshape");
  expect_exact(step_model({arg("x", {1, 4, 4, 1}), hidden("h", {4, 4, 2}), param("k", {2, 2, 1, 2})},
                          [](In& in) {
                            const Array y = conv(in["x"], in["k"], {},
                                                 {.strides = {1, 1}, .layout = {"NHWC", "HWIO", "NHWC"}});
                            in.set("h", 0.8 * in["h"] + sum(y, {0}));
                            return in["h"];
                          }),
               "by a sum over one");
}

TEST(UnitAxes, LayersWithoutABatchAreExact) {
  struct Net : Module {
    nn::Conv1d& conv =
        child<nn::Conv1d>("conv", Shape{6, 1}, 3, Dims{3}, nn::ConvLayerOptions{.dtype = Dtype::F64});
    nn::LIF& lif = child<nn::LIF>("lif", nn::Size{6, 3}, nn::LIFOptions{.R = 4.0, .dtype = Dtype::F64});
    Array update(const Array& x) override {
      lif(conv(x));
      return lif.V.value();
    }
  } net;
  init_all_states(net);
  expect_exact(trace_step(net, Arrays{ones({6, 1}, Dtype::F64)}, "net").model, "conv and lif");
}

// A spike that needs the potential of before the step as well: the signal to it meets the trace of before.
TEST(UnitAxes, NeuronsThatReadTheirPotentialOfBeforeAreExact) {
  struct Net : Module {
    nn::Linear& syn = child<nn::Linear>("syn", 3, 4, nn::LinearOptions{.dtype = Dtype::F64});
    nn::HodgkinHuxley& neurons = child<nn::HodgkinHuxley>(
        "neurons", 4,
        nn::HodgkinHuxleyOptions{.dt = 0.1, .surrogate = nn::surrogate::sigmoid(1.0), .dtype = Dtype::F64});
    Array update(const Array& x) override {
      return neurons.step(neurons.spikes(), {.current = 100.0 * syn(x) + 100.0});
    }
  } net;
  init_all_states(net);
  expect_exact(trace_step(net, Arrays{ones({3}, Dtype::F64)}, "net").model, "Hodgkin and Huxley");
}

TEST(UnitAxes, StatesOfOnePositionAlongAnAxis) {
  // h has an axis of size 1, which values on the way do not have.
  expect_exact(step_model({arg("x", {3}), hidden("h", {1, 4}), param("w", {3, 4})},
                          [](In& in) {
                            const Array h = squeeze(in["h"], {0});
                            in.set("h", expand_dims(0.8 * tanh(h) + matmul(in["x"], in["w"]), {0}));
                            return in["h"];
                          }),
               "in front");
}

// What does mix positions is still called so.
TEST(UnitAxes, PositionsThatMeetAreFound) {
  const Model m = step_model({arg("x", {6, 2}), hidden("h", {6, 3}), param("k", {3, 2, 3})}, [](In& in) {
    const Array y =
        squeeze(conv(expand_dims(in["x"], {0}), in["k"], {}, {.layout = {"NWC", "WIO", "NWC"}}), {0});
    in.set("h", 0.8 * in["h"] + y - sum(y, {0}, true));
    return in["h"];
  });
  EXPECT_NE(compile_etrace_graph(m).hidden_param_op_relations[0].tail_reasons[0], "");
  // A transposed square is the same shape at other positions.
  const Model turned = step_model({arg("x", {3, 2}), hidden("h", {3, 3}), param("k", {1, 2, 3})}, [](In& in) {
    const Array y =
        squeeze(conv(expand_dims(in["x"], {0}), in["k"], {}, {.layout = {"NWC", "WIO", "NWC"}}), {0});
    in.set("h", 0.8 * in["h"] + transpose(y, {1, 0}));
    return in["h"];
  });
  EXPECT_NE(compile_etrace_graph(turned).hidden_param_op_relations[0].tail_reasons[0], "");
}

}  // namespace
}  // namespace etrace
