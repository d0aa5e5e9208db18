// The C99 headers of runtime/ as text, to be pasted into emitted programs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace etrace::emit {

struct KernelHeader {
  std::string_view name, text;
};
extern const KernelHeader kKernelHeaders[];  // written by tools/embed_headers.py
extern const std::size_t kNumKernelHeaders;

// "etp_math.h": its text, without includes of its like.
std::string kernel_text(std::string_view header);

}  // namespace etrace::emit
#pragma GCC visibility pop
