// How values of the library pass the border. Included by bind.h only.
//
// Arguments that a user can get wrong are `Given<T>`: any object is accepted, and converted inside the call,
// so that a wrong one is answered by our own text instead of a list of overloads.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/units.h"

namespace etrace::python {

// The conversions behind Given<T>; each throws TypeError or ValueError. In convert.cpp and dtypes.cpp.
template <class T>
T from_object(nb::handle);
template <>
Array from_object<Array>(nb::handle);
template <>
Dtype from_object<Dtype>(nb::handle);
template <>
Shape from_object<Shape>(nb::handle);
template <>
Dims from_object<Dims>(nb::handle);  // axes: one number or several
template <>
Arrays from_object<Arrays>(nb::handle);  // a list or tuple of arrays
template <>
Quantity from_object<Quantity>(nb::handle);
template <>
Unit from_object<Unit>(nb::handle);
template <>
Attr from_object<Attr>(nb::handle);

// Either an array or a quantity, as the operands were.
struct Result {
  nb::object value;
  Result(const Array& a) : value(nb::cast(a)) {}     // NOLINT: it is one
  Result(const Quantity& q) : value(nb::cast(q)) {}  // NOLINT
  Result(nb::object o) : value(std::move(o)) {}      // NOLINT
};

// The same for operators of quantities.
struct QuantityResult {
  nb::object value;
  QuantityResult(nb::object o) : value(std::move(o)) {}  // NOLINT
};

nb::object to_object(Dtype);
nb::object to_object(const Shape&);
nb::object to_object(const Attr&);

// An argument that is looked at inside the call.
template <class T>
class Given {
 public:
  Given() = default;
  explicit Given(nb::handle source) : source_(source) {}
  bool is_none() const { return !source_.is_valid() || source_.is_none(); }
  nb::handle source() const { return source_; }
  T get() const { return from_object<T>(source_); }
  T get_or(T fallback) const { return is_none() ? fallback : get(); }
  std::optional<T> optional() const { return is_none() ? std::nullopt : std::optional<T>(get()); }
  operator T() const { return get(); }  // NOLINT: it is one

 private:
  nb::handle source_;
};
using ArrayLike = Given<Array>;

template <class T>
struct GivenName;
template <>
struct GivenName<Array> {
  static constexpr auto Name = nb::detail::const_name("ArrayLike");
};
template <>
struct GivenName<Dtype> {
  static constexpr auto Name = nb::detail::const_name("DtypeLike");
};
template <>
struct GivenName<Shape> {
  static constexpr auto Name = nb::detail::const_name("int | Sequence[int]");
};
template <>
struct GivenName<Dims> {
  static constexpr auto Name = nb::detail::const_name("int | Sequence[int]");
};
template <>
struct GivenName<Arrays> {
  static constexpr auto Name = nb::detail::const_name("Sequence[ArrayLike]");
};
template <>
struct GivenName<Quantity> {
  static constexpr auto Name = nb::detail::const_name("ArrayLike | Quantity");
};
template <>
struct GivenName<Unit> {
  static constexpr auto Name = nb::detail::const_name("Unit");
};

}  // namespace etrace::python

namespace nanobind::detail {

template <class T>
struct type_caster<etrace::python::Given<T>> {
  using Given = etrace::python::Given<T>;
  NB_TYPE_CASTER(Given, etrace::python::GivenName<T>::Name)
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    value = Given(src);
    return true;
  }
  static handle from_cpp(const Given& g, rv_policy, cleanup_list*) noexcept { return g.source().inc_ref(); }
};

template <>
struct type_caster<etrace::python::Result> {
  static constexpr auto Name = const_name("Array");
  static handle from_cpp(const etrace::python::Result& r, rv_policy, cleanup_list*) noexcept {
    return handle(r.value).inc_ref();
  }
};

template <>
struct type_caster<etrace::python::QuantityResult> {
  static constexpr auto Name = const_name("Quantity");
  static handle from_cpp(const etrace::python::QuantityResult& r, rv_policy, cleanup_list*) noexcept {
    return handle(r.value).inc_ref();
  }
};

// Values that only go out, or come in where a list of them is expected.
template <>
struct type_caster<etrace::Dtype> {
  NB_TYPE_CASTER(etrace::Dtype, const_name("Dtype"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    try {
      value = etrace::python::from_object<etrace::Dtype>(src);
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(etrace::Dtype d, rv_policy, cleanup_list*) noexcept {
    return etrace::python::to_object(d).release();
  }
};

template <>
struct type_caster<etrace::Shape> {
  NB_TYPE_CASTER(etrace::Shape, const_name("tuple[int, ...]"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    try {
      value = etrace::python::from_object<etrace::Shape>(src);
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(const etrace::Shape& s, rv_policy, cleanup_list*) noexcept {
    return etrace::python::to_object(s).release();
  }
};

}  // namespace nanobind::detail
