// Parts that random models are made of: sizes, ports, parameters, operators and tails. How they become states
// and results is in random_model_draw.cpp.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "support/random_models.h"

namespace etrace::testing {

// Draws stand in statements and braces of their own: the order of a call's arguments is the compiler's.
class ModelParts {
 protected:
  using Names = std::vector<std::string>;
  enum class Kind { Arg, Old, New, Between };
  struct Value {
    std::string name;
    Names dims;  // of one sample
    Kind kind;
  };

  explicit ModelParts(std::uint64_t seed) : dice_(seed) {
    m_.seed = seed % 1000003;
    lines_ = &m_.lines;
  }

  // Sizes and ports -------------------------------------------------------------------------------------
  void draw_sizes() {
    const std::size_t batch = dice_.weighted({0.42, 0.08, 0.28, 0.22});
    if (batch > 0) m_.sizes.emplace_back("b", static_cast<std::int64_t>(batch));
    const auto small = [&](std::size_t low, std::size_t high) {
      return static_cast<std::int64_t>(low + dice_.below(high - low + 1));
    };
    space_ = dice_.weighted({0.76, 0.17, 0.05, 0.02});
    if (batch == 0 && space_ > 1) space_ = 0;
    m_.sizes.emplace_back("i", small(2, 4));
    m_.sizes.emplace_back("n", small(2, space_ > 0 ? 3 : 4));
    m_.sizes.emplace_back("m", small(2, 4));
    const std::size_t least = dice_.chance(0.25) ? 1 : 2;
    m_.sizes.emplace_back("o", small(least, 3));
    m_.sizes.emplace_back("k", small(1, 3));
    m_.sizes.emplace_back("c", small(least, 3));
    m_.sizes.emplace_back("h", small(1, 2));
    m_.sizes.emplace_back("q", small(3, 6));  // entries of sparse weights
  }
  Names main_dims() const {
    switch (space_) {
      case 0:
        return {"n"};
      case 1:
        return {"c", "n"};
      case 2:
        return {"c", "h", "n"};
      default:
        return {"c", "h", "2", "n"};
    }
  }
  Names with_batch(Names dims) const {
    if (m_.batched()) dims.insert(dims.begin(), "b");
    return dims;
  }
  void draw_ports() {
    Names x{"i"};
    if (space_ == 1) x = dice_.chance(0.5) ? Names{"c", "i"} : Names{"k", "n"};
    if (space_ == 2) x = {"k", "h", "n"};
    if (space_ == 3) x = {"k", "h", "2", "n"};
    m_.ports.push_back({Role::Arg, "x", with_batch(x), ""});
    pool_.push_back({"x", x, Kind::Arg});
    if (dice_.chance(0.12)) {
      m_.ports.push_back({Role::Arg, "u", with_batch(main_dims()), ""});
      pool_.push_back({"u", main_dims(), Kind::Arg});
    }
  }
  struct State {
    Value old;
    bool stacked;
  };
  void add_state() {
    Names dims = main_dims();
    if (dice_.chance(0.25)) dims = dice_.chance(0.6) ? Names{"m"} : Names{"o"};
    const std::string number = std::to_string(states_.size());
    const std::string name = dice_.chance(0.2) ? "net/" + number + "/h" : "h" + number;
    const bool stacked = dims.size() == 1 && dice_.chance(0.07);
    const bool other = !stacked && dice_.chance(0.06);
    if (stacked) dims.push_back("2");
    m_.ports.push_back({other ? Role::Other : Role::Hidden, name, with_batch(dims),
                        other     ? "ShortTermState"
                        : stacked ? "HiddenGroupState"
                                  : "HiddenState"});
    states_.push_back({{name, dims, Kind::Old}, stacked});
    if (!stacked) pool_.push_back(states_.back().old);
  }

