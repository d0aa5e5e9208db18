// Checkpoints: everything that a run needs to go on bit for bit.
#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ir.h"
#include "learn/run/learner_impl.h"

namespace etrace {

namespace {

constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kRule = "rule";
constexpr const char* kNote = "note.";

// Fowler, Noll and Vo's hash, 64 bits: the same on every machine.
std::string hash_text(const std::string& text) {
  std::uint64_t h = 14695981039346656037ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("{:016x}", h);
}

NamedTensors optimizer_state(const optim::Optimizer* optimizer) {
  if (optimizer == nullptr) return {};
  NamedTensors out = optimizer->state();
  for (auto& entry : out) entry.first = "optimizer/" + entry.first;
  return out;
}

// What is there and what should be there, compared name by name.
void require_same_tensors(const NamedTensors& expected, const NamedTensors& found) {
  std::vector<std::string> problems;
  const auto find = [](const NamedTensors& in, const std::string& name) -> const Tensor* {
    for (const auto& [key, value] : in)
      if (key == name) return &value;
    return nullptr;
  };
  for (const auto& [name, value] : expected) {
    const Tensor* other = find(found, name);
    if (other == nullptr)
      problems.push_back(fmt::format("{} is missing", name));
    else if (other->aval() != value.aval())
      problems.push_back(fmt::format("{} has type {} there and {} here", name, to_string(other->aval()),
                                     to_string(value.aval())));
  }
  for (const auto& [name, value] : found)
    if (find(expected, name) == nullptr)
      problems.push_back(fmt::format("{} {} is not known here", name, to_string(value.aval())));
  if (problems.empty()) return;
  const std::size_t shown = std::min<std::size_t>(problems.size(), 8);
  throw ValueError(
      "checkpoint",
      fmt::format("the checkpoint is not of this learner: {}{}",
                  fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
                  problems.size() > shown ? fmt::format("; and {} more", problems.size() - shown) : ""));
}

}  // namespace

std::string Learner::fingerprint() const {
  // The program by its structure: as text, the pattern of a sparse weight would take longer than all else.
  std::string text = fmt::format(
      "{:016x}\n{}", hash(ClosedJaxpr{impl_->graph.module_info.closed_jaxpr.jaxpr, {}}), describe());
  for (const TraceSlot& s : impl_->memory) text += "\n" + s.name + " " + to_string(s.aval);
  return hash_text(text);
}

TensorFile Learner::checkpoint(const optim::Optimizer* optimizer, const Notes& notes) const {
  TensorFile file;
  const auto add = [&](const char* folder, PortRole role, const std::string& name) {
    file.tensors.emplace_back(folder + name, impl_->session.value(role, name));
  };
  for (const ParamLeafId& p : impl_->params) add("param/", PortRole::Param, impl_->param_name(p));
  for (const KnownState& s : impl_->states) add("state/", PortRole::State, s.name);
  for (const TraceSlot& s : impl_->memory) add("memory/", s.role, s.name);
  for (auto& entry : optimizer_state(optimizer)) file.tensors.push_back(std::move(entry));
  file.metadata = {{kFingerprint, fingerprint()}, {kRule, describe()}};
  for (const auto& [key, value] : notes) file.metadata.emplace_back(kNote + key, value);
  return file;
}

Learner::Notes Learner::restore(const TensorFile& file, optim::Optimizer* optimizer) {
  const auto text = [&](const char* key) {
    for (const auto& [name, value] : file.metadata)
      if (name == key) return value;
    throw ValueError("checkpoint",
                     fmt::format("the file has no \"{}\": it is not a learner's checkpoint", key));
  };
  if (text(kRule) != describe())
    throw ValueError("checkpoint", fmt::format("the checkpoint is of the rule {}, this learner has {}",
                                               text(kRule), describe()));
  require_same_tensors(checkpoint(optimizer).tensors, file.tensors);
  if (text(kFingerprint) != fingerprint())
    throw ValueError(
        "checkpoint",
        fmt::format("the checkpoint is of another program (fingerprint {} there, {} here): names and "
                    "types agree, but the step computes something else",
                    text(kFingerprint), fingerprint()));
  const auto tensor = [&](const std::string& name) -> const Tensor& {
    const auto it = std::find_if(file.tensors.begin(), file.tensors.end(),
                                 [&](const auto& e) { return e.first == name; });
    ETRACE_CHECK(it != file.tensors.end());
    return it->second;
  };
  if (optimizer != nullptr) {
    NamedTensors state;
    for (const auto& entry : optimizer->state())
      state.emplace_back(entry.first, tensor("optimizer/" + entry.first));
    optimizer->set_state(state);
  }
  const auto restore = [&](const char* folder, PortRole role, const std::string& name) {
    impl_->session.set(role, name, tensor(folder + name));
  };
  for (const ParamLeafId& p : impl_->params) restore("param/", PortRole::Param, impl_->param_name(p));
  for (const KnownState& s : impl_->states) restore("state/", PortRole::State, s.name);
  for (const TraceSlot& s : impl_->memory) restore("memory/", s.role, s.name);
  Notes notes;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(kNote)) notes.emplace_back(key.substr(std::string_view(kNote).size()), value);
  return notes;
}

void Learner::save(const std::string& path, const optim::Optimizer* optimizer, const Notes& notes) const {
  save_checkpoint(path, checkpoint(optimizer, notes));
}

Learner::Notes Learner::load(const std::string& path, optim::Optimizer* optimizer) {
  return restore(load_checkpoint(path), optimizer);
}

}  // namespace etrace
