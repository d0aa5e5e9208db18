// Exact text of numbers: what is written reads back to the same bits, in as few digits as that takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// Equality of constants: NaN equals NaN, 0.0 differs from -0.0.
bool same_number(double a, double b);
// The value as its element type holds it; every NaN becomes the same one.
Scalar canonical_value(const Literal&);

// Floating numbers never look like integers: "1.0", "1e+20", "-0.0", "inf", "-inf", "nan", "-nan", and
// "nan(0x7ff8000000000001)" for a NaN with a payload (the bits in the element's own width).
std::string number_text(double);
std::string number_text(const Literal&);  // every NaN is "nan"
void append_number(std::string& out, Dtype, const std::byte* element);

// One element of that type; false if the text is no such number or does not fit.
bool read_number(std::string_view text, Dtype, std::byte* element);
std::optional<Scalar> read_scalar(std::string_view text, Dtype);

}  // namespace etrace
#pragma GCC visibility pop
