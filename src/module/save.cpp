// Files of tensors, and what is built on them: parameters of a model, checkpoints.
#include "etrace/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "base/file.h"
#include "etrace/param_values.h"
#include "io/npz.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "module/parameter_file.h"

namespace etrace {

namespace {

// A file is as large as it says; what is no file (a pipe, a device) may never end and keeps the usual limit.
std::string contents(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored)
             ? read_file(path, std::numeric_limits<std::size_t>::max())
             : read_file(path);
}

// Parameters ------------------------------------------------------------------------------------------------
bool is_npz(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension != ".npz" && extension != ".safetensors")
    throw ValueError("parameters",
                     fmt::format("'{}' ends with '{}', expected .safetensors or .npz", path, extension));
  return extension == ".npz";
}

// What keeps the tensors of a file from being the parameters of a model; one text each.
std::vector<std::string> misfits(const WantedParameters& model, const std::map<std::string, Tensor>& file) {
  std::vector<std::string> out;
  std::set<std::string> names;
  for (const auto& [name, want] : model) {
    names.insert(name);
    const auto it = file.find(name);
    if (it == file.end()) {
      out.push_back(fmt::format("missing {}, {}", name, to_string(want)));
      continue;
    }
    const Aval& found = it->second.aval();
    if (found != want)
      out.push_back(fmt::format("wrong {} of {}: found {}, expected {}",
                                found.shape == want.shape ? "type" : "shape", name, to_string(found),
                                to_string(want)));
  }
  for (const auto& [name, tensor] : file)
    if (!names.contains(name)) out.push_back(fmt::format("surplus {}, {}", name, to_string(tensor.aval())));
  return out;
}

void require_fit(const std::vector<std::string>& misfits, const std::string& path) {
  constexpr std::size_t kShown = 8;
  if (misfits.empty()) return;
  const std::size_t shown = std::min(kShown, misfits.size());
  throw ValueError(
      "parameters",
      fmt::format("'{}' does not fit the model in {} place{}: {}{}; the model is unchanged", path,
                  misfits.size(), misfits.size() == 1 ? "" : "s",
                  fmt::join(misfits.begin(), misfits.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
                  shown < misfits.size() ? fmt::format("; and {} more", misfits.size() - shown) : ""));
}

// Checkpoints -----------------------------------------------------------------------------------------------
constexpr const char* kFormat = "etrace.checkpoint";
constexpr const char* kVersion = "1";
constexpr std::string_view kReserved[] = {"format", "version", "checksum"};

bool is_reserved(std::string_view key) {
  return std::find(std::begin(kReserved), std::end(kReserved), key) != std::end(kReserved);
}

// Over all that the file says, whatever order and layout it says it in: each tensor by ascending name, then
// each pair of the metadata but the checksum. Lengths in front keep neighbours apart.
class Checksum {
 public:
  explicit Checksum(const TensorFile& file) {
    std::map<std::string_view, const Tensor*> tensors;
    for (const auto& [name, tensor] : file.tensors) tensors.emplace(name, &tensor);
    for (const auto& [name, tensor] : tensors) {
      add(name);
      add(to_string(tensor->aval()));
      add(bytes_of(*tensor));
    }
    for (const auto& [key, value] : std::map(file.metadata.begin(), file.metadata.end()))
      if (key != "checksum") {
        add(key);
        add(value);
      }
  }
  std::string text() const { return fmt::format("crc32:{:08x}", sum_); }

 private:
  void add(std::string_view bytes) {
    std::string length;
    append_bytes(length, std::uint64_t{bytes.size()});
    sum_ = crc32(bytes, crc32(length, sum_));
  }
  std::uint32_t sum_ = 0;
};

void require_checkpoint(const TensorFile& file, const std::string& path) {
  const std::map<std::string, std::string> metadata(file.metadata.begin(), file.metadata.end());
  auto value = [&](const char* key) {
    const auto it = metadata.find(key);
    return it == metadata.end() ? std::string() : it->second;
  };
  auto fail = [&](const std::string& message) {
    throw CompilationError("checkpoint", path + ": " + message);
  };
  if (value("format") != kFormat)
    fail(
        fmt::format("the file is no checkpoint: its metadata has the format '{}', expected '{}'; "
                    "load_safetensors reads any safetensors file",
                    value("format"), kFormat));
  if (value("version") != kVersion)
    fail(fmt::format(
        "the checkpoint is of version '{}', expected '{}'; it was written by another version of etrace",
        value("version"), kVersion));
  if (const std::string sum = Checksum(file).text(); value("checksum") != sum)
    fail(fmt::format(
        "the file is damaged: the checksum of what it holds is {}, but it says '{}'; use another copy", sum,
        value("checksum")));
}

}  // namespace

