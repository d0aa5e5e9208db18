#include "etrace/nn/connect.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "nn/connect_draws.h"
#include "nn/position_grid.h"

namespace etrace::nn::connect {

namespace {

void require_sizes(const char* who, std::int64_t pre, std::int64_t post) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (pre < 0 || post < 0 || pre > kMost || post > kMost)
    wrong_option(who, std::to_string(pre) + " senders and " + std::to_string(post) +
                          " receivers; expected 0 to 2^31-1 of each");
}

void require_probability(const char* who, double p) {
  if (!(p >= 0.0 && p <= 1.0)) wrong_option(who, "p = " + std::to_string(p) + "; expected 0 to 1");
}

void require_degree(const char* who, std::int64_t count, std::int64_t available) {
  if (count < 0 || count > available)
    wrong_option(who, std::to_string(count) + " different partners of " + std::to_string(available));
}

// Connections in the order in which they are found.
struct Pairs {
  Dims row, col;

  void add(std::int64_t i, std::int64_t j) {
    row.push_back(i);
    col.push_back(j);
  }
  SparsePattern pattern(std::int64_t pre, std::int64_t post) && {
    return SparsePattern::coo(pre, post, std::move(row), std::move(col));
  }
};

// Two lists in the order of `keys` (0 … n-1); entries with the same key keep their order.
void sort_by(Dims& keys, Dims& others, std::int64_t n) {
  Dims next(static_cast<std::size_t>(n) + 1);
  for (const std::int64_t k : keys) ++next[static_cast<std::size_t>(k) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Dims sorted(keys.size()), carried(keys.size());
  for (std::size_t e = 0; e < keys.size(); ++e) {
    const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(keys[e])]++);
    sorted[to] = keys[e];
    carried[to] = others[e];
  }
  keys = std::move(sorted);
  others = std::move(carried);
}

// Pairs for which keep(i, j) holds; every pair is asked.
template <class Keep>
SparsePattern pairs(std::int64_t pre, std::int64_t post, bool self, Keep keep) {
  Pairs found;
  for (std::int64_t i = 0; i < pre; ++i)
    for (std::int64_t j = 0; j < post; ++j)
      if ((self || i != j) && keep(i, j)) found.add(i, j);
  return std::move(found).pattern(pre, post);
}

// hit(chooser, other) for `count` different others of each of `choosers` neurons.
template <class Hit>
void choose_partners(std::int64_t choosers, std::int64_t others, std::int64_t count, const RandomOptions& o,
                     Hit hit) {
  Draws draws(o.seed);
  DistinctDraws distinct(others);
  for (std::int64_t a = 0; a < choosers; ++a) {
    const bool leaves_itself_out = !o.self && a < others;
    for (const std::int64_t k : distinct.draw(draws, leaves_itself_out ? others - 1 : others, count))
      hit(a, leaves_itself_out && k >= a ? k + 1 : k);
  }
}

void require_positions(const char* who, const Array& pre, const Array& post) {
  if (pre.rank() != 2 || post.rank() != 2 || pre.dim(1) != post.dim(1))
    wrong_option(who, "positions of type " + to_string(pre.aval()) + " and " + to_string(post.aval()) +
                          "; expected [neurons, dimensions] with the same dimensions");
}

// Calls each(i, j, distance) for the pairs that are no farther apart than the reach, in their order.
template <class Each>
void each_within(const char* who, const Array& pre, const Array& post, double reach, bool self, Each each) {
  require_positions(who, pre, post);
  const PositionGrid senders(who, pre);
  PositionGrid receivers(who, post, reach);
  for (std::int64_t i = 0; i < pre.dim(0); ++i)
    for (const std::int64_t j : receivers.near(senders.at(i)))
      if (const double d = distance(senders.at(i), receivers.at(j)); d <= reach && (self || i != j))
        each(i, j, d);
}

// The neurons of each type, ascending.
std::vector<Dims> members_of(const char* who, const Array& types, std::int64_t count) {
  if (types.rank() != 1 || !is_integer(types.dtype()))
    wrong_option(who, "types of type " + to_string(types.aval()) + "; expected one whole number per neuron");
  std::vector<Dims> members(static_cast<std::size_t>(count));
  const std::vector<double> each = types.tensor().to_doubles();
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (!(each[i] >= 0 && each[i] < static_cast<double>(count)))
      wrong_option(who, "neuron " + std::to_string(i) + " has type " +
                            std::to_string(static_cast<std::int64_t>(each[i])) + "; there are " +
                            std::to_string(count) + " types, from 0");
    members[static_cast<std::size_t>(each[i])].push_back(static_cast<std::int64_t>(i));
  }
  return members;
}

}  // namespace

SparsePattern all_to_all(std::int64_t pre, std::int64_t post, bool self) {
  require_sizes("all_to_all", pre, post);
  return pairs(pre, post, self, [](std::int64_t, std::int64_t) { return true; });
}

SparsePattern one_to_one(std::int64_t n) {
  require_sizes("one_to_one", n, n);
  Pairs found;
  for (std::int64_t i = 0; i < n; ++i) found.add(i, i);
  return std::move(found).pattern(n, n);
}

SparsePattern fixed_probability(std::int64_t pre, std::int64_t post, double p, const RandomOptions& o) {
  require_sizes("fixed_probability", pre, post);
  require_probability("fixed_probability", p);
  Pairs found;
  Draws draws(o.seed);
  each_with_probability(draws, p, log_of_failing(p), pre * post, [&](std::int64_t k) {
    if (o.self || k / post != k % post) found.add(k / post, k % post);
  });
  return std::move(found).pattern(pre, post);
}

