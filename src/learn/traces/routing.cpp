#include "learn/traces/routing.h"

#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"

namespace etrace {

GradientRouter::GradientRouter(const ETraceGraph& graph, ArraySpan params)
    : graph_(graph), params_(params), leaves_(param_leaves(graph.module_info)), gradients_(leaves_.size()) {}

void GradientRouter::add_to_leaf(const StatePath& path, std::int64_t leaf, const Array& gradient) {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].path == path && leaves_[i].leaf == leaf)
      gradients_[i] = add_cotangents(gradients_[i], gradient);
}

void GradientRouter::add(const TrainableSource& t, const Array& gradient) {
  if (graph_.options.compat == Compat::Braintrace || t.processing.eqns.empty()) {
    add_to_leaf(t.path, t.leaf, gradient);
    return;
  }
  // Through the recorded chain: leaves -> operand.
  Arrays consts, at;
  const ClosedJaxpr& program = graph_.module_info.closed_jaxpr;
  for (const Var& v : t.processing.constvars)
    for (std::size_t i = 0; i < program.consts.size(); ++i)
      if (program.jaxpr.constvars[i] == v) consts.push_back(program.consts[i]);
  for (const auto& [path, leaf] : t.leaves)
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].path == path && leaves_[i].leaf == leaf) at.push_back(params_[i]);
  const Function chain = [&](ArraySpan leaves) { return eval_jaxpr(t.processing, consts, leaves); };
  Arrays args = at;
  args.push_back(gradient);
  const Arrays out = vjp(chain)(args);
  for (std::size_t i = 0; i < t.leaves.size(); ++i)
    add_to_leaf(t.leaves[i].first, t.leaves[i].second, out[1 + i]);
}

}  // namespace etrace
