#include "train/engine.h"

#include <fmt/format.h>

#include "etrace/backend.h"

namespace etrace::train {

std::string engine_text(const std::string& backend) {
  const Backend& engine = find_backend(backend);
  return fmt::format("engine {}: {}\n", engine.name(), engine.doc());
}

}  // namespace etrace::train
