// Adding: a stream of numbers in [0, 1) of which two are marked, one in the first half and one in the second;
// at the last step their sum is to be given.
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

class Adding : public Task {
 public:
  explicit Adding(const TaskOptions& o)
      : Task({.name = "adding",
              .num_inputs = 2,
              .num_outputs = 1,
              .steps = whole_setting(o, "steps"),
              .loss = "mse",
              .seed = o.seed,
              .dtype = o.dtype}) {}

 private:
  TaskBatch draw(const Draw& d) const override {
    const std::int64_t steps = spec().steps, half = steps / 2;
    auto part = [&](int i) { return random::fold_in(d.key, i); };
    const Array first = random::randint(part(0), {d.size}, 0, half),
                second = random::randint(part(1), {d.size}, half, steps);
    const Array marked =
        transpose(one_hot(first, steps, spec().dtype) + one_hot(second, steps, spec().dtype), {1, 0});
    const Array numbers = random::uniform(part(2), {steps, d.size}, spec().dtype);
    const Array total = expand_dims(sum(marked * numbers, {0}), {0, 2});
    return {concatenate(Arrays{expand_dims(numbers, {2}), expand_dims(marked, {2})}, 2),
            concatenate(Arrays{zeros({steps - 1, d.size, 1}, spec().dtype), total}),
            last_steps(steps, 1, spec().dtype)};
  }
};

const RegisterTask kAdding({.name = "adding",
                            .doc = "the sum of the two numbers of a long stream that are marked",
                            .settings = {{"steps", 50, 2, 1000000, true, "length of a sequence"}},
                            .make = [](const TaskOptions& o) { return std::make_unique<Adding>(o); },
                            .recipes = {{.model = "gru", .updates = 2000}},
                            .solved = 0.05});

}  // namespace

}  // namespace etrace
