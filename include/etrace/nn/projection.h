// From the spikes of one population to the input of another, through a connection (comm), a synapse and an
// output (etrace/nn/synaptic_current.h).
//   AlignPost   input = out(synapse(Σ comm(spikes)))    the synapse has the size of the receivers
//   AlignPre    input = out(Σ comm(synapse(spikes)))    the synapse has the size of the senders
// Synapses that are linear give the same either way; the smaller side takes less memory.
#pragma once

#include "etrace/nn/synaptic_current.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// Connections that end at one synapse, each with senders of its own:
//   AlignPost& exc = child<AlignPost>("exc", SynapticCurrent::coba(0.0));
//   exc.connect<Linear>(100, 50);  exc.connect<SparseLinear>(pattern);  exc.synapse<Expon>(50);
//   … neurons.step(fired, exc.input(Arrays{x, fired}) + inh.input(fired));
// Paths: comm/0/weight, syn/g. Without a synapse, what the connections give is the conductance.
class AlignPost : public NumberLayer {
 public:
  explicit AlignPost(SynapticCurrent out) : out_(std::move(out)) {}
  template <std::derived_from<Module> M, class... Args>
  M& connect(Args&&... args) {
    return comm.add<M>(std::forward<Args>(args)...);
  }
  template <std::derived_from<Module> M, class... Args>
  M& synapse(Args&&... args) {
    M& made = child<M>("syn", std::forward<Args>(args)...);
    syn_ = &made;
    return made;
  }
  Array update(const Array& spikes) override;    // the conductance, with one connection
  Arrays update_all(ArraySpan spikes) override;  // with several: one array of spikes for each
  NeuronInput input(const Array& spikes) { return out_((*this)(spikes)); }
  NeuronInput input(ArraySpan spikes) { return out_((*this)(spikes)[0]); }

  ModuleList& comm = child<ModuleList>("comm");

 private:
  SynapticCurrent out_;
  Module* syn_ = nullptr;
};

// One synapse per sender, and connections from it.
class AlignPre : public NumberLayer {
 public:
  explicit AlignPre(SynapticCurrent out) : out_(std::move(out)) {}
  template <std::derived_from<Module> M, class... Args>
  M& connect(Args&&... args) {
    return comm.add<M>(std::forward<Args>(args)...);
  }
  template <std::derived_from<Module> M, class... Args>
  M& synapse(Args&&... args) {
    M& made = child<M>("syn", std::forward<Args>(args)...);
    syn_ = &made;
    return made;
  }
  Array update(const Array& spikes) override;  // the conductance
  NeuronInput input(const Array& spikes) { return out_((*this)(spikes)); }

  ModuleList& comm = child<ModuleList>("comm");

 private:
  SynapticCurrent out_;
  Module* syn_ = nullptr;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
