// et.models: the built-in models of the command line.
#include "calls.h"
#include "convert.h"
#include "fields.h"

namespace etrace::python {

namespace {
nb::tuple made(const std::string& name, nb::handle sizes, nb::handle batch, const Given<Dtype>& dtype,
               nb::handle seed) {
  ModelOptions o;
  if (!sizes.is_none()) o.sizes = Reader<Dims>::read({name, "sizes"}, sizes);
  if (!batch.is_none()) o.batch = Reader<std::int64_t>::read({name, "batch"}, batch);
  o.dtype = dtype.get_or(Dtype::F32);
  o.seed = Reader<std::uint64_t>::read({name, "seed"}, seed);
  const ReadyModel ready = make_model(name, o);
  return nb::make_tuple(ready.module, nb::tuple(to_list(ready.example)));
}
nb::list model_rows() {
  nb::list out;
  for (const BuiltinModel& b : builtin_models())
    out.append(nb::make_tuple(std::string(b.name), std::string(b.doc), nb::cast(b.sizes)));
  return out;
}
}  // namespace

void bind_models(nb::module_& core) {
  core.def("_make_model", made, "name"_a, "sizes"_a.none(), "batch"_a.none(), "dtype"_a.none(), "seed"_a);
  core.def("_model_rows", model_rows);
}

}  // namespace etrace::python
