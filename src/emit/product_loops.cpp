// A matrix product as loops, for targets without products.
#include "emit/tree_builder.h"

namespace etrace::emit {

std::string form_text(const Form& f, Index constant, std::string_view behind) {
  std::string text;
  for (std::size_t a = 0; a < f.step.size(); ++a) {
    const Index step = f.step[a];
    if (step == 0) continue;
    const std::string term = step == 1 || step == -1
                                 ? fmt::format("i{}{}", a, behind)
                                 : fmt::format("i{}{} * {}", a, behind, step < 0 ? -step : step);
    text += text.empty() ? (step < 0 ? "-" : "") + term : (step < 0 ? " - " : " + ") + term;
  }
  if (text.empty()) return std::to_string(constant);
  if (constant != 0)
    text += fmt::format(" {} {}", constant < 0 ? '-' : '+', constant < 0 ? -constant : constant);
  return text;
}

std::vector<Pointer> product_pointers(const Product& q) {
  std::vector<Pointer> out;
  for (const Matrices* m : {&q.a, &q.b, &q.c}) out.push_back({m->value, m->at.first, m->at.time});
  return out;
}

namespace {

// The same chains, row by row of B: a row whose factor is 0 adds nothing to any of them. (To a chain that is
// -0, as a sum of the smallest numbers may be, it would add a zero; so does the end.)
void skipping_rows(const Product& q, const std::string& a, const std::string& b, const std::string& c,
                   TreeBuilder& out) {
  const std::size_t rows = q.batch.size(), columns = rows + 1, depth = rows + 2;
  const auto open = [&](std::size_t axis, Index size) {
    out.open({.variable = fmt::format("i{}", axis), .from = "0", .to = std::to_string(size)});
  };
  const auto over_columns = [&](const std::string& value) {
    open(columns, q.columns);
    out.add(Set{c, value});
    out.close();
  };
  for (std::size_t axis = 0; axis < rows; ++axis) open(axis, q.batch[axis]);
  open(rows, q.rows);
  if (!q.onto) over_columns("0");
  open(depth, q.depth);
  out.add(Let{std::string(c_type(q.dtype)), "factor", a});
  out.add(Skip{"factor == 0"});
  over_columns(fmt::format("__builtin_fma{}(factor, {}, {})", q.dtype == Dtype::F32 ? "f" : "", b, c));
  out.close();
  over_columns(c + " + 0");
}

}  // namespace

// Every element is the chain of runtime/etp_gemm.h.
LoopFunction loops_of(const EmitProgram& p, const Product& q) {
  const std::string type(c_type(q.dtype));
  TreeBuilder out(*p.target);
  const std::size_t rows = q.batch.size(), columns = rows + 1, depth = rows + 2;
  Dims sizes = q.batch;
  sizes.insert(sizes.end(), {q.rows, q.columns});
  Form a = q.a.at, b = q.b.at, c = q.c.at;
  a.step.insert(a.step.begin() + static_cast<std::ptrdiff_t>(columns), 0);
  b.step.insert(b.step.begin() + static_cast<std::ptrdiff_t>(rows), 0);
  std::swap(b.step[columns], b.step[depth]);  // (rows of B, columns) to (columns, depth)
  const auto element = [](const char* x, const Form& f) { return fmt::format("{}[{}]", x, form_text(f, 0)); };
  if (p.target->skip_zeros && is_floating(q.dtype)) {
    skipping_rows(q, element("x0", a), element("x1", b), element("x2", c), out);
    return {.name = {},
            .pointers = {{type, false}, {type, false}, {type, true}},
            .ranged = false,
            .body = out.take()};
  }
  for (std::size_t k = 0; k < sizes.size(); ++k)
    out.open({.variable = fmt::format("i{}", k), .from = "0", .to = std::to_string(sizes[k])});
  out.add(Let{type, "s", q.onto ? element("x2", c) : "0", true});
  out.open({.variable = fmt::format("i{}", depth), .from = "0", .to = std::to_string(q.depth)});
  const auto type_name = short_name(q.dtype);
  out.add(Set{"s", is_floating(q.dtype)
                       ? fmt::format("__builtin_fma{}({}, {}, s)", q.dtype == Dtype::F32 ? "f" : "",
                                     element("x0", a), element("x1", b))
                       : fmt::format("etp_add_{0}(s, etp_mul_{0}({1}, {2}))", type_name, element("x0", a),
                                     element("x1", b))});
  out.close();
  out.add(Set{element("x2", c), "s + 0"});
  return {.name = {},
          .pointers = {{type, false}, {type, false}, {type, true}},
          .ranged = false,
          .body = out.take()};
}

}  // namespace etrace::emit
