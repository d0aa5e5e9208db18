// Sound: a folder of WAV files, as mel features. RIFF chunks: `fmt ` (PCM of 8, 16, 24, 32 bits, float of 32,
// 64, or extensible), `data`; others are skipped, sizes are padded to even ones. Labels: the name of the
// folder that a file lies in, or what stands before the first '_' of its name (7_jackson_0.wav is a 7 of the
// speaker jackson). Features: frames of `window` ms every `hop` ms, Hann window, power spectrum, `mels`
// triangles between 0 Hz and half of the sampling rate (2595·log10(1 + f/700)), the logarithm.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include "base/file.h"
#include "base/utf8.h"
#include "data/mel.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

struct WavFormat {
  std::uint64_t tag = 0, channels = 0, rate = 0, block = 0, bits = 0;
};

WavFormat read_wav_format(Bytes in, std::uint64_t size) {
  WavFormat f;
  if (size < 16) in.fail(fmt::format("a format of {} bytes; expected 16 or more", size));
  f.tag = in.little(2, "the format");
  f.channels = in.little(2, "the format");
  f.rate = in.little(4, "the format");
  in.skip(4, "the format");
  f.block = in.little(2, "the format");
  f.bits = in.little(2, "the format");
  if (f.tag == 0xFFFE) {
    if (size < 26) in.fail("an extensible format without its tag");
    in.skip(8, "the format");
    f.tag = in.little(2, "the format");
  }
  const bool pcm = f.tag == 1 && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  const bool floating = f.tag == 3 && (f.bits == 32 || f.bits == 64);
  if (!pcm && !floating)
    in.fail(
        fmt::format("format {} with {} bits; expected PCM (1) of 8, 16, 24, 32 bits or float (3) of 32, 64",
                    f.tag, f.bits));
  if (f.channels == 0 || f.rate == 0 || f.block != f.channels * f.bits / 8)
    in.fail(fmt::format("{} channels, {} Hz, blocks of {} bytes do not fit together", f.channels, f.rate,
                        f.block));
  constexpr std::uint64_t kMostRate = 10'000'000;  // what recorders reach; a damaged file can claim any
  if (f.rate > kMostRate)
    in.fail(fmt::format("{} Hz; expected a sampling rate of {} at most", f.rate, kMostRate));
  return f;
}

double wav_number(const WavFormat& f, std::uint64_t bits) {
  if (f.tag == 3)
    return f.bits == 32 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                        : std::bit_cast<double>(bits);
  if (f.bits == 8) return (static_cast<double>(bits) - 128.0) / 128.0;
  const unsigned shift = 64 - static_cast<unsigned>(f.bits);
  return static_cast<double>(static_cast<std::int64_t>(bits << shift)) / 0x1p63;
}

std::vector<double> read_wav_data(Bytes& in, std::uint64_t size, const WavFormat& f) {
  if (f.rate == 0) in.fail("the sound comes before its format");
  in.need(size, "the sound");
  if (size % f.block != 0)
    in.fail(fmt::format("{} bytes of sound, which is no multiple of {}", size, f.block));
  std::vector<double> out;
  for (std::uint64_t i = 0; i < size / f.block; ++i) {
    double sum = 0.0;  // of the channels
    for (std::uint64_t c = 0; c < f.channels; ++c) {
      const double value = wav_number(f, in.little(f.bits / 8, "the sound"));
      if (!is_data_number(value)) in.fail(fmt::format("the sound holds {}: it is {}", value, kNoNumber));
      sum += value;
    }
    out.push_back(sum / static_cast<double>(f.channels));
  }
  return out;
}

}  // namespace

Sound read_wav(const std::string& path) {
  const std::string bytes = read_file(path);
  Bytes in(bytes, path);
  if (in.take(4, "the first bytes") != "RIFF") bad_byte(path, 0, "a WAV file begins with RIFF");
  in.skip(4, "the size");
  if (in.take(4, "the first bytes") != "WAVE") bad_byte(path, 8, "expected WAVE");
  WavFormat format;
  Sound out;
  bool found = false;
  while (in.left() >= 8 && !found) {
    const std::string_view name = in.take(4, "a chunk");
    const std::uint64_t size = in.little(4, "a chunk");
    if (name == "data") {
      out.values = read_wav_data(in, size, format);
      found = true;
      break;
    }
    in.need(size, "a chunk");
    if (name == "fmt ") format = read_wav_format(in, size);
    in.skip(size, "a chunk");
    if (size % 2 == 1 && in.left() > 0) in.skip(1, "a chunk");
  }
  if (!found) in.fail("the file ends before its sound (the chunk data)");
  out.rate = static_cast<double>(format.rate);
  return out;
}

