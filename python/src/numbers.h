// Python's arithmetic where it differs from that of C++: / is true division, // and % round down, ** takes
// integers.
#pragma once

#include "etrace/array.h"

namespace etrace::python {

// A bare number that does not fit the integers it meets is refused: it would wrap around in silence.
void require_fit(const Array& a, const Array& b);

Array true_divide(const Array& a, const Array& b);   // integers become floats
Array floor_divide(const Array& a, const Array& b);  // rounds towards minus infinity
Array shift_right(const Array& a, const Array& n);   // the sign stays, where there is one
Array mod(const Array& a, const Array& b);           // has the sign of b
Array power(const Array& a, const Array& b);  // a bare integer exponent is exact; integers stay integers
Array matmul_operator(const Array& a, const Array& b);

}  // namespace etrace::python
