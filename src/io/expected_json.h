// The `expected` part of a model file, and the paths that all its parts share. Private to io/.
#pragma once

#include "etrace/expected.h"
#include "etrace/model_io.h"
#include "io/json_node.h"

namespace etrace {

StatePath read_path(const Node&);
OrderedJson write_path(const StatePath&);

Expected read_expected(const Node&);
OrderedJson write_expected(const Expected&);

}  // namespace etrace
