// Readers: files that are written here in the true format, what they become, and what is said of wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "data/catalog.h"
#include "data/events.h"
#include "data/mel.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "data/written_files.h"
#include "etrace/error.h"
#include "support/errors.h"

namespace etrace::data {
namespace {

namespace fs = std::filesystem;
using namespace written;  // NOLINT: all of it
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Readers : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::vector<float> series(const Dataset& d, std::size_t i) {
    std::vector<float> out(static_cast<std::size_t>(d.samples[i].steps * d.channels));
    d.write(i, out.data());
    return out;
  }
  std::string refused(const std::string& file, const std::string& format = {},
                      const GivenOptions& o = {}) const {
    return message_of<Error>([&] { read_data(file, format, o); });
  }
  std::string folder_ = ::testing::TempDir() + "/etrace_readers_" + std::to_string(getpid());
};

TEST(Sha256, KnownTexts) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Readers, Idx) {
  const std::string images = big(0x00000803, 4) + big(2, 4) + big(2, 4) + big(3, 4) +
                             std::string("\x00\xff\x33\x01\x02\x03", 6) + std::string(6, '\x66');
  const std::string labels = big(0x00000801, 4) + big(2, 4) + std::string("\x05\x03", 2);
  put("m/train-images-idx3-ubyte", images);
  put("m/train-labels-idx1-ubyte.gz", gzipped(labels));
  put("m/t10k-images-idx3-ubyte.gz", gzipped(images));
  put("m/t10k-labels-idx1-ubyte", labels);
  const auto d = read_data(path("m"));
  ASSERT_EQ(d->samples.size(), 4U);
  EXPECT_EQ(d->channels, 3);
  EXPECT_EQ(d->classes, (std::vector<std::string>{"3", "5"}));
  EXPECT_EQ(d->samples[0].part, Given::Test);  // t10k comes first
  EXPECT_EQ(d->samples[2].part, Given::Train);
  EXPECT_EQ(d->samples[2].label, 1);
  EXPECT_EQ(series(*d, 2)[1], 1.0F);
  EXPECT_EQ(read_data(path("m"), "", {{"pixels", "1"}})->samples[0].steps, 6);
  EXPECT_THAT(refused(path("m"), "", {{"pixels", "4"}}), HasSubstr("has 6 of them"));
  put("m/train-images-idx3-ubyte", images.substr(0, 20));
  EXPECT_THAT(refused(path("m")), AllOf(HasSubstr("train-images-idx3-ubyte', byte 16"),
                                        HasSubstr("4 bytes are left, 12 expected")));
  put("m/train-images-idx3-ubyte", big(0x00000803, 4) + big(0xffffffff, 4) + big(0xffffffff, 4) + big(3, 4));
  EXPECT_THAT(refused(path("m")), HasSubstr("larger than any file"));
  put("m/train-images-idx3-ubyte", "\x01" + images);
  EXPECT_THAT(refused(path("m")), HasSubstr("byte 0: an IDX file begins with two zeros"));
  put("m/train-images-idx3-ubyte", images);
  put("m/train-labels-idx1-ubyte.gz", gzipped(labels).substr(0, 12));
  EXPECT_THAT(refused(path("m")), HasSubstr("the packed data ends before its end"));
  fs::remove(path("m/train-labels-idx1-ubyte.gz"));
  EXPECT_THAT(refused(path("m")), HasSubstr("the labels of"));
}

