// All layers. tools/make_layers_doc.py makes docs/layers.md from these headers, in this order.
#pragma once

// Initial values
#include "etrace/nn/init.h"

// Linear maps
#include "etrace/nn/all_to_all.h"
#include "etrace/nn/embedding.h"
#include "etrace/nn/grouped_linear.h"
#include "etrace/nn/linear.h"
#include "etrace/nn/lora.h"
#include "etrace/nn/one_to_one.h"
#include "etrace/nn/scaled_ws_linear.h"
#include "etrace/nn/signed_w_linear.h"
#include "etrace/nn/sparse_linear.h"
#include "etrace/nn/unit_layer.h"
#include "etrace/nn/weight_layer.h"

// Convolution and pooling
#include "etrace/nn/conv.h"
#include "etrace/nn/pool.h"

// Normalisation
#include "etrace/nn/batch_norm.h"
#include "etrace/nn/group_norm.h"
#include "etrace/nn/layer_norm.h"
#include "etrace/nn/rms_norm.h"
#include "etrace/nn/weight_standardization.h"

// Activations
#include "etrace/nn/activation.h"
#include "etrace/nn/prelu.h"

// Containers and shapes
#include "etrace/nn/container.h"
#include "etrace/nn/dropout.h"
#include "etrace/nn/flatten.h"

// Recurrent cells
#include "etrace/nn/cell.h"
#include "etrace/nn/cfn_cell.h"
#include "etrace/nn/conv_cell.h"
#include "etrace/nn/gru_cell.h"
#include "etrace/nn/lru_cell.h"
#include "etrace/nn/lstm_cell.h"
#include "etrace/nn/mgu_cell.h"
#include "etrace/nn/mini_gru.h"
#include "etrace/nn/mini_lstm.h"
#include "etrace/nn/minimal_rnn_cell.h"
#include "etrace/nn/urlstm_cell.h"
#include "etrace/nn/vanilla_rnn_cell.h"

// Readouts
#include "etrace/nn/leaky_rate_readout.h"
#include "etrace/nn/leaky_spike_readout.h"

// Spiking neurons
#include "etrace/nn/adex.h"
#include "etrace/nn/alif.h"
#include "etrace/nn/constant.h"
#include "etrace/nn/current_gif.h"
#include "etrace/nn/gif.h"
#include "etrace/nn/hodgkin_huxley.h"
#include "etrace/nn/integrate.h"
#include "etrace/nn/izhikevich.h"
#include "etrace/nn/lif.h"
#include "etrace/nn/lif_layer.h"
#include "etrace/nn/neuron.h"
#include "etrace/nn/surrogate.h"

// Connections, delays, projections
#include "etrace/nn/connect.h"
#include "etrace/nn/delay.h"
#include "etrace/nn/projection.h"

// Synapses
#include "etrace/nn/alpha.h"
#include "etrace/nn/dual_expon.h"
#include "etrace/nn/expon.h"
#include "etrace/nn/receptor.h"
#include "etrace/nn/short_term.h"
#include "etrace/nn/synaptic_current.h"
