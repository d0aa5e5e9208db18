// Cells, one row each: formulas in plain C++, a batch against its rows, errors, and gradients where nothing
// couples positions of the hidden state, for which D-RTRL is exact.
#include <gmock/gmock.h>

#include <cmath>

#include "etrace/nn.h"
#include "nn/gradients.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::Batch;
using Vector = std::vector<double>;

constexpr std::int64_t kIn = 3, kOut = 4;

double sig(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Parameters and states of a cell by name, and affine maps by hand.
struct ByHand {
  const Module& cell;
  std::vector<std::pair<std::string, Vector>> states = {};

  Vector& state(const std::string& name) {
    for (auto& [n, v] : states)
      if (n == name) return v;
    states.emplace_back(name, Vector(kOut));
    return states.back().second;
  }
  Vector param(const std::string& path) const { return param_values(cell).at(path).tensor().to_doubles(); }
  Vector map(const std::string& layer, const Vector& x) const {
    const Vector w = param(layer + "/weight.weight");
    const std::size_t out = w.size() / x.size();
    bool biased = false;
    for (const ParamLeafId& id : param_leaf_ids(cell))
      biased = biased || to_string(id) == layer + "/weight.bias";
    Vector y = biased ? param(layer + "/weight.bias") : Vector(out);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < out; ++j) y[j] += x[i] * w[i * out + j];
    return y;
  }
};

