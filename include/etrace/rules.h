// The learning rules. Each is one file in src/learn/algorithms/; by name they come from make_rule()
// (etrace/learning_rule.h), and `etrace rules` lists them with their options.
#pragma once

#include "etrace/learning_rule.h"

namespace etrace {

struct ParamDimOptions {
  std::optional<Dtype> trace_dtype = {};  // f16 or bf16 halve the traffic; sums stay in the model's type
};
// One trace per parameter element and output position; Jacobians without recurrent products.
class D_RTRL : public LearningRule {
 public:
  explicit D_RTRL(const ParamDimOptions& options = {});
  std::string name() const override { return "D_RTRL"; }
  std::string describe() const override;
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<D_RTRL>(*this); }
  void configure(CompileOptions&) const override;
  Theory theory(bool carried) const override;
  std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const override;

 protected:
  ParamDimOptions options_;
};
using ParamDimVjpAlgorithm = D_RTRL;

// The same in scope `coupled`: the Jacobian's own blocks, recurrent products included.
class OSTLRecurrent : public D_RTRL {
 public:
  explicit OSTLRecurrent(const ParamDimOptions& options = {}) : D_RTRL(options) {}
  std::string name() const override { return "OSTLRecurrent"; }
  std::shared_ptr<const LearningRule> clone() const override {
    return std::make_shared<OSTLRecurrent>(*this);
  }
  void configure(CompileOptions&) const override;
  std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const override;
};

// A decay in [0, 1), or a rank r ≥ 1, which means (r-1)/(r+1).
class DecayOrRank {
 public:
  DecayOrRank(double decay);        // NOLINT: implicit on purpose
  DecayOrRank(int rank);            // NOLINT
  DecayOrRank(bool rank) = delete;  // a truth value is neither
  double decay() const { return decay_; }
  int rank() const;

 private:
  double decay_;
};
struct IODimOptions {
  DecayOrRank decay_or_rank = 0.95;                  // of the output side, and of the input side unless …
  std::optional<DecayOrRank> input_decay_or_rank{};  // … this is given
};
// The trace as a product of an input side and an output side, both low-pass filtered.
class pp_prop : public LearningRule {
 public:
  explicit pp_prop(const IODimOptions& = {});
  std::string name() const override { return "pp_prop"; }
  std::string describe() const override;
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<pp_prop>(*this); }
  Theory theory(bool carried) const override;
  std::unique_ptr<const BoundRule> bind(const ETraceGraph&) const override;
  double decay_x() const { return decay_x_; }
  double decay_f() const { return decay_f_; }

 private:
  double decay_x_, decay_f_;
};
using ES_D_RTRL = pp_prop;
using IODimVjpAlgorithm = pp_prop;

}  // namespace etrace
