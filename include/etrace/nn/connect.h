// Which neuron is connected to which: patterns for SparseLinear, DelayedLinear and sparse_matmul. Entries are
// in the order of the senders, then of the receivers; the same seed gives the same pattern everywhere. Time
// and memory grow with the connections, not with the pairs, unless a line says so.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "etrace/etp.h"

#pragma GCC visibility push(default)
namespace etrace::nn::connect {

struct RandomOptions {
  bool self = true;  // false: no connection from a neuron to that of the same number
  std::uint64_t seed = 0;
};

struct DistanceOptions {
  bool self = true;
  std::uint64_t seed = 0;
  double reach =
      std::numeric_limits<double>::infinity();  // no pair is farther apart; infinite: every pair is asked
};

SparsePattern all_to_all(std::int64_t pre, std::int64_t post, bool self = true);
SparsePattern one_to_one(std::int64_t n);
// Each pair with this probability.
SparsePattern fixed_probability(std::int64_t pre, std::int64_t post, double p, const RandomOptions& = {});
// Each receiver has so many different senders. ValueError if there are fewer.
SparsePattern fixed_in_degree(std::int64_t pre, std::int64_t post, std::int64_t senders,
                              const RandomOptions& = {});
// Each sender has so many different receivers. ValueError if there are fewer.
SparsePattern fixed_out_degree(std::int64_t pre, std::int64_t post, std::int64_t receivers,
                               const RandomOptions& = {});
// Each pair of a sender of type a and a receiver of type b with the probability at [a, b]; types are whole
// numbers from 0, one per neuron.
SparsePattern by_type(const Array& pre_types, const Array& post_types, const Array& probabilities,
                      const RandomOptions& = {});
// Each pair with a probability that depends on its distance: positions are [neurons, dimensions]. All pairs
// within the reach are asked.
SparsePattern by_distance(const Array& pre_positions, const Array& post_positions,
                          const std::function<double(double distance)>& probability,
                          const DistanceOptions& = {});
// Pairs that are no farther apart than the radius.
SparsePattern within(const Array& pre_positions, const Array& post_positions, double radius,
                     bool self = true);
// A ring in which each neuron reaches its nearest neighbours (half of them on each side), and each of these
// connections goes elsewhere with probability `rewired` (Watts and Strogatz 1998, directed).
SparsePattern small_world(std::int64_t n, std::int64_t neighbours, double rewired, std::uint64_t seed = 0);
// Neurons come one by one, and each links to so many earlier ones, rather to those with many links (Barabási
// and Albert 1999). A link is a connection in both directions.
SparsePattern scale_free(std::int64_t n, std::int64_t links, std::uint64_t seed = 0);
// Where the matrix is not zero.
SparsePattern nonzero(const Array& matrix);

// Neurons on a grid of these sizes, spaced by 1: [neurons, dimensions].
Array grid(const Shape& sizes, Dtype = Dtype::F64);
// Dale's law: +1 for the first `excitatory` of n neurons, −1 for the others, as a column [n, 1] for
// SignedWLinear.
Array dale_signs(std::int64_t n, std::int64_t excitatory, Dtype = Dtype::F32);
// The same per entry of a pattern [nnz], for SparseLinearOptions::sign.
Array dale_signs(const SparsePattern&, std::int64_t excitatory, Dtype = Dtype::F32);

}  // namespace etrace::nn::connect
#pragma GCC visibility pop
