// What the compiler finds in a model: which weight is learned online, which is not, and why.
#include <etrace/etrace.h>

#include <cstdio>

namespace et = etrace;

struct GruNet : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 3, 8);
  et::nn::Linear& out = child<et::nn::Linear>("out", 8, 1);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

int main() {
  GruNet model;
  et::init_all_states(model);
  const et::ETraceGraph graph = et::compile_etrace_graph(model, et::zeros({3}));

  // For a reader.
  std::printf("%s\n", graph.explain().c_str());

  // For a program: the reset gate acts only through another weight, and the readout reaches no hidden state.
  const et::CompilationReport report(graph);
  for (const auto& weight : report.etrace_weights) std::printf("learned online: %s\n", weight.name.c_str());
  for (const auto& weight : report.excluded_weights)
    std::printf("own step only: %s because %s\n", weight.name.c_str(),
                std::string(et::name(*weight.reason)).c_str());
}
