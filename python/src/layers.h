// Layers as rows: one row per class of etrace/nn, which etrace/nn/_layer.py makes a Python class of.
//
//   layer<nn::Linear>("Linear", arg<std::int64_t>("in_size"), arg<std::int64_t>("out_size"))
//
// Python's class owns the C++ object as its node. What a row says is all that Python knows of the class;
// texts come from the headers (etrace/nn/_docs.py).
#pragma once

#include <memory>
#include <tuple>
#include <typeindex>

#include "fields.h"
#include "operands.h"

namespace etrace::python {

template <class T>
struct Argument {
  const char* name;
  std::optional<T> initial;
};
template <class T>
Argument<T> arg(const char* name, std::optional<T> initial = {}) {
  return {name, std::move(initial)};
}

// Positional arguments and keywords of one call. take() uses an argument up.
class CallArguments {
 public:
  CallArguments(std::string who, nb::tuple positional, nb::dict keywords);
  template <class T>
  T take(const Argument<T>& a) {
    const nb::object given = next(a.name);
    if (given.is_valid()) return Reader<T>::read({who_, a.name}, given);
    if (!a.initial) missing(a.name);
    return *a.initial;
  }
  void finish(const FieldTable& options);  // the rest are options; TypeError for what is left over

 private:
  nb::object next(const char* name);
  [[noreturn]] void missing(const char* name) const;
  std::string who_;
  nb::tuple positional_;
  nb::dict keywords_;
  std::size_t at_ = 0;
};

struct LayerRow {
  struct Described {
    const char *name, *type;
    std::string initial;
    bool required;
  };
  const char* name;
  const char* parent;  // the class in Python that it derives from
  std::type_index type;
  std::vector<Described> arguments;
  std::function<std::vector<Described>()> options;
  std::function<std::shared_ptr<Module>(CallArguments&)> make;
  Result (*of_quantity)(Module&, const Quantity&);  // null: the class takes none
};
void add_layer(LayerRow);

template <class L>
struct NoOptions {};
template <class L>
struct OptionsOf {
  using type = NoOptions<L>;
};
template <class L>
requires requires { typename L::Options; }
struct OptionsOf<L> {
  using type = typename L::Options;
};
template <class L>
void fields_of(FieldTable&, NoOptions<L>&) {}

template <class L>
typename OptionsOf<L>::type first_options() {
  return {};
}
template <>
inline nn::ReceptorOptions first_options<nn::GABAa>() {
  return nn::gabaa_options();
}

template <class L>
Result of_quantity(Module& m, const Quantity& x) {
  return static_cast<L&>(m)(x);
}

std::vector<LayerRow::Described> described(const FieldTable&);

// A row of a class that is constructed from these arguments and its options.
template <class L, class... A>
void layer(const char* name, const char* parent, const Argument<A>&... arguments) {
  using Options = typename OptionsOf<L>::type;
  LayerRow row{name, parent, typeid(L), {}, {}, {}, nullptr};
  (row.arguments.push_back({arguments.name, Reader<A>::kType,
                            arguments.initial ? initial_text(*arguments.initial) : std::string(),
                            !arguments.initial}),
   ...);
  row.options = [name] {
    Options o = first_options<L>();
    FieldTable fields(name);
    fields_of(fields, o);
    return described(fields);
  };
  row.make = [name, arguments...](CallArguments& given) -> std::shared_ptr<Module> {
    Options o = first_options<L>();
    FieldTable fields(name);
    fields_of(fields, o);
    std::tuple<A...> values{given.take(arguments)...};
    given.finish(fields);
    return std::apply(
        [&](auto&... each) -> std::shared_ptr<Module> {
          if constexpr (std::is_same_v<Options, NoOptions<L>>)
            return std::make_shared<L>(each...);
          else
            return std::make_shared<L>(each..., o);
        },
        values);
  };
  if constexpr (requires(L & l, const Quantity& q) { l(q); }) row.of_quantity = of_quantity<L>;
  add_layer(std::move(row));
}

}  // namespace etrace::python
