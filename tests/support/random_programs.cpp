#include "support/random_programs.h"

#include <algorithm>

#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "support/native.h"
#include "support/numeric.h"

namespace etrace::testing {

namespace {

// Grows a program from its arguments: every step takes values that are there and adds one.
class Grower {
 public:
  Grower(std::uint64_t seed, Dtype dtype, std::int64_t batch) : random_(seed), dtype_(dtype), batch_(batch) {}

  // Shapes of the arguments: [batch, …] of different sizes, and rows and scalars to be broadcast.
  std::vector<Shape> argument_shapes() {
    const std::int64_t n = pick({2, 5, 16, 24, 37, 130}), m = pick({1, 2, 3, 9});
    return {{batch_, n}, {batch_, m, n}, {n}, {n, pick({1, 4, 20})}};
  }

  struct Named {
    Array value;
    std::string text;
  };
  std::vector<Named> grow(ArraySpan arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      values_.push_back({arguments[i], "x" + std::to_string(i)});
    std::vector<Named> out;
    for (int i = 0; i < 14; ++i) {
      const std::size_t before = values_.size();
      step();
      if (values_.size() > before) keep(out);
    }
    return out;
  }

 private:
  std::int64_t pick(std::initializer_list<std::int64_t> all) {
    return all.begin()[static_cast<std::size_t>(random_.uniform(0, static_cast<double>(all.size())))];
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_.uniform(0, static_cast<double>(n)));
  }
  bool chance(double p) { return random_.uniform(0, 1) < p; }
  const Named& any() {  // of the youngest, mostly
    const auto n = static_cast<std::int64_t>(values_.size());
    return values_[static_cast<std::size_t>(chance(0.7) ? n - 1 - below(std::min<std::int64_t>(n, 3))
                                                        : below(n))];
  }
  void add(const Array& value, const std::string& text) {
    if (value.size() == 0 || value.size() > 40000) return;
    values_.push_back({value, text});
  }
  void keep(std::vector<Named>& out) {
    if (chance(0.6)) out.push_back(values_.back());
  }

  void step() {
    switch (below(12)) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
      case 5:
      case 6:
        return reduction();
      case 7:
        return centred();
      case 8:
        return view();
      case 9:
        return running();
      case 10:
        return product();
      default:
        return over_time();
    }
  }

  void unary() {
    const Named x = any();
    switch (below(6)) {
      case 0:
        return add(tanh(x.value), "tanh(" + x.text + ")");
      case 1:
        return add(exp(-abs(x.value)), "exp(-|" + x.text + "|)");
      case 2:
        return add(logistic(x.value), "logistic(" + x.text + ")");
      case 3:
        return add(x.value * 1.0 / 3.0, x.text + "/3");
      case 4:
        return add(-x.value, "-" + x.text);
      default:
        return add(where(x.value > 0.25, x.value, x.value * x.value), "where(" + x.text + ")");
    }
  }

  // With something of the same shape, or something that NumPy's rule broadcasts.
  void binary() {
    const Named x = any();
    std::vector<Named> fits;
    for (const Named& y : values_)
      if (broadcasts(y.value.shape(), x.value.shape())) fits.push_back(y);
    const Named y = fits[static_cast<std::size_t>(below(static_cast<std::int64_t>(fits.size())))];
    const Array b = broadcast_to(y.value, x.value.shape());
    const std::string pair = "(" + x.text + ", " + y.text + ")";
    switch (below(4)) {
      case 0:
        return add(x.value + b, "add" + pair);
      case 1:
        return add(x.value * b, "mul" + pair);
      case 2:
        return add(x.value - b, "sub" + pair);
      default:
        return add(maximum(x.value, b), "max" + pair);
    }
  }
  static bool broadcasts(const Shape& from, const Shape& to) {
    if (from.rank() > to.rank()) return false;
    for (std::size_t i = 0; i < from.rank(); ++i) {
      const std::int64_t size = from[from.rank() - 1 - i];
      if (size != 1 && size != to[to.rank() - 1 - i]) return false;
    }
    return true;
  }

  Dims some_axes(const Array& x) {
    Dims axes;
    while (axes.empty())
      for (std::int64_t a = 0; a < static_cast<std::int64_t>(x.rank()); ++a)
        if (chance(0.5)) axes.push_back(a);
    return axes;
  }
  Array reduced(const Array& x, const Dims& axes, bool keepdims, std::string& text) {
    switch (below(6)) {
      case 0:
        text = "mean";
        return mean(x, axes, keepdims);
      case 1:
        text = "max";
        return max(x, axes, keepdims);
      case 2:
        text = "prod";
        return prod(x * 0.5 + 1.0, axes, keepdims);
      case 3:
        text = "sum of squares";
        return sum(x * x, axes, keepdims);
      default:
        text = "sum";
        return sum(x, axes, keepdims);
    }
  }
  void reduction() {
    const Named x = any();
    if (x.value.rank() == 0) return;
    const Dims axes = some_axes(x.value);
    std::string name;
    const Array y = reduced(x.value, axes, chance(0.5), name);
    add(y, name + axes_text(axes) + "(" + x.text + ")");
  }
  // x less what a reduction of it gives.
  void centred() {
    const Named x = any();
    if (x.value.rank() == 0) return;
    const Dims axes = some_axes(x.value);
    std::string name;
    const Array y = reduced(x.value, axes, true, name);
    add(x.value - broadcast_to(y, x.value.shape()) * 0.125,
        "less_" + name + axes_text(axes) + "(" + x.text + ")");
  }
  static std::string axes_text(const Dims& axes) {
    std::string text = "[";
    for (const std::int64_t a : axes) text += std::to_string(a);
    return text + "]";
  }

