// Numbers across the border.
#include "convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "numbers.h"

namespace etrace::python {

namespace {

// --- who owns foreign memory
// ---------------------------------------------------------------------------------

// Releases a Python object when the last tensor over its memory goes, from whatever thread that is.
template <class Release>
std::shared_ptr<const void> owner(Release release) {
  return {static_cast<const void*>(""), [release](const void*) mutable {
            const nb::gil_scoped_acquire gil;
            if (gil.is_valid()) release();  // else the interpreter has gone, and all memory with it
          }};
}

// --- element types of foreign memory
// ---------------------------------------------------------------------------

// What foreign memory holds: one of our types, or an integer to be widened to int32.
struct Element {
  std::optional<Dtype> dtype;  // ours, bit by bit
  char narrow = 0;             // 'b' 'B' 'h' 'H': widened to int32
};

Element element_of(const Py_buffer& b) {
  const char* f = b.format == nullptr ? "B" : b.format;
  if (*f == '@' || *f == '=' || *f == '<') ++f;
  if (f[0] == '\0' || f[1] != '\0') return {};
  switch (f[0]) {
    case '?':
      return {Dtype::Bool};
    case 'e':
      return {Dtype::F16};
    case 'f':
      return {Dtype::F32};
    case 'd':
      return {Dtype::F64};
    case 'i':
    case 'l':
    case 'q':
      if (b.itemsize == 4) return {Dtype::I32};
      if (b.itemsize == 8) return {Dtype::I64};
      return {};
    case 'I':
    case 'L':
      if (b.itemsize == 4) return {Dtype::U32};
      return {};
    case 'b':
    case 'B':
    case 'h':
    case 'H':
      return {std::nullopt, f[0]};
    default:
      return {};
  }
}

std::int32_t widened(char kind, const char* p) {
  switch (kind) {
    case 'b':
      return *reinterpret_cast<const signed char*>(p);
    case 'B':
      return *reinterpret_cast<const unsigned char*>(p);
    case 'h': {
      std::int16_t v;
      std::memcpy(&v, p, 2);
      return v;
    }
    default: {
      std::uint16_t v;
      std::memcpy(&v, p, 2);
      return v;
    }
  }
}

[[noreturn]] void refuse(nb::handle source, const std::string& why) {
  throw TypeError("array", describe(source) + " " + why);
}

// --- the buffer protocol
// -----------------------------------------------------------------------------------------

// A held buffer, released with the object or by the owner of a tensor over it.
struct Buffer {
  Py_buffer view{};
  bool held = false;
  explicit Buffer(nb::handle source) {
    held = PyObject_GetBuffer(source.ptr(), &view, PyBUF_RECORDS_RO) == 0;
    if (!held) PyErr_Clear();
  }
  ~Buffer() {
    if (held) PyBuffer_Release(&view);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Shape shape() const {
    return Shape(std::span<const std::int64_t>(reinterpret_cast<const std::int64_t*>(view.shape),
                                               static_cast<std::size_t>(view.ndim)));
  }
  std::shared_ptr<const void> release_to_owner() {
    auto* kept = new Py_buffer(view);
    held = false;
    return owner([kept] {
      PyBuffer_Release(kept);
      delete kept;
    });
  }
};

bool aligned(const void* p, std::size_t size) { return reinterpret_cast<std::uintptr_t>(p) % size == 0; }

// Copies any strides into row-major order.
void copy_strided(char* out, const char* in, std::span<const Py_ssize_t> shape,
                  std::span<const Py_ssize_t> strides, std::size_t item) {
  if (shape.empty()) {
    std::memcpy(out, in, item);
    return;
  }
  std::size_t below = item;
  for (std::size_t i = 1; i < shape.size(); ++i) below *= static_cast<std::size_t>(shape[i]);
  for (Py_ssize_t i = 0; i < shape[0]; ++i, out += below, in += strides[0])
    copy_strided(out, in, shape.subspan(1), strides.subspan(1), item);
}

Tensor packed(const Buffer& b, const Aval& aval) {
  Tensor t = Tensor::uninitialized(aval);
  const auto n = static_cast<std::size_t>(b.view.ndim);
  if (aval.bytes() != 0)
    copy_strided(reinterpret_cast<char*>(t.writable()), static_cast<const char*>(b.view.buf),
                 {b.view.shape, n}, {b.view.strides, n}, static_cast<std::size_t>(b.view.itemsize));
  return t;
}

Tensor widen(const Buffer& b, char kind) {
  const Shape shape = b.shape();
  const auto n = static_cast<std::size_t>(b.view.ndim);
  const auto item = static_cast<std::size_t>(b.view.itemsize);
  std::vector<char> bytes(static_cast<std::size_t>(shape.size()) * item);
  if (!bytes.empty())
    copy_strided(bytes.data(), static_cast<const char*>(b.view.buf), {b.view.shape, n}, {b.view.strides, n},
                 item);
  Tensor t = Tensor::uninitialized({Dtype::I32, shape});
  auto* out = reinterpret_cast<std::int32_t*>(t.writable());
  for (std::int64_t i = 0; i < shape.size(); ++i)
    out[i] = widened(kind, bytes.data() + static_cast<std::size_t>(i) * item);
  return t;
}

// Whether a tensor shares memory with its source is all that `Copy::Never` asks.
[[noreturn]] void cannot_share(nb::handle source, const char* why) {
  throw nb::buffer_error(
      ("etrace: " + describe(source) + " cannot be shared without a copy: " + why).c_str());
}

Tensor from_buffer(nb::handle source, Buffer& b, Copy copy) {
  const Element element = element_of(b.view);
  if (!element.dtype && element.narrow == 0)
    refuse(source,
           "has elements that no array holds; convert first, for example with .astype(numpy.float32)");
  if (!element.dtype) {
    if (copy == Copy::Never) cannot_share(source, "integers of less than 32 bits are widened to int32");
    return widen(b, element.narrow);
  }
  const Aval aval{*element.dtype, b.shape()};
  const bool contiguous = PyBuffer_IsContiguous(&b.view, 'C') != 0;
  const bool fits = contiguous && aligned(b.view.buf, size_of(aval.dtype)) && aval.bytes() != 0;
  if (copy == Copy::Never && !fits && aval.bytes() != 0)
    cannot_share(source,
                 contiguous ? "its elements are not aligned" : "it is not contiguous in row-major order");
  if (copy == Copy::Always || !fits) return packed(b, aval);
  const void* data = b.view.buf;
  return Tensor::over(aval, data, b.release_to_owner());
}

// --- DLPack
// ---------------------------------------------------------------------------------------------------------

Dtype from_dlpack_dtype(nb::handle source, const nb::dlpack::dtype& t) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(t.code);
  if (t.lanes == 1) {
    if (code == Code::Bool && t.bits == 8) return Dtype::Bool;
    if (code == Code::Int && t.bits == 32) return Dtype::I32;
    if (code == Code::Int && t.bits == 64) return Dtype::I64;
    if (code == Code::UInt && t.bits == 32) return Dtype::U32;
    if (code == Code::Float && t.bits == 16) return Dtype::F16;
    if (code == Code::Bfloat && t.bits == 16) return Dtype::BF16;
    if (code == Code::Float && t.bits == 32) return Dtype::F32;
    if (code == Code::Float && t.bits == 64) return Dtype::F64;
  }
  refuse(source,
         "has elements that no array holds; convert them to float32, int32 or another of our types first");
}

Tensor from_dlpack(nb::handle source, Copy copy) {
  nb::ndarray<nb::ro> a;
  if (!nb::try_cast(source, a) || !a.is_valid()) {
    PyErr_Clear();
    refuse(source,
           "gives no readable memory by DLPack; if it needs gradients, detach it first, and copy it to host "
           "memory");
  }
  if (a.device_type() != nb::device::cpu::value)
    refuse(source,
           "is not in host memory; copy to host first (.cpu() in PyTorch, jax.device_get, .get() in CuPy)");
  Dims dims(a.ndim());
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<std::int64_t>(a.shape(i));
  const Aval aval{from_dlpack_dtype(source, a.dtype()), Shape(dims)};
  std::int64_t step = 1;
  bool contiguous = true;
  for (std::size_t i = dims.size(); i-- > 0; step *= dims[i])
    contiguous &= dims[i] == 1 || a.stride(i) == step;
  const bool fits = contiguous && aval.bytes() != 0 && aligned(a.data(), size_of(aval.dtype));
  if (copy == Copy::Never && !fits && aval.bytes() != 0)
    cannot_share(source, "it is not contiguous in row-major order");
  if (copy != Copy::Always && fits) {
    auto* kept = new nb::ndarray<nb::ro>(a);
    return Tensor::over(aval, a.data(), owner([kept] { delete kept; }));
  }
  Tensor t = Tensor::uninitialized(aval);
  if (aval.bytes() != 0) {
    std::vector<Py_ssize_t> shape(dims.begin(), dims.end()), strides(dims.size());
    const std::size_t item = size_of(aval.dtype);
    for (std::size_t i = 0; i < dims.size(); ++i)
      strides[i] = static_cast<Py_ssize_t>(a.stride(i)) * static_cast<Py_ssize_t>(item);
    copy_strided(reinterpret_cast<char*>(t.writable()), static_cast<const char*>(a.data()), shape, strides,
                 item);
  }
  return t;
}

// --- Python's numbers and lists
// ----------------------------------------------------------------------------------------

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
  const nb::object items = nb::borrow(source);
  for (nb::handle item : nb::iter(items))
    if (!plain_numbers(item)) return false;
  return true;
}

Array from_sequence(nb::handle source, std::optional<Dtype> wanted) {
  if (!plain_numbers(source) || nb::len(source) == 0) return from_list(source, wanted);
  nb::object a;
  try {
    const bool as_is = !wanted || *wanted == Dtype::BF16;
    a = nb::module_::import_("numpy").attr("asarray")(source,
                                                      as_is ? nb::none() : to_object(*wanted).attr("dtype"));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ValueError)) throw;
    throw ValueError("array", std::string("lists of different lengths make no array: ") + e.what());
  }
  const Array wide = to_array(a, {}, Copy::Always);
  if (wanted) return convert(wide, *wanted);
  if (wide.dtype() == Dtype::F64) return convert(wide, Dtype::F32);
  if (wide.dtype() != Dtype::I64) return wide;
  for (const std::int64_t v : wide.tensor().data<std::int64_t>())
    if (!fits_i32(v)) return wide;
  return convert(wide, Dtype::I32);
}

