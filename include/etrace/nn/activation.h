// Activations: as functions, by name, and as modules. Those of etrace/ops/numpy.h (relu, elu, gelu, silu …)
// belong to them.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/nn/unit_layer.h"
#include "etrace/ops/numpy.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// A function of one array. A class and not a std::function, so that `tanh`, which quantities have too, can be
// given by its name.
class Activation {
 public:
  Activation() = default;                                        // empty: the layer's own
  Activation(Array (*function)(const Array&)) : f_(function) {}  // NOLINT: functions are activations
  template <std::invocable<const Array&> F>
  requires(!std::same_as<std::remove_cvref_t<F>, Activation>) Activation(F&& function)
      : f_(std::forward<F>(function)) {}  // NOLINT
  explicit operator bool() const { return static_cast<bool>(f_); }
  Array operator()(const Array& x) const { return f_(x); }

 private:
  std::function<Array(const Array&)> f_;
};

Activation activation(std::string_view name);  // "relu", "tanh", "sigmoid" …; ValueError lists the names
std::vector<std::string> activation_names();   // ascending

Array celu(const Array&, double alpha = 1.0);         // x where x > 0, else α·(e^(x/α) − 1)
Array gelu_exact(const Array&);                       // x·Φ(x); gelu is its approximation by tanh
Array glu(const Array&, int axis = -1);               // first half · σ(second half)
Array hard_shrink(const Array&, double bound = 0.5);  // x where |x| > bound, else 0
Array hard_silu(const Array&);                        // x·hard_sigmoid(x)
Array hard_tanh(const Array&, double low = -1.0, double high = 1.0);  // cut to [low, high]
Array log_sigmoid(const Array&);                                      // ln σ(x), without overflow
Array mish(const Array&);                                             // x·tanh(softplus(x))
Array prelu(const Array& x, const Array& slope);                      // x where x ≥ 0, else slope·x
Array relu6(const Array&);                                            // min(max(x, 0), 6)
Array selu(const Array&);                             // λ·elu(x, α): keeps mean 0 and variance 1
Array soft_shrink(const Array&, double bound = 0.5);  // x ∓ bound where |x| > bound, else 0
Array soft_sign(const Array&);                        // x/(1 + |x|)
Array softmin(const Array&, int axis = -1);           // softmax(−x)
Array sparse_plus(const Array&);                      // 0, (x + 1)²/4, x below, in and above [−1, 1]
Array sparse_sigmoid(const Array&);                   // (x + 1)/2 cut to [0, 1]
Array squareplus(const Array&, double b = 4.0);       // (x + √(x² + b))/2
Array standardize(const Array&, int axis = -1, double epsilon = 1e-5);  // (x − mean)/√(variance + ε)
Array tanh_shrink(const Array&);                                        // x − tanh(x)
Array threshold(const Array&, double bound, double value);              // x where x > bound, else value

// A function of one array as a module: net.add<Lambda>("relu"), net.add<Lambda>([](const Array& x) { … }).
class Lambda : public NumberLayer {
 public:
  explicit Lambda(Activation function) : function_(std::move(function)) {}
  explicit Lambda(std::string_view activation_name) : Lambda(activation(activation_name)) {}
  Array update(const Array& x) override { return function_(x); }

 private:
  Activation function_;
};

// f(c·x) = c·f(x) for c > 0: keeps the unit of x.
class DegreeOne : public Lambda {
 public:
  using Lambda::Lambda;
  using Module::operator();
  Quantity operator()(const Quantity& x) { return {Module::operator()(x.mantissa()), x.unit()}; }
};

struct Identity : DegreeOne {
  Identity();
};
struct CELU : Lambda {
  explicit CELU(double alpha = 1.0);
};
struct ELU : Lambda {
  explicit ELU(double alpha = 1.0);
};
struct GELU : Lambda {
  explicit GELU(bool approximate = true);
};
struct GLU : Lambda {
  explicit GLU(int axis = -1);
};
struct HardShrink : Lambda {
  explicit HardShrink(double bound = 0.5);
};
struct HardSigmoid : Lambda {
  HardSigmoid();
};
struct HardSiLU : Lambda {
  HardSiLU();
};
struct HardTanh : Lambda {
  explicit HardTanh(double low = -1.0, double high = 1.0);
};
struct LeakyReLU : DegreeOne {
  explicit LeakyReLU(double slope = 0.01);
};
struct LogSigmoid : Lambda {
  LogSigmoid();
};
struct LogSoftmax : Lambda {
  explicit LogSoftmax(int axis = -1);
};
struct Mish : Lambda {
  Mish();
};
struct ReLU : DegreeOne {
  ReLU();
};
struct ReLU6 : Lambda {
  ReLU6();
};
struct SELU : Lambda {
  SELU();
};
struct Sigmoid : Lambda {
  Sigmoid();
};
struct SiLU : Lambda {
  SiLU();
};
struct Softmax : Lambda {
  explicit Softmax(int axis = -1);
};
struct Softmin : Lambda {
  explicit Softmin(int axis = -1);
};
struct Softplus : Lambda {
  Softplus();
};
struct SoftShrink : Lambda {
  explicit SoftShrink(double bound = 0.5);
};
struct SoftSign : Lambda {
  SoftSign();
};
struct Tanh : Lambda {
  Tanh();
};
struct TanhShrink : Lambda {
  TanhShrink();
};
struct Threshold : Lambda {
  Threshold(double bound, double value);
};

}  // namespace etrace::nn
#pragma GCC visibility pop
