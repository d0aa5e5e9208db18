// NumPy's archives: x [samples, steps, channels] or [samples, steps] with y [samples], or series of unequal
// length behind each other, X [all steps, channels], y [samples] and lengths [samples]. Arrays are found by
// their names; parts are X_train, y_train, X_test, y_test.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/file.h"
#include "base/utf8.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "io/npz.h"

namespace etrace::data {

namespace {

template <class T>
const T* find_array(const Named<T>& arrays, const std::string& name) {
  for (const auto& [key, value] : arrays) {
    const bool same = key.size() == name.size() &&
                      std::equal(key.begin(), key.end(), name.begin(), [](unsigned char a, unsigned char b) {
                        return std::tolower(a) == std::tolower(b);
                      });
    if (same) return &value;
  }
  return nullptr;
}

struct Archive {
  const std::string& path;
  NpzArrays arrays;

  std::string names() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : arrays.tensors) out.push_back(key);
    for (const auto& [key, value] : arrays.texts) out.push_back(key);
    return fmt::format("{}", fmt::join(out, ", "));
  }
  [[noreturn]] void missing(const std::string& name, const char* option) const {
    throw ValueError("data", fmt::format("'{}' has no array {}; it has {}. Say which with the option {}",
                                         path, name, names(), option));
  }
  // Numbers of the archive from `first` on.
  std::vector<double> numbers(const Tensor& x, const char* name, std::size_t first, std::size_t count) const {
    const auto size = static_cast<std::int64_t>(count);
    const std::vector<double> out =
        Tensor::over({x.dtype(), Shape{size}}, x.bytes() + first * size_of(x.dtype())).to_doubles();
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!is_data_number(out[i]))
        throw ValueError("data", fmt::format("'{}': number {} of {} is {}; it is not finite, or beyond 1e38",
                                             path, first + i, name, out[i]));
    return out;
  }
};

std::string label_text(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

// A label of each series: numbers, or texts.
std::vector<std::string> labels_of(const Archive& a, const std::string& name) {
  if (const std::vector<std::string>* texts = find_array(a.arrays.texts, name)) {
    for (const std::string& text : *texts) require_name("data", fmt::format("'{}'", a.path), "label", text);
    return *texts;
  }
  const Tensor* y = find_array(a.arrays.tensors, name);
  if (y == nullptr) a.missing(name, "y");
  if (y->aval().shape.rank() != 1)
    throw ValueError("data",
                     fmt::format("'{}': {} is {}; expected [samples]", a.path, name, to_string(y->aval())));
  std::vector<std::string> out;
  for (const double label : a.numbers(*y, "y", 0, static_cast<std::size_t>(y->size())))
    out.push_back(label_text(label));
  return out;
}

// How many steps each series has; together they are all of the array.
std::vector<std::int64_t> steps_of(const Archive& a, const Tensor& x, const Tensor* lengths) {
  const Shape& shape = x.aval().shape;
  if (lengths == nullptr) return std::vector<std::int64_t>(static_cast<std::size_t>(shape[0]), shape[1]);
  std::vector<std::int64_t> out;
  double total = 0.0;
  for (const double s : lengths->to_doubles()) {
    if (!(s >= 1.0 && s <= static_cast<double>(shape[0])) || s != std::floor(s))
      throw ValueError("data", fmt::format("'{}': a length of {}; expected whole numbers from 1 to {}",
                                           a.path, s, shape[0]));
    total += s;
    out.push_back(static_cast<std::int64_t>(s));
  }
  if (total != static_cast<double>(shape[0]))
    throw ValueError("data", fmt::format("'{}': {} series with {} steps, but x is {}", a.path, out.size(),
                                         total, to_string(x.aval())));
  return out;
}

struct Channels {
  std::int64_t in_file = 0;
  std::vector<std::size_t> taken;  // in the order of the data
};

// Those that a run has learned from, by name; else all.
Channels channels_of(Dataset& data, const Archive& a, std::int64_t count,
                     const std::vector<std::string>& names, const Expected* expected) {
  Channels out{count, {}};
  if (!names.empty() && static_cast<std::int64_t>(names.size()) != count)
    throw ValueError("data", fmt::format("'{}': {} names for {} channels", a.path, names.size(), count));
  for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) out.taken.push_back(c);
  data.columns.inputs = names;
  if (names.empty() || expected == nullptr || expected->columns.inputs.empty()) return out;
  std::vector<std::string> missing, left = names;
  out.taken.clear();
  for (const std::string& name : expected->columns.inputs) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      missing.push_back(name);
    else
      out.taken.push_back(static_cast<std::size_t>(at - names.begin()));
    std::erase(left, name);
  }
  require_columns(a.path, missing, names);
  if (data.samples.empty()) note_left(data, a.path, left);
  data.columns.inputs = expected->columns.inputs;
  return out;
}

