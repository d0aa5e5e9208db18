// safetensors: the bytes of the format, round trips of every bit, and an error for every fault.
#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "io/tensor_file.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string out;
  append_bytes(out, std::uint64_t{header.size()});
  return out + header + data;
}

// One tensor "w" with this description, and its data.
std::string one(const std::string& description, const std::string& data) {
  return with_length("{\"w\":{" + description + "}}", data);
}

std::string refusal_of(const std::string& bytes) {
  return message_of<CompilationError>([&] { read_safetensors(bytes, "f.safetensors"); });
}

template <class T>
Tensor bits(Dtype dtype, const std::vector<T>& values) {
  return Tensor::copy_of({dtype, {static_cast<std::int64_t>(values.size())}}, values.data());
}

Named<Tensor> all_types() {
  const double nan = std::bit_cast<double>(0x7ff8000000abcdefULL);
  return {{"f64", bits<double>(Dtype::F64, {nan, -0.0, 5e-324, -std::numeric_limits<double>::infinity()})},
          {"i64", bits<std::int64_t>(Dtype::I64, {std::numeric_limits<std::int64_t>::min(), -1})},
          {"f32", bits<std::uint32_t>(Dtype::F32, {0x7fa00001U, 0xffc12345U, 0x80000000U, 1U})},
          {"i32", bits<std::int32_t>(Dtype::I32, {-7})},
          {"u32", bits<std::uint32_t>(Dtype::U32, {0xffffffffU})},
          {"f16", bits<std::uint16_t>(Dtype::F16, {0x7e01, 0x8000, 0x0001})},
          {"bf16", bits<std::uint16_t>(Dtype::BF16, {0x7fc1, 0x8000, 0x0001})},
          {"bool", bits<std::uint8_t>(Dtype::Bool, {1, 0, 1})}};
}

TEST(Safetensors, Bytes) {
  const Named<Tensor> tensors{{"b", Tensor::of<float>({1.0F, -2.0F}, {2, 1})},
                              {"a", Tensor::of<std::int64_t>({3}, {})}};
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})";
  const std::string padding(7 - (header.size() + 7) % 8, ' ');
  const std::string data("\3\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\xc0", 16);
  const std::string written = write_safetensors(tensors, {{"k", "v"}});
  EXPECT_EQ(written, with_length(header + padding, data));
  EXPECT_EQ((written.size() - data.size()) % 8, 0U);
  EXPECT_EQ(write_safetensors({}, {}), with_length("{}      "));
}

TEST(Safetensors, RoundTripOfEveryBit) {
  const Named<Tensor> tensors = all_types();
  const Named<std::string> metadata{{"", "empty key"}, {"seed", "18446744073709551615"}, {"ü\"\\\n", ""}};
  const std::string written = write_safetensors(tensors, metadata);
  const auto read = read_safetensors(written, "f");
  EXPECT_EQ(read.first, tensors);  // already widest first
  EXPECT_EQ(read.second, metadata);
  EXPECT_EQ(write_safetensors(read.first, read.second), written);
}

TEST(Safetensors, ScalarsEmptyAxesAndOddNames) {
  const Named<Tensor> tensors{{"rnn/Wz/weight.bias", Tensor::of<float>({0.5F}, {})},
                              {"none", Tensor::zeros({Dtype::F32, {3, 0, 2}})},
                              {"größe \" \\ \t", Tensor::of<float>({1.0F}, {1, 1, 1})},
                              {"", Tensor::zeros({Dtype::F32, {0}})}};
  EXPECT_EQ(read_safetensors(write_safetensors(tensors, {}), "f").first, tensors);
}

TEST(Safetensors, WideTypesComeFirst) {
  Named<Tensor> tensors = all_types();
  std::reverse(tensors.begin(), tensors.end());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_safetensors(write_safetensors(tensors, {}), "f").first)
    names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("i64", "f64", "u32", "i32", "f32", "bf16", "f16", "bool"));
}

TEST(Safetensors, FilesOfOtherWriters) {  // blanks, any order of keys, no padding
  const std::string header =
      R"({ "z" : {"shape":[1],"data_offsets":[2,4],"dtype":"F16"}, "a":{"dtype":"BOOL","data_offsets":[0,2],"shape":[2]}})"
      " \n";
  const auto read = read_safetensors(with_length(header, std::string("\1\0\0\x3c", 4)), "f");
  ASSERT_EQ(read.first.size(), 2U);
  EXPECT_EQ(read.first[0].first, "a");
  EXPECT_EQ(read.first[0].second, Tensor::copy_of({Dtype::Bool, {2}}, "\1\0"));
  EXPECT_EQ(read.first[1].second.to_doubles(), (std::vector<double>{1.0}));
}

