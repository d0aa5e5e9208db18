// Files that were damaged: every reader gives an error that names a file, or other data; never a crash, and
// no fault of our own. ETRACE_MUTATIONS=N damages every kind of file N times (the suite: 150), ETRACE_SEED=N
// in another way:
//   ETRACE_MUTATIONS=5000 build/asan-ubsan/tests/etrace_test_data --gtest_filter='Mutated*'
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/utf8.h"
#include "data/reader.h"
#include "data/written_files.h"
#include "etrace/error.h"
#include "io/npz.h"
#include "support/odd_files.h"

namespace etrace::data {
namespace {

namespace fs = std::filesystem;
using namespace written;  // NOLINT: all of it

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Mutated : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  std::string damaged(std::string bytes) {
    const int changes = 1 + static_cast<int>(random_() % 4);
    for (int j = 0; j < changes && !bytes.empty(); ++j) {
      const std::size_t at = random_() % bytes.size();
      switch (random_() % 7) {
        case 0:
          bytes[at] = static_cast<char>(random_());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.erase(at, 1 + random_() % 8);
          break;
        case 4:
          bytes.insert(at, bytes.substr(random_() % bytes.size(), random_() % 16));
          break;
        case 5:  // numbers at their bounds
          for (std::size_t k = at; k < std::min(bytes.size(), at + (1U << random_() % 4)); ++k)
            bytes[k] = random_() % 2 == 0 ? '\xff' : '\0';
          break;
        default: {
          constexpr const char* kWords[] = {"nan", "-1", "99999999999999999999", "1e999", "\"", ",", "\n",
                                            ":",   "?"};
          bytes.insert(at, kWords[random_() % std::size(kWords)]);
          break;
        }
      }
    }
    return bytes;
  }

  // `file` is damaged, `read` is read.
  void expect_manners(const std::string& read, const std::string& file, const std::string& bytes,
                      const GivenOptions& options = {}) {
    put(file, bytes);
    ASSERT_NO_THROW(read_data(path(read), "", options)) << file << " as it is written";
    const std::uint64_t count = from_environment("ETRACE_MUTATIONS", 150);
    for (std::uint64_t k = 0; k < count; ++k) {
      put(file, damaged(bytes));
      try {
        const auto d = read_data(path(read), "", options);
        std::vector<float> series;
        for (std::size_t i = 0; i < d->samples.size(); ++i) {
          series.resize(static_cast<std::size_t>(d->samples[i].steps * d->channels));
          d->write(i, series.data());
        }
      } catch (const InternalError& e) {
        ADD_FAILURE() << file << ": " << e.what();
        fs::copy(path(file), ::testing::TempDir() + "/etrace_damaged", fs::copy_options::overwrite_existing);
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(folder_), std::string::npos) << "no file is named: " << e.what();
      }
    }
    fs::remove(path(file));
  }

  std::mt19937 random_{static_cast<unsigned>(from_environment("ETRACE_SEED", 7))};
  std::string folder_ = ::testing::TempDir() + "/etrace_mutated_" + std::to_string(getpid());
};

TEST_F(Mutated, Idx) {
  const std::string image = big(0x00000803, 4) + big(2, 4) + big(2, 4) + big(3, 4) + std::string(12, 'x'),
                    labels = big(0x00000801, 4) + big(2, 4) + std::string("\x05\x03", 2);
  put("m/train-labels-idx1-ubyte", labels);
  expect_manners("m", "m/train-images-idx3-ubyte", image);
  expect_manners("m", "m/train-images-idx3-ubyte.gz", gzipped(image));
  put("m/train-images-idx3-ubyte", image);
  expect_manners("m", "m/train-labels-idx1-ubyte", labels);
}

TEST_F(Mutated, Texts) {
  expect_manners("A_TRAIN.ts", "A_TRAIN.ts", "@classLabel true x y\n@data\n1,2,3:4,5,6:x\n7,?:8,9:y\n");
  const std::string rows = "a,b,c,d,kind\n1,2,3,4,\"x, y\"\n5,6,7,8,z\n";
  expect_manners("a.csv", "a.csv", rows);
  expect_manners("a.csv", "a.csv", rows, {{"channels", "2"}, {"label", "kind"}});
  expect_manners("a.csv.gz", "a.csv.gz", gzipped(rows));
  expect_manners("b.csv", "b.csv", "id;label;u\n7;on;1\n7;on;2\n8;off;3\n",
                 {{"series", "id"}, {"label", "label"}});
}

