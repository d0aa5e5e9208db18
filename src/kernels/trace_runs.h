// The sources of a window, row by row: what Σ_k x_k·f_k needs of x. A spike train, or anything else that
// often stays the same for some steps, is a short list of terms x·F, with F the sum of f over a block of 2^l
// steps (a block starts at a multiple of its length); blocks of zeros are left out. Where that makes many
// terms, as with dense data, a row is x itself, step after step. Which way a row goes depends on its own
// numbers alone, so neither threads nor engines can tell.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/trace_geometry.h"

namespace etrace::trace_pass {

// The blocks of K steps, numbered: 32 steps by 32 steps, and in each such group by length.
class StepBlocks {
 public:
  static constexpr Index kGroup = 32;
  static constexpr int kLevels = 6;

  explicit StepBlocks(Index steps) : steps_(steps) {}
  Index steps() const { return steps_; }
  Index count() const { return steps_ / kGroup * kPerGroup + count_in(steps_ % kGroup); }

  // Calls f(first step, steps, first block) for every group; its blocks of 2^l steps follow those of 2^(l-1),
  // steps >> l of them.
  template <class F>
  void for_groups(const F& f) const {
    for (Index k = 0; k < steps_; k += kGroup) f(k, std::min(kGroup, steps_ - k), first_of(k));
  }
  // The first block of the group that begins at step k: this step alone.
  static Index first_of(Index k) { return k / kGroup * kPerGroup; }

 private:
  static constexpr Index kPerGroup = 2 * kGroup - 1;
  static Index count_in(Index length) {
    Index n = 0;
    for (; length > 0; length /= 2) n += length;
    return n;
  }

  Index steps_;
};

// What one row is made of in a group: bit k of level l stands for the block of 2^l steps from step k on.
class ChosenBlocks {
 public:
  ChosenBlocks() = default;
  // Bit k of `same`: step k is as the one before it, k > 0; of `set`: it is not zero.
  ChosenBlocks(std::uint32_t same, std::uint32_t set, Index steps) {
    constexpr std::uint32_t starts[] = {0x55555555, 0x11111111, 0x01010101, 0x00010001, 1};
    std::uint32_t whole = steps == 32 ? ~0U : (1U << steps) - 1;  // blocks of one value
    for (int l = 0; l + 1 < StepBlocks::kLevels; ++l) {
      const int length = 1 << l;
      const std::uint32_t twice = whole & whole >> length & same >> length & starts[l];
      level[l] = whole & ~(twice | twice << length) & set;
      whole = twice;
    }
    level[StepBlocks::kLevels - 1] = whole & set;
  }
  Index count() const {
    Index n = 0;
    for (const std::uint32_t bits : level) n += std::popcount(bits);
    return n;
  }

  std::uint32_t level[StepBlocks::kLevels] = {};
};

template <class T>
struct Term {
  T factor;
  std::int32_t block;
};

// The rows of all samples, with a stretch of scratch for each: a list of terms, or x of all steps.
template <class T>
class SourceRows {
 public:
  // lists: whether there are any; with few columns they cost more than they save. Scratch:
  // scratch_elements().
  SourceRows(Index steps, Index rows, Index batch, bool lists, T* scratch)
      : blocks_(steps),
        rows_(rows),
        lists_(lists),
        data_(scratch),
        terms_(reinterpret_cast<std::int32_t*>(scratch + rows * batch * stretch(steps))) {}
  static Index scratch_elements(Index steps, Index rows, Index batch) {
    return rows * batch * (stretch(steps) + 1);
  }

  const StepBlocks& blocks() const { return blocks_; }
  // How many terms the list has; negative: no list.
  Index terms(Index b, Index row) const { return terms_[b * rows_ + row]; }
  const Term<T>* list(Index b, Index row) const { return reinterpret_cast<const Term<T>*>(at(b, row)); }
  const T* data(Index b, Index row) const { return at(b, row); }

