// Arrays as text, one line each: type, shape and values.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "etrace/array.h"

namespace etrace {

namespace {

constexpr std::int64_t kInFull = 32;  // elements; of larger arrays the ends of every axis are shown:
constexpr std::int64_t kEndsOfRow = 3, kEndsOfOuter = 2;

std::string element_text(const Scalar& value, Dtype dtype) {
  if (dtype == Dtype::Bool) return to_double(value) != 0.0 ? "true" : "false";
  if (is_integer(dtype)) return std::to_string(to_int(value));
  return fmt::format("{:.6g}", to_double(value));
}

// "[1, 2, …, 9]", axis by axis from the outside.
void append_values(std::string& text, const Tensor& t, std::size_t axis, std::int64_t first) {
  const Shape& shape = t.shape();
  if (axis == shape.rank()) {
    text += element_text(t.at(first), t.dtype());
    return;
  }
  std::int64_t step = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) step *= shape[i];
  const std::int64_t n = shape[axis], ends = axis + 1 == shape.rank() ? kEndsOfRow : kEndsOfOuter;
  const bool whole = t.size() <= kInFull || n <= 2 * ends;
  text += "[";
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0) text += ", ";
    if (!whole && i == ends) {
      text += "…, ";
      i = n - ends;
    }
    append_values(text, t, axis + 1, first + i * step);
  }
  text += "]";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Array& a) {
  if (!a.defined()) return out << "undefined array";
  out << to_string(a.aval()) << " ";
  if (a.is_tracer()) return out << "(a value of the program that is being recorded)";
  if (const auto same = a.splat(); same && a.size() > kInFull)
    return out << "(all " << element_text(*same, a.dtype()) << ")";
  if (a.size() == 0) return out << "[]";
  std::string text;
  append_values(text, a.tensor(), 0, 0);
  return out << text;
}

}  // namespace etrace
