// Where the verbs get their models from.
#pragma once

#include <string>

#include "etrace/model_io.h"

namespace etrace::cli {

// A built-in model by its name, or a model file by its path. IoError lists the names; CompilationError.
Model load_model(const std::string& name_or_path);
std::string model_names();  // of the built-in models
std::string model_doc();    // what MODEL may be, for help texts

}  // namespace etrace::cli
