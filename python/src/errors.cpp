// C++ exceptions become those of etrace/_errors.py, with stage, message, module path and the user's line.
#include <exception>
#include <new>
#include <stdexcept>
#include <typeinfo>

#include "bind.h"
#include "convert.h"
#include "errors.h"

namespace etrace::python {

namespace {

// The class of the Python side for an error, by its most derived class of ours.
const char* class_of(const Error& e) {
  if (dynamic_cast<const IndexError*>(&e) != nullptr) return "IndexError";
  if (dynamic_cast<const UnitError*>(&e) != nullptr) return "UnitError";
  if (dynamic_cast<const ValueError*>(&e) != nullptr) return "ValueError";
  if (dynamic_cast<const TypeError*>(&e) != nullptr) return "TypeError";
  if (dynamic_cast<const NotSupportedError*>(&e) != nullptr) return "NotSupportedError";
  if (dynamic_cast<const CompilationError*>(&e) != nullptr) return "CompilationError";
  if (dynamic_cast<const IoError*>(&e) != nullptr) return "IoError";
  if (dynamic_cast<const InternalError*>(&e) != nullptr) return "InternalError";
  return "Error";
}

nb::object to_object(const Origin& origin, nb::handle classes) {
  nb::list module;
  for (const std::string& part : origin.module) module.append(part);
  return classes.attr("Origin")(nb::tuple(module), origin.file, origin.line);
}

void set_python_error(const Error& e) {
  const nb::object classes = nb::module_::import_("etrace._errors");
  Origin origin = e.origin();
  const Origin here = user_line();
  if (origin.module.empty()) origin.module = OriginScope::current().module;
  std::string text = e.what();
  if (origin.file.empty()) {
    origin.file = here.file;
    origin.line = here.line;
  }
  if (e.origin().module.empty() && !origin.module.empty())
    text += " (in " + to_string(Origin{origin.module, "", 0}) + ")";
  const char* name = class_of(e);
  if (name == std::string_view("InternalError"))
    text += "\nThis is a fault of etrace: please report it with the program that led to it.";
  const nb::object type = classes.attr(name);
  const nb::object error =
      type(e.message(), "stage"_a = e.stage(), "origin"_a = to_object(origin, classes), "text"_a = text);
  PyErr_SetObject(type.ptr(), error.ptr());
}

// Of another library, or of the standard one: none should come this far.
void set_unknown(const std::exception& e) {
  try {
    set_python_error(InternalError("python", std::string("an exception that is not ours: ") + e.what()));
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const Error& e) {
    try {
      set_python_error(e);
    } catch (nb::python_error& failed) {  // the error that says so is set instead
      failed.restore();
    }
  } catch (const nb::python_error&) {
    throw;  // Python's own
  } catch (const nb::builtin_exception&) {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "etrace: there is not enough memory for what was asked for");
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_MemoryError, "etrace: no memory holds as many elements as were asked for");
  } catch (const std::bad_cast&) {  // of nanobind, which says no more
    const nb::object type = nb::module_::import_("etrace._errors").attr("TypeError");
    PyErr_SetString(type.ptr(),
                    "an argument is of another kind than is wanted here, a whole number beyond 64 bits, or a "
                    "text with a lone surrogate");
  } catch (const std::exception& e) {
    set_unknown(e);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace etrace::python
