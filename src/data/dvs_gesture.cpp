// DVS128 Gesture. Two forms:
//   recordings   userNN_LIGHT.aedat with userNN_LIGHT_labels.csv (class 1 … 11, start and end in µs), parts
//   named by
//                trials_to_train.txt and trials_to_test.txt
//   arrays       userNN_LIGHT/K.npy, K the class 0 … 10, columns x, y, p, t; ibmGestureTrain/,
//   ibmGestureTest/
// 128 × 128 pixels, two polarities.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/utf8.h"
#include "data/events.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "io/npz.h"

namespace etrace::data {

namespace {

constexpr std::uint32_t kGestureSize = 128;

struct GestureRead {
  EventData& data;
  Binning binning;
  double time_unit;  // of npy files, in µs
  std::size_t late = 0, recordings = 0;
};

std::string user_of(const std::string& name) {
  require_name("data", fmt::format("'{}'", shown_text(name)), "user", name);
  return name.substr(0, name.find('_'));
}

void add_gesture(GestureRead& r, const std::vector<CameraEvent>& events, const std::string& label, Given part,
                 const std::string& user) {
  std::int64_t steps = 0;
  const std::vector<Event> counted = binned(events, r.binning, r.late, steps);
  r.data.add({.steps = steps, .label = class_number(r.data, label), .part = part, .group = user}, counted);
}

// Recordings ---
void add_recording(GestureRead& r, const std::string& path, Given part) {
  const std::string labels = path.substr(0, path.size() - 6) + "_labels.csv";
  if (!is_file(labels))
    throw ValueError("data", fmt::format("the labels of '{}' are missing: there is no '{}'", path, labels));
  std::vector<CameraEvent> events = read_aedat31(read_file(path), path, kGestureSize, kGestureSize);
  const auto earlier = [](const CameraEvent& a, const CameraEvent& b) { return a.time < b.time; };
  if (!std::is_sorted(events.begin(), events.end(), earlier))
    std::stable_sort(events.begin(), events.end(), earlier);
  double until = -kLargestNumber;  // gestures follow each other, so that each event is looked at once
  auto next = events.begin();
  const std::string text = read_file(labels);
  std::size_t number = 0;
  for (const std::string_view line : Pieces(text, '\n')) {
    if (++number == 1 || trimmed(line).empty()) continue;  // names of columns
    double values[3] = {};
    std::size_t fields = 0;
    for (const std::string_view field : Pieces(line, ',')) {
      if (++fields > 3) break;
      if (!parse_number(field, values[fields - 1]) || !is_data_number(values[fields - 1]))
        bad_line(labels, number, fmt::format("'{}' is {}", shown_text(field, 40), kNoNumber));
    }
    if (fields != 3) bad_line(labels, number, "expected class,startTime_usec,endTime_usec");
    if (values[0] < 1 || values[0] > 11 || values[0] != std::floor(values[0]))
      bad_line(labels, number, fmt::format("class {}; expected one of 1, 2 … 11", values[0]));
    if (values[2] <= values[1]) bad_line(labels, number, "a gesture that ends before it starts");
    if (values[1] < until) bad_line(labels, number, "a gesture that starts before the one above it ends");
    until = values[2];
    const auto from = [&](double time) {
      return std::find_if(next, events.end(),
                          [&](const CameraEvent& e) { return static_cast<double>(e.time) >= time; });
    };
    next = from(values[1]);
    const auto end = from(values[2]);
    const std::vector<CameraEvent> own(next, end);
    next = end;
    if (own.empty())
      bad_line(labels, number, fmt::format("'{}' has no event from {} to {} µs", path, values[1], values[2]));
    add_gesture(r, own, fmt::format("{:.0f}", values[0]), part, user_of(file_name(path)));
  }
  ++r.recordings;
  note_file(r.data, path);
}

std::set<std::string> trials(const std::string& path) {
  std::set<std::string> out;
  if (!is_file(path)) return out;
  const std::string text = read_file(path);
  for (const std::string_view line : Pieces(text, '\n'))
    if (!trimmed(line).empty()) out.emplace(trimmed(line));
  return out;
}

void add_recordings(GestureRead& r, const std::string& folder) {
  const std::set<std::string> train = trials(folder + "/trials_to_train.txt"),
                              test = trials(folder + "/trials_to_test.txt");
  for (const std::string& file : files_in(folder)) {
    if (!has_ending(file, ".aedat")) continue;
    const std::string name = file_name(file);
    add_recording(r, file,
                  test.contains(name)    ? Given::Test
                  : train.contains(name) ? Given::Train
                                         : Given::Nothing);
  }
}

// Arrays ---
void add_array(GestureRead& r, const std::string& path, Given part) {
  const Tensor table = read_npy(read_file(path), path);
  const Shape& shape = table.aval().shape;
  if (shape.rank() != 2 || shape[1] != 4)
    throw ValueError("data", fmt::format("'{}' is {}; expected [events, 4] with the columns x, y, p, t", path,
                                         to_string(table.aval())));
  const std::vector<double> v = table.to_doubles();
  std::vector<CameraEvent> events;
  for (std::size_t i = 0; i + 3 < v.size(); i += 4) {
    const bool fits = v[i] >= 0 && v[i] < kGestureSize && v[i + 1] >= 0 && v[i + 1] < kGestureSize &&
                      std::abs(v[i + 3] * r.time_unit) < 0x1p53;  // also no NaN
    if (!fits)
      throw ValueError("data", fmt::format("'{}', row {}: an event at ({}, {}), time {}", path, i / 4, v[i],
                                           v[i + 1], v[i + 3]));
    events.push_back({static_cast<std::uint32_t>(v[i]), static_cast<std::uint32_t>(v[i + 1]), v[i + 2] != 0.0,
                      static_cast<std::int64_t>(v[i + 3] * r.time_unit)});
  }
  if (events.empty()) throw ValueError("data", fmt::format("'{}' holds no events", path));
  const std::string name = file_name(path), label = name.substr(0, name.size() - 4);
  double number = 0.0;
  if (!parse_number(label, number) || number < 0.0 || number > 10.0 || number != std::floor(number))
    throw ValueError("data", fmt::format("'{}': class '{}'; expected a file 0.npy, 1.npy … 10.npy",
                                         shown_text(path), shown_text(label)));
  add_gesture(r, events, fmt::format("{:.0f}", number), part,
              user_of(file_name(path.substr(0, path.rfind('/')))));
  ++r.recordings;
}

void add_arrays_of(GestureRead& r, const std::string& folder, Given part) {
  for (const std::string& user : folders_in(folder))
    for (const std::string& file : files_in(user))
      if (has_ending(file, ".npy")) add_array(r, file, part);
}

bool has_users(const std::string& folder) {
  for (const std::string& user : folders_in(folder))
    if (file_name(user).starts_with("user")) return true;
  return false;
}

bool is_gesture(const std::string& path) {
  if (!is_folder(path)) return false;
  const auto files = files_in(path);
  if (std::any_of(files.begin(), files.end(), [](const auto& f) { return has_ending(f, ".aedat"); }))
    return true;
  const auto folders = folders_in(path);
  return has_users(path) || std::any_of(folders.begin(), folders.end(), has_users);
}

std::unique_ptr<Dataset> read_gestures(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<EventData>();
  const std::string& unit = o.text("time");
  if (unit != "ms" && unit != "us")
    throw ValueError("data", fmt::format("the option time is '{}'; expected ms or us", unit));
  GestureRead r{*data,
                {.width = kGestureSize,
                 .height = kGestureSize,
                 .pool = static_cast<std::uint32_t>(o.whole("pool", 1, kGestureSize)),
                 .bin_us = static_cast<std::int64_t>(o.number("bin", 0, 1e6) * 1000.0),
                 .steps = o.whole("steps", 1, 1000000)},
                unit == "ms" ? 1000.0 : 1.0};
  data->channels = channels_of(r.binning);
  data->clip = o.whole("clip", 0, 1000000);
  add_recordings(r, path);
  if (r.recordings == 0 && has_users(path)) add_arrays_of(r, path, Given::Nothing);
  if (r.recordings == 0)
    for (const std::string& folder : folders_in(path)) {
      const std::string name = file_name(folder);
      const bool test = name.ends_with("Test") || name.ends_with("test");
      add_arrays_of(r, folder, test ? Given::Test : Given::Train);
    }
  data->notes.push_back(
      fmt::format("{} recordings, {} gestures; {} events come after {} steps and are left out", r.recordings,
                  data->samples.size(), r.late, r.binning.steps));
  sort_classes(*data);
  return data;
}

const RegisterReader kDvsGesture(
    {.name = "dvs_gesture",
     .doc = "DVS128 Gesture: a folder of .aedat (3.1) with labels, or of user folders with .npy",
     .options = {{"bin", "25", "ms per step; 0: frames of equal count of events"},
                 {"steps", "68",
                  "the most steps (with bin 0: the frames); later events are left out, and counted"},
                 {"pool", "4", "so many pixels in both directions are one"},
                 {"clip", "0", "the largest count of a step; 0: no limit"},
                 {"time", "ms", "the unit of times in .npy files, ms or us"}},
     .recognises = is_gesture,
     .read = read_gestures});

}  // namespace

}  // namespace etrace::data
