// NumPy's archives: the bytes of the format, what NumPy itself writes, and an error for every fault.
#include "io/npz.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "io/tensor_file.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// A file of one array, as NumPy writes it in the given version of the format.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(version), '\0'};
  if (version == 1)
    append_bytes(out, static_cast<std::uint16_t>(header.size()));
  else
    append_bytes(out, static_cast<std::uint32_t>(header.size()));
  return out + header + data;
}

std::string dict(const std::string& descr, const std::string& shape, const char* fortran = "False") {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}   \n", descr, fortran, shape);
}

struct Packed {
  std::string name, data;
  std::uint16_t method = 0, flags = 0;
  std::string contents{};  // what `data` unpacks to; empty: itself
};

// An archive such as NumPy's: sizes of the local headers stand in their 64-bit extra fields.
std::string zip(const std::vector<Packed>& files, const std::string& comment = "") {
  std::string out, directory;
  for (const Packed& f : files) {
    const std::string& contents = f.contents.empty() ? f.data : f.contents;
    const auto local = static_cast<std::uint32_t>(out.size());
    const auto head = [&](std::string& to, std::uint32_t packed, std::uint32_t size, std::uint16_t extra) {
      append_bytes(to, std::uint16_t{45});
      append_bytes(to, f.flags);
      append_bytes(to, f.method);
      append_bytes(to, std::uint32_t{0x00210000});
      append_bytes(to, crc32(contents));
      append_bytes(to, packed);
      append_bytes(to, size);
      append_bytes(to, static_cast<std::uint16_t>(f.name.size()));
      append_bytes(to, extra);
    };
    append_bytes(out, std::uint32_t{0x04034b50});
    head(out, 0xffffffffU, 0xffffffffU, 20);
    out += f.name;
    append_bytes(out, std::uint32_t{0x00100001});
    append_bytes(out, std::uint64_t{contents.size()});
    append_bytes(out, std::uint64_t{f.data.size()});
    out += f.data;
    append_bytes(directory, std::uint32_t{0x02014b50});
    append_bytes(directory, std::uint16_t{0x032d});
    head(directory, static_cast<std::uint32_t>(f.data.size()), static_cast<std::uint32_t>(contents.size()),
         0);
    directory += std::string(10, '\0');
    append_bytes(directory, local);
    directory += f.name;
  }
  const auto begin = static_cast<std::uint32_t>(out.size()),
             size = static_cast<std::uint32_t>(directory.size());
  out += directory;
  append_bytes(out, std::uint32_t{0x06054b50});
  append_bytes(out, std::uint32_t{0});
  append_bytes(out, static_cast<std::uint16_t>(files.size()));
  append_bytes(out, static_cast<std::uint16_t>(files.size()));
  append_bytes(out, size);
  append_bytes(out, begin);
  append_bytes(out, static_cast<std::uint16_t>(comment.size()));
  return out + comment;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string error_of(const std::string& bytes) {
  return message_of<CompilationError>([&] { read_npz(bytes, "f.npz"); });
}
std::string npy_error(const std::string& bytes) {
  return message_of<CompilationError>([&] { read_npy(bytes, "w"); });
}
std::string unsupported(const std::string& descr) {
  return message_of<NotSupportedError>([&] { read_npy(npy(dict(descr, "(1,)"), "12345678"), "w"); });
}

TEST(Npy, Bytes) {
  const std::string written = write_npy(Tensor::of<float>({1.0F, -2.0F}, {2, 1}), "w");
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  header.resize(128 - 10 - 1, ' ');
  EXPECT_EQ(written, std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" +
                         std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
  EXPECT_THAT(write_npy(Tensor::zeros({}), "w"), HasSubstr("'shape': (), }"));
  EXPECT_THAT(write_npy(Tensor::zeros({Dtype::Bool, {3}}), "w"),
              HasSubstr("'|b1', 'fortran_order': False, 'shape': (3,), }"));
}

TEST(Npz, Bytes) {
  const Tensor t = Tensor::of<std::int32_t>({7}, {});
  const std::string file = write_npy(t, "w");
  ASSERT_EQ(file.size(), 132U);
  std::string crc;
  append_bytes(crc, crc32(file));
  const std::string common =
      std::string("\x14\0\0\x08\0\0\0\0\x21\0", 10) + crc + std::string("\x84\0\0\0\x84\0\0\0\x05\0\0\0", 12);
  EXPECT_EQ(write_npz({{"w", t}}), "PK\3\4" + common + "w.npy" + file +           //
                                       std::string("PK\1\2\x14\0", 6) + common +  //
                                       std::string(14, '\0') + "w.npy" +          //
                                       std::string("PK\5\6\0\0\0\0\1\0\1\0\x33\0\0\0\xa7\0\0\0\0\0", 22));
  EXPECT_TRUE(read_npz(write_npz({}), "f").empty());
}

TEST(Npz, Crc32) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926U);  // the check value of the polynomial
  EXPECT_EQ(crc32("3456789", crc32("12")), 0xcbf43926U);
  EXPECT_EQ(crc32(""), 0U);
}

