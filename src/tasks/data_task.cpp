#include "tasks/data_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace {

namespace {

using Indices = std::vector<std::size_t>;

Indices permuted(const Array& key, const Indices& from) {
  const Tensor order = random::permutation(key, static_cast<std::int64_t>(from.size())).tensor();
  Indices out;
  for (const std::int32_t i : order.data<std::int32_t>()) out.push_back(from[static_cast<std::size_t>(i)]);
  return out;
}

// Moves a part of `from` to `to`: so much of its samples, or all samples of so much of its groups.
void take_part(const data::Dataset& d, const Array& key, double part, bool by_group, Indices& from,
               Indices& to) {
  std::map<std::string, Indices> units;  // what is not to be torn apart
  for (const std::size_t i : from) units[by_group ? d.samples[i].group : std::to_string(i)].push_back(i);
  std::vector<const Indices*> all;
  for (const auto& [name, members] : units) all.push_back(&members);
  Indices numbers(all.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  const auto count = static_cast<std::size_t>(std::llround(part * static_cast<double>(all.size())));
  const Indices order = permuted(key, numbers);
  for (std::size_t k = 0; k < count; ++k) to.insert(to.end(), all[order[k]]->begin(), all[order[k]]->end());
  std::sort(to.begin(), to.end());
  std::erase_if(from, [&](std::size_t i) { return std::binary_search(to.begin(), to.end(), i); });
}

bool lengths_differ(const data::Dataset& d) {
  return std::any_of(d.samples.begin(), d.samples.end(),
                     [&](const data::Sample& s) { return s.steps != d.samples.front().steps; });
}

std::int64_t longest(const data::Dataset& d) {
  std::int64_t steps = 0;
  for (const data::Sample& s : d.samples) steps = std::max(steps, s.steps);
  return steps;
}

Task::Spec spec_of(const data::Dataset& d, const DataTaskOptions& o) {
  if (d.samples.empty()) throw ValueError("data", fmt::format("{} holds no samples", d.name));
  if (d.classes.size() < 2)
    throw ValueError("data", fmt::format("{} has {}; a classifier needs two or more", d.name,
                                         d.classes.empty() ? "no labels" : "one class"));
  return {.name = o.name,
          .num_inputs = d.channels,
          .num_outputs = static_cast<std::int64_t>(d.classes.size()),
          .steps = longest(d),
          .seed = o.seed,
          .dtype = o.dtype,
          .classes = d.classes};
}

}  // namespace

DataTask::DataTask(std::shared_ptr<const data::Dataset> data, const DataTaskOptions& o)
    : Task(spec_of(*data, o)), data_(std::move(data)), frozen_(o.frozen && lengths_differ(*data_)) {
  split(o);
  if (o.normalise) measure();
}

void DataTask::split(const DataTaskOptions& o) {
  Indices &train = parts_[0], &check = parts_[1], &final = parts_[2];
  for (std::size_t i = 0; i < data_->samples.size(); ++i) {
    const data::Given part = data_->samples[i].part;
    (part == data::Given::Test ? final : part == data::Given::Valid ? check : train).push_back(i);
  }
  if (o.by_group && std::all_of(data_->samples.begin(), data_->samples.end(),
                                [](const data::Sample& s) { return s.group.empty(); }))
    throw ValueError(
        "data",
        fmt::format("{} names no groups (speakers, users …); leave out the split by group", data_->name));
  const Array key = random::fold_in(random::key(spec().seed), 0x5117);
  const bool test_given = !final.empty(), valid_given = !check.empty();
  if (!test_given) take_part(*data_, random::fold_in(key, 0), o.test, o.by_group, train, final);
  if (!valid_given) take_part(*data_, random::fold_in(key, 1), o.valid, o.by_group, train, check);
  for (const Part part : {Part::Train, Part::Check, Part::Final})
    if (parts_[static_cast<std::size_t>(part)].empty())
      throw ValueError(
          "data",
          fmt::format("{} leaves no sample for {}: {} samples, of which test is {} and valid {}", data_->name,
                      part == Part::Train   ? "training"
                      : part == Part::Check ? "checks"
                                            : "the final score",
                      data_->samples.size(), o.test, o.valid));
  split_text_ = fmt::format("{} samples to train on, {} for checks{}, {} for the final score{}", train.size(),
                            check.size(), valid_given ? " (as the data has them)" : "", final.size(),
                            test_given ? " (as the data has them)" : "");
}

void DataTask::measure() {
  const auto channels = static_cast<std::size_t>(data_->channels);
  std::vector<double> sum(channels), square(channels);
  std::vector<float> series;
  double count = 0.0;
  for (const std::size_t i : parts_[0]) {
    series.resize(static_cast<std::size_t>(data_->samples[i].steps) * channels);
    data_->write(i, series.data());
    for (std::size_t k = 0; k < series.size(); ++k) {
      sum[k % channels] += series[k];
      square[k % channels] += static_cast<double>(series[k]) * series[k];
    }
    count += static_cast<double>(data_->samples[i].steps);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count, variance = std::max(0.0, square[c] / count - mean * mean);
    mean_.push_back(static_cast<float>(mean));
    scale_.push_back(variance > 1e-12 ? static_cast<float>(1.0 / std::sqrt(variance)) : 0.0F);
  }
}

std::optional<std::int64_t> DataTask::samples(Part part) const {
  if (part == Part::Train) return std::nullopt;  // its epochs follow each other without an end
  return static_cast<std::int64_t>(parts_[static_cast<std::size_t>(part)].size());
}

std::string DataTask::about() const {
  std::string text =
      fmt::format("  data {}: {}\n  {}; {}\n", data_->name, describe(*data_), split_text_,
                  mean_.empty() ? "channels are as they are" : "channels normalised over the training part");
  for (const data::DataFile& f : data_->files) text += fmt::format("  file {}, {} bytes\n", f.path, f.bytes);
  if (lengths_differ(*data_))
    text += frozen_ ? "  shorter series stand still before their first step\n"
                    : "  zeros come in before the first step of shorter series\n";
  for (const std::string& note : data_->notes) text += fmt::format("  {}\n", note);
  return text;
}

std::vector<std::pair<std::string, std::string>> DataTask::facts() const {
  std::vector<std::pair<std::string, std::string>> out{
      {"data classes", fmt::format("{}", fmt::join(data_->classes, "\n"))},
      {"data steps", std::to_string(spec().steps)},
      {"data padding", frozen_ ? "frozen" : "zeros"}};
  const data::Columns& columns = data_->columns;
  if (!columns.inputs.empty())
    out.emplace_back("data inputs", fmt::format("{}", fmt::join(columns.inputs, "\n")));
  if (!columns.label.empty()) out.emplace_back("data label", columns.label);
  if (!columns.series.empty()) out.emplace_back("data series", columns.series);
  if (mean_.empty()) return out;
  out.emplace_back("data mean", fmt::format("{}", fmt::join(mean_, ",")));
  out.emplace_back("data scale", fmt::format("{}", fmt::join(scale_, ",")));
  return out;
}

void DataTask::write(std::size_t sample, float* out) const {
  const auto channels = static_cast<std::size_t>(data_->channels);
  const std::size_t real = static_cast<std::size_t>(data_->samples[sample].steps) * channels,
                    padding = static_cast<std::size_t>(spec().steps) * channels - real;
  std::fill_n(out, padding, 0.0F);
  data_->write(sample, out + padding);
  if (mean_.empty()) return;
  for (std::size_t k = 0; k < real; ++k) {
    float& x = out[padding + k];
    x = (x - mean_[k % channels]) * scale_[k % channels];
    if (!std::isfinite(x))
      throw ValueError("data",
                       fmt::format("{}, sample {}, step {}: channel {} is too far from what was learned "
                                   "from (mean {}, deviation {})",
                                   data_->name, sample, k / channels, channel_name(k % channels),
                                   mean_[k % channels], 1.0F / scale_[k % channels]));
  }
}

std::string DataTask::channel_name(std::size_t c) const {
  const auto& names = data_->columns.inputs;
  return names.size() == static_cast<std::size_t>(data_->channels) ? names[c] : std::to_string(c);
}

// Training goes on from epoch to epoch; other parts end, and their last batch is filled up with its first
// sample.
std::vector<std::size_t> DataTask::chosen(const Draw& d, std::int64_t& counted) const {
  const Indices& part = parts_[static_cast<std::size_t>(d.part)];
  const auto n = static_cast<std::uint64_t>(part.size()), size = static_cast<std::uint64_t>(d.size);
  Indices out;
  counted = d.size;
  if (d.part != Part::Train) {
    const std::uint64_t first = d.index * size % ((n + size - 1) / size * size);
    for (std::uint64_t k = first; k < first + size && k < n; ++k) out.push_back(part[k]);
    counted = static_cast<std::int64_t>(out.size());
    while (out.size() < size) out.push_back(out.front());
    return out;
  }
  const std::lock_guard<std::mutex> hold(order_lock_);
  for (std::uint64_t k = d.index * size; k < (d.index + 1) * size; ++k) {
    if (k / n != epoch_ || order_.empty()) {
      epoch_ = k / n;
      order_ =
          permuted(random::fold_in(random::key(spec().seed),
                                   full({}, static_cast<std::int64_t>(epoch_ & 0xffffffffU), Dtype::U32)),
                   part);
    }
    out.push_back(order_[k % n]);
  }
  return out;
}

TaskBatch DataTask::draw(const Draw& d) const {
  std::int64_t counted = 0;
  const Indices samples = chosen(d, counted);
  const std::int64_t steps = spec().steps, channels = spec().num_inputs;
  Tensor inputs = Tensor::uninitialized({Dtype::F32, Shape{steps, d.size, channels}});
  Tensor labels = Tensor::uninitialized({Dtype::I32, Shape{steps, d.size}});
  auto* x = reinterpret_cast<float*>(inputs.writable());
  auto* y = reinterpret_cast<std::int32_t*>(labels.writable());
  std::fill_n(y, steps * d.size, 0);
  std::vector<float> series(static_cast<std::size_t>(steps * channels));
  for (std::int64_t b = 0; b < d.size; ++b) {
    const std::size_t i = samples[static_cast<std::size_t>(b)];
    write(i, series.data());
    for (std::int64_t t = 0; t < steps; ++t)
      std::copy_n(series.begin() + t * channels, channels, x + (t * d.size + b) * channels);
    y[(steps - 1) * d.size + b] = data_->samples[i].label;
  }
  TaskBatch out{convert(inputs, spec().dtype), Array(labels), last_steps(steps, 1, spec().dtype)};
  out.samples = counted;
  if (!frozen_) return out;
  Tensor active = Tensor::uninitialized({Dtype::F32, Shape{steps, d.size}});
  auto* on = reinterpret_cast<float*>(active.writable());
  for (std::int64_t t = 0; t < steps; ++t)
    for (std::int64_t b = 0; b < d.size; ++b)
      on[t * d.size + b] =
          t >= steps - data_->samples[samples[static_cast<std::size_t>(b)]].steps ? 1.0F : 0.0F;
  out.active = convert(active, spec().dtype);
  return out;
}

}  // namespace etrace
