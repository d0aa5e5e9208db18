// Numbers across the border.
#include "convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "etrace/module.h"
#include "foreign.h"
#include "numbers.h"

namespace etrace::python {

namespace {

// --- Python's numbers and lists --------------------------------------------------------------------------

bool fits_i32(std::int64_t v) {
  return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
}

std::optional<Array> from_number(nb::handle source) {
  PyObject* p = source.ptr();
  if (PyBool_Check(p)) return Array(p == Py_True);
  if (PyFloat_Check(p)) return Array(PyFloat_AsDouble(p));  // numpy.float64 is one, too
  if (!PyLong_Check(p)) return std::nullopt;
  int overflow = 0;
  const std::int64_t v = PyLong_AsLongLongAndOverflow(p, &overflow);
  if (overflow != 0)
    throw ValueError("array", "the number " + text_of(source) + " does not fit into 64 bits");
  return Array(v);
}

// numpy.float64 is a Python float as well: in a formula it adapts like one.
bool is_numpy_float(nb::handle h) { return PyFloat_Check(h.ptr()) && !PyFloat_CheckExact(h.ptr()); }

// A number that stands alone has a type: float32, int32 (int64 where it must be) or bool; numpy.float64 has
// its own.
Array settled(nb::handle source, const Array& a) {
  if (!a.is_weak()) return a;
  if (is_numpy_float(source)) return full({}, *a.splat(), Dtype::F64);
  const Scalar v = *a.splat();
  const bool wide = a.dtype() == Dtype::I32 && !fits_i32(to_int(v));
  return full({}, v, wide ? Dtype::I64 : a.dtype());
}

// While a list in a list is read: RecursionError where they go too deep, as a list that holds itself does.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" while lists in lists were read as an array") != 0) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

// Lists may hold numbers, arrays, tracers and lists of them: what they hold is stacked.
Array from_list(nb::handle source, std::optional<Dtype> wanted) {
  const nb::object items = nb::steal(PySequence_Fast(source.ptr(), "a list or a tuple"));
  const auto n = static_cast<std::size_t>(nb::len(items));
  if (n == 0) return zeros({0}, wanted.value_or(Dtype::F32));
  Arrays parts;
  parts.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const nb::object item = items[i];
    const Array part = to_array(item, wanted);
    parts.push_back(is_numpy_float(item) ? settled(item, part) : part);
  }
  bool all_weak = true, wide = false;
  Dtype dtype = Dtype::Bool;
  for (const Array& p : parts) {
    if (p.shape() != parts[0].shape())
      throw ValueError("array", "a list holds parts of shapes " + to_string(parts[0].shape()) + " and " +
                                    to_string(p.shape()) + "; all must have one shape");
    all_weak &= p.is_weak();
    if (p.is_weak() && p.dtype() == Dtype::I32) wide |= !fits_i32(to_int(*p.splat()));
  }
  bool first = true;
  for (const Array& p : parts)
    if (!p.is_weak() || all_weak) {
      dtype = first ? p.dtype() : promote(dtype, p.dtype());
      first = false;
    }
  // A bare float makes integers floats, as everywhere.
  for (const Array& p : parts)
    if (p.is_weak() && !all_weak && is_floating(p.dtype()) && !is_floating(dtype)) dtype = Dtype::F32;
  if (wide && dtype == Dtype::I32) dtype = Dtype::I64;
  if (all_weak) {  // the common case, without one operation per number
    Tensor t = Tensor::uninitialized({dtype, {static_cast<std::int64_t>(n)}});
    for (std::size_t i = 0; i < n; ++i) {
      const Tensor one = Tensor::full({dtype, {}}, *parts[i].splat());
      std::memcpy(t.writable() + i * size_of(dtype), one.bytes(), size_of(dtype));
    }
    return t;
  }
  for (Array& p : parts) p = convert(p, dtype);
  return stack(parts);
}

// Lists of Python numbers alone go through NumPy, which is fast; anything else is stacked.
bool plain_numbers(nb::handle source) {
  const bool is_list = PyList_Check(source.ptr()) || PyTuple_Check(source.ptr());
  if (!is_list) return PyFloat_CheckExact(source.ptr()) || PyLong_Check(source.ptr());
  const Deeper deeper;
  const nb::object items = nb::borrow(source);
  for (nb::handle item : nb::iter(items))
    if (!plain_numbers(item)) return false;
  return true;
}

Array from_sequence(nb::handle source, std::optional<Dtype> wanted) {
  const Deeper deeper;
  if (!plain_numbers(source) || nb::len(source) == 0) return from_list(source, wanted);
  const bool narrow = wanted && (*wanted == Dtype::I32 || *wanted == Dtype::U32);
  nb::object a;
  try {
    const bool as_is = !wanted || *wanted == Dtype::BF16;
    // Whole numbers are narrowed here: NumPy before 2 takes what does not fit modulo 2^32.
    const Dtype read = narrow ? Dtype::I64 : wanted.value_or(Dtype::F32);
    a = nb::module_::import_("numpy").attr("asarray")(source,
                                                      as_is ? nb::none() : to_object(read).attr("dtype"));
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_OverflowError))
      throw ValueError("array", "a number in a list does not fit into 64 bits");
    if (!e.matches(PyExc_ValueError)) throw;
    throw ValueError("array", std::string("lists of different lengths make no array: ") + e.what());
  }
  const Array wide = to_array(a, {}, Copy::Always);
  if (narrow)
    for (const std::int64_t v : wide.tensor().data<std::int64_t>())
      if (*wanted == Dtype::I32 ? !fits_i32(v) : v < 0 || v > std::numeric_limits<std::uint32_t>::max())
        throw ValueError("array", "the number " + std::to_string(v) + " in a list does not fit into " +
                                      std::string(name(*wanted)));
  if (wanted) return convert(wide, *wanted);
  if (wide.dtype() == Dtype::F64) return convert(wide, Dtype::F32);
  if (wide.dtype() != Dtype::I64) return wide;
  for (const std::int64_t v : wide.tensor().data<std::int64_t>())
    if (!fits_i32(v)) return wide;
  return convert(wide, Dtype::I32);
}

