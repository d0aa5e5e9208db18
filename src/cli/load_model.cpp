// Models by name or path; see the header.
#include "cli/load_model.h"

#include <filesystem>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/models.h"

namespace etrace::cli {

std::string model_names() {
  std::string names;
  for (const BuiltinModel& m : builtin_models()) names += (names.empty() ? "" : ", ") + std::string(m.name);
  return names;
}

std::string model_doc() { return "a model file, or a built-in model: " + model_names(); }

Model load_model(const std::string& name_or_path) {
  if (find_builtin_model(name_or_path) != nullptr) {
    const ReadyModel ready = make_model(name_or_path);
    Model model = trace_step(*ready.module, ready.example, name_or_path).model;
    model.source = "built in";
    return model;
  }
  if (!std::filesystem::exists(name_or_path))
    throw IoError("model", "'" + name_or_path + "' is neither a file nor a built-in model" +
                               did_you_mean(name_or_path, row_names(builtin_models())) +
                               "; built in are: " + model_names());
  return read_model_file(name_or_path);
}

}  // namespace etrace::cli
