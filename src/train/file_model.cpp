#include "train/file_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "train/run_model.h"

namespace etrace::train {

namespace {

// Whether the model trains or is evaluated: a module has that state itself.
bool is_mode(const OutputRecord& r) { return state_kind(r.type) == StateKind::Mode; }

std::string called(const std::string& path) {
  return path == kOwnModel ? "the module" : fmt::format("the model file '{}'", path);
}
[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw ValueError("train", fmt::format("{} {}", called(path), what));
}

// [features], or [samples, features].
const Aval& argument_of(const Model& m, const std::string& path) {
  const std::size_t arguments = static_cast<std::size_t>(std::count_if(
      m.inputs.begin(), m.inputs.end(), [](const InputRecord& in) { return in.role == Role::Arg; }));
  if (arguments != 1) refuse(path, fmt::format("takes {} arguments; expected one, the input", arguments));
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) return m.program.jaxpr.invars[i].aval;
  refuse(path, "takes no argument");
}

std::optional<std::int64_t> samples_of(const Model& m, const std::string& path) {
  const Shape& shape = argument_of(m, path).shape;
  if (shape.rank() == 1) return std::nullopt;
  if (shape.rank() == 2) return shape[0];
  refuse(path, fmt::format("takes an argument of shape {}; expected [features] or [samples, features]",
                           to_string(shape)));
}

// Evaluates the program of the file. Of a batch, states start as the file's first sample does.
class FileModel : public Module {
 public:
  FileModel(Model model, std::optional<std::int64_t> samples, const std::string& path)
      : model_(std::move(model)), samples_(samples) {
    for (const InputRecord& in : model_.inputs)
      if (in.role != Role::Arg && !is_mode(in)) records_[to_string(in.path)].push_back(&in);
    for (auto& [name, leaves] : records_) {
      require_kept(*leaves.front(), path);
      std::sort(leaves.begin(), leaves.end(), [](const auto* a, const auto* b) { return a->leaf < b->leaf; });
      states_[name] = make_state(leaves, path);
      place(leaves.front()->path, states_[name]);
    }
  }

  Array update(const Array& x) override {
    Arrays args;
    std::vector<int> axes;
    for (const InputRecord& in : model_.inputs) {
      args.push_back(in.role == Role::Arg ? x : is_mode(in) ? training() : value_of(in));
      axes.push_back(is_per_sample(in) ? 0 : -1);
    }
    const Function step = [this](ArraySpan a) { return eval_jaxpr(model_.program, a); };
    const Arrays out = samples_ ? step(args) : vmap(step, axes)(args);
    Array result;
    for (std::size_t i = 0; i < model_.outputs.size(); ++i) {
      const OutputRecord& record = model_.outputs[i];
      if (record.role == Role::Out)
        result = out[i];
      else if (record.role != Role::Param && !is_mode(record))
        set_value(record, out[i]);
    }
    return result;
  }

 private:
  static bool is_per_sample(const OutputRecord& r) {
    return r.role == Role::Arg || (r.role == Role::Hidden) ||
           (r.role == Role::Other && is_short_term(r) && r.per_sample.value_or(true));
  }
  static bool is_short_term(const OutputRecord& r) {
    const std::optional<StateKind> kind = state_kind(r.type);
    return kind && is_a(*kind, StateKind::ShortTerm);
  }

  // Scores begin with the states that the file has, and the best parameters are kept without others: what is
  // learned beside parameters would be lost.
  static void require_kept(const InputRecord& r, const std::string& path) {
    const std::optional<StateKind> kind = state_kind(r.type);
    const bool statistics = r.role == Role::Other && kind && is_a(*kind, StateKind::LongTerm) &&
                            r.init.aval().dtype != Dtype::U32;
    if (statistics)
      throw NotSupportedError(
          "train", fmt::format("{} keeps {} from sequence to sequence ({}): runs keep the best "
                               "parameters, and score with them alone. Use a layer without such statistics, "
                               "say LayerNorm for BatchNorm",
                               called(path), to_string(r.path), r.type));
  }

  // The start of one sample: what the file has, or its first row, which all others must equal.
  Array start_of(const InputRecord& in, const std::string& path) const {
    const Array all(in.init);
    if (!samples_ || !is_per_sample(in)) return all;
    if (all.rank() == 0 || all.dim(0) != *samples_)
      refuse(path,
             fmt::format("has the state {} of shape {} in a step of {} samples; expected a row for each",
                         to_string(in.path), to_string(all.shape()), *samples_));
    const Array first = slice_axis(all, 0, 0, 1);
    const Array same = equal_to(all, broadcast_to(first, all.shape()));
    if (sum(convert(same, Dtype::F32)).item<double>() != static_cast<double>(all.shape().size()))
      refuse(path,
             fmt::format("starts the state {} of every sample differently; that cannot be reset between "
                         "sequences",
                         to_string(in.path)));
    return squeeze(first, {0});
  }

