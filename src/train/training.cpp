// The run: making its parts fit, one batch, scores, checkpoints.
#include "train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest.h"
#include "base/wrap.h"
#include "compiler/explain_text.h"
#include "etrace/error.h"
#include "etrace/layered.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "etrace/verify.h"
#include "io/step_outputs.h"
#include "train/engine.h"
#include "train/file_model.h"
#include "train/padding.h"
#include "train/rule_text.h"
#include "train/run_model.h"

namespace etrace::train {

namespace {

constexpr const char* kBatches = "batches";
constexpr double kLeastRate = 0.02;  // that a falling rate ends with, as a part of the highest

// "constant", "cosine over 1000 updates", with what comes before.
std::string schedule_text(const TrainSettings& s) {
  const std::string rise = s.warmup > 0 ? fmt::format(", rising for {}", s.warmup) : "";
  return s.schedule == "cosine" ? fmt::format("cosine over {} updates{}", s.updates, rise)
                                : s.schedule + rise;
}

void require_at_least_one(const char* option, std::int64_t value) {
  if (value < 1) throw ValueError("train", fmt::format("{} is {}; it must be at least 1", option, value));
}

std::unique_ptr<optim::Optimizer> optimizer_of(const TrainSettings& s, Module& model) {
  optim::MakeOptions options{.common = {.clip_norm = s.clip_norm}};
  if (s.learning_rate) options.learning_rate = *s.learning_rate;
  auto optimizer = optim::make(s.optimizer, options);
  const double peak = optimizer->schedule().at(0);
  if (s.schedule == "cosine")
    optimizer->set_learning_rate(optim::schedule::cosine(
        peak, std::max<std::int64_t>(s.updates, s.warmup + 1), s.warmup, kLeastRate * peak));
  else if (s.warmup > 0)
    optimizer->set_learning_rate(optim::schedule::linear_warmup(peak, s.warmup));
  optimizer->bind(model);
  return optimizer;
}

// Samples whose label is named by the largest of the outputs, where the mask counts them.
Array hits(const Array& outputs, const Array& labels, const Array& mask) {
  const Array right = convert(equal_to(argmax(outputs), labels), mask.dtype());
  return sum(sum(right, {static_cast<int>(right.rank()) - 1}) * mask);
}

// What learning is given of a batch: inputs, targets, mask; where samples stand still also the weight of
// every step's losses, so that their sum is the mean.
Arrays slices_of(const TaskBatch& batch) {
  Arrays out{batch.inputs, batch.targets, batch.mask};
  if (batch.active.defined())
    out.push_back(batch.mask / (sum(batch.mask) * static_cast<double>(batch.inputs.dim(1))));
  return out;
}

// The same where single samples stand still: the mask of the learner says which, and the losses of samples
// are weighed here.
StepFunction padded_step_of(const Task& task, bool windows) {
  const auto loss = loss::find(task.spec().loss).function;
  const bool counts = has_accuracy(task);
  return [loss, counts, windows](StepCall& model, ArraySpan slices) {
    const Array output = windows ? model(MultiStepData{slices[0]}) : model(slices[0]);
    const Function one = [&](ArraySpan a) { return Arrays{loss(a[0], a[1])}; };
    const Function samples = [&](ArraySpan a) { return vmap(one)(a); };
    const Arrays pair{output, slices[1]};
    const Array losses = windows ? vmap(samples)(pair)[0] : samples(pair)[0];
    LossAndAux out{losses * (windows ? expand_dims(slices[3], {1}) : slices[3])};
    if (counts) out.aux = {hits(output, slices[1], slices[2])};
    return out;
  };
}

// The loss of a step (of each of a window), and the hits for the accuracy. Slices: inputs, targets, mask.
StepFunction step_of(const Task& task, bool windows) {
  if (task.has_padding()) return padded_step_of(task, windows);
  const auto loss = loss::find(task.spec().loss).function;
  const bool counts = has_accuracy(task);
  return [loss, counts, windows](StepCall& model, ArraySpan slices) {
    const Array output = windows ? model(MultiStepData{slices[0]}) : model(slices[0]);
    const Function each = [&](ArraySpan a) { return Arrays{loss(a[0], a[1])}; };
    LossAndAux out{windows ? vmap(each)(Arrays{output, slices[1]})[0] : loss(output, slices[1])};
    if (counts) out.aux = {hits(output, slices[1], slices[2])};
    return out;
  };
}

// Reverse mode through whole sequences: inputs, targets, mask, and which samples have the step.
Arrays whole_slices_of(const TaskBatch& batch) {
  Arrays out{batch.inputs, batch.targets, batch.mask};
  if (batch.active.defined()) out.push_back(batch.active);
  return out;
}
Model stepped(const Model& model, const Task& task) {
  return task.has_padding() ? with_padding(model, result_types(model).at(0).shape[0], task.spec().dtype)
                            : model;
}
StepFunction whole_step_of(const Task& task) {
  if (!task.has_padding()) return step_of(task, false);
  const auto loss = loss::find(task.spec().loss).function;
  return [loss, counts = has_accuracy(task)](StepCall& model, ArraySpan slices) {
    const Array output = model({slices[0], slices[3]})[0];
    LossAndAux out{loss(output, slices[1])};
    if (counts) out.aux = {hits(output, slices[1], slices[2])};
    return out;
  };
}

bool can(const LearningRule& rule, VjpMethod method) {
  try {
    rule.require(method);
    return true;
  } catch (const NotSupportedError&) {
    return false;
  }
}

VjpMethod method_of(const TrainSettings& s, const LearningRule& rule) {
  if (s.method) {
    rule.require(*s.method);
    return *s.method;
  }
  const auto wanted = s.update == UpdateEvery::Step ? VjpMethod::SingleStep : VjpMethod::MultiStep,
             other = s.update == UpdateEvery::Step ? VjpMethod::MultiStep : VjpMethod::SingleStep;
  return can(rule, wanted) ? wanted : other;
}

std::int64_t steps_per_update(const TrainSettings& s, const LearningWay& way, std::int64_t steps) {
  if (s.update == UpdateEvery::Step) return 1;
  return s.update == UpdateEvery::Window ? way.window : steps;
}

std::string update_text(const TrainSettings& s, const LearningWay& way) {
  switch (s.update) {
    case UpdateEvery::Step:
      return "step";
    case UpdateEvery::Window:
      return fmt::format("window of {}", way.window);
    case UpdateEvery::Sequence:
      break;
  }
  return "sequence";
}

const std::string* find(const Learner::Notes& notes, std::string_view key) {
  const auto it = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == key; });
  return it == notes.end() ? nullptr : &it->second;
}