  // Parameters ------------------------------------------------------------------------------------------
  std::string fresh(const std::string& stem) { return stem + std::to_string(count_++); }
  // A new one, or one that is there already.
  std::string param(const Names& dims, const std::string& name = "") {
    Names there;
    for (const ModelPort& p : m_.ports)
      if (p.role == Role::Param && p.dims == dims && name.empty()) there.push_back(p.name);
    if (!there.empty() && dice_.chance(0.45)) return dice_.of(there);
    const std::string own = !name.empty()        ? name
                            : dice_.chance(0.15) ? fresh("net/" + std::to_string(dice_.below(2)) + "/w")
                                                 : fresh("w");
    m_.ports.push_back({Role::Param, own, dims, "ParamState"});
    return own;
  }
  std::string add(const std::string& op, const Names& in, std::vector<double> numbers = {}, Names dims = {}) {
    const std::string out = fresh("v");
    lines_->push_back({{out}, op, in, std::move(numbers), std::move(dims)});
    return out;
  }
  double constant_seed() { return static_cast<double>(1 + dice_.below(1000)); }
  // What an operator takes for its weight: a parameter, or a function of some.
  std::string weight(const Names& dims) {
    if (!dice_.chance(0.14)) return param(dims);
    Names reversed(dims.rbegin(), dims.rend()), larger = dims;
    for (std::string& d : larger) d += "+1";
    switch (dice_.below(9)) {
      case 8:  // no function of parameters alone
        return add("by_data", {param(dims), source().name});
      case 0:
        return add("mask", {param(dims)}, {constant_seed()});
      case 1:
        return add("transpose", {param(reversed)});
      case 2: {
        std::vector<double> begin;
        for (std::size_t i = 0; i < dims.size(); ++i) begin.push_back(static_cast<double>(dice_.below(2)));
        return add("slice", {param(larger)}, begin, dims);
      }
      case 3:
        return add("normalize", {param(dims)});
      case 4:
        return add("add", {param(dims), add("tanh", {param(dims)})});
      case 5:
        return add("mul", {param(dims), param({dims.back()})});
      case 6:
        return add("abs", {param(dims)});
      default:
        return add("scale", {param(dims)}, {-0.7});
    }
  }
  // Weight and perhaps bias; sometimes leaves of one parameter.
  Names weight_and_bias(const Names& weight_dims, const Names& bias_dims) {
    if (dice_.chance(0.1)) {
      const std::string owner = fresh("p");
      return {param(weight_dims, owner + ":weight"), param(bias_dims, owner + ":bias")};
    }
    Names out{weight(weight_dims)};
    if (dice_.chance(0.3)) out.push_back(weight(bias_dims));
    return out;
  }
  std::vector<double> functions() {
    if (!dice_.chance(0.12)) return {};
    return {static_cast<double>(dice_.below(5)), static_cast<double>(dice_.chance(0.5) ? 1 : 0)};
  }

  // Values ----------------------------------------------------------------------------------------------
  std::vector<Value> known(const Names& dims, const std::vector<Kind>& kinds) const {
    std::vector<Value> out;
    for (const Value& v : pool_)
      if (v.dims == dims && std::find(kinds.begin(), kinds.end(), v.kind) != kinds.end()) out.push_back(v);
    return out;
  }
  Value source() {
    const Kind wanted = std::vector<Kind>{Kind::Arg, Kind::Old, Kind::New,
                                          Kind::Between}[dice_.weighted({0.4, 0.27, 0.2, 0.13})];
    std::vector<Value> there;
    for (const Value& v : pool_)
      if (v.kind == wanted) there.push_back(v);
    return there.empty() ? pool_.front() : dice_.of(there);
  }
  Value between(const std::string& name, const Names& dims) { return {name, dims, Kind::Between}; }
  // Some value of this shape, made from another if there is none.
  std::string of_shape(const Names& dims, const std::vector<Kind>& kinds) {
    const std::vector<Value> there = known(dims, kinds);
    if (!there.empty() && !dice_.chance(0.1)) return dice_.of(there).name;
    const Value v = source();
    if (v.dims == dims) return v.name;
    if (v.dims.size() == 1 && dims.size() == 1 && dice_.chance(0.4)) return add("resize", {v.name}, {}, dims);
    return add("reproject", {v.name}, {constant_seed()}, dims);
  }
  std::string any_of_shape(const Names& dims) {
    return of_shape(dims, {Kind::Arg, Kind::Old, Kind::New, Kind::Between});
  }

