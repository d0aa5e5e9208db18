// Optimisers: from gradients to new parameters.
#include "bind.h"
#include "options.h"

namespace etrace::python {

namespace {

std::shared_ptr<optim::Optimizer> made(const std::string& name, Module& model, double rate,
                                       const nb::dict& given) {
  optim::MakeOptions o;
  optim::CommonOptions common;
  const Fields fields{
      {"clip_norm", [&](nb::handle v) { common.clip_norm = number("clip_norm", v); }},
      {"clip_value", [&](nb::handle v) { common.clip_value = number("clip_value", v); }},
      {"weight_decay", [&](nb::handle v) { common.weight_decay = number("weight_decay", v); }}};
  read_fields(name.c_str(), given, fields);
  o.common = std::move(common);
  o.learning_rate = optim::Schedule(rate);
  std::shared_ptr<optim::Optimizer> out = optim::make(name, o);
  out->bind(model);
  return out;
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<optim::Optimizer>(m, "_Optimizer", "From gradients to new parameters.",
                               nb::is_weak_referenceable())
      .def(
          "update", [](optim::Optimizer& o, const ParamValues& grads) { o.update(grads); }, "grads"_a)
      .def_prop_ro("step", &optim::Optimizer::step, "Updates so far.")
      .def_prop_rw("learning_rate", &optim::Optimizer::learning_rate,
                   [](optim::Optimizer& o, double rate) { o.set_learning_rate(rate); });
  m.def("_make_optimizer", made, "name"_a, "model"_a, "learning_rate"_a, "options"_a);
}

}  // namespace etrace::python
