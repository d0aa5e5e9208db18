#include "emit/c_text.h"

#include <fmt/format.h>

#include "emit/kernel_text.h"
#include "emit/names.h"
#include "etrace/emission.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

// etp_math.h up to its functions of arrays, which emitted loops do not call.
std::string scalar_math() {
  const std::string all = kernel_text("etp_math.h");
  const std::size_t arrays = all.find("#ifndef ETP_SCALARS_ALONE");
  ETRACE_CHECK(arrays != std::string::npos);
  return all.substr(0, arrays) + "#endif /* ETP_MATH_H */\n";
}

std::string number_of(const Tensor& x, std::int64_t i) {
  if (x.dtype() != Dtype::F16 && x.dtype() != Dtype::BF16) return c_number({x.dtype(), x.at(i)});
  return std::to_string(reinterpret_cast<const std::uint16_t*>(x.bytes())[i]);
}

}  // namespace

std::string headers(const std::string& functions, const Target& t) {
  const Words words(functions);
  const auto uses = [&](const char* start) { return words.has_from(start); };
  const bool host = t.memory == Target::Host;
  std::string out = host ? kernel_text("etp_abi.h") + kernel_text("etp_descriptors.h")
                         : kernel_text("etp_standard.h") + kernel_text("etp_soft.h");
  out += kernel_text("etp_scalar.h");
  if (uses("etp_sin_") || uses("etp_cos_")) out += kernel_text("etp_trig.h");
  if (uses("etp_")) out += host ? kernel_text("etp_math.h") : scalar_math();
  if (uses("etp_fold_")) out += kernel_text("etp_fold.h") + kernel_text("etp_fold_types.h");
  if (uses("etp_mark_")) out += kernel_text("etp_mark.h");
  if (uses("etp_random")) out += kernel_text("etp_rng.h") + kernel_text("etp_draw.h");
  out += kernel_text("etp_rounded.h") + (t.most_parts > 1 ? kernel_text("etp_parts.h") : "");
  return host ? out : without(std::move(out), "#include <math.h>\n");  // which not every device has
}

std::vector<std::string> library_calls(const std::string& functions) {
  constexpr const char* names[] = {"tan",   "asin",  "acos",   "atan",    "sinh", "cosh",
                                   "asinh", "acosh", "atanh",  "erf",     "erfc", "cbrt",
                                   "atan2", "pow",   "lgamma", "digamma", "rem",  "nextafter"};
  const Words words(functions);
  std::vector<std::string> out;
  for (const char* name : names)
    if (words.has_from(fmt::format("etp_{}_f", name))) out.emplace_back(name);
  return out;
}

std::string constant_text(const std::string& name, const Tensor& x) {
  std::string out = fmt::format("static const {} {}[{}] = {{", c_type(x.dtype()), name,
                                std::max<std::int64_t>(1, x.size()));
  for (std::int64_t i = 0; i < x.size(); ++i)
    out += (i == 0 ? "" : i % 8 == 0 ? ",\n    " : ", ") + number_of(x, i);
  return out + (x.size() == 0 ? "0};\n" : "};\n");
}

}  // namespace etrace::emit
