#include "etrace/nn/connect.h"

#include <algorithm>
#include <cmath>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"

namespace etrace::nn::connect {

namespace {

void require_sizes(const char* who, std::int64_t pre, std::int64_t post) {
  if (pre < 0 || post < 0)
    wrong_option(who, std::to_string(pre) + " senders and " + std::to_string(post) + " receivers");
}

// Pairs for which keep(i, j) holds.
template <class Keep>
SparsePattern pairs(std::int64_t pre, std::int64_t post, bool self, Keep keep) {
  Dims row, col;
  for (std::int64_t i = 0; i < pre; ++i)
    for (std::int64_t j = 0; j < post; ++j)
      if ((self || i != j) && keep(i, j)) {
        row.push_back(i);
        col.push_back(j);
      }
  return SparsePattern::coo(pre, post, row, col);
}

// The numbers of one neuron's candidates in a random order, `count` of them, ascending.
Dims chosen(const Array& key, std::int64_t n, std::int64_t count, std::optional<std::int64_t> without) {
  const Tensor order = random::permutation(key, n).tensor();
  Dims picked;
  for (const std::int32_t k : order.data<std::int32_t>()) {
    if (static_cast<std::int64_t>(picked.size()) == count) break;
    if (k != without) picked.push_back(k);
  }
  std::sort(picked.begin(), picked.end());
  return picked;
}

void require_degree(const char* who, std::int64_t count, std::int64_t available) {
  if (count < 0 || count > available)
    wrong_option(who, std::to_string(count) + " different partners of " + std::to_string(available));
}

// Distances one by one, pre first.
std::vector<double> distances(const char* who, const Array& pre, const Array& post) {
  if (pre.rank() != 2 || post.rank() != 2 || pre.dim(1) != post.dim(1))
    wrong_option(who, "positions of type " + to_string(pre.aval()) + " and " + to_string(post.aval()) +
                          "; expected [neurons, dimensions] with the same dimensions");
  const std::vector<double> a = pre.tensor().to_doubles(), b = post.tensor().to_doubles();
  const auto axes = static_cast<std::size_t>(pre.dim(1));
  std::vector<double> all;
  for (std::size_t i = 0; i < a.size(); i += axes)
    for (std::size_t j = 0; j < b.size(); j += axes) {
      double square = 0.0;
      for (std::size_t d = 0; d < axes; ++d) square += (a[i + d] - b[j + d]) * (a[i + d] - b[j + d]);
      all.push_back(std::sqrt(square));
    }
  return all;
}

std::vector<double> uniform_numbers(std::uint64_t seed, std::int64_t count) {
  return random::uniform(random::key(seed), {count}, Dtype::F64).tensor().to_doubles();
}

}  // namespace

SparsePattern all_to_all(std::int64_t pre, std::int64_t post, bool self) {
  require_sizes("all_to_all", pre, post);
  return pairs(pre, post, self, [](std::int64_t, std::int64_t) { return true; });
}

SparsePattern one_to_one(std::int64_t n) {
  require_sizes("one_to_one", n, n);
  return pairs(n, n, true, [](std::int64_t i, std::int64_t j) { return i == j; });
}

SparsePattern fixed_probability(std::int64_t pre, std::int64_t post, double p, const RandomOptions& o) {
  require_sizes("fixed_probability", pre, post);
  if (!(p >= 0.0 && p <= 1.0))
    wrong_option("fixed_probability", "p = " + std::to_string(p) + "; expected 0 to 1");
  const std::vector<double> u = uniform_numbers(o.seed, pre * post);
  return pairs(pre, post, o.self,
               [&](std::int64_t i, std::int64_t j) { return u[static_cast<std::size_t>(i * post + j)] < p; });
}

SparsePattern fixed_in_degree(std::int64_t pre, std::int64_t post, std::int64_t senders,
                              const RandomOptions& o) {
  require_sizes("fixed_in_degree", pre, post);
  require_degree("fixed_in_degree", senders, o.self || pre == 0 ? pre : pre - 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> entries;
  for (std::int64_t j = 0; j < post; ++j)
    for (const std::int64_t i : chosen(random::fold_in(random::key(o.seed), j), pre, senders,
                                       o.self ? std::nullopt : std::optional(j)))
      entries.emplace_back(i, j);
  std::sort(entries.begin(), entries.end());
  Dims row, col;
  for (const auto& [i, j] : entries) {
    row.push_back(i);
    col.push_back(j);
  }
  return SparsePattern::coo(pre, post, row, col);
}

SparsePattern fixed_out_degree(std::int64_t pre, std::int64_t post, std::int64_t receivers,
                               const RandomOptions& o) {
  require_sizes("fixed_out_degree", pre, post);
  require_degree("fixed_out_degree", receivers, o.self || post == 0 ? post : post - 1);
  Dims row, col;
  for (std::int64_t i = 0; i < pre; ++i)
    for (const std::int64_t j : chosen(random::fold_in(random::key(o.seed), i), post, receivers,
                                       o.self ? std::nullopt : std::optional(i))) {
      row.push_back(i);
      col.push_back(j);
    }
  return SparsePattern::coo(pre, post, row, col);
}

SparsePattern by_distance(const Array& pre, const Array& post,
                          const std::function<double(double)>& probability, const RandomOptions& o) {
  const std::vector<double> far = distances("by_distance", pre, post);
  const std::vector<double> u = uniform_numbers(o.seed, static_cast<std::int64_t>(far.size()));
  const std::int64_t n = post.dim(0);
  return pairs(pre.dim(0), n, o.self, [&](std::int64_t i, std::int64_t j) {
    const auto at = static_cast<std::size_t>(i * n + j);
    return u[at] < probability(far[at]);
  });
}

SparsePattern within(const Array& pre, const Array& post, double radius, bool self) {
  const std::vector<double> far = distances("within", pre, post);
  const std::int64_t n = post.dim(0);
  return pairs(pre.dim(0), n, self, [&](std::int64_t i, std::int64_t j) {
    return far[static_cast<std::size_t>(i * n + j)] <= radius;
  });
}

SparsePattern nonzero(const Array& matrix) {
  if (matrix.rank() != 2) wrong_input("connect::nonzero", matrix, "a matrix");
  const std::vector<double> values = matrix.tensor().to_doubles();
  const std::int64_t n = matrix.dim(1);
  return pairs(matrix.dim(0), n, true, [&](std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * n + j)] != 0.0;
  });
}

