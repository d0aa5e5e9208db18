// Any bytes as an archive of NumPy, and as one array of it (the checksum of an archive would hide the
// arrays): either an etrace::Error, or tensors that are written and read back without loss.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "etrace/error.h"
#include "io/npz.h"

namespace {

template <class Read>
void check(Read read) {
  etrace::Named<etrace::Tensor> tensors;
  try {
    tensors = read();
  } catch (const etrace::InternalError&) {
    std::abort();  // bad input must never look like our bug
  } catch (const etrace::Error&) {
    return;
  }
  // What was read can be written: any exception is a finding.
  if (etrace::read_npz(etrace::write_npz(tensors), "fuzz") != tensors) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check([&] { return etrace::read_npz(bytes, "fuzz"); });
  check([&] { return etrace::Named<etrace::Tensor>{{"array", etrace::read_npy(bytes, "array")}}; });
  return 0;
}
