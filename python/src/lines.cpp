// The user's line: the innermost caller outside of the package.
#include "convert.h"

namespace etrace::python {

namespace {

// The folder of the package, with a slash behind it; files in it are not the user's.
const std::string& package_folder() {
  static const std::string* folder = [] {
    auto file = nb::cast<std::string>(nb::module_::import_("etrace._errors").attr("__file__"));
    return new std::string(file.substr(0, file.rfind('/') + 1));
  }();
  return *folder;
}

}  // namespace

Origin user_line() {
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    if (!file.starts_with(package_folder())) {
      const int line = PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr()));
      return {{}, std::move(file), line};
    }
    frame = frame.attr("f_back");
  }
  return {};
}

LineScope::LineScope(ArraySpan operands) {
  for (const Array& a : operands)
    if (a.is_tracer()) {
      scope_.emplace(user_line());
      return;
    }
}

}  // namespace etrace::python