Vector joined(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// f of every unit.
template <class F>
Vector each(F f) {
  Vector y(kOut);
  for (std::size_t k = 0; k < kOut; ++k) y[k] = f(k);
  return y;
}

// Rows of every weight that stand for the hidden state.
void without_recurrence(Module& cell, std::int64_t first_row = kIn) {
  ParamValues all = param_values(cell);
  for (std::size_t i = 0; i < all.leaves.size(); ++i) {
    const Shape shape = all.values[i].shape();
    if (all.leaves[i].key != "weight" || shape.rank() < 2) continue;
    const std::size_t axis = shape.rank() - 2;  // kernels: [space…, in, out]
    if (shape[axis] <= first_row) continue;
    const Array rows = iota(Dtype::I32, shape, static_cast<int>(axis));
    all.values[i] = where(rows < static_cast<int>(first_row), all.values[i], zeros_like(all.values[i]));
  }
  set_param_values(cell, all);
}

// Each unit sees itself alone, through a weight.
void with_own_recurrence(Module& cell) {
  ParamValues all = param_values(cell);
  for (Array& w : all.values) {
    if (w.rank() < 2) continue;
    const Array row = iota(Dtype::I32, w.shape(), 0), column = iota(Dtype::I32, w.shape(), 1);
    w = where(logical_or(row < static_cast<int>(kIn), equal_to(row - static_cast<int>(kIn), column)), w,
              zeros_like(w));
  }
  set_param_values(cell, all);
}

struct CellRow {
  std::string name;
  std::function<std::shared_ptr<Module>(Dtype)> make;
  std::function<Vector(ByHand&, const Vector& x)> formula;  // the new states, and the result
  Shape in = {kIn}, out = {kOut};
  std::vector<std::string> silent = {};  // leaves without a gradient once nothing comes back
  std::function<void(Module&)> decouple = [](Module& m) { without_recurrence(m); };
  bool known = false;  // theory says that the gradient is exact, whatever the weights
  bool lane_is_known = false;
  enum Memory { Kept, None, Recurrent } memory = Kept;  // Recurrent: each unit comes back to itself through W
  bool spiking = false;                                 // finite differences do not see surrogate derivatives
};

// Biases that differ from zero, so that a forgotten one is seen.
template <class Cell>
std::shared_ptr<Module> some_cell(Dtype dtype) {
  return std::make_shared<Cell>(kIn, kOut,
                                nn::CellOptions{.bias_init = nn::init::normal(0.5), .dtype = dtype});
}
template <class Cell>
std::shared_ptr<Module> image_cell(Dtype dtype) {
  return std::make_shared<Cell>(Shape{kOut, 2}, 3, Dims{3},
                                nn::ConvCellOptions{.bias_init = nn::init::normal(0.5), .dtype = dtype});
}
void without_image_recurrence(Module& m) { without_recurrence(m, 2); }

const nn::Surrogate kWide = nn::surrogate::sigmoid(1.0);  // never zero

// Connection e of kIn·kOut is e % 3 steps late.
struct DelayedUnits : Module {
  DelayedUnits(nn::DelayMemory memory, Dtype dtype)
      : in(child<nn::DelayedLinear>(
            "in", nn::connect::all_to_all(kIn, kOut), rem(arange(kIn * kOut), Array(3)),
            nn::DelayedLinearOptions{.memory = memory, .bias_init = nn::init::normal(0.5), .dtype = dtype})),
        h(hidden("h", {kOut}, dtype)) {}
  Array update(const Array& x) override {
    const Array kept = 0.6 * h.value();
    h.set(kept + in(x));
    return h.value();
  }
  nn::DelayedLinear& in;
  HiddenState& h;
};
template <nn::DelayMemory kMemory>
std::shared_ptr<Module> delayed_units(Dtype dtype) {
  return std::make_shared<DelayedUnits>(kMemory, dtype);
}
Vector delayed_formula(ByHand& c, const Vector& x) {
  const Vector w = c.param("in/weight.weight"), bias = c.param("in/weight.bias"), before = c.state("h");
  const Vector one = c.state("one"), two = c.state("two");  // steps ago; at first longer than x, and 0
  const Vector* const past[] = {&x, &one, &two};
  const Vector now = each([&](auto k) {
    double y = 0.6 * before[k] + bias[k];
    for (std::size_t i = 0; i < kIn; ++i) y += w[i * kOut + k] * (*past[(i * kOut + k) % 3])[i];
    return y;
  });
  c.state("two") = one;
  c.state("one") = x;
  return c.state("h") = now;
}

// Conductances drive units that leak.
template <class Projection>
struct ProjectedUnits : Module {
  ProjectedUnits(std::int64_t synapses, Dtype dtype)
      : in(child<Projection>("in", nn::SynapticCurrent::cuba())), h(hidden("h", {kOut}, dtype)) {
    in.template connect<nn::Linear>(kIn, kOut, nn::LinearOptions{.bias_init = {}, .dtype = dtype});
    in.template synapse<nn::Expon>(synapses, nn::ExponOptions{.tau = 5.0, .dtype = dtype});
  }
  Array update(const Array& x) override {
    const Array kept = 0.6 * h.value();
    h.set(kept + in(x));
    return h.value();
  }
  Projection& in;
  HiddenState& h;
};
// Connection and synapse are linear, so either may come first.
Vector projection_formula(ByHand& c, const Vector& x) {
  const Vector y = c.map("in/comm/0", x), before = c.state("g"), h = c.state("h");
  const Vector g = c.state("g") = each([&](auto k) { return std::exp(-0.2) * before[k] + y[k]; });
  return c.state("h") = each([&](auto k) { return 0.6 * h[k] + g[k]; });
}

std::vector<CellRow> cell_rows() {
  using namespace nn;
  return {
      {"VanillaRNNCell",
       some_cell<VanillaRNNCell>,
       [](ByHand& c, const Vector& x) {
         const Vector y = c.map("W", joined(x, c.state("h")));
         return c.state("h") = each([&](auto k) { return std::max(0.0, y[k]); });
       },
       {kIn},
       {kOut},
       {},
       with_own_recurrence,
       false,
       false,
       CellRow::Recurrent},
      {"GRUCell",
       some_cell<GRUCell>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), z = c.map("Wz", joined(x, h)), r = c.map("Wr", joined(x, h));
         const Vector y = c.map("Wh", joined(x, each([&](auto k) { return sig(r[k]) * h[k]; })));
         return c.state("h") =
                    each([&](auto k) { return (1 - sig(z[k])) * h[k] + sig(z[k]) * std::tanh(y[k]); });
       },
       {kIn},
       {kOut},
       {"Wr/weight.bias", "Wr/weight.weight"}},
      {"CFNCell", some_cell<CFNCell>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), f = c.map("Wf", joined(x, h)), i = c.map("Wi", joined(x, h)),
                      y = c.map("Wh", x);
         return c.state("h") =
                    each([&](auto k) { return sig(f[k]) * std::tanh(h[k]) + sig(i[k]) * std::tanh(y[k]); });
       }},
      {"MGUCell", some_cell<MGUCell>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), f = c.map("Wf", joined(x, h));
         const Vector y = c.map("Wh", joined(x, each([&](auto k) { return sig(f[k]) * h[k]; })));
         return c.state("h") =
                    each([&](auto k) { return (1 - sig(f[k])) * h[k] + sig(f[k]) * std::tanh(y[k]); });
       }},
      {"LSTMCell", some_cell<LSTMCell>,
       [](ByHand& c, const Vector& x) {
         const Vector xh = joined(x, c.state("h")), before = c.state("c");
         const Vector i = c.map("Wi", xh), g = c.map("Wg", xh), f = c.map("Wf", xh), o = c.map("Wo", xh);
         const Vector now = c.state("c") =
             each([&](auto k) { return sig(f[k] + 1) * before[k] + sig(i[k]) * std::tanh(g[k]); });
         return c.state("h") = each([&](auto k) { return sig(o[k]) * std::tanh(now[k]); });
       }},
      {"URLSTMCell", some_cell<URLSTMCell>,
       [](ByHand& c, const Vector& x) {
         const Vector xh = joined(x, c.state("h")), before = c.state("c"), beta = c.param("bias");
         const Vector u = c.map("Wu", xh), f_in = c.map("Wf", xh), r_in = c.map("Wr", xh),
                      o = c.map("Wo", xh);
         const Vector now = c.state("c") = each([&](auto k) {
           const double f = sig(f_in[k] + beta[k]), r = sig(r_in[k] - beta[k]);
           const double q = 2 * r * f + (1 - 2 * r) * f * f;
           return q * before[k] + (1 - q) * std::tanh(u[k]);
         });
         return c.state("h") = each([&](auto k) { return sig(o[k]) * std::tanh(now[k]); });
       }},
      {"MinimalRNNCell",
       some_cell<MinimalRNNCell>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), z = c.map("phi", x), u = c.map("W_u", joined(z, h));
         return c.state("h") = each([&](auto k) { return sig(u[k]) * h[k] + (1 - sig(u[k])) * z[k]; });
       },
       {kIn},
       {kOut},
       {},
       [](Module& m) {  // phi acts through W_u too
         ParamValues all = param_values(m);
         for (std::size_t i = 0; i < all.leaves.size(); ++i)
           if (to_string(all.leaves[i]) == "W_u/weight.weight") all.values[i] = zeros_like(all.values[i]);
         set_param_values(m, all);
       }},
      {"MiniGRU", some_cell<MiniGRU>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), z = c.map("W_z", joined(x, h)), y = c.map("W_x", x);
         return c.state("h") = each([&](auto k) { return (1 - sig(z[k])) * h[k] + sig(z[k]) * y[k]; });
       }},
      {"MiniLSTM", some_cell<MiniLSTM>,
       [](ByHand& c, const Vector& x) {
         const Vector h = c.state("h"), f = c.map("W_f", joined(x, h)), i = c.map("W_i", joined(x, h)),
                      y = c.map("W_x", x);
         return c.state("h") = each([&](auto k) { return sig(f[k]) * h[k] + sig(i[k]) * y[k]; });
       }},
      {"LRUCell",
       [](Dtype dtype) {
         return std::make_shared<LRUCell>(kIn, kOut, LRUOptions{.r_min = 0.3, .dtype = dtype});
       },
       [](ByHand& c, const Vector& x) {
         const Vector nu = c.param("nu_log"), theta = c.param("theta_log"), gamma = c.param("gamma_log"),
                      d = c.param("D");
         const Vector re = c.state("re"), im = c.state("im"), in_re = c.map("B_re", x),
                      in_im = c.map("B_im", x);
         const auto a = [&](auto k) { return std::exp(-std::exp(nu[k])); };
         const auto b = [&](auto k) { return std::exp(theta[k]); };
         c.state("re") = each([&](auto k) {
           return a(k) * (std::cos(b(k)) * re[k] - std::sin(b(k)) * im[k]) + std::exp(gamma[k]) * in_re[k];
         });
         c.state("im") = each([&](auto k) {
           return a(k) * (std::sin(b(k)) * re[k] + std::cos(b(k)) * im[k]) + std::exp(gamma[k]) * in_im[k];
         });
         Vector y = c.map("C_re", c.state("re"));
         const Vector minus = c.map("C_im", c.state("im"));
         for (std::size_t k = 0; k < y.size(); ++k) y[k] += d[k] * x[k] - minus[k];
         return y;
       },
       {kIn},
       {kIn},
       {},
       [](Module&) {},
       true,
       true},
      {"LeakyRateReadout",
       [](Dtype dtype) {
         return std::make_shared<LeakyRateReadout>(kIn, kOut, LeakyRateReadoutOptions{.dtype = dtype});
       },
       [](ByHand& c, const Vector& x) {
         const Vector w = c.param("W"), before = c.state("r");
         return c.state("r") = each([&](auto k) {
                  double y = std::exp(-0.2) * before[k];
                  for (std::size_t i = 0; i < x.size(); ++i) y += x[i] * w[i * kOut + k];
                  return y;
                });
       },
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true},
      {"LeakySpikeReadout",
       [](Dtype dtype) {
         return std::make_shared<LeakySpikeReadout>(
             kIn, kOut,
             LeakySpikeReadoutOptions{.weight_init = init::normal(3.0), .surrogate = kWide, .dtype = dtype});
       },
       [](ByHand& c, const Vector& x) {
         const Vector w = c.param("W"), before = c.state("V");
         const Vector now = c.state("V") = each([&](auto k) {
           double y = 0.0;
           for (std::size_t i = 0; i < x.size(); ++i) y += x[i] * w[i * kOut + k];
           return std::exp(-0.2) * (before[k] - (before[k] >= 1.0 ? 1.0 : 0.0)) + (1 - std::exp(-0.2)) * y;
         });
         return each([&](auto k) { return now[k] >= 1.0 ? 1.0 : 0.0; });
       },
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true,
       CellRow::Kept,
       true},
      {"LIFLayer",  // its formula: spiking_test
       [](Dtype dtype) {
         return std::make_shared<LIFLayer>(
             kIn, kOut, LIFLayerOptions{.neuron = {.surrogate = kWide, .dtype = dtype}, .input_scale = 3.0});
       },
       {},
       {kIn},
       {kOut},
       {},
       [](Module& m) { without_recurrence(m); },
       false,
       false,
       CellRow::Kept,
       true},
      {"DelayedLinear",
       delayed_units<DelayMemory::Ring>,
       delayed_formula,
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true},
      {"DelayedLinear, in hidden states",
       delayed_units<DelayMemory::Hidden>,
       delayed_formula,
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true},
      {"AlignPost",
       [](Dtype dtype) { return std::make_shared<ProjectedUnits<AlignPost>>(kOut, dtype); },
       projection_formula,
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true},
      {"AlignPre",
       [](Dtype dtype) { return std::make_shared<ProjectedUnits<AlignPre>>(kIn, dtype); },
       projection_formula,
       {kIn},
       {kOut},
       {},
       [](Module&) {},
       true,
       true},
      // The convolutions have their own tests; these are the formulas of the cells above.
      {"ConvRNNCell",
       image_cell<ConvRNNCell>,
       {},
       {kOut, 2},
       {kOut, 3},
       {},
       without_image_recurrence,
       false,
       false,
       CellRow::None},
      {"ConvGRUCell",
       image_cell<ConvGRUCell>,
       {},
       {kOut, 2},
       {kOut, 3},
       {"Wr/weight.bias", "Wr/weight.weight"},
       without_image_recurrence},
      {"ConvLSTMCell", image_cell<ConvLSTMCell>, {}, {kOut, 2}, {kOut, 3}, {}, without_image_recurrence},
  };
}

