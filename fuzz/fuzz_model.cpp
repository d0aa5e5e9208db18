// Any bytes as a model file: either an etrace::Error, or a model that is written and read back without loss.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "etrace/model_io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  etrace::Model model;
  try {
    model = etrace::read_model({reinterpret_cast<const char*>(data), size});
  } catch (const etrace::InternalError&) {
    std::abort();  // bad input must never look like our bug
  } catch (const etrace::Error&) {
    return 0;
  }
  const std::string text =
      etrace::write_model(model);  // what was read can be written: any exception is a finding
  const etrace::Model again = etrace::read_model(text);
  if (!etrace::equal(again.program, model.program) || etrace::write_model(again) != text) std::abort();
  return 0;
}
