// SHD and SSC, spoken words as spikes (HDF5): spikes/times (s), spikes/units, labels, extra/keys,
// extra/speaker. Files {shd,ssc}_{train,valid,test}.h5, alone or in their folder. Times are read as 32-bit
// floats: products of the halves that the files hold would overflow.
//   bins=plain    steps of equal length from 0 to `duration`
//   bins=sparch   as digitize(t, linspace(0, duration, steps)): one step more at the front, always empty
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/child.h"
#include "base/utf8.h"
#include "data/hdf5.h"
#include "data/reader.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

struct SpokenOptions {
  std::int64_t steps, units, pool;
  double duration;
  bool sparch;
};

std::int64_t step_of(const SpokenOptions& o, double time) {
  if (!o.sparch)
    return static_cast<std::int64_t>(std::floor(time / o.duration * static_cast<double>(o.steps)));
  const double width = o.duration / static_cast<double>(o.steps - 1);
  return static_cast<std::int64_t>(std::floor(time / width)) + 1;
}

struct SpokenCount {
  std::size_t late = 0, spikes = 0;
};

// The events of a row; times are seconds.
std::vector<Event> events_of(const std::string& path, std::int64_t row, const std::vector<float>& times,
                             const std::vector<std::int64_t>& units, const SpokenOptions& o,
                             std::int64_t& late) {
  const auto fail = [&](const std::string& what) {
    throw ValueError("data", fmt::format("'{}', spikes, row {}: {}", path, row, what));
  };
  constexpr float kLatest = 1e5F;  // the halves that the files hold end at 65504 s
  if (times.size() != units.size()) fail(fmt::format("{} times and {} units", times.size(), units.size()));
  std::vector<Event> events;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!(times[i] >= 0.0F && times[i] <= kLatest))
      fail(fmt::format("the time {}; expected seconds from 0 to {}", times[i], kLatest));
    if (units[i] < 0 || units[i] >= o.units) fail(fmt::format("unit {}; there are {}", units[i], o.units));
    const std::int64_t step = step_of(o, static_cast<double>(times[i]));
    if (step >= o.steps)
      ++late;
    else
      events.push_back({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(units[i] / o.pool)});
  }
  return events;
}

// In a process of its own: a record per row, of its label, the label's name, its group, the events and how
// many came too late.
void read_utterances(ChildWriter& out, const std::string& path, const SpokenOptions& o) {
  const Hdf5File file(path);
  const std::vector<std::int64_t> labels = file.integers("labels");
  const std::int64_t rows = file.rows("spikes/times");
  if (rows != static_cast<std::int64_t>(labels.size()) || rows != file.rows("spikes/units"))
    throw ValueError("data", fmt::format("'{}': {} rows of times, {} of units, {} labels", path, rows,
                                         file.rows("spikes/units"), labels.size()));
  const std::vector<std::int64_t> speakers =
      file.has("extra/speaker") ? file.integers("extra/speaker") : std::vector<std::int64_t>();
  if (!speakers.empty() && speakers.size() != labels.size())
    throw ValueError("data",
                     fmt::format("'{}': {} speakers for {} samples", path, speakers.size(), labels.size()));
  const std::vector<std::string> names =
      file.has("extra/keys") ? file.strings("extra/keys") : std::vector<std::string>();
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t n = std::min(kBlock, rows - first);
    const auto times = file.float_rows("spikes/times", first, n);
    const auto units = file.integer_rows("spikes/units", first, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = first + i, label = labels[static_cast<std::size_t>(row)];
      const bool named = !names.empty();
      if (label < 0 || (named && label >= static_cast<std::int64_t>(names.size())))
        throw ValueError("data", fmt::format("'{}', labels, row {}: class {}; there are {}", path, row, label,
                                             names.size()));
      std::int64_t late = 0;
      const std::vector<Event> events = events_of(path, row, times[static_cast<std::size_t>(i)],
                                                  units[static_cast<std::size_t>(i)], o, late);
      out.begin();
      out.put_number(label);
      out.put_text(named ? names[static_cast<std::size_t>(label)] : "");
      out.put_text(speakers.empty() ? "" : std::to_string(speakers[static_cast<std::size_t>(row)]));
      out.put_list(events);
      out.put_number(late);
    }
  }
}