TEST(CellTable, FollowItsFormula) {
  for (const CellRow& row : cell_rows()) {
    if (!row.formula) continue;
    SCOPED_TRACE(row.name);
    const auto cell = row.make(Dtype::F64);
    init_all_states(*cell);
    ByHand hand{*cell};
    testing::Random random(3);
    for (int t = 0; t < 5; ++t) {
      const Array x = random.f64(row.in, -2.0, 2.0);
      const Vector expected = row.formula(hand, x.tensor().to_doubles());
      EXPECT_EQ(
          testing::difference((*cell)(x).tensor(), array(expected, row.out, Dtype::F64).tensor(), 1e-12),
          std::nullopt)
          << "step " << t;
    }
  }
}

// A convolution with a kernel of one entry is a matrix product at every position.
TEST(CellTable, ConvolutionalCellsFollowThePlainOnes) {
  using namespace nn;
  const ConvCellOptions image{.bias_init = init::normal(0.5), .dtype = Dtype::F64};
  const CellOptions plain{.bias_init = init::normal(0.5), .activation = tanh, .dtype = Dtype::F64};
  const auto compare = [&](Module& conv, Module& cell) {
    ParamValues to = param_values(cell);
    const ParamValues from = param_values(conv);
    for (std::size_t i = 0; i < to.values.size(); ++i)
      to.values[i] = reshape(from.at(to_string(to.leaves[i])), to.values[i].shape().to_dims());
    set_param_values(cell, to);
    init_all_states(conv);
    init_all_states(cell, kOut);  // positions are a batch to the plain cell
    testing::Random random(5);
    for (int t = 0; t < 3; ++t) {
      const Array x = random.f64({kOut, 2});
      EXPECT_EQ(testing::difference(conv(x).tensor(), cell(x).tensor(), 1e-13), std::nullopt);
    }
  };
  ConvRNNCell a(Shape{kOut, 2}, 3, {1}, image);
  VanillaRNNCell b(2, 3, plain);
  compare(a, b);
  ConvGRUCell c(Shape{kOut, 2}, 3, {1}, image);
  GRUCell d(2, 3, plain);
  compare(c, d);
  ConvLSTMCell e(Shape{kOut, 2}, 3, {1}, image);
  LSTMCell f(2, 3, plain);
  compare(e, f);
}

