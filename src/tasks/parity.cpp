// Parity: a stream of bits; after each, is the number of ones so far odd? One wrong memory spoils all that
// follows. The input is −1 or 1.
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

class Parity : public Task {
 public:
  explicit Parity(const TaskOptions& o)
      : Task({.name = "parity",
              .num_inputs = 1,
              .num_outputs = 2,
              .steps = whole_setting(o, "steps"),
              .seed = o.seed,
              .dtype = o.dtype,
              .classes = {"even", "odd"}}) {}

 private:
  TaskBatch draw(const Draw& d) const override {
    const Array bits = random::randint(d.key, {spec().steps, d.size}, 0, 2);
    const Array shown = 2.0 * convert(bits, spec().dtype) - 1.0;
    return {expand_dims(shown, {2}), cumsum(bits, 0) % full({}, 2, Dtype::I32),
            ones({spec().steps}, spec().dtype)};
  }
};

const RegisterTask kParity({.name = "parity",
                            .doc = "is the number of ones so far odd? asked in every step",
                            .settings = {{"steps", 20, 1, 1000000, true, "length of a sequence"}},
                            .make = [](const TaskOptions& o) { return std::make_unique<Parity>(o); },
                            .recipes = {{.model = "gru", .updates = 2000}},
                            .solved = 0.98});

}  // namespace

}  // namespace etrace
