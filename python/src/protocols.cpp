// How other libraries meet an et.Array: NumPy's ufuncs, DLPack, pickle, the array API.
#include <nanobind/stl/pair.h>

#include <array>

#include "convert.h"

namespace etrace::python {

namespace {

// --- NumPy's functions -----------------------------------------------------------------------------------

// np.sin(a), np_array + a: NumPy's name of a ufunc, and ours where it is another.
struct UfuncRow {
  const char *numpy, *ours;
};
const UfuncRow kUfuncs[] = {
    {"absolute", "abs"},
    {"fabs", "abs"},
    {"rint", "round"},
    {"arcsin", "asin"},
    {"arccos", "acos"},
    {"arctan", "atan"},
    {"arcsinh", "asinh"},
    {"arccosh", "acosh"},
    {"arctanh", "atanh"},
    {"arctan2", "atan2"},
    {"true_divide", "divide"},
    {"invert", "bitwise_not"},
    {"left_shift", "shift_left"},
    {"right_shift", "shift_right"},
    {"matmul", "matmul_plain"},
    {"conjugate", "_same"},
    {"positive", "_same"},
    {"float_power", "power"},
};
const char* const kSameName[] = {
    "add",         "subtract",    "multiply",    "divide",     "floor_divide",  "remainder",   "fmod",
    "power",       "negative",    "sign",        "floor",      "ceil",          "trunc",       "exp",
    "exp2",        "expm1",       "log",         "log1p",      "log2",          "log10",       "sin",
    "cos",         "tan",         "sinh",        "cosh",       "tanh",          "sqrt",        "cbrt",
    "square",      "isfinite",    "isnan",       "isinf",      "maximum",       "minimum",     "equal",
    "not_equal",   "less",        "less_equal",  "greater",    "greater_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor",   "nextafter",
};

const char* our_name(std::string_view numpy) {
  for (const UfuncRow& row : kUfuncs)
    if (numpy == row.numpy) return row.ours;
  for (const char* name : kSameName)
    if (numpy == name) return name;
  return nullptr;
}

nb::object array_ufunc(nb::handle, nb::handle ufunc, const std::string& method, nb::args inputs,
                       nb::kwargs options) {
  const auto numpy = nb::cast<std::string>(ufunc.attr("__name__"));
  if (method != "__call__")
    throw TypeError("array", "numpy." + numpy + "." + method +
                                 " of an et.Array; use the function of et, or numpy.asarray first");
  for (auto [key, value] : options)
    if (!value.is_none())
      throw TypeError("array", "numpy." + numpy + " of an et.Array with the option '" +
                                   nb::cast<std::string>(key) +
                                   "'; use the function of et, or numpy.asarray first");
  // Objects with operators of their own are asked first: a * q of a quantity.
  for (nb::handle h : inputs)
    if (nb::hasattr(h, "__array_ufunc__") && h.attr("__array_ufunc__").is_none())
      return nb::borrow(nb::handle(Py_NotImplemented));
  const char* name = our_name(numpy);
  if (name == nullptr)
    throw TypeError(
        "array", "et has no function numpy." + numpy + "; use numpy.asarray on arrays that are not traced");
  return nb::module_::import_("etrace._core").attr(name)(*inputs);
}

// --- DLPack out ------------------------------------------------------------------------------------------

// The memory layout of dlpack.h, versions 0 and 1: what is in the capsule.
struct DlDevice {
  std::int32_t type, id;
};
struct DlDtype {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlDtype dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct Legacy {
  DlTensor tensor;
  void* context;
  void (*deleter)(Legacy*);
};
struct Versioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  DlTensor tensor;
};
constexpr std::uint64_t kReadOnly = 1, kCopied = 2;
constexpr std::int32_t kCpu = 1;

template <class Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  Dims shape, strides;
};

DlDtype dl_dtype(Dtype d) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(d));
  if (d == Dtype::Bool) return {6, 8, 1};
  if (d == Dtype::BF16) return {4, 16, 1};
  if (d == Dtype::U32) return {1, bits, 1};
  return {static_cast<std::uint8_t>(is_floating(d) ? 2 : 0), bits, 1};
}