// --- everything
// ------------------------------------------------------------------------------------------------------------

bool has_memory(nb::handle source) { return PyObject_CheckBuffer(source.ptr()) != 0; }

// NumPy's bfloat16 (ml_dtypes) exports no buffer: its bits do.
std::optional<Tensor> from_numpy_bfloat16(nb::handle source, Copy copy) {
  if (!nb::hasattr(source, "dtype") || !nb::hasattr(source, "view")) return std::nullopt;
  if (text_of(source.attr("dtype")) != "bfloat16") return std::nullopt;
  const nb::object bits = source.attr("view")("float16");
  Buffer b(bits);
  if (!b.held) return std::nullopt;
  const Tensor t = from_buffer(bits, b, copy);
  return Tensor::over({Dtype::BF16, t.shape()}, t.bytes(), std::make_shared<const Tensor>(t));
}

Array from_anything(nb::handle source, std::optional<Dtype> wanted, Copy copy) {
  if (is_array(source)) return nb::cast<Array>(source);
  if (const auto number = from_number(source)) return *number;
  if (PyList_Check(source.ptr()) || PyTuple_Check(source.ptr())) return from_sequence(source, wanted);
  if (PyUnicode_Check(source.ptr()) || PyBytes_Check(source.ptr()) || source.is_none())
    refuse(source, "is no array; give an et.Array, a NumPy array, a number, or nested lists of numbers");
  if (has_memory(source)) {
    Buffer b(source);
    if (b.held) return from_buffer(source, b, copy);
    if (const auto t = from_numpy_bfloat16(source, copy)) return *t;
  }
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
  return to_array(h, {}, Copy::Always);  // results of functions never share the memory of NumPy's arrays
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
  for (nb::handle item : nb::iter(h)) parts.push_back(to_array(item, {}, Copy::Always));
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