std::int64_t batches_of(const Learner::Notes& notes, const std::string& path) {
  const std::string* text = find(notes, kBatches);
  std::int64_t n = -1;
  if (text != nullptr) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
    if (error != std::errc() || end != text->data() + text->size()) n = -1;
  }
  if (n < 0)
    throw ValueError("train",
                     fmt::format("'{}' does not say how many batches were learned: it is no checkpoint of "
                                 "`etrace train`",
                                 path));
  return n;
}

void require_same(const Learner::Notes& here, const Learner::Notes& there, const std::string& path) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : here) {
    const std::string* other = find(there, key);
    if (other == nullptr || *other != value)
      differences.push_back(fmt::format("{} is {} there and {} here", key,
                                        other == nullptr || other->empty() ? "not given" : *other,
                                        value.empty() ? "not given" : value));
  }
  if (!differences.empty())
    throw ValueError("train",
                     fmt::format("'{}' is the checkpoint of another run: {}. Resume with the same settings, "
                                 "or start anew with another --checkpoint",
                                 path, fmt::join(differences, "; ")));
}

}  // namespace

std::int64_t score_batches(const Task& task, Part part, std::int64_t batch_size, std::int64_t otherwise) {
  const std::optional<std::int64_t> samples = task.samples(part);
  return samples ? (*samples + batch_size - 1) / batch_size : otherwise;
}

