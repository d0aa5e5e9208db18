// The extension module: each subject registers itself, in this order.
#include "bind.h"
#include "etrace/version.h"

NB_MODULE(_core, m) {
  using namespace etrace::python;
  m.doc() = "The engine of etrace. Import etrace, which shows it under the names that are meant for use.";
  nb::set_leak_warnings(false);  // arrays that a user's module keeps until exit are no leak of ours
  m.attr("__version__") = etrace::version();
  bind_errors(m);
  bind_dtypes(m);
  bind_array(m);
}
