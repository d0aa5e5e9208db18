// Random models of one group against a dense influence matrix that is written down here:
//   E ← mask ⊙ (J·E + B),   grad θ = Σ_t ⟨∂ℓ_t/∂h_t, E_t⟩
// with J the whole Jacobian of the step by forward mode (for the diagonal scope without what passes through
// products), B = ∂h/∂θ, and the mask keeping for every element of θ the position that it acts on.
#include "learn/scenario.h"

#include <random>

#include "etrace/transform.h"

namespace etrace {
namespace {

using namespace testing;

constexpr std::int64_t kWide = 3;
constexpr std::uint64_t kSeeds = 30;

struct RandomCell {
  std::uint64_t seed;
  std::optional<std::int64_t> batch = {};
  bool cut_products = false;  // nothing of the old states passes through a product

  std::size_t num_states() const { return 1 + seed % 3; }
  Shape shape() const { return batch ? Shape{*batch, kWide} : Shape{kWide}; }
  Model model() const;
  Array step(In& in) const;
};

std::string state_name(std::size_t i) { return "h" + std::to_string(i); }

Model RandomCell::model() const {
  ModelInputs inputs{arg("x", shape())};
  for (std::size_t i = 0; i < num_states(); ++i) inputs.push_back(hidden(state_name(i), shape()));
  inputs.push_back(param("e", {kWide}));
  inputs.push_back(param("w0", {kWide, kWide}));
  inputs.push_back(param("w1", {kWide, kWide}));
  return step_model(
      inputs, [this](In& in) { return step(in); }, seed);
}

// Every state reads its neighbour (so all are one group), every parameter is used, products take old values
// and feed states element by element; later states may read new ones.
Array RandomCell::step(In& in) const {
  std::mt19937_64 rng(seed);
  const auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(rng() % n); };
  Arrays old, next;
  for (std::size_t i = 0; i < num_states(); ++i) old.push_back(in[state_name(i)]);
  const auto data = [&]() -> Array {
    const Array h = old[pick(old.size())];
    switch (pick(3)) {
      case 0:
        return in["x"];
      case 1:
        return tanh(h);
      default:
        return in["x"] * h;
    }
  };
  const auto factor = [&](const Array& a) { return cut_products ? stop_gradient(a) : a; };
  const Array constant = Random(seed).f64({kWide, kWide}, -0.5, 0.5);
  for (std::size_t i = 0; i < old.size(); ++i) {
    Array h = 0.4 * old[i] + 0.2 * sin(old[(i + 1) % old.size()]);
    for (std::size_t k = 0; k < 2; ++k) {
      const Array y = matmul(factor(data()), in["w" + std::to_string(k)]), gate = old[pick(old.size())];
      h = h + (pick(2) == 0 ? 0.5 * tanh(y) : 0.5 * y * logistic(gate));
    }
    if (i == 0 || pick(2) == 0) h = h + element_wise(in["e"]) * tanh(old[pick(old.size())]);
    if (pick(2) == 0) h = h + 0.3 * matmul_plain(factor(old[pick(old.size())]), constant);
    if (i > 0 && pick(2) == 0) h = h + 0.3 * sin(next[pick(next.size())]);
    next.push_back(h);
  }
  for (std::size_t i = 0; i < next.size(); ++i) in.set(state_name(i), next[i]);
  return concatenate(next, -1);
}

// The influence on all states [S·n, |θ|] per parameter, masked.
class DenseInfluence {
 public:
  explicit DenseInfluence(const RandomCell& cell)
      : model_(cell.model()), params_(initial_params(model_)), states_(initial_states(model_)) {
    RandomCell cut = cell;
    cut.cut_products = true;
    cut_model_ = cut.model();
  }

  ParamValues gradient(const Sequence& data, bool with_products) {
    ParamValues total = params_;
    for (Array& g : total.values) g = zeros_like(g);
    Arrays influence(params_.values.size());
    for (std::int64_t t = 0; t < data.length(); ++t) {
      const Array x = item(data.args[0], t);
      const Array j = jacobian_of_states(with_products ? model_ : cut_model_, x);
      for (std::size_t p = 0; p < influence.size(); ++p) {
        const Array b = jacobian_of_param(x, p);
        influence[p] = mask(p) * (t == 0 ? b : matmul_plain(j, influence[p]) + b);
      }
      states_ = new_states(model_, x, states_, params_.values);
      const Array signal = 2.0 * (concatenate(states_, 0) - item(data.targets, t));
      for (std::size_t p = 0; p < influence.size(); ++p)
        total.values[p] = total.values[p] +
                          reshape(matmul_plain(signal, influence[p]), params_.values[p].shape().to_dims());
    }
    return total;
  }