namespace {

using Complex = std::complex<double>;

// In place; the length is a power of two.
void fft(std::vector<Complex>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1U;
    for (; (j & bit) != 0; bit >>= 1U) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (std::size_t length = 2; length <= n; length *= 2) {
    const double angle = -2.0 * std::numbers::pi / static_cast<double>(length);
    const Complex turn(std::cos(angle), std::sin(angle));
    for (std::size_t i = 0; i < n; i += length) {
      Complex w = 1.0;
      for (std::size_t k = 0; k < length / 2; ++k, w *= turn) {
        const Complex a = x[i + k], b = x[i + k + length / 2] * w;
        x[i + k] = a + b;
        x[i + k + length / 2] = a - b;
      }
    }
  }
}

double mel_of(double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); }
double hertz_of(double mel) { return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0); }

}  // namespace

std::vector<float> mel_features(const Sound& sound, const MelOptions& o) {
  const auto window = static_cast<std::size_t>(std::max(1.0, std::round(o.window_ms * sound.rate / 1000.0)));
  const auto hop = static_cast<std::size_t>(std::max(1.0, std::round(o.hop_ms * sound.rate / 1000.0)));
  const std::size_t length = std::bit_ceil(window), bins = length / 2 + 1;
  std::vector<double> edges;  // of the triangles, in bins
  for (std::int64_t m = 0; m < o.mels + 2; ++m)
    edges.push_back(
        hertz_of(mel_of(sound.rate / 2.0) * static_cast<double>(m) / static_cast<double>(o.mels + 1)) *
        static_cast<double>(length) / sound.rate);
  std::vector<float> out;
  for (std::size_t start = 0; start == 0 || start + window <= sound.values.size(); start += hop) {
    std::vector<Complex> frame(length);
    for (std::size_t k = 0; k < window && start + k < sound.values.size(); ++k)
      frame[k] =
          sound.values[start + k] * (0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * static_cast<double>(k) /
                                                          static_cast<double>(window)));
    fft(frame);
    for (std::size_t m = 0; m < static_cast<std::size_t>(o.mels); ++m) {
      double energy = 0.0;
      for (std::size_t k = 0; k < bins; ++k) {
        const auto at = static_cast<double>(k);
        const double rise = (at - edges[m]) / std::max(edges[m + 1] - edges[m], 1e-9),
                     fall = (edges[m + 2] - at) / std::max(edges[m + 2] - edges[m + 1], 1e-9);
        energy += std::max(0.0, std::min(rise, fall)) * std::norm(frame[k]);
      }
      out.push_back(static_cast<float>(std::log(energy + 1e-6)));
    }
  }
  return out;
}

