#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

Dataset::~Dataset() = default;

void DenseData::add(Sample sample, const std::vector<float>& values) {
  if (static_cast<std::int64_t>(values.size()) != sample.steps * channels)
    throw InternalError(
        "data", fmt::format("{} numbers for {} steps of {} channels", values.size(), sample.steps, channels));
  starts_.push_back(values_.size());
  values_.insert(values_.end(), values.begin(), values.end());
  samples.push_back(std::move(sample));
}

void DenseData::write(std::size_t sample, float* out) const {
  const auto count = static_cast<std::size_t>(samples[sample].steps * channels);
  std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(starts_[sample]), count, out);
}

void EventData::add(Sample sample, const std::vector<Event>& events) {
  for (const Event& e : events)
    if (e.step >= sample.steps || e.channel >= channels)
      throw InternalError("data",
                          fmt::format("an event in step {}, channel {} of a sample of {} steps and {} "
                                      "channels",
                                      e.step, e.channel, sample.steps, channels));
  starts_.push_back(events_.size());
  events_.insert(events_.end(), events.begin(), events.end());
  samples.push_back(std::move(sample));
}

void EventData::write(std::size_t sample, float* out) const {
  const auto size = static_cast<std::size_t>(samples[sample].steps * channels);
  std::fill_n(out, size, 0.0F);
  const std::size_t end = sample + 1 < starts_.size() ? starts_[sample + 1] : events_.size();
  for (std::size_t i = starts_[sample]; i < end; ++i)
    out[static_cast<std::size_t>(events_[i].step) * static_cast<std::size_t>(channels) +
        events_[i].channel] += 1.0F;
  if (clip > 0)
    for (std::size_t i = 0; i < size; ++i) out[i] = std::min(out[i], static_cast<float>(clip));
}

std::int32_t class_number(Dataset& data, const std::string& name) {
  const auto known = [&] {
    const auto at = data.numbers_.find(name);
    const bool is_it = at != data.numbers_.end() &&
                       static_cast<std::size_t>(at->second) < data.classes.size() &&
                       data.classes[static_cast<std::size_t>(at->second)] == name;
    return is_it ? at->second : -1;
  };
  if (const std::int32_t number = known(); number >= 0) return number;
  // Classes may have been sorted, or set by who made the data.
  if (data.numbers_.size() != data.classes.size() || data.numbers_.contains(name)) {
    data.numbers_.clear();
    for (std::size_t k = 0; k < data.classes.size(); ++k)
      data.numbers_.emplace(data.classes[k], static_cast<std::int32_t>(k));
    if (const std::int32_t number = known(); number >= 0) return number;
  }
  const auto number = static_cast<std::int32_t>(data.classes.size());
  data.numbers_.emplace(name, number);
  data.classes.push_back(name);
  return number;
}

namespace {
std::optional<double> number_of(const std::string& text) {
  double value = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Classes in another order; now[k]: the new number of class k.
void renumber(Dataset& data, std::vector<std::string> names, const std::vector<std::int32_t>& now) {
  for (Sample& s : data.samples) s.label = now[static_cast<std::size_t>(s.label)];
  data.classes = std::move(names);
}
}  // namespace

void sort_classes(Dataset& data) {
  const bool numbers = std::all_of(data.classes.begin(), data.classes.end(),
                                   [](const auto& c) { return number_of(c).has_value(); });
  std::vector<std::size_t> order(data.classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::string &x = data.classes[a], &y = data.classes[b];
    return numbers ? *number_of(x) < *number_of(y) : x < y;
  });
  std::vector<std::int32_t> now(order.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < order.size(); ++i) {
    now[order[i]] = static_cast<std::int32_t>(i);
    names.push_back(data.classes[order[i]]);
  }
  renumber(data, std::move(names), now);
}

void take_classes(Dataset& data, const std::vector<std::string>& classes) {
  if (data.classes == classes) return;
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : classes) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  std::vector<std::int32_t> now;
  std::vector<std::string> unknown;
  for (const std::string& name : data.classes) {
    const auto at = numbers.find(name);
    now.push_back(at == numbers.end() ? -1 : at->second);
    if (at == numbers.end()) unknown.push_back(name);
  }
  if (!unknown.empty())
    throw ValueError("data", fmt::format("'{}' has labels that the run does not know: {}; it knows {}",
                                         data.name, first_names(unknown), first_names(classes)));
  renumber(data, classes, now);
}

std::string describe(const Dataset& data) {
  std::int64_t shortest = data.samples.empty() ? 0 : data.samples.front().steps, longest = shortest;
  std::int64_t train = 0, valid = 0, test = 0;
  for (const Sample& s : data.samples) {
    shortest = std::min(shortest, s.steps);
    longest = std::max(longest, s.steps);
    train += s.part == Given::Train;
    valid += s.part == Given::Valid;
    test += s.part == Given::Test;
  }
  std::string text =
      fmt::format("{} samples of {} steps with {} channels, {} classes", data.samples.size(),
                  shortest == longest ? fmt::to_string(longest) : fmt::format("{} to {}", shortest, longest),
                  data.channels, data.classes.size());
  if (train + valid + test > 0)
    text += fmt::format(" ({} for training, {}{} for testing)", train,
                        valid > 0 ? fmt::format("{} for validation, ", valid) : "", test);
  return text;
}

}  // namespace etrace::data
