// Rows: layers with weights between features.
#include "nn_options.h"

namespace etrace::python {

void bind_nn_linear(nb::module_&) {
  using I = std::int64_t;
  const auto in = arg<I>("in_size"), out = arg<I>("out_size");
  layer<nn::Linear>("Linear", "WeightLayer", in, out);
  layer<nn::AllToAll>("AllToAll", "WeightLayer", in, out);
  layer<nn::OneToOne>("OneToOne", "WeightLayer", arg<Shape>("size"));
  layer<nn::GroupedLinear>("GroupedLinear", "WeightLayer", arg<I>("groups"), in, out);
  layer<nn::SignedWLinear>("SignedWLinear", "WeightLayer", in, out);
  layer<nn::ScaledWSLinear>("ScaledWSLinear", "Layer", in, out);
  layer<nn::SparseLinear>("SparseLinear", "WeightLayer", arg<SparsePattern>("pattern"));
  layer<nn::DelayedLinear>("DelayedLinear", "WeightLayer", arg<SparsePattern>("pattern"),
                           arg<nn::Time>("delays"));
  layer<nn::LoRA>("LoRA", "WeightLayer", in, arg<I>("rank"), out);
  layer<nn::Embedding>("Embedding", "WeightLayer", arg<I>("num_embeddings"), arg<I>("features"));
}

}  // namespace etrace::python