TEST(Safetensors, WhatCannotBeWritten) {
  const Tensor t = Tensor::zeros({});
  const auto refused = [](const Named<Tensor>& tensors, const Named<std::string>& metadata) {
    return message_of<ValueError>([&] { write_safetensors(tensors, metadata); });
  };
  EXPECT_THAT(refused({{"a", t}, {"a", t}}, {}), HasSubstr("the name \"a\" is given to two tensors"));
  EXPECT_THAT(refused({{"a", Tensor()}}, {}), HasSubstr("\"a\" has no data"));
  EXPECT_THAT(refused({{"\xff", t}}, {}), HasSubstr("UTF-8"));
  EXPECT_THAT(refused({{"__metadata__", t}}, {}), HasSubstr("__metadata__"));
  EXPECT_THAT(refused({}, {{"k", "1"}, {"k", "2"}}), HasSubstr("the metadata key \"k\" is given twice"));
  EXPECT_THAT(refused({}, {{"k", "\x80"}}), HasSubstr("UTF-8"));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = write_safetensors(all_types(), {{"k", "v"}});
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THROW(read_safetensors(std::string_view(whole).substr(0, n), "f"), CompilationError) << n;
  EXPECT_THROW(read_safetensors(whole + "x", "f"), CompilationError);
}

TEST(Safetensors, FaultsOfTheHeader) {
  EXPECT_THAT(refusal_of("abc"), AllOf(HasSubstr("[safetensors] f.safetensors: "), HasSubstr("3 bytes")));
  EXPECT_THAT(refusal_of(std::string(8, '\xff') + "{}"),
              AllOf(HasSubstr("18446744073709551615 bytes"), HasSubstr("but 2 follow")));
  EXPECT_THAT(refusal_of(with_length("")), HasSubstr("'{'"));
  EXPECT_THAT(refusal_of(with_length("[]")), HasSubstr("'{'"));
  EXPECT_THAT(refusal_of(with_length("{")), HasSubstr("f.safetensors: header: not a valid JSON text"));
  EXPECT_THAT(refusal_of(with_length("{\"\xff\":{}}")), HasSubstr("not a valid JSON text"));
  EXPECT_THAT(refusal_of(with_length("{\"a\":" + std::string(100000, '['))), HasSubstr("levels deep"));
  EXPECT_THAT(refusal_of(with_length(R"({"__metadata__":{"k":1}})")), HasSubstr("__metadata__.k: found 1"));
  EXPECT_THAT(refusal_of(with_length(R"({"__metadata__":[]})")), HasSubstr("expected an object"));
  EXPECT_THAT(refusal_of(with_length(R"({"a":{},"a":{}})")), HasSubstr("'a' is given twice"));
}

TEST(Safetensors, FaultsOfATensor) {
  const std::string four(4, '\0');
  EXPECT_THAT(refusal_of(with_length(R"({"w":3})")), HasSubstr("w: found 3"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[1])", four)), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)", four)),
              HasSubstr("unknown key 'x'"));
  for (const char* offsets : {"[0]", "[0,4,8]", "[4,0]", "[-4,0]"})
    EXPECT_THAT(refusal_of(one(std::string(R"("dtype":"F32","shape":[1],"data_offsets":)") + offsets, four)),
                HasSubstr("where the data begins and ends"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,1e3])", four)),
              HasSubstr("w.data_offsets[1]: found 1000.0, expected an integer"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", four)),
              AllOf(HasSubstr("ends at byte 8"), HasSubstr("holds 4")));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", four)),
              HasSubstr("found 4 bytes, expected 8 for f32[2]"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", four)),
              HasSubstr("w.shape: an axis of size -1"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0])", "")),
              HasSubstr("w.shape: the number of elements"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])", four)),
              HasSubstr("64 bits"));
  EXPECT_THAT(refusal_of(one(R"("dtype":"BOOL","shape":[2],"data_offsets":[0,2])", "\1\2")),
              HasSubstr("w: element 1 is the byte 2"));
  const std::string message = message_of<NotSupportedError>([&] {
    read_safetensors(one(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])", four), "f.safetensors");
  });
  EXPECT_THAT(message, AllOf(HasSubstr("f.safetensors: w.dtype"), HasSubstr("F8_E4M3"), HasSubstr("BF16")));
}

TEST(Safetensors, OverlapsAndGaps) {
  const auto two = [](const char* a, const char* b, std::size_t size) {
    return with_length(std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)") + a +
                           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + b + "}}",
                       std::string(size, '\0'));
  };
  EXPECT_NO_THROW(read_safetensors(two("[4,8]", "[0,4]", 8), "f"));
  EXPECT_THAT(refusal_of(two("[0,4]", "[2,6]", 6)),
              HasSubstr("b.data_offsets: the data begins at byte 2, inside"));
  EXPECT_THAT(refusal_of(two("[0,4]", "[0,4]", 4)), HasSubstr("inside a tensor"));
  EXPECT_THAT(refusal_of(two("[0,4]", "[6,10]", 10)), HasSubstr("after a gap"));
  EXPECT_THAT(refusal_of(two("[0,4]", "[4,8]", 9)),
              HasSubstr("end at byte 8 of the data, but the file holds 9"));
}

}  // namespace
}  // namespace etrace
