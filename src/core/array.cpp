// The Array handle: concrete numbers, a symbolic constant, or a tracer.
#include "etrace/array.h"

#include "core/recorder.h"
#include "etrace/error.h"

namespace etrace {

namespace {
Array make(Aval aval, std::variant<Tensor, Array::Rep::Splat, Array::Rep::Tracer> value) {
  return Array(std::make_shared<const Array::Rep>(Array::Rep{aval, std::move(value)}));
}
std::shared_ptr<const Array::Rep> weak(Dtype dtype, Scalar value) {
  return std::make_shared<const Array::Rep>(Array::Rep{{dtype, {}}, Array::Rep::Splat{value, true}});
}
// A literal keeps what its element type can hold, so that equal programs print equal text.
Scalar round_to(Dtype dtype, const Scalar& value) {
  if (dtype == Dtype::Bool) return to_double(value) != 0.0;
  if (is_integer(dtype)) return to_int(value);
  if (dtype == Dtype::F64) return to_double(value);
  return Tensor::full({dtype, {}}, value).at(0);
}
}  // namespace

Array::Array(double value) : rep_(weak(Dtype::F32, value)) {}
Array::Array(float value) : rep_(weak(Dtype::F32, static_cast<double>(value))) {}
Array::Array(int value) : rep_(weak(Dtype::I32, std::int64_t{value})) {}
Array::Array(std::int64_t value) : rep_(weak(Dtype::I32, value)) {}
Array::Array(bool value) : rep_(weak(Dtype::Bool, value)) {}
Array::Array(Tensor value) {
  if (!value.defined()) throw TypeError("array", "made from an undefined tensor");
  const Aval aval = value.aval();
  rep_ = std::make_shared<const Rep>(Rep{aval, std::move(value)});
}

const Aval& Array::aval() const {
  if (!rep_) throw TypeError("array", "an undefined array was used as a value");
  return rep_->aval;
}

std::int64_t Array::dim(int axis) const {
  const int n = static_cast<int>(rank());
  if (axis < -n || axis >= n)
    throw ValueError("array", "axis " + std::to_string(axis) + " of an array of type " + to_string(aval()));
  return shape()[static_cast<std::size_t>(axis < 0 ? axis + n : axis)];
}

bool Array::is_tracer() const { return tracer_of(*this) != nullptr; }

bool Array::is_weak() const {
  const auto* s = rep_ ? std::get_if<Rep::Splat>(&rep_->value) : nullptr;
  return s != nullptr && s->weak;
}

Tensor Array::tensor() const {
  const Aval& type = aval();
  if (const auto* t = std::get_if<Tensor>(&rep_->value)) return *t;
  if (const auto* s = std::get_if<Rep::Splat>(&rep_->value)) return Tensor::full(type, s->value);
  throw TypeError(
      "array", "the numbers of a traced value of type " + to_string(type) +
                   " were asked for while the program is being recorded; use where, cond or scan instead of "
                   "C++ control flow on values, and read results after the trace");
}

std::optional<Scalar> Array::splat() const {
  if (!rep_) return std::nullopt;
  if (const auto* s = std::get_if<Rep::Splat>(&rep_->value)) return s->value;
  if (const auto* t = std::get_if<Tensor>(&rep_->value); t != nullptr && t->shape().is_scalar())
    return t->at(0);
  return std::nullopt;
}

Scalar Array::scalar_item() const {
  if (size() != 1)
    throw ValueError("array", "item() of an array of type " + to_string(aval()) + "; it has not one element");
  return tensor().at(0);
}

Array full(const Shape& shape, const Scalar& value, Dtype dtype) {
  return make({dtype, shape}, Array::Rep::Splat{round_to(dtype, value), false});
}
Array full_like(const Array& like, const Scalar& value) { return full(like.shape(), value, like.dtype()); }
Array zeros_of(const Aval& aval) { return full(aval.shape, 0.0, aval.dtype); }
Array instantiate(const Array& a, const Aval& aval) { return a.defined() ? a : zeros_of(aval); }

Array own(const Array& a) {
  const auto* t = a.defined() ? std::get_if<Tensor>(&a.rep()->value) : nullptr;
  return t != nullptr && t->foreign() ? Array(t->own()) : a;
}

Avals avals_of(ArraySpan arrays) {
  Avals out;
  out.reserve(arrays.size());
  for (const Array& a : arrays) out.push_back(a.aval());
  return out;
}

Arrays to_arrays(std::span<const Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

Tensors to_tensors(ArraySpan arrays) {
  Tensors out;
  out.reserve(arrays.size());
  for (const Array& a : arrays) out.push_back(a.tensor());
  return out;
}

}  // namespace etrace
