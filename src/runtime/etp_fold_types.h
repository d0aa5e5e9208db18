/* The folds of emitted code by operation and element type: etp_fold_sum_f64_add, etp_fold_sum_f64_end … Sums
 * and products of f32 are formed in f64. */
#ifndef ETP_FOLD_TYPES_H
#define ETP_FOLD_TYPES_H

#include "runtime/etp_fold.h"
#include "runtime/etp_scalar.h"

#define ETP_JOIN_ADD(a, b) ((a) + (b))
#define ETP_JOIN_MUL(a, b) ((a) * (b))
#define ETP_JOIN_AND(a, b) ((a) & (b))
#define ETP_JOIN_OR(a, b) ((a) | (b))
ETP_FOLD(etp_fold_sum_f32, float, double, ETP_JOIN_ADD)
ETP_FOLD(etp_fold_sum_f64, double, double, ETP_JOIN_ADD)
ETP_FOLD(etp_fold_product_f32, float, double, ETP_JOIN_MUL)
ETP_FOLD(etp_fold_product_f64, double, double, ETP_JOIN_MUL)
ETP_FOLD(etp_fold_max_f32, float, float, etp_fold_max_f32)
ETP_FOLD(etp_fold_max_f64, double, double, etp_fold_max_f64)
ETP_FOLD(etp_fold_min_f32, float, float, etp_fold_min_f32)
ETP_FOLD(etp_fold_min_f64, double, double, etp_fold_min_f64)
#define ETP_FOLD_INTEGER(T, S)                       \
  ETP_FOLD(etp_fold_sum_##S, T, T, etp_add_##S)      \
  ETP_FOLD(etp_fold_product_##S, T, T, etp_mul_##S)  \
  ETP_FOLD(etp_fold_max_##S, T, T, etp_fold_max_##S) \
  ETP_FOLD(etp_fold_min_##S, T, T, etp_fold_min_##S) \
  ETP_FOLD(etp_fold_and_##S, T, T, ETP_JOIN_AND)     \
  ETP_FOLD(etp_fold_or_##S, T, T, ETP_JOIN_OR)
ETP_FOLD_INTEGER(int32_t, i32)
ETP_FOLD_INTEGER(int64_t, i64)
ETP_FOLD_INTEGER(uint32_t, u32)
#undef ETP_FOLD_INTEGER
ETP_FOLD(etp_fold_max_bool, uint8_t, uint8_t, etp_fold_max_bool)
ETP_FOLD(etp_fold_min_bool, uint8_t, uint8_t, etp_fold_min_bool)
ETP_FOLD(etp_fold_and_bool, uint8_t, uint8_t, ETP_JOIN_AND)
ETP_FOLD(etp_fold_or_bool, uint8_t, uint8_t, ETP_JOIN_OR)

#endif /* ETP_FOLD_TYPES_H */
