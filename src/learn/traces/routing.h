// From gradients of operands to gradients of parameter leaves.
#pragma once

#include "etrace/learning_rule.h"

namespace etrace {

class GradientRouter {
 public:
  GradientRouter(const ETraceGraph&, ArraySpan params);  // both must outlive it
  // The gradient of one trainable operand: pulled back through what was done to the parameter before the
  // operator. Under compat it is added to the leaf as it is.
  void add(const TrainableSource&, const Array& gradient);
  const Arrays& result() const { return gradients_; }  // per leaf; undefined where nothing was added

 private:
  void add_to_leaf(const StatePath&, std::int64_t leaf, const Array&);
  const ETraceGraph& graph_;
  ArraySpan params_;
  std::vector<ParamLeaf> leaves_;
  Arrays gradients_;
};

}  // namespace etrace