  // Rows [first, last) of sample b: x of step k is at from[k·step + (row - first)·stride].
  void fill(Index b, Index first, Index last, const T* from, Index step, Index stride) {
    for (Index r = first; r < last; r += kTogether, from += kTogether * stride)
      fill_some(b, r, std::min(kTogether, last - r), from, step, stride);
  }

 private:
  static constexpr Index kTogether = 64;
  static Index stretch(Index steps) { return (steps + 1) / 2 * 2; }
  Index most_terms() const { return blocks_.steps() / 2; }  // as many as have room; more would not pay
  T* at(Index b, Index row) const { return data_ + (b * rows_ + row) * stretch(blocks_.steps()); }

  // x of the steps of a group, rows side by side, and the blocks that each row is made of.
  struct Group {
    alignas(64) T x[StepBlocks::kGroup][kTogether];
    ChosenBlocks chosen[kTogether];

    void read(const T* from, Index steps, Index step, Index rows, Index stride) {
      for (Index k = 0; k < steps; ++k, from += step) {
        if (stride == 1)
          std::copy_n(from, rows, x[k]);
        else
          for (Index i = 0; i < rows; ++i) x[k][i] = from[i * stride];
        std::fill(x[k] + rows, x[k] + kTogether, T(0));
      }
    }
    void choose(Index steps, Index rows) {
      std::uint32_t same[kTogether], set[kTogether];
      for (Index i = 0; i < kTogether; ++i) same[i] = 0, set[i] = x[0][i] != T(0) ? 1 : 0;
      for (Index k = 1; k < steps; ++k)
        for (Index i = 0; i < kTogether; ++i) {
          same[i] |= (x[k][i] == x[k - 1][i] ? 1U : 0U) << k;
          set[i] |= (x[k][i] != T(0) ? 1U : 0U) << k;
        }
      for (Index i = 0; i < rows; ++i) chosen[i] = ChosenBlocks(same[i], set[i], steps);
    }
  };

  void fill_some(Index b, Index first, Index rows, const T* from, Index step, Index stride) {
    Group group;
    const auto read = [&](Index k, Index steps) {
      group.read(from + k * step, steps, step, rows, stride);
      if (lists_) group.choose(steps, rows);
    };
    std::int32_t* terms = terms_ + b * rows_ + first;
    std::fill_n(terms, rows, 0);
    blocks_.for_groups([&](Index k, Index steps, Index) {
      read(k, steps);
      for (Index i = 0; i < rows; ++i) terms[i] += static_cast<std::int32_t>(group.chosen[i].count());
    });
    for (Index i = 0; i < rows; ++i)
      if (!lists_ || terms[i] > most_terms()) terms[i] = -1;
    Index written[kTogether] = {};
    blocks_.for_groups([&](Index k, Index steps, Index block) {
      if (blocks_.steps() > StepBlocks::kGroup) read(k, steps);
      for (Index i = 0; i < rows; ++i) {
        Index end = i;
        while (end < rows && terms[end] < 0) ++end;
        if (end > i)
          turn(group.x[0], steps, kTogether, i, end, at(b, first) + k, stretch(blocks_.steps()), steps);
        if (end < rows) {
          Term<T>* to = reinterpret_cast<Term<T>*>(at(b, first + end)) + written[end];
          written[end] += list(group.chosen[end], steps, block, &group.x[0][end], to);
        }
        i = end;
      }
    });
  }

  static Index list(const ChosenBlocks& chosen, Index steps, Index block, const T* x, Term<T>* to) {
    Index n = 0;
    for (int l = 0; l < StepBlocks::kLevels; block += steps >> l++)
      for (std::uint32_t bits = chosen.level[l]; bits != 0; bits &= bits - 1) {
        const int k = std::countr_zero(bits);
        to[n++] = {x[k * kTogether], static_cast<std::int32_t>(block + (k >> l))};
      }
    return n;
  }

  StepBlocks blocks_;
  Index rows_;
  bool lists_;
  T* data_;
  std::int32_t* terms_;
};

}  // namespace etrace::trace_pass