LearningWay learning_way(const TrainSettings& s, const LearningRule& rule, std::int64_t steps) {
  if (is_bptt(s.rule)) {
    if (s.update != UpdateEvery::Sequence)
      throw ValueError("train", "BPTT goes back from the end of a sequence: --update must be sequence");
    return {VjpMethod::MultiStep, steps};
  }
  LearningWay way{method_of(s, rule), 1};
  if (s.window < 0) require_at_least_one("--window", s.window);
  if (s.update == UpdateEvery::Step) {
    if (s.window > 1)
      throw ValueError(
          "train", fmt::format("--window {}, but --update is step: a window has one step then", s.window));
    return way;
  }
  if (s.window != 0 && way.method == VjpMethod::SingleStep && s.update == UpdateEvery::Sequence)
    throw ValueError("train",
                     fmt::format("--window {} is for --method multi-step or --update window, but the "
                                 "method is single-step and --update is sequence",
                                 s.window));
  way.window = std::min(s.window != 0 ? s.window : kDefaultWindow, steps);
  return way;
}

Training::Training(const TrainSettings& given) : settings_(resolved(given)) {
  const TrainSettings& settings = settings_;
  require_at_least_one("--hidden", settings.hidden);
  require_at_least_one("--batch", settings.batch);
  task_ = task_of(settings);
  if (settings.prefetch) ahead_ = std::make_unique<BatchAhead>(*task_, settings.batch);
  const std::int64_t steps = task_->spec().steps;
  const auto rule = rule_from(settings.rule, settings.rule_options);
  way_ = learning_way(settings, *rule, steps);
  const std::int64_t every = steps_per_update(settings, way_, steps);
  updates_per_batch_ = (steps + every - 1) / every;
  ready_ = model_of(settings, *task_);
  watch_ = std::make_unique<ActivityWatch>(ready_.module, ready_.example, settings.backend);
  learner_ = std::make_unique<Learner>(compile(*ready_.module, *rule, ready_.example,
                                               {.batch_size = settings.batch,
                                                .seed = settings.seed,
                                                .vjp_method = way_.method,
                                                .backend = settings.backend}));
  optimizer_ = optimizer_of(settings, *ready_.module);
  evaluator_ = std::make_unique<Evaluator>(*ready_.module, learner_->graph().module_info.model, *task_,
                                           settings.backend);
  step_ = step_of(*task_, way_.method == VjpMethod::MultiStep && way_.window > 1);
  texts_ = complete_texts();
}

TrainOptions Training::train_options(const TaskBatch& batch) const {
  TrainOptions options;
  options.mask = batch.mask;
  if (batch.active.defined()) {
    options.mask = batch.active;
    options.freeze = true;
    options.reduction = Reduction::Sum;
  }
  options.update = settings_.update;
  options.window = way_.window;
  if (way_.method == VjpMethod::MultiStep) options.chunk_size = way_.window;
  return options;
}

LearnerPlan Training::programs(Learner::PlanForm form) const {
  const TaskBatch batch = task_->batch(0, settings_.batch);
  Avals slices;
  for (const Array& a : slices_of(batch)) slices.push_back({a.dtype(), a.shape().without(0)});
  LearnerPlan out =
      learner_->train_plan(slices, task_->spec().steps, step_, *optimizer_, train_options(batch), form);
  std::size_t scores = 0;
  for (Program& p : evaluator_->programs()) {
    if (form == Learner::PlanForm::AsCompiled) p = lean(std::move(p));
    if (scores++ > 0) p.name = fmt::format("{}_{}", p.name, scores);
    out.programs.push_back(std::move(p));
  }
  return out;
}

std::vector<Program> Training::compiled() const {
  std::vector<Program> out = learner_->compiled(), scores = evaluator_->compiled();
  out.insert(out.end(), scores.begin(), scores.end());
  return out;
}

