#include "support/learning_models.h"

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"

namespace etrace::testing {

namespace {

constexpr std::int64_t kBatch = 2;

WeightFn tanh_fn() {
  return [](const Array& w) { return tanh(w); };
}
WeightFn sin_fn() {
  return [](const Array& w) { return sin(w); };
}
// Mean 0 and variance 1 over these axes.
WeightFn standardized(const Dims& axes) {
  return [axes](const Array& w) { return (w - mean(w, axes, true)) / sqrt(variance(w, axes, true) + 1e-2); };
}
// One number of all elements: every element of the result depends on every element of w.
WeightFn normalized() {
  return [](const Array& w) { return w / sqrt(sum(square(w)) + 1e-2); };
}

using Cases = std::vector<OperatorCase>;

void add_dense(Cases& c) {
  const auto mm = [&](const std::string& name, const MatmulOptions& o, bool bias) {
    for (const bool batched : {true, false})
      c.push_back({(batched ? "mm" : "mv") + name,
                   {arg("x", batched ? Shape{kBatch, 3} : Shape{3}), param("b", {4}), param("w", {3, 4})},
                   batched ? Shape{kBatch, 4} : Shape{4},
                   [=](const In& in) {
                     const Array y = matmul(in["x"], in["w"], bias ? in["b"] : Array(), o);
                     return bias ? y : y + in["b"] * 0.1;  // b is a plain parameter here
                   }});
  };
  mm("_bias", {}, true);
  mm("_weight_fn", {.weight_fn = tanh_fn(), .bias_fn = sin_fn()}, true);
  mm("_standardized", {.weight_fn = standardized({0}), .bias_fn = {}}, true);
  mm("_normalized", {.weight_fn = normalized(), .bias_fn = normalized()}, true);

  const auto gmm = [&](const std::string& name, const MatmulOptions& o) {
    for (const bool batched : {true, false})
      c.push_back(
          {(batched ? "gmm" : "gmv") + name,
           {arg("x", batched ? Shape{kBatch, 2, 3} : Shape{2, 3}), param("b", {2, 4}), param("w", {2, 3, 4})},
           batched ? Shape{kBatch, 2, 4} : Shape{2, 4},
           [=](const In& in) { return grouped_matmul(in["x"], in["w"], in["b"], o); }});
  };
  gmm("_bias", {});
  gmm("_weight_fn", {.weight_fn = tanh_fn(), .bias_fn = sin_fn()});
  gmm("_standardized", {.weight_fn = standardized({1}), .bias_fn = {}});

  c.push_back({"mm_no_bias", {arg("x", {kBatch, 3}), param("w", {3, 4})}, {kBatch, 4}, [](const In& in) {
                 return matmul(in["x"], in["w"]);
               }});
  // Named leaves of one parameter.
  c.push_back({"mv_leaves",
               {arg("x", {3}), leaf("p", "bias", 0, {4}), leaf("p", "weight", 1, {3, 4})},
               {4},
               [](const In& in) { return matmul(in["x"], in["p:weight"], in["p:bias"]); }});
}

void add_embedding(Cases& c) {
  for (const auto& [name, fn] : {std::pair<std::string, WeightFn>("", {}),
                                 {"_weight_fn", tanh_fn()},
                                 {"_standardized", standardized({0})}})
    for (const bool batched : {true, false})
      c.push_back({(batched ? "emb" : "emb_v") + name,
                   {arg("i", batched ? Shape{3} : Shape{}, Dtype::I32), param("w", {3, 4})},
                   batched ? Shape{3, 4} : Shape{4},
                   [fn = fn](const In& in) { return embedding(in["i"], in["w"], fn); }});
}

void add_einsum(Cases& c) {
  const auto add = [&](const std::string& name, const std::string& equation, const Shape& x, const Shape& w,
                       const Shape& y, const WeightFn& fn = {}) {
    c.push_back({"einsum_" + name, {arg("x", x), param("w", w)}, y, [=](const In& in) {
                   return einsum(equation, in["x"], in["w"], fn);
                 }});
  };
  add("dense", "bi,io->bo", {kBatch, 3}, {3, 4}, {kBatch, 4});
  add("heads", "bhd,hde->bhe", {kBatch, 2, 3}, {2, 3, 2}, {kBatch, 2, 2}, tanh_fn());
  add("shared", "btk,kn->btn", {kBatch, 3, 2}, {2, 4}, {kBatch, 3, 4});
  add("shared_weight_fn", "btk,kn->btn", {kBatch, 3, 2}, {2, 4}, {kBatch, 3, 4}, tanh_fn());
  add("shared_standardized", "btk,kn->btn", {kBatch, 3, 2}, {2, 4}, {kBatch, 3, 4}, standardized({0}));
  add("shared_last", "bkt,nk->bnt", {kBatch, 2, 3}, {4, 2}, {kBatch, 4, 3});
  add("summed", "bzk,kn->bn", {kBatch, 3, 2}, {2, 4}, {kBatch, 4});
}

void add_element_wise(Cases& c) {
  for (const auto& [name, fn] :
       {std::pair<std::string, WeightFn>("", {}), {"_weight_fn", tanh_fn()}, {"_normalized", normalized()}})
    for (const bool batched : {true, false})
      c.push_back({(batched ? "elemwise_batch" : "elemwise") + name,
                   {arg("x", batched ? Shape{kBatch, 4} : Shape{4}), param("w", {4})},
                   batched ? Shape{kBatch, 4} : Shape{4},
                   [fn = fn](const In& in) { return element_wise(in["w"], fn) * in["x"]; }});
}

void add_conv(Cases& c) {
  const auto add = [&](const std::string& name, const Shape& x, const Shape& k, const Shape& bias,
                       const Shape& y, const EtpConvOptions& o) {
    c.push_back({"conv_" + name, {arg("x", x), param("b", bias), param("k", k)}, y, [=](const In& in) {
                   return conv(in["x"], in["k"], in["b"], o);
                 }});
  };
  const std::vector<std::string> last1{"NWC", "WIO", "NWC"}, last2{"NHWC", "HWIO", "NHWC"};
  add("1d_first", {kBatch, 2, 5}, {3, 2, 3}, {3}, {kBatch, 3, 5}, {});
  add("1d_last", {kBatch, 5, 2}, {3, 2, 3}, {3}, {kBatch, 5, 3}, {.strides = {1}, .layout = last1});
  add("1d_strided", {kBatch, 2, 6}, {3, 2, 2}, {3}, {kBatch, 3, 3}, {.strides = {2}});
  add("1d_weight_fn", {kBatch, 2, 5}, {3, 2, 3}, {3}, {kBatch, 3, 5},
      {.kernel_fn = tanh_fn(), .bias_fn = sin_fn()});
  add("1d_standardized", {kBatch, 2, 5}, {3, 2, 3}, {3}, {kBatch, 3, 5}, {.kernel_fn = standardized({1, 2})});
  add("1d_normalized", {kBatch, 2, 4}, {3, 2, 2}, {3}, {kBatch, 3, 4}, {.kernel_fn = normalized()});
  add("1d_position_bias", {kBatch, 2, 5}, {3, 2, 3}, {3, 5}, {kBatch, 3, 5}, {});
  add("2d_first", {kBatch, 2, 3, 4}, {3, 2, 2, 2}, {3}, {kBatch, 3, 2, 3},
      {.strides = {1, 1}, .padding = "VALID"});
  add("2d_last_strided", {kBatch, 4, 3, 2}, {2, 2, 2, 3}, {3}, {kBatch, 2, 2, 3},
      {.strides = {2, 2}, .layout = last2});
  add("1d_dilated", {kBatch, 1, 6}, {2, 1, 2}, {2}, {kBatch, 2, 4},
      {.strides = {1}, .padding = "VALID", .rhs_dilation = {2}});
  add("1d_feature_groups", {kBatch, 4, 4}, {6, 2, 2}, {6}, {kBatch, 6, 4}, {.feature_group_count = 2});
  add("1d_batch_groups", {2 * kBatch, 3, 4}, {4, 3, 2}, {4}, {kBatch, 4, 4}, {.batch_group_count = 2});
}

void add_sparse(Cases& c) {
  const auto add = [&](const std::string& name, const SparsePattern& pattern, const MatmulOptions& o) {
    for (const bool batched : {true, false})
      c.push_back(
          {(batched ? "sp_mm" : "sp_mv") + name,
           {arg("x", batched ? Shape{kBatch, 3} : Shape{3}), param("b", {4}), param("w", {pattern.nnz()})},
           batched ? Shape{kBatch, 4} : Shape{4},
           [=](const In& in) { return sparse_matmul(in["x"], in["w"], pattern, in["b"], o); }});
  };
  add("_csr", SparsePattern::csr(3, 4, {0, 2, 3, 6}, {0, 2, 1, 0, 2, 3}), {});
  add("_csc", SparsePattern::csc(3, 4, {0, 2, 3, 3, 5}, {0, 2, 1, 0, 2}), {});
  add("_coo_weight_fn", SparsePattern::coo(3, 4, {2, 0, 1, 2}, {1, 3, 0, 2}),
      {.weight_fn = tanh_fn(), .bias_fn = sin_fn()});
  add("_normalized", SparsePattern::coo(3, 4, {2, 0, 1, 2}, {1, 3, 0, 2}),
      {.weight_fn = normalized(), .bias_fn = {}});
}

void add_lora(Cases& c) {
  const auto add = [&](const std::string& name, const LoraOptions& o) {
    for (const bool batched : {true, false})
      c.push_back(
          {(batched ? "lora_mm" : "lora_mv") + name,
           {arg("x", batched ? Shape{kBatch, 3} : Shape{3}), param("lora_a", {2, 4}), param("lora_b", {3, 2}),
            param("bias", {4})},
           batched ? Shape{kBatch, 4} : Shape{4},
           [=](const In& in) { return lora_matmul(in["x"], in["lora_b"], in["lora_a"], in["bias"], o); }});
  };
  add("", {.alpha = 2.0});
  add("_weight_fn", {.alpha = 0.5, .b_fn = tanh_fn(), .a_fn = sin_fn(), .bias_fn = tanh_fn()});
  add("_standardized", {.alpha = 1.0, .b_fn = normalized(), .a_fn = standardized({0}), .bias_fn = {}});
  add("_normalized", {.alpha = 1.0, .b_fn = {}, .a_fn = normalized(), .bias_fn = {}});
}

// What is done to a weight before the operator.
void add_processed(Cases& c) {
  const auto add = [&](const std::string& name, std::vector<StepInput> params,
                       const std::function<Array(const In&)>& weight) {
    std::vector<StepInput> inputs{arg("x", {kBatch, 3})};
    inputs.insert(inputs.end(), params.begin(), params.end());
    c.push_back({"processed_" + name, inputs, {kBatch, 4}, [=](const In& in) {
                   return matmul(in["x"], weight(in));
                 }});
  };
  const Array mask = array({1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1}, {3, 4}, Dtype::F64);
  add("mask", {param("w", {3, 4})}, [mask](const In& in) { return in["w"] * mask; });
  add("transpose", {param("w", {4, 3})}, [](const In& in) { return transpose(in["w"]); });
  add("slice", {param("w", {5, 6})}, [](const In& in) { return slice(in["w"], {1, 2}, {4, 6}); });
  add("sum", {param("u", {3, 4}), param("w", {3, 4})},
      [](const In& in) { return in["w"] + 2.0 * tanh(in["u"]); });
  add("absolute", {param("w", {3, 4})}, [](const In& in) { return abs(in["w"]); });
  add("standardized", {param("gain", {4}), param("w", {3, 4})},
      [](const In& in) { return standardized({0})(in["w"]) * in["gain"]; });
  add("normalized", {param("w", {3, 4})}, [](const In& in) { return normalized()(in["w"]); });
}

Cases all_cases() {
  Cases c;
  add_dense(c);
  add_embedding(c);
  add_einsum(c);
  add_element_wise(c);
  add_conv(c);
  add_sparse(c);
  add_lora(c);
  add_processed(c);
  return c;
}

}  // namespace

const std::vector<OperatorCase>& operator_cases() {
  static const Cases cases = all_cases();
  return cases;
}

const OperatorCase& operator_case(const std::string& name) {
  for (const OperatorCase& c : operator_cases())
    if (c.name == name) return c;
  throw ValueError("operator_case", "no case " + name);
}

// States ----------------------------------------------------------------------------------------------------
std::string name(Structure s) {
  switch (s) {
    case Structure::Single:
      return "single";
    case Structure::Coupled:
      return "coupled";
    case Structure::Chain:
      return "chain";
    default:
      return "stacked";
  }
}

namespace {

Arrays coupled_step(const Array& v, const Array& a, const Array& y) {
  return {0.7 * sin(v) + tanh(y) - 0.2 * a, 0.85 * a + 0.3 * tanh(v)};
}

}  // namespace

Model operator_model(const OperatorCase& c, Structure structure, std::uint64_t seed) {
  std::vector<StepInput> inputs;
  for (const StepInput& in : c.inputs)
    if (in.role == Role::Arg) inputs.push_back(in);
  Dims stacked = c.y.to_dims();
  stacked.push_back(2);
  switch (structure) {
    case Structure::Single:
      inputs.push_back(hidden("h", c.y));
      break;
    case Structure::Coupled:
      inputs.push_back(hidden("v", c.y));
      inputs.push_back(hidden("a", c.y));
      break;
    case Structure::Chain:
      inputs.push_back(hidden("g", c.y));
      inputs.push_back(hidden("v", c.y));
      break;
    case Structure::Stacked:
      inputs.push_back(hidden("s", Shape(stacked), "HiddenGroupState"));
  }
  for (const StepInput& in : c.inputs)
    if (in.role != Role::Arg) inputs.push_back(in);

  return step_model(
      inputs,
      [&](In& in) -> Array {
        const Array y = c.drive(in);
        if (structure == Structure::Single) {
          in.set("h", 0.7 * sin(in["h"]) + tanh(y + 0.3 * in["h"]));
          return in["h"];
        }
        if (structure == Structure::Chain) {
          in.set("g", 0.8 * in["g"] + tanh(y));
          in.set("v", 0.6 * sin(in["v"]) + in["g"] * (1.0 + 0.2 * in["v"]));
          return in["v"] + 0.5 * in["g"];
        }
        if (structure == Structure::Coupled) {
          const Arrays next = coupled_step(in["v"], in["a"], y);
          in.set("v", next[0]);
          in.set("a", next[1]);
          return next[0];
        }
        const auto axis = static_cast<int>(c.y.rank());
        const auto entry = [&](std::int64_t i) {
          return squeeze(slice_axis(in["s"], axis, i, i + 1), {axis});
        };
        const Arrays next = coupled_step(entry(0), entry(1), y);
        in.set("s", stack(next, axis));
        return entry(0);  // of the new state: what bypasses it has no trace
      },
      seed);
}

ModelInputs in_type(Dtype dtype, ModelInputs inputs) {
  for (StepInput& in : inputs)
    if (is_floating(in.dtype)) in.dtype = dtype;
  return inputs;
}

void set_initial(Model& m, const std::string& path, const Array& value) {
  for (InputRecord& in : m.inputs)
    if (in.role != Role::Arg && etrace::to_string(in.path) == path) {
      in.init = convert(reshape(value, in.init.shape().to_dims()), in.init.dtype()).tensor();
      return;
    }
  throw ValueError("set_initial", "no state " + path);
}

}  // namespace etrace::testing
