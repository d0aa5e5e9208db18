// What the lines of a random model do: one row per operation. Numbers of a line are its constants, or the
// seeds that constants are drawn from; weights come before data in no row.
#include <algorithm>
#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/numeric.h"
#include "support/random_models.h"

namespace etrace::testing {

// Scopes ----------------------------------------------------------------------------------------------------
Array StepScope::at(const std::string& name) const {
  for (auto it = values_.rbegin(); it != values_.rend(); ++it)
    if (it->first == name) return it->second;
  throw ValueError("random model", "no value " + name);
}

Arrays StepScope::at(const std::vector<std::string>& names) const {
  Arrays out;
  for (const std::string& n : names) out.push_back(at(n));
  return out;
}

void StepScope::run(const std::vector<Line>& lines) {
  for (const Line& l : lines) {
    const Arrays out = step_op(l.op).eval(l, at(l.in), *this);
    if (out.size() != l.out.size()) throw ValueError("random model", "results of " + l.op);
    for (std::size_t i = 0; i < out.size(); ++i) values_.emplace_back(l.out[i], out[i]);
  }
}

Arrays StepScope::body(const Block& b, ArraySpan args) const {
  StepScope inner = *this;
  if (args.size() != b.args.size()) throw ValueError("random model", "arguments of a body");
  for (std::size_t i = 0; i < args.size(); ++i) inner.values_.emplace_back(b.args[i], args[i]);
  inner.run(b.lines);
  return inner.at(b.results);
}

Shape StepScope::shape(const std::vector<std::string>& dims) const {
  Dims out;
  for (const std::string& d : dims) out.push_back(model_.size(d));
  return Shape(out);
}

namespace {

double number(const Line& l, std::size_t i, double fallback = 0.0) {
  return i < l.numbers.size() ? l.numbers[i] : fallback;
}
std::uint64_t seed(const Line& l, std::size_t i = 0) { return static_cast<std::uint64_t>(number(l, i, 1.0)); }
std::int64_t whole(const Line& l, std::size_t i, std::int64_t fallback = 0) {
  return static_cast<std::int64_t>(number(l, i, static_cast<double>(fallback)));
}
Array constant(std::uint64_t seed, const Shape& shape, double low = -1.0, double high = 1.0) {
  return Random(seed).f64(shape, low, high);
}
// [b, rest] or [rest]
Array flat(const Array& a, const StepScope& s) {
  return reshape(a, s.model().batched() ? Dims{a.dim(0), -1} : Dims{-1});
}
Array bias(ArraySpan in, std::size_t i) { return i < in.size() ? in[i] : Array(); }

// Functions of a weight inside its operator, by number: 0 is none.
WeightFn weight_function(std::int64_t which) {
  switch (which) {
    case 1:
      return [](const Array& w) { return tanh(w); };
    case 2:
      return [](const Array& w) {
        if (w.dim(-1) == 1) return w;  // of one entry nothing would be left
        const Dims last{-1};
        return (w - mean(w, last, true)) / sqrt(variance(w, last, true) + 1e-1);
      };
    case 3:
      return [](const Array& w) { return w / sqrt(sum(square(w)) + 1e-1); };
    case 4:
      return [](const Array& w) { return w.dim(-1) == 1 ? w : softmax(w, -1); };
    default:
      return {};
  }
}
MatmulOptions functions(const Line& l) {
  return {.weight_fn = weight_function(whole(l, 0)), .bias_fn = weight_function(whole(l, 1))};
}

// Derivative of a spike with respect to its distance from threshold.
Array surrogate(const Array& distance) { return 1.0 / square(1.0 + 2.0 * abs(distance)); }

Array sparse_product(const Line& l, ArraySpan in, const StepScope& s) {
  const std::int64_t rows = in[0].dim(-1), cols = s.model().size(l.dims.at(0)), nnz = in[1].dim(0);
  if (nnz > rows * cols) throw ValueError("random model", "more entries than places");
  Dims places;
  for (std::int64_t i = 0; i < rows * cols; ++i) places.push_back(i);
  Dice dice(seed(l, 2));
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[dice.below(i)]);
  Dims row, col;
  for (std::int64_t i = 0; i < nnz; ++i) {
    row.push_back(places[static_cast<std::size_t>(i)] / cols);
    col.push_back(places[static_cast<std::size_t>(i)] % cols);
  }
  return sparse_matmul(in[0], in[1], SparsePattern::coo(rows, cols, row, col), bias(in, 2), functions(l));
}

Array convolution(const Line& l, ArraySpan in, std::size_t space) {
  EtpConvOptions o;
  o.strides = Dims(space, 1);
  o.kernel_fn = weight_function(whole(l, 0));
  o.bias_fn = weight_function(whole(l, 1));
  return conv(in[0], in[1], bias(in, 2), o);
}

constexpr const char* kEquations[] = {"bi,io->bo", "bhd,hde->bhe", "btk,kn->btn", "bkt,nk->bnt",
                                      "bzk,kn->bn"};

// Mixing of the last axis --------------------------------------------------------------------------------
Array layer_norm(const Array& x) {
  const Dims last{-1};
  return (x - mean(x, last, true)) / sqrt(variance(x, last, true) + 1e-1);
}
Array halves(const Array& x) {  // the second half in front of the first
  const std::int64_t n = x.dim(-1), half = n / 2;
  const int last = static_cast<int>(x.rank()) - 1;
  return concatenate(Arrays{slice_axis(x, last, half, n), slice_axis(x, last, 0, half)}, last);
}
Array permuted(const Array& x, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<double> order;
  for (std::int64_t i = 0; i < x.dim(-1); ++i) order.push_back(static_cast<double>(i));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
  if (std::is_sorted(order.begin(), order.end())) std::rotate(order.begin(), order.begin() + 1, order.end());
  return take(x, array(order, {x.dim(-1)}, Dtype::I32), static_cast<int>(x.rank()) - 1);
}
Array first(const Array& x) {
  const int last = static_cast<int>(x.rank()) - 1;
  return broadcast_to(slice_axis(x, last, 0, 1), x.shape());
}
Array resized(const Line& l, const Array& x, const StepScope& s) {  // the last axis cut, or filled with zeros
  const std::int64_t n = x.dim(-1), wanted = s.model().size(l.dims.at(0));
  const int last = static_cast<int>(x.rank()) - 1;
  if (wanted <= n) return slice_axis(x, last, n - wanted, n);
  std::vector<PadAxis> padding(x.rank());
  padding.back().high = wanted - n;
  return pad(x, Array(0.0), padding);
}
// Through a constant matrix to a sample of another shape.
Array reprojected(const Line& l, const Array& x, const StepScope& s) {
  const Array rows = flat(x, s);
  const Shape sample = s.shape(l.dims);
  const Array y = matmul_plain(rows, constant(seed(l), {rows.dim(-1), sample.size()}));
  Dims out = sample.to_dims();
  if (s.model().batched()) out.insert(out.begin(), x.dim(0));
  return reshape(y, out);
}
Array zeros_for(const Line& l, const StepScope& s) { return zeros(s.shape(l.dims), Dtype::F64); }

// Control flow -------------------------------------------------------------------------------------------
Arrays conditional(const Line& l, ArraySpan in, const StepScope& s) {
  const auto branch = [&](std::size_t i) {
    return [&, i](ArraySpan a) { return s.body(l.blocks.at(i), a); };
  };
  const Arrays operands(in.begin() + 1, in.end());
  return cond(sum(in[0]) > 0.0, branch(0), branch(1), operands);
}
// numbers: length, number of carries, reverse. Further operands are scanned over.
Arrays scanned(const Line& l, ArraySpan in, const StepScope& s) {
  const auto carries = static_cast<std::size_t>(whole(l, 1, 1));
  const ScanBody body = [&](ArraySpan c, ArraySpan x) -> ScanResult {
    Arrays args(c.begin(), c.end());
    args.insert(args.end(), x.begin(), x.end());
    return {s.body(l.blocks.at(0), args), {}};
  };
  return scan(body, Arrays(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carries)),
              Arrays(in.begin() + static_cast<std::ptrdiff_t>(carries), in.end()),
              {.length = whole(l, 0, 2), .reverse = whole(l, 2) != 0})
      .carry;
}
Arrays repeated(const Line& l, ArraySpan in, const StepScope& s) {
  Arrays init(in.begin(), in.end());
  init.push_back(full({}, std::int64_t{0}, Dtype::I32));
  Arrays out = while_loop([&](ArraySpan c) { return c.back() < whole(l, 0, 2); },
                          [&](ArraySpan c) {
                            Arrays next = s.body(l.blocks.at(0), c.first(c.size() - 1));
                            next.push_back(c.back() + 1);
                            return next;
                          },
                          init);
  out.pop_back();
  return out;
}

