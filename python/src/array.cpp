// et.Array: operators, properties, methods and the protocols by which other libraries read it.
#include <nanobind/operators.h>

#include "bind.h"
#include "convert.h"
#include "index.h"
#include "numbers.h"

namespace etrace::python {

namespace {

// --- operators -------------------------------------------------------------------------------------------

using Binary = Array (*)(const Array&, const Array&);
using Unary = Array (*)(const Array&);

// What may stand beside an array in an expression: arrays of any library and numbers; lists are refused, as
// they would hide an error. Units and quantities have operators of their own.
std::optional<Array> operand(nb::handle h) {
  PyObject* p = h.ptr();
  if (nb::isinstance<State>(h)) return to_array(h);  // which says what to write
  if (is_array(h)) return nb::cast<Array>(h);
  if (PyBool_Check(p) || PyLong_Check(p) || PyFloat_Check(p)) return to_array(h);
  if (PyUnicode_Check(p) || PyBytes_Check(p) || PyList_Check(p) || PyTuple_Check(p) || h.is_none())
    return std::nullopt;
  if (PyObject_CheckBuffer(p) || nb::hasattr(h, "__dlpack__")) return to_array(h);
  return std::nullopt;
}

Result binary(Binary f, const Array& a, nb::handle other, bool reflected) {
  const std::optional<Array> b = operand(other);
  if (!b) return nb::borrow(nb::handle(Py_NotImplemented));
  const Arrays both{a, *b};
  const LineScope line(both);
  require_fit(a, *b);
  return nb::cast(reflected ? f(*b, a) : f(a, *b));
}

struct BinaryRow {
  const char *name, *reflected;
  Binary f;
};
const BinaryRow kBinary[] = {
    {"__add__", "__radd__", add},
    {"__sub__", "__rsub__", sub},
    {"__mul__", "__rmul__", mul},
    {"__truediv__", "__rtruediv__", true_divide},
    {"__floordiv__", "__rfloordiv__", floor_divide},
    {"__mod__", "__rmod__", mod},
    {"__pow__", "__rpow__", power},
    {"__matmul__", "__rmatmul__", matmul_operator},
    {"__and__", "__rand__", logical_and},
    {"__or__", "__ror__", logical_or},
    {"__xor__", "__rxor__", logical_xor},
    {"__lshift__", "__rlshift__", shift_left},
    {"__rshift__", "__rrshift__", shift_right},
    {"__eq__", nullptr, equal_to},
    {"__ne__", nullptr, not_equal_to},
    {"__lt__", nullptr, less},
    {"__le__", nullptr, less_equal},
    {"__gt__", nullptr, greater},
    {"__ge__", nullptr, greater_equal},
};
struct UnaryRow {
  const char* name;
  Unary f;
};
const UnaryRow kUnary[] = {
    {"__neg__", neg},
    {"__pos__", [](const Array& a) { return a; }},
    {"__abs__", abs},
    {"__invert__", logical_not},
};

void bind_operators(nb::class_<Array>& c) {
  for (const BinaryRow& row : kBinary) {
    c.def(
        row.name, [f = row.f](const Array& a, nb::handle b) { return binary(f, a, b, false); },
        nb::is_operator(), nb::arg("other").none());
    if (row.reflected != nullptr)
      c.def(
          row.reflected, [f = row.f](const Array& a, nb::handle b) { return binary(f, a, b, true); },
          nb::is_operator());
  }
  for (const UnaryRow& row : kUnary)
    c.def(row.name, [f = row.f](const Array& a) {
      const LineScope line(a);
      return f(a);
    });
}

// --- numbers out -----------------------------------------------------------------------------------------

// The numbers themselves; a traced value has none, and the text says what to write instead.
Tensor numbers_of(const Array& a, const char* wanted, const char* instead) {
  if (!a.is_tracer()) return a.tensor();
  throw TypeError("array", "a traced value of type " + to_string(a.aval()) + " was used as " + wanted +
                               ": its numbers are not known while a program is recorded; " + instead);
}

Scalar one_number(const Array& a, const char* wanted, const char* instead) {
  const Tensor t = numbers_of(a, wanted, instead);
  if (t.size() != 1)
    throw ValueError("array",
                     "an array of type " + to_string(a.aval()) + " was used as " + wanted +
                         "; it has not one element (et.any and et.all make one of many truth values)");
  return t.at(0);
}

nb::object to_number(const Scalar& s) {
  if (const auto* b = std::get_if<bool>(&s)) return nb::bool_(*b);
  if (const auto* i = std::get_if<std::int64_t>(&s)) return nb::int_(*i);
  return nb::float_(std::get<double>(s));
}

nb::object numpy() { return nb::module_::import_("numpy"); }

constexpr const char* kInsteadOfNumPy = "use the functions of et in a model, and NumPy on what it returns";

// A read-only NumPy view of the numbers, which keeps them alive.
nb::object numpy_view(const Array& a) {
  const Tensor t = numbers_of(a, "a NumPy array", kInsteadOfNumPy);
  const nb::object numpy_type = nb::cast(t.dtype()).attr("dtype");
  const nb::object bytes =
      nb::cast(Array(t.dtype() == Dtype::BF16
                         ? Tensor::over({Dtype::F16, t.shape()}, t.bytes(), std::make_shared<const Tensor>(t))
                         : t));
  nb::object view = numpy().attr("asarray")(nb::steal(PyMemoryView_FromObject(bytes.ptr())));
  return t.dtype() == Dtype::BF16 ? view.attr("view")(numpy_type) : view;
}

nb::object array_protocol(const Array& a, nb::handle dtype, nb::handle copy) {
  nb::object view = numpy_view(a);
  const bool must_copy = copy.is(Py_True);
  if (!dtype.is_none()) {
    const nb::object wanted = numpy().attr("dtype")(dtype);
    if (!view.attr("dtype").equal(wanted)) {
      if (copy.is(Py_False))
        throw nb::value_error(
            "etrace: the array has another element type, and copy=False allows no conversion");
      return view.attr("astype")(wanted);
    }
  }
  return must_copy ? view.attr("copy")() : view;
}

// --- text ------------------------------------------------------------------------------------------------

std::string text(const Array& a, bool with_type) {
  if (a.is_tracer()) return "Traced<" + to_string(a.aval()) + ">";
  const Array shown = a.dtype() == Dtype::BF16 ? convert(a, Dtype::F32) : a;
  if (!with_type) return text_of(numpy_view(shown));
  auto numbers = nb::cast<std::string>(
      numpy().attr("array2string")(numpy_view(shown), "separator"_a = ", ", "prefix"_a = "Array("));
  const std::string type = a.dtype() == Dtype::Bool ? "bool" : std::string(name(a.dtype()));
  if (a.size() == 0 && a.rank() != 1)
    numbers += ", shape=" + nb::cast<std::string>(nb::repr(nb::cast(a.shape())));
  return "Array(" + numbers + ", dtype=" + type + ")";
}

// --- the buffer protocol ---------------------------------------------------------------------------------

// What an exported buffer keeps alive.
struct Export {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const Array& a = nb::cast<const Array&>(nb::handle(self));
    if (a.is_tracer()) {
      PyErr_SetString(PyExc_BufferError, "etrace: a traced value has no numbers while a program is recorded");
      return -1;
    }
    const char* format = buffer_format(a.dtype());
    if (format == nullptr) {
      PyErr_SetString(PyExc_BufferError,
                      "etrace: bfloat16 has no buffer format; convert with .astype(et.float32)");
      return -1;
    }
    if ((flags & PyBUF_WRITABLE) != 0) {
      PyErr_SetString(PyExc_BufferError, "etrace: arrays are immutable; ask for a read-only buffer");
      return -1;
    }
    auto kept = std::make_unique<Export>();
    kept->tensor = a.tensor();
    kept->shape.assign(a.shape().begin(), a.shape().end());
    for (const std::int64_t s : strides_of(a.shape()))
      kept->strides.push_back(s * static_cast<Py_ssize_t>(size_of(a.dtype())));
    view->buf = const_cast<std::byte*>(kept->tensor.bytes());
    view->len = static_cast<Py_ssize_t>(a.aval().bytes());
    view->readonly = 1;
    view->itemsize = static_cast<Py_ssize_t>(size_of(a.dtype()));
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    view->ndim = static_cast<int>(kept->shape.size());
    view->shape = (flags & PyBUF_ND) != 0 ? kept->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? kept->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = kept.release();
    view->obj = self;
    Py_INCREF(self);
    return 0;
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_BufferError, e.what());
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                        {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                        {0, nullptr}};

}  // namespace

void bind_array(nb::module_& m) {
  nb::class_<Array> c(
      m, "Array", nb::type_slots(kSlots),
      "An immutable array of numbers, or a value of a program that is being recorded.\n\n"
      "Made by et.array (copies) and et.asarray (shares the memory of NumPy where it can). Operators\n"
      "broadcast like NumPy's; a bare Python number takes the element type of what it meets.");
  c.def(
      "__init__",
      [](Array* self, ArrayLike x, Given<Dtype> dtype) {
        new (self) Array(to_owned(x.source(), dtype.optional()));
      },
      "x"_a, "dtype"_a = nb::none());
  bind_operators(c);
  bind_index(c, m);
  c.attr("__hash__") = nb::none();
  c.def_prop_ro(
       "shape", [](const Array& a) { return a.shape(); }, "Sizes along each axis.")
      .def_prop_ro(
          "ndim", [](const Array& a) { return a.rank(); }, "Number of axes.")
      .def_prop_ro(
          "size", [](const Array& a) { return a.size(); }, "Number of elements.")
      .def_prop_ro(
          "dtype", [](const Array& a) { return a.dtype(); }, "Element type.")
      .def_prop_ro("__numpy_dtype__", [](const Array& a) { return nb::cast(a.dtype()).attr("dtype"); })
      .def_prop_ro(
          "itemsize", [](const Array& a) { return size_of(a.dtype()); }, "Bytes of one element.")
      .def_prop_ro(
          "nbytes", [](const Array& a) { return a.aval().bytes(); }, "Bytes of all elements.")
      .def_prop_ro(
          "is_traced", [](const Array& a) { return a.is_tracer(); },
          "True for a value of a program that is being recorded: it has a type and no numbers.")
      .def("__repr__", [](const Array& a) { return text(a, true); })
      .def("__str__", [](const Array& a) { return text(a, false); })
      .def("__bool__",
           [](const Array& a) {
             return to_double(one_number(a, "a truth value",
                                         "use et.where or et.cond instead of if, and & | ~ instead of "
                                         "and, or, not")) != 0.0;
           })
      .def("__int__",
           [](const Array& a) {
             const Scalar v = one_number(a, "an int", "convert with .astype(et.int32)");
             return nb::int_(to_number(v));  // Python refuses NaN and infinity
           })
      .def("__float__",
           [](const Array& a) {
             return to_double(one_number(a, "a float", "convert with .astype(et.float32)"));
           })
      .def("__index__",
           [](const Array& a) {
             if (!is_integer(a.dtype()) || a.rank() != 0)
               throw TypeError("array", "an array of type " + to_string(a.aval()) +
                                            " is no index; a single integer is needed");
             return to_int(one_number(a, "an index of Python", "index an et.Array with it, or use et.scan"));
           })
      .def("__len__",
           [](const Array& a) {
             if (a.rank() == 0) throw TypeError("array", "a single number has no length");
             return a.dim(0);
           })
      .def(
          "item",
          [](const Array& a) { return to_number(one_number(a, "a number", "read results after the trace")); },
          "The only element, as a Python number.")
      .def(
          "tolist",
          [](const Array& a) {
            return numpy_view(a.dtype() == Dtype::BF16 ? convert(a, Dtype::F32) : a).attr("tolist")();
          },
          "Nested lists of Python numbers.")
      .def("numpy", &numpy_view, "A read-only NumPy view of the same memory.")
      .def("__array__", &array_protocol, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def("__deepcopy__", [](const Array& a, nb::handle) {
        return a.is_tracer() ? a : Array(Tensor::copy_of(a.aval(), a.tensor().bytes()));
      });

  m.def(
      "asarray",
      [](nb::handle x, Given<Dtype> dtype, std::optional<bool> copy) {
        if (copy && *copy) return to_owned(x, dtype.optional());
        Array a = to_array(x, dtype.optional(), copy ? Copy::Never : Copy::IfNeeded);
        return a.is_weak() ? to_owned(x, dtype.optional()) : a;
      },
      nb::arg("x").none(), "dtype"_a = nb::none(), "copy"_a = nb::none(),
      "An array of x's numbers, sharing x's memory where type and layout allow.\n\n"
      "x: et.Array, NumPy array, anything with the buffer protocol, DLPack (PyTorch, JAX) or __array__, a "
      "number,\n"
      "or nested lists. The owner of shared memory is kept alive; whoever writes to it changes the array, "
      "too.\n"
      "copy: None copies where it must, False raises BufferError instead, True always copies. Lists of "
      "Python floats\n"
      "become float32, of ints int32; integers of less than 32 bits are widened to int32.");
  m.def(
      "array", [](nb::handle x, Given<Dtype> dtype) { return to_owned(x, dtype.optional()); }, "x"_a,
      "dtype"_a = nb::none(), "An array with a copy of x's numbers; see asarray.");
}

}  // namespace etrace::python
