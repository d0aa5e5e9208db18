// y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space
#pragma once

#include <utility>

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// How far x is extended by zeros: "SAME" (as many positions as ⌈x/stride⌉), "VALID" (none), one number, one
// per axis of space, or (before, after) per axis.
class Padding {
 public:
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Padding(const char* name) : name_(name) {}             // NOLINT: options read as values
  Padding(std::string name) : name_(std::move(name)) {}  // NOLINT
  Padding(std::int64_t on_both_sides) : pairs_{{on_both_sides, on_both_sides}} {}  // NOLINT
  Padding(int on_both_sides) : Padding(std::int64_t{on_both_sides}) {}             // NOLINT
  Padding(Pairs pairs) : pairs_(std::move(pairs)) {}  // NOLINT: one for all axes, or one each

  const std::string& name() const { return name_; }  // empty: the pairs count
  const Pairs& pairs() const { return pairs_; }

 private:
  std::string name_;
  Pairs pairs_;
};

struct ConvLayerOptions {
  Dims strides = {1};  // one per axis of space, or one for all; so are the dilations
  Padding padding = "SAME";
  Dims dilation = {1};        // of the kernel
  Dims input_dilation = {1};  // of x: zeros between its entries; needs padding by numbers
  std::int64_t groups = 1;    // of channels that see only each other
  Initializer weight_init = init::xavier_normal();
  Initializer bias_init = {};  // empty: no bias
  Array mask = {};             // fixed factor of K, broadcast to it; undefined: none
  bool standardize = false;    // K standardised per output channel (etrace/nn/weight_standardization.h)
  bool channel_first = false;  // samples are [channels, space…] instead of [space…, channels]
  // Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes
  // of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the
  // kernel.
  std::vector<std::string> layout = {};
  Unit unit = {};  // of K
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

struct ConvGeometry;  // private to nn/

// One parameter `weight` with the leaves bias [1, …, 1, out] ([out, 1, …, 1] with channels first) and weight
// [kernel…, in/groups, out], or in the order of the layout. x is one sample or a batch of them.
class Conv : public WeightLayer {
 public:
  using Options = ConvLayerOptions;
  // As many dimensions as samples have axes besides that of the channels.
  Conv(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size,
       const ConvLayerOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const Shape in_size;  // of a sample
  Shape out_size() const { return out_size_; }

 protected:
  Conv(const std::string& name, std::size_t space, const Shape& in_size, std::int64_t out_channels,
       const Dims& kernel_size, const ConvLayerOptions&);

 private:
  Conv(std::shared_ptr<const ConvGeometry>, const Shape& in_size, const ConvLayerOptions&);
  Array of_batch(const Array& x) const;
  std::shared_ptr<const ConvGeometry> geometry_;
  Shape out_size_;
};

struct Conv1d : Conv {
  Conv1d(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size,
         const ConvLayerOptions& o = {})
      : Conv("Conv1d", 1, in_size, out_channels, kernel_size, o) {}
};
struct Conv2d : Conv {
  Conv2d(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size,
         const ConvLayerOptions& o = {})
      : Conv("Conv2d", 2, in_size, out_channels, kernel_size, o) {}
};
struct Conv3d : Conv {
  Conv3d(const Shape& in_size, std::int64_t out_channels, const Dims& kernel_size,
         const ConvLayerOptions& o = {})
      : Conv("Conv3d", 3, in_size, out_channels, kernel_size, o) {}
};

}  // namespace etrace::nn
#pragma GCC visibility pop
