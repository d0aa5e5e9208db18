#include "support/native.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "native/compile.h"

namespace etrace::testing {

void use_test_cache() {
  const std::string folder =
      std::filesystem::temp_directory_path().string() + "/etrace-tests-" + std::to_string(::geteuid());
  ::setenv("ETRACE_CACHE_DIR", folder.c_str(), 1);
}

Program as_program(const ClosedJaxpr& closed, const std::vector<Alias>& aliases) {
  Program p{"test", closed, {}, {}, aliases};
  const Avals in = closed.in_avals(), out = closed.out_avals();
  for (std::size_t i = 0; i < in.size(); ++i)
    p.arguments.push_back({"argument" + std::to_string(i), PortRole::Arg, in[i]});
  for (std::size_t i = 0; i < out.size(); ++i)
    p.results.push_back({"result" + std::to_string(i), PortRole::Result, out[i]});
  return p;
}

Tensors run_program(const Runnable& code, const Program& p, std::span<const Tensor> args) {
  // Arguments are copied: aliased ones are overwritten.
  Tensors in, out;
  for (const Tensor& t : args) in.push_back(Tensor::copy_of(t.aval(), t.bytes()));
  std::vector<const void*> arguments;
  for (const Tensor& t : in) arguments.push_back(t.bytes());
  std::vector<void*> results;
  for (const Port& r : p.results) {
    out.push_back(Tensor::uninitialized(r.aval));
    if (r.aval.bytes() != 0) std::memset(out.back().writable(), 0xa5, r.aval.bytes());
    results.push_back(out.back().writable());
  }
  for (const Alias& a : p.aliases) {
    out[a.result] = in[a.argument];
    results[a.result] = out[a.result].writable();
  }
  code.run(arguments.data(), results.data());
  return out;
}

Tensors run_native(const Program& p, std::span<const Tensor> args) {
  use_test_cache();
  return run_program(*native::compile_native(p), p, args);
}

Tensors run_interpreter(const Program& p, std::span<const Tensor> args) {
  return run_program(*find_backend("interpreter").compile(p), p, args);
}

namespace {

template <class Float, class Bits>
double ulps(const Tensor& a, const Tensor& b) {
  double worst = 0;
  const auto ordered = [](Float x) {
    Bits bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<double>(bits < 0 ? std::numeric_limits<Bits>::min() - bits : bits);
  };
  const auto xs = a.data<Float>(), ys = b.data<Float>();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (std::isnan(xs[i]) && std::isnan(ys[i])) continue;
    if (std::isnan(xs[i]) != std::isnan(ys[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::fabs(ordered(xs[i]) - ordered(ys[i])));
  }
  return worst;
}

}  // namespace

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a == b) return true;
  if (a.aval() != b.aval() || !is_floating(a.dtype())) return false;
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  const std::size_t width = size_of(a.dtype());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(a.bytes() + i * width, b.bytes() + i * width, width) != 0 &&
        !(std::isnan(x[i]) && std::isnan(y[i])))
      return false;
  return true;
}

double ulps_apart(const Tensor& a, const Tensor& b) {
  if (a == b) return 0;
  if (a.aval() == b.aval() && a.dtype() == Dtype::F32) return ulps<float, std::int32_t>(a, b);
  if (a.aval() == b.aval() && a.dtype() == Dtype::F64) return ulps<double, std::int64_t>(a, b);
  return std::numeric_limits<double>::infinity();
}

double distance(const Tensor& a, const Tensor& b) {
  if (a == b) return 0;
  if (a.aval() != b.aval()) return std::numeric_limits<double>::infinity();
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if ((std::isnan(x[i]) && std::isnan(y[i])) || x[i] == y[i]) {
      if (std::isfinite(y[i])) size += y[i] * y[i];
      continue;
    }
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(size);
}

}  // namespace etrace::testing
