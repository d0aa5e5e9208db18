// Numbers and types as C text.
#include "etrace/emission.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "etrace/tensor.h"

namespace etrace {

std::string_view c_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::Bool:
      return "uint8_t";
    case Dtype::I32:
      return "int32_t";
    case Dtype::I64:
      return "int64_t";
    case Dtype::U32:
      return "uint32_t";
    case Dtype::F16:
    case Dtype::BF16:
      return "uint16_t";
    case Dtype::F32:
      return "float";
    default:
      return "double";
  }
}
namespace {

template <class T>
std::string float_text(double wide, const char* suffix, const char* kind) {
  const T x = static_cast<T>(wide);
  if (x != x) return fmt::format("__builtin_nan{}(\"\")", kind);
  if (std::isinf(x)) return fmt::format("{}__builtin_inf{}()", x < 0 ? "-" : "", kind);
  std::string text = fmt::format("{}", x);  // the shortest that reads back
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + suffix;
}

}  // namespace

std::string c_number(const Literal& l) {
  switch (l.dtype) {
    case Dtype::Bool:
      return to_int(l.value) != 0 ? "1" : "0";
    case Dtype::I32:
      return fmt::format("(int32_t){}", to_int(l.value));
    case Dtype::U32:
      return fmt::format("{}u", static_cast<std::uint32_t>(to_int(l.value)));
    case Dtype::I64:
      if (to_int(l.value) == std::numeric_limits<std::int64_t>::min()) return "INT64_MIN";
      return fmt::format("INT64_C({})", to_int(l.value));
    case Dtype::F32:
      return float_text<float>(to_double(l.value), "f", "f");
    default:
      return float_text<double>(to_double(l.value), "", "");
  }
}

}  // namespace etrace