  // Operators -------------------------------------------------------------------------------------------
  std::string operated(const std::string& op, const std::string& data, const Names& weights) {
    Names args{data};
    args.insert(args.end(), weights.begin(), weights.end());
    return add(op, args, functions());
  }
  std::string vector_operator(const Names& dims) {
    Value v = source();
    if (v.dims.size() != 1) v = between(add("reproject", {v.name}, {constant_seed()}, {"i"}), {"i"});
    const std::string& in = v.dims[0];
    const std::string& out = dims[0];
    switch (dice_.weighted({0.6, 0.09, 0.09, 0.06, 0.06, 0.1})) {
      case 1: {
        std::vector<double> numbers = functions();
        numbers.resize(2, 0.0);
        numbers.push_back(constant_seed());
        const std::string entries = m_.size(in) * m_.size(out) < m_.size("q") ? "1" : "q";
        Names args{v.name, param({entries})};
        if (dice_.chance(0.3)) args.push_back(param({out}));
        return add("sparse", args, numbers, {out});
      }
      case 2: {
        Names args{v.name, weight({in, "2"}), weight({"2", out})};
        if (dice_.chance(0.3)) args.push_back(param({out}));
        return add("lora", args, functions());
      }
      case 3:
        if (m_.batched()) return add("einsum", {v.name, weight({in, out})}, {0, 0});
        break;
      case 4: {
        if (m_.port("index") == nullptr) m_.ports.push_back({Role::Arg, "index", with_batch({}), "index"});
        return operated("embedding", "index", {weight({"3", out})});
      }
      case 5:
        return add("plain", {v.name, param({in, out})});
      default:
        break;
    }
    return operated("matmul", v.name, weight_and_bias({in, out}, {out}));
  }
  // Keeps the first axes: groups, or shared weights.
  std::string plane_operator(const Names& dims) {
    const std::string& c = dims[0];
    const std::string& n = dims[1];
    const std::string wide = dice_.chance(0.5) ? "i" : n, channels = dice_.chance(0.5) ? "k" : c;
    const std::size_t which = m_.batched() ? dice_.below(5) : 0;
    if (which == 0) {
      const std::string data = any_of_shape({c, wide});
      return operated("grouped", data, weight_and_bias({c, wide, n}, {c, n}));
    }
    switch (which) {
      case 1:
        return add("einsum", {any_of_shape({c, wide}), weight({c, wide, n})}, {0, 1});
      case 2:
        return add("einsum", {any_of_shape({c, wide}), weight({wide, n})}, {0, 2});
      case 3:
        return add("einsum", {any_of_shape({channels, n}), weight({c, channels})}, {0, 3});
      default: {
        const std::string data = any_of_shape({channels, n}), taps = dice_.chance(0.5) ? "2" : "3";
        return operated("conv1", data, weight_and_bias({c, channels, taps}, {c}));
      }
    }
  }
  std::string space_operator(const Names& dims) {
    Names in = dims, kernel{dims[0], dims[0]};
    if (dice_.chance(0.5)) in[0] = kernel[1] = "k";
    for (std::size_t i = 1; i < dims.size(); ++i) kernel.push_back(dims[i] == "h" ? "1" : "2");
    const std::string data = any_of_shape(in);
    return operated(dims.size() == 3 ? "conv2" : "conv3", data, weight_and_bias(kernel, {dims[0]}));
  }
  std::string operate(const Names& dims) {
    if (dims.size() == 2 && dims[1] != "2") return plane_operator(dims);
    if (dims.size() > 2) return space_operator(dims);
    return vector_operator(dims);
  }

  // Tails -----------------------------------------------------------------------------------------------
  std::string bend(const std::string& v, const Names& dims) {
    switch (dice_.below(14)) {
      case 13:
        return dice_.chance(0.3) ? add("mul", {v, param({dims.back()})}) : add("tanh", {v});
      case 0:
      case 1:
        return add("tanh", {v});
      case 2:
        return add("sin", {v});
      case 3:
        return add("logistic", {v});
      case 4:
        return add("scale", {v}, {dice_.chance(0.5) ? 0.5 : -0.8});
      case 5:
        return add("weigh", {v}, {constant_seed()});
      case 6:
        return add("square", {add("tanh", {v})});
      case 7:
        return add("relu", {v});
      case 8:
        return add("reciprocal", {v});
      case 9:
        return add("softplus", {v});
      case 10:
        return add("select", {any_of_shape(dims), v, add("scale", {v}, {0.3})});
      case 11:
        return dice_.chance(0.4) ? add("stop", {v}) : add("shift", {v}, {0.4});
      default:
        return add("mul", {v, add("logistic", {any_of_shape(dims)})});
    }
  }
  std::string mix(const std::string& v, const Names& dims) {
    // Of one position nothing is left by a norm, whatever the values.
    if (m_.size(dims.back()) == 1) return bend(v, dims);
    switch (dice_.below(m_.batched() ? 14 : 13)) {
      case 0:
        return add("center", {v});
      case 1:
        return add("add_sum", {v}, {0.3});
      case 2:
        return add("add_total", {v}, {0.1});
      case 3:
        return add("layer_norm", {v});
      case 4:
        return add("softmax", {v});
      case 5:
        return add("product", {v}, {constant_seed()});
      case 6:
        return dims.size() == 1 ? add("etp_constant", {v}, {constant_seed()}) : add("flip", {v});
      case 7:
        return add("roll", {v}, {1});
      case 8:
        return add("flip", {v});
      case 9:
        return add("cumsum", {v});
      case 10:
        return add("halves", {v});
      case 11:
        return add("permute", {v}, {constant_seed()});
      case 12:
        return add("first", {v});
      default:
        return add("over_samples", {v});
    }
  }
  std::string tail(std::string v, const Names& dims) {
    const std::size_t length = dice_.weighted({0.45, 0.35, 0.2});
    for (std::size_t i = 0; i < length; ++i) v = dice_.chance(0.25) ? mix(v, dims) : bend(v, dims);
    return v;
  }

  Dice dice_;
  ModelDescription m_;
  std::vector<Line>* lines_;  // where lines go: the step's, or a body's
  std::size_t space_ = 0;     // axes of a sample's space
  int count_ = 0, depth_ = 0;
  std::vector<Value> pool_;  // what later lines may read
  std::vector<State> states_;
};

}  // namespace etrace::testing
