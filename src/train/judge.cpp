#include "train/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "etrace/error.h"

namespace etrace::train {

namespace {

// Sums over scored steps and samples that count.
struct ConstantAnswer {
  std::map<std::int64_t, double> labels;  // how often each is right
  std::vector<double> sum, square;        // per output
  double count = 0.0;

  void add(const TaskBatch& batch, bool has_labels) {
    const std::vector<double> mask = batch.mask.tensor().to_doubles(),
                              y = batch.targets.tensor().to_doubles();
    const std::int64_t size = batch.inputs.dim(1), counted = batch.samples.value_or(size);
    const std::int64_t outputs = has_labels ? 1 : batch.targets.dim(2);
    sum.resize(static_cast<std::size_t>(outputs));
    square.resize(sum.size());
    for (std::size_t t = 0; t < mask.size(); ++t) {
      if (mask[t] == 0.0) continue;
      for (std::int64_t b = 0; b < counted; ++b) {
        count += mask[t];
        for (std::int64_t k = 0; k < outputs; ++k) {
          const double v =
              y[static_cast<std::size_t>((static_cast<std::int64_t>(t) * size + b) * outputs + k)];
          if (has_labels) labels[static_cast<std::int64_t>(v)] += mask[t];
          sum[static_cast<std::size_t>(k)] += mask[t] * v;
          square[static_cast<std::size_t>(k)] += mask[t] * v * v;
        }
      }
    }
  }

  Score labelled() const {
    double best = 0.0, entropy = 0.0;
    for (const auto& [label, n] : labels) {
      best = std::max(best, n);
      entropy -= n / count * std::log(n / count);
    }
    return {entropy, best / count};
  }
  Score numbers() const {
    double variance = 0.0;
    for (std::size_t k = 0; k < sum.size(); ++k)
      variance += square[k] / count - (sum[k] / count) * (sum[k] / count);
    return {variance / static_cast<double>(sum.size()), std::nullopt};
  }
};

}  // namespace

Score best_constant(const Task& task, std::uint64_t first, std::int64_t count, std::int64_t batch_size) {
  ConstantAnswer answer;
  for (std::int64_t i = 0; i < count; ++i)
    answer.add(task.batch(first + static_cast<std::uint64_t>(i), batch_size), has_accuracy(task));
  if (answer.count == 0.0) throw ValueError("train", "no step of the batches is scored");
  return has_accuracy(task) ? answer.labelled() : answer.numbers();
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Guessing:
      return "guessing";
    case Outcome::Better:
      return "better than guessing";
    case Outcome::Solved:
      break;
  }
  return "solved";
}

Judgement judge(const TaskEntry& task, const Score& score, const Score& guess, std::int64_t samples) {
  Judgement out{.guess = guess};
  if (guess.accuracy) {
    const double p = *guess.accuracy, error = std::sqrt(p * (1.0 - p) / static_cast<double>(samples));
    out.goal = task.solved;
    if (*score.accuracy >= out.goal)
      out.outcome = Outcome::Solved;
    else if (*score.accuracy <= p + 3.0 * error)
      out.outcome = Outcome::Guessing;
    return out;
  }
  constexpr double kNoBetter = 0.95;
  out.goal = task.solved * guess.loss;
  if (score.loss <= out.goal)
    out.outcome = Outcome::Solved;
  else if (!(score.loss < kNoBetter * guess.loss))
    out.outcome = Outcome::Guessing;
  return out;
}

std::string Judgement::text() const {
  const std::string constant = guess.accuracy ? fmt::format("an accuracy of {:.4f}", *guess.accuracy)
                                              : fmt::format("a loss of {:.4g}", guess.loss);
  const std::string wanted = guess.accuracy ? fmt::format("{:.4g} counts as solved", goal)
                                            : fmt::format("{:.4g} or less counts as solved", goal);
  switch (outcome) {
    case Outcome::Guessing:
      return fmt::format("NO BETTER THAN GUESSING: the best constant answer has {}", constant);
    case Outcome::Better:
      return fmt::format("better than guessing ({}), not solved ({})", constant, wanted);
    case Outcome::Solved:
      break;
  }
  return fmt::format("solved ({}; guessing has {})", wanted, constant);
}

}  // namespace etrace::train
