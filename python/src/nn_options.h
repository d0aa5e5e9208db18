// The fields of the options of layers, in the order of their headers.
#pragma once

#include "layers.h"

namespace etrace::python {

inline void fields_of(FieldTable& f, nn::AdExOptions& o) {
  f("tau", o.tau);
  f("tau_w", o.tau_w);
  f("dt", o.dt);
  f("R", o.R);
  f("V_rest", o.V_rest);
  f("V_reset", o.V_reset);
  f("V_th", o.V_th);
  f("V_T", o.V_T);
  f("delta_T", o.delta_T);
  f("a", o.a);
  f("b", o.b);
  f("reset", o.reset);
  f("detached", o.detached);
  f("method", o.method);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::ALIFOptions& o) {
  f("tau", o.tau);
  f("tau_a", o.tau_a);
  f("dt", o.dt);
  f("beta", o.beta);
  f("R", o.R);
  f("V_th", o.V_th);
  f("V_reset", o.V_reset);
  f("V_rest", o.V_rest);
  f("reset", o.reset);
  f("detached", o.detached);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::AllToAllOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("include_self", o.include_self);
  f("one_weight", o.one_weight);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::AlphaOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("unit", o.unit);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::BatchNormOptions& o) {
  f("momentum", o.momentum);
  f("epsilon", o.epsilon);
  f("scale", o.scale);
  f("bias", o.bias);
  f("channel_first", o.channel_first);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::CellOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("activation", o.activation);
  f("dtype", o.dtype);
  f("seed", o.seed);
  f("memory", o.memory);
}
inline void fields_of(FieldTable& f, nn::ConvLayerOptions& o) {
  f("strides", o.strides);
  f("padding", o.padding);
  f("dilation", o.dilation);
  f("input_dilation", o.input_dilation);
  f("groups", o.groups);
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("mask", o.mask);
  f("standardize", o.standardize);
  f("channel_first", o.channel_first);
  f("layout", o.layout);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::ConvCellOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("activation", o.activation);
  f("dilation", o.dilation);
  f("dtype", o.dtype);
  f("seed", o.seed);
  f("memory", o.memory);
}
inline void fields_of(FieldTable& f, nn::CurrentGifOptions& o) {
  f("tau", o.tau);
  f("tau_I2", o.tau_I2);
  f("dt", o.dt);
  f("A2", o.A2);
  f("R", o.R);
  f("V_th", o.V_th);
  f("V_reset", o.V_reset);
  f("V_rest", o.V_rest);
  f("reset", o.reset);
  f("detached", o.detached);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::DelayOptions& o) {
  f("dt", o.dt);
  f("memory", o.memory);
  f("unit", o.unit);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::DelayedLinearOptions& o) {
  f("dt", o.dt);
  f("memory", o.memory);
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::DropoutOptions& o) {
  f("keep", o.keep);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::DualExponOptions& o) {
  f("tau_decay", o.tau_decay);
  f("tau_rise", o.tau_rise);
  f("dt", o.dt);
  f("A", o.A);
  f("unit", o.unit);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::EmbeddingOptions& o) {
  f("weight_init", o.weight_init);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::ExponOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("unit", o.unit);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::GifOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("R", o.R);
  f("V_rest", o.V_rest);
  f("V_reset", o.V_reset);
  f("V_th_inf", o.V_th_inf);
  f("V_th_reset", o.V_th_reset);
  f("a", o.a);
  f("b", o.b);
  f("k1", o.k1);
  f("k2", o.k2);
  f("R1", o.R1);
  f("R2", o.R2);
  f("A1", o.A1);
  f("A2", o.A2);
  f("reset", o.reset);
  f("detached", o.detached);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::GroupNormOptions& o) {
  f("groups", o.groups);
  f("epsilon", o.epsilon);
  f("scale", o.scale);
  f("bias", o.bias);
  f("channel_first", o.channel_first);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::GroupedLinearOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::HodgkinHuxleyOptions& o) {
  f("E_Na", o.E_Na);
  f("E_K", o.E_K);
  f("E_L", o.E_L);
  f("g_Na", o.g_Na);
  f("g_K", o.g_K);
  f("g_L", o.g_L);
  f("C", o.C);
  f("V_th", o.V_th);
  f("V_start", o.V_start);
  f("dt", o.dt);
  f("method", o.method);
  f("surrogate", o.surrogate);
  f("surrogate_width", o.surrogate_width);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::IzhikevichOptions& o) {
  f("a", o.a);
  f("b", o.b);
  f("c", o.c);
  f("V_th", o.V_th);
  f("d", o.d);
  f("dt", o.dt);
  f("reset", o.reset);
  f("detached", o.detached);
  f("method", o.method);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::NormOptions& o) {
  f("axes", o.axes);
  f("epsilon", o.epsilon);
  f("scale", o.scale);
  f("bias", o.bias);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::LeakyRateReadoutOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("weight_init", o.weight_init);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::LeakySpikeReadoutOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("V_th", o.V_th);
  f("reset", o.reset);
  f("weight_init", o.weight_init);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::LIFOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("R", o.R);
  f("V_th", o.V_th);
  f("V_reset", o.V_reset);
  f("V_rest", o.V_rest);
  f("reset", o.reset);
  f("detached", o.detached);
  f("tau_ref", o.tau_ref);
  f("surrogate", o.surrogate);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::LIFLayerOptions& o) {
  f("neuron", o.neuron);
  f("synapse", o.synapse);
  f("tau_syn", o.tau_syn);
  f("input_init", o.input_init);
  f("recurrent_init", o.recurrent_init);
  f("input_scale", o.input_scale);
  f("recurrent_scale", o.recurrent_scale);
  f("bias_init", o.bias_init);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::LinearOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("mask", o.mask);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::LoRAOptions& o) {
  f("factor_init", o.factor_init);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::LRUOptions& o) {
  f("r_min", o.r_min);
  f("r_max", o.r_max);
  f("max_phase", o.max_phase);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::OneToOneOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::PoolOptions& o) {
  f("strides", o.strides);
  f("padding", o.padding);
  f("count_padding", o.count_padding);
  f("channel_first", o.channel_first);
}
inline void fields_of(FieldTable& f, nn::PReLUOptions& o) {
  f("slope", o.slope);
  f("per_feature", o.per_feature);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::ReceptorOptions& o) {
  f("alpha", o.alpha);
  f("beta", o.beta);
  f("T", o.T);
  f("T_dur", o.T_dur);
  f("dt", o.dt);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::NMDAOptions& o) {
  f("alpha1", o.alpha1);
  f("beta1", o.beta1);
  f("alpha2", o.alpha2);
  f("beta2", o.beta2);
  f("T", o.T);
  f("T_dur", o.T_dur);
  f("dt", o.dt);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::ScaledWSLinearOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("mask", o.mask);
  f("gain", o.gain);
  f("epsilon", o.epsilon);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::STDOptions& o) {
  f("tau", o.tau);
  f("dt", o.dt);
  f("U", o.U);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::STPOptions& o) {
  f("tau_f", o.tau_f);
  f("tau_d", o.tau_d);
  f("dt", o.dt);
  f("U", o.U);
  f("dtype", o.dtype);
}
inline void fields_of(FieldTable& f, nn::SignedWLinearOptions& o) {
  f("weight_init", o.weight_init);
  f("sign", o.sign);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}
inline void fields_of(FieldTable& f, nn::SparseLinearOptions& o) {
  f("weight_init", o.weight_init);
  f("bias_init", o.bias_init);
  f("sign", o.sign);
  f("unit", o.unit);
  f("dtype", o.dtype);
  f("seed", o.seed);
}

}  // namespace etrace::python
