// All layers.
#pragma once

#include "etrace/nn/activation.h"
#include "etrace/nn/cell.h"
#include "etrace/nn/gru_cell.h"
#include "etrace/nn/init.h"
#include "etrace/nn/linear.h"
#include "etrace/nn/valina_rnn_cell.h"
