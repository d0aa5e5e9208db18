// Structural hash of programs: FNV-1a over the same things that equal() compares. It depends on names, types
// and numbers only, so that it is the same in every process and can name a file of a cache.
#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/number_text.h"
#include "etrace/ir.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

class Hasher {
 public:
  std::uint64_t value() const { return hash_; }

  void add(const ClosedJaxpr& closed) {
    add(closed.jaxpr);
    add(closed.consts.size());
    for (const Tensor& t : closed.consts) {
      add(t.aval());
      if (t.defined()) bytes(t.bytes(), t.aval().bytes());
    }
  }

 private:
  void bytes(const void* data, std::size_t count) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < count; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3ULL;
  }
  void add(std::uint64_t v) { bytes(&v, sizeof v); }
  void add(std::string_view text) {
    add(text.size());
    bytes(text.data(), text.size());
  }
  void add(const Aval& aval) {
    add(static_cast<std::uint64_t>(aval.dtype));
    add(aval.shape.rank());
    for (const std::int64_t n : aval.shape) add(static_cast<std::uint64_t>(n));
  }
  void add(const Scalar& value) {
    add(value.index());
    if (const double* d = std::get_if<double>(&value))
      number(*d);
    else
      add(static_cast<std::uint64_t>(to_int(value)));
  }
  void number(double d) { add(d != d ? ~0ULL : std::bit_cast<std::uint64_t>(d)); }  // every NaN alike

  void add(const Jaxpr& jaxpr) {
    // Vars of a nested program are numbered on their own: names do not cross its border.
    std::unordered_map<std::uint64_t, std::size_t> numbers;
    auto var = [&](const Var& v) {
      add(v.aval);
      add(numbers.try_emplace(v.id, numbers.size()).first->second);
    };
    auto vars = [&](const std::vector<Var>& list) {
      add(list.size());
      for (const Var& v : list) var(v);
    };
    auto atoms = [&](const std::vector<Atom>& list) {
      add(list.size());
      for (const Atom& a : list) {
        add(a.index());
        if (const Var* v = as_var(a)) {
          var(*v);
        } else {
          const auto& literal = std::get<Literal>(a);
          add(literal.aval());
          add(canonical_value(literal));
        }
      }
    };
    vars(jaxpr.constvars);
    vars(jaxpr.invars);
    add(jaxpr.eqns.size());
    for (const Eqn& eqn : jaxpr.eqns) {
      add(eqn.prim->name());
      atoms(eqn.in);
      vars(eqn.out);
      dict(eqn.params.items());
    }
    atoms(jaxpr.outs);
  }

  template <class List>
  void integers(const List& list) {
    add(list.size());
    for (const std::int64_t n : list) add(static_cast<std::uint64_t>(n));
  }

  void dict(const Attr::Dict& items) {
    add(items.size());
    for (const auto& [key, value] : items) {
      add(std::string_view(key));
      add(value);
    }
  }

  void add(const Attr& attr) {
    add(attr.value().index());
    if (const auto* b = attr.get_if<bool>()) add(std::uint64_t{*b});
    if (const auto* i = attr.get_if<std::int64_t>()) add(static_cast<std::uint64_t>(*i));
    if (const auto* d = attr.get_if<double>()) number(*d);
    if (const auto* s = attr.get_if<std::string>()) add(std::string_view(*s));
    if (const Dims* dims = attr.ints()) integers(*dims);
    if (const auto* table = attr.table()) integers(**table);
    if (const Attr::List* list = attr.list_items()) {
      add(list->size());
      for (const Attr& item : *list) add(item);
    }
    if (const Attr::Dict* items = attr.dict_items()) dict(*items);
    if (const JaxprPtr* j = attr.jaxpr(); j != nullptr && *j != nullptr) add(**j);
  }

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::size_t hash(const ClosedJaxpr& program) {
  Hasher hasher;
  hasher.add(program);
  return static_cast<std::size_t>(hasher.value());
}

}  // namespace etrace