TEST(Npz, RoundTripOfEveryBit) {
  const double nan = std::bit_cast<double>(0x7ff8000000abcdefULL);
  const std::vector<std::uint32_t> floats{0x7fa00001U, 0xffc12345U, 0x80000000U, 1U};
  const std::vector<std::uint16_t> halves{0x7e01, 0x8000, 0x0001};
  const Named<Tensor> tensors{{"bool", Tensor::copy_of({Dtype::Bool, {3}}, "\1\0\1")},
                              {"f64", Tensor::of<double>({nan, -0.0, 5e-324, 1.0}, {2, 2})},
                              {"i64", Tensor::of<std::int64_t>({-1}, {1, 1})},
                              {"f32", Tensor::copy_of({Dtype::F32, {4}}, floats.data())},
                              {"i32", Tensor::of<std::int32_t>({-7}, {})},
                              {"u32", Tensor::of<std::uint32_t>({0xffffffffU}, {})},
                              {"f16", Tensor::copy_of({Dtype::F16, {3, 1}}, halves.data())},
                              {"none", Tensor::zeros({Dtype::F32, {3, 0, 2}})},
                              {"rnn/Wz/weight.bias", Tensor::zeros({Dtype::F32, {}})},
                              {"größe.npy", Tensor::zeros({Dtype::F32, {0}})}};
  const Named<Tensor> read = read_npz(write_npz(tensors), "f");
  EXPECT_EQ(read, tensors);
  EXPECT_EQ(write_npz(read), write_npz(tensors));
}

TEST(Npz, WhatCannotBeWritten) {
  const Tensor t = Tensor::zeros({});
  EXPECT_THROW(write_npz({{"a", t}, {"a", t}}), ValueError);
  EXPECT_THROW(write_npz({{"a", Tensor()}}), ValueError);
  EXPECT_THROW(write_npz({{"\xff", t}}), ValueError);
  EXPECT_THROW(write_npz({{std::string("a\0b", 3), t}}), ValueError);
  EXPECT_THROW(write_npz({{std::string(70000, 'a'), t}}), ValueError);
  EXPECT_THROW(write_npz(Named<Tensor>(70000, {"a", t})), ValueError);
  EXPECT_THAT(message_of<NotSupportedError>([] {
                write_npz({{"w", Tensor::zeros({Dtype::BF16, {2}})}});
              }),
              AllOf(HasSubstr("w: NumPy has no type for bf16[2]"), HasSubstr(".safetensors")));
}

TEST(Npy, EveryVersionOfTheHeader) {
  for (const int version : {1, 2, 3})
    EXPECT_EQ(read_npy(npy(dict("'<i4'", "(2,)"), raw<std::int32_t>({5, 6}), version), "w"),
              Tensor::of<std::int32_t>({5, 6}, {2}))
        << version;
  EXPECT_EQ(
      read_npy(npy("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"<f8\"}", raw<double>({1, 2})), "w"),
      Tensor::of<double>({1, 2}, {1, 2}));
  EXPECT_THAT(message_of<NotSupportedError>([] { read_npy(npy(dict("'<i4'", "()"), "1234", 4), "w"); }),
              HasSubstr("w: version 4"));
}

TEST(Npy, FortranOrderIsTransposed) {
  // x[i,j,k] = 100 i + 10 j + k; the first axis runs fastest in the file.
  std::vector<double> rows, columns;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) rows.push_back(100 * i + 10 * j + k);
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) columns.push_back(100 * i + 10 * j + k);
  EXPECT_EQ(read_npy(npy(dict("'<f8'", "(2, 3, 4)", "True"), raw(columns)), "w"),
            Tensor::of<double>(rows, {2, 3, 4}));
  EXPECT_EQ(read_npy(npy(dict("'<f8'", "()", "True"), raw<double>({3})), "w"), Tensor::of<double>({3}, {}));
  EXPECT_EQ(read_npy(npy(dict("'<f8'", "(2, 0)", "True"), ""), "w"), Tensor::zeros({Dtype::F64, {2, 0}}));
}

