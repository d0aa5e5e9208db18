// An ETraceGraph arranged for showing: everything the text, JSON, DOT and HTML forms need and the graph does
// not say directly. Computed once; holds references into the graph. Private to compiler/.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/memory_table.h"
#include "compiler/readouts.h"
#include "compiler/scopes.h"
#include "etrace/graph.h"

namespace etrace {

// The text of a program by equation, with the names the printer gave.
struct ProgramText {
  explicit ProgramText(const Jaxpr&);
  std::string head, foot;                        // "{ lambda … let" and "in (…) }"
  std::vector<std::string> equations;            // one per equation; may span lines
  const std::string& name_of(const Var&) const;  // "?" for a Var of another program

 private:
  std::unordered_map<std::uint64_t, std::string> names_;
};

struct ExplainView {
  explicit ExplainView(const ETraceGraph&);

  struct Read {  // whose hidden state an operator's x depends on
    std::size_t group;
    bool previous;  // the value of the step before; otherwise the one just computed
  };
  struct Weight {
    const WeightInfo* info;
    std::vector<std::size_t> relations;
    std::vector<bool> leaf_learned;             // by leaf
    std::optional<DiagnosticKind> reason;       // of the exclusion; none: no trainable operator uses it
    const CompilationRecord* record = nullptr;  // that says so
    bool learned() const { return !relations.empty(); }
    std::vector<std::string> excluded_leaves() const;  // names
    std::string why() const;     // excluded: what the record says, or the reason in general
    std::string advice() const;  // excluded: what to do; may be empty
  };
  struct Relation {
    const HiddenParamOpRelation* info;
    std::optional<std::size_t>
        equation;  // position in the program; of the scan for one that is traced inside
    std::vector<Read> reads;
    RelationSlots slots;
    std::vector<std::size_t> weights;  // indices below, without repetition
    bool has_signal = true;            // else its traces stay without effect in single steps
    std::vector<std::string> keys_of(const ExplainView&, std::size_t weight) const;  // "weight", "bias"
    std::vector<std::string> leaves(const ExplainView&) const;                       // names
  };

  const ETraceGraph& graph;
  CompilationReport report;
  ProgramText program;
  std::vector<Weight> weights;                         // compiled order
  std::vector<Relation> relations;                     // as in the graph
  std::vector<std::vector<std::size_t>> relations_at;  // per equation of the program
  std::vector<RulesAlike> memory;                      // numbers of the rules, those alike together
  std::int64_t number_bytes = 4;                       // of one number of a trace
  std::string summary() const;                         // two or three sentences

  std::vector<LeakyReadout> readouts;
  std::vector<ScopeCost> scopes;  // what each scope keeps of the recurrence; empty: nothing is left out
  std::vector<const DroppedWay*> dropped() const;  // of all groups

  std::size_t num_leaves() const;   // of all parameters
  std::size_t num_learned() const;  // leaves
  // Whether the group's transition depends on the states of the step before at all. In the diagonal scope a
  // state that comes back only through a trainable product does not.
  static bool recurs(const HiddenGroup&);
  std::string recurrence(const HiddenGroup&) const;                  // in words
  std::string leaf_name(const StatePath&, std::int64_t leaf) const;  // "cell/W.bias"
  std::string source_text(const TrainableSource&) const;             // the leaves it comes from

 private:
  void mark_learned(const TrainableSource&, const std::unordered_map<std::string, std::size_t>&);
};

}  // namespace etrace
