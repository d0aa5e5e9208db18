// Copying memory. With n symbols of an alphabet of k, a step shows one of k + 2 things:
//   n steps a symbol 1 … k, `lag` steps nothing (0), n steps the cue k + 1, in which the symbols are to be
//   named
// in order. Inputs are one-hot; classes are numbered as inputs, so a constant answer is right 1 time in k.
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "tasks/entries.h"

namespace etrace {

namespace {

class Copying : public Task {
 public:
  explicit Copying(const TaskOptions& o)
      : Copying(o, whole_setting(o, "symbols"), whole_setting(o, "alphabet"), whole_setting(o, "lag")) {}

 private:
  Copying(const TaskOptions& o, std::int64_t symbols, std::int64_t alphabet, std::int64_t lag)
      : Task({.name = "copying",
              .num_inputs = alphabet + 2,
              .num_outputs = alphabet + 2,
              .steps = lag + 2 * symbols,
              .seed = o.seed,
              .dtype = o.dtype}),
        symbols_(symbols),
        alphabet_(alphabet),
        lag_(lag) {}

  TaskBatch draw(const Array& key, std::int64_t batch) const override {
    auto constant = [&](std::int64_t steps, std::int64_t value) {
      return full({steps, batch}, value, Dtype::I32);
    };
    const Array shown = random::randint(key, {symbols_, batch}, 1, alphabet_ + 1);
    const Array blank = constant(lag_, 0), cue = constant(symbols_, alphabet_ + 1);
    const Array sequence = concatenate(Arrays{shown, blank, cue});
    return {one_hot(sequence, spec().num_inputs, spec().dtype),
            concatenate(Arrays{constant(symbols_ + lag_, 0), shown}),
            last_steps(spec().steps, symbols_, spec().dtype)};
  }

  std::int64_t symbols_, alphabet_, lag_;
};

}  // namespace

TaskEntry copying_entry() {
  return {"copying",
          "remember a sequence of symbols over a lag, then name them in order",
          {{"symbols", 10, 1, 10000, true, "symbols per sequence"},
           {"alphabet", 8, 2, 10000, true, "different symbols"},
           {"lag", 20, 0, 1000000, true, "blank steps between the symbols and the cue"}},
          [](const TaskOptions& o) -> std::unique_ptr<Task> { return std::make_unique<Copying>(o); }};
}

}  // namespace etrace
