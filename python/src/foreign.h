// Memory of other libraries as tensors: shared where type and layout allow, and then kept alive.
#pragma once

#include "convert.h"

namespace etrace::python {

std::optional<Tensor> from_buffer(nb::handle source, Copy copy);  // nothing: it has no buffer to give
Tensor from_dlpack(nb::handle source, Copy copy);

[[noreturn]] void refuse(nb::handle source, const std::string& why);  // TypeError: "a list " + why
[[noreturn]] void cannot_share(nb::handle source, const char* why);   // BufferError: what copy=False asks for
}  // namespace etrace::python
