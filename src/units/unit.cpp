// Text of a unit: a function of dimension and scale alone, so that equal units have equal names however they
// were made.
//
// Tried in this order: one symbol (mV), a power of one (ms², mV^(1/2)), a product or quotient of two (nS/cm²,
// V·s), and the seven base units with a power of ten in front.
#include "etrace/units/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "units/describe.h"

namespace etrace {

void Rational::out_of_range(std::int64_t num, std::int64_t den) {
  throw ValueError("units", fmt::format("the exponent {}/{} is not a small fraction", num, den));
}

namespace {

struct Prefix {
  int power = 0;
  std::string_view text = "";
};
constexpr std::array kPrefixes = std::to_array<Prefix>({{0, ""},
                                                        {-3, "m"},
                                                        {3, "k"},
                                                        {-6, "u"},
                                                        {6, "M"},
                                                        {-9, "n"},
                                                        {9, "G"},
                                                        {-12, "p"},
                                                        {12, "T"},
                                                        {-15, "f"},
                                                        {-18, "a"},
                                                        {-2, "c"}});

// Where a symbol may stand: only alone (Hz), also in powers and in front of a product (nS/…), also behind
// (…/cm²).
enum class Use : std::uint8_t { Alone, Front, Anywhere };

struct Symbol {
  std::string_view text;
  Unit unit;
  Use use = Use::Front;
  int largest = 12;                    // power of ten of a prefix; there are no kiloseconds
  std::string_view large_text = text;  // with a prefix above 1
};
// Names come before what they are made of; the first that fits is taken.
constexpr std::array kSymbols = std::to_array<Symbol>({
    {"V", units::V},
    {"A", units::A},
    {"S", units::S},
    {"ohm", units::ohm, Use::Front, 12, "Ohm"},
    {"F", units::F},
    {"C", units::C},
    {"Hz", units::Hz, Use::Alone},
    {"M", units::M, Use::Alone, 0},
    {"J", units::J},
    {"W", units::W},
    {"N", units::N},
    {"Pa", units::Pa},
    {"g", units::gram, Use::Anywhere, 3},
    {"m", units::m, Use::Anywhere, 3},
    {"s", units::s, Use::Anywhere, 0},
    {"K", units::kelvin, Use::Anywhere, 0},
    {"mol", units::mol, Use::Anywhere, 0},
    {"cd", units::cd, Use::Anywhere, 0},
});

std::string power_text(std::string_view base, const Rational& r) {
  const Rational size = r.num() < 0 ? -r : r;
  if (size == 1) return std::string(base);
  if (size == 2) return fmt::format("{}²", base);
  if (size == 3) return fmt::format("{}³", base);
  return size.is_integer() ? fmt::format("{}^{}", base, size.num())
                           : fmt::format("{}^({}/{})", base, size.num(), size.den());
}

// symbol^exponent with a prefix.
struct Term {
  const Symbol* symbol;
  Rational exponent;
  Prefix prefix = {};

  std::string text() const {
    const std::string_view name = prefix.power > 0 ? symbol->large_text : symbol->text;
    return power_text(fmt::format("{}{}", prefix.text, name), exponent);
  }
  Rational power_of_ten() const { return exponent * (symbol->unit.power_of_ten() + prefix.power); }
};

// Centi is for lengths only.
bool takes(const Symbol& symbol, const Prefix& prefix) {
  return prefix.power <= symbol.largest && (prefix.power != -2 || symbol.unit == units::m);
}

std::string scale_text(const Rational& power_of_ten, double factor) {
  std::string text = factor == 1.0 ? "" : fmt::format("{}", factor);
  if (power_of_ten == 0) return text;
  if (!text.empty()) text += "·";
  return text + (power_of_ten.is_integer()
                     ? fmt::format("10^{}", power_of_ten.num())
                     : fmt::format("10^({}/{})", power_of_ten.num(), power_of_ten.den()));
}

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "·")); }