TEST_F(Readers, Ts) {
  put("A_TRAIN.ts",
      "#about\n@problemName A\n@timeStamps false\n@classLabel true x y\n@data\n1,2,3:4,5,6:x\n7,?:8,9:y\n");
  put("A_TEST.ts", "@classLabel true x y\n@data\r\n1:2:y\r\n");
  const auto d = read_data(path("A_TRAIN.ts"));
  ASSERT_EQ(d->samples.size(), 3U);
  EXPECT_EQ(d->channels, 2);
  EXPECT_EQ(series(*d, 0), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(series(*d, 1), (std::vector<float>{7, 8, 7, 9})) << "what is missing is as the step before";
  EXPECT_EQ(d->samples[2].part, Given::Test);
  EXPECT_THAT(d->notes, ::testing::Contains(HasSubstr("1 missing values")));
  EXPECT_EQ(read_data(path(""))->samples.size(), 3U) << "the folder";
  const auto with = [&](const std::string& text) {
    fs::remove(path("A_TEST.ts"));
    return refused(put("A_TRAIN.ts", text));
  };
  const std::string head = "@classLabel true x y\n@data\n";
  EXPECT_THAT(with(head + "1,2:z\n"), HasSubstr("line 3: the label 'z' is none of @classLabel"));
  EXPECT_THAT(with(head + "1,2:3:x\n"), HasSubstr("dimensions of 2 and 1 steps"));
  EXPECT_THAT(with(head + "1,a:x\n"), HasSubstr("'a' is no number"));
  EXPECT_THAT(with(head + "1,nan:x\n"), HasSubstr("'nan' is no number"));
  EXPECT_THAT(with(head + "1:x\n1:2:x\n"), HasSubstr("line 4: 2 dimensions"));
  EXPECT_THAT(with("@data\n1,2:x\n"), HasSubstr("@classLabel is not true"));
  EXPECT_THAT(with("@timeStamps true\n"), HasSubstr("time stamps"));
  EXPECT_THAT(with("@classLabel true\n"), HasSubstr("ends before @data"));
}

TEST_F(Readers, CsvColumnsThatAreNoInput) {
  const std::string text = "id,step,day,u,v,kind\n1,0,mon,3,4,a\n1,1,tue,5,6,a\n2,0,mon,7,8,b\n";
  const auto steps =
      read_data(put("a.csv", text), "", {{"series", "id"}, {"label", "kind"}, {"leave_out", "step+day"}});
  EXPECT_EQ(steps->channels, 2);
  EXPECT_EQ(steps->samples.size(), 2U);
  const auto rows = read_data(path("a.csv"), "", {{"leave_out", "id+day"}});
  EXPECT_EQ(rows->samples.size(), 3U);
  EXPECT_EQ(rows->samples[0].steps, 3);
  EXPECT_THAT(refused(path("a.csv"), "", {{"series", "id"}, {"label", "kind"}}), HasSubstr("leave_out=day"));
  EXPECT_THAT(refused(path("a.csv"), "", {{"leave_out", "id+stepp"}}),
              HasSubstr("has no column 'stepp' (did you mean step?), which the option leave_out names"));
  EXPECT_THAT(refused(path("a.csv"), "", {{"leave_out", "id+step+day+u+v"}}), HasSubstr("0 numbers"));
  // Silence would hide that it does nothing here.
  EXPECT_THAT(refused(path("a.csv"), "", {{"series", "id"}, {"label", "kind"}, {"channels", "2"}}),
              HasSubstr("channels=2 is for tables with a sample per line"));
}

TEST_F(Readers, Csv) {
  const auto rows =
      read_data(put("a.csv", "a,b,c,d,kind\n1,2,3,4,\"x, y\"\n5,6,7,8,z\n"), "", {{"channels", "2"}});
  EXPECT_EQ(rows->samples.size(), 2U);
  EXPECT_EQ(rows->samples[0].steps, 2);
  EXPECT_EQ(rows->classes, (std::vector<std::string>{"x, y", "z"}));
  EXPECT_EQ(series(*rows, 1), (std::vector<float>{5, 6, 7, 8}));
  const auto steps = read_data(put("b.csv", "id;label;u\n7;on;1\n7;on;2\n8;off;3\n"), "",
                               {{"series", "id"}, {"label", "label"}});
  EXPECT_EQ(steps->samples.size(), 2U);
  EXPECT_EQ(steps->samples[0].steps, 2);
  EXPECT_EQ(series(*steps, 1), std::vector<float>{3});
  put("c_train.csv", "1,2,a\n3,4,b\n");
  put("c_test.csv", "5,6,a\n");
  EXPECT_EQ(read_data(path("c_train.csv"))->samples[2].part, Given::Test);
  EXPECT_THAT(refused(put("d.csv", "1,2,a\n3,b\n")), HasSubstr("d.csv', line 2: 2 columns, expected 3"));
  EXPECT_THAT(refused(put("d.csv", "1,2,a\n3,x,b\n")), HasSubstr("line 2: 'x' in column 1 is no number"));
  EXPECT_THAT(refused(put("d.csv", "1,2,a\n"), "", {{"label", "7"}}), HasSubstr("a number from 0 to 2"));
  EXPECT_THAT(refused(put("d.csv", "u,v\n1,2\n"), "", {{"label", "w"}}),
              HasSubstr("expected a column: u, v"));
  EXPECT_THAT(refused(put("d.csv", "1,\"2,a\n")), HasSubstr("a quote that is not closed"));
  EXPECT_THAT(refused(put("d.csv", "a,b\n")), HasSubstr("no line of numbers"));
  EXPECT_THAT(refused(put("e.csv", "id,label,u\n7,1,1\n7,2,2\n"), "", {{"series", "id"}, {"label", "label"}}),
              HasSubstr("line 3: series 7 has two labels"));
  EXPECT_THAT(refused(path("b.csv"), "", {{"lable", "x"}}),
              HasSubstr("has no option 'lable' (did you mean label?)"));
}

TEST_F(Readers, Wav) {
  const Sound s = read_wav(put("a.wav", wav(little(0x4000, 2) + little(0xc000, 2))));
  EXPECT_EQ(s.rate, 8000);
  EXPECT_EQ(s.values, (std::vector<double>{0.5, -0.5}));
  EXPECT_EQ(read_wav(put("a.wav", wav(std::string("\x80\xc0", 2), 1, 8))).values,
            (std::vector<double>{0.0, 0.5}));
  EXPECT_EQ(read_wav(put("a.wav", wav(little(0x3f000000, 4), 3, 32))).values, std::vector<double>{0.5});
  EXPECT_EQ(read_wav(put("a.wav", wav(little(0x400000, 3), 1, 24,
                                      "LIST" + little(3, 4) + "abc" + std::string(1, '\0'))))
                .values,
            std::vector<double>{0.5});
  EXPECT_THAT(message_of<ValueError>([&] { read_wav(put("a.wav", wav("abc"))); }),
              HasSubstr("no multiple of 2"));
  EXPECT_THAT(message_of<ValueError>([&] { read_wav(put("a.wav", wav("abcd").substr(0, 46))); }),
              HasSubstr("the file ends within the sound"));
  std::string fast = wav("ab");
  fast[27] = '\x7f';  // the highest byte of the sampling rate
  EXPECT_THAT(message_of<ValueError>([&] { read_wav(put("a.wav", fast)); }),
              HasSubstr("expected a sampling rate of 10000000 at most"));
  EXPECT_THAT(message_of<ValueError>([&] { read_wav(put("a.wav", wav("ab", 7))); }),
              HasSubstr("format 7 with 16 bits"));
  EXPECT_THAT(message_of<ValueError>([&] { read_wav(put("a.wav", "RIFX")); }), HasSubstr("begins with RIFF"));
}

TEST_F(Readers, MelFeaturesFindTheTone) {
  Sound low{8000, {}}, high{8000, {}};
  for (int i = 0; i < 2000; ++i) {
    low.values.push_back(std::sin(2 * 3.14159265 * 300 * i / 8000));
    high.values.push_back(std::sin(2 * 3.14159265 * 3000 * i / 8000));
  }
  const auto loudest = [](const std::vector<float>& f) {
    return std::max_element(f.begin() + 80, f.begin() + 120) - f.begin() - 80;
  };
  const std::vector<float> a = mel_features(low, {}), b = mel_features(high, {});
  EXPECT_EQ(a.size(), 40U * 23U) << "frames of 200 every 80";
  EXPECT_LT(loudest(a) + 15, loudest(b));
}

TEST_F(Readers, SoundsByFolderOrByName) {
  std::string noise;
  for (int i = 0; i < 400; ++i) noise += little(static_cast<std::uint64_t>(i * 7919 % 65536), 2);
  put("s/no/1.wav", wav(noise));
  put("s/yes/1.wav", wav(noise + noise));
  const auto d = read_data(path("s"));
  EXPECT_EQ(d->classes, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(d->channels, 40);
  EXPECT_EQ(d->samples[1].steps, 8);
  put("n/7_ann_0.wav", wav(noise));
  put("n/3_bob_0.wav", wav(noise));
  const auto named = read_data(path("n"), "", {{"mels", "5"}});
  EXPECT_EQ(named->classes, (std::vector<std::string>{"3", "7"}));
  EXPECT_EQ(named->samples[1].group, "ann");
  put("n/plain.wav", wav(noise));
  EXPECT_THAT(refused(path("n")), HasSubstr("says no label"));

  put("p/train/no/1.wav", wav(noise));
  put("p/train/yes/1.wav", wav(noise));
  put("p/test/yes/2.wav", wav(noise));
  const auto parts = read_data(path("p"));
  EXPECT_EQ(parts->classes, (std::vector<std::string>{"no", "yes"}));
  ASSERT_EQ(parts->samples.size(), 3U);
  EXPECT_EQ(parts->samples[0].part, Given::Train);
  EXPECT_EQ(parts->samples[2].part, Given::Test);
  EXPECT_EQ(parts->samples[2].label, 1);
  put("p/more/yes/3.wav", wav(noise));
  EXPECT_THAT(refused(path("p")), HasSubstr("none of the formats"));
}

TEST_F(Readers, Nmnist) {
  // The first event of a real file: (7, 15), on, at 654 µs.
  const auto events =
      read_nmnist_events(std::string("\x07\x0f\x80\x02\x8e", 5) + std::string("\x00\xf0\x00\x00\x00", 5) +
                             std::string("\x01\x02\x00\x00\x05", 5),
                         "f", 34, 34);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].x, 7U);
  EXPECT_EQ(events[0].y, 15U);
  EXPECT_TRUE(events[0].on);
  EXPECT_EQ(events[0].time, 654);
  EXPECT_EQ(events[1].time, 5 + 8192) << "y 240 moves later times";
  EXPECT_THAT(message_of<ValueError>([] { read_nmnist_events("1234567", "f", 34, 34); }),
              HasSubstr("byte 5: 2 bytes are left over"));
  EXPECT_THAT(
      message_of<ValueError>([] { read_nmnist_events(std::string("\x22\x00\x00\x00\x00", 5), "f", 34, 34); }),
      HasSubstr("outside of the frame"));
  put("nm/Train/0/a.bin", big(0x0102800000, 5) + big(0x0102800000, 5) + big(0x0102806000, 5));
  put("nm/Train/1/b.bin", big(0x0303000000, 5));
  put("nm/Test/1/c.bin", big(0x0303000000, 5));
  const auto d = read_data(path("nm"));
  EXPECT_EQ(d->channels, 2312);
  ASSERT_EQ(d->samples.size(), 3U);
  EXPECT_EQ(d->samples[0].steps, 3) << "24.576 ms in bins of 10";
  const auto frames = series(*d, 0);
  EXPECT_EQ(frames[1156 + 2 * 34 + 1], 2.0F) << "counted, not cut";
  EXPECT_EQ(frames[2 * 2312 + 1156 + 2 * 34 + 1], 1.0F);
  EXPECT_EQ(series(*read_data(path("nm"), "", {{"clip", "1"}}), 0)[1156 + 2 * 34 + 1], 1.0F);
  EXPECT_EQ(d->samples[2].part, Given::Test);
}

