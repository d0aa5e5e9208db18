// Options that several rules have.
#pragma once

#include "etrace/learning_rule.h"

namespace etrace {

inline RuleOption trace_dtype_option() {
  return {"trace_dtype", RuleOption::Type::Dtype, "", "f16, bf16, f32, f64",
          "type that traces are kept in; sums stay in the model's type"};
}

}  // namespace etrace
