// etrace demo: trace a small recurrent model, print its program, run it over a sequence, and compare the
// gradient of reverse mode with finite differences.
#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "cli/verbs.h"
#include "etrace/control.h"
#include "etrace/etp.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"

namespace etrace::cli {

namespace {

constexpr std::int64_t kIn = 3, kHidden = 4, kSteps = 12;

// h' = tanh([x, h]·W + b)
Array step(const Array& x, const Array& h, const Array& w, const Array& b) {
  return tanh(matmul(concatenate(Arrays{x, h}), w, b));
}

// Mean squared distance of the first unit from a sine, over the sequence.
Array loss(ArraySpan in) {
  const Array &w = in[0], &b = in[1], &xs = in[2], &targets = in[3];
  const auto body = [&](ArraySpan carry, ArraySpan x) -> ScanResult {
    const Array h = step(x[0], carry[0], w, b);
    return {{h}, {square(slice(h, {0}, {1}) - x[1])}};
  };
  return mean(scan(body, {zeros({kHidden}, Dtype::F64)}, {xs, targets}).ys[0]);
}

double relative_error(const Tensors& args, const Executable& value, const Tensor& grad, std::size_t which) {
  double difference = 0.0, norm = 0.0;
  for (std::int64_t i = 0; i < args[which].size(); ++i) {
    const double eps = 1e-6;
    auto shifted = [&](double by) {
      Tensors moved = args;
      std::vector<double> values = args[which].to_doubles();
      values[static_cast<std::size_t>(i)] += by;
      moved[which] = Tensor::of(values, args[which].shape());
      return to_double(value(moved)[0].at(0));
    };
    const double numeric = (shifted(eps) - shifted(-eps)) / (2 * eps), exact = to_double(grad.at(i));
    difference += (numeric - exact) * (numeric - exact);
    norm += numeric * numeric;
  }
  return std::sqrt(difference / norm);
}

int run_demo() {
  const Aval x{Dtype::F64, {kIn}}, h{Dtype::F64, {kHidden}}, w{Dtype::F64, {kIn + kHidden, kHidden}};
  std::cout << "1. A recurrent step, h' = tanh([x, h]·W + b), traced into a program:\n\n";
  const ClosedJaxpr program =
      make_jaxpr([](ArraySpan a) { return Arrays{step(a[0], a[1], a[2], a[3])}; }, Avals{x, h, w, h});
  std::cout << to_string(program.jaxpr) << "\n\n";

  const Array key = random::key(7);
  const Array keys = random::split(key, 2);
  auto sub = [&](std::int64_t i) { return squeeze(slice_axis(keys, 0, i, i + 1), {0}); };
  Tensors args;
  args.push_back((random::normal(sub(0), w.shape, Dtype::F64) * 0.4).tensor());
  args.push_back(zeros({kHidden}, Dtype::F64).tensor());
  args.push_back(random::normal(sub(1), {kSteps, kIn}, Dtype::F64).tensor());
  args.push_back(sin(reshape(linspace(0.0, 6.0, kSteps, Dtype::F64), {kSteps, 1})).tensor());
  Avals types;
  for (const Tensor& a : args) types.push_back(a.aval());
  const ClosedJaxpr sequence = make_jaxpr([](ArraySpan a) { return Arrays{loss(a)}; }, types);
  const Executable value(sequence);
  std::cout << fmt::format(
      "2. The same step over {} time steps, in one `scan`: loss {:.6f} ({} kernel calls, {} bytes of "
      "arena).\n\n",
      kSteps, to_double(value(args)[0].at(0)), value.steps(), value.arena_bytes());

  const ClosedJaxpr gradient = simplify(value_and_grad(sequence, {true, true, false, false}));
  const Tensors out = evaluate(gradient, args);
  const double error_w = relative_error(args, value, out[1], 0),
               error_b = relative_error(args, value, out[2], 1);
  std::cout << "3. Reverse mode through the scan, against central finite differences:\n\n";
  std::cout << fmt::format("   W {:<8} relative error {:.2e}\n   b {:<8} relative error {:.2e}\n\n",
                           to_string(w.shape), error_w, to_string(h.shape), error_b);
  const bool good = error_w < 1e-6 && error_b < 1e-6;
  std::cout << (good ? "The gradients agree.\n" : "The gradients DISAGREE.\n");
  std::cout << "Next: `build/bin/etrace ops` lists the operations, `build/bin/etrace print FILE` shows a "
               "model file.\n";
  return good ? 0 : 1;
}

}  // namespace

void add_demo(CLI::App& app, Status& status) {
  CLI::App* verb = app.add_subcommand("demo", "trace, run and differentiate a small recurrent model");
  verb->callback([&status] { status.code = run_demo(); });
}

}  // namespace etrace::cli
