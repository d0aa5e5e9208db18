// Functions of arrays that work element by element, on large arrays.
#pragma once

#include "etrace/array.h"

namespace etrace::optim {

// f(x) for concrete x of one shape, f with nothing recorded in it. Where f is elementwise, as a look at its
// program shows, and x is large, it runs piece by piece: what stands in between is never as large as x, and
// stays in the cache. The same bits.
Arrays by_pieces(const Function& f, ArraySpan x);

}  // namespace etrace::optim
