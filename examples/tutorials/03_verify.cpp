// Is the gradient right? A rule's gradient beside that of backpropagation through time.
#include <etrace/etrace.h>

#include <algorithm>
#include <cstdio>

namespace et = etrace;

// In double precision, so that "the same" means the same to twelve digits.
constexpr et::Dtype kF64 = et::Dtype::F64;

struct Neurons : et::Module {  // nothing leads from one neuron to another
  et::nn::Linear& lin = child<et::nn::Linear>("lin", 3, 6, et::nn::LinearOptions{.dtype = kF64});
  et::nn::LIF& lif = child<et::nn::LIF>("lif", 6, et::nn::LIFOptions{.dtype = kF64});
  et::nn::Linear& out = child<et::nn::Linear>("out", 6, 2, et::nn::LinearOptions{.dtype = kF64});
  et::Array update(const et::Array& x) override { return out(lif(lin(x))); }
};

struct GruNet : et::Module {  // every unit reaches every other one
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 3, 6, et::nn::CellOptions{.dtype = kF64});
  et::nn::Linear& out = child<et::nn::Linear>("out", 6, 2, et::nn::LinearOptions{.dtype = kF64});
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

template <class Net>
const char* verdict(const et::Array& xs, const et::Array& ys) {
  Net net;
  et::init_all_states(net);
  const et::VerifyReport report = et::verify(net, et::D_RTRL{}, xs, ys, et::loss::mse);
  std::printf("%s\n", report.to_string().c_str());
  double worst = 0.0;
  for (const et::VerifyReport::Leaf& leaf : report.leaves)
    worst = std::max(worst, leaf.measures[0].deviation);
  return worst < 1e-9 ? "exact" : "an approximation";  // of single steps
}

int main() {
  const et::Array xs = 2.0 * et::random::normal(et::random::key(1), {12, 3}, kF64);
  const et::Array ys = et::random::normal(et::random::key(2), {12, 2}, kF64);
  const char* lif = verdict<Neurons>(xs, ys);
  const char* gru = verdict<GruNet>(xs, ys);
  std::printf("LIF neurons without recurrent weights: %s; a GRU: %s\n", lif, gru);
}
