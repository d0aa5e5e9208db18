#include "etrace/nn/projection.h"

#include "etrace/ops/elementwise.h"
#include "nn/check.h"

namespace etrace::nn {

Array AlignPost::update(const Array& spikes) { return update_all(ArraySpan(&spikes, 1))[0]; }

Arrays AlignPost::update_all(ArraySpan spikes) {
  if (comm.size() == 0 || spikes.size() != comm.size())
    wrong_option("an AlignPost", "it has " + std::to_string(comm.size()) + " connections and was given " +
                                     std::to_string(spikes.size()) +
                                     " arrays of spikes; expected one for each");
  Array total;
  for (std::size_t i = 0; i < comm.size(); ++i) {
    const Array arriving = comm[i](spikes[i]);
    total = total.defined() ? total + arriving : arriving;
  }
  return {syn_ == nullptr ? total : (*syn_)(total)};
}

Array AlignPre::update(const Array& spikes) {
  if (comm.size() == 0) wrong_option("an AlignPre", "it has no connections; make one with connect<Layer>(…)");
  const Array sent = syn_ == nullptr ? spikes : (*syn_)(spikes);
  Array total;
  for (std::size_t i = 0; i < comm.size(); ++i) {
    const Array arriving = comm[i](sent);
    total = total.defined() ? total + arriving : arriving;
  }
  return total;
}

}  // namespace etrace::nn
