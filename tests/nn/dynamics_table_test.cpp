// Neurons and synapses behind a Linear, one row each: D-RTRL is exact for all of them, with surrogate
// derivatives and learned constants; batches, element types and errors.
#include <gmock/gmock.h>

#include "etrace/nn.h"
#include "nn/gradients.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::Batch;

constexpr std::int64_t kSenders = 3, kUnits = 4;

struct DynamicsRow {
  std::string name;
  std::function<std::shared_ptr<Module>(Dtype)> make;
  double gain = 2.0, offset = 0.0;  // of what the Linear gives, so that the units are alive
  bool spiking = true;              // finite differences do not see surrogate derivatives
  bool known = true;                // theory says that the gradient is exact
  std::vector<std::string> silent = {};
};

// Spikes act on receptors through a switch: what drives them has no gradient.
const std::vector<std::string> kDrive{"in/weight.bias", "in/weight.weight"};

template <class Unit, class Options>
std::function<std::shared_ptr<Module>(Dtype)> unit(Options options) {
  return [=](Dtype dtype) {
    Options o = options;
    o.dtype = dtype;
    return std::make_shared<Unit>(kUnits, o);
  };
}

// What is late drives units that leak, so that past and units are one group.
struct LateUnits : Module {
  LateUnits(const nn::Time& delay, Dtype dtype)
      : late(child<nn::Delay>("late", kUnits, delay,
                              nn::DelayOptions{.memory = nn::DelayMemory::Hidden, .dtype = dtype})),
        h(hidden("h", {kUnits}, dtype)) {}
  Array update(const Array& x) override {
    const Array kept = 0.7 * h.value();
    h.set(kept + tanh(late(x)));
    return h.value();
  }
  nn::Delay& late;
  HiddenState& h;
};
std::function<std::shared_ptr<Module>(Dtype)> delayed(const nn::Time& delay) {
  return [=](Dtype dtype) { return std::make_shared<LateUnits>(delay, dtype); };
}

std::vector<DynamicsRow> dynamics_rows() {
  using namespace nn;
  const Array taus = array({3, 5, 8, 12});
  const Surrogate wide = surrogate::sigmoid(1.0);  // never zero
  return {
      {"LIF", unit<LIF>(LIFOptions{.surrogate = wide})},
      {"LIF, hard reset", unit<LIF>(LIFOptions{.V_reset = -0.2, .reset = Reset::Hard, .surrogate = wide})},
      {"LIF, detached reset", unit<LIF>(LIFOptions{.detached = true, .surrogate = wide})},
      {"LIF, a time constant each", unit<LIF>(LIFOptions{.tau = taus, .surrogate = wide})},
      {"LIF, learned time constants",
       unit<LIF>(LIFOptions{.tau = learned(Quantity(taus)), .V_th = learned(0.9), .surrogate = wide})},
      {"LIFRef", unit<LIFRef>(LIFOptions{.tau_ref = 2.0, .surrogate = wide})},
      {"IF", unit<IF>(LIFOptions{.surrogate = wide})},
      {"ALIF", unit<ALIF>(ALIFOptions{.tau_a = 20.0, .beta = 0.5, .surrogate = wide})},
      {"ALIF, learned constants",
       unit<ALIF>(ALIFOptions{.tau_a = learned(20.0), .beta = learned(0.5), .surrogate = wide}), 10.0},
      {"Gif", unit<Gif>(GifOptions{.a = 0.01, .A1 = 0.3, .A2 = -0.1, .surrogate = wide}), 1.0, 2.5},
      {"CurrentGif", unit<CurrentGif>(CurrentGifOptions{.detached = false, .surrogate = wide}), 20.0},
      {"AdEx", unit<AdEx>(AdExOptions{.dt = 0.5, .surrogate = wide}), 10.0, 40.0},
      {"Izhikevich", unit<Izhikevich>(IzhikevichOptions{.dt = 0.5, .surrogate = wide}), 10.0, 20.0},
      {"HodgkinHuxley", unit<HodgkinHuxley>(HodgkinHuxleyOptions{.dt = 0.05, .surrogate = wide}), 100.0,
       100.0, true, false},
      {"Expon", unit<Expon>(ExponOptions{}), 1.0, 0.0, false},
      {"Expon, a learned time constant", unit<Expon>(ExponOptions{.tau = learned(6.0)}), 1.0, 0.0, false},
      {"DualExpon", unit<DualExpon>(DualExponOptions{}), 1.0, 0.0, false},
      {"Alpha", unit<Alpha>(AlphaOptions{}), 1.0, 0.0, false},
      {"STD", unit<STD>(STDOptions{.U = 0.4}), 0.5, 0.5, false},
      {"STP", unit<STP>(STPOptions{.tau_f = 30.0, .tau_d = 20.0}), 0.5, 0.5, false},
      {"STD, learned constants", unit<STD>(STDOptions{.tau = learned(50.0), .U = learned(0.4)}), 0.5, 0.5,
       false},
      {"AMPA", unit<AMPA>(ReceptorOptions{.alpha = learned(0.98), .beta = learned(0.18)}), 1.0, 0.0, false,
       true, kDrive},
      {"GABAa",
       unit<GABAa>(
           ReceptorOptions{.alpha = learned(0.53), .beta = learned(0.18), .T = learned(1.0), .T_dur = 1.0}),
       1.0, 0.0, false, true, kDrive},
      {"NMDA",
       unit<NMDA>(NMDAOptions{.alpha1 = learned(2.0),
                              .beta1 = learned(0.01),
                              .alpha2 = learned(1.0),
                              .beta2 = learned(0.5),
                              .T = learned(1.0)}),
       1.0, 0.0, false, true, kDrive},
      {"Delay, in hidden states", delayed(2.0), 1.0, 0.0, false},
      {"Delay, in hidden states, one each", delayed(array({1, 0, 3, 2})), 1.0, 0.0, false},
  };
}

