// The extension module. Each subject is a file with one function `bind_<subject>`, called in this order.
#include "bind.h"
#include "etrace/version.h"

#define ETRACE_SUBJECTS(X) \
  X(errors)                \
  X(dtypes)                \
  X(array)                 \
  X(protocols)             \
  X(units)                 \
  X(elementwise)           \
  X(reductions)            \
  X(shapes)                \
  X(creation)              \
  X(products)              \
  X(random)                \
  X(control)               \
  X(operators)             \
  X(custom_operator)       \
  X(host)                  \
  X(states)                \
  X(modules)               \
  X(params)                \
  X(rules)                 \
  X(python_rules)          \
  X(optimizers)            \
  X(graphs)                \
  X(learners)              \
  X(files)                 \
  X(layers)                \
  X(nn_init)               \
  X(nn_surrogate)          \
  X(nn_functions)          \
  X(nn_linear)             \
  X(nn_conv)               \
  X(nn_norm)               \
  X(nn_activation)         \
  X(nn_cells)              \
  X(nn_neurons)            \
  X(nn_synapses)           \
  X(loss)                  \
  X(metrics)               \
  X(tasks)                 \
  X(models)                \
  X(training)              \
  X(data)                  \
  X(imported)

namespace etrace::python {
#define ETRACE_DECLARE(subject) void bind_##subject(nb::module_&);
ETRACE_SUBJECTS(ETRACE_DECLARE)
#undef ETRACE_DECLARE
}  // namespace etrace::python

NB_MODULE(_core, m) {
  using namespace etrace::python;
  m.doc() = "The engine of etrace. Import etrace, which shows it under the names that are meant for use.";
  nb::set_leak_warnings(false);  // arrays that a user's module keeps until exit are no leak of ours
  m.attr("__version__") = etrace::version();
#define ETRACE_CALL(subject) bind_##subject(m);
  ETRACE_SUBJECTS(ETRACE_CALL)
#undef ETRACE_CALL
}
