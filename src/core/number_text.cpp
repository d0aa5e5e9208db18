// Numbers to text and back, by std::to_chars and std::from_chars: shortest, exact, independent of the locale.
#include "core/number_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/etp_math.h"

namespace etrace {

namespace {

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
void store(T v, std::byte* p) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
void append_chars(std::string& out, T value) {
  char buffer[64];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

template <class T>
void append_finite(std::string& out, T value) {
  const std::size_t start = out.size();
  append_chars(out, value);
  if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
}

// The bits of the NaN that "nan" stands for, per width; "-nan" has the sign bit set as well.
template <class Bits>
void append_nan(std::string& out, Bits bits, Bits plain) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (std::numeric_limits<Bits>::digits - 1));
  if (bits == plain) {
    out += "nan";
  } else if (bits == (plain | kSign)) {
    out += "-nan";
  } else {
    char buffer[24];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr;
    out.append("nan(0x").append(buffer, end).append(")");
  }
}

// Of one storage type: how to see it as a number, and its plain NaN.
template <class Bits, class Float>
struct Format {
  Float (*widen)(Bits);
  Bits (*narrow)(Float);
  Bits nan;
};

template <class F>
auto with_format(Dtype t, F f) {
  switch (t) {
    case Dtype::F16:
      return f(Format<std::uint16_t, float>{
          [](std::uint16_t b) { return etp_f16_to_f32(b); },
          [](float v) { return static_cast<std::uint16_t>(etp_f32_to_f16(v)); }, 0x7e00});
    case Dtype::BF16:
      return f(Format<std::uint16_t, float>{
          [](std::uint16_t b) { return etp_bf16_to_f32(b); },
          [](float v) { return static_cast<std::uint16_t>(etp_f32_to_bf16(v)); }, 0x7fc0});
    case Dtype::F32:
      return f(Format<std::uint32_t, float>{[](std::uint32_t b) { return std::bit_cast<float>(b); },
                                            [](float v) { return std::bit_cast<std::uint32_t>(v); },
                                            0x7fc00000U});
    default:
      return f(Format<std::uint64_t, double>{[](std::uint64_t b) { return std::bit_cast<double>(b); },
                                             [](double v) { return std::bit_cast<std::uint64_t>(v); },
                                             0x7ff8000000000000ULL});
  }
}

template <class Bits, class Float>
void append_float(std::string& out, const Format<Bits, Float>& format, const std::byte* element) {
  const Bits bits = load<Bits>(element);
  const Float value = format.widen(bits);
  if (std::isnan(value)) return append_nan(out, bits, format.nan);
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  append_finite(out, value);
}

template <class T>
bool from_text(std::string_view text, T& value, int base = 10) {
  const auto* end = text.data() + text.size();
  std::from_chars_result r{};
  if constexpr (std::is_floating_point_v<T>)
    r = std::from_chars(text.data(), end, value);
  else
    r = std::from_chars(text.data(), end, value, base);
  return r.ec == std::errc{} && r.ptr == end;
}

template <class Bits, class Float>
bool read_float(std::string_view text, const Format<Bits, Float>& format, std::byte* element) {
  const bool negative = text.starts_with('-');
  const std::string_view magnitude = text.substr(negative ? 1 : 0);
  Bits bits = 0;
  if (magnitude == "nan" || magnitude == "inf") {
    bits = magnitude == "nan" ? format.nan : format.narrow(std::numeric_limits<Float>::infinity());
    if (negative) bits = static_cast<Bits>(bits | Bits{1} << (std::numeric_limits<Bits>::digits - 1));
  } else if (!negative && text.starts_with("nan(0x") && text.ends_with(')')) {
    if (!from_text(text.substr(6, text.size() - 7), bits, 16) || !std::isnan(format.widen(bits)))
      return false;
  } else {
    // from_chars has its own spellings of the special values; only digits may reach it.
    if (magnitude.empty() || magnitude[0] < '0' || magnitude[0] > '9') return false;
    Float value{};
    if (!from_text(text, value)) return false;
    bits = format.narrow(value);
    if (std::isinf(format.widen(bits))) return false;  // too large for a half-width type
  }
  store(bits, element);
  return true;
}

template <class T>
bool read_integer(std::string_view text, std::byte* element) {
  T value{};
  if (!from_text(text, value)) return false;
  store(value, element);
  return true;
}

}  // namespace

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

Scalar canonical_value(const Literal& l) {
  switch (l.dtype) {
    case Dtype::Bool:
      return to_double(l.value) != 0.0;
    case Dtype::I32:
      return std::int64_t{static_cast<std::int32_t>(to_int(l.value))};
    case Dtype::U32:
      return std::int64_t{static_cast<std::uint32_t>(to_int(l.value))};
    case Dtype::I64:
      return to_int(l.value);
    default:
      break;
  }
  const double value = to_double(l.value);
  if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  return with_format(l.dtype, [&](const auto& format) {
    return static_cast<double>(format.widen(format.narrow(static_cast<decltype(format.widen({}))>(value))));
  });
}

std::string number_text(double value) {
  std::string out;
  append_number(out, Dtype::F64, reinterpret_cast<const std::byte*>(&value));
  return out;
}

std::string number_text(const Literal& l) {
  if (is_floating(l.dtype) && std::isnan(to_double(l.value))) return "nan";
  std::string out;
  append_number(out, l.dtype, Tensor::full(l.aval(), l.value).bytes());
  return out;
}

void append_number(std::string& out, Dtype dtype, const std::byte* element) {
  switch (dtype) {
    case Dtype::Bool:
      out += std::to_integer<int>(*element) != 0 ? "true" : "false";
      return;
    case Dtype::I32:
      return append_chars(out, load<std::int32_t>(element));
    case Dtype::I64:
      return append_chars(out, load<std::int64_t>(element));
    case Dtype::U32:
      return append_chars(out, load<std::uint32_t>(element));
    default:
      with_format(dtype, [&](const auto& format) { append_float(out, format, element); });
  }
}

bool read_number(std::string_view text, Dtype dtype, std::byte* element) {
  switch (dtype) {
    case Dtype::Bool:
      store(text == "true", element);
      return text == "true" || text == "false";
    case Dtype::I32:
      return read_integer<std::int32_t>(text, element);
    case Dtype::I64:
      return read_integer<std::int64_t>(text, element);
    case Dtype::U32:
      return read_integer<std::uint32_t>(text, element);
    default:
      return with_format(dtype, [&](const auto& format) { return read_float(text, format, element); });
  }
}

std::optional<Scalar> read_scalar(std::string_view text, Dtype dtype) {
  std::byte element[8];
  if (!read_number(text, dtype, element)) return std::nullopt;
  return Tensor::copy_of({dtype, {}}, element).at(0);
}

}  // namespace etrace
