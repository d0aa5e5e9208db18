// A GRU has three gates but two relations: the reset gate acts only through the candidate's weight.
//
// last line: len(relations) == 2
#include <iostream>

#include "etrace/compiler.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace et = etrace;

int main() {
  et::nn::GRUCell gru(3, 8);
  et::init_all_states(gru, 2);
  const et::ETraceGraph graph = et::compile_etrace_graph(gru, et::zeros({2, 3}));
  std::cout << graph.explain() << "\n";
  std::cout << "len(relations) == " << graph.hidden_param_op_relations.size() << "\n";
}
