#include "nn/threshold.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

bool is_number(const Quantity& q, double value) {
  return q.mantissa().is_weak() && to_double(*q.mantissa().splat()) == value;
}

void require_threshold(const std::string& who, const Array& V_th, const Array& V_reset, const Surrogate& s) {
  const std::vector<double> high = V_th.tensor().to_doubles(), low = V_reset.tensor().to_doubles();
  for (std::size_t i = 0; i < high.size(); ++i)
    if (!(high[i] > low[i]))
      wrong_option(who, "the threshold V_th = " + std::to_string(high[i]) +
                            " and V_reset = " + std::to_string(low[i]) +
                            "; the threshold must lie above the value after a spike");
  if (!s) wrong_option(who, "there is no surrogate; give one of nn::surrogate, such as relu_grad()");
}

Array reset_potential(Reset how, const Array& V, const Quantity& V_th, const Quantity& V_reset,
                      const Array& fired) {
  if (how == Reset::Soft) return V - scaled(V_th - V_reset, fired);
  return V - (stop_gradient(V) - V_reset.decimal()) * fired;
}

}  // namespace etrace::nn
