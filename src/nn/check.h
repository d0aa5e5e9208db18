// What layers check of their inputs, and how they say it. `who` names the layer: "a Linear from 3 to 2
// features".
#pragma once

#include <string>

#include "etrace/array.h"

namespace etrace::nn {

[[noreturn]] void wrong_input(const std::string& who, const Array& x, const std::string& expected);
[[noreturn]] void wrong_option(const std::string& who,
                               const std::string& problem);  // ValueError, as the other

// x must end with these sizes and have at most one axis more, the batch.
void require_sample(const std::string& who, const Array& x, const Shape& sample);
// x must end with these sizes; any number of axes may stand before them.
void require_tail(const std::string& who, const Array& x, const Shape& tail);

// Whether x is a batch of samples of that rank.
inline bool is_batch(const Array& x, std::size_t sample_rank) { return x.rank() == sample_rank + 1; }

}  // namespace etrace::nn
