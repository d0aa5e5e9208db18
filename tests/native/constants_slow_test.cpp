// A constant is what an argument of its value is: every operation on every element type, with each of its
// operands in turn a number that emitted code has written out, against the interpreter with that number as an
// argument. Compilers know the functions of C, and would compute otherwise what they see.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "emit/kernel_text.h"
#include "etrace/array.h"
#include "etrace/ops/elementwise.h"
#include "etrace/primitive.h"
#include "support/native.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

std::vector<double> numbers_of(Dtype dtype) {
  if (dtype == Dtype::Bool) return {0, 1};
  if (dtype == Dtype::U32) return {0, 1, 2, 3, 31, 32, 0x7fffffff, 0xffffffff};
  if (dtype == Dtype::I32) return {0, 1, -1, 2, 3, -2, 31, 32, 2147483647, -2147483648.0};
  if (dtype == Dtype::I64) return {0, 1, -1, 2, 3, -2, 63, 64, 1e15, -9223372036854775808.0};
  const bool narrow = dtype == Dtype::F32;
  const double least = narrow ? std::numeric_limits<float>::denorm_min()
                              : std::numeric_limits<double>::denorm_min(),
               most = narrow ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  return {0.0,  -0.0, 1.0,   -1.0,  2.0,  -2.0,  3.0,  0.5,   -0.5,   1.5,  0.25,  1.0 / 3.,  1e-3,
          10.0, 1e30, -1e30, 1e-30, kInf, -kInf, kNaN, least, -least, most, 123.4, 4194305.5, 0.68758625};
}

// Besides, what found the defect: powers of random numbers, of which one in a thousand differs.
Tensor operand(Dtype dtype, std::int64_t size, std::size_t lane) {
  std::vector<double> out = numbers_of(dtype);
  std::uint32_t state = 77 + static_cast<std::uint32_t>(lane);
  while (static_cast<std::int64_t>(out.size()) < size) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    const double x = static_cast<double>(state) * 0x1p-31;
    out.push_back(is_floating(dtype) ? x : dtype == Dtype::Bool ? state % 2 : state % 100);
  }
  std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(7 * lane), out.end());
  return array(out, {size}, dtype).tensor();
}

struct Constant {
  const Primitive* prim;
  Params params;
  Tensors operands;
  std::size_t which;  // is the constant
  std::string label() const {
    std::string text = std::string(prim->name()) + ", operand " + std::to_string(which) + " = " +
                       std::to_string(operands[which].to_doubles()[0]);
    for (const Tensor& x : operands) text += " " + to_string(x.aval());
    return text;
  }
};

Arrays applied(const Constant& c, ArraySpan rest) {
  Arrays in(rest.begin(), rest.end());
  in.insert(in.begin() + static_cast<std::ptrdiff_t>(c.which),
            full(c.operands[c.which].shape(), c.operands[c.which].at(0), c.operands[c.which].dtype()));
  return bind_primitive(*c.prim, in, c.params);
}

void compare(std::span<const Constant> all) {
  Avals rest, whole;
  Tensors rest_values, whole_values;
  for (const Constant& c : all)
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      whole.push_back(c.operands[i].aval()), whole_values.push_back(c.operands[i]);
      if (i != c.which) rest.push_back(c.operands[i].aval()), rest_values.push_back(c.operands[i]);
    }
  const auto each = [&](bool written_out) {
    return [&, written_out](ArraySpan x) {
      Arrays out;
      for (const Constant& c : all) {
        const ArraySpan own = x.first(c.operands.size() - (written_out ? 1 : 0));
        x = x.subspan(own.size());
        out.push_back((written_out ? applied(c, own) : bind_primitive(*c.prim, own, c.params))[0]);
      }
      return out;
    };
  };
  const Program constants = as_program(make_jaxpr(each(true), rest));
  const Tensors expected = run_interpreter(as_program(make_jaxpr(each(false), whole)), whole_values),
                native = run_native(constants, rest_values),
                interpreted = run_interpreter(constants, rest_values);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(same_bits(native[i], expected[i])) << "native: " << all[i].label();
    EXPECT_TRUE(same_bits(interpreted[i], expected[i])) << "interpreter: " << all[i].label();
  }
}

TEST(Constants, AreWhatArgumentsAre) {
  std::vector<Constant> all;
  for (const Primitive* p : primitives()) {
    if (!p->spec.elementwise || p->spec.samples == nullptr || p->name().starts_with("test_")) continue;
    if (p->spec.kernel == nullptr || p->spec.emit == nullptr) continue;
    std::vector<std::string> seen;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(3)) {
      std::string types;
      for (const auto& [key, value] : s.params.items())
        types += " " + std::string(key) + "=" + to_string(value);
      Tensors operands;
      bool halves = false;
      for (const Array& a : s.operands) {
        types += " " + std::string(short_name(a.dtype()));
        halves = halves || size_of(a.dtype()) == 2;
      }
      if (halves || s.operands.size() < 2 || std::find(seen.begin(), seen.end(), types) != seen.end())
        continue;
      seen.push_back(types);
      const std::int64_t size = p->name() == "pow" ? 2000 : 64;
      for (std::size_t i = 0; i < s.operands.size(); ++i)
        operands.push_back(operand(s.operands[i].dtype(), size, i));
      for (std::size_t k = 0; k < operands.size(); ++k)
        for (const double c : numbers_of(operands[k].dtype())) {
          if (p == &add_any_p && c == 0.0) continue;  // a cotangent of zero is none, whatever its sign
          all.push_back({p, s.params, operands, k});
          all.back().operands[k] = full({size}, c, operands[k].dtype()).tensor();
        }
    }
  }
  EXPECT_GT(all.size(), 1500U);
  constexpr std::size_t kTogether = 250;
  for (std::size_t i = 0; i < all.size() && !HasFailure(); i += kTogether)
    compare(std::span(all).subspan(i, std::min(kTogether, all.size() - i)));
}

// Functions that compilers know by name are those with one right result: no matter who computes it.
TEST(Constants, OnlyExactFunctionsAreKnownByName) {
  const std::vector<std::string> exact{"memcpy", "inf",  "nan",   "fma",  "fabs",      "copysign", "floor",
                                       "ceil",   "rint", "round", "fmod", "nextafter", "sqrt"};
  const std::string known = "__builtin_";
  std::size_t found = 0;
  for (const char* file :
       {"etp_math.h", "etp_scalar.h", "etp_trig.h", "etp_soft.h", "etp_fold.h", "etp_draw.h"}) {
    const std::string text = emit::kernel_text(file);
    for (std::size_t at = text.find(known); at != std::string::npos; at = text.find(known, at + 1), ++found) {
      std::size_t end = at + known.size();
      while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
      std::string name = text.substr(at + known.size(), end - at - known.size());
      if (std::find(exact.begin(), exact.end(), name) == exact.end() && name.ends_with('f')) name.pop_back();
      EXPECT_NE(std::find(exact.begin(), exact.end(), name), exact.end()) << file << ": " << known << name;
    }
  }
  EXPECT_GT(found, 100U);
}

}  // namespace
}  // namespace etrace::testing