// What comes out of that process is looked at as a file is.
void take_utterance(EventData& data, ChildReader& in, const std::string& path, Given part,
                    const SpokenOptions& o, std::map<std::string, std::int64_t>& numbers,
                    SpokenCount& count) {
  const std::int64_t label = in.number();
  const std::string name = in.text(), group = in.text();
  const std::vector<Event> events = in.list<Event>();
  const std::int64_t late = in.number();
  const std::string where = fmt::format("'{}', labels, row {}", path, data.samples.size());
  require_name("data", where, "name of the class", name);
  require_name("data", where, "speaker", group);
  const bool sound =
      label >= 0 && late >= 0 && std::all_of(events.begin(), events.end(), [&](const Event& e) {
        return e.step < o.steps && e.channel < data.channels;
      });
  if (!sound) throw ValueError("data", fmt::format("{}: it is damaged", where));
  count.late += static_cast<std::size_t>(late);
  count.spikes += events.size() + static_cast<std::size_t>(late);
  const std::string shown = name.empty() ? std::to_string(label) : fmt::format("{} {}", label, name);
  numbers[shown] = label;
  data.add({.steps = o.steps, .label = class_number(data, shown), .part = part, .group = group}, events);
}

void add_spoken(EventData& data, const std::string& path, Given part, const SpokenOptions& o,
                std::map<std::string, std::int64_t>& numbers, SpokenCount& count) {
  require_hdf5(path);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  const std::uint64_t bytes = error ? 0 : size;
  const ChildLimits limits{.seconds = 4 + (bytes >> 20U), .bytes = (std::uint64_t{1} << 30U) + 64 * bytes};
  in_child(
      fmt::format("'{}' is damaged, for the library of HDF5", path), limits,
      [&](ChildWriter& out) { read_utterances(out, path, o); },
      [&](ChildReader& in) {
        while (in.next()) take_utterance(data, in, path, part, o, numbers, count);
      });
  note_file(data, path);
}

Given spoken_part(const std::string& path) {
  const std::string name = file_name(path);
  if (name.find("test") != std::string::npos) return Given::Test;
  if (name.find("valid") != std::string::npos) return Given::Valid;
  return name.find("train") != std::string::npos ? Given::Train : Given::Nothing;
}

bool is_hdf5(const std::string& path) { return path.ends_with(".h5") || path.ends_with(".hdf5"); }
bool is_spoken(const std::string& path) {
  const std::string name = file_name(path);
  return is_hdf5(path) && (name.starts_with("shd") || name.starts_with("ssc"));
}

// "7 seven" by its number.
void order_spoken_classes(Dataset& data, const std::map<std::string, std::int64_t>& numbers) {
  std::vector<std::string> names = data.classes;
  std::sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return std::pair(numbers.at(a), a) < std::pair(numbers.at(b), b);
  });
  take_classes(data, names);
}

std::unique_ptr<Dataset> read_spoken(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<EventData>();
  const std::string& bins = o.text("bins");
  if (bins != "plain" && bins != "sparch")
    throw ValueError("data", fmt::format("the option bins is '{}'; expected plain or sparch", bins));
  const SpokenOptions options{.steps = o.whole("steps", 2, 1000000),
                              .units = o.whole("units", 1, 1000000),
                              .pool = o.whole("pool", 1, 1000000),
                              .duration = o.number("duration", 1e-3, 1e3),
                              .sparch = bins == "sparch"};
  data->channels = (options.units + options.pool - 1) / options.pool;
  data->clip = o.whole("clip", 0, 1000000);
  SpokenCount count;
  std::map<std::string, std::int64_t> numbers;
  if (is_folder(path)) {
    for (const std::string& file : files_in(path))
      if (is_spoken(file)) add_spoken(*data, file, spoken_part(file), options, numbers, count);
  } else {
    add_spoken(*data, path, spoken_part(path), options, numbers, count);
  }
  data->notes.push_back(fmt::format("{} spikes; {} come after {} s and are left out", count.spikes,
                                    count.late, options.duration));
  order_spoken_classes(*data, numbers);
  return data;
}

const RegisterReader kSpoken(
    {.name = "shd",
     .doc = "SHD and SSC: {shd,ssc}_{train,valid,test}.h5, a file or their folder (needs HDF5)",
     .options = {{"steps", "100", "steps of a sample"},
                 {"duration", "1.4", "seconds that they cover; later spikes are left out, and counted"},
                 {"units", "700", "channels of the file"},
                 {"pool", "1", "so many neighbouring channels are one"},
                 {"bins", "plain", "plain, or sparch (as the library of that name counts)"},
                 {"clip", "0", "the largest count of a step; 0: no limit"}},
     .recognises =
         [](const std::string& path) {
           if (!is_folder(path)) return is_hdf5(path);
           const auto files = files_in(path);
           return std::any_of(files.begin(), files.end(), is_spoken);
         },
     .read = read_spoken});

}  // namespace

}  // namespace etrace::data