TEST_F(Mutated, Arrays) {
  const auto counting = [](std::int64_t n) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<float>(i));
    return out;
  };
  const Tensor x = Tensor::of(counting(24), Shape{4, 3, 2}), y = Tensor::of(counting(4), Shape{4});
  expect_manners("a.npz", "a.npz", write_npz({{"X", x}, {"y", y}}));
  const std::string table = write_npy(Tensor::of(counting(40), Shape{10, 4}), "events");
  put("d/user01_led/1.npy", table);
  expect_manners("d", "d/user01_led/0.npy", table);
}

TEST_F(Mutated, Sounds) {
  std::string noise;
  for (int i = 0; i < 300; ++i) noise += little(static_cast<std::uint64_t>(i * 7919 % 65536), 2);
  put("w/no/1.wav", wav(noise));
  expect_manners("w", "w/yes/1.wav", wav(noise), {{"mels", "4"}});
  std::string floats;
  for (int i = 0; i < 150; ++i)
    floats += little(std::bit_cast<std::uint32_t>(static_cast<float>(i * 7919 % 200 - 100) / 100.0F), 4);
  expect_manners("w", "w/yes/1.wav", wav(floats, 3, 32, "LIST" + little(3, 4) + "abc "), {{"mels", "4"}});
}

TEST_F(Mutated, Cameras) {
  put("nm/Train/1/a.bin", big(0x0102800000, 5));
  expect_manners("nm", "nm/Train/0/a.bin",
                 big(0x0102800000, 5) + big(0x01f0806000, 5) + big(0x0102806000, 5));
  const std::string labels = "class,startTime_usec,endTime_usec\n1,0,50000\n2,50000,90000\n",
                    events = aedat({{1, 1, 5, 9, 100}, {1, 0, 127, 127, 30000}, {1, 0, 1, 2, 60000}});
  put("g/user01_fluo_labels.csv", labels);
  expect_manners("g", "g/user01_fluo.aedat", events);
  put("g/user01_fluo.aedat", events);
  expect_manners("g", "g/user01_fluo_labels.csv", labels);
}

// The kinds and damages of `./dev fuzz readers`; ETRACE_SEED begins elsewhere.
TEST_F(Mutated, FilesOfEveryKindThatIsRead) {
  const auto seeds = testing::OddSeeds::from(ETRACE_TEST_DIR "/..");
  ASSERT_FALSE(seeds.models.empty() || seeds.hdf5.empty());
  ::setenv("ETRACE_DATA", path("imported").c_str(), 1);
  const std::uint64_t first = from_environment("ETRACE_SEED", 7),
                      count = 20 * from_environment("ETRACE_MUTATIONS", 150);
  std::map<std::string, std::array<int, 2>> kinds;  // taken, refused
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const testing::OddFile odd = testing::odd_file(seed, seeds);
    bool refused = false;
    EXPECT_EQ(testing::read_odd(path("odd"), odd, refused), "") << "seed " << seed << ", " << odd.kind;
    ++kinds[odd.kind].at(refused ? 1 : 0);
  }
  ::unsetenv("ETRACE_DATA");
  for (const char* kind :
       {"csv", "stream", "ts", "wav", "npz", "safetensors", "config", "dvs", "idx", "model", "nmnist"}) {
    EXPECT_GT(kinds[kind][1], 0) << kind;
    EXPECT_GT(kinds[kind][0] + kinds[kind][1], 20) << kind;
  }
}

// Names of files, folders and columns: kept as they are, or refused by their reader.
TEST_F(Mutated, NamesInAnyBytes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::string name = testing::odd_name(seed);
    put("w/" + name + "/x_0.wav", wav(std::string(800, '\1')));
    std::string quoted;
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    put("c.csv", "\"" + quoted + "\",kind\n1,\"" + quoted + "\"\n2,b\n");
    for (const auto& [file, format] : {std::pair("w", "wav"), std::pair("c.csv", "csv")}) try {
        const auto d = read_data(path(file), format);
        for (const auto& names : {d->classes, d->columns.inputs})
          for (const std::string& each : names)
            EXPECT_TRUE(is_utf8(each) && each.find('\n') == std::string::npos) << shown_text(each);
      } catch (const InternalError& e) {
        ADD_FAILURE() << e.what();
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("'"), std::string::npos) << e.what();
      }
    fs::remove_all(path("w"));
  }
}

}  // namespace
}  // namespace etrace::data