template <class Managed>
Exported<Managed>* exported(const Tensor& t) {
  auto* e = new Exported<Managed>{{}, t, t.shape().to_dims(), strides_of(t.shape())};
  e->managed.context = e;
  e->managed.deleter = [](Managed* m) { delete static_cast<Exported<Managed>*>(m->context); };
  // A pointer that is not null, also for an array without elements: some consumers take null for an error.
  e->managed.tensor = {const_cast<std::byte*>(t.bytes()),
                       {kCpu, 0},
                       static_cast<std::int32_t>(e->shape.size()),
                       dl_dtype(t.dtype()),
                       e->shape.data(),
                       e->strides.data(),
                       0};
  return e;
}

template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // a consumer has taken it, and renamed it
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  m->deleter(m);
}

nb::object dlpack(const Array& a, nb::handle stream, nb::handle max_version, nb::handle device,
                  nb::handle copy) {
  if (!stream.is_none()) throw TypeError("array", "an array in host memory has no stream; give stream=None");
  if (!device.is_none() && nb::cast<std::pair<int, int>>(device) != std::pair(1, 0))
    throw nb::buffer_error("etrace: the array is in host memory (1, 0)");
  if (a.is_tracer())
    throw TypeError("array", "a traced value of type " + to_string(a.aval()) +
                                 " has no numbers while a program is recorded");
  Tensor t = a.tensor();
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  const bool wants_copy = !copy.is_none() && nb::cast<bool>(copy),
             forbids = !copy.is_none() && !nb::cast<bool>(copy);
  // A consumer of the old form cannot be told that the memory is read-only.
  const bool copies = wants_copy || !versioned;
  if (copies && forbids)
    throw nb::buffer_error(
        "etrace: DLPack without versions cannot say that memory is read-only, so it gets a copy; copy=False "
        "does not allow that");
  if (copies) t = Tensor::copy_of(t.aval(), t.bytes());
  if (!versioned)
    return nb::steal(PyCapsule_New(&exported<Legacy>(t)->managed, "dltensor",
                                   [](PyObject* c) { drop_capsule<Legacy>(c, "dltensor"); }));
  Versioned& v = exported<Versioned>(t)->managed;
  v.major = 1;
  v.minor = 0;
  v.flags = copies ? kCopied : kReadOnly;
  return nb::steal(PyCapsule_New(&v, "dltensor_versioned",
                                 [](PyObject* c) { drop_capsule<Versioned>(c, "dltensor_versioned"); }));
}

// --- pickle ----------------------------------------------------------------------------------------------

nb::object reduce(const Array& a) {
  if (a.is_tracer())
    throw TypeError("array", "a traced value of type " + to_string(a.aval()) +
                                 " cannot be pickled: it has no numbers yet");
  // By NumPy's array; bfloat16, which NumPy has not, by float32, which holds it.
  const Array numbers = a.dtype() == Dtype::BF16 ? convert(a, Dtype::F32) : a;
  return nb::make_tuple(nb::type<Array>(), nb::make_tuple(nb::cast(numbers).attr("numpy")(), a.dtype()));
}

}  // namespace

void bind_protocols(nb::module_& m) {
  m.def("_same", [](ArrayLike x) { return x.get(); });
  nb::class_<Array> c = nb::borrow<nb::class_<Array>>(m.attr("Array"));
  c.def("__array_ufunc__", &array_ufunc)
      .def("__reduce__", &reduce)
      .def("__dlpack__", &dlpack, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); })
      .def(
          "__array_namespace__",
          [](const Array&, nb::handle) { return nb::module_::import_("etrace.array_api"); }, nb::kw_only(),
          "api_version"_a = nb::none())
      .def_prop_ro(
          "device", [](const Array&) { return "cpu"; }, "Where the numbers are: always \"cpu\".")
      .def(
          "to_device",
          [](nb::handle self, const std::string& device, nb::handle) {
            if (device != "cpu")
              throw ValueError("array",
                               "arrays are in host memory, device \"cpu\"; a backend brings them elsewhere");
            return nb::borrow(self);
          },
          "device"_a, nb::kw_only(), "stream"_a = nb::none())
      .def("__format__", [](nb::handle self, const std::string& spec) {
        if (spec.empty()) return nb::str(self);
        return nb::str(nb::module_::import_("builtins").attr("format")(self.attr("item")(), spec));
      });
}

}  // namespace etrace::python
