// A dense, row-major, immutable block of numbers. Copies share the data.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "etrace/aval.h"

#pragma GCC visibility push(default)
namespace etrace {

template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return Dtype::Bool;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Dtype::I32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Dtype::I64;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return Dtype::U32;
  else if constexpr (std::is_same_v<T, float>)
    return Dtype::F32;
  else {
    static_assert(std::is_same_v<T, double>, "not an element type");
    return Dtype::F64;
  }
}

// One number of any element type. Floats of every width are held as double, integers as int64.
using Scalar = std::variant<bool, std::int64_t, double>;
double to_double(const Scalar&);
std::int64_t to_int(const Scalar&);

class Tensor {
 public:
  Tensor() = default;

  static Tensor zeros(const Aval&);
  static Tensor full(const Aval&, const Scalar&);
  static Tensor copy_of(const Aval&, const void* bytes);  // copies aval.bytes()
  // Storage to be filled once by its creator, before anyone else holds a copy.
  static Tensor uninitialized(const Aval&);
  std::byte* writable() { return data_.get(); }
  // Memory of somebody else: row-major, aval.bytes() at an address that is a multiple of the element's size
  // (ValueError otherwise). `owner` is held for as long as the tensor lives; without one the memory must
  // outlive every copy of it. Its numbers may change under us: what is kept (states, parameters, constants of
  // programs) is copied.
  static Tensor over(const Aval&, const void* data, std::shared_ptr<const void> owner = {});
  // The same for memory that nobody writes as long as `owner` lives.
  static Tensor part_of(const Aval&, const void* data, std::shared_ptr<const void> owner);
  bool foreign() const { return storage_ == Storage::Foreign; }  // somebody else may write it
  Tensor own() const { return foreign() ? copy_of(aval_, bytes()) : *this; }

  template <class T>
  static Tensor of(std::span<const T> values, const Shape& shape) {
    return copy_of({dtype_of<T>(), checked(shape, values.size())}, values.data());
  }
  template <class T>
  static Tensor of(const std::vector<T>& values, const Shape& shape) {
    return of(std::span<const T>(values), shape);
  }

  bool defined() const { return data_ != nullptr; }
  // The only holder of its data, which may then be written in place through writable().
  bool unique() const { return data_.use_count() == 1 && storage_ == Storage::Own; }
  const Aval& aval() const { return aval_; }
  const Shape& shape() const { return aval_.shape; }
  Dtype dtype() const { return aval_.dtype; }
  std::int64_t size() const { return aval_.shape.size(); }
  const std::byte* bytes() const { return data_.get(); }

  template <class T>
  std::span<const T> data() const {  // TypeError if T is not the element type
    require(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(size())};
  }
  Scalar at(std::int64_t flat_index) const;  // any element type, widened
  std::vector<double> to_doubles() const;    // every element, widened

  // Same type, shape and bits (so NaN equals itself).
  friend bool operator==(const Tensor& a, const Tensor& b) {
    if (a.aval_ != b.aval_ || a.defined() != b.defined()) return false;
    return a.data_ == b.data_ || std::memcmp(a.bytes(), b.bytes(), a.aval_.bytes()) == 0;
  }

 private:
  static Shape checked(const Shape&, std::size_t count);  // ValueError if the count disagrees
  void require(Dtype) const;

  Aval aval_;
  // Aligned to 64 bytes or, if it is somebody else's, to the element: no kernel counts on more.
  std::shared_ptr<std::byte[]> data_;
  enum class Storage : std::uint8_t { Own, Part, Foreign };
  Storage storage_ = Storage::Own;
};
using Tensors = std::vector<Tensor>;

}  // namespace etrace
#pragma GCC visibility pop
