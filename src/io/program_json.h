// Programs, arrays and parameters as JSON. Private to io/.
#pragma once

#include "etrace/ir.h"
#include "io/json_node.h"

namespace etrace {

Tensor read_tensor(const Node&);
OrderedJson write_tensor(const Tensor&);

Attr read_attr(const Node&);
OrderedJson write_attr(const Attr&);

ClosedJaxpr read_program(const Node&);
OrderedJson write_program(const ClosedJaxpr&);

}  // namespace etrace
