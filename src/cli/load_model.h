// Where the verbs get their models from.
#pragma once

#include <string>

#include "etrace/model_io.h"

namespace etrace::cli {

// A model file by its path. IoError, CompilationError.
Model load_model(const std::string& name_or_path);

}  // namespace etrace::cli
