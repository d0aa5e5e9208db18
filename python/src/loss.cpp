// et.loss: a prediction and a target in, one number out.
#include "calls.h"
#include "convert.h"

namespace etrace::python {

namespace {
using Loss = Array (*)(const Array&, const Array&);
void define(nb::module_& m, const char* name, Loss f, const char* second, const char* doc) {
  m.def(
      name,
      [f](ArrayLike p, ArrayLike t) {
        const Array prediction = p, target = t;
        const LineScope line(Arrays{prediction, target});
        return f(prediction, target);
      },
      nb::arg("prediction"), nb::arg(second), doc);
}
}  // namespace

void bind_loss(nb::module_& core) {
  nb::module_ m = core.def_submodule("_loss",
                                     "Losses: means over all axes, the batch included (cross_entropy and "
                                     "cosine: over all but the last). Nothing "
                                     "broadcasts: shapes that disagree are an error. Any function "
                                     "(prediction, target) -> number is a loss, too.");
  define(m, "mse", loss::mse, "target", "Mean of (p − t)².");
  define(m, "cross_entropy", loss::cross_entropy, "labels",
         "−Σ_c target_c · log softmax(logits)_c over the last axis. Labels are whole numbers of the shape of "
         "the logits\n"
         "without their last axis, or weights of the classes of the logits' shape.");
  define(m, "binary_cross_entropy", loss::binary_cross_entropy, "targets",
         "−t·log σ(x) − (1 − t)·log(1 − σ(x)), without overflow. Targets in [0, 1].");
  define(m, "cosine", loss::cosine, "target", "1 − ⟨p, t⟩ / (|p|·|t|) over the last axis.");
  m.def(
      "huber",
      [](ArrayLike p, ArrayLike t, double delta) {
        const Array prediction = p, target = t;
        const LineScope line(Arrays{prediction, target});
        return loss::huber(prediction, target, delta);
      },
      "prediction"_a, "target"_a, "delta"_a = 1.0,
      "e²/2 where |e| ≤ delta, else delta·(|e| − delta/2), with e = p − t.");
  m.def(
      "names",
      [] {
        std::vector<std::string> out;
        for (const loss::Entry& e : loss::all()) out.emplace_back(e.name);
        return out;
      },
      "The losses that command lines know by name.");
}

}  // namespace etrace::python
