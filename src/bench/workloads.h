// The benchmark workloads: models W1 to W6 and their data, float32, n_in 100, n_out 10. For `etrace bench`
// and for the programs of bench/.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "etrace/etrace.h"

namespace etrace::bench {

inline constexpr std::int64_t kIn = 100, kOut = 10;
inline constexpr std::int64_t kSparseInputs = 100;  // synapses of a neuron of W5

inline Array weights(std::uint64_t seed, const Shape& shape) {
  const double fan_in = static_cast<double>(shape[0]);
  return random::normal(random::key(seed), shape) / std::sqrt(fan_in);
}
inline Array biases(std::uint64_t seed, std::int64_t n, std::int64_t fan_in) {
  return random::normal(random::key(seed), {n}) * (0.1 / std::sqrt(static_cast<double>(fan_in)));
}

// h' = tanh([x,h]·W + b); o = h'·Wo + bo
struct W1 : Module {
  explicit W1(std::int64_t n) : rec(n) {}
  std::int64_t rec;
  ParamState& w = param("W", {{"weight", weights(1, {kIn + rec, rec})}, {"bias", biases(2, rec, kIn + rec)}});
  ParamState& wo = param("Wo", {{"weight", weights(3, {rec, kOut})}, {"bias", biases(4, kOut, rec)}});
  HiddenState& h = hidden("h", {rec});
  Array update(const Array& x) override {
    h.set(tanh(matmul(concatenate(Arrays{x, h.value()}, -1), w.value("weight"), w.value("bias"))));
    return matmul_plain(h.value(), wo.value("weight")) + wo.value("bias");
  }
};

// A GRU of the usual form, with a readout.
struct W2 : Module {
  explicit W2(std::int64_t n) : rec(n) {}
  std::int64_t rec;
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", kIn, rec);
  nn::Linear& out = child<nn::Linear>("out", rec, kOut);
  Array update(const Array& x) override { return out(rnn(x)); }
};

// Scales of the weights of W3: of inputs and of recurrent ones.
struct Gain {
  double input, recurrent;
};
inline constexpr Gain kRealistic{0.014, 0.3};  // 5 to 10 % of the neurons fire at each step
inline constexpr Gain kSaturated{0.12, 1.0};   // 79 % do

// Leaky integrate-and-fire neurons with an exponential current synapse, recurrent, leaky readout.
struct W3 : Module {
  explicit W3(std::int64_t n, Gain g = kRealistic) : rec(n), gain(g) {}
  std::int64_t rec;
  Gain gain;
  const double dg = std::exp(-1.0 / 10.0), dv = std::exp(-1.0 / 5.0);
  ParamState& w = param("W", {{"weight", scaled_rows()}, {"bias", biases(2, rec, kIn + rec)}});
  ParamState& wr = param("Wr", weights(3, {rec, kOut}));
  HiddenState& v = hidden("V", {rec});
  HiddenState& g = hidden("g", {rec});
  HiddenState& r = hidden("r", {kOut});
  const nn::Surrogate surrogate = nn::surrogate::relu_grad(0.3, 1.0);
  Array update(const Array& x) override {
    const Array s = nn::spike(v.value() - 1.0, surrogate);
    const Array current =
        dg * g.value() + matmul(concatenate(Arrays{x, s}, -1), w.value("weight"), w.value("bias"));
    g.set(current);
    v.set(dv * (v.value() - s) + (1.0 - dv) * current);
    r.set(dg * r.value() + matmul(nn::spike(v.value() - 1.0, surrogate), wr.value()));
    return r.value();
  }

 private:
  Array scaled_rows() const {
    const Array all = weights(1, {kIn + rec, rec});
    return concatenate(Arrays{abs(random::normal(random::key(5), {kIn, rec})) * gain.input,
                              slice_axis(all, 0, kIn, kIn + rec) * gain.recurrent});
  }
};

// Sparse: s = H(V−1), V' = 0.9 (V − s) + s·W + x, o = V'·Wo + bo
struct W5 : Module {
  W5(std::int64_t neurons, std::int64_t fan_in) : rec(neurons), inputs(fan_in) {}
  std::int64_t rec, inputs;
  const SparsePattern pattern = random_inputs();
  ParamState& w =
      param("W", random::normal(random::key(1), {rec * inputs}) / std::sqrt(static_cast<double>(inputs)));
  ParamState& wo = param("Wo", {{"weight", weights(3, {rec, 2})}, {"bias", biases(4, 2, rec)}});
  HiddenState& v = hidden("V", {rec});
  const nn::Surrogate surrogate = nn::surrogate::relu_grad(0.3, 1.0);
  Array update(const Array& x) override {
    const Array s = nn::spike(v.value() - 1.0, surrogate);
    v.set(0.9 * (v.value() - s) + sparse_matmul(s, w.value(), pattern) + x);
    return matmul_plain(v.value(), wo.value("weight")) + wo.value("bias");
  }

