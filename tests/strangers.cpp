// A rule, operations, a trainable operator and a backend that are none of the library's. Every test program
// has them, so that no test can lean on a list of what there is: whoever adds a row finds no test red
// elsewhere.
#include <algorithm>

#include "etrace/axes.h"
#include "etrace/backend.h"
#include "etrace/etp.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "etrace/rules.h"

namespace etrace {
namespace {

// y[b, i] = x[b, last - i]²: rows of a matrix the other way round. The one says nothing of itself but how it
// is computed, the other one what a row may say.
Kernel kernel(const KernelRequest& q) {
  const std::int64_t width = q.x(0).shape.back(),
                     rows = q.x(0).shape.size() / std::max<std::int64_t>(width, 1);
  return {.run = [=](const KernelArgs& k) {
    const auto* x = static_cast<const double*>(k.in[0]);
    auto* y = static_cast<double*>(k.out[0]);
    for (std::int64_t b = 0; b < rows; ++b)
      for (std::int64_t i = 0; i < width; ++i) {
        const double v = x[b * width + width - 1 - i];
        y[b * width + i] = v * v;
      }
  }};
}
Avals same_type(const Params&, std::span<const Aval> in) {
  if (in.size() != 1 || in[0].dtype != Dtype::F64 || in[0].shape.is_scalar())
    throw TypeError("stranger", "takes one array of float64 with an axis");
  return {in[0]};
}
template <const Primitive& P>
PrimitiveSpec turned_squares(PrimitiveSpec row) {
  row.abstract = same_type;
  row.kernel = kernel;
  row.jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
    return {rev(2.0 * x[0] * dx[0], {static_cast<std::int64_t>(x[0].rank()) - 1})};
  };
  row.batch = [](const Params&, ArraySpan x, const std::vector<bool>&, std::int64_t) -> Arrays {
    return bind_primitive(P, x);
  };
  row.samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
    return {{{Tensor::of(std::vector<double>{0.5, -1.0, 2.0, 0.25, 3.0, -0.75}, {2, 3})}, {}}};
  };
  return row;
}
extern const Primitive silent_p, speaking_p;
const Primitive silent_p{turned_squares<silent_p>({.name = "stranger", .doc = "y[b,i] = x[b,last-i]²"})};
const Primitive speaking_p{turned_squares<speaking_p>(
    {.name = "stranger_that_speaks",
     .doc = "y[b,i] = x[b,last-i]², and says so",
     .axes = [](const EmitRequest& q) { return AxisTable::aligned(q).mix(q.y().shape.rank() - 1); },
     .facts = [](const FactRequest& q) { return q.combined(Sign::Unsigned); }})};

PrimitiveSpec renamed(const Primitive& p, const char* name) {
  PrimitiveSpec spec = p.spec;
  spec.name = name;
  return spec;
}
const Primitive kOperator(renamed(etp_mm_p, "etp_stranger"));

struct StrangeRule : ConfiguredRule {
  StrangeRule() : ConfiguredRule("Stranger", ETraceAxes{.recurrence_scope = RecurrenceScope::Coupled}) {}
};
const RegisterRule kRule({.name = "Stranger",
                          .aliases = {},
                          .doc = "a rule of somebody else",
                          .expectation = LearningRule::Theory::Exact,
                          .gradient = "exact where positions of a group do not act on each other",
                          .options = {},
                          .make = [](const RuleOptions&) { return std::make_shared<StrangeRule>(); }});

class StrangeBackend final : public Backend {
 public:
  std::string_view name() const override { return "stranger"; }
  std::string_view doc() const override { return "the interpreter under another name"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    return find_backend("interpreter").compile(p);
  }
};
const StrangeBackend kBackend;
const RegisterBackend kBackendRow(kBackend);

}  // namespace
}  // namespace etrace
