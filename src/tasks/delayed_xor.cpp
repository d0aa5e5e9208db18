// Delayed XOR: two bits, each shown for a few steps with a delay between; at the end their exclusive or is to
// be named, in the steps of a cue.
//   inputs: the first bit is 0, the first bit is 1, the second is 0, the second is 1, the cue
//   steps:  bit, delay, bit, delay, cue
// A linear readout of a linear memory cannot answer better than guessing.
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

namespace etrace {

namespace {

class DelayedXor : public Task {
 public:
  explicit DelayedXor(const TaskOptions& o)
      : DelayedXor(o, whole_setting(o, "shown"), whole_setting(o, "delay"), whole_setting(o, "cue")) {}

 private:
  static constexpr std::int64_t kNothing = -1, kCue = 4;  // one-hot of a number below 0 is all zeros
  DelayedXor(const TaskOptions& o, std::int64_t shown, std::int64_t delay, std::int64_t cue)
      : Task({.name = "delayed_xor",
              .num_inputs = 5,
              .num_outputs = 2,
              .steps = 2 * (shown + delay) + cue,
              .seed = o.seed,
              .dtype = o.dtype}),
        shown_(shown),
        delay_(delay),
        cue_(cue) {}

  TaskBatch draw(const Draw& d) const override {
    auto bit = [&](int i) { return random::randint(random::fold_in(d.key, i), {1, d.size}, 0, 2); };
    auto constant = [&](std::int64_t steps, std::int64_t value) {
      return full({steps, d.size}, value, Dtype::I32);
    };
    const Array first = bit(0), second = bit(1);
    const Array sequence =
        concatenate(Arrays{tile(first, {shown_, 1}), constant(delay_, kNothing),
                           tile(second + 2, {shown_, 1}), constant(delay_, kNothing), constant(cue_, kCue)});
    const Array answer = convert(not_equal_to(first, second), Dtype::I32);
    return {one_hot(sequence, spec().num_inputs, spec().dtype),
            concatenate(Arrays{constant(spec().steps - cue_, 0), tile(answer, {cue_, 1})}),
            last_steps(spec().steps, cue_, spec().dtype)};
  }

  std::int64_t shown_, delay_, cue_;
};

const RegisterTask kDelayedXor(
    {.name = "delayed_xor",
     .doc = "do two bits differ that were shown one after the other? named after a delay",
     .settings = {{"shown", 3, 1, 1000000, true, "steps that a bit is shown"},
                  {"delay", 10, 0, 1000000, true, "steps after each bit"},
                  {"cue", 3, 1, 1000000, true, "steps in which the answer is asked for"}},
     .make = [](const TaskOptions& o) { return std::make_unique<DelayedXor>(o); },
     .recipes =
         {{.model = "gru", .updates = 800},
          {.model = "lif", .rule = "pp_prop", .rule_options = {"decay_or_rank=0.95"}, .updates = 2000}},
     .solved = 0.99});

}  // namespace

}  // namespace etrace