SparsePattern fixed_in_degree(std::int64_t pre, std::int64_t post, std::int64_t senders,
                              const RandomOptions& o) {
  require_sizes("fixed_in_degree", pre, post);
  require_degree("fixed_in_degree", senders, o.self || pre == 0 ? pre : pre - 1);
  Pairs found;
  choose_partners(post, pre, senders, o, [&](std::int64_t j, std::int64_t i) { found.add(i, j); });
  sort_by(found.row, found.col, pre);
  return std::move(found).pattern(pre, post);
}

SparsePattern fixed_out_degree(std::int64_t pre, std::int64_t post, std::int64_t receivers,
                               const RandomOptions& o) {
  require_sizes("fixed_out_degree", pre, post);
  require_degree("fixed_out_degree", receivers, o.self || post == 0 ? post : post - 1);
  Pairs found;
  choose_partners(pre, post, receivers, o, [&](std::int64_t i, std::int64_t j) { found.add(i, j); });
  return std::move(found).pattern(pre, post);
}

SparsePattern by_type(const Array& pre, const Array& post, const Array& probabilities,
                      const RandomOptions& o) {
  if (probabilities.rank() != 2)
    wrong_option("by_type", "probabilities of type " + to_string(probabilities.aval()) +
                                "; expected [types of senders, types of receivers]");
  const std::int64_t columns = probabilities.dim(1);
  const std::vector<Dims> senders = members_of("by_type", pre, probabilities.dim(0));
  const std::vector<Dims> receivers = members_of("by_type", post, columns);
  const std::vector<double> p = probabilities.tensor().to_doubles();
  for (const double each : p) require_probability("by_type", each);
  Pairs found;
  Draws draws(o.seed);
  for (std::size_t a = 0; a < senders.size(); ++a)
    for (std::size_t b = 0; b < receivers.size(); ++b) {
      const double each = p[a * static_cast<std::size_t>(columns) + b];
      const auto width = static_cast<std::int64_t>(receivers[b].size());
      each_with_probability(draws, each, log_of_failing(each),
                            static_cast<std::int64_t>(senders[a].size()) * width, [&](std::int64_t k) {
                              const std::int64_t i = senders[a][static_cast<std::size_t>(k / width)],
                                                 j = receivers[b][static_cast<std::size_t>(k % width)];
                              if (o.self || i != j) found.add(i, j);
                            });
    }
  sort_by(found.col, found.row, post.dim(0));
  sort_by(found.row, found.col, pre.dim(0));
  return std::move(found).pattern(pre.dim(0), post.dim(0));
}

SparsePattern by_distance(const Array& pre, const Array& post,
                          const std::function<double(double)>& probability, const DistanceOptions& o) {
  Pairs found;
  Draws draws(o.seed);
  each_within("by_distance", pre, post, o.reach, o.self, [&](std::int64_t i, std::int64_t j, double d) {
    if (draws.uniform() < probability(d)) found.add(i, j);
  });
  return std::move(found).pattern(pre.dim(0), post.dim(0));
}

SparsePattern within(const Array& pre, const Array& post, double radius, bool self) {
  Pairs found;
  each_within("within", pre, post, radius, self,
              [&](std::int64_t i, std::int64_t j, double) { found.add(i, j); });
  return std::move(found).pattern(pre.dim(0), post.dim(0));
}

SparsePattern small_world(std::int64_t n, std::int64_t neighbours, double rewired, std::uint64_t seed) {
  require_sizes("small_world", n, n);
  require_probability("small_world", rewired);
  if (neighbours < 0 || neighbours % 2 != 0 || neighbours >= std::max<std::int64_t>(n, 1))
    wrong_option("small_world", std::to_string(neighbours) + " neighbours of " + std::to_string(n) +
                                    " neurons; expected an even number below that");
  Pairs found;
  Draws draws(seed);
  DistinctDraws partners(n);
  for (std::int64_t i = 0; i < n; ++i) {
    partners.clear();
    partners.take(i);
    Dims receivers;
    for (std::int64_t k = -neighbours / 2; k <= neighbours / 2; ++k)
      if (k != 0 && draws.uniform() >= rewired && partners.take((i + k + n) % n))
        receivers.push_back((i + k + n) % n);
    while (static_cast<std::int64_t>(receivers.size()) < neighbours)
      if (const std::int64_t j = draws.below(n); partners.take(j)) receivers.push_back(j);
    std::sort(receivers.begin(), receivers.end());
    for (const std::int64_t j : receivers) found.add(i, j);
  }
  return std::move(found).pattern(n, n);
}

// Each new neuron picks ends of the links so far: a neuron with twice the links is picked twice as often.
SparsePattern scale_free(std::int64_t n, std::int64_t links, std::uint64_t seed) {
  require_sizes("scale_free", n, n);
  if (links < 1 || links >= n)
    wrong_option("scale_free", std::to_string(links) + " links of each new neuron among " +
                                   std::to_string(n) + " neurons; expected 1 to " + std::to_string(n - 1));
  Pairs found;
  Draws draws(seed);
  DistinctDraws partners(n);
  Dims ends;
  for (std::int64_t i = links; i < n; ++i) {
    partners.clear();
    Dims picked;
    if (i == links)  // the first neurons have no links yet
      for (std::int64_t j = 0; j < links; ++j) picked.push_back(j);
    while (static_cast<std::int64_t>(picked.size()) < links)
      if (const std::int64_t j =
              ends[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(ends.size())))];
          partners.take(j))
        picked.push_back(j);
    for (const std::int64_t j : picked) {
      found.add(i, j);
      found.add(j, i);
      ends.insert(ends.end(), {i, j});
    }
  }
  sort_by(found.col, found.row, n);
  sort_by(found.row, found.col, n);
  return std::move(found).pattern(n, n);
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
