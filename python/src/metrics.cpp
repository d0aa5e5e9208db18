// et.metrics: scores that add up over batches.
#include "calls.h"
#include "convert.h"
#include "fields.h"

namespace etrace::python {

namespace {
Array optional(const ArrayLike& a) { return a.is_none() ? Array() : a.get(); }
metrics::Averaged averaged(const char* who, nb::handle h) {
  return Reader<metrics::Averaged>::read({who, "average"}, h);
}
using OfClasses = Metric (*)(std::int64_t, metrics::Averaged);
void per_class(nb::module_& m, const char* name, OfClasses f, const char* doc) {
  m.def(
      name,
      [name, f](std::int64_t classes, nb::handle average) { return f(classes, averaged(name, average)); },
      "classes"_a, "average"_a = "macro", doc);
}
}  // namespace

void bind_metrics(nb::module_& core) {
  nb::module_ m = core.def_submodule("_metrics",
                                     "Metrics: means over all entries of all batches, whatever the sizes of "
                                     "the batches. Entries of weight zero do "
                                     "not count. Sums are float64.");
  nb::class_<Metric>(m, "Metric",
                     "Three pure functions of arrays, which may be recorded:\n\n"
                     "    accuracy = et.metrics.accuracy()\n"
                     "    sums = accuracy.start()\n"
                     "    sums = accuracy.update(sums, logits, labels)   # for every batch\n"
                     "    float(accuracy.value(sums))")
      .def_prop_ro("name", [](const Metric& s) { return s.name(); })
      .def("start", [](const Metric& s) { return to_list(s.start()); })
      .def(
          "update",
          [](const Metric& s, Given<Arrays> sums, ArrayLike p, ArrayLike t, ArrayLike w) {
            return to_list(s.update(sums.get(), p, optional(t), optional(w)));
          },
          "sums"_a, "prediction"_a, "target"_a = nb::none(), "weight"_a = nb::none())
      .def(
          "value", [](const Metric& s, Given<Arrays> sums) { return s.value(sums.get()); }, "sums"_a,
          "NaN if nothing was counted.")
      .def(
          "__call__",
          [](const Metric& s, ArrayLike p, ArrayLike t, ArrayLike w) {
            return s.of(p, optional(t), optional(w));
          },
          "prediction"_a, "target"_a = nb::none(), "weight"_a = nb::none(), "Of one batch.")
      .def("__repr__", [](const Metric& s) { return "Metric(" + s.name() + ")"; });
  namespace k = metrics;
  m.def("accuracy", k::accuracy,
        "The largest score is that of the target. Predictions […, classes], labels […].");
  m.def("top_k", k::top_k, "k"_a, "Fewer than k scores are larger than that of the target.");
  m.def("confusion", k::confusion, "classes"_a,
        "Counts [classes, classes]: row the target, column the prediction.");
  per_class(m, "f1", k::f1, "2·P·R/(P + R); average: 'macro', 'micro', 'weighted' or 'per_class'.");
  per_class(m, "precision", k::precision, "The share of predictions that are right.");
  per_class(m, "recall", k::recall, "The share of targets that are found.");
  m.def("perplexity", k::perplexity, "e^(mean cross-entropy).");
  m.def("mean_squared_error", k::mean_squared_error, "Mean of (p − t)².");
  m.def("r2", k::r2, "1 − Σ(t − p)²/Σ(t − mean t)².");
  m.def("average", k::average, "The mean of one array, without targets.");
  m.def("firing_rate", k::firing_rate, "dt"_a = 1.0, "Spikes per second; dt in ms.");
  m.def("sparsity", k::sparsity, "The share of zeros.");
}

}  // namespace etrace::python
