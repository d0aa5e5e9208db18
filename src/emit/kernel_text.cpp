#include "emit/kernel_text.h"

#include "etrace/error.h"

namespace etrace::emit {

std::string kernel_text(std::string_view header) {
  for (std::size_t i = 0; i < kNumKernelHeaders; ++i)
    if (kKernelHeaders[i].name == header) return std::string(kKernelHeaders[i].text);
  internal_error("the header is embedded", __FILE__, __LINE__);
}

}  // namespace etrace::emit
