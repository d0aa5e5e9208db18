// einsum and NumPy's products, all by way of dot_general.
#include <algorithm>
#include <map>

#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

constexpr std::string_view kEinsum = "einsum";

// An operand with one letter for each axis.
struct Term {
  Array value;
  std::string labels;

  std::int64_t axis(char label) const { return to_dim(labels.find(label)); }
  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

// "…" stands for as many axes as an operand has more than letters; they get labels that no equation can
// contain.
std::string ellipsis_labels(std::size_t count) {
  std::string labels;
  for (std::size_t i = 0; i < count; ++i) labels += static_cast<char>('0' + i);
  return labels;
}

std::string expanded(const std::string& labels, const std::string& ellipsis, std::size_t count) {
  const std::size_t at = labels.find("...");
  if (at == std::string::npos) return labels;
  return labels.substr(0, at) + ellipsis.substr(ellipsis.size() - count) + labels.substr(at + 3);
}

Equation parse(std::string_view text, ArraySpan operands) {
  std::string left;
  for (const char c : text)
    if (c != ' ') left += c;
  const std::string shown = "the equation '" + left + "' ";
  std::optional<std::string> right;
  if (const std::size_t arrow = left.find("->"); arrow != std::string::npos) {
    right = left.substr(arrow + 2);
    left.resize(arrow);
  }
  Equation e{{""}, {}};
  for (const char c : left)
    if (c == ',')
      e.inputs.emplace_back();
    else
      e.inputs.back() += c;
  if (e.inputs.size() != operands.size())
    refuse(kEinsum, shown + "has " + std::to_string(e.inputs.size()) + " operands, but got " +
                        std::to_string(operands.size()));
  auto letters = [&](const std::string& labels) {
    const std::size_t at = labels.find("...");
    std::string rest = labels;
    if (at != std::string::npos) rest.erase(at, 3);
    for (const char c : rest)
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
        refuse(kEinsum, shown + "contains '" + c + "'; axes are named by letters, or by ... for all others");
    return rest;
  };
  std::size_t most = 0;
  std::vector<std::size_t> hidden;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t named = letters(e.inputs[i]).size(), rank = operands[i].rank();
    const bool open = e.inputs[i].find("...") != std::string::npos;
    if (open ? named > rank : named != rank)
      refuse(kEinsum, shown + "names " + std::to_string(named) + " axes of operand " + std::to_string(i) +
                          ", which is " + to_string(operands[i].aval()));
    hidden.push_back(open ? rank - named : 0);
    most = std::max(most, hidden.back());
  }
  const std::string ellipsis = ellipsis_labels(most);
  for (std::size_t i = 0; i < operands.size(); ++i) e.inputs[i] = expanded(e.inputs[i], ellipsis, hidden[i]);
  std::map<char, int> count;
  for (const std::string& labels : e.inputs)
    for (const char c : labels) ++count[c];
  if (right) {
    letters(*right);
    e.output = expanded(*right, ellipsis, most);
  } else {  // NumPy's rule: the ellipsis, then the letters that occur once, in alphabetical order
    e.output = ellipsis;
    for (const auto& [label, times] : count)
      if (times == 1 && ellipsis.find(label) == std::string::npos) e.output += label;
  }
  for (const char c : e.output) {
    if (!count.contains(c)) refuse(kEinsum, shown + "has '" + c + "' in the result, but no operand has it");
    if (std::count(e.output.begin(), e.output.end(), c) > 1)
      refuse(kEinsum, shown + "has '" + c + "' twice in the result");
  }
  return e;
}

// The diagonal of two axes of size n, which becomes the last axis: every (n+1)-th entry of the n² in a row.
void take_diagonal(Term& t, std::size_t first, std::size_t second) {
  const std::int64_t n = t.value.shape()[first];
  if (n != t.value.shape()[second])
    refuse(kEinsum, std::string("axis '") + t.labels[first] + "' occurs twice in an operand with sizes " +
                        std::to_string(n) + " and " + std::to_string(t.value.shape()[second]));
  const Dims others = other_axes(t.value.rank(), Dims{to_dim(first), to_dim(second)});
  const Dims sizes = pick(t.value.shape().dims(), others);
  const Array square = transpose(t.value, joined(others, {to_dim(first), to_dim(second)}));
  t.value = slice_axis(reshape(square, joined(sizes, {n * n})), -1, 0, n * n, n + 1);
  const char label = t.labels[first];
  t.labels.erase(second, 1);
  t.labels.erase(first, 1);
  t.labels += label;
}

void drop(Term& t, const Dims& axes, bool by_sum) {
  t.value = by_sum ? sum(t.value, axes) : squeeze(t.value, axes);
  std::string kept;
  for (const std::int64_t a : other_axes(t.labels.size(), axes)) kept += t.labels[to_index(a)];
  t.labels = kept;
}