Array grid(const Shape& sizes, Dtype dtype) {
  Arrays axes;
  for (std::size_t a = 0; a < sizes.rank(); ++a)
    axes.push_back(reshape(iota(Dtype::I32, sizes, static_cast<int>(a)), {-1}));
  if (axes.empty()) wrong_option("connect::grid", "it needs at least one size");
  return convert(stack(axes, 1), dtype);
}

Array dale_signs(std::int64_t n, std::int64_t excitatory, Dtype dtype) {
  if (n < 0 || excitatory < 0 || excitatory > n)
    wrong_option("dale_signs", std::to_string(excitatory) + " excitatory neurons of " + std::to_string(n));
  std::vector<double> signs(static_cast<std::size_t>(n), -1.0);
  std::fill_n(signs.begin(), excitatory, 1.0);
  return array(signs, Shape{n, 1}, dtype);
}

Array dale_signs(const SparsePattern& p, std::int64_t excitatory, Dtype dtype) {
  const Array column = dale_signs(p.rows(), excitatory, Dtype::F64);
  const std::vector<double> signs = column.tensor().to_doubles();
  std::vector<double> each;
  for (const std::int64_t i : p.row()) each.push_back(signs[static_cast<std::size_t>(i)]);
  return array(each, dtype);
}

}  // namespace etrace::nn::connect
