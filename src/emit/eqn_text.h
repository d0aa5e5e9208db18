// Equations as comments of emitted code, and small pieces of C text.
#pragma once

#include <string>
#include <unordered_map>

#include "emit/target.h"
#include "etrace/emission.h"
#include "etrace/error.h"
#include "etrace/ir.h"

namespace etrace::emit {

// Names a, b, c … in order of appearance, over all nested programs.
class EqnNames {
 public:
  void declare(const Var& v) { of(v); }
  std::string text(const Eqn&);

 private:
  std::string of(const Var&);
  std::unordered_map<std::uint64_t, std::string> names_;
};

std::string module_path(const Origin&);                // "rnn.W"
std::string neutral_text(FoldCode::Op, Dtype result);  // in the type of the result

// Whether the fold is formed in f64 although its elements are f32.
bool is_wide(const Target&, FoldCode::Op, Dtype);
// a ∘ b in the type that the fold is formed in.
std::string fold_text(FoldCode::Op, Dtype, const std::string& a, const std::string& b);

}  // namespace etrace::emit