TEST_F(Readers, DvsGestureRecordings) {
  const std::string bytes =
      aedat({{1, 1, 5, 9, 100}, {0, 1, 6, 9, 200}, {1, 0, 127, 127, 30000}, {1, 1, 1, 1, 60000}});
  const auto events = read_aedat31(bytes, "f", 128, 128);
  ASSERT_EQ(events.size(), 3U) << "those that are not valid are left out";
  EXPECT_EQ(events[0].x, 9U);
  EXPECT_EQ(events[0].y, 5U);
  EXPECT_EQ(events[1].time, 30000);
  put("g/user01_fluo.aedat", bytes);
  put("g/user01_fluo_labels.csv", "class,startTime_usec,endTime_usec\n1,0,50000\n11,50000,70000\n");
  put("g/trials_to_train.txt", "user01_fluo.aedat\n");
  const auto d = read_data(path("g"));
  ASSERT_EQ(d->samples.size(), 2U);
  EXPECT_EQ(d->channels, 2 * 32 * 32);
  EXPECT_EQ(d->samples[0].steps, 2);
  EXPECT_EQ(d->samples[0].group, "user01");
  EXPECT_EQ(d->samples[0].part, Given::Train);
  EXPECT_EQ(read_data(path("g"), "", {{"bin", "0"}, {"steps", "4"}})->samples[0].steps, 4)
      << "frames of equal count";
  put("g/user01_fluo_labels.csv", "class,a,b\n12,0,5\n");
  EXPECT_THAT(refused(path("g")), HasSubstr("labels.csv', line 2: class 12"));
  put("g/user01_fluo.aedat", bytes.substr(0, bytes.size() - 3));
  EXPECT_THAT(refused(path("g")),
              AllOf(HasSubstr("user01_fluo.aedat', byte"), HasSubstr("the file ends within a packet")));
}

