#include "cli/engine.h"

#include <fmt/format.h>

#include "cli/option_values.h"
#include "etrace/backend.h"

namespace etrace::cli {

void add_backend_option(CLI::App& verb, std::string& backend) {
  std::vector<std::string> names, docs;
  for (const Backend* b : backends()) {
    names.emplace_back(b->name());
    docs.push_back(fmt::format("{} {}", b->name(), b->doc()));
  }
  verb.add_option("--backend", backend, fmt::format("{}", fmt::join(docs, "; ")))
      ->type_name("NAME")
      ->check(one_of(names))
      ->capture_default_str();
}

}  // namespace etrace::cli