Score Training::learn() {
  const auto number = static_cast<std::uint64_t>(batches_);
  const TaskBatch batch = ahead_ ? (*ahead_)(number) : task_->batch(number, settings_.batch);
  learner_->reset_state();
  learner_->reset_model_state();
  if (is_bptt()) return learn_whole(batch);
  const SequenceTraining r =
      learner_->etrace_train(slices_of(batch), step_, *optimizer_, train_options(batch));
  ++batches_;
  Score score{r.loss};
  if (has_accuracy())
    score.accuracy = to_double(sum(r.aux[0]).tensor().at(0)) /
                     (to_double(sum(batch.mask).tensor().at(0)) * static_cast<double>(settings_.batch));
  return score;
}

bool Training::is_bptt() const { return train::is_bptt(settings_.rule); }

WholeSequence& Training::whole_sequence() {
  if (!whole_)
    whole_ =
        std::make_unique<WholeSequence>(*ready_.module, stepped(learner_->graph().module_info.model, *task_),
                                        whole_step_of(*task_), settings_.backend);
  return *whole_;
}

Score Training::learn_whole(const TaskBatch& batch) {
  const WholeSequence::Result r = whole_sequence()(whole_slices_of(batch), batch.mask);
  optimizer_->update(r.grads);
  ++batches_;
  Score score{r.loss};
  if (has_accuracy())
    score.accuracy = sum(Array(r.aux[0])).item<double>() /
                     (sum(batch.mask).item<double>() * static_cast<double>(settings_.batch));
  return score;
}

Training::Fidelity Training::fidelity() {
  Fidelity out;
  if (is_bptt()) return out;
  const TaskBatch batch = task_->batch(first_batch(Part::Check), settings_.batch);
  learner_->reset_state();
  learner_->reset_model_state();
  const ParamValues online = learner_->etrace_grad(slices_of(batch), step_, train_options(batch)).grads;
  const ParamValues exact = whole_sequence()(whole_slices_of(batch), batch.mask).grads;
  std::vector<double> all_online, all_exact;
  for (std::size_t i = 0; i < exact.leaves.size(); ++i) {
    if (!exact.values[i].defined()) continue;
    const std::string name = to_string(exact.leaves[i]);
    const std::vector<double> b = exact.values[i].tensor().to_doubles();
    const Array& value = online.at(name);
    const std::vector<double> a =
        value.defined() ? value.tensor().to_doubles() : std::vector<double>(b.size(), 0.0);
    const Agreement each = agreement(Tensor::of(a, Shape{static_cast<std::int64_t>(a.size())}),
                                     Tensor::of(b, Shape{static_cast<std::int64_t>(b.size())}));
    out.leaves.push_back({name, each.cosine, each.norm_ratio});
    all_online.insert(all_online.end(), a.begin(), a.end());
    all_exact.insert(all_exact.end(), b.begin(), b.end());
  }
  const Shape all{static_cast<std::int64_t>(all_exact.size())};
  const Agreement total = agreement(Tensor::of(all_online, all), Tensor::of(all_exact, all));
  out.cosine = total.cosine;
  out.norm_ratio = total.norm_ratio;
  return out;
}

Score Training::score(Part part, std::int64_t batches) {
  return (*evaluator_)(first_batch(part), score_batches(part, batches), settings_.batch);
}

Judgement Training::judged(const Score& score, std::int64_t batches) const {
  const std::int64_t count = score_batches(Part::Final, batches);
  const Score guess = best_constant(*task_, first_batch(Part::Final), count, settings_.batch);
  return judge(task_row(settings_), score, guess,
               task_->samples(Part::Final).value_or(count * settings_.batch));
}

std::vector<LayerActivity> Training::activity() {
  if (!watch_->has_neurons()) return {};
  return (*watch_)(task_->batch(first_batch(Part::Check), settings_.batch));
}

std::vector<SeenActivity> Training::seen_activity(std::int64_t samples) {
  learner_->reset_model_state();
  return watch_->seen(task_->batch(first_batch(Part::Check), settings_.batch), samples);
}

std::int64_t Training::trace_bytes() const { return is_bptt() ? 0 : learner_->trace_bytes(); }

double Training::highest_rate() const { return optimizer_->schedule().at(settings_.warmup); }

