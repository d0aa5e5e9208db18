// Random sessions: what a learner does next depends on its checkpoint alone. Before every call a second
// model, learner and optimiser are made anew and take the checkpoint of the first; both do the same; results
// and all that is carried on have the same bits. So whatever is stale, kept twice or forgotten shows: buffers
// that change places, what is known of weights, programs that are bound once, values that others write.
#include <fmt/format.h>

#include <random>

#include "etrace/models.h"
#include "learn/scenario.h"

namespace etrace::random_sessions_test {
namespace {

using namespace testing;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed * 7919 + 13) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + below(static_cast<std::int64_t>(all.size())));
  }
  Array numbers(const Shape& shape, Dtype dtype) {
    return random::normal(random::key(engine_() % 100'000), shape, dtype);
  }

 private:
  std::mt19937_64 engine_;
};

struct SessionCase {
  std::uint64_t seed;
  std::string model, rule;
  Dtype dtype;
  std::optional<std::int64_t> batch, window;
  VjpMethod method;
  NotFinite not_finite;
};

SessionCase draw_case(std::uint64_t seed) {
  Draws d(seed);
  SessionCase c{.seed = seed};
  c.model = d.of({"gru", "lif_expon", "alif", "lstm", "lru", "adex", "two_layer_rnn"});
  c.rule = d.of({"D_RTRL", "pp_prop", "EProp", "UORO", "SnAp", "ThreeFactor"});
  c.dtype = d.of({Dtype::F32, Dtype::F64});
  if (d.chance(0.7)) c.batch = 1 + d.below(4);
  if (d.chance(0.7)) c.window = 1 + d.below(5);
  c.method = c.rule != "ThreeFactor" && d.chance(0.3) ? VjpMethod::MultiStep : VjpMethod::SingleStep;
  c.not_finite = d.chance(0.7) ? NotFinite::Skip : NotFinite::Error;
  return c;
}

class RandomSession {
 public:
  explicit RandomSession(const SessionCase& c) : case_(c) {
    Dims sizes(find_builtin_model(c.model)->sizes.size(), 4);
    sizes.front() = 3, sizes.back() = 2;
    model_ = make_model(c.model, {.sizes = sizes, .batch = c.batch, .dtype = c.dtype});
    optim::CommonOptions common;
    if (c.seed % 3 == 0) common.clip_norm = 0.7;
    if (c.seed % 5 == 0) common.frozen = {to_string(param_leaf_ids(*model_.module).front())};
    optimizer_.emplace(*model_.module, 1e-3, optim::AdamOptions{}, common);
    RuleOptions options;
    if (c.rule == "ThreeFactor") options.set("modulator", 0.7);
    learner_.emplace(etrace::compile(*model_.module, *make_rule(c.rule, options), model_.example,
                                     {.batch_size = c.batch,
                                      .vjp_method = c.method,
                                      .execution_window = c.window,
                                      .not_finite = c.not_finite}));
  }

  // Another one, made from what this one would keep on a disk.
  std::unique_ptr<RandomSession> twin() const {
    auto out = std::make_unique<RandomSession>(case_);
    out->learner_->restore(learner_->checkpoint(&*optimizer_), &*out->optimizer_);
    out->optimizer_->set_learning_rate(rate_);
    out->rate_ = rate_;
    if (case_.rule == "ThreeFactor") out->learner_->set_modulator(modulator_);
    out->modulator_ = modulator_;
    if (bound_ != Nothing) out->bind(bound_);
    return out;
  }

  NamedTensors carried() const {
    NamedTensors out;
    for (const auto& [name, value] : learner_->checkpoint(&*optimizer_).tensors)
      out.emplace_back(name, Tensor::copy_of(value.aval(), value.bytes()));
    return out;
  }

  // A call that the number decides: what was called, and what came back.
  std::string act(std::uint64_t number, Tensors& out) {
    Draws d(number);
    text_.clear();
    try {
      call(d, out);
    } catch (const ValueError& e) {
      text_ += std::string(", refused: ") + e.what();
    } catch (const NotSupportedError& e) {
      text_ += std::string(", refused: ") + e.what();
    }
    return text_;
  }

 private:
  enum Bound : std::uint8_t { Nothing, ToLoss, ToOptimizer };
  void bind(Bound how) {
    bound_ = how;
    learner_->bind_step(loss::mse, how == ToOptimizer ? &*optimizer_ : nullptr);
  }
  // Now and then large enough to overflow.
  double size(Draws& d) const { return !d.chance(0.1) ? 1.0 : case_.dtype == Dtype::F32 ? 1e25 : 1e200; }
  Shape targets() const { return case_.batch ? Shape{*case_.batch, 2} : Shape{2}; }
  static void keep(ArraySpan all, Tensors& out) {
    for (const Array& a : all) out.push_back(Tensor::copy_of(a.tensor().aval(), a.tensor().bytes()));
  }

  void call(Draws& d, Tensors& out) {
    Learner& l = *learner_;
    const Shape inputs = model_.example[0].shape();
    const std::int64_t length = 1 + d.below(8);
    const auto sequence = [&](const Shape& one, double scale) {
      return scale * d.numbers(one.with_front(length), case_.dtype);
    };
    switch (d.below(10)) {
      case 0:
        text_ = "a step";
        return keep(l.step(size(d) * d.numbers(inputs, case_.dtype)).results, out);
      case 1:
        return learn_step(d, out);
      case 2: {
        text_ = "a gradient";
        const SequenceOptions how = options(d, length);
        const SequenceGradient g =
            l.etrace_grad(sequence(inputs, size(d)), sequence(targets(), 1.0), loss::mse, how);
        keep(g.grads.values, out);
        keep(Arrays{g.losses}, out);
        if (d.chance(0.4)) optimizer_->update(g.grads);
        return;
      }
      case 3:
      case 4: {
        text_ = "training";
        TrainOptions how;
        static_cast<SequenceOptions&>(how) = options(d, length);
        how.update = d.of({UpdateEvery::Window, UpdateEvery::Sequence});
        if (!how.chunk_size) how.window = d.below(4);
        const SequenceTraining t =
            l.etrace_train(sequence(inputs, size(d)), sequence(targets(), 1.0), loss::mse, *optimizer_, how);
        return keep(Arrays{t.losses, full({}, static_cast<double>(t.updates), Dtype::F64)}, out);
      }
      case 5:
        text_ = "evolving";
        return keep(l.etrace_evolve(Arrays{sequence(inputs, size(d))}), out);
      case 6:
        text_ = "parameters written";
        for (const std::shared_ptr<State>& s : optimizer_->params())
          if (d.chance(0.5)) s->leaf(0).set(0.9 * s->leaf(0).get());
        return;
      case 7:
        text_ = "states written";
        for (const std::string& name : l.state_names())
          if (is_floating(l.state(name).dtype()) && d.chance(0.5)) l.set_state(name, 0.5 * l.state(name));
        return;
      case 8:
        text_ = "a reset";
        if (d.chance(0.5)) l.reset_state();
        if (d.chance(0.5)) l.reset_model_state();
        return d.chance(0.5) ? l.sync() : void();
      default:
        text_ = "another rate";
        rate_ = 1e-3 * static_cast<double>(1 + d.below(9));
        optimizer_->set_learning_rate(rate_);
        modulator_ = 0.1 * static_cast<double>(d.below(10));
        if (case_.rule == "ThreeFactor") l.set_modulator(modulator_);
    }
  }

  void learn_step(Draws& d, Tensors& out) {
    if (case_.method == VjpMethod::MultiStep) return;
    text_ = "a step that learns";
    if (bound_ == Nothing || d.chance(0.2)) bind(d.of({ToLoss, ToOptimizer}));
    const Learner::StepResult& r = learner_->step(size(d) * d.numbers(model_.example[0].shape(), case_.dtype),
                                                  d.numbers(targets(), case_.dtype));
    keep(r.results, out);
    keep(r.grads.values, out);
    keep(Arrays{full({}, r.loss, Dtype::F64)}, out);
    if (bound_ == ToLoss && d.chance(0.5)) optimizer_->update(r.grads);
  }

  SequenceOptions options(Draws& d, std::int64_t length) const {
    SequenceOptions how{.reduction = d.of({Reduction::Mean, Reduction::Sum})};
    if (case_.method == VjpMethod::MultiStep) how.chunk_size = std::min(length, 1 + d.below(4));
    if (d.chance(0.5)) return how;
    const bool samples = case_.batch && d.chance(0.5);
    const Shape shape = samples ? Shape{length, *case_.batch} : Shape{length};
    how.mask = relu(d.numbers(shape, case_.dtype));  // half of it zero
    how.freeze = d.chance(0.5);
    return how;
  }

  SessionCase case_;
  ReadyModel model_;
  std::optional<optim::Adam> optimizer_;
  std::optional<Learner> learner_;
  Bound bound_ = Nothing;
  double rate_ = 1e-3, modulator_ = 0.7;
  std::string text_;
};

// Losses of steps that overflow may be NaN.
bool equal(const Tensor& a, const Tensor& b) {
  if (a == b) return true;
  if (a.aval() != b.aval() || !is_floating(a.dtype())) return false;
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
  return true;
}

TEST(RandomSessions, GoOnFromTheirCheckpointAlone) {
  for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    const SessionCase c = draw_case(seed);
    std::string calls = fmt::format("seed {}: {}, {}, {}, batch {}, window {}, {}", seed, c.model, c.rule,
                                    name(c.dtype), c.batch.value_or(0), c.window.value_or(0), name(c.method));
    auto session = std::make_unique<RandomSession>(c);
    for (std::uint64_t k = 0; k < 10 && !HasFailure(); ++k) {
      std::unique_ptr<RandomSession> twin = session->twin();
      Tensors results, expected;
      const std::string text = session->act(1000 * seed + k, results);
      calls += "\n  " + text;
      SCOPED_TRACE(calls);
      EXPECT_EQ(twin->act(1000 * seed + k, expected), text);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_TRUE(equal(results[i], expected[i])) << "result " << i;
      const NamedTensors carried = session->carried(), as_twin = twin->carried();
      for (std::size_t i = 0; i < carried.size(); ++i) {
        EXPECT_TRUE(equal(carried[i].second, as_twin[i].second)) << carried[i].first;
        if (!is_floating(carried[i].second.dtype())) continue;
        for (const double v : carried[i].second.to_doubles())
          ASSERT_TRUE(std::isfinite(v)) << carried[i].first;
      }
      if (k % 4 == 3) session = std::move(twin);
    }
  }
}

}  // namespace
}  // namespace etrace::random_sessions_test
