// Optimisers by name: a row per rule in the table at the end, and what its options are called.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/optim.h"

namespace etrace::optim {

namespace {

// The numbers that a caller gave, read one by one into a rule's options; what is left over is refused.
class Numbers {
 public:
  using Given = std::vector<std::pair<std::string, double>>;
  explicit Numbers(const Given& given) : given_(given) {}

  void read(std::string_view name, double& into) {
    if (const double* value = find(name)) into = *value;
  }
  void read(std::string_view name, bool& into) {
    if (const double* value = find(name)) into = *value != 0.0;
  }
  void finish(std::string_view rule) const {
    for (const auto& entry : given_)
      if (std::find(known_.begin(), known_.end(), entry.first) == known_.end())
        throw ValueError("optim", fmt::format("{} has no number '{}'; it has: {}", rule, entry.first,
                                              fmt::join(known_, ", ")));
  }

 private:
  const double* find(std::string_view name) {
    known_.push_back(name);
    const auto it =
        std::find_if(given_.begin(), given_.end(), [&](const auto& entry) { return entry.first == name; });
    return it == given_.end() ? nullptr : &it->second;
  }
  const Given& given_;
  std::vector<std::string_view> known_;
};

void read(Numbers& n, SgdOptions& o) {
  n.read("momentum", o.momentum);
  n.read("nesterov", o.nesterov);
}
void read(Numbers& n, AdamOptions& o) {
  n.read("beta1", o.beta1);
  n.read("beta2", o.beta2);
  n.read("epsilon", o.epsilon);
  n.read("epsilon_first", o.epsilon_first);
}
void read(Numbers& n, RmspropOptions& o) {
  n.read("decay", o.decay);
  n.read("epsilon", o.epsilon);
  n.read("momentum", o.momentum);
}
void read(Numbers& n, AdagradOptions& o) {
  n.read("initial_sum", o.initial_sum);
  n.read("epsilon", o.epsilon);
}
void read(Numbers& n, LionOptions& o) {
  n.read("beta1", o.beta1);
  n.read("beta2", o.beta2);
}

template <class Rule, class Own>
std::unique_ptr<Optimizer> made(Schedule rate, const MakeOptions& options) {
  Own own;
  Numbers numbers(options.numbers);
  read(numbers, own);
  auto optimizer = std::make_unique<Rule>(std::move(rate), own, options.common);
  numbers.finish(optimizer->name());
  return optimizer;
}

constexpr std::array<Entry, 6> kEntries{{
    {"adagrad", "steps shrink with the sum of all squared gradients", 1e-2, made<Adagrad, AdagradOptions>},
    {"adam", "averages of the gradient and of its square, bias-corrected", 1e-3, made<Adam, AdamOptions>},
    {"adamw", "adam with decoupled weight decay", 1e-3, made<AdamW, AdamOptions>},
    {"lion", "the sign of a momentum; one average per parameter", 1e-4, made<Lion, LionOptions>},
    {"rmsprop", "the gradient over a running average of its size", 1e-3, made<RMSprop, RmspropOptions>},
    {"sgd", "gradient descent, with momentum and Nesterov's form on request", 1e-2, made<SGD, SgdOptions>},
}};

}  // namespace

std::span<const Entry> all() { return kEntries; }

std::unique_ptr<Optimizer> make(std::string_view name, const MakeOptions& options) {
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.make(options.learning_rate.value_or(entry.learning_rate), options);
  throw ValueError("optim", no_such_name("optimiser", name, row_names(kEntries)));
}

}  // namespace etrace::optim
