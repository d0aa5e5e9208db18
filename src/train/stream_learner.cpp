// A model that answers and learns line by line; see etrace/stream.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/models.h"
#include "etrace/stream.h"
#include "io/json.h"
#include "train/rule_text.h"
#include "train/saved_parameters.h"

namespace etrace {

namespace {

constexpr const char *kInputs = "stream inputs", *kLabel = "stream label", *kClasses = "stream classes",
                     *kScores = "stream scores", *kMeasure = "stream normalisation", *kLoss = "stream loss";

// Mean and variance of a channel, of all until the horizon, of about so many behind it.
struct Measure {
  double count = 0, mean = 0, square = 0;

  void add(double x, double horizon) {
    count = std::min(count + 1, horizon);
    const double before = x - mean;
    mean += before / count;
    square += (before * (x - mean) - square) / count;
  }
  double of(double x) const { return square > 1e-24 ? (x - mean) / std::sqrt(square) : 0.0; }
};

const std::string* find_note(const Learner::Notes& notes, std::string_view key) {
  const auto at = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == key; });
  return at == notes.end() ? nullptr : &at->second;
}

std::string list_text(const std::vector<std::string>& list) { return json_text(Json(list)); }

std::vector<std::string> list_of(const std::string& text, const std::string& path) {
  const std::optional<Json> json = json_of(text);
  const auto out = json ? said<std::vector<std::string>>(*json, "") : std::nullopt;
  if (!out) throw ValueError("stream", fmt::format("'{}' holds a list that cannot be read", path));
  return *out;
}

const std::string& required(const Learner::Notes& notes, const char* key, const std::string& path) {
  const std::string* text = find_note(notes, key);
  if (text == nullptr)
    throw ValueError("stream",
                     fmt::format("'{}' is no checkpoint of a stream: it does not say its {}", path, key));
  return *text;
}

void require_stream(const StreamSettings& s, const StreamKind& kind) {
  if (kind.inputs.empty()) throw ValueError("stream", "the stream has no column of numbers");
  if (kind.classes.size() < 2)
    throw ValueError(
        "stream",
        fmt::format("{} among the lines that were looked at ({}); name all that may come: "
                    "--set classes=A,B",
                    kind.classes.empty() ? "no class" : "one class", fmt::join(kind.classes, ", ")));
  if (s.hidden < 1) throw ValueError("stream", fmt::format("hidden is {}; expected 1 or more", s.hidden));
  if (s.horizon < 2) throw ValueError("stream", fmt::format("horizon is {}; expected 2 or more", s.horizon));
  if (find_builtin_model(s.model) == nullptr)
    throw ValueError(
        "stream", fmt::format("there is no built-in model '{}'; `etrace train --help` lists them", s.model));
}

Dims sizes_of(const StreamSettings& s, const StreamKind& kind) {
  Dims sizes(find_builtin_model(s.model)->sizes.size(), s.hidden);
  sizes.front() = static_cast<std::int64_t>(kind.inputs.size() + (s.last_label ? kind.classes.size() : 0));
  sizes.back() = static_cast<std::int64_t>(kind.classes.size());
  return sizes;
}

}  // namespace

struct StreamLearner::Impl {
  ReadyModel ready;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Learner> learner;
  std::vector<Measure> measures;  // per input
  double loss = 0.0, loss_weight = 0.0;
  // What a step is given: filled anew each time.
  std::vector<std::byte> input;
  std::int32_t label = 0;
  Array x, y;
  std::vector<double> values;  // of the inputs

  double keep(std::int64_t window) const { return 1.0 - 1.0 / static_cast<double>(window); }
};