namespace {

void add_sound(DenseData& data, const std::string& path, const std::string& label, const std::string& group,
               Given part, const MelOptions& o) {
  const Sound sound = read_wav(path);
  if (sound.values.empty()) bad_byte(path, 0, "the file holds no sound");
  if (sound.rate * o.hop_ms < 1000.0 || sound.rate * o.window_ms < 2000.0)
    throw ValueError(
        "data",
        fmt::format("'{}': at {} Hz a window of {} ms every {} ms has no two numbers, or steps within "
                    "one; give longer ones (window, hop)",
                    path, sound.rate, o.window_ms, o.hop_ms));
  require_name("data", fmt::format("'{}'", shown_text(path)), "label", label);
  require_name("data", fmt::format("'{}'", shown_text(path)), "group", group);
  require_name("data", fmt::format("'{}'", shown_text(path)), "name of the file", file_name(path));
  const std::vector<float> features = mel_features(sound, o);
  data.add({.steps = static_cast<std::int64_t>(features.size()) / o.mels,
            .label = class_number(data, label),
            .part = part,
            .group = group,
            .name = file_name(path)},
           features);
}

bool is_wav(const std::string& path) { return has_ending(path, ".wav"); }
bool has_wav(const std::string& folder) {
  const auto files = files_in(folder);
  return std::any_of(files.begin(), files.end(), is_wav);
}

struct PartFolder {
  std::string path;
  Given part;
};

// A folder that holds nothing but folders train and test says with them what belongs to which part.
std::vector<PartFolder> folders_of_parts(const std::string& path) {
  const std::vector<std::string> folders = folders_in(path);
  if (has_wav(path) || folders.size() != 2 || file_name(folders[0]) != "test" ||
      file_name(folders[1]) != "train")
    return {{path, Given::Nothing}};
  return {{folders[1], Given::Train}, {folders[0], Given::Test}};
}

// How many files there were: of a folder per class, else those whose names say what they are.
std::size_t add_folder(DenseData& data, const std::string& path, Given part, const MelOptions& mel) {
  std::size_t files = 0;
  for (const std::string& folder : folders_in(path))
    for (const std::string& file : files_in(folder))
      if (is_wav(file)) {
        // Names such as SPEAKER_nohash_0.wav say who speaks.
        const std::string name = file_name(file);
        const std::size_t end = name.find('_');
        add_sound(data, file, file_name(folder), end == std::string::npos ? "" : name.substr(0, end), part,
                  mel);
        ++files;
      }
  if (files > 0) return files;
  for (const std::string& file : files_in(path)) {
    if (!is_wav(file)) continue;
    const std::string name = file_name(file);
    const auto words = split(std::string_view(name).substr(0, name.size() - 4), '_');
    if (words.size() < 2)
      throw ValueError("data",
                       fmt::format("'{}' says no label: expected a folder per class, or names such as "
                                   "LABEL_SPEAKER_0.wav",
                                   file));
    add_sound(data, file, std::string(words[0]), words.size() > 2 ? std::string(words[1]) : "", part, mel);
    ++files;
  }
  return files;
}

std::unique_ptr<Dataset> read_sounds(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<DenseData>();
  const MelOptions mel{.mels = o.whole("mels", 1, 1024),
                       .window_ms = o.number("window", 0.1, 10000),
                       .hop_ms = o.number("hop", 0.1, 10000)};
  data->channels = mel.mels;
  std::size_t files = 0;
  if (o.text("label") != "name" && o.text("label") != "none")
    throw ValueError("data", fmt::format("the option label is '{}'; expected name or none", o.text("label")));
  if (o.text("label") == "none" || is_file(path)) {
    std::vector<std::string> all = is_file(path) ? std::vector<std::string>{path} : files_in(path);
    if (is_folder(path))
      for (const std::string& folder : folders_in(path))
        for (const std::string& file : files_in(folder)) all.push_back(file);
    for (const std::string& file : all)
      if (is_wav(file)) {
        add_sound(*data, file, kNoLabel, "", Given::Nothing, mel);
        ++files;
      }
    data->notes.push_back(fmt::format("{} WAV files without labels", files));
    return data;
  }
  const std::vector<PartFolder> parts = folders_of_parts(path);
  for (const auto& [folder, part] : parts) files += add_folder(*data, folder, part, mel);
  if (parts.size() > 1) data->notes.push_back("training and test part are the folders of these names");
  data->notes.push_back(
      fmt::format("{} WAV files, frames of {} ms every {} ms", files, mel.window_ms, mel.hop_ms));
  sort_classes(*data);
  return data;
}

const RegisterReader kWav(
    {.name = "wav",
     .doc = "a folder of WAV files as mel features: a folder per class, or names LABEL_SPEAKER_N.wav; or the "
            "same in two folders train and test",
     .options = {{"mels", "40", "features of a step"},
                 {"window", "25", "ms of sound per step"},
                 {"hop", "10", "ms from step to step"},
                 {"label", "name", "where the class is said: in the name of folder or file; none: nowhere"}},
     .recognises =
         [](const std::string& path) {
           if (!is_folder(path)) return is_wav(path) && is_file(path);
           const auto parts = folders_of_parts(path);
           const auto folders = folders_in(parts.front().path);
           return has_wav(parts.front().path) || std::any_of(folders.begin(), folders.end(), has_wav);
         },
     .read = read_sounds});

}  // namespace

}  // namespace etrace::data
