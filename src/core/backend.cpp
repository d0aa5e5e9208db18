// The table of backends.
#include "etrace/backend.h"

#include <algorithm>
#include <cstdlib>

#include "base/nearest.h"
#include "etrace/error.h"

namespace etrace {

namespace {
std::vector<const Backend*>& table() {
  static std::vector<const Backend*> rows;
  return rows;
}
}  // namespace

RegisterBackend::RegisterBackend(const Backend& b) { table().push_back(&b); }

std::vector<const Backend*> backends() {
  std::vector<const Backend*> out = table();
  std::sort(out.begin(), out.end(), [](const Backend* a, const Backend* b) { return a->name() < b->name(); });
  return out;
}

const Backend& find_backend(std::string_view name) {
  for (const Backend* b : backends())
    if (b->name() == name) return *b;
  throw ValueError("backend", no_such_name("backend", name, row_names(backends())));
}

std::string default_backend() {
  const char* wanted = std::getenv("ETRACE_BACKEND");
  if (wanted == nullptr || *wanted == '\0') return "auto";
  const std::vector<std::string> names = row_names(backends());
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    throw ValueError("backend", "ETRACE_BACKEND: " + no_such_name("backend", wanted, names));
  return wanted;
}

}  // namespace etrace