  std::shared_ptr<State> make_state(const std::vector<const InputRecord*>& leaves,
                                    const std::string& path) const {
    const InputRecord& first = *leaves.front();
    NamedArrays named;
    for (const InputRecord* leaf : leaves)
      named.emplace_back(to_string(leaf->leaf_key), start_of(*leaf, path));
    const bool bare = leaves.size() == 1 && first.leaf_key.empty();
    if (first.role == Role::Hidden) return make_hidden(first, named[0].second);
    if (first.role == Role::Param)
      return bare ? std::make_shared<ParamState>(named[0].second) : std::make_shared<ParamState>(named);
    const bool own = is_per_sample(first);
    const std::optional<StateKind> kind = state_kind(first.type);
    if (kind && is_a(*kind, StateKind::Random)) return std::make_shared<RandomState>(named[0].second);
    if (kind && is_a(*kind, StateKind::Key)) return std::make_shared<KeyState>(named[0].second, own);
    if (is_short_term(first)) {
      return bare ? std::make_shared<ShortTermState>(named[0].second, own)
                  : std::make_shared<ShortTermState>(named, own);
    }
    return bare ? std::make_shared<LongTermState>(named[0].second) : std::make_shared<LongTermState>(named);
  }

  // Several states on the last axis are one group.
  static std::shared_ptr<State> make_hidden(const InputRecord& r, const Array& start) {
    const std::optional<StateKind> kind = state_kind(r.type);
    if (kind && is_a(*kind, StateKind::HiddenGroup)) return std::make_shared<HiddenGroupState>(start);
    return std::make_shared<HiddenState>(start);
  }

  void place(const StatePath& path, const std::shared_ptr<State>& state) {
    Module* owner = this;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const auto& members = owner->members();
      const auto it = std::find_if(members.begin(), members.end(),
                                   [&](const Member& m) { return m.name == path[i] && m.module; });
      if (it == members.end()) {
        auto made = std::make_shared<Branch>();
        owner->attach(path[i], made);
        owner = made.get();
      } else {
        owner = it->module.get();
      }
    }
    owner->attach(path.back(), state);
  }

  Array value_of(const OutputRecord& r) const {
    const State& s = *states_.at(to_string(r.path));
    return r.leaf_key.empty() ? s.value() : s.value(to_string(r.leaf_key));
  }
  void set_value(const OutputRecord& r, const Array& value) const {
    State& s = *states_.at(to_string(r.path));
    r.leaf_key.empty() ? s.set(value) : s.set(to_string(r.leaf_key), value);
  }

  struct Branch : Module {};
  Model model_;
  std::optional<std::int64_t> samples_;
  std::map<std::string, std::vector<const InputRecord*>> records_;
  std::map<std::string, std::shared_ptr<State>> states_;
};

}  // namespace

std::optional<std::int64_t> batch_of_file(const std::string& text, const std::string& path) {
  return samples_of(read_model(text, path), path);
}

ReadyModel model_of_file(const std::string& text, const std::string& path, const FileModelWish& wish) {
  Model model = read_model(text, path);
  const Aval input = argument_of(model, path);
  const std::optional<std::int64_t> samples = samples_of(model, path);
  if (input.shape.back() != wish.inputs)
    refuse(path, fmt::format("takes {} features, and the task has {}", input.shape.back(), wish.inputs));
  const std::vector<Aval> results = result_types(model);
  if (results.size() != 1) refuse(path, fmt::format("has {} results; expected one", results.size()));
  if (results[0].shape.rank() != input.shape.rank() || results[0].shape.back() != wish.outputs)
    refuse(path, fmt::format("gives a result of shape {}, and the task asks for {} numbers of each sample",
                             to_string(results[0].shape), wish.outputs));
  if (input.dtype != wish.dtype)
    refuse(path, fmt::format("is in {0}, and the run in {1}; add --dtype {0}", short_name(input.dtype),
                             short_name(wish.dtype)));
  if (samples && *samples != wish.batch)
    refuse(path,
           fmt::format("has a step of {} samples, and the batch has {}; leave out --batch, or trace the "
                       "model for one sample",
                       *samples, wish.batch));
  auto module = std::make_shared<FileModel>(std::move(model), samples, path);
  init_all_states(*module, wish.batch);
  return {module, {zeros({wish.batch, wish.inputs}, wish.dtype)}};
}

}  // namespace etrace::train
