// Functions of arrays that are functions of quantities, too: which one is meant follows from the operands.
#pragma once

#include <initializer_list>

#include "bind.h"
#include "convert.h"

namespace etrace::python {

using Unary = Array (*)(const Array&);
using Binary = Array (*)(const Array&, const Array&);
using QuantityUnary = Quantity (*)(const Quantity&);
using QuantityBinary = Quantity (*)(const Quantity&, const Quantity&);

inline bool is_quantity(nb::handle h) { return nb::isinstance<Quantity>(h) || nb::isinstance<Unit>(h); }
inline bool any_quantity(std::initializer_list<nb::handle> all) {
  for (const nb::handle h : all)
    if (is_quantity(h)) return true;
  return false;
}
// A function that quantities do not have is refused for them by name, not applied to their mantissas.
[[noreturn]] void no_quantities(const char* function);

// Calls f on arrays, or q on quantities; recorded operations belong to the user's line.
template <class... More>
Result apply(const char* name, Array (*f)(const Array&, More...), Quantity (*q)(const Quantity&, More...),
             nb::handle x, std::type_identity_t<More>... more) {
  if (is_quantity(x)) {
    if (q == nullptr) no_quantities(name);
    const Quantity v = from_object<Quantity>(x);
    const LineScope line(v.mantissa());
    return q(v, more...);
  }
  const Array a = from_object<Array>(x);
  const LineScope line(a);
  return f(a, more...);
}

// f on an array; what it records belongs to the user's line.
template <class F>
auto on(const ArrayLike& x, F f) {
  const Array a = x.get();
  const LineScope line(a);
  return f(a);
}

// Two operands, of which a bare number adapts to the other; one that does not fit is refused.
std::pair<Array, Array> operands(nb::handle a, nb::handle b);
Result apply_binary(const char* name, Binary f, QuantityBinary q, nb::handle a, nb::handle b);

// A function of the module that is a method of et.Array as well.
struct Both {
  nb::module_& m;
  nb::class_<Array> c = nb::borrow<nb::class_<Array>>(m.attr("Array"));
  template <class F, class... Extra>
  void def(const char* name, F&& f, const Extra&... extra) {
    m.def(name, f, "x"_a, extra...);
    c.def(name, f, extra...);
  }
};

}  // namespace etrace::python
