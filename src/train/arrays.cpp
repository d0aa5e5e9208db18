#include "train/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/utf8.h"
#include "data/catalog.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "io/npz.h"
#include "train/run_folder.h"

namespace etrace::train {

namespace {

constexpr std::string_view kArrays = "arrays ";

[[noreturn]] void refuse(const std::string& what) { throw ValueError("data", what); }

std::string text_of(const Array& a) { return a.defined() ? to_string(a.aval()) : "nothing"; }

std::vector<std::int64_t> lengths_of(const SeriesArrays& s) {
  const std::int64_t samples = s.xs.dim(0), steps = s.xs.dim(1);
  if (!s.lengths.defined()) return std::vector<std::int64_t>(static_cast<std::size_t>(samples), steps);
  if (s.lengths.rank() != 1 || s.lengths.dim(0) != samples || is_floating(s.lengths.dtype()))
    refuse(fmt::format("lengths are {}; expected a whole number for each of {} series", text_of(s.lengths),
                       samples));
  std::vector<std::int64_t> out;
  for (const double n : s.lengths.tensor().to_doubles()) {
    if (n < 1 || n > static_cast<double>(steps))
      refuse(fmt::format("the length of series {} is {}; xs have {} steps", out.size(), n, steps));
    out.push_back(static_cast<std::int64_t>(n));
  }
  return out;
}

// The series behind each other, [all steps, channels].
Tensor joined(const SeriesArrays& s, const std::vector<std::int64_t>& lengths) {
  const Tensor xs = convert(s.xs, Dtype::F32).tensor();
  const auto values = xs.data<float>();
  const std::int64_t steps = s.xs.dim(1), channels = s.xs.rank() == 3 ? s.xs.dim(2) : 1;
  std::int64_t total = 0;
  for (const std::int64_t n : lengths) total += n;
  Tensor out = Tensor::uninitialized({Dtype::F32, Shape{total, channels}});
  auto* to = reinterpret_cast<float*>(out.writable());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * steps * channels;
    for (std::int64_t k = 0; k < lengths[i] * channels; ++k)
      if (!data::is_data_number(static_cast<double>(begin[k])))
        refuse(fmt::format(
            "xs hold a number that is not finite: series {}, step {}, channel {} is {} as f32, and "
            "may reach 1e38",
            i, k / channels, k % channels, begin[k]));
    to = std::copy_n(begin, lengths[i] * channels, to);
  }
  return out;
}

void add(Named<Tensor>& out, const SeriesArrays& s, const std::string& suffix) {
  const bool series =
      s.xs.defined() && (s.xs.rank() == 2 || s.xs.rank() == 3) && s.xs.dim(0) > 0 && s.xs.shape().size() > 0;
  if (!series)
    refuse(fmt::format("xs are {}; expected [samples, steps, channels] or [samples, steps]", text_of(s.xs)));
  const bool labels =
      s.ys.defined() && s.ys.rank() == 1 && s.ys.dim(0) == s.xs.dim(0) && !is_floating(s.ys.dtype());
  if (!labels)
    refuse(
        fmt::format("ys are {}; expected a label, a whole number, for each of {} series. What is asked at "
                    "every step, or in numbers, is a task of one's own",
                    text_of(s.ys), s.xs.dim(0)));
  const std::vector<std::int64_t> lengths = lengths_of(s);
  std::vector<std::int32_t> steps(lengths.begin(), lengths.end());
  out.emplace_back("X" + suffix, joined(s, lengths));
  out.emplace_back("y" + suffix, convert(s.ys, Dtype::I32).tensor());
  out.emplace_back("lengths" + suffix, Tensor::of(steps, Shape{static_cast<std::int64_t>(steps.size())}));
}

// A line each, a number per byte.
void add_names(Named<Tensor>& out, const char* array, const std::vector<std::string>& names) {
  if (names.empty()) return;
  for (const std::string& name : names) require_name("data", array, "name", name);
  std::vector<std::int32_t> bytes;
  for (const unsigned char c : fmt::format("{}", fmt::join(names, "\n"))) bytes.push_back(c);
  out.emplace_back(array, Tensor::of(bytes, Shape{static_cast<std::int64_t>(bytes.size())}));
}

}  // namespace

std::string data_file_of(const TrainArrays& a) {
  Named<Tensor> out;
  const bool parts = a.valid.xs.defined() || a.test.xs.defined();
  add(out, a.train, parts ? "_train" : "");
  if (a.valid.xs.defined()) add(out, a.valid, "_valid");
  if (a.test.xs.defined()) add(out, a.test, "_test");
  add_names(out, "etrace_classes", a.classes);
  for (const SeriesArrays* other : {&a.valid, &a.test})
    if (!other->channels.empty() && other->channels != a.train.channels)
      refuse("the parts name their channels differently; give the names once, with those to train on");
  if (!a.train.channels.empty()) {
    const std::int64_t count = a.train.xs.rank() == 3 ? a.train.xs.dim(2) : 1;
    if (static_cast<std::int64_t>(a.train.channels.size()) != count)
      refuse(fmt::format("{} names for {} channels", a.train.channels.size(), count));
  }
  add_names(out, "etrace_channels", a.train.channels);
  return write_npz(out);
}

std::string data_words(const TrainSettings& s, const std::string& file) {
  if (s.data_text) return std::string(kArrays) + data::sha256(*s.data_text);
  const std::filesystem::path path(file);
  const bool copy = path.filename() == kDataCopy && RunFolder::is_run(path.parent_path().string());
  return copy ? std::string(kArrays) + data::sha256(read_file(file)) : file;
}

std::string file_of_words(const std::string& words, const std::string& folder) {
  if (!words.starts_with(kArrays)) return words;
  const std::string copy = folder + "/" + kDataCopy;
  if (folder.empty() || !data::is_file(copy))
    throw ValueError("train", fmt::format("the data of the run were arrays in memory, and '{}' does not keep "
                                          "them; give them again",
                                          folder));
  return copy;
}

}  // namespace etrace::train
