// All layers.
#pragma once

#include "etrace/nn/activation.h"
#include "etrace/nn/cell.h"
#include "etrace/nn/expon.h"
#include "etrace/nn/gru_cell.h"
#include "etrace/nn/init.h"
#include "etrace/nn/leaky_rate_readout.h"
#include "etrace/nn/lif.h"
#include "etrace/nn/lif_layer.h"
#include "etrace/nn/linear.h"
#include "etrace/nn/lstm_cell.h"
#include "etrace/nn/mini_gru.h"
#include "etrace/nn/surrogate.h"
#include "etrace/nn/valina_rnn_cell.h"
