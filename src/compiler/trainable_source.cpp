#include "compiler/trainable_source.h"

#include <algorithm>
#include <deque>

namespace etrace {

namespace {

std::int64_t leaf_index(const WeightInfo& w, const Var& leaf) {
  return std::find(w.invars.begin(), w.invars.end(), leaf) - w.invars.begin();
}

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

}  // namespace

void ProcessingChain::add_leaf(const Var& v, const std::pair<StatePath, std::int64_t>& leaf) {
  if (!known_.insert(v.id).second) return;
  leaf_vars_.push_back(v);
  leaves_.push_back(leaf);
}

void ProcessingChain::add_constant(const Var& v) {
  if (known_.insert(v.id).second) constants_.push_back(v);
}

void ProcessingChain::add(const TrainableSource& part) {
  for (std::size_t i = 0; i < part.leaves.size(); ++i) add_leaf(part.processing.invars[i], part.leaves[i]);
  for (const Var& v : part.processing.constvars) add_constant(v);
  for (const Eqn& e : part.processing.eqns)
    if (known_.insert(e.out[0].id).second) eqns.push_back(e);
}

void ProcessingChain::store(const Atom& result, TrainableSource& source) const {
  source.leaves = leaves_;
  if (!leaves_.empty()) {
    source.path = leaves_[0].first;
    source.leaf = leaves_[0].second;
  }
  source.processing = eqns.empty() ? Jaxpr{} : Jaxpr{constants_, leaf_vars_, eqns, {result}};
  // Names are told from the operand back to the leaf.
  std::vector<std::string> names;
  for (const Eqn& e : eqns) add_once(names, e.prim->name());
  source.processing_chain.assign(names.rbegin(), names.rend());
}

bool SourceSearch::resolve(const Atom& operand, TrainableSource& source, std::string& ambiguous) const {
  const Var* v = as_var(operand);
  if (v == nullptr) return false;
  source.var = *v;
  if (compat_ && info_.weight_of(*v) == nullptr) return search_like_reference(*v, source, ambiguous);
  return trace(*v, source) == Provenance::Parameters;
}

Provenance SourceSearch::trace(const Var& value, TrainableSource& source) const {
  std::vector<std::size_t> eqns;
  VarIds seen{value.id};
  std::deque<Var> todo{value};
  std::vector<Var> leaves, constants;
  while (!todo.empty()) {
    const Var v = todo.front();
    todo.pop_front();
    if (info_.weight_of(v) != nullptr) {
      leaves.push_back(v);
      continue;
    }
    const std::size_t* p = index_.producer(v);
    if (p == nullptr) {
      if (!is_constant(v)) return Provenance::Data;
      constants.push_back(v);
      continue;
    }
    if (is_mixing_etp(index_.eqn(*p))) return Provenance::Data;
    eqns.push_back(*p);
    for (const Atom& a : index_.eqn(*p).in)
      if (const Var* u = as_var(a); u != nullptr && seen.insert(u->id).second) todo.push_back(*u);
  }
  std::sort(eqns.begin(), eqns.end());
  eqns.erase(std::unique(eqns.begin(), eqns.end()), eqns.end());
  ProcessingChain chain;
  for (const Var& v : constants) chain.add_constant(v);
  for (const Var& leaf : leaves) {
    const WeightInfo& w = *info_.weight_of(leaf);
    chain.add_leaf(leaf, {w.path, leaf_index(w, leaf)});
  }
  for (const std::size_t i : eqns) chain.eqns.push_back(index_.eqn(i));
  chain.store(value, source);
  return leaves.empty() ? Provenance::Constants : Provenance::Parameters;
}

bool SourceSearch::is_constant(const Var& v) const {
  const auto& c = info_.jaxpr().constvars;
  return std::find(c.begin(), c.end(), v) != c.end();
}

// The reference: the first leaf that a breadth-first search meets, whatever lies on the way.
bool SourceSearch::search_like_reference(const Var& operand, TrainableSource& source,
                                         std::string& ambiguous) const {
  VarIds seen{operand.id};
  std::deque<Var> todo{operand};
  while (!todo.empty()) {
    const Var v = todo.front();
    todo.pop_front();
    if (const WeightInfo* w = info_.weight_of(v)) {
      source.path = w->path;
      source.leaf = leaf_like_reference(operand, *w, ambiguous);
      source.leaves = {{source.path, source.leaf}};
      return true;
    }
    const std::size_t* p = index_.producer(v);
    if (p == nullptr) continue;
    const Eqn& eqn = index_.eqn(*p);
    add_once(source.processing_chain, eqn.prim->name());
    for (const Atom& a : eqn.in)
      if (const Var* u = as_var(a); u != nullptr && seen.insert(u->id).second) todo.push_back(*u);
  }
  source.processing_chain.clear();
  return false;
}

std::int64_t SourceSearch::leaf_like_reference(const Var& operand, const WeightInfo& w,
                                               std::string& ambiguous) const {
  if (w.invars.size() <= 1) return 0;
  VarIds seen;
  std::vector<Var> todo{operand};
  while (!todo.empty()) {
    const Var v = todo.back();
    todo.pop_back();
    if (!seen.insert(v.id).second) continue;
    if (std::find(w.invars.begin(), w.invars.end(), v) != w.invars.end()) return leaf_index(w, v);
    if (const std::size_t* p = index_.producer(v))
      for (const Atom& a : index_.eqn(*p).in)
        if (const Var* u = as_var(a)) todo.push_back(*u);
  }
  ambiguous = to_string(w.path);
  return 0;
}

}  // namespace etrace