StreamLearner::StreamLearner(const StreamSettings& settings, const StreamKind& kind)
    : settings_((require_stream(settings, kind), settings)),
      kind_(kind),
      score_(static_cast<std::int64_t>(kind.classes.size()), settings.window),
      impl_(std::make_unique<Impl>()) {
  const StreamSettings& s = settings_;
  Impl& m = *impl_;
  const Dims sizes = sizes_of(s, kind_);
  m.ready =
      make_model(s.model, {.sizes = sizes, .batch = 1, .dtype = s.dtype, .seed = s.seed, .memory = s.memory});
  const auto rule = train::rule_from(s.rule, s.rule_options);
  m.learner = std::make_unique<Learner>(compile(*m.ready.module, *rule, m.ready.example,
                                                {.batch_size = 1,
                                                 .seed = s.seed,
                                                 .vjp_method = VjpMethod::SingleStep,
                                                 .backend = s.backend,
                                                 .not_finite = NotFinite::Skip}));
  optim::MakeOptions options{.common = {.clip_norm = s.clip_norm}};
  if (s.learning_rate) options.learning_rate = *s.learning_rate;
  m.optimizer = optim::make(s.optimizer, options);
  m.optimizer->bind(*m.ready.module);
  m.learner->bind_step(loss::cross_entropy, m.optimizer.get());
  m.measures.resize(kind_.inputs.size());
  m.values.resize(static_cast<std::size_t>(sizes.front()));
  m.input.resize(m.values.size() * size_of(s.dtype));
  m.x = Array(Tensor::over({s.dtype, Shape{1, sizes.front()}}, m.input.data()));
  m.y = Array(Tensor::over({Dtype::I32, Shape{1}}, &m.label));
}

StreamLearner::~StreamLearner() = default;

Learner& StreamLearner::learner() { return *impl_->learner; }
const Learner& StreamLearner::learner() const { return *impl_->learner; }
std::int64_t StreamLearner::left_out() const { return impl_->learner->skipped(); }

double StreamLearner::mean_loss() const {
  return impl_->loss_weight == 0.0 ? 0.0 : impl_->loss / impl_->loss_weight;
}

// Numbers and the label before them, as the model's input. The numbers are measured with this line: they are
// known when it is answered.
void StreamLearner::fill(std::span<const double> numbers) {
  Impl& m = *impl_;
  std::fill(m.values.begin(), m.values.end(), 0.0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    m.measures[i].add(numbers[i], static_cast<double>(settings_.horizon));
    m.values[i] = settings_.normalise ? m.measures[i].of(numbers[i]) : numbers[i];
  }
  if (settings_.last_label && score_.last_label() >= 0)
    m.values[numbers.size() + static_cast<std::size_t>(score_.last_label())] = 1.0;
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    const auto narrow = static_cast<float>(m.values[i]);
    if (settings_.dtype == Dtype::F64)
      std::memcpy(m.input.data() + i * sizeof(double), &m.values[i], sizeof(double));
    else
      std::memcpy(m.input.data() + i * sizeof(float), &narrow, sizeof(float));
  }
}