void save_safetensors(const std::string& path, const TensorFile& file) {
  write_file(path, write_safetensors(file.tensors, file.metadata));
}

TensorFile load_safetensors(const std::string& path) {
  auto [tensors, metadata] = read_safetensors(contents(path), path);
  return {std::move(tensors), std::move(metadata)};
}

void save_npz(const std::string& path, const TensorFile& file) {
  if (!file.metadata.empty())
    throw ValueError("npz",
                     fmt::format("'{}': an npz file holds no metadata; save a .safetensors file, or leave "
                                 "out '{}'",
                                 path, file.metadata.front().first));
  write_file(path, write_npz(file.tensors));
}

TensorFile load_npz(const std::string& path) { return {read_npz(contents(path), path)}; }

TensorFile parameter_file(const Module& model) {
  const ParamValues values = param_values(model);
  TensorFile file;
  for (std::size_t i = 0; i < values.leaves.size(); ++i)
    file.tensors.emplace_back(to_string(values.leaves[i]), values.values[i].tensor());
  return file;
}

void write_parameter_file(const std::string& path, TensorFile file) {
  if (!is_npz(path)) return save_safetensors(path, file);
  file.metadata.clear();
  save_npz(path, file);
}

TensorFile read_parameter_file(const std::string& path) {
  return is_npz(path) ? load_npz(path) : load_safetensors(path);
}

Tensors fitting_parameters(const WantedParameters& wanted, const TensorFile& file, const std::string& path) {
  const std::map<std::string, Tensor> found(file.tensors.begin(), file.tensors.end());
  require_fit(misfits(wanted, found), path);
  Tensors out;
  for (const auto& [name, aval] : wanted) out.push_back(found.at(name));
  return out;
}

void set_parameters(Module& model, const TensorFile& file, const std::string& path) {
  ParamValues values = param_values(model);
  WantedParameters wanted;
  for (std::size_t i = 0; i < values.leaves.size(); ++i)
    wanted.emplace_back(to_string(values.leaves[i]), values.values[i].aval());
  values.values = to_arrays(fitting_parameters(wanted, file, path));
  set_param_values(model, values);
}

void save_parameters(const Module& model, const std::string& path) {
  write_parameter_file(path, parameter_file(model));
}

void load_parameters(Module& model, const std::string& path) {
  set_parameters(model, read_parameter_file(path), path);
}

void save_checkpoint(const std::string& path, const TensorFile& given) {
  require_savable(given.tensors, "checkpoint");
  TensorFile file = given;  // tensors share their data
  for (const auto& [key, value] : given.metadata)
    if (is_reserved(key))
      throw ValueError("checkpoint",
                       fmt::format("the metadata key '{}' belongs to the file; choose another", key));
  file.metadata.insert(file.metadata.begin(), {{"format", kFormat}, {"version", kVersion}});
  file.metadata.emplace_back("checksum", Checksum(file).text());
  save_safetensors(path, file);
}

TensorFile load_checkpoint(const std::string& path) {
  TensorFile file = load_safetensors(path);
  require_checkpoint(file, path);
  std::erase_if(file.metadata, [](const auto& item) { return is_reserved(item.first); });
  return file;
}

}  // namespace etrace