 private:
  SparsePattern random_inputs() const {
    std::uint64_t state = 88172645463325252ULL;
    Dims row, col;
    row.reserve(static_cast<std::size_t>(rec * inputs));
    col.reserve(static_cast<std::size_t>(rec * inputs));
    for (std::int64_t o = 0; o < rec; ++o)
      for (std::int64_t k = 0; k < inputs; ++k) {
        state ^= state << 13U, state ^= state >> 7U, state ^= state << 17U;
        row.push_back(static_cast<std::int64_t>(state % static_cast<std::uint64_t>(rec)));
        col.push_back(o);
      }
    return SparsePattern::coo(rec, rec, std::move(row), std::move(col));
  }
};

// Convolutional: V' = 0.9 (V − H(V−1)) + conv3×3(x, K) + b, SAME, NHWC; o = flat(H(V'−1))·Wo + bo
struct W6 : Module {
  ParamState& k = param("K", {{"kernel", random::normal(random::key(1), {3, 3, 2, 8}) / std::sqrt(18.0)},
                              {"bias", biases(2, 8, 18)}});
  ParamState& wo = param("Wo", {{"weight", weights(3, {16 * 16 * 8, 4})}, {"bias", biases(4, 4, 2048)}});
  HiddenState& v = hidden("V", {16, 16, 8});
  const nn::Surrogate surrogate = nn::surrogate::relu_grad(0.3, 1.0);
  Array update(const Array& x) override {
    EtpConvOptions options;
    options.strides = {1, 1};
    options.layout = {"NHWC", "HWIO", "NHWC"};
    v.set(0.9 * (v.value() - nn::spike(v.value() - 1.0, surrogate)) +
          conv(x, k.value("kernel"), k.value("bias"), options));
    const Array s = nn::spike(v.value() - 1.0, surrogate);
    return matmul_plain(reshape(s, {s.shape()[0], 16 * 16 * 8}), wo.value("weight")) + wo.value("bias");
  }
};

// A workload by name, with data for `steps`.
struct Workload {
  std::shared_ptr<Module> model;
  Array example;               // of one step
  double multiply_adds = 0.0;  // of the forward products of one step, all samples
  std::function<Array(std::uint64_t seed, std::int64_t steps)> inputs;
  std::function<Array(std::uint64_t seed, std::int64_t steps)> targets;
};
inline constexpr const char* kW3Saturated = "W3-saturated";
// Batch and units of W1, W2, W3 (W4 is W3 of 2048) and the neurons of W5 may be chosen; 0: the workload's
// own.
inline Workload workload(const std::string& name, std::int64_t batch, std::int64_t units = 0) {
  Workload w;
  Shape in{batch, kIn}, out{batch, kOut};
  bool spikes = false, uniform = false;
  const std::int64_t n = units != 0 ? units : name == "W1" ? 256 : 512;
  double weights = static_cast<double>((kIn + n) * n + n * kOut);
  if (name == "W1") w.model = std::make_shared<W1>(n);
  if (name == "W2") {
    w.model = std::make_shared<W2>(n);
    weights += 2.0 * static_cast<double>((kIn + n) * n);
  }
  if (name == "W3" || name == kW3Saturated)
    w.model = std::make_shared<W3>(n, name == "W3" ? kRealistic : kSaturated), spikes = true;
  if (name == "W5") {
    const std::int64_t neurons = units != 0 ? units : 10000;
    w.model = std::make_shared<W5>(neurons, kSparseInputs);
    in = {batch, neurons}, out = {batch, 2}, uniform = true;
    weights = static_cast<double>(neurons * (kSparseInputs + 2));
  }
  if (name == "W6") {
    w.model = std::make_shared<W6>();
    in = {batch, 16, 16, 2}, out = {batch, 4}, spikes = true;
    weights = 16.0 * 16.0 * (8.0 * 18.0 + 8.0 * 4.0);
  }
  w.example = zeros(in);
  w.multiply_adds = weights * static_cast<double>(batch);
  w.inputs = [=](std::uint64_t seed, std::int64_t steps) {
    const Shape all = in.with_front(steps);
    if (spikes) return convert(random::bernoulli(random::key(seed), 0.1, all), Dtype::F32);
    return uniform ? random::uniform(random::key(seed), all) : random::normal(random::key(seed), all);
  };
  w.targets = [=](std::uint64_t seed, std::int64_t steps) {
    return random::normal(random::key(seed), out.with_front(steps)) * 0.5;
  };
  return w;
}

}  // namespace etrace::bench
