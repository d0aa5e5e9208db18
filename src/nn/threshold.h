// What neurons with a threshold share.
#pragma once

#include "etrace/nn/neuron.h"

namespace etrace::nn {

bool is_number(const Quantity&, double value);  // a bare number with that value

// ValueError unless V_th > V_reset everywhere and there is a surrogate.
void require_threshold(const std::string& who, const Array& V_th, const Array& V_reset, const Surrogate&);

// V after the reset of those that fired.
Array reset_potential(Reset, const Array& V, const Quantity& V_th, const Quantity& V_reset,
                      const Array& fired);

}  // namespace etrace::nn
