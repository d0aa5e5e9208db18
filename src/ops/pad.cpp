// pad: low and high borders (negative ones crop) and `interior` entries between neighbours, all with one
// value. Linear in both operands: x gets back what lies on its positions, the value the sum of the rest.
#include <algorithm>

#include "etrace/axes.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

std::vector<PadAxis> config_of(const Params& params) {
  std::vector<PadAxis> out;
  for (const Dims& row : int_table("pad", params, "padding_config", 3))
    out.push_back({row[0], row[1], row[2]});
  return out;
}

Params params_of(const std::vector<PadAxis>& config) {
  std::vector<Dims> rows;
  for (const PadAxis& a : config) rows.push_back({a.low, a.high, a.interior});
  return {{"padding_config", to_attr(rows)}};
}

std::int64_t padded_size(std::int64_t n, const PadAxis& a) {
  return a.low + a.high + n + std::max<std::int64_t>(n - 1, 0) * a.interior;
}

// Where x lies in the result: entries from …, so many, land at …, so far apart.
struct Placement {
  Dims from, count, at, step;
};
Placement placement(const std::vector<PadAxis>& config, const Shape& x, const Shape& y) {
  Placement p;
  for (std::size_t i = 0; i < config.size(); ++i) {
    // Entries first … last of x land inside the result.
    const std::int64_t step = config[i].interior + 1, low = config[i].low;
    const std::int64_t first = low >= 0 ? 0 : (-low + step - 1) / step;
    const std::int64_t room = y[i] - low;  // positions 0 … room-1 after the border
    const std::int64_t last = std::min(x[i], room <= 0 ? 0 : (room - 1) / step + 1);
    p.from.push_back(first);
    p.count.push_back(std::max<std::int64_t>(last - first, 0));
    p.at.push_back(low + first * step);
    p.step.push_back(step);
  }
  return p;
}

// The adjoint of the placement of x: crops the borders, then drops the interior.
Array unpad(const Array& ct, const std::vector<PadAxis>& config) {
  std::vector<PadAxis> crop;
  Dims strides;
  for (const PadAxis& a : config) {
    crop.push_back({-a.low, -a.high, 0});
    strides.push_back(a.interior + 1);
  }
  const Array middle = pad(ct, 0.0, crop);
  return slice(middle, Dims(middle.rank(), 0), middle.shape().to_dims(), strides);
}

Emission pad_code(const EmitRequest& q) {
  const Placement p = placement(config_of(q.params), q.x(0).shape, q.y().shape);
  if (std::any_of(p.step.begin(), p.step.end(), [](std::int64_t s) { return s != 1; })) return KernelCode{};
  IndexForm at{0, strides_of(q.x(0).shape)};
  for (std::size_t i = 0; i < at.step.size(); ++i) at.first += p.from[i] * at.step[i];
  ViewCode code{{{0, p.at, p.count, at}}};
  if (Shape(p.count) != q.y().shape) code.fill = 1;
  return code;
}

}  // namespace