struct DrivenUnits : Module {
  DrivenUnits(const DynamicsRow& row, Dtype dtype)
      : in(child<nn::Linear>("in", kSenders, kUnits,
                             nn::LinearOptions{.bias_init = nn::init::normal(0.2), .dtype = dtype})),
        units(row.make(dtype)),
        gain(row.gain),
        offset(row.offset) {
    share("units", *units);
  }
  Array update(const Array& x) override { return (*units)(gain * in(x) + offset); }
  nn::Linear& in;
  std::shared_ptr<Module> units;
  double gain, offset;
};

TEST(DynamicsTable, GradientsAreExact) {
  for (const DynamicsRow& row : dynamics_rows())
    for (const Batch batch : {Batch(), Batch(2)}) {
      SCOPED_TRACE(row.name + (batch ? " with a batch" : ""));
      DrivenUnits net(row, Dtype::F64);
      testing::expect_exact_gradients(net, {.in = {kSenders},
                                            .batch = batch,
                                            .must_be_known = row.known,
                                            .spiking = row.spiking,
                                            .silent = row.silent});
    }
}

TEST(DynamicsTable, ABatchIsItsRows) {
  for (const DynamicsRow& row : dynamics_rows())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      SCOPED_TRACE(row.name);
      DrivenUnits net(row, dtype);
      const Array xs = convert(testing::draw_inputs({.in = {kSenders}, .batch = 2}, 4), dtype);
      const auto run = [&](const auto& step) {
        Array y;
        for (int t = 0; t < 4; ++t) y = net(step(t));
        return y;
      };
      init_all_states(net, 2);
      const Array both = run([&](int t) { return dynamic_index(xs, t); });
      EXPECT_EQ(both.aval(), (Aval{dtype, {2, kUnits}}));
      for (int b = 0; b < 2; ++b) {
        init_all_states(net);
        const Array one = run([&](int t) { return dynamic_index(dynamic_index(xs, t), b); });
        EXPECT_EQ(testing::difference(one.tensor(), dynamic_index(both, b).tensor(),
                                      dtype == Dtype::F64 ? 1e-12 : 1e-4),
                  std::nullopt);
      }
    }
}

TEST(DynamicsTable, WrongShapesAreNamed) {
  for (const DynamicsRow& row : dynamics_rows()) {
    SCOPED_TRACE(row.name);
    const auto units = row.make(Dtype::F32);
    EXPECT_THAT(testing::message_of<ValueError>([&] { (*units)(zeros({kUnits + 1})); }),
                ::testing::AllOf(::testing::HasSubstr("f32[5]"), ::testing::HasSubstr("[4]")));
  }
}

}  // namespace
}  // namespace etrace