// Rows ---------------------------------------------------------------------------------------------------
using X = ArraySpan;
using S = const StepScope&;
using L = const Line&;
const StepOp kOps[] = {
    // element by element
    {"tanh", [](L, X x, S) { return Arrays{tanh(x[0])}; }},
    {"sin", [](L, X x, S) { return Arrays{sin(x[0])}; }},
    {"logistic", [](L, X x, S) { return Arrays{logistic(x[0])}; }},
    {"softplus", [](L, X x, S) { return Arrays{softplus(x[0])}; }},
    {"square", [](L, X x, S) { return Arrays{square(x[0])}; }},
    {"relu", [](L, X x, S) { return Arrays{relu(x[0])}; }},
    {"abs", [](L, X x, S) { return Arrays{abs(x[0])}; }},
    {"reciprocal", [](L, X x, S) { return Arrays{1.0 / (1.0 + square(x[0]))}; }},
    {"scale", [](L l, X x, S) { return Arrays{number(l, 0, 1.0) * x[0]}; }},
    {"shift", [](L l, X x, S) { return Arrays{x[0] + number(l, 0)}; }},
    {"copy", [](L, X x, S) { return Arrays{copy(x[0])}; }},
    {"add", [](L, X x, S) { return Arrays{x[0] + x[1]}; }},
    {"sub", [](L, X x, S) { return Arrays{x[0] - 0.9 * x[1]}; }},  // a and -a do not cancel
    {"mul", [](L, X x, S) { return Arrays{x[0] * x[1]}; }},
    {"select", [](L, X x, S) { return Arrays{where(x[0] > 0.0, x[1], x[2])}; }},
    {"weigh", [](L l, X x, S) { return Arrays{x[0] * constant(seed(l), {x[0].dim(-1)}, 0.3, 1.0)}; }},
    {"stop", [](L, X x, S) { return Arrays{stop_gradient(x[0])}; }, false},
    {"spike",
     [](L l, X x, S) {
       const Array d = x[0] - number(l, 0);
       return Arrays{heaviside_surrogate(d, surrogate(d))};
     },
     false},
    {"spike_jvp",
     [](L l, X x, S) {
       const double level = number(l, 0);
       const auto step = [level](const Array& v) { return convert(v >= level, v.dtype()); };
       const Function f = custom_jvp([=](X a) { return Arrays{step(a[0])}; },
                                     [=](X a) {
                                       return Arrays{step(a[0]), surrogate(a[0] - level) * a[1]};
                                     });
       return f(x);
     },
     false},
    {"spike_vjp",
     [](L l, X x, S) {
       const double level = number(l, 0);
       const auto step = [level](const Array& v) { return convert(v >= level, v.dtype()); };
       const Function f = custom_vjp([=](X a) { return Arrays{step(a[0])}; },
                                     [=](X a) {
                                       return Arrays{step(a[0]), a[0]};
                                     },
                                     [=](X a) { return Arrays{surrogate(a[0] - level) * a[1]}; });
       return f(x);
     },
     false},
    // mixing positions
    // Two entries would be each other's opposite, and what is even of them the same.
    {"center",
     [](L, X x, S) {
       return Arrays{x[0] - (x[0].dim(-1) == 2 ? 0.5 : 1.0) * mean(x[0], {-1}, true)};
     }},
    {"add_sum", [](L l, X x, S) { return Arrays{x[0] + number(l, 0, 0.3) * sum(x[0], {-1}, true)}; }},
    {"add_total", [](L l, X x, S) { return Arrays{x[0] + number(l, 0, 0.1) * sum(x[0])}; }},
    {"layer_norm", [](L, X x, S) { return Arrays{layer_norm(x[0])}; }},
    {"softmax", [](L, X x, S) { return Arrays{softmax(x[0], -1)}; }},
    {"product",
     [](L l, X x, S) {
       return Arrays{matmul_plain(x[0], constant(seed(l), {x[0].dim(-1), x[0].dim(-1)}))};
     }},
    {"etp_constant",  // the operator with a weight that is none
     [](L l, X x, S) {
       return Arrays{matmul(x[0], constant(seed(l), {x[0].dim(-1), x[0].dim(-1)}))};
     }},
    {"roll", [](L l, X x, S) { return Arrays{roll(x[0], whole(l, 0, 1), -1)}; }},
    {"flip", [](L, X x, S) { return Arrays{flip(x[0], -1)}; }},
    {"cumsum", [](L, X x, S) { return Arrays{cumsum(x[0], -1)}; }},
    {"halves", [](L, X x, S) { return Arrays{halves(x[0])}; }},
    {"permute", [](L l, X x, S) { return Arrays{permuted(x[0], seed(l))}; }},
    {"first", [](L, X x, S) { return Arrays{first(x[0])}; }},
    {"over_samples", [](L, X x, S) { return Arrays{x[0] - 0.5 * mean(x[0], {0}, true)}; }},
    // shapes
    {"resize", [](L l, X x, S s) { return Arrays{resized(l, x[0], s)}; }},
    {"reproject", [](L l, X x, S s) { return Arrays{reprojected(l, x[0], s)}; }},
    {"join",
     [](L, X x, S s) {
       Arrays parts;
       for (const Array& a : x) parts.push_back(flat(a, s));
       return Arrays{concatenate(parts, -1)};
     }},
    {"concat", [](L, X x, S) { return Arrays{concatenate(x, static_cast<int>(x[0].rank()) - 1)}; }},
    {"stack", [](L, X x, S) { return Arrays{stack(x, static_cast<int>(x[0].rank()))}; }},
    {"entry",
     [](L l, X x, S) {
       const int last = static_cast<int>(x[0].rank()) - 1;
       return Arrays{squeeze(slice_axis(x[0], last, whole(l, 0), whole(l, 0) + 1), {last})};
     }},
    {"zeros", [](L l, X, S s) { return Arrays{zeros_for(l, s)}; }},
    {"constant", [](L l, X, S s) { return Arrays{constant(seed(l), s.shape(l.dims), -0.8, 0.8)}; }},
    // operators that own a weight: data, weight[, bias]; numbers: function of the weight, of the bias
    {"matmul", [](L l, X x, S) { return Arrays{matmul(x[0], x[1], bias(x, 2), functions(l))}; }},
    {"grouped", [](L l, X x, S) { return Arrays{grouped_matmul(x[0], x[1], bias(x, 2), functions(l))}; }},
    {"element_wise", [](L l, X x, S) { return Arrays{element_wise(x[0], weight_function(whole(l, 0)))}; }},
    {"embedding", [](L l, X x, S) { return Arrays{embedding(x[0], x[1], weight_function(whole(l, 0)))}; }},
    {"einsum",  // numbers: function, equation
     [](L l, X x, S) {
       return Arrays{einsum(kEquations[whole(l, 1)], x[0], x[1], weight_function(whole(l, 0)))};
     }},
    {"sparse", [](L l, X x, S s) { return Arrays{sparse_product(l, x, s)}; }},
    {"lora",
     [](L l, X x, S) {
       return Arrays{lora_matmul(x[0], x[1], x[2], bias(x, 3),
                                 {.alpha = 0.8,
                                  .b_fn = weight_function(whole(l, 0)),
                                  .a_fn = weight_function(whole(l, 1)),
                                  .bias_fn = {}})};
     }},
    {"conv1", [](L l, X x, S) { return Arrays{convolution(l, x, 1)}; }},
    {"conv2", [](L l, X x, S) { return Arrays{convolution(l, x, 2)}; }},
    {"conv3", [](L l, X x, S) { return Arrays{convolution(l, x, 3)}; }},
    {"plain", [](L, X x, S) { return Arrays{matmul_plain(x[0], x[1])}; }},  // no operator: not traced
    // of weights
    {"mask",
     [](L l, X x, S) {
       return Arrays{x[0] * convert(constant(seed(l), x[0].shape()) > -0.4, Dtype::F64)};
     }},
    {"transpose", [](L, X x, S) { return Arrays{transpose(x[0])}; }},
    {"slice",
     [](L l, X x, S s) {
       Dims begin, end = s.shape(l.dims).to_dims();
       for (std::size_t i = 0; i < end.size(); ++i) {
         begin.push_back(whole(l, i));
         end[i] += begin[i];
       }
       return Arrays{slice(x[0], begin, end)};
     }},
    // A plain sum would lose what sums to a constant, as the entries of a softmax do.
    {"by_data",
     [](L, X x, S) {
       return Arrays{x[0] * (1.0 + 0.3 * tanh(sum(x[1] * constant(11, {x[1].dim(-1)}, 0.3, 1.0))))};
     }},
    {"normalize", [](L, X x, S) { return Arrays{x[0] / sqrt(sum(square(x[0])) + 1e-1)}; }},
    {"rows", [](L, X x, S) { return Arrays{concatenate(x, 0)}; }},
    {"reshape", [](L l, X x, S s) { return Arrays{reshape(x[0], s.shape(l.dims).to_dims())}; }},
    // noise: the key, something of the shape -> the next key, the noise
    {"noise",
     [](L l, X x, S) {
       const Array keys = random::split(x[0]);
       const auto key = [&](std::int64_t i) { return squeeze(slice_axis(keys, 0, i, i + 1), {0}); };
       return Arrays{key(0), number(l, 0, 0.1) * random::normal(key(1), x[1].shape(), Dtype::F64)};
     }},
    // control flow
    {"jit", [](L l, X x, S s) { return jit([&](X a) { return s.body(l.blocks.at(0), a); })(x); }},
    {"cond", conditional},
    {"scan", scanned},
    {"while", repeated},
};

}  // namespace

const StepOp& step_op(std::string_view name) {
  for (const StepOp& o : kOps)
    if (o.name == name) return o;
  throw ValueError("random model", "no operation " + std::string(name));
}

}  // namespace etrace::testing