StreamLearner::Answer StreamLearner::step(std::span<const double> numbers, std::int32_t label) {
  Impl& m = *impl_;
  if (numbers.size() != kind_.inputs.size())
    throw ValueError("stream", fmt::format("a line has {} inputs, the stream has {}", numbers.size(),
                                           kind_.inputs.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!data::is_data_number(numbers[i]))
      throw ValueError("stream", fmt::format("the input {} is not finite, or beyond 1e38: {}",
                                             kind_.inputs[i], numbers[i]));
  if (label < 0 || label >= static_cast<std::int32_t>(kind_.classes.size()))
    throw ValueError("stream", fmt::format("there is no class {}; the stream has {}", label,
                                           fmt::join(kind_.classes, ", ")));
  fill(numbers);
  m.label = label;
  const std::int64_t before = left_out();
  const Learner::StepResult& r = m.learner->step(m.x, m.y);
  // The results are of the parameters before the update.
  const std::vector<double> outputs = r.results[0].tensor().to_doubles();
  const auto best = std::max_element(outputs.begin(), outputs.end());
  Answer out{static_cast<std::int32_t>(best - outputs.begin()), r.loss, false, left_out() == before};
  if (std::isfinite(out.loss)) {
    const double keep = m.keep(settings_.window);
    m.loss = keep * m.loss + out.loss;
    m.loss_weight = keep * m.loss_weight + 1.0;
  }
  out.drift = score_.add(out.answer, label);
  return out;
}

Learner::Notes StreamLearner::setting_texts() const {
  const StreamSettings& s = settings_;
  return {{"task", "stream"},
          {"--model", s.model},
          {"--hidden", std::to_string(s.hidden)},
          {"--rule", impl_->learner->describe()},
          {"--optimizer", s.optimizer},
          {"--lr", fmt::to_string(impl_->optimizer->schedule().at(0))},
          {"--clip-norm", fmt::to_string(s.clip_norm.value_or(0.0))},
          {"--memory", fmt::to_string(s.memory)},
          {"--seed", std::to_string(s.seed)},
          {"--dtype", std::string(short_name(s.dtype))},
          {"--set last_label", s.last_label ? "1" : "0"},
          {"--set normalise", s.normalise ? "1" : "0"},
          {"--set horizon", std::to_string(s.horizon)},
          {"--set window", std::to_string(s.window)},
          {kInputs, list_text(kind_.inputs)},
          {kLabel, kind_.label},
          {kClasses, list_text(kind_.classes)}};
}

void StreamLearner::save(const std::string& checkpoint, const Learner::Notes& notes) const {
  const Impl& m = *impl_;
  Learner::Notes all = setting_texts();
  auto measures = Json::array();  // numbers are written so that they are read as the same
  for (const Measure& each : m.measures) measures.push_back({each.count, each.mean, each.square});
  all.emplace_back(kScores, score_.text());
  all.emplace_back(kMeasure, json_text(measures));
  all.emplace_back(kLoss, json_text(Json{m.loss, m.loss_weight}));
  all.insert(all.end(), notes.begin(), notes.end());
  m.learner->save(checkpoint, m.optimizer.get(), all);
}

Learner::Notes StreamLearner::resume(const std::string& checkpoint, bool new_rate) {
  Impl& m = *impl_;
  const TensorFile file = load_checkpoint(checkpoint);
  Learner::Notes notes = train::checkpoint_notes(file);
  std::vector<std::string> differences;
  for (const auto& [key, here] : setting_texts()) {
    const std::string& there = required(notes, key.c_str(), checkpoint);
    if (there != here && !(new_rate && key == "--lr"))
      differences.push_back(fmt::format("{} is {} there and {} here", key, there, here));
  }
  if (!differences.empty())
    throw ValueError("stream", fmt::format("'{}' is the checkpoint of another stream: {}", checkpoint,
                                           fmt::join(differences, "; ")));
  using Numbers = std::vector<double>;
  const auto numbers = [&](const char* key) {
    return json_of(required(notes, key, checkpoint)).value_or(Json());
  };
  const auto measures = said<std::vector<Numbers>>(numbers(kMeasure), "");
  const auto loss = said<Numbers>(numbers(kLoss), "");
  bool sound = measures && loss && loss->size() == 2 && measures->size() == m.measures.size();
  std::vector<Measure> taken;
  for (std::size_t i = 0; sound && i < measures->size(); ++i) {
    const Numbers& each = (*measures)[i];
    sound = each.size() == 3;
    if (sound) taken.push_back({each[0], each[1], each[2]});
  }
  if (!sound) throw ValueError("stream", fmt::format("the normalisation in '{}' cannot be read", checkpoint));
  Prequential score = score_;
  score.take(required(notes, kScores, checkpoint));
  m.learner->restore(file, m.optimizer.get());
  m.loss = (*loss)[0];
  m.loss_weight = (*loss)[1];
  m.measures = std::move(taken);
  score_ = std::move(score);
  return notes;
}

StreamKind stream_kind(const std::string& checkpoint) {
  const Learner::Notes notes = train::checkpoint_notes(load_checkpoint(checkpoint));
  return {list_of(required(notes, kInputs, checkpoint), checkpoint), required(notes, kLabel, checkpoint),
          list_of(required(notes, kClasses, checkpoint), checkpoint)};
}

}  // namespace etrace
