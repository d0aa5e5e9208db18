// Integrator: a noisy signal x = bias + noise, to be summed up from the first step on, scored in every step.
//   bias = 2·drift·(ξ − ½), ξ ~ N(0, 1), once per sample;   noise·N(0, 1) in every step
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

class Integrator : public Task {
 public:
  explicit Integrator(const TaskOptions& o)
      : Task({.name = "integrator",
              .num_inputs = 1,
              .num_outputs = 1,
              .steps = whole_setting(o, "steps"),
              .loss = "mse",
              .seed = o.seed,
              .dtype = o.dtype}),
        drift_(setting(o, "drift")),
        noise_(setting(o, "noise")) {}

 private:
  TaskBatch draw(const Draw& d) const override {
    auto normal = [&](int part, std::int64_t steps) {
      return random::normal(random::fold_in(d.key, part), {steps, d.size, 1}, spec().dtype);
    };
    const Array bias = 2.0 * drift_ * (normal(0, 1) - 0.5);
    const Array x = bias + noise_ * normal(1, spec().steps);
    return {x, cumsum(x, 0), ones({spec().steps}, spec().dtype)};
  }

  double drift_, noise_;
};

const RegisterTask kIntegrator({.name = "integrator",
                                .doc = "the running sum of a noisy signal",
                                .settings = {{"steps", 25, 1, 1000000, true, "length of a sequence"},
                                             {"drift", 0.025, 0, 1000, false, "size of the constant part"},
                                             {"noise", 0.05, 0, 1000, false,
                                              "standard deviation of the noise of a step"}},
                                .make = [](const TaskOptions& o) { return std::make_unique<Integrator>(o); },
                                .recipes = {{.model = "gru"}},
                                .solved = 0.01});

}  // namespace

}  // namespace etrace
