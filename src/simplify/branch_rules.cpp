// Rules for cond. A branch that is known is no branch; operands that no branch reads go, uniform ones become
// literals of the branches; a result that is the same in every branch is known outside.
#include <algorithm>

#include "control/body.h"
#include "etrace/control.h"
#include "simplify/loop_rules.h"

namespace etrace {

namespace {

class CondEdit {
 public:
  CondEdit(Rewriter& rw, const Eqn& eqn) : rw_(rw), eqn_(eqn), results_(eqn.out.size()) {
    for (const JaxprPtr& b : eqn.params.jaxprs("branches")) branches_.push_back(*b);
    operands_.assign(eqn.in.begin() + 1, eqn.in.end());
    for (std::size_t k = 0; k < eqn.out.size(); ++k) outs_.push_back(k);
  }

  std::optional<std::vector<Atom>> run() {
    if (const auto index = rw_.uniform(eqn_.in[0])) return taken(to_int(index->value));
    bool changed = lift();
    changed |= tidy_operands();
    changed |= known_results();
    if (!changed) return std::nullopt;
    return rebuilt();
  }

 private:
  std::vector<Atom> taken(std::int64_t index) {
    const auto last = static_cast<std::int64_t>(branches_.size()) - 1;
    const ClosedJaxpr& branch = branches_[static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, last))];
    Renaming names;
    for (std::size_t i = 0; i < branch.consts.size(); ++i)
      names.set(branch.jaxpr.constvars[i], rw_.constant(branch.consts[i]));
    for (std::size_t i = 0; i < operands_.size(); ++i) names.set(branch.jaxpr.invars[i], operands_[i]);
    return write_body(rw_, branch.jaxpr, names);
  }

  // Constants of a branch become operands of all.
  bool lift() {
    bool changed = false;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      Invariants lifted;
      lift_constants(rw_, branches_[b], lifted);
      for (std::size_t i = 0; i < lifted.inner.size(); ++i) {
        operands_.push_back(lifted.outer[i]);
        for (std::size_t other = 0; other < branches_.size(); ++other)
          branches_[other].jaxpr.invars.push_back(other == b ? lifted.inner[i]
                                                             : fresh_var(lifted.inner[i].aval));
        changed = true;
      }
    }
    return changed;
  }

  // Every branch says what it still reads; an operand stays if one of them reads it.
  bool tidy_operands() {
    std::vector<bool> keep(operands_.size(), false);
    for (ClosedJaxpr& branch : branches_) {
      Invariants own{branch.jaxpr.invars, operands_};
      tidy(rw_, branch.jaxpr, own);
      const auto read = vars_read(branch.jaxpr);
      for (std::size_t i = 0; i < keep.size(); ++i)
        keep[i] = keep[i] || (read.contains(branch.jaxpr.invars[i].id) && !rw_.uniform(operands_[i]));
    }
    if (std::all_of(keep.begin(), keep.end(), [](bool k) { return k; })) return false;
    for (ClosedJaxpr& branch : branches_) {
      std::vector<Var> invars;
      for (std::size_t i = 0; i < keep.size(); ++i)
        if (keep[i]) invars.push_back(branch.jaxpr.invars[i]);
      branch.jaxpr.invars = std::move(invars);
    }
    std::vector<Atom> operands;
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (keep[i]) operands.push_back(operands_[i]);
    operands_ = std::move(operands);
    return true;
  }

  // The atom outside that an output of a branch stands for: an operand or a uniform array.
  std::optional<Atom> outside(const ClosedJaxpr& branch, const UniformInBody& uniform, std::size_t k) {
    const Atom& a = branch.jaxpr.outs[k];
    if (const auto value = uniform(a)) return rw_.full(aval_of(a), *value);
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (branch.jaxpr.invars[i] == std::get<Var>(a)) return operands_[i];
    return std::nullopt;
  }

  bool known_results() {
    std::vector<std::size_t> left;
    std::vector<UniformInBody> uniform;
    for (const ClosedJaxpr& b : branches_) uniform.emplace_back(b.jaxpr);
    for (const std::size_t k : outs_) {
      std::optional<Atom> same = outside(branches_[0], uniform[0], k);
      for (std::size_t b = 1; b < branches_.size() && same; ++b) {
        const auto other = outside(branches_[b], uniform[b], k);
        if (!other || !same_atom(*same, *other)) same.reset();
      }
      if (same)
        results_[k] = *same;
      else
        left.push_back(k);
    }
    const bool changed = left.size() != outs_.size();
    outs_ = std::move(left);
    return changed;
  }

  std::vector<Atom> rebuilt() {
    Attr::List programs;
    for (ClosedJaxpr& b : branches_) programs.emplace_back(share(select_outputs(std::move(b), outs_)));
    std::vector<Atom> in{eqn_.in[0]};
    in.insert(in.end(), operands_.begin(), operands_.end());
    std::vector<Atom> out;
    if (!outs_.empty())
      out = rw_.write_all(cond_p, in, eqn_.params.with("branches", Attr::list(std::move(programs))));
    for (std::size_t i = 0; i < outs_.size(); ++i) results_[outs_[i]] = out[i];
    std::vector<Atom> all;
    for (const std::optional<Atom>& r : results_) all.push_back(*r);
    return all;
  }

  Rewriter& rw_;
  const Eqn& eqn_;
  std::vector<ClosedJaxpr> branches_;
  std::vector<Atom> operands_;
  std::vector<std::size_t> outs_;             // of the branches, still needed
  std::vector<std::optional<Atom>> results_;  // known outside
};

std::optional<std::vector<Atom>> simplify_cond(Rewriter& rw, const Eqn& eqn) {
  return CondEdit(rw, eqn).run();
}

}  // namespace

void add_cond_rules(RuleTable& t) { t.add_many(cond_p, simplify_cond); }

}  // namespace etrace
