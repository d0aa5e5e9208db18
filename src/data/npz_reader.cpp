// NumPy's archives: x [samples, steps, channels] or [samples, steps] with y [samples], or series of unequal
// length behind each other, X [all steps, channels], y [samples] and lengths [samples]. Arrays are found by
// their names; parts are X_train, y_train, X_test, y_test.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/file.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "io/npz.h"

namespace etrace::data {

namespace {

const Tensor* find_array(const Named<Tensor>& arrays, const std::string& name) {
  for (const auto& [key, value] : arrays) {
    const bool same = key.size() == name.size() &&
                      std::equal(key.begin(), key.end(), name.begin(), [](unsigned char a, unsigned char b) {
                        return std::tolower(a) == std::tolower(b);
                      });
    if (same) return &value;
  }
  return nullptr;
}

const Tensor& wanted_array(const std::string& path, const Named<Tensor>& arrays, const std::string& name,
                           const char* option) {
  if (const Tensor* found = find_array(arrays, name)) return *found;
  std::vector<std::string> names;
  for (const auto& [key, value] : arrays) names.push_back(key);
  throw ValueError("data", fmt::format("'{}' has no array {}; it has {}. Say which with the option {}", path,
                                       name, fmt::join(names, ", "), option));
}

std::string label_text(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

void require_finite(const std::string& path, const char* name, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw ValueError("data", fmt::format("'{}': number {} of {} is not finite", path, i, name));
}

void add_arrays(DenseData& data, const std::string& path, const Tensor& x, const Tensor& y,
                const Tensor* lengths, Given part) {
  const Shape& shape = x.aval().shape;
  const std::vector<double> values = x.to_doubles(), labels = y.to_doubles();
  const auto rank = static_cast<int>(shape.rank());
  const bool joined = lengths != nullptr;
  if (rank < 2 || rank > 3 || (joined && rank != 2) || y.aval().shape.rank() != 1)
    throw ValueError("data",
                     fmt::format("'{}': x is {} and y {}; expected x [samples, steps], [samples, steps, "
                                 "channels], or [all steps, channels] with lengths, and y [samples]",
                                 path, to_string(x.aval()), to_string(y.aval())));
  require_finite(path, "x", values);
  require_finite(path, "y", labels);
  const std::int64_t channels = joined ? shape[1] : rank == 3 ? shape[2] : 1;
  if (data.channels != 0 && data.channels != channels)
    throw ValueError("data", fmt::format("'{}': parts of {} and {} channels", path, data.channels, channels));
  data.channels = channels;
  std::vector<double> steps =
      joined ? lengths->to_doubles()
             : std::vector<double>(static_cast<std::size_t>(shape[0]), static_cast<double>(shape[1]));
  double total = 0.0;
  for (const double s : steps) {
    if (!(s >= 1.0) || s != std::floor(s))
      throw ValueError("data",
                       fmt::format("'{}': a length of {}; expected whole numbers from 1 on", path, s));
    total += s;
  }
  if (steps.size() != labels.size() || (joined && total != static_cast<double>(shape[0])))
    throw ValueError("data", fmt::format("'{}': {} labels, {} series with {} steps, but x is {}", path,
                                         labels.size(), steps.size(), total, to_string(x.aval())));
  std::size_t at = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto count = static_cast<std::size_t>(steps[i]) * static_cast<std::size_t>(channels);
    std::vector<float> series(values.begin() + static_cast<std::ptrdiff_t>(at),
                              values.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    data.add({.steps = static_cast<std::int64_t>(steps[i]),
              .label = class_number(data, label_text(labels[i])),
              .part = part},
             series);
  }
}

// Names of the labels 0, 1 …, in an archive that a run keeps: UTF-8, a line each.
constexpr const char* kClassNames = "etrace_classes";
std::vector<std::string> class_names(const Named<Tensor>& arrays) {
  std::vector<std::string> out;
  const Tensor* found = find_array(arrays, kClassNames);
  if (found == nullptr) return out;
  out.emplace_back();
  for (const double c : found->to_doubles())
    if (c == '\n')
      out.emplace_back();
    else
      out.back() += static_cast<char>(static_cast<unsigned char>(c));
  return out;
}

std::unique_ptr<DenseData> data_of(const Named<Tensor>& arrays, const std::string& path,
                                   const ReaderOptions& o) {
  auto data = std::make_unique<DenseData>();
  const std::string &x = o.text("x"), &y = o.text("y"), &lengths = o.text("lengths");
  const std::vector<std::string> names = class_names(arrays);
  for (std::size_t k = 0; k < names.size(); ++k) class_number(*data, std::to_string(k));
  if (find_array(arrays, x + "_train") != nullptr) {
    for (const auto& [suffix, part] : {std::pair<const char*, Given>{"_train", Given::Train},
                                       {"_valid", Given::Valid},
                                       {"_test", Given::Test}})
      if (const Tensor* found = find_array(arrays, x + suffix))
        add_arrays(*data, path, *found, wanted_array(path, arrays, y + suffix, "y"),
                   find_array(arrays, lengths + suffix), part);
  } else {
    add_arrays(*data, path, wanted_array(path, arrays, x, "x"), wanted_array(path, arrays, y, "y"),
               find_array(arrays, lengths), Given::Nothing);
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
  std::unique_ptr<DenseData> data = data_of(read_npz(read_file(path), path), path, o);
  note_file(*data, path);
  return data;
}

const std::vector<ReaderOption> kNpzOptions{
    {"x", "X", "the array of the series"},
    {"y", "y", "the array of the labels"},
    {"lengths", "lengths", "the array of lengths, where series lie behind each other"}};

const RegisterReader kNpz(
    {.name = "npz",
     .doc = "arrays x and y of NumPy, series of equal length or behind each other with their lengths",
     .options = kNpzOptions,
     .recognises = [](const std::string& path) { return has_ending(path, ".npz") && is_file(path); },
     .read = read_npz_file});

}  // namespace

std::unique_ptr<Dataset> read_npz_data(std::string_view bytes, const std::string& name) {
  ReaderOptions o;
  for (const ReaderOption& option : kNpzOptions) o.values.emplace_back(option.name, option.value);
  std::unique_ptr<DenseData> data = data_of(read_npz(bytes, name), name, o);
  data->name = name;
  if (data->samples.empty()) throw ValueError("data", fmt::format("'{}' holds no samples", name));
  return data;
}

}  // namespace etrace::data
