// N-MNIST: Train/0 … 9/*.bin and Test/0 … 9/*.bin, 34 × 34 pixels, two polarities; the folder is the label.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "base/utf8.h"
#include "data/events.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

constexpr std::uint32_t kNmnistSize = 34;

std::string part_folder(const std::string& path, const char* name) {
  for (const std::string& folder : folders_in(path)) {
    std::string lower = file_name(folder);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower == name) return folder;
  }
  return {};
}

bool holds_bins(const std::string& folder) {
  const auto files = files_in(folder);
  return std::any_of(files.begin(), files.end(), [](const auto& f) { return has_ending(f, ".bin"); });
}

bool is_nmnist(const std::string& path) {
  if (!is_folder(path)) return false;
  const std::string train = part_folder(path, "train");
  if (train.empty()) return false;
  const auto classes = folders_in(train);
  return std::any_of(classes.begin(), classes.end(), holds_bins);
}

void add_nmnist_part(EventData& data, const std::string& folder, Given part, const Binning& b,
                     std::int64_t limit, std::size_t& late) {
  std::int64_t taken = 0;
  for (const std::string& of_class : folders_in(folder)) {
    require_name("data", fmt::format("'{}'", shown_text(of_class)), "label", file_name(of_class));
    for (const std::string& file : files_in(of_class)) {
      if (!has_ending(file, ".bin") || (limit > 0 && taken >= limit)) continue;
      const std::vector<CameraEvent> events = read_nmnist_events(read_file(file), file, b.width, b.height);
      if (events.empty()) bad_byte(file, 0, "the file holds no events");
      std::int64_t steps = 0;
      const std::vector<Event> counted = binned(events, b, late, steps);
      data.add({.steps = steps, .label = class_number(data, file_name(of_class)), .part = part}, counted);
      ++taken;
    }
  }
}

std::unique_ptr<Dataset> read_nmnist(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<EventData>();
  const Binning b{.width = kNmnistSize,
                  .height = kNmnistSize,
                  .pool = static_cast<std::uint32_t>(o.whole("pool", 1, kNmnistSize)),
                  .bin_us = static_cast<std::int64_t>(o.number("bin", 0.001, 1e6) * 1000.0),
                  .steps = o.whole("steps", 1, 1000000)};
  data->channels = channels_of(b);
  data->clip = o.whole("clip", 0, 1000000);
  const std::int64_t limit = o.whole("limit", 0, 1000000000);
  std::size_t late = 0;
  const std::string train = part_folder(path, "train"), test = part_folder(path, "test");
  if (train.empty()) throw ValueError("data", fmt::format("'{}' has no folder Train", path));
  add_nmnist_part(*data, train, test.empty() ? Given::Nothing : Given::Train, b, limit, late);
  if (!test.empty()) add_nmnist_part(*data, test, Given::Test, b, limit, late);
  data->notes.push_back(
      fmt::format("{} events in bins of {} ms; {} events come after {} steps and are left out",
                  data->events(), static_cast<double>(b.bin_us) / 1000.0, late, b.steps));
  sort_classes(*data);
  return data;
}

const RegisterReader kNmnist(
    {.name = "nmnist",
     .doc = "N-MNIST: the folder with Train/ and Test/, a folder per digit, .bin files",
     .options = {{"bin", "10", "ms per step"},
                 {"steps", "31", "the most steps; events behind them are left out, and counted"},
                 {"pool", "1", "so many pixels in both directions are one"},
                 {"clip", "0", "the largest count of a step; 0: no limit"},
                 {"limit", "0", "the most files of a part; 0: all"}},
     .recognises = is_nmnist,
     .read = read_nmnist});

}  // namespace

}  // namespace etrace::data