TEST(Npy, NarrowIntegersAreReadAsI32) {
  const auto read = [](const char* descr, const std::string& data, const char* fortran = "False") {
    return read_npy(npy(dict(descr, "(2, 2)", fortran), data), "w");
  };
  EXPECT_EQ(read("'|u1'", raw<std::uint8_t>({0, 1, 200, 255})),
            Tensor::of<std::int32_t>({0, 1, 200, 255}, {2, 2}));
  EXPECT_EQ(read("'|i1'", raw<std::int8_t>({0, 1, -128, 127}), "True"),
            Tensor::of<std::int32_t>({0, -128, 1, 127}, {2, 2}));
  EXPECT_EQ(read("'<u2'", raw<std::uint16_t>({0, 1, 65535, 300})),
            Tensor::of<std::int32_t>({0, 1, 65535, 300}, {2, 2}));
  EXPECT_EQ(read("'<i2'", raw<std::int16_t>({0, 1, -32768, 300})),
            Tensor::of<std::int32_t>({0, 1, -32768, 300}, {2, 2}));
  EXPECT_THAT(npy_error(npy(dict("'<i2'", "(3,)"), "12")),
              HasSubstr("found 2 bytes of data, expected 6 for '<i2'"));
}

TEST(Npy, ElementTypesThatAreNotSupported) {
  EXPECT_THAT(unsupported("'>f8'"),
              AllOf(HasSubstr("w: the big-endian element type '>f8'"), HasSubstr("astype")));
  EXPECT_THAT(unsupported("'|O'"), HasSubstr("'|O' (Python objects)"));
  for (const char* descr : {"'<U5'", "'<c8'", "'<u8'", "'>i2'", "'|V2'", "''"})
    EXPECT_THAT(unsupported(descr), HasSubstr(descr));
  EXPECT_THAT(unsupported("[('x', '<f4')]"), HasSubstr("structured"));
}

TEST(Npy, FaultsOfTheHeader) {
  EXPECT_THAT(npy_error("NUMPY"), HasSubstr("w: is no array of NumPy"));
  EXPECT_THAT(npy_error("\x93NUMPY\1"), HasSubstr("magic"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\2\0\1", 9)), HasSubstr("truncated"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14)),
              HasSubstr("4294967295 bytes, but 2"));
  EXPECT_THAT(npy_error(npy(dict("'<f4'", "(2,)"), "1234")),
              HasSubstr("found 4 bytes of data, expected 8 for f32[2]"));
  EXPECT_THAT(npy_error(npy(dict("'<f4'", "(-2,)"), "")), HasSubstr("w: shape: an axis of size -2"));
  EXPECT_THAT(npy_error(npy(dict("'<f4'", "(9223372036854775807, 2)"), "")),
              HasSubstr("does not fit into memory"));
  EXPECT_THAT(npy_error(npy(dict("'<f4'", "(99999999999999999999,)"), "")), HasSubstr("64 bits"));
  EXPECT_THAT(npy_error(npy(dict("'|b1'", "(2,)"), "\1\7")), HasSubstr("w: element 1 is the byte 7"));
  for (const char* header :
       {"", "{", "{}", "{'descr'", "{'descr': '<f4'}", "{'descr': '<f4", "{'descr': '<f4', 'descr': '<f4'}",
        "{'x': 1}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': ()} x",
        "{'descr': '\n', 'fortran_order': True, 'shape': ()}", "{'descr' '<f4'}",
        "{'descr': '<f4' 'shape': ()}"})
    EXPECT_THAT(npy_error(npy(header, "1234")), HasSubstr("w: header, character ")) << header;
}

TEST(Npz, ArchivesOfNumPy) {  // 64-bit extra fields in local headers; a comment
  const std::string x = npy(dict("'<f4'", "(1,)"), raw<float>({2.5F}));
  const Named<Tensor> expected{{"a/b", Tensor::of<float>({2.5F}, {1})},
                               {"c", Tensor::of<float>({2.5F}, {1})}};
  EXPECT_EQ(read_npz(zip({{"a/b.npy", x}, {"c.npy", x}}), "f"), expected);
  EXPECT_EQ(read_npz(zip({{"a/b.npy", x}, {"c.npy", x}}, "PK\5\6 is no end record"), "f"), expected);
}

TEST(Npz, EveryTruncationAndEveryFlippedByteIsSafe) {
  const Named<Tensor> tensors{{"a", Tensor::of<float>({1, 2}, {2})},
                              {"b", Tensor::zeros({Dtype::Bool, {3}})}};
  const std::string whole = write_npz(tensors);
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THROW(read_npz(std::string_view(whole).substr(0, n), "f"), CompilationError) << n;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      try {  // dates, versions and attributes carry nothing; names are no data
        const Named<Tensor> read = read_npz(damaged, "f");
        for (std::size_t k = 0; k < read.size(); ++k) EXPECT_EQ(read[k].second, tensors[k].second) << i;
      } catch (const InternalError& e) {
        FAIL() << i << ": " << e.what();
      } catch (const Error&) {
      }
    }
}