// --- everything ------------------------------------------------------------------------------------------

Array from_anything(nb::handle source, std::optional<Dtype> wanted, Copy copy) {
  if (is_array(source)) return nb::cast<Array>(source);
  if (const auto number = from_number(source)) return *number;
  if (PyList_Check(source.ptr()) || PyTuple_Check(source.ptr())) return from_sequence(source, wanted);
  if (PyUnicode_Check(source.ptr()) || PyBytes_Check(source.ptr()) || source.is_none())
    refuse(source, "is no array; give an et.Array, a NumPy array, a number, or nested lists of numbers");
  if (nb::isinstance<State>(source)) refuse(source, "is no array; its array is its .value");
  if (nb::hasattr(source, "filled") && nb::hasattr(source, "mask"))
    refuse(source, "has a mask, which an array cannot hold; fill it first with .filled(value)");
  if (const auto t = from_buffer(source, copy)) return *t;
  if (nb::hasattr(source, "__dlpack__")) return from_dlpack(source, copy);
  if (nb::hasattr(source, "__array__")) {
    const nb::object a = nb::module_::import_("numpy").attr("asarray")(source);
    if (!a.is(source)) return from_anything(a, wanted, copy);
  }
  refuse(source, "is no array; give an et.Array, a NumPy array, a number, or nested lists of numbers");
}

}  // namespace

Array to_array(nb::handle source, std::optional<Dtype> dtype, Copy copy) {
  const Array a = from_anything(source, dtype, copy);
  if (dtype && a.is_weak()) {
    require_fit(a, full({}, 0.0, *dtype));
    return full({}, *a.splat(), *dtype);
  }
  if (!dtype || a.dtype() == *dtype) return a;
  if (copy == Copy::Never) cannot_share(source, "its element type is another");
  return convert(a, *dtype);
}

