#include "nn/check.h"

#include <algorithm>

#include "etrace/error.h"

namespace etrace::nn {

namespace {
bool ends_with(const Shape& shape, const Shape& tail) {
  return shape.rank() >= tail.rank() &&
         std::equal(tail.begin(), tail.end(), shape.end() - static_cast<std::ptrdiff_t>(tail.rank()));
}
// "[4,3]" -> "[batch,4,3]"
std::string with_axis(const std::string& axis, const Shape& sample) {
  const std::string text = to_string(sample);
  return "[" + axis + (sample.rank() == 0 ? "" : ",") + text.substr(1);
}
}  // namespace

void wrong_input(const std::string& who, const Array& x, const std::string& expected) {
  throw ValueError("nn", who + " was given " + to_string(x.aval()) + "; expected " + expected,
                   OriginScope::current());
}

void wrong_option(const std::string& who, const std::string& problem) {
  throw ValueError("nn", who + ": " + problem, OriginScope::current());
}

void require_sample(const std::string& who, const Array& x, const Shape& sample) {
  if (x.rank() > sample.rank() + 1 || !ends_with(x.shape(), sample))
    wrong_input(who, x, to_string(sample) + " or " + with_axis("batch", sample));
}

void require_tail(const std::string& who, const Array& x, const Shape& tail) {
  if (!ends_with(x.shape(), tail)) wrong_input(who, x, with_axis("…", tail));
}

}  // namespace etrace::nn