TEST(Npz, FaultsOfTheArchive) {
  const std::string x = npy(dict("'<f4'", "(1,)"), "1234");
  const std::string good = zip({{"a.npy", x}});
  const std::size_t end = good.size() - 22, directory = end - 46 - 5;
  const auto changed = [&](std::size_t at, auto value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  EXPECT_THAT(error_of("no archive"), AllOf(HasSubstr("[npz] f.npz: "), HasSubstr("no zip archive")));
  EXPECT_THAT(error_of(""), HasSubstr("no zip archive"));
  EXPECT_THAT(error_of(std::string(70000, 'x') + good), HasSubstr("expected an entry"));
  EXPECT_THAT(error_of(changed(end + 4, std::uint16_t{1})), HasSubstr("one part of several"));
  EXPECT_THAT(error_of(changed(end + 16, std::uint32_t{4000000000U})), HasSubstr("the directory shall lie"));
  EXPECT_THAT(error_of(changed(end + 12, std::uint32_t{20})),
              HasSubstr("directory, byte 0: expected an entry"));
  EXPECT_THAT(error_of(changed(directory + 28, std::uint16_t{60000})),
              HasSubstr("longer than the directory"));
  EXPECT_THAT(error_of(changed(directory + 28, std::uint16_t{4})), HasSubstr("longer than its 1 entries"));
  EXPECT_THAT(error_of(changed(directory + 42, std::uint32_t{1})), HasSubstr("no local header at byte 1"));
  EXPECT_THAT(error_of(changed(directory + 42, std::uint32_t{4000000000U})), HasSubstr("no local header"));
  EXPECT_THAT(error_of(changed(directory + 20, std::uint32_t{4000000000U})),
              HasSubstr("the data shall end at byte"));
  EXPECT_THAT(error_of(changed(directory + 24, std::uint32_t{7})), HasSubstr("a.npy: stored with"));
  EXPECT_THAT(error_of(changed(directory + 46, 'b')), HasSubstr("another name than the directory"));
  EXPECT_THAT(error_of(changed(directory + 46, '\xff')), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of(changed(directory - 1, 'x')),
              AllOf(HasSubstr("a.npy: the checksum"), HasSubstr("damaged")));
  EXPECT_THAT(error_of(zip({{"a.npy", x}, {"a.npy", x}})), HasSubstr("a.npy: is in the archive twice"));
  EXPECT_THAT(error_of(zip({{"a.txt", x}})), HasSubstr("a.txt: is no array"));
  EXPECT_THAT(error_of(zip({{"a.npy", "text"}})), HasSubstr("f.npz: a.npy: is no array of NumPy"));

  std::string shared = zip({{"a.npy", x}, {"a.npy", x}});  // both entries at the same bytes
  const std::size_t second = shared.size() - 22 - 46 - 5;
  std::memset(shared.data() + second + 42, 0, 4);
  EXPECT_THAT(error_of(shared), HasSubstr("inside another entry"));

  const auto refused = [](const std::string& bytes) {
    return message_of<NotSupportedError>([&] { read_npz(bytes, "f.npz"); });
  };
  EXPECT_THAT(refused(changed(end + 16, 0xffffffffU)), HasSubstr("zip64"));
  EXPECT_THAT(refused(changed(directory + 20, 0xffffffffU)), HasSubstr("zip64"));
  EXPECT_THAT(refused(changed(directory + 8, std::uint16_t{1})), HasSubstr("encrypted"));
  EXPECT_THAT(refused(changed(directory + 10, std::uint16_t{14})), HasSubstr("compression method 14"));
}

// A stored block of deflate: 1, length, its complement, the bytes.
TEST(Npz, CompressedArraysAreReadOrRefused) {
  const std::string x = npy(dict("'<f4'", "(1,)"), raw<float>({2.5F}));
  std::string packed = "\1";
  append_bytes(packed, static_cast<std::uint16_t>(x.size()));
  append_bytes(packed, static_cast<std::uint16_t>(~x.size()));
  packed += x;
  EXPECT_EQ(read_npz(zip({{"a.npy", packed, 8, 0, x}}), "f")[0].second, Tensor::of<float>({2.5F}, {1}));
  const auto damaged = [&](const std::string& bytes, const std::string& contents) {
    return error_of(zip({{"a.npy", bytes, 8, 0, contents}}));
  };
  EXPECT_THAT(damaged(packed.substr(0, 9), x), HasSubstr("compressed data is damaged"));
  EXPECT_THAT(damaged("\7", x), HasSubstr("compressed data is damaged"));
  EXPECT_THAT(damaged(packed, x + "more"), HasSubstr("compressed data is damaged"));
  EXPECT_THAT(damaged("\1", std::string(5000, 'x')), HasSubstr("more than the compressed data can hold"));
}

}  // namespace
}  // namespace etrace
