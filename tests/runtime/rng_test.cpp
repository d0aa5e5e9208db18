// Threefry-2x32 against published vectors, and the layout of random_bits (JAX's partitionable scheme).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/etp_rng.h"

namespace {

struct Known {
  std::uint32_t k0, k1, c0, c1, x0, x1;
};

TEST(Threefry, KnownAnswers) {
  const Known known[] = {
      {0, 0, 0, 0, 0x6b200159u, 0x99ba4efeu},
      {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0x1cb996fcu, 0xbb002be7u},
      {0x13198a2eu, 0x03707344u, 0x243f6a88u, 0x85a308d3u, 0xc4923a9cu, 0x483df7a0u},
  };
  for (const Known& k : known) {
    std::uint32_t x0 = k.c0, x1 = k.c1;
    etp_threefry2x32(k.k0, k.k1, &x0, &x1);
    EXPECT_EQ(x0, k.x0);
    EXPECT_EQ(x1, k.x1);
  }
}

TEST(RandomBits, WordIsXorOfTheBlockAtItsIndex) {
  const std::uint64_t first = 0xfffffff0u;  // the words cross the change of the high counter word
  std::vector<std::uint32_t> words(37);
  std::vector<std::uint64_t> longs(37);
  etp_random_bits_u32(7, 42, first, 37, words.data());
  etp_random_bits_u64(7, 42, first, 37, longs.data());
  for (std::size_t j = 0; j < words.size(); j++) {
    const std::uint64_t i = first + j;
    std::uint32_t x0 = static_cast<std::uint32_t>(i >> 32), x1 = static_cast<std::uint32_t>(i);
    etp_threefry2x32(7, 42, &x0, &x1);
    EXPECT_EQ(words[j], x0 ^ x1);
    EXPECT_EQ(longs[j], static_cast<std::uint64_t>(x0) << 32 | x1);
  }
}

TEST(RandomBits, PartsEqualTheWhole) {
  std::vector<std::uint32_t> whole(1000), parts(1000);
  etp_random_bits_u32(1, 2, 0, 1000, whole.data());
  for (std::size_t at = 0, n = 1; at < parts.size(); at += n, n = n % 61 + 3) {
    const std::size_t m = std::min(n, parts.size() - at);
    etp_random_bits_u32(1, 2, at, static_cast<std::ptrdiff_t>(m), parts.data() + at);
  }
  EXPECT_EQ(whole, parts);
}

// The first word for the key of jax.random.key(0) is x0 ^ x1 of the first known answer.
TEST(RandomBits, FirstWordOfKeyZero) {
  std::uint32_t word = 0;
  etp_random_bits_u32(0, 0, 0, 1, &word);
  EXPECT_EQ(word, 0x6b200159u ^ 0x99ba4efeu);
}

}  // namespace
