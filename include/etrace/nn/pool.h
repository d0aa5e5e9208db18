// Pooling over windows of space, in 1 to 3 dimensions.
//   AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative
//   AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is
//   [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)
#pragma once

#include <utility>

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct PoolOptions {
  Dims strides = {};  // one per axis of space, or one for all; empty: the window
  // Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.
  std::vector<std::pair<std::int64_t, std::int64_t>> padding = {};
  bool count_padding = false;  // means: added entries count as zeros; false: they do not count
  bool channel_first = false;  // a sample is [channels, space…] instead of [space…, channels]
};

// One axis after the other, which gives the same as whole windows. x is one sample or a batch of them.
class Pool : public SameUnitLayer {
 public:
  Array update(const Array& x) override;

 protected:
  enum class Kind : std::uint8_t { Mean, Max };
  // One axis of space: windows [begin, end) of the padded entries.
  using Windows = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Pool(std::string name, Kind kind, std::size_t space, bool channel_first)
      : name_(std::move(name)), kind_(kind), space_(space), channel_first_(channel_first) {}

 private:
  virtual Array along(const Array& x, int axis, std::size_t i) const = 0;  // i: which axis of space

 protected:
  Array pooled(const Array& x, int axis, const Windows&, std::pair<std::int64_t, std::int64_t> padding,
               bool count_padding) const;
  std::string name_;

 private:
  Kind kind_;
  std::size_t space_;
  bool channel_first_;
};

class FixedPool : public Pool {
 public:
  using Options = PoolOptions;

 protected:
  FixedPool(std::string name, Kind kind, std::size_t space, Dims window, const PoolOptions&);

 private:
  Array along(const Array& x, int axis, std::size_t i) const override;
  Dims window_, strides_;
  std::vector<std::pair<std::int64_t, std::int64_t>> padding_;
  bool count_padding_;
};

class AdaptivePool : public Pool {
 protected:
  AdaptivePool(std::string name, Kind kind, std::size_t space, Dims out_size, bool channel_first);

 private:
  Array along(const Array& x, int axis, std::size_t i) const override;
  Dims out_size_;
};

struct AvgPool1d : FixedPool {
  explicit AvgPool1d(Dims window, const PoolOptions& o = {})
      : FixedPool("AvgPool1d", Kind::Mean, 1, std::move(window), o) {}
};
struct AvgPool2d : FixedPool {
  explicit AvgPool2d(Dims window, const PoolOptions& o = {})
      : FixedPool("AvgPool2d", Kind::Mean, 2, std::move(window), o) {}
};
struct AvgPool3d : FixedPool {
  explicit AvgPool3d(Dims window, const PoolOptions& o = {})
      : FixedPool("AvgPool3d", Kind::Mean, 3, std::move(window), o) {}
};
struct MaxPool1d : FixedPool {
  explicit MaxPool1d(Dims window, const PoolOptions& o = {})
      : FixedPool("MaxPool1d", Kind::Max, 1, std::move(window), o) {}
};
struct MaxPool2d : FixedPool {
  explicit MaxPool2d(Dims window, const PoolOptions& o = {})
      : FixedPool("MaxPool2d", Kind::Max, 2, std::move(window), o) {}
};
struct MaxPool3d : FixedPool {
  explicit MaxPool3d(Dims window, const PoolOptions& o = {})
      : FixedPool("MaxPool3d", Kind::Max, 3, std::move(window), o) {}
};
struct AdaptiveAvgPool1d : AdaptivePool {
  explicit AdaptiveAvgPool1d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveAvgPool1d", Kind::Mean, 1, std::move(out_size), channel_first) {}
};
struct AdaptiveAvgPool2d : AdaptivePool {
  explicit AdaptiveAvgPool2d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveAvgPool2d", Kind::Mean, 2, std::move(out_size), channel_first) {}
};
struct AdaptiveAvgPool3d : AdaptivePool {
  explicit AdaptiveAvgPool3d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveAvgPool3d", Kind::Mean, 3, std::move(out_size), channel_first) {}
};
struct AdaptiveMaxPool1d : AdaptivePool {
  explicit AdaptiveMaxPool1d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveMaxPool1d", Kind::Max, 1, std::move(out_size), channel_first) {}
};
struct AdaptiveMaxPool2d : AdaptivePool {
  explicit AdaptiveMaxPool2d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveMaxPool2d", Kind::Max, 2, std::move(out_size), channel_first) {}
};
struct AdaptiveMaxPool3d : AdaptivePool {
  explicit AdaptiveMaxPool3d(Dims out_size, bool channel_first = false)
      : AdaptivePool("AdaptiveMaxPool3d", Kind::Max, 3, std::move(out_size), channel_first) {}
};

}  // namespace etrace::nn
#pragma GCC visibility pop
