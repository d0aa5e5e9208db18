// A rule, an operation, a trainable operator and a backend that are none of the library's. Every test program
// has them, so that no test can lean on a list of what there is: whoever adds a row finds no test red
// elsewhere.
#include "etrace/backend.h"
#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"
#include "etrace/rules.h"

namespace etrace {
namespace {

PrimitiveSpec renamed(const Primitive& p, const char* name) {
  PrimitiveSpec spec = p.spec;
  spec.name = name;
  return spec;
}
const Primitive kOperation(renamed(tanh_p, "stranger"));
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