TEST(CellTable, ABatchIsItsRowsAndResets) {
  for (const CellRow& row : cell_rows())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      SCOPED_TRACE(row.name);
      const auto cell = row.make(dtype);
      const Array xs = convert(testing::draw_inputs({.in = row.in, .batch = 2}, 2), dtype);
      const auto run = [&](const auto& step) {
        (*cell)(step(0));
        return (*cell)(step(1));
      };
      const auto whole = [&](int t) { return dynamic_index(xs, t); };
      init_all_states(*cell, 2);
      const Array batched = run(whole);
      EXPECT_EQ(batched.aval(), (Aval{dtype, row.out.with_front(2)}));
      reset_all_states(*cell);
      EXPECT_EQ(run(whole).tensor(), batched.tensor());
      for (int b = 0; b < 2; ++b) {
        init_all_states(*cell);
        EXPECT_EQ(testing::difference(run([&](int t) { return dynamic_index(whole(t), b); }).tensor(),
                                      dynamic_index(batched, b).tensor(), dtype == Dtype::F64 ? 1e-13 : 1e-5),
                  std::nullopt);
      }
    }
}

TEST(CellTable, WrongShapesAreNamed) {
  using ::testing::HasSubstr;
  for (const CellRow& row : cell_rows()) {
    SCOPED_TRACE(row.name);
    const auto cell = row.make(Dtype::F32);
    init_all_states(*cell);
    const Shape wide = row.in.with(row.in.rank() - 1, row.in.back() + 5);
    EXPECT_THAT(testing::message_of<ValueError>([&] { (*cell)(zeros(wide)); }), HasSubstr("expected"));
    EXPECT_THROW((*cell)(zeros(row.in.with_front(7))), ValueError);  // a batch that the states do not have
  }
}