// scale a·b/(c·d); `rest` is what prefixes could not express.
std::string compose(std::span<const Term> terms, const Rational& rest, double factor) {
  std::vector<std::string> above, below;
  for (const Term& t : terms) (t.exponent.num() > 0 ? above : below).push_back(t.text());
  std::string text = above.empty() ? (below.empty() ? "" : "1") : join(above);
  if (below.size() == 1) text += "/" + below[0];
  if (below.size() > 1) text += "/(" + join(below) + ")";
  const std::string scale = scale_text(rest, factor);
  if (text.empty()) return scale.empty() ? "1" : scale;
  return scale.empty() ? text : scale + " " + text;
}

bool spans(const Unit& unit, std::span<const Term> terms) {
  Unit product;
  for (const Term& t : terms) product = product * pow(t.symbol->unit, t.exponent);
  return product.same_dimension(unit);
}

// r with unit = symbol^r in dimension.
std::optional<Rational> root(const Unit& unit, const Symbol& symbol) {
  for (std::size_t i = 0; i < unit.exponents().size(); ++i) {
    if (symbol.unit.exponents()[i] == 0) continue;
    const Rational r = unit.exponents()[i] / symbol.unit.exponents()[i];
    const Term term{&symbol, r};
    return r != 0 && spans(unit, {&term, 1}) ? std::optional(r) : std::nullopt;
  }
  return std::nullopt;
}

// Terms of the right dimension, still without prefixes.
std::vector<Term> matching_terms(const Unit& unit) {
  if (unit.dimensionless()) return {};
  for (const Symbol& s : kSymbols)
    if (root(unit, s) == Rational(1)) return {{&s, 1}};
  for (const Symbol& s : kSymbols)
    if (const auto r = root(unit, s); r && s.use != Use::Alone) return {{&s, *r}};
  for (const Symbol& a : kSymbols)
    for (const Symbol& b : kSymbols)
      for (const int exponent : {-1, 1, -2, 2, -3, 3}) {
        const std::array<Term, 2> terms{{{&a, 1}, {&b, exponent}}};
        if (a.use != Use::Alone && b.use == Use::Anywhere && spans(unit, terms))
          return {terms.begin(), terms.end()};
      }
  std::vector<Term> terms;
  using enum Dimension;
  for (const Dimension d : {Mass, Length, Time, Current, Temperature, Amount, Luminosity})
    for (const Symbol& s : kSymbols)
      if (const Rational r = unit.exponents()[static_cast<std::size_t>(d)];
          r != 0 && s.unit.same_dimension(Unit::of(d)))
        terms.push_back({&s, r, d == Mass ? Prefix{3, "k"} : Prefix{}});
  return terms;
}

// Prefixes that express the whole scale; of several the least extreme.
bool choose_prefixes(std::vector<Term>& terms, const Rational& power_of_ten) {
  if (terms.empty() || terms.size() > 2) return false;
  std::optional<int> best;
  std::vector<Term> chosen = terms;
  const auto consider = [&](std::vector<Term> candidate) {
    Rational sum = 0;
    int extreme = 0;
    for (const Term& t : candidate) {
      sum = sum + t.power_of_ten();
      extreme = std::max(extreme, std::abs(t.prefix.power));
    }
    if (sum != power_of_ten || (best && *best <= extreme)) return;
    best = extreme;
    chosen = std::move(candidate);
  };
  for (const Prefix& p : kPrefixes) {
    if (!takes(*terms[0].symbol, p)) continue;
    std::vector<Term> candidate = terms;
    candidate[0].prefix = p;
    if (terms.size() == 1) consider(candidate);
    for (const Prefix& q : kPrefixes) {
      if (terms.size() == 1 || !takes(*terms[1].symbol, q)) continue;
      candidate[1].prefix = q;
      consider(candidate);
    }
  }
  terms = chosen;
  return best.has_value();
}

}  // namespace

std::string to_string(const Unit& unit) {
  std::vector<Term> terms = matching_terms(unit);
  if (choose_prefixes(terms, unit.power_of_ten())) return compose(terms, 0, unit.factor());
  Rational expressed = 0;
  for (const Term& t : terms) expressed = expressed + t.power_of_ten();
  return compose(terms, unit.power_of_ten() - expressed, unit.factor());
}

std::string described(const Unit& unit) {
  return unit.dimensionless() ? "a plain number" : "in " + to_string(unit);
}

double Unit::power(double base, double exponent) { return std::pow(base, exponent); }

}  // namespace etrace