void add_arrays(DenseData& data, const Archive& a, const Tensor& x, const std::vector<std::string>& labels,
                const Tensor* lengths, Given part, const std::vector<std::string>& names,
                const Expected* expected) {
  const Shape& shape = x.aval().shape;
  const auto rank = static_cast<int>(shape.rank());
  const bool joined = lengths != nullptr;
  if (rank < 2 || rank > 3 || (joined && rank != 2) || x.size() == 0)
    throw ValueError(
        "data", fmt::format("'{}': x is {}; expected numbers [samples, steps], [samples, steps, channels], "
                            "or [all steps, channels] with lengths, and y [samples]",
                            a.path, to_string(x.aval())));
  const std::int64_t in_file = joined ? shape[1] : rank == 3 ? shape[2] : 1;
  const bool is_first = data.channels == 0;
  const Channels channels = channels_of(data, a, in_file, names, expected);
  const auto count = static_cast<std::int64_t>(channels.taken.size());
  if (!is_first && data.channels != count)
    throw ValueError("data", fmt::format("'{}': parts of {} and {} channels", a.path, data.channels, count));
  data.channels = count;
  const std::vector<std::int64_t> steps = steps_of(a, x, lengths);
  if (steps.size() != labels.size())
    throw ValueError("data", fmt::format("'{}': {} labels, {} series, x is {}", a.path, labels.size(),
                                         steps.size(), to_string(x.aval())));
  std::size_t at = 0;
  std::vector<float> series;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto all = static_cast<std::size_t>(steps[i] * channels.in_file);
    const std::vector<double> values = a.numbers(x, "x", at, all);
    at += all;
    series.clear();
    for (std::size_t t = 0; t < all; t += static_cast<std::size_t>(channels.in_file))
      for (const std::size_t c : channels.taken) series.push_back(static_cast<float>(values[t + c]));
    data.add({.steps = steps[i], .label = class_number(data, labels[i]), .part = part}, series);
  }
}

// Names in an archive that a run keeps: UTF-8, a line each, a number per byte.
constexpr const char *kClassNames = "etrace_classes", *kChannelNames = "etrace_channels";
std::vector<std::string> kept_names(const Archive& a, const char* name) {
  std::vector<std::string> out;
  const Tensor* found = find_array(a.arrays.tensors, name);
  if (found == nullptr) return out;
  out.emplace_back();
  for (const double c : found->to_doubles()) {
    if (!(c >= 0.0 && c <= 255.0) || c != std::floor(c))
      throw ValueError("data", fmt::format("'{}': {} holds {}, which is no byte", a.path, name, c));
    if (c == '\n')
      out.emplace_back();
    else
      out.back() += static_cast<char>(static_cast<unsigned char>(c));
  }
  for (const std::string& each : out) require_name("data", fmt::format("'{}'", a.path), name, each);
  return out;
}

std::vector<std::string> channel_names(const Archive& a, const ReaderOptions& o) {
  const std::vector<std::string>* texts = find_array(a.arrays.texts, o.text("channels"));
  if (texts == nullptr) return kept_names(a, kChannelNames);
  for (const std::string& text : *texts)
    require_name("data", fmt::format("'{}'", a.path), "name of a channel", text);
  return *texts;
}

std::unique_ptr<DenseData> data_of(std::string_view bytes, const std::string& path, const ReaderOptions& o) {
  const Archive a{path, read_npz_with_texts(bytes, path)};
  auto data = std::make_unique<DenseData>();
  const std::string &x = o.text("x"), &y = o.text("y"), &lengths = o.text("lengths");
  const std::vector<std::string> names = kept_names(a, kClassNames), channels = channel_names(a, o);
  for (std::size_t k = 0; k < names.size(); ++k) class_number(*data, std::to_string(k));
  const bool parts = find_array(a.arrays.tensors, x + "_train") != nullptr;
  const std::pair<const char*, Given> all[] = {
      {"", Given::Nothing}, {"_train", Given::Train}, {"_valid", Given::Valid}, {"_test", Given::Test}};
  for (const auto& [suffix, part] : all) {
    if (parts == (part == Given::Nothing)) continue;
    const Tensor* found = find_array(a.arrays.tensors, x + suffix);
    if (found == nullptr && !parts) a.missing(x, "x");
    if (found == nullptr) continue;
    if (find_array(a.arrays.tensors, y + suffix) == nullptr &&
        find_array(a.arrays.texts, y + suffix) == nullptr)
      a.missing(y + suffix, "y");
    add_arrays(*data, a, *found, labels_of(a, y + suffix), find_array(a.arrays.tensors, lengths + suffix),
               part, channels, o.expected);
  }
  sort_classes(*data);
  if (!names.empty()) {
    if (names.size() != data->classes.size())
      throw ValueError(
          "data", fmt::format("'{}': a label is none of 0 to {}, which have names", path, names.size() - 1));
    data->classes = names;
  }
  return data;
}

std::unique_ptr<Dataset> read_npz_file(const std::string& path, const ReaderOptions& o) {
  std::unique_ptr<DenseData> data = data_of(read_file(path), path, o);
  note_file(*data, path);
  return data;
}

const std::vector<ReaderOption> kNpzOptions{
    {"x", "X", "the array of the series"},
    {"y", "y", "the array of the labels"},
    {"lengths", "lengths", "the array of lengths, where series lie behind each other"},
    {"channels", "channels", "the array of texts that names the channels, where there is one"}};

const RegisterReader kNpz(
    {.name = "npz",
     .doc = "arrays x and y of NumPy, series of equal length or behind each other with their lengths",
     .options = kNpzOptions,
     .named = true,
     .recognises = [](const std::string& path) { return has_ending(path, ".npz") && is_file(path); },
     .read = read_npz_file});

}  // namespace

std::unique_ptr<Dataset> read_npz_data(std::string_view bytes, const std::string& name,
                                       const Expected* expected) {
  ReaderOptions o;
  for (const ReaderOption& option : kNpzOptions) o.values.emplace_back(option.name, option.value);
  o.expected = expected;
  std::unique_ptr<DenseData> data = data_of(bytes, name, o);
  data->name = name;
  if (data->samples.empty()) throw ValueError("data", fmt::format("'{}' holds no samples", name));
  // Arrays without names are meant by their places, unless one of the two has some.
  if (expected != nullptr && expected->columns.inputs.empty() != data->columns.inputs.empty())
    note_by_place(*data, name);
  return data;
}

}  // namespace etrace::data