Array to_owned(nb::handle source, std::optional<Dtype> dtype) {
  const Array a = settled(source, to_array(source, dtype, Copy::Always));
  if (is_array(source) && !a.is_tracer()) return Array(Tensor::copy_of(a.aval(), a.tensor().bytes()));
  return a;
}

Array owned(const Array& a) {
  return a.is_tracer() || a.splat() || !a.tensor().foreign() ? a : Array(a.tensor().own());
}

std::string text_of(nb::handle h) {
  const nb::object text = nb::steal(PyObject_Str(h.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

bool is_array(nb::handle h) { return nb::isinstance<Array>(h); }

std::string describe(nb::handle h) {
  if (h.is_none()) return "None";
  std::string text = nb::cast<std::string>(h.type().attr("__name__"));
  if (nb::hasattr(h, "dtype")) text += " of " + text_of(h.attr("dtype"));
  const bool vowel = std::string_view("aeiouAEIO").find(text[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + text;
}

template <>
Array from_object<Array>(nb::handle h) {
  // Results of functions never share the memory of NumPy's arrays. A number that int32 does not hold is
  // int64.
  const Array a = to_array(h, {}, Copy::Always);
  const bool wide = a.is_weak() && a.dtype() == Dtype::I32 && !fits_i32(to_int(*a.splat()));
  return wide ? full({}, *a.splat(), Dtype::I64) : a;
}

template <>
Arrays from_object<Arrays>(nb::handle h) {
  if (is_array(h)) {  // the parts along its first axis
    const Array a = nb::cast<Array>(h);
    Arrays parts;
    for (std::int64_t i = 0; a.rank() > 0 && i < a.dim(0); ++i)
      parts.push_back(squeeze(slice_axis(a, 0, i, i + 1), {0}));
    if (a.rank() == 0) throw TypeError("array", "a list of arrays is needed, not a single number");
    return parts;
  }
  if (!nb::hasattr(h, "__iter__")) throw TypeError("array", "a list of arrays is needed, not " + describe(h));
  Arrays parts;
  for (nb::handle item : nb::iter(h)) parts.push_back(from_object<Array>(item));
  return parts;
}

template <>
Dims from_object<Dims>(nb::handle h) {
  auto integer = [](nb::handle item) -> std::int64_t {
    if (PyIndex_Check(item.ptr()) == 0)
      throw TypeError("array", "sizes and axes are integers, not " + describe(item));
    const nb::object number = nb::steal(PyNumber_Index(item.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    return nb::cast<std::int64_t>(number);
  };
  if (PyIndex_Check(h.ptr()) != 0 && !is_array(h)) return {integer(h)};
  if (is_array(h) && nb::cast<Array>(h).rank() == 0) return {integer(h)};
  if (!nb::hasattr(h, "__iter__"))
    throw TypeError("array", "an integer or a list of integers is needed, not " + describe(h));
  Dims dims;
  for (nb::handle item : nb::iter(h)) dims.push_back(integer(item));
  return dims;
}

template <>
Shape from_object<Shape>(nb::handle h) {
  return Shape(from_object<Dims>(h));
}

nb::object to_object(const Shape& shape) {
  nb::list dims;
  for (const std::int64_t n : shape) dims.append(n);
  return nb::tuple(dims);
}

const char* buffer_format(Dtype d) {
  switch (d) {
    case Dtype::Bool:
      return "?";
    case Dtype::I32:
      return "i";
    case Dtype::I64:
      return "l";
    case Dtype::U32:
      return "I";
    case Dtype::F16:
      return "e";
    case Dtype::BF16:
      return nullptr;
    case Dtype::F32:
      return "f";
    case Dtype::F64:
      return "d";
  }
  return nullptr;
}

}  // namespace etrace::python
