#include "etrace/nn/pool.h"

#include <limits>

#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {
// One value per axis of space.
template <class T>
std::vector<T> per_axis(const std::string& name, const char* what, std::vector<T> values, std::size_t space) {
  if (values.size() == 1) values.resize(space, values[0]);
  if (values.size() != space)
    wrong_option(name, std::string(what) + " has " + std::to_string(values.size()) +
                           " entries; expected 1 or " + std::to_string(space));
  return values;
}
Dims positive(const std::string& name, const char* what, Dims values, std::size_t space) {
  values = per_axis(name, what, std::move(values), space);
  for (const std::int64_t v : values)
    if (v < 1)
      wrong_option(name, std::string(what) + " holds " + std::to_string(v) + "; expected at least 1");
  return values;
}

// What no entry is below.
Scalar least(Dtype dtype) {
  if (dtype == Dtype::I64) return std::numeric_limits<std::int64_t>::min();
  if (dtype == Dtype::I32) return std::int64_t{std::numeric_limits<std::int32_t>::min()};
  if (!is_floating(dtype)) return std::int64_t{0};
  return -std::numeric_limits<double>::infinity();
}

// The larger of two, and of equal ones the first, which gets the whole derivative. A NaN is larger.
Array first_of_largest(const Array& a, const Array& b) {
  Array wins = greater_equal(a, b);
  if (is_floating(a.dtype())) wins = logical_or(wins, not_equal_to(a, a));
  return where(wins, a, b);
}
}  // namespace

// Where entries of a window are equal, the first in row-major order is the maximum: rows are pooled first.
// (Sums start with the first axis.)
Array Pool::update(const Array& x) {
  if (x.rank() != space_ + 1 && x.rank() != space_ + 2)
    wrong_input("an " + name_, x,
                std::string(channel_first_ ? "[channels,space…]" : "[space…,channels]") + " with " +
                    std::to_string(space_) + " axes of space, or a batch of these");
  const std::size_t first = x.rank() - space_ - (channel_first_ ? 0 : 1);
  Array y = x;
  for (std::size_t k = 0; k < space_; ++k) {
    const std::size_t i = kind_ == Kind::Max ? space_ - 1 - k : k;
    y = along(y, static_cast<int>(first + i), i);
  }
  return y;
}

// Entry k of every window is one slice where the windows are equally long and far apart, else it is picked
// out (shorter windows repeat their last one, which changes no maximum), or windows are summed one by one.
Array Pool::pooled(const Array& x, int axis, const Windows& windows,
                   std::pair<std::int64_t, std::int64_t> padding, bool count_padding) const {
  const bool mean_of = kind_ == Kind::Mean;
  const std::int64_t n = x.dim(axis);
  const Scalar outside = mean_of ? Scalar(0.0) : least(x.dtype());
  Array in = x;
  if (padding.first != 0 || padding.second != 0) {
    std::vector<PadAxis> around(x.rank());
    around[static_cast<std::size_t>(axis)] = {padding.first, padding.second, 0};
    in = pad(x, full({}, outside, x.dtype()), around);
  }
  const auto join = [&](const Array& a, const Array& b) { return mean_of ? a + b : first_of_largest(a, b); };
  std::int64_t length = windows[0].second - windows[0].first;
  const std::int64_t stride = windows.size() > 1 ? windows[1].first - windows[0].first : 1;
  bool regular = true;
  for (std::size_t i = 0; i < windows.size(); ++i)
    regular = regular && windows[i].second - windows[i].first == length &&
              windows[i].first == windows[0].first + static_cast<std::int64_t>(i) * stride;
  Array total;
  std::vector<double> counts;
  for (const auto& [begin, end] : windows) {
    const std::int64_t inside = std::min(end, padding.first + n) - std::max(begin, padding.first);
    counts.push_back(static_cast<double>(count_padding ? end - begin : inside));
  }
  if (regular) {
    const std::int64_t last = windows.back().first;
    for (std::int64_t k = 0; k < length; ++k) {
      const Array entry = slice_axis(in, axis, windows[0].first + k, last + k + 1, stride);
      total = total.defined() ? join(total, entry) : entry;
    }
  } else if (mean_of) {
    Arrays parts;
    for (const auto& [begin, end] : windows)
      parts.push_back(sum(slice_axis(in, axis, begin, end), {axis}, true));
    total = concatenate(parts, axis);
  } else {
    for (const auto& [begin, end] : windows) length = std::max(length, end - begin);
    for (std::int64_t k = 0; k < length; ++k) {
      std::vector<std::int32_t> places;
      for (const auto& [begin, end] : windows)
        places.push_back(static_cast<std::int32_t>(std::min(begin + k, end - 1)));
      const Array entry = take(in, Tensor::of(places, {static_cast<std::int64_t>(places.size())}), axis);
      total = total.defined() ? join(total, entry) : entry;
    }
  }
  if (!mean_of) return total;
  const bool equal_counts =
      std::all_of(counts.begin(), counts.end(), [&](double c) { return c == counts[0]; });
  if (equal_counts) return total * (1.0 / counts[0]);
  for (double& c : counts) c = 1.0 / c;
  Dims sizes(x.rank(), 1);
  sizes[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(counts.size());
  return total * array(counts, sizes, x.dtype());
}

FixedPool::FixedPool(std::string name, Kind kind, std::size_t space, Dims window, const PoolOptions& o)
    : Pool(std::move(name), kind, space, o.channel_first),
      window_(positive(name_, "the window", std::move(window), space)),
      strides_(positive(name_, "strides", o.strides.empty() ? window_ : o.strides, space)),
      padding_(per_axis(
          name_, "padding",
          o.padding.empty() ? std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}} : o.padding, space)),
      count_padding_(o.count_padding) {
  for (std::size_t i = 0; i < space; ++i)
    if (padding_[i].first < 0 || padding_[i].second < 0 || padding_[i].first >= window_[i] ||
        padding_[i].second >= window_[i])
      wrong_option(name_, "padding by " + std::to_string(padding_[i].first) + " and " +
                              std::to_string(padding_[i].second) + " for a window of " +
                              std::to_string(window_[i]) + "; expected 0 up to less than the window");
}

Array FixedPool::along(const Array& x, int axis, std::size_t i) const {
  const std::int64_t n = x.dim(axis) + padding_[i].first + padding_[i].second;
  if (n < window_[i])
    wrong_input("an " + name_ + " with a window of " + std::to_string(window_[i]), x,
                "at least that many entries along axis " + std::to_string(axis));
  Windows windows;
  for (std::int64_t begin = 0; begin + window_[i] <= n; begin += strides_[i])
    windows.emplace_back(begin, begin + window_[i]);
  return pooled(x, axis, windows, padding_[i], count_padding_);
}

AdaptivePool::AdaptivePool(std::string name, Kind kind, std::size_t space, Dims out_size, bool channel_first)
    : Pool(std::move(name), kind, space, channel_first),
      out_size_(positive(name_, "the number of windows", std::move(out_size), space)) {}

Array AdaptivePool::along(const Array& x, int axis, std::size_t i) const {
  const std::int64_t n = x.dim(axis), m = out_size_[i];
  if (n < 1) wrong_input("an " + name_, x, "at least one entry along axis " + std::to_string(axis));
  Windows windows;
  for (std::int64_t w = 0; w < m; ++w) windows.emplace_back(w * n / m, ((w + 1) * n + m - 1) / m);
  return pooled(x, axis, windows, {0, 0}, false);
}

}  // namespace etrace::nn
