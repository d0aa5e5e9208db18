// Element types. `et.float32` compares equal to "float32", numpy.float32 and numpy.dtype("float32").
#include <array>

#include "bind.h"
#include "convert.h"

namespace etrace::python {

namespace {

// The Python object for an element type; one for each, kept for as long as the process lives.
struct PyDtype {
  Dtype value;
};

constexpr std::array kAll = {Dtype::Bool, Dtype::I32,  Dtype::I64, Dtype::U32,
                             Dtype::F16,  Dtype::BF16, Dtype::F32, Dtype::F64};

std::string spelling(Dtype d) { return d == Dtype::Bool ? "bool" : std::string(name(d)); }

std::optional<Dtype> find(nb::handle h) {
  if (const PyDtype* d = nullptr; nb::try_cast(h, d) && d != nullptr) return d->value;
  if (nb::isinstance<nb::str>(h)) return dtype_from_name(nb::cast<std::string>(h));
  if (h.is(&PyFloat_Type)) return Dtype::F32;
  if (h.is(&PyLong_Type)) return Dtype::I32;
  if (h.is(&PyBool_Type)) return Dtype::Bool;
  // numpy.dtype, numpy.float32 (a class), torch.float32: by name.
  for (const char* attribute : {"name", "__name__"})
    if (nb::hasattr(h, attribute)) {
      const nb::object text = h.attr(attribute);
      if (nb::isinstance<nb::str>(text))
        if (const auto d = dtype_from_name(nb::cast<std::string>(text))) return d;
    }
  if (nb::isinstance<nb::type_object>(h) || !nb::hasattr(h, "dtype")) {
    const std::string text = text_of(h);
    if (text.starts_with("torch.")) return dtype_from_name(text.substr(6));
    return std::nullopt;
  }
  return std::nullopt;
}

// The NumPy type of the same name; bfloat16 is NumPy's only through ml_dtypes.
nb::object numpy_dtype(Dtype d) {
  if (d != Dtype::BF16) return nb::module_::import_("numpy").attr("dtype")(spelling(d));
  const nb::dict loaded = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!loaded.contains("ml_dtypes"))
    throw TypeError(
        "dtype", "NumPy has no bfloat16 of its own; convert with .astype(et.float32), or import ml_dtypes");
  return nb::module_::import_("numpy").attr("dtype")(loaded["ml_dtypes"].attr("bfloat16"));
}

}  // namespace

template <>
Dtype from_object<Dtype>(nb::handle h) {
  if (const auto d = find(h)) return *d;
  std::string known;
  for (const Dtype d : kAll) known += (known.empty() ? "" : ", ") + spelling(d);
  throw TypeError("dtype",
                  "there is no element type " + nb::cast<std::string>(nb::repr(h)) + "; there are " + known);
}

nb::object to_object(Dtype d) {
  static nb::handle objects[kAll.size()] = {};  // never released: raw handles
  nb::handle& o = objects[static_cast<std::size_t>(d)];
  if (!o.is_valid()) o = nb::cast(PyDtype{d}).release();
  return nb::borrow(o);
}

void bind_dtypes(nb::module_& m) {
  nb::class_<PyDtype>(
      m, "Dtype",
      "An element type: et.bool_, int32, int64, uint32, float16, bfloat16, float32, float64.\n\n"
      "float16 and bfloat16 are for storage: convert with `astype` to compute. Compares equal to its\n"
      "name and to NumPy's type of that name.")
      .def(
          "__init__", [](PyDtype* self, Given<Dtype> d) { new (self) PyDtype{d.get()}; }, "dtype"_a)
      .def_prop_ro("name", [](const PyDtype& d) { return spelling(d.value); })
      .def_prop_ro(
          "itemsize", [](const PyDtype& d) { return size_of(d.value); }, "Bytes of one element.")
      .def_prop_ro("is_floating", [](const PyDtype& d) { return is_floating(d.value); })
      .def_prop_ro("is_integer", [](const PyDtype& d) { return is_integer(d.value); })
      .def_prop_ro(
          "dtype", [](const PyDtype& d) { return numpy_dtype(d.value); }, "The NumPy type of that name.")
      .def_prop_ro("__numpy_dtype__", [](const PyDtype& d) { return numpy_dtype(d.value); })
      .def("__repr__",
           [](const PyDtype& d) { return "et." + (d.value == Dtype::Bool ? "bool_" : spelling(d.value)); })
      .def("__str__", [](const PyDtype& d) { return spelling(d.value); })
      .def("__hash__", [](const PyDtype& d) { return nb::hash(nb::str(spelling(d.value).c_str())); })
      .def(
          "__eq__",
          [](const PyDtype& d, nb::handle other) {
            const auto o = find(other);
            return o.has_value() && *o == d.value;
          },
          nb::arg("other").none())
      .def("__reduce__",
           [](nb::handle self) { return nb::make_tuple(self.type(), nb::make_tuple(self.attr("name"))); });
  for (const Dtype d : kAll) m.attr(d == Dtype::Bool ? "bool_" : spelling(d).c_str()) = to_object(d);
}

}  // namespace etrace::python
