// What no reader takes: numbers beyond a type, names that are no UTF-8, sizes that a file cannot hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/child.h"
#include "base/utf8.h"
#include "data/reader.h"
#include "data/text_file.h"
#include "data/written_files.h"
#include "etrace/error.h"
#include "io/json.h"
#include "io/npz.h"
#include "support/errors.h"

namespace etrace::data {
namespace {

namespace fs = std::filesystem;
using namespace written;  // NOLINT: all of it
using etrace::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Limits : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& bytes) const {
    const fs::path path = fs::path(folder_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  std::string refused(const std::string& name, const std::string& bytes, const GivenOptions& o = {},
                      const std::string& format = {}) const {
    const std::string path = put(name, bytes);
    return message_of<Error>([&] { read_data(path, format, o); });
  }
  std::string folder_ = ::testing::TempDir() + "/etrace_limits_" + std::to_string(getpid());
};

template <class T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string npz(const Tensor& x, const Tensor& y) { return write_npz({{"X", x}, {"y", y}}); }

// Each became an infinity in silence.
TEST_F(Limits, NumbersBeyondAFloatAreRefusedWithTheirPlace) {
  EXPECT_THAT(refused("a.csv", "x,y\n1,a\n1e39,b\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("'1e39' in column x")));
  EXPECT_THAT(refused("b.csv", "-3e38,a\n1,b\n"),
              AllOf(HasSubstr("line 1"), HasSubstr("from -1e38 to 1e38")));
  const std::string head = "@problemName x\n@timeStamps false\n@classLabel true a b\n@data\n";
  EXPECT_THAT(refused("a.ts", head + "1,1e39:a\n"), AllOf(HasSubstr("line 5"), HasSubstr("'1e39'")));
  const Tensor y = Tensor::of<std::int32_t>({0, 1}, {2});
  EXPECT_THAT(refused("a.npz", npz(Tensor::of<double>({1, 2, 1e300, 4}, {2, 2}), y)),
              HasSubstr("number 2 of x is 1e+300"));
  EXPECT_THAT(refused("w/a_b_0.wav", wav(raw(1e300), 3, 64)), HasSubstr("the sound holds 1e+300"));
  const auto idx = [](double v) {
    std::string bits = raw(v);
    std::reverse(bits.begin(), bits.end());
    return big(0, 2) + big(0x0E, 1) + big(2, 1) + big(1, 4) + big(1, 4) + bits;
  };
  put("train-labels-idx1-ubyte", big(0, 2) + big(8, 1) + big(1, 1) + big(1, 4) + big(0, 1));
  EXPECT_THAT(refused("train-images-idx3-ubyte", idx(1e39)), AllOf(HasSubstr("byte 12"), HasSubstr("1e+39")));
  EXPECT_THAT(refused("train-images-idx3-ubyte", idx(std::numeric_limits<double>::quiet_NaN())),
              HasSubstr("byte 12"));
}

TEST_F(Limits, EmptyShapesAndClassesThatCannotBeAreRefused) {
  const Tensor y = Tensor::of<std::int32_t>({0, 1}, {2});
  EXPECT_THAT(refused("a.npz", npz(Tensor::zeros({Dtype::F32, {2, 3, 0}}), y)),
              HasSubstr("expected numbers"));
  EXPECT_THAT(refused("b.npz", npz(Tensor::zeros({Dtype::F32, {2, 0}}), y)), HasSubstr("expected numbers"));
  put("train-labels-idx1-ubyte", big(0, 2) + big(8, 1) + big(1, 1) + big(2, 4) + big(0, 2));
  EXPECT_THAT(refused("train-images-idx3-ubyte", big(0, 2) + big(8, 1) + big(2, 1) + big(2, 4) + big(0, 4)),
              HasSubstr("axis 1 of 0"));
  put("g/user01_led.aedat", aedat({{1, 1, 5, 9, 100}, {1, 0, 7, 7, 300}}));
  const auto labels = [&](const std::string& text) {
    put("g/user01_led_labels.csv", "class,a,b\n" + text);
    return message_of<Error>([&] { read_data(folder_ + "/g"); });
  };
  EXPECT_THAT(labels("1.5,0,400\n"), AllOf(HasSubstr("line 2"), HasSubstr("class 1.5")));
  EXPECT_THAT(labels("nan,0,400\n"), HasSubstr("'nan'"));
  EXPECT_THAT(labels("1,0,400\n2,200,500\n"), HasSubstr("line 3: a gesture that starts before"));
  put("d/user01_led/seven.npy", write_npy(Tensor::of<double>({1, 1, 1, 1}, {1, 4}), "e"));
  EXPECT_THAT(message_of<Error>([&] { read_data(folder_ + "/d"); }), HasSubstr("class 'seven'"));
}

TEST_F(Limits, NamesAreUtf8) {
  EXPECT_THAT(refused("a.csv", "x,y\n1,m\xe4rz\n"), AllOf(HasSubstr("line 2"), HasSubstr("m\\xe4rz")));
  EXPECT_THAT(refused("b.csv",
                      "gr\xf6\xdf"
                      "e,y\n1,a\n"),
              HasSubstr("name of a column 'gr\\xf6\\xdf"
                        "e'"));
  EXPECT_THAT(refused("c.csv", "id,x,y\n\xff,1,a\n", {{"series", "id"}}), HasSubstr("series '\\xff'"));
  const std::string head = "@problemName x\n@timeStamps false\n";
  EXPECT_THAT(refused("a.ts", head + "@classLabel true \xe4 b\n@data\n1:b\n"), HasSubstr("label '\\xe4'"));
  put("w/m\xe4rz/a.wav", wav(std::string(2000, '\1')));
  EXPECT_THAT(message_of<Error>([&] { read_data(folder_ + "/w"); }), HasSubstr("m\\xe4rz"));
  put("n/Train/\xe4/a.bin", std::string("\1\2\3\4\5", 5));
  EXPECT_THAT(message_of<Error>([&] { read_data(folder_ + "/n"); }), HasSubstr("label '\\xe4'"));
  // The bytes of the path itself are the system's affair.
  EXPECT_EQ(read_data(put("m\xe4rz.csv", "1,a\n2,b\n"))->samples.size(), 2U);
}

TEST_F(Limits, WhatAFileCannotHoldIsRefused) {
  EXPECT_THAT(refused("w/a_b_0.wav", "RIFF" + little(0, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) +
                                         little(1, 2) + little(1, 4) + little(1, 4) + little(1, 2) +
                                         little(8, 2) + "data" + little(100, 4) + std::string(100, 'x')),
              AllOf(HasSubstr("at 1 Hz"), HasSubstr("window")));
  EXPECT_THAT(refused("wide.csv", std::string((std::size_t{1} << 22U) + 1, ',') + "\n"),
              HasSubstr("more than 4194304 columns"));
  const std::string bomb = folder_ + "/a.csv.gz";
  ASSERT_EQ(std::system(("head -c 120000000 /dev/zero | gzip -9 > " + bomb).c_str()), 0);
  EXPECT_THAT(message_of<Error>([&] { read_data(bomb); }), HasSubstr("unpack it if that is meant"));
}

// Members that share bytes would be unpacked once each.
TEST_F(Limits, MembersOfAnArchiveLieApart) {
  const Tensor x = Tensor::zeros({Dtype::F32, {64}});
  std::string zip = write_npz({{"a", x}, {"b", x}});
  const std::size_t a = zip.find("PK\1\2"), b = zip.find("PK\1\2", a + 4);
  zip.replace(b + 42, 4, zip.substr(a + 42, 4));  // the second one begins where the first one does
  EXPECT_THAT(message_of<Error>([&] { read_zip_members(zip, "f.whl", [](const auto&) { return true; }); }),
              HasSubstr("inside another entry"));
}

TEST_F(Limits, ManyClassesAndManySiblingsTakeTimeByTheirNumber) {
  std::string csv = "x,y\n";
  constexpr int kMany = 200000;
  for (int i = 0; i < kMany; ++i) csv += "1,c" + std::to_string(i) + "\n";
  EXPECT_EQ(read_data(put("many.csv", csv))->classes.size(), static_cast<std::size_t>(kMany));
  std::string json = "[{}";
  for (int i = 1; i < kMany; ++i) json += ",{}";
  EXPECT_EQ(parse_json(json + "]").size(), static_cast<std::size_t>(kMany));
}

TEST(Json, NoExceptionOfTheLibraryBehindItGetsOut) {
  const auto read = [](const std::string& text) {
    return message_of<CompilationError>([&] { parse_json(text); });
  };
  EXPECT_THAT(read("{\"a\":1,\"a\":2}"), HasSubstr("the key 'a' is given twice"));
  EXPECT_THAT(read("{\"a\":[1,{\"b\":}]}"), HasSubstr("not a valid JSON text: parse error at line 1"));
  EXPECT_THAT(read(std::string(100000, '[')), HasSubstr("nested more than 512 levels"));
  EXPECT_THAT(read("[1e999]"), HasSubstr("not a valid JSON text"));
  EXPECT_THAT(read("\"\xff\""), HasSubstr("not a valid JSON text"));
  EXPECT_FALSE(json_of("{").has_value());
  const Json json =
      parse_json(R"({"task":[1],"n":1e30,"i":7,"u":18446744073709551615,"deep":{"x":"y"},"l":[1,"a"]})");
  EXPECT_EQ(said_text(json, "/task"), "");
  EXPECT_EQ(said<std::int64_t>(json, "/n"), std::nullopt);
  EXPECT_EQ(said<std::int64_t>(json, "/u"), std::nullopt);
  EXPECT_EQ(said<std::int64_t>(json, "/i"), 7);
  EXPECT_EQ(said<double>(json, "/i"), 7.0);
  EXPECT_EQ(said_text(json, "/deep/x"), "y");
  EXPECT_EQ(said_text(json, "/i/x"), "");
  EXPECT_EQ(said<std::vector<double>>(json, "/l"), std::nullopt);
  EXPECT_EQ(json_text(Json("m\xe4rz")), "\"m\xef\xbf\xbdrz\"");
}

TEST(Utf8, CharactersAndWhatIsNone) {
  for (const char* good : {"", "a", "é", "€", "😀", "\xef\xbf\xbf"}) EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5", "a\xff"})
    EXPECT_FALSE(is_utf8(bad)) << shown_text(bad);
  EXPECT_EQ(shown_text("m\xe4rz\n\x1b[31m"), "m\\xe4rz\\x0a\\x1b[31m");
  EXPECT_EQ(shown_text("éé", 2), "é…");
}

// What the library behind a format does to itself stays in its own process.
TEST(Child, HandsBackRecordsAndItsErrors) {
  std::vector<std::int64_t> seen;
  const auto take = [&](ChildReader& in) {
    while (in.next()) {
      seen.push_back(in.number());
      EXPECT_EQ(in.text(), "text");
      EXPECT_THAT(in.list<float>(), ElementsAre(1.0F, 2.0F));
    }
  };
  const auto put = [](ChildWriter& out, std::int64_t number) {
    out.begin();
    out.put_number(number);
    out.put_text("text");
    out.put_list(std::vector<float>{1, 2});
  };
  in_child(
      "it", {},
      [&](ChildWriter& out) {
        for (int i = 0; i < 5000; ++i) put(out, i);
      },
      take);
  EXPECT_EQ(seen.size(), 5000U);
  const auto fails = [&](const std::function<void()>& how, const ChildLimits& limits = {}) {
    return message_of<ValueError>([&] {
      in_child(
          "it", limits,
          [&](ChildWriter& out) {
            put(out, 1);
            how();
          },
          take);
    });
  };
  EXPECT_THAT(fails([] { throw ValueError("data", "a wrong number"); }), HasSubstr("a wrong number"));
  EXPECT_THAT(fails([] { throw std::bad_alloc(); }), HasSubstr("more than 1024 MiB"));
  EXPECT_THAT(fails([] { ::raise(SIGKILL); }), HasSubstr("ends with signal 9"));
  EXPECT_THAT(fails([] { _exit(0); }), HasSubstr("without an answer"));
  EXPECT_THAT(fails(
                  [] {
                    volatile int i = 0;
                    while (i == 0) {
                    }
                  },
                  {.seconds = 1}),
              HasSubstr("more than 1 s"));
}

}  // namespace
}  // namespace etrace::data
