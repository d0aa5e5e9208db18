// The compiler's four passes on a two-layer vanilla RNN with a linear readout, 10 -> 32 -> 16 -> 5, one after
// the other.
//
// last line: 2 groups, 2 relations
#include <iostream>

#include "etrace/compiler.h"
#include "etrace/etp.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"

namespace et = etrace;

struct TwoLayerRNN : et::Module {
  et::nn::ValinaRNNCell& rnn1 = child<et::nn::ValinaRNNCell>("rnn1", 10, 32);
  et::nn::ValinaRNNCell& rnn2 = child<et::nn::ValinaRNNCell>("rnn2", 32, 16);
  et::nn::Linear& out = child<et::nn::Linear>("out", 16, 5);
  et::Array update(const et::Array& x) override { return out(rnn2(rnn1(x))); }
};

int main() {
  TwoLayerRNN model;
  et::init_all_states(model);
  const et::Arrays example{et::zeros({10})};
  et::Reporter reporter;

  std::cout << "1. The traced step\n";
  const et::ModuleInfo minfo = et::extract_module_info(model, example, reporter);
#ifdef ETRACE_REFERENCE_DIR
  // The same model traced by JAX and imported from its file: 10 equations instead of 9. There relu is one
  // call with a derivative of its own, here two operations, and every product is multiplied by one. What
  // follows is the same for both.
  et::Reporter imported_records;
  const et::Model imported =
      et::read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/struct_TwoLayerRNN_10_32_16_5.json");
  const et::ModuleInfo jax = et::extract_module_info(imported, imported_records);
  std::cout << "imported from JAX: " << jax.jaxpr().eqns.size() << " equations\n";
  for (const et::Eqn& eqn : jax.jaxpr().eqns)
    std::cout << (et::is_etp(*eqn.prim) ? "  * " : "    ") << eqn.prim->name() << " -> "
              << et::to_string(eqn.out[0].aval) << "\n";
  std::cout << "traced here:\n";
#endif
  std::cout << "equations: " << minfo.jaxpr().eqns.size()
            << ", states: " << minfo.compiled_model_states.size() << ", hidden: " << minfo.hidden.size()
            << ", weights: " << minfo.weights.size() << "\n";
  for (const et::Eqn& eqn : minfo.jaxpr().eqns)
    std::cout << (et::is_etp(*eqn.prim) ? "  * " : "    ") << eqn.prim->name() << " -> "
              << et::to_string(eqn.out[0].aval) << "  at " << et::to_string(eqn.origin) << "\n";
  for (const et::HiddenInfo& h : minfo.hidden)
    std::cout << "  hidden " << et::to_string(h.path) << " " << et::to_string(h.invar.aval) << "\n";
  for (const et::WeightInfo& w : minfo.weights)
    std::cout << "  weight " << et::to_string(w.path) << ", " << w.invars.size() << " leaves\n";

  std::cout << "\n2. Hidden groups\n";
  const std::vector<et::HiddenGroup> groups = et::find_hidden_groups_from_minfo(minfo, reporter);
  for (const et::HiddenGroup& g : groups)
    std::cout << "  group " << g.index << ": " << et::to_string(g.hidden_paths[0]) << ", varshape "
              << et::to_string(g.varshape()) << ", " << g.num_state() << " state, transition of "
              << g.transition_jaxpr.eqns.size() << " equations\n";

  std::cout << "\n3. Relations\n";
  const auto relations = et::find_hidden_param_op_relations_from_minfo(minfo, groups, reporter);
  for (const et::HiddenParamOpRelation& r : relations)
    std::cout << "  " << et::to_string(r.path()) << " through " << r.primitive->name() << " into group "
              << r.hidden_groups[0] << ": x " << et::to_string(r.x_var->aval) << ", y "
              << et::to_string(r.y_var.aval) << ", " << name(r.path_classification[0]) << "\n";

  std::cout << "\n4. Perturbation\n";
  const et::HiddenPerturbation perturb = et::add_hidden_perturbation_from_minfo(minfo, reporter);
  for (std::size_t i = 0; i < perturb.perturb_vars.size(); ++i)
    std::cout << "  " << et::to_string(perturb.perturb_hidden_paths[i]) << " += p of type "
              << et::to_string(perturb.perturb_vars[i].aval) << "\n";

  std::cout << "\nRecords\n";
  for (const et::CompilationRecord& r : reporter.records()) std::cout << "  " << et::to_string(r) << "\n";
  std::cout << "\n" << groups.size() << " groups, " << relations.size() << " relations\n";
}
