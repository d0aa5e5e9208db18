// Which neuron is connected to which: patterns for SparseLinear, DelayedLinear and sparse_matmul. Entries are
// in the order of the senders, then of the receivers; the same seed gives the same pattern everywhere.
#pragma once

#include "etrace/etp.h"

#pragma GCC visibility push(default)
namespace etrace::nn::connect {

struct RandomOptions {
  bool self = true;  // false: no connection from a neuron to that of the same number
  std::uint64_t seed = 0;
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
// Each pair with a probability that depends on its distance: positions are [neurons, dimensions].
SparsePattern by_distance(const Array& pre_positions, const Array& post_positions,
                          const std::function<double(double distance)>& probability,
                          const RandomOptions& = {});
// Pairs that are no farther apart than the radius.
SparsePattern within(const Array& pre_positions, const Array& post_positions, double radius,
                     bool self = true);
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
