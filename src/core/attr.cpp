// Static parameters: plain data and nested programs, with one representation per value.
#include <algorithm>
#include <bit>

#include "core/number_text.h"
#include "etrace/ir.h"

namespace etrace {

namespace {

bool by_key(const Attr::Dict::value_type& a, const Attr::Dict::value_type& b) { return a.first < b.first; }

Attr::Dict sorted(Attr::Dict items) {
  std::stable_sort(items.begin(), items.end(), by_key);
  const auto twice = std::adjacent_find(items.begin(), items.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != items.end())
    throw CompilationError("params",
                           "the parameter '" + twice->first + "' is given twice; give each name once");
  return items;
}

template <class T>
const T* pointee(const Attr& a) {
  const auto* shared = a.get_if<std::shared_ptr<const T>>();
  return shared != nullptr ? shared->get() : nullptr;
}

bool same(const JaxprPtr& a, const JaxprPtr& b) {
  return a == b || (a != nullptr && b != nullptr && equal(*a, *b));
}

const char* kind_of(const Attr& a) {
  static constexpr const char* kKinds[] = {
      "null",   "a bool",       "an integer", "a number",          "a text", "a list of integers",
      "a list", "a dictionary", "a program",  "a list of integers"};
  return kKinds[a.value().index()];
}

}  // namespace

Attr::Attr() = default;
Attr::Attr(std::nullptr_t) {}
Attr::Attr(bool v) : value_(v) {}
Attr::Attr(int v) : value_(std::int64_t{v}) {}
Attr::Attr(std::int64_t v) : value_(v) {}
Attr::Attr(std::size_t v) : value_(static_cast<std::int64_t>(v)) {}
Attr::Attr(double v) : value_(v) {}
Attr::Attr(const char* v) : value_(std::string(v)) {}
Attr::Attr(std::string v) : value_(std::move(v)) {}
Attr::Attr(Dtype v) : value_(std::string(name(v))) {}
Attr::Attr(const Shape& v) : Attr(v.to_dims()) {}
Attr::Attr(Dims v) {
  const auto is_narrow = [](std::int64_t n) { return n == static_cast<std::int32_t>(n); };
  if (v.size() > kShortList && std::all_of(v.begin(), v.end(), is_narrow))
    value_ = std::make_shared<const Table>(v.begin(), v.end());
  else
    value_ = std::make_shared<const Dims>(std::move(v));
}
Attr::Attr(std::shared_ptr<const Table> v) {
  if (v != nullptr && v->size() > kShortList)
    value_ = std::move(v);
  else
    value_ =
        v == nullptr ? std::make_shared<const Dims>() : std::make_shared<const Dims>(v->begin(), v->end());
}
Attr::Attr(JaxprPtr v) {
  if (v != nullptr) value_ = std::move(v);
}
Attr::Attr(const Attr&) = default;
Attr::Attr(Attr&&) noexcept = default;
Attr& Attr::operator=(const Attr&) = default;
Attr& Attr::operator=(Attr&&) noexcept = default;
Attr::~Attr() = default;

bool Attr::is_null() const { return std::holds_alternative<std::monostate>(value_); }
const JaxprPtr* Attr::jaxpr() const { return std::get_if<JaxprPtr>(&value_); }

Params::Params() = default;
Params::Params(const Params&) = default;
Params::Params(Params&&) noexcept = default;
Params& Params::operator=(const Params&) = default;
Params& Params::operator=(Params&&) noexcept = default;
Params::~Params() = default;
bool operator==(const Params& a, const Params& b) { return a.items_ == b.items_; }

Attr Attr::list(List v) {
  const bool integers =
      std::all_of(v.begin(), v.end(), [](const Attr& a) { return a.get_if<std::int64_t>() != nullptr; });
  Attr out;
  if (integers) {
    Dims dims;
    dims.reserve(v.size());
    for (const Attr& a : v) dims.push_back(*a.get_if<std::int64_t>());
    out = Attr(std::move(dims));
  } else {
    out.value_ = std::make_shared<const List>(std::move(v));
  }
  return out;
}

Attr Attr::dict(Dict v) {
  Attr out;
  out.value_ = std::make_shared<const Dict>(sorted(std::move(v)));
  return out;
}

const Dims* Attr::ints() const { return pointee<Dims>(*this); }
const std::shared_ptr<const Table>* Attr::table() const {
  return std::get_if<std::shared_ptr<const Table>>(&value_);
}
const Attr::List* Attr::list_items() const { return pointee<List>(*this); }
const Attr::Dict* Attr::dict_items() const { return pointee<Dict>(*this); }

bool operator==(const Attr& a, const Attr& b) {
  if (a.value().index() != b.value().index()) return false;
  if (const JaxprPtr* j = a.jaxpr()) return same(*j, *b.jaxpr());
  if (const double* d = a.get_if<double>()) return same_number(*d, *b.get_if<double>());
  if (const Dims* d = a.ints()) return d == b.ints() || *d == *b.ints();
  if (const auto* t = a.table()) return *t == *b.table() || **t == **b.table();
  if (const Attr::List* l = a.list_items()) return *l == *b.list_items();
  if (const Attr::Dict* d = a.dict_items()) return d == b.dict_items() || *d == *b.dict_items();
  return a.value() == b.value();
}

Params::Params(std::initializer_list<std::pair<std::string, Attr>> items) : Params(Attr::Dict(items)) {}
Params::Params(Attr::Dict items) : items_(sorted(std::move(items))) {}

const Attr* Params::find(std::string_view key) const {
  const auto it = std::lower_bound(items_.begin(), items_.end(), key,
                                   [](const auto& item, std::string_view k) { return item.first < k; });
  return it != items_.end() && it->first == key ? &it->second : nullptr;
}

bool Params::has(std::string_view key) const {
  const Attr* a = find(key);
  return a != nullptr && !a->is_null();
}

Params Params::with(std::string key, Attr value) const {
  Params out = without(key);
  std::pair<std::string, Attr> item(std::move(key), std::move(value));
  out.items_.insert(std::lower_bound(out.items_.begin(), out.items_.end(), item, by_key), std::move(item));
  return out;
}

Params Params::without(std::string_view key) const {
  Params out = *this;
  std::erase_if(out.items_, [key](const auto& item) { return item.first == key; });
  return out;
}

void Params::fail(std::string_view key, const char* expected) const {
  const Attr* a = find(key);
  const std::string found = a == nullptr ? "is missing" : std::string("is ") + kind_of(*a);
  throw CompilationError(
      "params", "the parameter '" + std::string(key) + "' " + found + ", expected " + std::string(expected));
}

std::int64_t Params::integer(std::string_view key) const {
  if (const Attr* a = find(key))
    if (const auto* v = a->get_if<std::int64_t>()) return *v;
  fail(key, "an integer");
}

std::int64_t Params::integer_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

bool Params::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  if (const auto* v = find(key)->get_if<bool>()) return *v;
  fail(key, "a bool");
}

