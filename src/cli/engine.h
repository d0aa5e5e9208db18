// --backend, for every verb that runs programs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "train/engine.h"

namespace etrace::cli {

using train::engine_text;

// The names and what they mean come from the rows. `backend` holds the default.
void add_backend_option(CLI::App& verb, std::string& backend);

}  // namespace etrace::cli
