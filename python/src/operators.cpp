// Operators that own a weight (et.matmul …): what online learning learns. And operators of one's own.
#include "calls.h"
#include "operands.h"

namespace etrace::python {

namespace {

// A bias or another operand that may be missing.
Array optional_array(nb::handle h) { return h.is_none() ? Array() : from_object<Array>(h); }
Quantity optional_quantity(nb::handle h) { return h.is_none() ? Quantity() : from_object<Quantity>(h); }

MatmulOptions matmul_options(const nb::object& weight_fn, const nb::object& bias_fn) {
  return {weight_function(weight_fn), weight_function(bias_fn)};
}

LineScope line_of(std::initializer_list<Array> operands) {
  return LineScope(ArraySpan(operands.begin(), operands.size()));
}

// --- sparse patterns -------------------------------------------------------------------------------------

Dims index_list(nb::handle h) {
  const nb::object list = nb::module_::import_("numpy").attr("asarray")(h);
  if (nb::cast<int>(list.attr("ndim")) != 1) throw ValueError("sparse", "indices are lists of integers");
  const Array a = to_array(list.attr("astype")("int64"), {}, Copy::Always);
  const auto values = a.tensor().data<std::int64_t>();
  return {values.begin(), values.end()};
}

bool is_scipy(nb::handle h) { return nb::hasattr(h, "tocoo") && nb::hasattr(h, "format"); }

// The pattern of a SciPy matrix; its entries in the order of its data.
SparsePattern from_scipy(nb::handle m) {
  const auto format = nb::cast<std::string>(m.attr("format"));
  const Dims shape = from_object<Dims>(m.attr("shape"));
  if (shape.size() != 2) throw ValueError("sparse", "a sparse pattern has two axes");
  if (format == "csr")
    return SparsePattern::csr(shape[0], shape[1], index_list(m.attr("indptr")),
                              index_list(m.attr("indices")));
  if (format == "csc")
    return SparsePattern::csc(shape[0], shape[1], index_list(m.attr("indptr")),
                              index_list(m.attr("indices")));
  if (format == "coo")
    return SparsePattern::coo(shape[0], shape[1], index_list(m.attr("row")), index_list(m.attr("col")));
  throw TypeError("sparse", "a SciPy matrix in format '" + format + "'; convert it with .tocsr() first");
}

SparsePattern pattern_of(nb::handle h) {
  if (nb::isinstance<SparsePattern>(h)) return nb::cast<SparsePattern>(h);
  if (is_scipy(h)) return from_scipy(h);
  throw TypeError(
      "sparse",
      describe(h) +
          " is no sparse pattern; give an et.SparsePattern or a SciPy matrix in csr, csc or coo format");
}

nb::object index_array(const Table& t) {
  return nb::cast(Array(Tensor::of(std::span<const std::int32_t>(t), {static_cast<std::int64_t>(t.size())})))
      .attr("numpy")();
}

void bind_sparse(nb::module_& m) {
  nb::class_<SparsePattern>(
      m, "SparsePattern",
      "Where the entries of a sparse matrix [rows, cols] stand; the values are a parameter [nnz].\n\n"
      "Made by csr, csc, coo, or from a SciPy matrix; entries keep the order they are given in.")
      .def(
          "__init__",
          [](SparsePattern* self, nb::object matrix) { new (self) SparsePattern(pattern_of(matrix)); },
          "matrix"_a)
      .def_static(
          "csr",
          [](std::int64_t r, std::int64_t c, nb::object p, nb::object i) {
            return SparsePattern::csr(r, c, index_list(p), index_list(i));
          },
          "rows"_a, "cols"_a, "indptr"_a, "indices"_a)
      .def_static(
          "csc",
          [](std::int64_t r, std::int64_t c, nb::object p, nb::object i) {
            return SparsePattern::csc(r, c, index_list(p), index_list(i));
          },
          "rows"_a, "cols"_a, "indptr"_a, "indices"_a)
      .def_static(
          "coo",
          [](std::int64_t r, std::int64_t c, nb::object row, nb::object col) {
            return SparsePattern::coo(r, c, index_list(row), index_list(col));
          },
          "rows"_a, "cols"_a, "row"_a, "col"_a)
      .def_prop_ro("shape", [](const SparsePattern& p) { return nb::make_tuple(p.rows(), p.cols()); })
      .def_prop_ro("nnz", &SparsePattern::nnz, "Number of entries.")
      .def_prop_ro(
          "row", [](const SparsePattern& p) { return index_array(p.row()); }, "Row of each entry.")
      .def_prop_ro(
          "col", [](const SparsePattern& p) { return index_array(p.col()); }, "Column of each entry.")
      .def(
          "__eq__",
          [](const SparsePattern& a, nb::handle b) {
            return nb::isinstance<SparsePattern>(b) &&
                   a.to_attr() == nb::cast<const SparsePattern&>(b).to_attr();
          },
          nb::arg("other").none())
      .def("__hash__", [](const SparsePattern& p) { return p.nnz() * 31 + p.rows() * 7 + p.cols(); })
      .def("__repr__",
           [](const SparsePattern& p) {
             return "SparsePattern([" + std::to_string(p.rows()) + ", " + std::to_string(p.cols()) + "], " +
                    std::to_string(p.nnz()) + " entries)";
           })
      .def("__reduce__", [](nb::handle self) {
        const SparsePattern& p = nb::cast<const SparsePattern&>(self);
        return nb::make_tuple(nb::module_::import_("etrace._pickle").attr("pattern"),
                              nb::make_tuple(p.rows(), p.cols(), self.attr("row"), self.attr("col")));
      });
}

// --- the operators ---------------------------------------------------------------------------------------

using Matmul = Array (*)(const Array&, const Array&, const Array&, const MatmulOptions&);
using QuantityMatmul = Quantity (*)(const Quantity&, const Quantity&, const Quantity&, const MatmulOptions&);
Result matmul_(nb::handle x, nb::handle w, nb::handle b, const MatmulOptions& o, Matmul f, QuantityMatmul q) {
  if (any_quantity({x, w, b})) {
    const Quantity xq = from_object<Quantity>(x), wq = from_object<Quantity>(w), bq = optional_quantity(b);
    const LineScope line = line_of({xq.mantissa(), wq.mantissa()});
    return q(xq, wq, bq, o);
  }
  const Array xa = from_object<Array>(x), wa = from_object<Array>(w), ba = optional_array(b);
  const LineScope line = line_of({xa, wa, ba});
  return f(xa, wa, ba, o);
}

EtpConvOptions conv_options(const Given<Dims>& strides, const nb::object& padding, const Given<Dims>& lhs,
                            const Given<Dims>& rhs, std::int64_t groups, std::int64_t batch_groups,
                            const std::vector<std::string>& layout, const nb::object& kernel_fn,
                            const nb::object& bias_fn) {
  EtpConvOptions o;
  o.strides = strides.get_or({});
  if (nb::isinstance<nb::str>(padding))
    o.padding = nb::cast<std::string>(padding);
  else
    for (nb::handle one : nb::iter(padding)) {
      const Dims d = from_object<Dims>(one);
      if (d.size() != 2)
        throw ValueError("conv", "padding is \"SAME\", \"VALID\", or one (before, after) per spatial axis");
      o.explicit_padding.emplace_back(d[0], d[1]);
    }
  o.lhs_dilation = lhs.get_or({});
  o.rhs_dilation = rhs.get_or({});
  o.feature_group_count = groups;
  o.batch_group_count = batch_groups;
  o.layout = layout;
  o.kernel_fn = weight_function(kernel_fn);
  o.bias_fn = weight_function(bias_fn);
  return o;
}

void bind_weights(nb::module_& m) {
  m.def(
      "matmul",
      [](ArrayLike x, ArrayLike w, ArrayLike b, nb::object wf, nb::object bf) {
        return matmul_(x.source(), w.source(), b.source(), matmul_options(wf, bf), matmul, matmul);
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "weight_fn"_a = nb::none(), "bias_fn"_a = nb::none(),
      "y = x·f(W) + g(b), and W and b learn online.\n\nx [B, I] or [I], weight [I, O], bias [O]. weight_fn, "
      "bias_fn: any function of the parameter\n"
      "that keeps its element type (a mask, a sign, a norm); it belongs to the operator.");
  m.def(
      "grouped_matmul",
      [](ArrayLike x, ArrayLike w, ArrayLike b, nb::object wf, nb::object bf) {
        return matmul_(x.source(), w.source(), b.source(), matmul_options(wf, bf), grouped_matmul,
                       grouped_matmul);
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "weight_fn"_a = nb::none(), "bias_fn"_a = nb::none(),
      "y[…,g,n] = Σ_k x[…,g,k]·f(W)[g,k,n] + h(b)[g,n].\n\nx [B, G, K] or [G, K], weight [G, K, N], bias [G, "
      "N].");
  m.def(
      "element_wise",
      [](ArrayLike w, nb::object wf) -> Result {
        if (is_quantity(w.source()))
          return element_wise(from_object<Quantity>(w.source()), weight_function(wf));
        const Array a = w;
        const LineScope line(a);
        return element_wise(a, weight_function(wf));
      },
      "weight"_a, "weight_fn"_a = nb::none(),
      "y = f(w), any shape: a parameter that acts element by element.");
  m.def(
      "embedding",
      [](ArrayLike i, ArrayLike w, nb::object wf) -> Result {
        const Array indices = i;
        if (is_quantity(w.source()))
          return embedding(indices, from_object<Quantity>(w.source()), weight_function(wf));
        const Array table = w;
        const LineScope line = line_of({indices, table});
        return embedding(indices, table, weight_function(wf));
      },
      "indices"_a, "weight"_a, "weight_fn"_a = nb::none(),
      "y = f(T)[indices]; integer indices [B] or a single one, table [N, D]. Out of range gives NaN.");
  m.def(
      "einsum",
      [](const std::string& equation, ArrayLike x, ArrayLike w, nb::object wf) -> Result {
        if (any_quantity({x.source(), w.source()}))
          return einsum(equation, from_object<Quantity>(x.source()), from_object<Quantity>(w.source()),
                        weight_function(wf));
        const Array a = x, k = w;
        const LineScope line = line_of({a, k});
        return einsum(equation, a, k, weight_function(wf));
      },
      "equation"_a, "x"_a, "weight"_a, "weight_fn"_a = nb::none(),
      "\"bi,io->bo\": sums of products by letters; the first letter of x and y is the batch.");
  m.def(
      "sparse_matmul",
      [](ArrayLike x, ArrayLike w, nb::object pattern, ArrayLike b, nb::object wf, nb::object bf) -> Result {
        const SparsePattern p = pattern_of(pattern);
        const MatmulOptions o = matmul_options(wf, bf);
        if (any_quantity({x.source(), w.source(), b.source()}))
          return sparse_matmul(from_object<Quantity>(x.source()), from_object<Quantity>(w.source()), p,
                               optional_quantity(b.source()), o);
        const Array a = x, k = w, c = optional_array(b.source());
        const LineScope line = line_of({a, k});
        return sparse_matmul(a, k, p, c, o);
      },
      "x"_a, "weight"_a, "pattern"_a, "bias"_a = nb::none(), "weight_fn"_a = nb::none(),
      "bias_fn"_a = nb::none(),
      "y = x·sparse(f(w)) + g(b); x [B, I] or [I], w [nnz] in the order of the pattern [I, O] (SparsePattern "
      "or SciPy matrix).");
  m.def(
      "lora_matmul",
      [](ArrayLike x, ArrayLike b, ArrayLike a, ArrayLike bias, double alpha, nb::object bfn, nb::object afn,
         nb::object biasfn) -> Result {
        const LoraOptions o{alpha, weight_function(bfn), weight_function(afn), weight_function(biasfn)};
        if (any_quantity({x.source(), b.source(), a.source(), bias.source()}))
          return lora_matmul(from_object<Quantity>(x.source()), from_object<Quantity>(b.source()),
                             from_object<Quantity>(a.source()), optional_quantity(bias.source()), o);
        const Array v = x, left = b, right = a, c = optional_array(bias.source());
        const LineScope line = line_of({v, left, right});
        return lora_matmul(v, left, right, c, o);
      },
      "x"_a, "b"_a, "a"_a, "bias"_a = nb::none(), "alpha"_a = 1.0, "b_fn"_a = nb::none(),
      "a_fn"_a = nb::none(), "bias_fn"_a = nb::none(),
      "y = alpha·x·f(B)·g(A) + h(bias); B [I, R], A [R, O].");
  m.def(
      "conv",
      [](ArrayLike x, ArrayLike k, ArrayLike b, Given<Dims> strides, nb::object padding, Given<Dims> lhs,
         Given<Dims> rhs, std::int64_t groups, std::int64_t batch_groups, std::vector<std::string> layout,
         nb::object kf, nb::object bf) -> Result {
        const EtpConvOptions o =
            conv_options(strides, padding, lhs, rhs, groups, batch_groups, layout, kf, bf);
        if (any_quantity({x.source(), k.source(), b.source()}))
          return conv(from_object<Quantity>(x.source()), from_object<Quantity>(k.source()),
                      optional_quantity(b.source()), o);
        const Array a = x, kernel = k, c = optional_array(b.source());
        const LineScope line = line_of({a, kernel});
        return conv(a, kernel, c, o);
      },
      "x"_a, "kernel"_a, "bias"_a = nb::none(), "strides"_a = nb::none(), "padding"_a = "SAME",
      "lhs_dilation"_a = nb::none(), "rhs_dilation"_a = nb::none(), "feature_group_count"_a = 1,
      "batch_group_count"_a = 1, "layout"_a = std::vector<std::string>{}, "kernel_fn"_a = nb::none(),
      "bias_fn"_a = nb::none(),
      "Cross-correlation, always batched: x [B, C, space…], kernel [out, in, space…], or as the three words "
      "of\nlayout say (\"NHWC\", \"HWIO\", \"NHWC\"). A bias [C] stands on the channel axis.");
}

}  // namespace

void bind_operators(nb::module_& m) {
  bind_sparse(m);
  bind_weights(m);
}

}  // namespace etrace::python