double Params::number_or(std::string_view key, double fallback) const {
  if (!has(key)) return fallback;
  if (const auto* v = find(key)->get_if<double>()) return *v;
  if (const auto* v = find(key)->get_if<std::int64_t>()) return static_cast<double>(*v);
  fail(key, "a number");
}

std::string Params::text(std::string_view key) const {
  if (const Attr* a = find(key))
    if (const auto* v = a->get_if<std::string>()) return *v;
  fail(key, "a text");
}

std::string Params::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

Dtype Params::dtype(std::string_view key) const {
  if (const Attr* a = find(key))
    if (const auto* v = a->get_if<std::string>())
      if (const auto t = dtype_from_name(*v)) return *t;
  fail(key, "an element type such as \"float32\"");
}

Dims Params::dims(std::string_view key) const {
  if (const Attr* a = find(key)) {
    if (const Dims* v = a->ints()) return *v;
    if (const auto* v = a->table()) return {(*v)->begin(), (*v)->end()};
  }
  fail(key, "a list of integers");
}

Dims Params::dims_or(std::string_view key, Dims fallback) const {
  return has(key) ? dims(key) : std::move(fallback);
}

JaxprPtr Params::jaxpr(std::string_view key) const {
  if (JaxprPtr j = jaxpr_or_null(key)) return j;
  fail(key, "a program");
}

JaxprPtr Params::jaxpr_or_null(std::string_view key) const {
  if (!has(key)) return nullptr;
  if (const JaxprPtr* j = find(key)->jaxpr()) return *j;
  fail(key, "a program or null");
}

std::vector<JaxprPtr> Params::jaxprs(std::string_view key) const {
  const Attr* a = find(key);
  if (a != nullptr && a->ints() != nullptr && a->ints()->empty()) return {};
  if (a == nullptr || a->list_items() == nullptr) fail(key, "a list of programs");
  std::vector<JaxprPtr> out;
  for (const Attr& item : *a->list_items()) {
    if (item.jaxpr() == nullptr || *item.jaxpr() == nullptr) fail(key, "a list of programs");
    out.push_back(*item.jaxpr());
  }
  return out;
}

}  // namespace etrace