TEST(CellTable, GradientsAreExactWithoutRecurrence) {
  for (const CellRow& row : cell_rows())
    for (const Batch batch : {Batch(), Batch(2)}) {
      SCOPED_TRACE(row.name + (batch ? " with a batch" : ""));
      const auto cell = row.make(Dtype::F64);
      row.decouple(*cell);
      testing::expect_exact_gradients(*cell, {.in = row.in,
                                              .batch = batch,
                                              .must_be_known = batch ? row.known : row.lane_is_known,
                                              .spiking = row.spiking,
                                              .silent = row.silent,
                                              .memory = row.memory != CellRow::None,
                                              .coupled = row.memory == CellRow::Recurrent});
    }
}

TEST(CellTable, ActivationsOfOnesOwn) {
  nn::LSTMCell lstm(kIn, kOut, {.activation = relu});
  lstm.c.set(-1.0);
  for (const double h : lstm(zeros({kIn})).tensor().to_doubles()) EXPECT_EQ(h, 0.0);
  nn::MiniGRU mini(kIn, kOut, {.activation = tanh});
  for (const double h : mini(full({kIn}, 50.0, Dtype::F32)).tensor().to_doubles())
    EXPECT_LE(std::abs(h), 1.0);
}

TEST(CellTable, AFreshLstmRemembers) {
  // Without weights: c decays by σ(1) in a step, not by ½.
  nn::LSTMCell cell(kIn, 1, {.weight_init = nn::init::zeros(), .dtype = Dtype::F64});
  cell.c.set(1.0);
  cell(zeros({kIn}, Dtype::F64));
  EXPECT_NEAR(cell.c.value().tensor().to_doubles()[0], sig(1.0), 1e-15);
}