std::string Training::rule_description() const {
  return is_bptt() ? "BPTT, reverse mode through whole sequences" : learner_->describe();
}

Learner::Notes Training::complete_texts() const {
  const TrainSettings& s = settings_;
  Learner::Notes out = data_texts(s);
  out.emplace_back("--memory", fmt::to_string(memory_of(s, *task_)));
  out.emplace_back("--rule", rule_description());
  out.emplace_back("--optimizer", std::string(optimizer_->name()));
  out.emplace_back("--lr", fmt::to_string(highest_rate()));
  out.emplace_back("--schedule", schedule_text(s));
  out.emplace_back("--clip-norm", fmt::to_string(s.clip_norm.value_or(0.0)));
  out.emplace_back("--update", update_text(s, way_));
  if (way_.method == VjpMethod::MultiStep) out.emplace_back("--window", std::to_string(way_.window));
  return out;
}

std::string Training::learned_text() const {
  if (is_bptt()) return {};
  const CompilationReport report = learner_->report();
  std::vector<std::string> online;  // a leaf may have several traces
  for (const auto& w : report.etrace_weights)
    if (std::find(online.begin(), online.end(), w.name) == online.end()) online.push_back(w.name);
  std::string text =
      wrapped("  learned online, through time:", 4, fmt::format("{}", fmt::join(online, ", ")));
  if (report.excluded_weights.empty()) return text;
  text += way_.window > 1 && way_.method == VjpMethod::MultiStep
              ? fmt::format("  learned within windows of {} steps:\n", way_.window)
              : "  learned from the current step alone:\n";
  for (const auto& w : report.excluded_weights)
    text += wrapped("", 4, fmt::format("{}: {}", w.name, w.reason ? meaning(*w.reason) : kNoOperator));
  return text;
}

std::string Training::summary() const {
  const TrainSettings& s = settings_;
  std::string text = task_text(s, *task_);
  text += fmt::format(
      "{}, rule {}{}, batches of {}\n", model_text(s, *task_), rule_description(),
      way_.method == VjpMethod::MultiStep && !is_bptt()
          ? fmt::format(" in windows of {}", counted(static_cast<std::size_t>(way_.window), "step"))
          : "",
      s.batch);
  text += learned_text();
  text += is_bptt() ? "  no traces: the states of a whole sequence are kept, however long it is\n"
                    : fmt::format("  traces: {}, whatever the length of the sequences\n",
                                  bytes_text(trace_bytes()));
  text += fmt::format(
      "optimizer {}, learning rate {}{}, gradients {}, an update per {}\n", optimizer_->name(),
      highest_rate(), schedule_text(s) == "constant" ? "" : "\n  (" + schedule_text(s) + ")",
      s.clip_norm ? fmt::format("clipped to norm {}", *s.clip_norm) : "not clipped", update_text(s, way_));
  return text + engine_text(s.backend);
}

Learner::Notes Training::parameter_texts() const {
  Learner::Notes out = texts_;
  out.emplace_back("sizes", sizes_text(settings_, *task_));
  for (auto& fact : task_->facts()) out.push_back(std::move(fact));
  return out;
}

void Training::save(const std::string& checkpoint, const Learner::Notes& more) const {
  Learner::Notes notes = texts_;
  notes.emplace_back(kBatches, std::to_string(batches_));
  for (auto& fact : task_->facts()) notes.push_back(std::move(fact));
  notes.insert(notes.end(), more.begin(), more.end());
  learner_->save(checkpoint, optimizer_.get(), notes);
}

Learner::Notes Training::resume(const std::string& checkpoint, bool new_rate) {
  const TensorFile file = load_checkpoint(checkpoint);
  Learner::Notes notes = checkpoint_notes(file), wanted = texts_;
  const std::int64_t batches = batches_of(notes, checkpoint);
  if (new_rate)
    std::erase_if(wanted,
                  [](const auto& note) { return note.first == "--lr" || note.first == "--schedule"; });
  require_same(wanted, notes, checkpoint);
  learner_->restore(file, optimizer_.get());
  batches_ = batches;
  return notes;
}

}  // namespace etrace::train