Term product(const Term& a, const Term& b, const std::string& needed) {
  DotDims d;
  std::string batch, a_free, b_free;
  for (const char c : a.labels) {
    if (!b.has(c)) {
      a_free += c;
    } else if (needed.find(c) != std::string::npos) {
      batch += c;
      d.lhs_batch.push_back(a.axis(c));
      d.rhs_batch.push_back(b.axis(c));
    } else {
      d.lhs_contract.push_back(a.axis(c));
      d.rhs_contract.push_back(b.axis(c));
    }
  }
  for (const char c : b.labels)
    if (!a.has(c)) b_free += c;
  return {dot_general(a.value, b.value, d), batch + a_free + b_free};
}

}  // namespace

Array einsum_plain(std::string_view equation, ArraySpan operands) {
  if (operands.empty()) refuse(kEinsum, "needs at least one operand");
  const Equation e = parse(equation, operands);

  std::vector<Term> terms;
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Term t{operands[i], e.inputs[i]};
    for (std::size_t a = 0; a < t.labels.size(); ++a)
      for (std::size_t b = a + 1; b < t.labels.size(); ++b)
        if (t.labels[a] == t.labels[b]) {
          take_diagonal(t, a, b);
          a = 0;
          b = a;
        }
    for (std::size_t a = 0; a < t.labels.size(); ++a) {
      const std::int64_t n = t.value.shape()[a];
      std::int64_t& known = sizes.emplace(t.labels[a], n).first->second;
      if (known == 1) known = n;
      if (n != known && n != 1)
        refuse(kEinsum, std::string("axis '") + t.labels[a] + "' has the sizes " + std::to_string(known) +
                            " and " + std::to_string(n));
    }
    terms.push_back(std::move(t));
  }

  // What each step must leave over: the result's axes and those of the operands that are still to come.
  auto needed_after = [&](std::size_t i) {
    std::string labels = e.output;
    for (std::size_t j = i + 1; j < terms.size(); ++j) labels += terms[j].labels;
    return labels;
  };
  for (Term& t : terms) {  // an axis of size 1 against a longer one counts for all its entries
    Dims unit;
    for (std::size_t a = 0; a < t.labels.size(); ++a)
      if (t.value.shape()[a] == 1 && sizes[t.labels[a]] != 1) unit.push_back(to_dim(a));
    drop(t, unit, false);
  }
  Term result;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::string needed = needed_after(i);
    Term& t = terms[i];
    Dims alone;
    for (std::size_t a = 0; a < t.labels.size(); ++a)
      if (needed.find(t.labels[a]) == std::string::npos && (i == 0 || !result.has(t.labels[a])))
        alone.push_back(to_dim(a));
    if (!alone.empty()) drop(t, alone, true);
    result = i == 0 ? t : product(result, t, needed);
    Dims done;  // axes of the result so far that nothing needs any more
    for (std::size_t a = 0; a < result.labels.size(); ++a)
      if (needed.find(result.labels[a]) == std::string::npos) done.push_back(to_dim(a));
    if (!done.empty()) drop(result, done, true);
  }
  Dims order;
  for (const char c : e.output) order.push_back(result.axis(c));
  return transpose(result.value, order);
}

Array matmul_plain(const Array& a, const Array& b) {
  if (a.rank() == 0 || b.rank() == 0)
    refuse("matmul", "the operands " + to_string(a.aval()) + " and " + to_string(b.aval()) +
                         " must have at least one axis; use * to scale");
  const std::int64_t rows = b.shape()[b.rank() == 1 ? 0 : b.rank() - 2];
  if (a.shape()[a.rank() - 1] != rows)
    refuse("matmul", "the operands " + to_string(a.aval()) + " and " + to_string(b.aval()) +
                         " do not fit: the last axis of the first must be as long as " +
                         (b.rank() == 1 ? "the second" : "the last but one of the second"));
  if (a.rank() == 1 && b.rank() == 1) return einsum_plain("k,k->", Arrays{a, b});
  if (a.rank() == 1) return einsum_plain("k,...kn->...n", Arrays{a, b});
  if (b.rank() == 1) return einsum_plain("...mk,k->...m", Arrays{a, b});
  return einsum_plain("...mk,...kn->...mn", Arrays{a, b});
}

Array dot(const Array& a, const Array& b) {
  if (a.rank() == 0 || b.rank() == 0)
    refuse("dot", "the operands " + to_string(a.aval()) + " and " + to_string(b.aval()) +
                      " must have at least one axis; use * to scale");
  return dot_general(a, b, {{to_dim(a.rank()) - 1}, {0}, {}, {}});
}

Array outer(const Array& a, const Array& b) {
  return dot_general(reshape(a, {-1}), reshape(b, {-1}), {{}, {}, {}, {}});
}

}  // namespace etrace
