// Ways of a weight into hidden states that no trace follows, while others of the same weight are traced.
// Private to compiler/.
#pragma once

#include "etrace/graph.h"

#pragma GCC visibility push(default)
namespace etrace {

struct LeftOutWay {
  std::vector<std::string> leaves;  // by name
  std::vector<StatePath> states;
  std::string why;
};

// Hidden path -> classification, as records have it.
Attr::Dict classification_attr(const HiddenParamOpRelation&);

// Says in a relation of these leaves, and in its record, what else of them is left out: no way is then "all".
void name_left_out(const std::vector<LeftOutWay>&, const std::vector<std::string>& leaves,
                   HiddenParamOpRelation&, CompilationRecord& included);

}  // namespace etrace
#pragma GCC visibility pop
