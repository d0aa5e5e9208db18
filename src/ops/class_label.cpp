// class_label: y = x, a whole number that names one of `classes` classes.
#include "ops/class_label.h"

#include <cstring>

#include "etrace/emission.h"
#include "ops/elementwise_common.h"

namespace etrace {

using namespace elementwise;

namespace {

template <class F>  // f(span of the labels)
auto with_labels(const Tensor& labels, const F& f) {
  switch (labels.dtype()) {
    case Dtype::I32:
      return f(labels.data<std::int32_t>());
    case Dtype::U32:
      return f(labels.data<std::uint32_t>());
    case Dtype::I64:
      return f(labels.data<std::int64_t>());
    default:
      throw TypeError("class_label",
                      "labels of type " + to_string(labels.aval()) + "; expected whole numbers");
  }
}

std::int64_t classes_of(const Params& params) {
  const std::int64_t n = params.integer("classes");
  if (n < 1) throw ValueError("class_label", "classes is " + std::to_string(n) + "; expected at least 1");
  return n;
}

}  // namespace

const Primitive class_label_p{{
    .name = "class_label",
    .doc = "y = x, a whole number from 0 to classes − 1",
    .params = {"classes"},
    .elementwise = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      require_arity("class_label", in, 1);
      classes_of(params);
      if (!is_integer(in[0].dtype))
        throw TypeError("class_label", "labels of type " + to_string(in[0]) + "; expected whole numbers");
      return {in[0]};
    },
    .kernel = [](const KernelRequest& r) -> Kernel {
      return {.run =
                  [bytes = r.y().bytes()](const KernelArgs& a) {
                    if (bytes != 0 && a.out[0] != a.in[0]) std::memcpy(a.out[0], a.in[0], bytes);
                  },
              .in_place = {{0, 0}},
              .view = true};
    },
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = jvp_zero,
    .batch = batch<class_label_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all;
          SampleSource source(seed);
          for (const Dtype dtype : {Dtype::I32, Dtype::I64, Dtype::U32})
            for (const Shape& shape : {Shape{}, Shape{3, 0}, Shape{3, 5}})
              all.push_back({{source.values({dtype, shape}, {0, 4})}, {{"classes", 5}}, false});
          return all;
        },
}};

std::optional<std::size_t> first_wrong_label(const Tensor& labels, std::int64_t classes) {
  return with_labels(labels, [&](const auto& values) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] < 0 || static_cast<std::int64_t>(values[i]) >= classes) return i;
    return std::nullopt;
  });
}

std::int64_t label_at(const Tensor& labels, std::size_t position) {
  return with_labels(labels, [&](const auto& values) { return static_cast<std::int64_t>(values[position]); });
}

Array class_labels(const std::string& who, const Array& labels, std::int64_t classes, const Array& weight) {
  const Array counted =
      weight.defined() ? where(equal_to(weight, 0.0), full_like(labels, 0), labels) : labels;
  if (counted.is_tracer()) return bind1(class_label_p, {counted}, {{"classes", classes}});
  const Tensor values = counted.tensor();
  if (const auto wrong = first_wrong_label(values, classes))
    throw ValueError(who, "label " + std::to_string(label_at(values, *wrong)) + " at position " +
                              std::to_string(*wrong) + "; there are " + std::to_string(classes) +
                              (classes == 1 ? " class" : " classes") + ", numbered from 0");
  return counted;
}

}  // namespace etrace