TEST(CellTable, LruStartsOnTheRing) {
  const nn::LRUCell cell(3, 2000, {.r_min = 0.5, .r_max = 0.9, .max_phase = 1.5, .dtype = Dtype::F64});
  const Vector nu = cell.nu_log.value().tensor().to_doubles(),
               gamma = cell.gamma_log.value().tensor().to_doubles(),
               theta = cell.theta_log.value().tensor().to_doubles();
  double mean_square = 0.0;
  for (std::size_t k = 0; k < nu.size(); ++k) {
    const double radius = std::exp(-std::exp(nu[k]));
    EXPECT_TRUE(radius >= 0.5 && radius <= 0.9);
    EXPECT_NEAR(std::exp(2 * gamma[k]), 1.0 - radius * radius, 1e-12);
    EXPECT_LT(std::exp(theta[k]), 1.5);
    mean_square += radius * radius / static_cast<double>(nu.size());
  }
  EXPECT_NEAR(mean_square, (0.25 + 0.81) / 2, 0.01);
  EXPECT_THROW(nn::LRUCell(3, 4, {.r_min = 0.9, .r_max = 0.5}), ValueError);
}

TEST(CellTable, UrlstmForgetsAtManySpeeds) {
  const nn::URLSTMCell cell(3, 100, {.dtype = Dtype::F64});
  const Array kept = logistic(cell.bias.value());
  EXPECT_GE(min(kept).item<double>(), 0.01 - 1e-12);
  EXPECT_LE(max(kept).item<double>(), 0.99 + 1e-12);
  EXPECT_NEAR(mean(kept).item<double>(), 0.5, 0.1);
}

}  // namespace
}  // namespace etrace
