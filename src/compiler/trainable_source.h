// Where a trainable operand of an operator comes from: parameter leaves, and the program from them to it.
#pragma once

#include "compiler/program_index.h"
#include "etrace/graph.h"

namespace etrace {

// What a value is a function of.
enum class Provenance : std::uint8_t { Parameters, Constants, Data };

// The program from leaves to a value, put together from parts; what two parts share stands there once.
class ProcessingChain {
 public:
  void add_leaf(const Var&, const std::pair<StatePath, std::int64_t>& leaf);
  void add_constant(const Var&);
  void add(const TrainableSource& part);
  std::vector<Eqn> eqns;  // in order; further ones may be appended

  // Leaves, processing and its chain of names, with `result` as the operand.
  void store(const Atom& result, TrainableSource&) const;

 private:
  std::vector<Var> leaf_vars_, constants_;
  std::vector<std::pair<StatePath, std::int64_t>> leaves_;
  VarIds known_;
};

class SourceSearch {
 public:
  SourceSearch(const ModuleInfo& info, const ProgramIndex& index, bool compat)
      : info_(info), index_(index), compat_(compat) {}

  // False: it comes from no parameter. Fills path, leaf, chain and processing. `ambiguous` names a parameter
  // whose leaf could not be told.
  bool resolve(const Atom& operand, TrainableSource& source, std::string& ambiguous) const;

  // The exact program from parameter leaves and constants to a value, which is filled in unless the value
  // depends on the step's data or lies behind a mixing operator. Constants have no leaves.
  Provenance trace(const Var& value, TrainableSource& source) const;

 private:
  bool is_constant(const Var&) const;
  bool search_like_reference(const Var& operand, TrainableSource&, std::string& ambiguous) const;
  std::int64_t leaf_like_reference(const Var& operand, const WeightInfo&, std::string& ambiguous) const;

  const ModuleInfo& info_;
  const ProgramIndex& index_;
  bool compat_;
};

}  // namespace etrace
