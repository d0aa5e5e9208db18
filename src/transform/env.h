// The environment of a transformation: what each Var of the program being walked stands for.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"

namespace etrace {

// Values by Var; a missing entry is undefined (a symbolic zero for tangents and cotangents).
class Env {
 public:
  void set(const Var& v, Array value) {
    if (value.defined()) values_.insert_or_assign(v.id, std::move(value));
  }
  Array get(const Var& v) const {
    const auto it = values_.find(v.id);
    return it == values_.end() ? Array() : it->second;
  }
  Array get(const Atom& a) const {
    if (const auto* literal = std::get_if<Literal>(&a)) return full({}, literal->value, literal->dtype);
    return get(std::get<Var>(a));
  }
  Array take(const Var& v) {
    const auto it = values_.find(v.id);
    if (it == values_.end()) return {};
    Array value = std::move(it->second);
    values_.erase(it);
    return value;
  }
  template <class Atoms>
  Arrays get_all(const Atoms& atoms) const {
    Arrays out;
    out.reserve(atoms.size());
    for (const auto& a : atoms) out.push_back(get(a));
    return out;
  }
  template <class Vars>
  void set_all(const Vars& vars, const Arrays& values) {
    for (std::size_t i = 0; i < vars.size(); ++i) set(vars[i], values[i]);
  }

 private:
  std::unordered_map<std::uint64_t, Array> values_;
};

// A tangent or cotangent that is zero everywhere is none: what is multiplied by it is not written.
inline Array without_zero(const Array& a) {
  const std::optional<Scalar> value = a.splat();
  return value && to_double(*value) == 0.0 ? Array() : a;
}

inline bool any_defined(ArraySpan arrays) {
  for (const Array& a : arrays)
    if (a.defined()) return true;
  return false;
}

// Arrays whose mask entry is set, in order.
template <class Mask>
Arrays select(ArraySpan arrays, const Mask& mask) {
  Arrays out;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (mask[i]) out.push_back(arrays[i]);
  return out;
}

inline std::vector<bool> defined_mask(ArraySpan arrays) {
  std::vector<bool> mask;
  for (const Array& a : arrays) mask.push_back(a.defined());
  return mask;
}

inline std::size_t count(const std::vector<bool>& mask) {
  return static_cast<std::size_t>(std::count(mask.begin(), mask.end(), true));
}

// The values at set positions, in order; undefined elsewhere. The inverse of `select`.
inline Arrays spread(ArraySpan values, const std::vector<bool>& mask) {
  Arrays out(mask.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i]) out[i] = values[next++];
  return out;
}

}  // namespace etrace
