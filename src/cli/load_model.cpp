// Models by path; see the header.
#include "cli/load_model.h"

namespace etrace::cli {

Model load_model(const std::string& name_or_path) { return read_model_file(name_or_path); }

}  // namespace etrace::cli
