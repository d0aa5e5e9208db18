// Memory of other libraries: the buffer protocol and DLPack.
#include "foreign.h"
#include "gil.h"

#include <algorithm>
#include <cstring>

namespace etrace::python {

void refuse(nb::handle source, const std::string& why) {
  throw TypeError("array", describe(source) + " " + why);
}

void cannot_share(nb::handle source, const char* why) {
  throw nb::buffer_error(
      ("etrace: " + describe(source) + " cannot be shared without a copy: " + why).c_str());
}

namespace {

// --- who owns foreign memory -----------------------------------------------------------------------------

// Releases a Python object when the last tensor over its memory goes, from whatever thread that is.
template <class Release>
std::shared_ptr<const void> owner(Release release) {
  return {static_cast<const void*>(""), [release](const void*) mutable {
            const TakenIfThere gil;
            if (gil) release();  // else the interpreter has gone, and all memory with it
          }};
}

// --- element types of foreign memory ---------------------------------------------------------------------

// What foreign memory holds: one of our types, or an integer to be widened to int32.
struct Element {
  std::optional<Dtype> dtype;  // ours, bit by bit
  char narrow = 0;             // 'b' 'B' 'h' 'H': widened to int32
};

std::size_t bytes_of(char format) {
  switch (format) {
    case '?':
    case 'b':
    case 'B':
      return 1;
    case 'e':
    case 'h':
    case 'H':
      return 2;
    case 'f':
      return 4;
    case 'd':
      return 8;
    default:
      return 0;  // as the exporter says
  }
}

Element element_of(const Py_buffer& b) {
  const char* f = b.format == nullptr ? "B" : b.format;
  if (*f == '@' || *f == '=' || *f == '<') ++f;
  if (f[0] == '\0' || f[1] != '\0') return {};
  if (const std::size_t n = bytes_of(f[0]); n != 0 && b.itemsize != static_cast<Py_ssize_t>(n)) return {};
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

// --- the buffer protocol ---------------------------------------------------------------------------------

// A held buffer, released with the object or by the owner of a tensor over it.
struct Buffer {
  Py_buffer view{};
  bool held = false;
  std::vector<Py_ssize_t> strides;  // where the exporter gives none: row-major, as is meant then
  explicit Buffer(nb::handle source) {
    held = PyObject_GetBuffer(source.ptr(), &view, PyBUF_RECORDS_RO) == 0;
    if (!held) {
      PyErr_Clear();
      return;
    }
    if (view.ndim == 0 || view.strides != nullptr) return;
    strides.resize(static_cast<std::size_t>(view.ndim), view.itemsize);
    for (std::size_t i = strides.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * view.shape[i + 1];
  }
  ~Buffer() {
    if (held) PyBuffer_Release(&view);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::span<const Py_ssize_t> steps() const {
    if (view.strides == nullptr) return strides;
    return {view.strides, static_cast<std::size_t>(view.ndim)};
  }
  // What the protocol promises, and what an exporter may still get wrong.
  bool consistent() const {
    if (view.ndim < 0 || view.itemsize <= 0 || (view.ndim > 0 && view.shape == nullptr)) return false;
    for (int i = 0; i < view.ndim; ++i)
      if (view.shape[i] < 0) return false;
    return view.suboffsets == nullptr;
  }
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
                 {b.view.shape, n}, b.steps(), static_cast<std::size_t>(b.view.itemsize));
  return t;
}

Tensor widen(const Buffer& b, char kind) {
  const Shape shape = b.shape();
  const auto n = static_cast<std::size_t>(b.view.ndim);
  const auto item = static_cast<std::size_t>(b.view.itemsize);
  std::vector<char> bytes(static_cast<std::size_t>(shape.size()) * item);
  if (!bytes.empty())
    copy_strided(bytes.data(), static_cast<const char*>(b.view.buf), {b.view.shape, n}, b.steps(), item);
  Tensor t = Tensor::uninitialized({Dtype::I32, shape});
  auto* out = reinterpret_cast<std::int32_t*>(t.writable());
  for (std::int64_t i = 0; i < shape.size(); ++i)
    out[i] = widened(kind, bytes.data() + static_cast<std::size_t>(i) * item);
  return t;
}

// One byte each, and only 0 and 1 are truth values: whatever else the memory holds is true.
bool only_zero_and_one(const void* data, std::size_t n) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  return std::all_of(bytes, bytes + n, [](unsigned char b) { return b <= 1; });
}

Tensor with_truth_values(Tensor t) {
  if (t.dtype() != Dtype::Bool) return t;
  std::byte* const out = t.writable();
  for (std::size_t i = 0; i < t.aval().bytes(); ++i) out[i] = std::byte(out[i] != std::byte(0) ? 1 : 0);
  return t;
}

// Memory that may be shared as it is. Never for truth values that are none of ours.
bool holds_truth_values(nb::handle source, const Aval& aval, const void* data, Copy copy) {
  if (aval.dtype != Dtype::Bool || only_zero_and_one(data, aval.bytes())) return true;
  if (copy == Copy::Never) cannot_share(source, "its truth values are other bytes than 0 and 1");
  return false;
}

Tensor from_held(nb::handle source, Buffer& b, Copy copy) {
  if (!b.consistent()) refuse(source, "gives memory whose shape or elements are not described");
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
  if (copy == Copy::Always || !fits || !holds_truth_values(source, aval, b.view.buf, copy))
    return with_truth_values(packed(b, aval));
  const void* data = b.view.buf;
  return Tensor::over(aval, data, b.release_to_owner());
}

// --- DLPack ----------------------------------------------------------------------------------------------

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

// NumPy's bfloat16 (ml_dtypes) exports no buffer: its bits do.
std::optional<Tensor> from_numpy_bfloat16(nb::handle source, Copy copy) {
  if (!nb::hasattr(source, "dtype") || !nb::hasattr(source, "view")) return std::nullopt;
  if (text_of(source.attr("dtype")) != "bfloat16") return std::nullopt;
  const nb::object bits = source.attr("view")("float16");
  Buffer b(bits);
  if (!b.held) return std::nullopt;
  const Tensor t = from_held(bits, b, copy);
  return Tensor::over({Dtype::BF16, t.shape()}, t.bytes(), std::make_shared<const Tensor>(t));
}

}  // namespace

std::optional<Tensor> from_buffer(nb::handle source, Copy copy) {
  // Times of NumPy give their bytes away as numbers.
  if (nb::hasattr(source, "dtype") && nb::hasattr(source.attr("dtype"), "kind"))
    if (const std::string kind = text_of(source.attr("dtype").attr("kind")); kind == "M" || kind == "m")
      refuse(source,
             "holds times, which no array does; give numbers, for example (x / numpy.timedelta64(1, "
             "'s')).astype('float32')");
  if (PyObject_CheckBuffer(source.ptr()) == 0) return std::nullopt;
  Buffer b(source);
  if (b.held) return from_held(source, b, copy);
  return from_numpy_bfloat16(source, copy);
}

Tensor from_dlpack(nb::handle source, Copy copy) {
  // PyTorch keeps some signs beside the memory (the imaginary part of a conjugate), where DLPack loses them.
  if (nb::hasattr(source, "is_neg") && nb::hasattr(source, "resolve_neg") &&
      nb::cast<bool>(source.attr("is_neg")())) {
    if (copy == Copy::Never) cannot_share(source, "its memory holds the numbers with the other sign");
    return from_dlpack(source.attr("resolve_neg")(), copy);
  }
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
  if (copy != Copy::Always && fits && holds_truth_values(source, aval, a.data(), copy)) {
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
  return with_truth_values(std::move(t));
}

}  // namespace etrace::python
