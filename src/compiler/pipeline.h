// The passes one after the other, each on what the ones before left in the graph.
#pragma once

#include "compiler/scan_descent.h"
#include "etrace/compiler.h"

#pragma GCC visibility push(default)
namespace etrace {

// Pass 3: relations, and with the option `composite` those that lead through other trainable operators.
struct FoundRelations {
  std::vector<HiddenParamOpRelation> direct, composite;
};
FoundRelations find_relations(const ModuleInfo&, const std::vector<HiddenGroup>&, Reporter&,
                              const CompileOptions&);

// Groups and relations of loops that are traced inside come after the flat ones.
class Passes {
 public:
  // Pass 1, and the loops that are traced inside.
  Passes(const Model&, const CompileOptions&, Reporter&);
  void find_groups();
  void find_relations();
  void finish();  // extends the program's outputs by what a learner needs, and perturbs it

  ETraceGraph graph;

 private:
  Reporter& reporter_;
  DescendedScans loops_;
};

// The whole compilation of a step that is traced already; the reporter may hold records of the tracing.
ETraceGraph compile_traced_step(const Model&, const CompileOptions&, Reporter);

}  // namespace etrace
#pragma GCC visibility pop
