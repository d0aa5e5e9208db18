// The handwritten digits that come with the library: 1,797 images of 8 × 8 pixels.
#pragma once

#include "data/dataset.h"

#pragma GCC visibility push(default)
namespace etrace::data {

// As series of 64 / per_step steps with `per_step` pixels each (8: rows, 1: pixels), values 0 … 1. ValueError
// unless 64 is a multiple of it.
std::unique_ptr<Dataset> read_digits(std::int64_t per_step);

}  // namespace etrace::data
#pragma GCC visibility pop
