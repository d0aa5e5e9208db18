// Copying memory. With n symbols of an alphabet of k, a step shows one of k + 2 things:
//   n steps a symbol 1 … k, `lag` steps nothing (0), n steps the cue k + 1, in which the symbols are to be
//   named
// in order. Inputs are one-hot; classes are numbered as inputs, so a constant answer is right 1 time in k.
// With a curriculum the lag grows to its full length over so many batches of training; what is not lag yet is
// nothing before the first symbol.
#include <algorithm>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/tasks.h"

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
        lag_(lag),
        curriculum_(whole_setting(o, "curriculum")) {}

  std::int64_t lag_of(const Draw& d) const {
    const auto batch = static_cast<std::int64_t>(d.index);
    if (d.part != Part::Train || batch >= curriculum_) return lag_;
    return lag_ * batch / curriculum_;
  }

  TaskBatch draw(const Draw& d) const override {
    auto constant = [&](std::int64_t steps, std::int64_t value) {
      return full({steps, d.size}, value, Dtype::I32);
    };
    const std::int64_t lag = lag_of(d);
    const Array shown = random::randint(d.key, {symbols_, d.size}, 1, alphabet_ + 1);
    const Array sequence = concatenate(
        Arrays{constant(lag_ - lag, 0), shown, constant(lag, 0), constant(symbols_, alphabet_ + 1)});
    return {one_hot(sequence, spec().num_inputs, spec().dtype),
            concatenate(Arrays{constant(symbols_ + lag_, 0), shown}),
            last_steps(spec().steps, symbols_, spec().dtype)};
  }

  std::int64_t symbols_, alphabet_, lag_, curriculum_;
};

const RegisterTask kCopying(
    {.name = "copying",
     .doc = "remember a sequence of symbols over a lag, then name them in order",
     .settings = {{"symbols", 10, 1, 10000, true, "symbols per sequence"},
                  {"alphabet", 8, 2, 10000, true, "different symbols"},
                  {"lag", 20, 0, 1000000, true, "blank steps between the symbols and the cue"},
                  {"curriculum", 0, 0, 1000000000, true,
                   "batches over which the lag grows to its full length; 0: it is full from the start"}},
     .make = [](const TaskOptions& o) { return std::make_unique<Copying>(o); },
     .recipes = {{.model = "lru", .updates = 4000}},
     .solved = 0.98});

}  // namespace

}  // namespace etrace
