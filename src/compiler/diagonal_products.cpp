// Constants are evaluated here, at compile time; see the header.
#include "compiler/diagonal_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/program_index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

// LIMIT: larger matrices are not looked into, so that compiling stays cheap; a product with one counts as a
// product, which diagonal scope leaves out.
constexpr std::int64_t kLargestMatrix = std::int64_t{1} << 22;

// Which values depend on constants alone, and what they are.
class Constants {
 public:
  explicit Constants(const ClosedJaxpr& program) : program_(program) {
    for (const Var& v : program.jaxpr.constvars) constant_.insert(v.id);
    for (const Eqn& eqn : program.jaxpr.eqns)
      if (std::all_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return is_constant(a); }))
        for (const Var& v : eqn.out) constant_.insert(v.id);
  }

  bool is_constant(const Atom& a) const {
    const Var* v = as_var(a);
    return v == nullptr || constant_.contains(v->id);
  }

  Tensor value(const Atom& a) const {
    Jaxpr slice;
    for (const std::size_t i : backward(program_.jaxpr, ids_of(std::vector<Atom>{a})).eqns)
      slice.eqns.push_back(program_.jaxpr.eqns[i]);
    slice.outs = {a};
    slice.constvars = program_.jaxpr.constvars;
    Arrays consts(program_.consts.begin(), program_.consts.end());
    return eval_jaxpr(slice, consts, {})[0].tensor();
  }

 private:
  const ClosedJaxpr& program_;
  VarIds constant_;
};

struct Contraction {
  Dims lhs, rhs;  // axes that are summed over
  bool batched;   // further axes are lined up
};

Contraction contraction_of(const Params& params) {
  const Attr::List& both = *params.find("dimension_numbers")->list_items();
  const Attr::List &contract = *both[0].list_items(), &batch = *both[1].list_items();
  return {*contract[0].ints(), *contract[1].ints(), !batch[0].ints()->empty()};
}

// A product h·C or C·h that leaves the axis of h where it is.
struct Candidate {
  std::size_t hidden, matrix;  // operands
  std::int64_t axis;           // of h, contracted
};

std::optional<Candidate> candidate(const Eqn& eqn, const Constants& constants) {
  if (eqn.prim != &dot_general_p) return std::nullopt;
  const Contraction c = contraction_of(eqn.params);
  if (c.batched || c.lhs.size() != 1) return std::nullopt;
  for (const std::size_t matrix : {std::size_t{1}, std::size_t{0}}) {
    const std::size_t hidden = 1 - matrix;
    const Aval &h = aval_of(eqn.in[hidden]), &m = aval_of(eqn.in[matrix]);
    if (!constants.is_constant(eqn.in[matrix]) || constants.is_constant(eqn.in[hidden])) continue;
    const std::int64_t axis = (hidden == 0 ? c.lhs : c.rhs)[0];
    // The result has the free axes of the left operand, then those of the right one.
    const std::int64_t place = hidden == 0 ? static_cast<std::int64_t>(h.shape.rank()) - 1 : 0;
    if (m.shape.rank() != 2 || m.shape[0] != m.shape[1] || m.shape.size() > kLargestMatrix) continue;
    if (axis == place && eqn.out[0].aval == h && m.dtype == h.dtype) return Candidate{hidden, matrix, axis};
  }
  return std::nullopt;
}

// The diagonal of a square matrix; undefined if there is something beside it.
Tensor diagonal_of(const Tensor& m) {
  const std::int64_t n = m.shape()[0];
  const std::vector<double> values = m.to_doubles();
  std::vector<double> diagonal;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double v = values[static_cast<std::size_t>(i * n + j)];
      if (i == j)
        diagonal.push_back(v);
      else if (v != 0.0)  // NaN, too
        return {};
    }
  return convert(Array(Tensor::of(diagonal, {n})), m.dtype()).tensor();
}

}  // namespace

ClosedJaxpr keep_diagonal_products(ClosedJaxpr program, Reporter& reporter) {
  std::vector<std::pair<std::size_t, Candidate>> found;
  std::vector<Tensor> diagonals;
  {
    const Constants constants(program);
    for (std::size_t i = 0; i < program.jaxpr.eqns.size(); ++i)
      if (const auto c = candidate(program.jaxpr.eqns[i], constants))
        if (const Tensor d = diagonal_of(constants.value(program.jaxpr.eqns[i].in[c->matrix])); d.defined()) {
          found.emplace_back(i, *c);
          diagonals.push_back(d);
        }
  }
  std::vector<Eqn> eqns;
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.jaxpr.eqns.size(); ++i) {
    Eqn eqn = std::move(program.jaxpr.eqns[i]);
    if (next == found.size() || found[next].first != i) {
      eqns.push_back(std::move(eqn));
      continue;
    }
    const Candidate& c = found[next].second;
    const Var diagonal = fresh_var(diagonals[next].aval()), spread = fresh_var(eqn.out[0].aval);
    program.jaxpr.constvars.push_back(diagonal);
    program.consts.push_back(diagonals[next++]);
    eqns.push_back(make_eqn(broadcast_in_dim_p, {diagonal}, {spread},
                            {{"shape", spread.aval.shape}, {"broadcast_dimensions", Dims{c.axis}}}));
    reporter.emit({DiagnosticKind::DIAGONAL_PRODUCT_KEPT,
                   DiagnosticLevel::Info,
                   fmt::format("'{}' with a constant matrix that is zero beside its diagonal became a "
                               "multiplication by the diagonal, which keeps positions apart",
                               eqn.prim->name()),
                   std::string(eqn.prim->name()),
                   {},
                   {},
                   {{"size", diagonal.aval.shape[0]}},
                   {},
                   eqn.origin});
    eqns.push_back(make_eqn(mul_p, {eqn.in[c.hidden], spread}, eqn.out, {}, eqn.origin));
  }
  program.jaxpr.eqns = std::move(eqns);
  return program;
}

}  // namespace etrace
