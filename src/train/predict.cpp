#include "etrace/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "learn/run/score_run.h"
#include "module/parameter_file.h"
#include "train/arrays.h"
#include "train/file_model.h"
#include "train/padding.h"
#include "train/run_folder.h"
#include "train/run_model.h"
#include "train/saved_parameters.h"

namespace etrace::train {

namespace {

struct Facts {
  std::shared_ptr<const data::Expected> expected;
  std::vector<float> mean, scale;
  std::int64_t steps = 0;
  bool frozen = false;  // before their first step, shorter series stand still
};

std::vector<float> numbers_of(const std::string* text) {
  std::vector<float> out;
  if (text == nullptr) return out;
  for (const std::string_view field : data::split(*text, ',')) {
    double value = 0.0;
    if (!data::parse_number(field, value) || !data::is_data_number(value))
      throw ValueError("predict", "the normalisation of the run cannot be read");
    out.push_back(static_cast<float>(value));
  }
  return out;
}

Facts facts_of(const SavedSettings& saved, const std::string& run) {
  const std::string* task = saved.find("task");
  Facts out{.expected = saved.expected()};
  if (task == nullptr || *task != "data" || out.expected == nullptr)
    throw ValueError(
        "predict",
        fmt::format("the run '{}' is on the task {}, not on data from a file; `etrace eval` scores it", run,
                    task == nullptr ? "of nobody" : *task));
  out.mean = numbers_of(saved.find("data mean"));
  out.scale = numbers_of(saved.find("data scale"));
  saved.number("data steps", out.steps);
  if (const std::string* padding = saved.find("data padding")) out.frozen = *padding == "frozen";
  return out;
}

std::string option_of(const SavedSettings& saved, const char* name) {
  std::string out;
  saved.text(fmt::format("--set {}", name), out);
  return out;
}

// The new data, read with the options that the run's was.
std::unique_ptr<data::Dataset> new_data(const SavedSettings& saved, const Facts& facts,
                                        const std::string& file, bool labelled) {
  data::GivenOptions options;
  const std::string read = option_of(saved, "read");
  if (!read.empty())
    for (const std::string_view pair : data::split(read, ',')) {
      const std::size_t equals = pair.find('=');
      options.emplace_back(std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
    }
  if (!labelled) {
    std::erase_if(options, [](const auto& o) { return o.first == "label"; });
    options.emplace_back("label", "none");
  }
  return data::read_data(file, option_of(saved, "format"), options, facts.expected.get());
}

// [steps, samples, channels], aligned at the end and normalised.
Tensor batch_of(const data::Dataset& data, const Facts& facts, std::size_t first, std::size_t count,
                std::int64_t batch) {
  std::int64_t steps = facts.steps;
  for (std::size_t i = first; i < first + count; ++i) steps = std::max(steps, data.samples[i].steps);
  Tensor out = Tensor::uninitialized({Dtype::F32, Shape{steps, batch, data.channels}});
  auto* x = reinterpret_cast<float*>(out.writable());
  std::fill_n(x, steps * batch * data.channels, 0.0F);
  std::vector<float> series;
  for (std::size_t k = 0; k < count; ++k) {
    const std::int64_t own = data.samples[first + k].steps;
    series.resize(static_cast<std::size_t>(own * data.channels));
    data.write(first + k, series.data());
    for (std::int64_t t = 0; t < own; ++t)
      for (std::int64_t c = 0; c < data.channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        float v = series[static_cast<std::size_t>(t * data.channels + c)];
        if (!facts.mean.empty()) v = (v - facts.mean[channel]) * facts.scale[channel];
        if (!std::isfinite(v))
          throw ValueError("predict",
                           fmt::format("sample {}, step {}: channel {} is too far from what the run has "
                                       "learned from",
                                       first + k, t, c));
        x[((steps - own + t) * batch + static_cast<std::int64_t>(k)) * data.channels + c] = v;
      }
  }
  return out;
}

// [steps, samples]: 0 where a sample stands still.
Tensor active_of(const data::Dataset& data, const Facts& facts, std::size_t first, std::size_t count,
                 std::int64_t steps, std::int64_t batch) {
  Tensor out = Tensor::uninitialized({Dtype::F32, Shape{steps, batch}});
  auto* on = reinterpret_cast<float*>(out.writable());
  std::fill_n(on, steps * batch, 1.0F);
  for (std::size_t k = 0; k < count && facts.frozen; ++k)
    for (std::int64_t t = 0; t < steps - data.samples[first + k].steps; ++t)
      on[t * batch + static_cast<std::int64_t>(k)] = 0.0F;
  return out;
}

Predictions::Row row_of(const std::vector<double>& outputs, std::size_t at, std::size_t classes) {
  const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(at);
  const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes));
  double total = 0.0;
  for (auto it = begin; it != begin + static_cast<std::ptrdiff_t>(classes); ++it)
    total += std::exp(*it - *best);
  return {static_cast<std::size_t>(best - begin), 1.0 / total, {}};
}

// Labels of the data that the run has never seen are answered wrongly, whatever the answer.
void note_unknown(const data::Dataset& data, Predictions& out) {
  const std::set<std::string> known(out.classes.begin(), out.classes.end());
  std::vector<std::string> unknown;
  for (const std::string& name : data.classes)
    if (!known.contains(name) && name != data::kNoLabel) unknown.push_back(name);
  if (!unknown.empty())
    out.notes.push_back(fmt::format("labels that the run does not know: {}", data::first_names(unknown)));
}

// The run's facts and its best parameters.
struct Trained {
  explicit Trained(const std::string& run)
      : path(require_run(run) + "/best.safetensors"),
        parameters(read_parameter_file(path)),
        saved(parameters, path),
        facts(facts_of(saved, run)) {}
  static const std::string& require_run(const std::string& run) {
    if (!RunFolder::is_run(run))
      throw ValueError("predict", fmt::format("'{}' is no folder of a run: it has no run.json", run));
    RunFolder::require_no_stream(run, "predict");
    return run;
  }
  std::string path;
  TensorFile parameters;
  SavedSettings saved;
  Facts facts;
};

// `name`: of the data, for errors.
Predictions answers(const std::string& run, const Trained& trained, const data::Dataset* data,
                    const std::string& name, const std::string& hint, const std::string& backend) {
  const auto& [path, parameters, saved, facts] = trained;
  Dims sizes;
  saved.sizes(sizes);
  if (sizes.empty() || sizes.front() != data->channels)
    throw ValueError("predict", fmt::format("{} has {} channels, and the run '{}' learned from {}{}", name,
                                            data->channels, run, sizes.empty() ? 0 : sizes.front(), hint));
  std::string model, dtype = "f32";
  saved.text("--model", model);
  saved.text("--dtype", dtype);
  const Dtype type = dtype_from_name(dtype).value_or(Dtype::F32);
  double memory = 0.0;
  saved.number("--memory", memory);
  constexpr std::int64_t kManyAtOnce = 32;
  TrainSettings s;
  saved.number("--hidden", s.hidden);
  s.dtype = type;
  take_model_words(model, run, s);
  s.batch = is_model_file(s.model) ? batch_of_model(s).value_or(kManyAtOnce) : kManyAtOnce;
  const std::int64_t batch_size = s.batch;
  const ReadyModel ready = model_for(s, sizes.front(), sizes.back(), memory, 0.0);
  take_parameters(*ready.module, parameters, path);
  const StepFunction step = [](StepCall& m, ArraySpan slices) {
    const Array out = m({slices[0], slices[1]})[0];
    return LossAndAux{sum(out) * 0.0, {out}};
  };
  ScoreRun score(with_padding(evaluating(trace_step(*ready.module, ready.example).model), batch_size, type),
                 step, Avals{ready.example[0].aval(), {type, Shape{batch_size}}}, backend);
  score.follow(*ready.module);

  if (facts.mean.size() != facts.scale.size() ||
      (!facts.mean.empty() && static_cast<std::int64_t>(facts.mean.size()) != data->channels) ||
      static_cast<std::int64_t>(facts.expected->classes.size()) != sizes.back())
    throw ValueError("predict", fmt::format("'{}' says of its data what does not fit its model", path));
  Predictions out{.classes = facts.expected->classes, .notes = data->notes};
  note_unknown(*data, out);
  for (std::size_t first = 0; first < data->samples.size(); first += static_cast<std::size_t>(batch_size)) {
    const std::size_t count =
        std::min<std::size_t>(static_cast<std::size_t>(batch_size), data->samples.size() - first);
    const Array x = convert(batch_of(*data, facts, first, count, batch_size), type);
    const Array active = convert(active_of(*data, facts, first, count, x.dim(0), batch_size), type);
    const Tensor outputs = score(Arrays{x, active}).aux[0];  // [steps, batch, classes]
    const std::vector<double> values = outputs.to_doubles();
    const std::size_t classes = out.classes.size(),
                      last = static_cast<std::size_t>((x.dim(0) - 1) * batch_size) * classes;
    for (std::size_t k = 0; k < count; ++k) {
      Predictions::Row row = row_of(values, last + k * classes, classes);
      row.label = data->classes.at(static_cast<std::size_t>(data->samples[first + k].label));
      if (row.label == data::kNoLabel) row.label.clear();
      row.name = data->samples[first + k].name;
      out.right += row.label == out.classes[row.answer];
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace

Predictions predict(const std::string& run, const std::string& file, const std::string& backend,
                    bool labelled) {
  const Trained trained(run);
  const auto data = new_data(trained.saved, trained.facts, file, labelled);
  return answers(run, trained, data.get(), fmt::format("'{}'", file),
                 labelled ? "; is it without labels? Then add --unlabelled" : "", backend);
}

Predictions predict(const std::string& run, const SeriesArrays& series, const std::string& backend) {
  const Trained trained(run);
  SeriesArrays labelled = series;
  if (!series.ys.defined() && series.xs.defined() && series.xs.rank() > 0)
    labelled.ys = zeros({series.xs.dim(0)}, Dtype::I32);
  const auto data =
      data::read_npz_data(data_file_of({.train = labelled}), "the arrays", trained.facts.expected.get());
  if (!series.ys.defined()) data->classes = {data::kNoLabel};
  return answers(run, trained, data.get(), "the data", "", backend);
}

}  // namespace etrace::train
