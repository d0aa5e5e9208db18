// Any bytes as the text of a program: either an etrace::Error, or a program whose own text reads back to an
// equal one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "etrace/ir.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const etrace::ClosedJaxpr program = etrace::parse({reinterpret_cast<const char*>(data), size});
    if (!etrace::equal(etrace::parse(etrace::to_string(program)), program)) std::abort();
  } catch (const etrace::InternalError&) {
    std::abort();  // bad input must never look like our bug
  } catch (const etrace::Error&) {
  }
  return 0;
}
