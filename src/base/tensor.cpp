// Storage and element access of tensors.
#include "etrace/tensor.h"

#include <cmath>
#include <limits>

#include "base/memory.h"
#include "etrace/error.h"
#include "runtime/etp_math.h"

namespace etrace {

namespace {

std::byte* required(std::byte* block, const Aval& aval) {
  if (block == nullptr) out_of_memory("an array " + to_string(aval), aval.bytes());
  return block;
}

// Calls f with a typed null pointer of the storage type.
template <class F>
auto with_storage_type(Dtype t, F f) {
  switch (t) {
    case Dtype::Bool:
      return f(static_cast<bool*>(nullptr));
    case Dtype::I32:
      return f(static_cast<std::int32_t*>(nullptr));
    case Dtype::I64:
      return f(static_cast<std::int64_t*>(nullptr));
    case Dtype::U32:
      return f(static_cast<std::uint32_t*>(nullptr));
    case Dtype::F16:
    case Dtype::BF16:
      return f(static_cast<std::uint16_t*>(nullptr));
    case Dtype::F32:
      return f(static_cast<float*>(nullptr));
    case Dtype::F64:
      break;
  }
  return f(static_cast<double*>(nullptr));
}

template <class T>
T narrow(const Scalar& value, Dtype dtype) {
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    const auto f = static_cast<float>(to_double(value));
    return dtype == Dtype::F16 ? etp_f32_to_f16(f) : etp_f32_to_bf16(f);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(to_double(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return to_double(value) != 0.0;
  } else {
    return static_cast<T>(to_int(value));
  }
}

}  // namespace

double to_double(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<double>(v); }, s);
}

std::int64_t to_int(const Scalar& s) {
  if (const double* d = std::get_if<double>(&s)) {
    if (std::isnan(*d)) return 0;
    if (*d >= 9.2e18) return std::numeric_limits<std::int64_t>::max();
    if (*d <= -9.2e18) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(*d);
  }
  if (const bool* b = std::get_if<bool>(&s)) return *b ? 1 : 0;
  return std::get<std::int64_t>(s);
}

Tensor Tensor::uninitialized(const Aval& aval) {
  Tensor t;
  t.aval_ = aval;
  t.data_ = {required(allocate_block(aval.bytes()), aval), free_block};
  return t;
}

Tensor Tensor::zeros(const Aval& aval) {
  Tensor t;
  t.aval_ = aval;
  t.data_ = {required(allocate_zeros(aval.bytes()), aval),
             [bytes = aval.bytes()](std::byte* p) { free_zeros(p, bytes); }};
  return t;
}

Tensor Tensor::full(const Aval& aval, const Scalar& value) {
  // Not for -0.0, whose bits are not all zero.
  if (const double number = to_double(value); number == 0.0 && !std::signbit(number)) return zeros(aval);
  Tensor t = uninitialized(aval);
  with_storage_type(aval.dtype, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    auto* p = reinterpret_cast<T*>(t.writable());
    std::fill(p, p + aval.shape.size(), narrow<T>(value, aval.dtype));
  });
  return t;
}

Tensor Tensor::copy_of(const Aval& aval, const void* bytes) {
  Tensor t = uninitialized(aval);
  if (aval.bytes() != 0) std::memcpy(t.writable(), bytes, aval.bytes());
  return t;
}

Tensor Tensor::over(const Aval& aval, const void* data, std::shared_ptr<const void> owner) {
  if (aval.bytes() == 0) return zeros(aval);
  if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % size_of(aval.dtype) != 0)
    throw ValueError("tensor", "an array " + to_string(aval) + " over memory " +
                                   (data == nullptr ? "that is not there"
                                                    : "at an address that does not suit its elements") +
                                   "; copy it with copy_of");
  Tensor t;
  t.aval_ = aval;
  t.storage_ = Storage::Foreign;
  t.data_ = {static_cast<std::byte*>(const_cast<void*>(data)), [owner = std::move(owner)](std::byte*) {}};
  return t;
}

Tensor Tensor::part_of(const Aval& aval, const void* data, std::shared_ptr<const void> owner) {
  Tensor t = over(aval, data, std::move(owner));
  t.storage_ = Storage::Part;
  return t;
}

Shape Tensor::checked(const Shape& shape, std::size_t count) {
  if (static_cast<std::size_t>(shape.size()) != count)
    throw ValueError("tensor", std::to_string(count) + " values were given for shape " + to_string(shape) +
                                   ", which has " + std::to_string(shape.size()));
  return shape;
}

void Tensor::require(Dtype wanted) const {
  if (!defined()) throw TypeError("tensor", "an undefined tensor has no data");
  if (wanted != dtype())
    throw TypeError("tensor", "read as " + std::string(name(wanted)) + " but the tensor is " +
                                  to_string(aval_) + "; convert it first");
}

Scalar Tensor::at(std::int64_t i) const {
  if (i < 0 || i >= size())
    throw ValueError("tensor", "index " + std::to_string(i) + " of " + std::to_string(size()) + " elements");
  return with_storage_type(dtype(), [&](auto* null) -> Scalar {
    using T = std::remove_pointer_t<decltype(null)>;
    const T v = reinterpret_cast<const T*>(bytes())[i];
    if constexpr (std::is_same_v<T, std::uint16_t>)
      return static_cast<double>(dtype() == Dtype::F16 ? etp_f16_to_f32(v) : etp_bf16_to_f32(v));
    else if constexpr (std::is_same_v<T, bool>)
      return v;
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<double>(v);
    else
      return static_cast<std::int64_t>(v);
  });
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> out(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_double(at(static_cast<std::int64_t>(i)));
  return out;
}

}  // namespace etrace
