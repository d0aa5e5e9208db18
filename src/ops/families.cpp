#include "ops/families.h"

#include <algorithm>
#include <vector>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"

namespace etrace {

bool is_elementwise(const Primitive& p) {
  static const std::vector<const Primitive*> table = {&add_p,
                                                      &add_any_p,
                                                      &sub_p,
                                                      &mul_p,
                                                      &div_p,
                                                      &rem_p,
                                                      &pow_p,
                                                      &integer_pow_p,
                                                      &neg_p,
                                                      &abs_p,
                                                      &sign_p,
                                                      &max_p,
                                                      &min_p,
                                                      &nextafter_p,
                                                      &exp_p,
                                                      &exp2_p,
                                                      &expm1_p,
                                                      &log_p,
                                                      &log1p_p,
                                                      &logistic_p,
                                                      &sqrt_p,
                                                      &rsqrt_p,
                                                      &cbrt_p,
                                                      &square_p,
                                                      &sin_p,
                                                      &cos_p,
                                                      &tan_p,
                                                      &asin_p,
                                                      &acos_p,
                                                      &atan_p,
                                                      &atan2_p,
                                                      &sinh_p,
                                                      &cosh_p,
                                                      &tanh_p,
                                                      &asinh_p,
                                                      &acosh_p,
                                                      &atanh_p,
                                                      &erf_p,
                                                      &erfc_p,
                                                      &erf_inv_p,
                                                      &lgamma_p,
                                                      &digamma_p,
                                                      &floor_p,
                                                      &ceil_p,
                                                      &round_p,
                                                      &clamp_p,
                                                      &select_n_p,
                                                      &eq_p,
                                                      &ne_p,
                                                      &lt_p,
                                                      &le_p,
                                                      &gt_p,
                                                      &ge_p,
                                                      &and_p,
                                                      &or_p,
                                                      &xor_p,
                                                      &not_p,
                                                      &is_finite_p,
                                                      &convert_element_type_p,
                                                      &stop_gradient_p,
                                                      &copy_p};
  return std::find(table.begin(), table.end(), &p) != table.end();
}

}  // namespace etrace
