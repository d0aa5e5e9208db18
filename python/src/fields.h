// Arguments and options of layers, optimisers, tasks: what a name in Python means for a place in C++.
//
// An options struct has one table of its fields:
//   inline void fields_of(FieldTable& f, nn::LinearOptions& o) { f("weight_init", o.weight_init); … }
// It reads keywords, lists names for errors, and says types and first values for documentation.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"

namespace etrace::python {

// Who reads which argument: "GRUCell", "in_size".
struct Place {
  std::string who, name;
  [[noreturn]] void wrong_type(const char* expected, nb::handle given) const;
  [[noreturn]] void wrong_value(const std::string& why) const;
};

// The value of an argument; TypeError or ValueError with its place. None is a value only for what may be
// empty.
template <class T>
struct Reader;  // { static T read(const Place&, nb::handle); static constexpr const char* kType; }

#define ETRACE_READER(T, type)                   \
  template <>                                    \
  struct Reader<T> {                             \
    static T read(const Place&, nb::handle);     \
    static constexpr const char* kType = (type); \
  };
ETRACE_READER(bool, "bool")
ETRACE_READER(int, "int")
ETRACE_READER(std::int64_t, "int")
ETRACE_READER(std::uint64_t, "int")
ETRACE_READER(double, "float")
ETRACE_READER(std::optional<double>, "float | None")
ETRACE_READER(std::string, "str")
ETRACE_READER(std::vector<std::string>, "Sequence[str]")
ETRACE_READER(Dtype, "DtypeLike")
ETRACE_READER(Unit, "Unit | None")
ETRACE_READER(Array, "ArrayLike | None")
ETRACE_READER(Shape, "int | Sequence[int]")
ETRACE_READER(Dims, "int | Sequence[int]")
ETRACE_READER(nn::Size, "int | Sequence[int]")
ETRACE_READER(SparsePattern, "SparsePattern")
ETRACE_READER(nn::Initializer, "InitLike")
ETRACE_READER(nn::Activation, "Callable[[Array], ArrayLike] | str | None")
ETRACE_READER(nn::Surrogate, "Surrogate | Callable[[Array], ArrayLike] | str")
ETRACE_READER(nn::Padding, "str | int | Sequence[int | tuple[int, int]]")
ETRACE_READER(nn::Padding::Pairs, "int | Sequence[int | tuple[int, int]]")
ETRACE_READER(nn::Reset, "Literal['soft', 'hard']")
ETRACE_READER(nn::Method, "Literal['exp_euler', 'euler', 'rk4']")
ETRACE_READER(nn::DelayMemory, "Literal['ring', 'hidden']")
ETRACE_READER(nn::Synapse, "Literal['delta', 'expon']")
ETRACE_READER(nn::init::Fan, "Literal['in', 'out', 'average']")
ETRACE_READER(nn::init::Distribution, "Literal['normal', 'truncated_normal', 'uniform']")
ETRACE_READER(metrics::Averaged, "Literal['macro', 'micro', 'weighted', 'per_class']")
ETRACE_READER(nn::LIFOptions, "dict")
#undef ETRACE_READER

// A constant with a unit: a number or array in the option's unit, a quantity, or et.nn.learned(…).
struct ConstantValue {
  Quantity value;
  bool learned;
};
ConstantValue read_constant(const Place&, nb::handle);
template <const Unit& kUnit>
struct Reader<nn::ConstantIn<kUnit>> {
  static nn::ConstantIn<kUnit> read(const Place& at, nb::handle h) {
    const ConstantValue c = read_constant(at, h);
    if (c.learned) return nn::learned(c.value);
    return c.value;
  }
  static constexpr const char* kType = "ConstantLike";
};

// A first value as Python writes it; empty where only the header can say it (functions).
std::string initial_text(bool);
std::string initial_text(int);
std::string initial_text(std::int64_t);
std::string initial_text(std::uint64_t);
std::string initial_text(double);
std::string initial_text(const std::optional<double>&);
std::string initial_text(Dtype);
std::string initial_text(const Dims&);
std::string initial_text(const nn::Constant&);
std::string initial_text(nn::Reset);
std::string initial_text(nn::Method);
std::string initial_text(nn::DelayMemory);
std::string initial_text(nn::Synapse);
std::string initial_text(const nn::Padding&);
template <class T>
requires(!std::derived_from<T, nn::Constant>) std::string initial_text(const T&) { return {}; }

// The fields of one object, by name.
class FieldTable {
 public:
  explicit FieldTable(std::string who) : who_(std::move(who)) {}
  template <class T>
  void operator()(const char* name, T& place) {
    fields_.push_back({name, Reader<T>::kType, initial_text(place), [this, name, &place](nb::handle h) {
                         place = Reader<T>::read({who_, name}, h);
                       }});
  }
  struct Field {
    const char *name, *type;
    std::string initial;
    std::function<void(nb::handle)> set;
  };
  const std::vector<Field>& all() const { return fields_; }
  // TypeError for a name that is none, with the nearest one.
  void set(const std::string& name, nb::handle value) const;
  void set_all(const nb::dict& options) const;

 private:
  std::string who_;
  std::vector<Field> fields_;
};

// A Python function that C++ keeps. Weak: whoever made the layer keeps it, and no cycle leads through C++;
// what cannot be referred to weakly is kept. It takes the GIL, also to go.
class KeptFunction {
 public:
  enum class Hold : std::uint8_t { Weak, Strong };
  KeptFunction(nb::handle function, Hold);
  nb::object get(const char* who) const;  // ValueError: it is gone

 private:
  std::shared_ptr<PyObject> object_;
  bool weak_ = false;
};

}  // namespace etrace::python
