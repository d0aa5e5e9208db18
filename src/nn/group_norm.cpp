#include "etrace/nn/group_norm.h"

#include "etrace/ops/shape.h"
#include "nn/check.h"
#include "nn/normalize.h"

namespace etrace::nn {

namespace {
std::string group_norm_text(const Shape& in, std::int64_t groups) {
  return "a GroupNorm of " + std::to_string(groups) + " groups over " + to_string(in);
}
std::int64_t channels_of(const Shape& in, const GroupNormOptions& o) {
  if (in.rank() == 0) wrong_option(group_norm_text(in, o.groups), "it needs the sizes of a sample");
  const std::int64_t channels = o.channel_first ? in[0] : in.back();
  if (o.groups < 1 || channels % o.groups != 0)
    wrong_option(group_norm_text(in, o.groups),
                 std::to_string(channels) + " channels cannot be cut into so many equal groups");
  return channels;
}
}  // namespace

GroupNorm::GroupNorm(const Shape& in, const GroupNormOptions& o)
    : in_size(in),
      weight(o.scale || o.bias
                 ? &param("weight", scale_and_bias({channels_of(in, o)}, o.scale, o.bias, o.dtype))
                 : nullptr),
      options_(o) {
  channels_of(in, o);
}

Array GroupNorm::update(const Array& x) {
  require_sample(group_norm_text(in_size, options_.groups), x, in_size);
  const std::size_t batch = x.rank() - in_size.rank(), space = in_size.rank() - 1;
  const std::size_t channel = options_.channel_first ? 0 : space;  // of a sample
  Dims cut = x.shape().to_dims(), axes;  // the axis of channels becomes [groups, channels of a group]
  const auto at = cut.begin() + static_cast<std::ptrdiff_t>(batch + channel);
  *at /= options_.groups;
  cut.insert(at, options_.groups);
  for (std::size_t a = batch; a < cut.size(); ++a)
    if (a != batch + channel) axes.push_back(static_cast<std::int64_t>(a));
  const Array y = reshape(normalized(reshape(x, cut), axes, options_.epsilon), x.shape().to_dims());
  return scaled_and_shifted(y, weight, in_size, {static_cast<std::int64_t>(channel)});
}

}  // namespace etrace::nn
