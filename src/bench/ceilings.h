// What this machine can do at most, measured: the limits that benchmarks are held against.
#pragma once

#include <cstddef>

#include "runtime/thread_pool.h"

#pragma GCC visibility push(default)
namespace etrace {

// e ← 0.9·e + 1e-3 over a buffer of floats, in place: seconds of one pass by all threads of the pool, the
// best of several. What a step must do at least with a trace of that size.
double seconds_of_update(ThreadPool&, std::size_t bytes);
// The same for copying a buffer to another one; `bytes` are read and as many written.
double seconds_of_copy(ThreadPool&, std::size_t bytes);
// Floating point operations per second of fused multiply-adds on float vectors, an addition and a
// multiplication each.
double fma_rate(ThreadPool&);
// Seconds that giving work to all threads of the pool and waiting for them takes, beside the work, if the
// caller has worked alone for `alone` seconds before: the median of many times.
double seconds_of_hand_over(ThreadPool&, double alone);

}  // namespace etrace
#pragma GCC visibility pop
