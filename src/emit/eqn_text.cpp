#include "emit/eqn_text.h"

#include "etrace/primitive.h"

namespace etrace::emit {

std::string EqnNames::of(const Var& v) {
  const auto [it, is_new] = names_.try_emplace(v.id);
  if (is_new) {
    std::size_t n = names_.size() - 1;
    do {
      it->second.insert(it->second.begin(), static_cast<char>('a' + n % 26));
      n = n / 26;
    } while (n-- > 0);
  }
  return it->second;
}

std::string EqnNames::text(const Eqn& e) {
  std::string in;
  for (const Atom& a : e.in) {
    const Var* v = as_var(a);
    in += " " + (v != nullptr ? of(*v) : to_string(Attr(to_double(std::get<Literal>(a).value))));
  }
  std::string out;
  for (const Var& v : e.out) out += of(v) + ":" + to_string(v.aval) + " ";
  return out + "= " + std::string(e.prim->name()) + in;
}

std::string module_path(const Origin& o) {
  std::string out;
  for (const std::string& part : o.module) out += (out.empty() ? "" : ".") + part;
  return out;
}

std::string neutral_text(FoldCode::Op op, Dtype t) {
  const bool floating = is_floating(t), f32 = t == Dtype::F32;
  const auto number = [&](const char* digit) {
    return floating ? std::string(digit) + (f32 ? ".0f" : ".0") : std::string(digit);
  };
  const std::string inf = f32 ? "__builtin_inff()" : "__builtin_inf()";
  switch (op) {
    case FoldCode::Sum:
      return number("0");
    case FoldCode::Product:
      return number("1");
    case FoldCode::Max:
      if (floating) return "-" + inf;
      return t == Dtype::I32 ? "INT32_MIN" : t == Dtype::I64 ? "INT64_MIN" : "0";
    case FoldCode::Min:
      if (floating) return inf;
      return t == Dtype::I32   ? "INT32_MAX"
             : t == Dtype::I64 ? "INT64_MAX"
             : t == Dtype::U32 ? "UINT32_MAX"
                               : "1";
    case FoldCode::And:
      return t == Dtype::Bool ? "1" : "-1";
    case FoldCode::Or:
      return "0";
  }
  return "0";
}

bool is_wide(const Target& t, FoldCode::Op op, Dtype dtype) {
  return dtype == Dtype::F32 && t.f32_sums == Dtype::F64 && (op == FoldCode::Sum || op == FoldCode::Product);
}

std::string fold_text(FoldCode::Op op, Dtype dtype, const std::string& a, const std::string& b) {
  const std::string arguments = std::string(short_name(dtype)) + "(" + a + ", " + b + ")";
  switch (op) {
    case FoldCode::Sum:
      return is_floating(dtype) ? a + " + " + b : "etp_add_" + arguments;
    case FoldCode::Product:
      return is_floating(dtype) ? a + " * " + b : "etp_mul_" + arguments;
    case FoldCode::Max:
      return "etp_fold_max_" + arguments;
    case FoldCode::Min:
      return "etp_fold_min_" + arguments;
    case FoldCode::And:
      return a + " & " + b;
    case FoldCode::Or:
      return a + " | " + b;
  }
  return a;
}

}  // namespace etrace::emit
