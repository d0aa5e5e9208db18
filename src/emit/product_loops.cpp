// A matrix product as loops, for targets without products.
#include "emit/tree_builder.h"

namespace etrace::emit {

std::string form_text(const Form& f, Index constant) {
  std::string text;
  for (std::size_t a = 0; a < f.step.size(); ++a) {
    const Index step = f.step[a];
    if (step == 0) continue;
    const std::string term =
        step == 1 || step == -1 ? fmt::format("i{}", a) : fmt::format("i{} * {}", a, step < 0 ? -step : step);
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

// Every element is the chain of runtime/etp_gemm.h.
LoopFunction loops_of(const EmitProgram& p, const Product& q) {
  const std::string type(c_type(q.dtype));
  TreeBuilder out(*p.target);
  const std::size_t rows = q.batch.size(), columns = rows + 1, depth = rows + 2;
  Dims sizes = q.batch;
  sizes.insert(sizes.end(), {q.rows, q.columns});
  for (std::size_t a = 0; a < sizes.size(); ++a)
    out.open({.variable = fmt::format("i{}", a), .from = "0", .to = std::to_string(sizes[a])});
  Form a = q.a.at, b = q.b.at, c = q.c.at;
  a.step.insert(a.step.begin() + static_cast<std::ptrdiff_t>(columns), 0);
  b.step.insert(b.step.begin() + static_cast<std::ptrdiff_t>(rows), 0);
  std::swap(b.step[columns], b.step[depth]);  // (rows of B, columns) to (columns, depth)
  const auto element = [](const char* x, const Form& f) { return fmt::format("{}[{}]", x, form_text(f, 0)); };
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