TEST_F(Readers, UnknownThingsAreNamed) {
  EXPECT_THAT(refused(path("nothing")), HasSubstr("there is no file or folder"));
  EXPECT_THAT(refused(put("a.xyz", "?")), HasSubstr("is none of the formats that are known"));
  EXPECT_THAT(refused(path("a.xyz"), "cvs"), HasSubstr("did you mean csv?"));
  const KnownData* fashion = find_known_data("fashion_mnist");
  ASSERT_NE(fashion, nullptr);
  if (installed_path(*fashion).empty()) {
    EXPECT_THAT(message_of<ValueError>([&] { require_installed(*fashion); }),
                HasSubstr("apt-get install dataset-fashion-mnist"));
  }
}

TEST_F(Readers, EveryKnownSetHasOneWayHere) {
  for (const KnownData& d : known_data()) {
    EXPECT_EQ(int(!d.member.empty()) + int(!d.place.empty()) + int(!d.made.empty()), 1) << d.name;
    EXPECT_FALSE(d.files.empty()) << d.name;
    if (!installed_path(d).empty()) continue;
    const std::string message = message_of<ValueError>([&] { require_installed(d); });
    EXPECT_THAT(message, HasSubstr(d.name));
    EXPECT_THAT(message, HasSubstr(d.made.empty() ? "install" : d.made));
  }
}

}  // namespace
}  // namespace etrace::data
