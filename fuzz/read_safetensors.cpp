// Any bytes as a safetensors file: either an etrace::Error, or tensors that are written and read back without
// loss.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "etrace/error.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::pair<etrace::Named<etrace::Tensor>, etrace::Named<std::string>> file;
  try {
    file = etrace::read_safetensors({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const etrace::InternalError&) {
    std::abort();  // bad input must never look like our bug
  } catch (const etrace::Error&) {
    return 0;
  }
  // What was read can be written: any exception is a finding. The first writing may reorder.
  const auto again = etrace::read_safetensors(etrace::write_safetensors(file.first, file.second), "fuzz");
  if (again.first.size() != file.first.size() || again.second != file.second) std::abort();
  if (etrace::read_safetensors(etrace::write_safetensors(again.first, again.second), "fuzz") != again)
    std::abort();
  return 0;
}
