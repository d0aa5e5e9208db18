// A model from a list of layers in words, as configurations have them:
//   type=ALIF, size=100, tau_a=2000   then   type=Linear, size=32   …
// The last layer is the readout: one that is not given is Linear behind cells and LeakyReadout behind spikes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "etrace/models.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LayerWords {
  std::string type;                                          // of layer_types()
  std::vector<std::pair<std::string, std::string>> options;  // "size", "128"

  // "type=LIF,size=128"; ValueError for another form.
  static LayerWords parse(const std::string& text);
  std::string to_string() const;
};

struct LayerOption {
  std::string name, doc;
};
struct LayerType {
  std::string name, doc;
  std::vector<LayerOption> options;
};
const std::vector<LayerType>& layer_types();  // names ascending

// options.sizes: features of input and output. ValueError names the layer, the option and what there is.
std::shared_ptr<Module> layered(const std::vector<LayerWords>&, const ModelOptions&);

}  // namespace etrace::nn
#pragma GCC visibility pop
