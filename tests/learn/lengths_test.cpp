// Series of different lengths in one batch: the gradient is that of the series run one by one, for rules that
// let samples stand still, in steps and in windows; what the padding holds reaches nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "etrace/error.h"
#include "etrace/learner.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/errors.h"
#include "support/learning.h"

namespace etrace {
namespace {

using etrace::testing::largest_deviation;
using etrace::testing::message_of;
using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 9, kIn = 3, kOut = 2;
const std::vector<std::int64_t> kLengths{4, 9, 1, 6};

enum class Align { Start, End };
struct Way {
  std::string name;
  VjpMethod method;
  std::optional<std::int64_t> window;
};

struct Batch {
  Tensor x, y, mask;
};
// A sample's own numbers do not depend on where its padding is.
Batch batch_of(Align align, double padding) {
  const auto n = static_cast<std::int64_t>(kLengths.size());
  const std::vector<double> xs =
      random::normal(random::key(1), {n, kSteps, kIn}, Dtype::F64).tensor().to_doubles();
  const std::vector<double> ys =
      random::normal(random::key(2), {n, kSteps, kOut}, Dtype::F64).tensor().to_doubles();
  Batch out{Tensor::uninitialized({Dtype::F64, Shape{kSteps, n, kIn}}),
            Tensor::uninitialized({Dtype::F64, Shape{kSteps, n, kOut}}),
            Tensor::uninitialized({Dtype::F64, Shape{kSteps, n}})};
  auto *x = reinterpret_cast<double*>(out.x.writable()), *y = reinterpret_cast<double*>(out.y.writable()),
       *m = reinterpret_cast<double*>(out.mask.writable());
  for (std::int64_t b = 0; b < n; ++b)
    for (std::int64_t t = 0; t < kSteps; ++t) {
      const std::int64_t own =
          align == Align::Start ? t : t - (kSteps - kLengths[static_cast<std::size_t>(b)]);
      const bool real = own >= 0 && own < kLengths[static_cast<std::size_t>(b)];
      for (std::int64_t k = 0; k < kIn; ++k)
        x[(t * n + b) * kIn + k] =
            real ? xs[static_cast<std::size_t>((b * kSteps + own) * kIn + k)] : padding;
      for (std::int64_t k = 0; k < kOut; ++k)
        y[(t * n + b) * kOut + k] =
            real ? ys[static_cast<std::size_t>((b * kSteps + own) * kOut + k)] : padding;
      m[t * n + b] = real ? 1.0 : 0.0;
    }
  return out;
}

struct Made {
  ReadyModel ready;
  std::unique_ptr<Learner> learner;
};
Made made(const std::string& model, const std::string& rule, const Way& way, std::int64_t batch) {
  Made out{make_model(model, {.sizes = {kIn, 5, kOut}, .batch = batch, .dtype = Dtype::F64}), nullptr};
  LearnerOptions o{.batch_size = batch, .vjp_method = way.method, .backend = "interpreter"};
  if (way.method == VjpMethod::SingleStep) o.execution_window = way.window;
  out.learner = std::make_unique<Learner>(compile(*out.ready.module, rule, out.ready.example, o));
  return out;
}
SequenceGradient gradient(Learner& l, const Array& x, const Array& y, const Way& way, const Array& mask) {
  SequenceOptions o{.reduction = Reduction::Sum};
  o.mask = mask;
  o.freeze = mask.defined();
  const bool windows = way.method == VjpMethod::MultiStep;
  if (windows) o.chunk_size = way.window;
  return l.etrace_grad(Arrays{x, y}, step_function(loss::mse, windows && *way.window > 1, mask.defined()), o);
}

// Windows in which reverse mode runs are counted from the first step of the batch: a series that begins
// within one has a shorter first window, also alone.
std::vector<std::pair<std::int64_t, std::int64_t>> parts_of(const Way& way, std::int64_t from,
                                                            std::int64_t to) {
  if (way.method == VjpMethod::SingleStep) return {{from, to}};
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  while (from < to) {
    const std::int64_t border = std::min((from / *way.window + 1) * *way.window, to);
    out.emplace_back(from, border);
    from = border;
  }
  return out;
}

class Lengths : public ::testing::TestWithParam<std::tuple<std::string, std::string, Way, Align>> {};

TEST_P(Lengths, OneByOne) {
  const auto& [model, rule, way, align] = GetParam();
  const auto n = static_cast<std::int64_t>(kLengths.size());
  const Batch zeros = batch_of(align, 0.0);
  Made together = made(model, rule, way, n);
  const SequenceGradient all = gradient(*together.learner, zeros.x, zeros.y, way, zeros.mask);
  GradientSum sum;
  double loss = 0.0;
  for (std::int64_t b = 0; b < n; ++b) {
    const std::int64_t length = kLengths[static_cast<std::size_t>(b)],
                       from = align == Align::Start ? 0 : kSteps - length;
    Made alone = made(model, rule, way, 1);
    for (const auto& [begin, end] : parts_of(way, from, from + length)) {
      const auto own = [&, first = begin, last = end](const Array& x) {
        return slice_axis(slice_axis(x, 0, first, last), 1, b, b + 1);
      };
      const SequenceGradient one = gradient(*alone.learner, own(zeros.x), own(zeros.y), way, {});
      sum.add(one.grads);
      loss += one.loss;
    }
  }
  EXPECT_LE(largest_deviation(all.grads, sum.value()), 1e-9);
  EXPECT_NEAR(all.loss, loss, 1e-9 * loss);
  for (const double padding : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
    const Batch other = batch_of(align, padding);
    Made again = made(model, rule, way, n);
    const SequenceGradient g = gradient(*again.learner, other.x, other.y, way, other.mask);
    EXPECT_EQ(g.loss, all.loss) << padding;
    for (std::size_t i = 0; i < g.grads.values.size(); ++i)
      EXPECT_EQ(g.grads.values[i].tensor().to_doubles(), all.grads.values[i].tensor().to_doubles())
          << padding << " in " << i;
  }
}

const Way kSingle{"steps", VjpMethod::SingleStep, 1},
    kExecution{"execution_window", VjpMethod::SingleStep, 4}, kWindows{"window", VjpMethod::MultiStep, 4};

std::string test_name(const ::testing::TestParamInfo<Lengths::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" + std::get<2>(info.param).name +
         (std::get<3>(info.param) == Align::Start ? "_from_the_start" : "_to_the_end");
}
using ::testing::Combine;
using ::testing::Values;
INSTANTIATE_TEST_SUITE_P(Rules, Lengths,
                         Combine(Values("gru"), Values("D_RTRL", "OSTLRecurrent", "SnAp", "EProp"),
                                 Values(kSingle, kExecution, kWindows), Values(Align::End)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Models, Lengths,
                         Combine(Values("lstm", "alif"), Values("D_RTRL"), Values(kExecution, kWindows),
                                 Values(Align::End)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Alignment, Lengths,
                         Combine(Values("gru"), Values("D_RTRL"), Values(kSingle, kExecution, kWindows),
                                 Values(Align::Start)),
                         test_name);

TEST(LengthsOfSamples, ARealNumberThatIsNotFiniteIsStillAnError) {
  const Way way{"steps", VjpMethod::SingleStep, 1};
  Batch b = batch_of(Align::End, 0.0);
  reinterpret_cast<double*>(b.x.writable())[(kSteps - 1) * 4 * kIn] = std::nan("");
  Made m = made("gru", "D_RTRL", way, 4);
  EXPECT_THAT(message_of<ValueError>([&] { gradient(*m.learner, b.x, b.y, way, b.mask); }),
              HasSubstr("sequence 0 holds nan at step 8"));
}

TEST(LengthsOfSamples, RulesThatCountTheStepsOfTheBatchRefuse) {
  const Way way{"steps", VjpMethod::SingleStep, 1};
  const Batch b = batch_of(Align::End, 0.0);
  Made m = made("gru", "pp_prop", way, 4);
  EXPECT_THAT(message_of<NotSupportedError>([&] { gradient(*m.learner, b.x, b.y, way, b.mask); }),
              HasSubstr("padding that differs between the samples of a batch"));
}

}  // namespace
}  // namespace etrace
