#include "optim/pieces.h"

#include <algorithm>
#include <cstring>

#include "etrace/ops/numpy.h"

namespace etrace::optim {

namespace {

constexpr std::int64_t kPiece = 1 << 16;     // elements; some twenty values of it fit a cache
constexpr std::int64_t kWorth = 4 * kPiece;  // of an array: below, the look at the program costs too much

Avals with_shape(ArraySpan x, const Shape& shape) {
  Avals out;
  for (const Array& a : x) out.push_back({a.dtype(), shape});
  return out;
}

// Every equation is elementwise, works on scalars, or spreads a scalar.
bool is_elementwise(const Function& f, ArraySpan x) {
  const ClosedJaxpr program = make_jaxpr(f, with_shape(x, {2}));
  if (std::any_of(program.consts.begin(), program.consts.end(),
                  [](const Tensor& c) { return !c.shape().is_scalar(); }))
    return false;
  const auto is_scalar = [](const Atom& a) { return aval_of(a).shape.is_scalar(); };
  return std::all_of(program.jaxpr.eqns.begin(), program.jaxpr.eqns.end(), [&](const Eqn& e) {
    return e.prim->spec.elementwise || std::all_of(e.in.begin(), e.in.end(), is_scalar);
  });
}

Array piece_of(const Array& a, std::int64_t begin, std::int64_t n) {
  if (const auto value = a.splat()) return full({n}, *value, a.dtype());
  const Tensor all = a.tensor();
  const auto width = static_cast<std::int64_t>(size_of(all.dtype()));
  return Tensor::copy_of({all.dtype(), {n}}, all.bytes() + begin * width);
}

}  // namespace

Arrays by_pieces(const Function& f, ArraySpan x) {
  const std::int64_t size = x[0].size();
  if (size < kWorth || !is_elementwise(f, x)) return f(x);
  Tensors out;
  for (std::int64_t begin = 0; begin < size; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, size - begin);
    Arrays pieces;
    for (const Array& a : x) pieces.push_back(piece_of(a, begin, n));
    const Arrays results = f(pieces);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (begin == 0) out.push_back(Tensor::uninitialized({results[i].dtype(), x[0].shape()}));
      const Tensor part = results[i].tensor();
      std::memcpy(out[i].writable() + static_cast<std::size_t>(begin) * size_of(part.dtype()), part.bytes(),
                  part.aval().bytes());
    }
  }
  return to_arrays(out);
}

}  // namespace etrace::optim