  void view() {
    const Named x = any();
    const auto rank = static_cast<std::int64_t>(x.value.rank());
    if (rank == 0) return;
    switch (below(5)) {
      case 0: {
        Dims order;
        for (std::int64_t a = 0; a < rank; ++a) order.insert(order.begin() + below(a + 1), a);
        return add(transpose(x.value, order), "transpose" + axes_text(order) + "(" + x.text + ")");
      }
      case 1:
        return add(reshape(x.value, {-1}), "flat(" + x.text + ")");
      case 2: {  // two axes as one, or one as two
        Dims dims = x.value.shape().to_dims();
        if (rank > 1 && chance(0.5)) {
          const auto a = static_cast<std::size_t>(below(rank - 1));
          dims[a] *= dims[a + 1];
          dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(a) + 1);
        } else {
          const auto a = static_cast<std::size_t>(below(rank));
          const std::int64_t inner = dims[a] % 2 == 0 ? 2 : dims[a] % 3 == 0 ? 3 : 1;
          dims[a] /= inner;
          dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(a) + 1, inner);
        }
        return add(reshape(x.value, dims), "reshape(" + x.text + ")");
      }
      case 3: {
        const int axis = static_cast<int>(below(rank));
        const std::int64_t n = x.value.dim(axis);
        return add(slice_axis(x.value, axis, n / 3, n, n > 4 ? 2 : 1), "slice(" + x.text + ")");
      }
      default: {
        const int axis = static_cast<int>(below(rank));
        return add(concatenate(Arrays{x.value, rev(x.value, {axis})}, axis), "joined(" + x.text + ")");
      }
    }
  }

  void running() {
    const Named x = any();
    if (x.value.rank() == 0) return;
    const int axis = static_cast<int>(below(static_cast<std::int64_t>(x.value.rank())));
    add(cumsum(x.value, axis, chance(0.5)), "cumsum(" + x.text + ")");
  }

  // Σ over one axis of each, of equal size; small and large, single rows and columns.
  void product() {
    const Named x = any(), y = any();
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.value.rank()); ++i)
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(y.value.rank()); ++k)
        if (x.value.dim(static_cast<int>(i)) == y.value.dim(static_cast<int>(k)) &&
            x.value.size() * y.value.size() < 4'000'000)
          return add(dot_general(x.value, y.value, {{i}, {k}, {}, {}}) * 0.125,
                     "dot(" + x.text + ", " + y.text + ")");
  }

  // A recurrence along the first axis, with a sum inside.
  void over_time() {
    const Named x = any();
    if (x.value.rank() < 2 || x.value.dim(0) > 40) return;
    const Array start = x.value.shape().without(0).size() == 0 ? x.value : zeros_of_row(x.value);
    const ScanResult r = scan(
        [](ArraySpan c, ArraySpan in) -> ScanResult {
          const Array h = c[0] * 0.75 + in[0];
          return {{h - mean(h) * 0.5}, {h, sum(h * h)}};
        },
        {start}, {x.value});
    add(r.ys[0], "scan(" + x.text + ")");
    add(r.ys[1], "sums of scan(" + x.text + ")");
  }
  Array zeros_of_row(const Array& x) const { return zeros(x.shape().without(0), dtype_); }

  Random random_;
  Dtype dtype_;
  std::int64_t batch_;
  std::vector<Named> values_;
};

// Numbers of different sizes, some of them zeros of either sign.
Tensor numbers(Random& random, const Aval& aval) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < aval.shape.size(); ++i) {
    const double kind = random.uniform(0, 1), x = random.uniform(-2, 2);
    all.push_back(kind < 0.05 ? 0.0 : kind < 0.1 ? -0.0 : kind < 0.2 ? x * 1e-6 : x);
  }
  return array(all, aval.shape, aval.dtype).tensor();
}

}  // namespace

RandomPrograms random_programs(std::uint64_t seed, std::size_t count, Dtype dtype, std::int64_t batch) {
  RandomPrograms out;
  Random random(seed);
  Avals in;
  std::vector<Grower> growers;
  std::vector<std::size_t> arguments;
  for (std::size_t i = 0; i < count; ++i) {
    growers.emplace_back(seed + i, dtype, batch);
    const std::vector<Shape> shapes = growers.back().argument_shapes();
    arguments.push_back(shapes.size());
    for (const Shape& shape : shapes) {
      in.push_back({dtype, shape});
      out.arguments.push_back(numbers(random, in.back()));
    }
  }
  const ClosedJaxpr closed = make_jaxpr(
      [&](ArraySpan x) {
        Arrays results;
        std::size_t at = 0;
        for (std::size_t i = 0; i < growers.size(); ++i) {
          for (const auto& [value, text] : growers[i].grow(x.subspan(at, arguments[i]))) {
            results.push_back(value);
            out.labels.push_back("seed " + std::to_string(seed + i) + ": " + text);
          }
          at += arguments[i];
        }
        return results;
      },
      in);
  out.program = as_program(closed);
  return out;
}

}  // namespace etrace::testing