const Primitive pad_p{{
    .name = "pad",
    .doc = "y[low + i·(interior + 1)] = x[i], else the padding value",
    .params = {"padding_config"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("pad", in, 2);
      const std::vector<PadAxis> config = config_of(params);
      const Shape& shape = in[0].shape;
      if (in[1].dtype != in[0].dtype || !in[1].shape.is_scalar())
        refuse_type("pad",
                    "the padding value must be a scalar of the operand's type, but operand and value are " +
                        to_string(in[0]) + " and " + to_string(in[1]));
      if (config.size() != shape.rank())
        refuse("pad", "padding_config has " + std::to_string(config.size()) + " entries for the operand " +
                          to_string(in[0]) + "; give [low, high, interior] for every axis");
      Dims out;
      for (std::size_t i = 0; i < config.size(); ++i) {
        if (config[i].interior < 0)
          refuse("pad", "interior padding must not be negative; use slice with strides");
        out.push_back(padded_size(shape[i], config[i]));
        if (out.back() < 0)
          refuse("pad", "the padding of axis " + std::to_string(i) + " crops more than the " +
                            std::to_string(shape[i]) + " entries of " + to_string(in[0]));
      }
      return {{in[0].dtype, out}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const std::vector<PadAxis> config = config_of(q.params);
      const Shape &from = q.x(0).shape, &to = q.y().shape;
      const Placement p = placement(config, from, to);
      const Dims src = strides_of(from), &extents = p.count;
      Dims dst = strides_of(to);
      std::int64_t src_start = 0, dst_start = 0;
      for (std::size_t i = 0; i < config.size(); ++i) {
        src_start += p.from[i] * src[i];
        dst_start += p.at[i] * dst[i];
        dst[i] *= p.step[i];
      }
      const StridedCopy copy(extents, dst, src, size_of(q.y().dtype), q.context);
      const bool any = Shape(extents).size() > 0;
      const std::int64_t count = to.size();
      const bool covered = Shape(extents) == to;
      return {[=, bytes = size_of(q.y().dtype)](const KernelArgs& k) {
        if (!covered) fill_elements(k.out[0], count, k.in[1], bytes);
        if (any) copy(k.in[0], src_start, k.out[0], dst_start);
      }};
    },
    .emit = pad_code,
    .axes =
        [](const EmitRequest& q) {
          const std::vector<PadAxis> config = config_of(q.params);
          AxisTable t(q);
          for (std::size_t a = 0; a < config.size(); ++a) {
            if (config[a].low != 0 || config[a].high != 0 || config[a].interior != 0) continue;
            t.keep(a, 0, a);
            t.at(a, 1) = {AxisSource::Same};
          }
          return t;
        },
    .facts =
        [](const FactRequest& q) {
          bool crops = false;
          for (const PadAxis& c : config_of(q.params)) crops = crops || c.low < 0 || c.high < 0;
          Facts f = q.moved(crops ? Shows::Part : Shows::All);
          f.zeros = true;
          return f;
        },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(pad_p, {instantiate(dx[0], x[0].aval()), instantiate(dx[1], x[1].aval())}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) -> Arrays {
      const Array inside = unpad(ct[0], config_of(params));
      Arrays out(2);
      if (!x[0].defined()) out[0] = inside;
      if (!x[1].defined()) out[1] = sum(ct[0]) - sum(inside);
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      std::vector<PadAxis> config = config_of(params);
      config.insert(config.begin(), PadAxis{});
      const Array values = with_batch_axis(x[0], batched[0], n);
      if (!batched[1]) return {pad(values, x[1], config)};
      // Each entry of the batch has its own value: place x on zeros, and choose by where x lies.
      const Array placed = pad(values, zeros_of({values.dtype(), {}}), config);
      const Array mask = pad(full(values.shape(), true, Dtype::Bool), false, config);
      return {where(mask, placed, broadcast_in_dim(x[1], placed.shape(), {0}))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(3, 6);
      const Array v = r.floats({});
      return {{{r.floats({n}), v}, params_of({{1, 2, 0}})},
              {{r.floats({n, 3}), v}, params_of({{0, 1, 2}, {2, 0, 1}})},
              {{r.floats({n, 4}), v}, params_of({{-1, 2, 0}, {1, -2, 0}})},
              {{r.floats({n, 4}), v}, params_of({{-2, -1, 1}, {-1, -1, 2}})},
              {{r.floats({}), v}, params_of({})},
              {{r.floats({0, n}), v}, params_of({{1, 1, 3}, {0, 0, 0}})},
              {{r.floats({2}), v}, params_of({{-1, -1, 0}})},
              {{r.floats({2, n}, Dtype::F32), r.floats({}, Dtype::F32)}, params_of({{0, 0, 0}, {1, 1, 1}})},
              {{r.ints({n}, -9, 9), r.ints({}, -9, 9)}, params_of({{2, 0, 1}}), false},
              {{r.bools({n}), r.bools({})}, params_of({{0, 2, 0}}), false}};
    },
}};

Array pad(const Array& x, const Array& value, const std::vector<PadAxis>& config) {
  const Array v = convert(value, x.dtype());
  const bool nothing =
      config.size() == x.rank() && std::all_of(config.begin(), config.end(), [](const PadAxis& a) {
        return a.low == 0 && a.high == 0 && a.interior == 0;
      });
  return nothing ? x : bind1(pad_p, {x, v}, params_of(config));
}

}  // namespace etrace