 private:
  std::int64_t size() const { return kWide * static_cast<std::int64_t>(states_.size()); }

  static Arrays new_states(const Model& m, const Array& x, ArraySpan states, ArraySpan params) {
    Arrays in{x};
    in.insert(in.end(), states.begin(), states.end());
    in.insert(in.end(), params.begin(), params.end());
    const Arrays out = eval_jaxpr(m.program, in);
    return {out.begin() + 1, out.begin() + 1 + static_cast<std::ptrdiff_t>(states.size())};
  }
  Array jacobian_of_states(const Model& m, const Array& x) const {
    const Function f = [&](ArraySpan h) {
      const Arrays split_states = split(h[0], Dims(states_.size(), kWide));
      return Arrays{concatenate(new_states(m, x, split_states, params_.values), 0)};
    };
    return jacfwd(f)(Arrays{concatenate(states_, 0)})[0];
  }
  Array jacobian_of_param(const Array& x, std::size_t p) const {
    const Function f = [&](ArraySpan w) {
      Arrays params = params_.values;
      params[p] = w[0];
      return Arrays{concatenate(new_states(model_, x, states_, params), 0)};
    };
    return reshape(jacfwd(f)(Arrays{params_.values[p]})[0], {size(), -1});
  }
  // 1 where a state's position is that of the element: its last index.
  Array mask(std::size_t p) const {
    const Array columns = eye(kWide, Dtype::F64);
    const std::int64_t rows = params_.values[p].size() / kWide;
    return tile(columns, {static_cast<std::int64_t>(states_.size()), rows});
  }

  Model model_, cut_model_;
  ParamValues params_;
  Arrays states_;
};

TEST(RandomCells, CoupledScopeIsTheMaskedInfluence) {
  std::size_t approximate = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomCell cell{seed};
    const Model m = cell.model();
    const Sequence data = draw_sequence(m, 5, seed);
    Learner learner = make_learner(m, OSTLRecurrent());
    ASSERT_EQ(learner.graph().hidden_groups.size(), 1U);
    const ParamValues found = online(learner, data);
    expect_gradients(found, DenseInfluence(cell).gradient(data, true), 1e-10);
    approximate += largest_deviation(found, bptt(m, data).grads) > 1e-6 ? 1 : 0;
  }
  EXPECT_GT(approximate, kSeeds / 2) << "most models mix positions, so that the mask matters";
}

TEST(RandomCells, DiagonalScopeIsTheMaskedInfluenceWithoutProducts) {
  std::size_t different = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomCell cell{seed};
    const Model m = cell.model();
    const Sequence data = draw_sequence(m, 5, seed);
    Learner learner = make_learner(m, D_RTRL());
    ASSERT_EQ(learner.graph().hidden_groups.size(), 1U);
    const ParamValues found = online(learner, data);
    expect_gradients(found, DenseInfluence(cell).gradient(data, false), 1e-10);
    different += largest_deviation(found, DenseInfluence(cell).gradient(data, true)) > 1e-6 ? 1 : 0;
  }
  EXPECT_GT(different, kSeeds / 2) << "most models have products in their recurrence";
}

TEST(RandomCells, BatchesAreSumsOverSamples) {
  constexpr std::int64_t kBatch = 2;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const std::string rule : {"d_rtrl", "ostl_recurrent", "pp_prop"}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + rule);
      const RuleOptions options = rule == "pp_prop" ? RuleOptions{{"decay_or_rank", 0.7}} : RuleOptions{};
      const Model batched = RandomCell{seed, kBatch}.model(), alone = RandomCell{seed}.model();
      const Sequence data = draw_sequence(batched, 4, seed);
      Learner all = make_learner(batched, *make_rule(rule, options));
      const Arrays states = states_of(all);
      const ParamValues params = all.params();
      const ParamValues found = online(all, data);
      ParamValues total;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        Learner one = make_learner(alone, *make_rule(rule, options));
        one.set_params(params);
        for (std::size_t i = 0; i < states.size(); ++i) one.set_state(state_name(i), item(states[i], b));
        const auto lane = [&](const Array& a) { return squeeze(slice_axis(a, 1, b, b + 1), {1}); };
        const ParamValues g = online(one, {{lane(data.args[0])}, lane(data.targets)});
        total = b == 0 ? g : sum_of(total, g);
      }
      expect_gradients(found, total, 1e-11);
    }
}

}  // namespace
}  // namespace etrace
