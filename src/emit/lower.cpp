#include "emit/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "control/loops.h"
#include "emit/builder.h"
#include "emit/eqn_text.h"
#include "emit/prepare.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "kernels/context.h"
#include "ops/reduce_order.h"

namespace etrace::emit {

namespace {

class Lowering {
 public:
  explicit Lowering(EmitProgram& p) : b_(p), p_(p) {}

  void program(const Program& source) {
    const ClosedJaxpr closed = prepare(source.jaxpr, *p_.target);
    const Jaxpr& jaxpr = closed.jaxpr;
    p_.name = source.name;
    b_.open(p_.entry);
    for (std::size_t i = 0; i < jaxpr.invars.size(); ++i) {
      const ValueId v = b_.stored(jaxpr.invars[i].aval, source.arguments[i].name);
      b_.value(v).home = Value::Argument;
      b_.value(v).index = i;
      p_.arguments.push_back(v);
      names_.declare(jaxpr.invars[i]);
    }
    for (std::size_t i = 0; i < jaxpr.outs.size(); ++i) {
      const ValueId v = b_.stored(aval_of(jaxpr.outs[i]), source.results[i].name);
      b_.value(v).home = Value::Result;
      b_.value(v).index = i;
      p_.results.push_back(v);
    }
    for (const Alias& a : source.aliases) p_.results[a.result] = p_.arguments[a.argument];
    const std::vector<ValueId> outs = body(closed, p_.arguments);
    assign_all(outs, p_.results);
    b_.close();
    check_sizes();
  }

 private:
  using Values = std::vector<ValueId>;

  void check_sizes() const {
    if (p_.target->index != Dtype::I32) return;
    for (const Value& v : p_.values)
      if (v.elements() > std::numeric_limits<std::int32_t>::max())
        throw NotSupportedError(
            "emit", fmt::format("an array {}{}{} has more elements than the 32-bit indices of the target "
                                "'{}' can count",
                                to_string(v.aval), v.name.empty() ? "" : " of ", v.name, p_.target->name));
  }

  // The equations of a program on these arguments; what its outputs are.
  Values body(const ClosedJaxpr& closed, const Values& args) {
    const Jaxpr& j = closed.jaxpr;
    for (std::size_t i = 0; i < j.constvars.size(); ++i)
      env_[j.constvars[i].id] = b_.constant(closed.consts[i]);
    for (std::size_t i = 0; i < j.invars.size(); ++i) env_[j.invars[i].id] = args[i];
    for (const Eqn& e : j.eqns) equation(e);
    Values out;
    for (const Atom& a : j.outs) out.push_back(value_of(a));
    return out;
  }

  void assign_all(const Values& from, const Values& to, int eqn = -1) {
    std::vector<Builder::Assignment> all;
    for (std::size_t i = 0; i < from.size(); ++i) all.push_back({from[i], to[i]});
    b_.assign(std::move(all), eqn);
  }

  ValueId value_of(const Atom& a) {
    if (const Var* v = as_var(a)) return env_.at(v->id);
    const Literal& l = std::get<Literal>(a);
    return b_.splat(l.aval(), l);
  }
  Values values_of(std::span<const Atom> atoms) {
    Values out;
    for (const Atom& a : atoms) out.push_back(value_of(a));
    return out;
  }
  void define(const Var& v, ValueId value) { env_[v.id] = value; }
  ValueId result(const Eqn& e, std::size_t k = 0) {
    const ValueId v = b_.stored(e.out[k].aval, module_path(e.origin));
    define(e.out[k], v);
    return v;
  }

  void equation(const Eqn& e) {
    number_ = static_cast<int>(p_.eqns.size());
    p_.eqns.push_back({names_.text(e), module_path(e.origin)});
    if (is_scan(e)) return scan(e);
    if (is_while(e)) return while_loop(e);
    if (is_cond(e)) return cond(e);
    Avals in, out;
    for (const Atom& a : e.in) in.push_back(aval_of(a));
    for (const Var& v : e.out) out.push_back(v.aval);
    const EmitRequest request{e.params, in, out};
    const Emission code = e.prim->spec.emit != nullptr ? e.prim->spec.emit(request) : Emission(KernelCode{});
    std::visit([&](const auto& c) { step(e, request, c); }, static_cast<const Emission::variant&>(code));
  }

  // Loops -------------------------------------------------------------------------------------------------
  static IndexForm broadcast_form(const Shape& from, const Shape& to) {
    IndexForm f{0, Dims(to.rank(), 0)};
    if (from.is_scalar()) return f;
    const Dims strides = strides_of(from);
    for (std::size_t a = 0; a < to.rank(); ++a)
      if (from[a] != 1) f.step[a] = strides[a];
    return f;
  }

  void step(const Eqn& e, const EmitRequest& r, const MapCode& code) {
    const ValueId y = result(e);
    if (r.y().shape.size() == 0) return;
    std::vector<int> axis_of;
    Nest nest = Builder::over(r.y().shape.to_dims(), &axis_of);
    std::vector<MapCode::Read> reads = code.reads;
    if (reads.empty() && code.indices.empty())
      for (std::size_t k = 0; k < r.in.size(); ++k)
        reads.push_back({k, broadcast_form(r.x(k).shape, r.y().shape), {}});
    std::vector<Form> forms;  // of the reads, the indices and the result: all change if an axis is split
    for (const auto& read : reads) forms.push_back(position_form(nest, axis_of, read.at));
    for (const IndexForm& f : code.indices) forms.push_back(position_form(nest, axis_of, f));
    forms.push_back(position_form(nest, axis_of, {0, strides_of(r.y().shape)}));
    std::vector<Form*> kept;
    for (Form& f : forms) kept.push_back(&f);

    std::vector<int> operands;
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const ValueId x = value_of(e.in[reads[k].operand]);
      if (reads[k].lookup.empty()) {
        operands.push_back(b_.load(nest, x, forms[k], kept, number_));
        continue;
      }
      const int shift = apply(nest, Dtype::I64, reads[k].lookup, operands, 2);
      // Which element is known at run time only: no view can be followed.
      if (b_.value(x).home == Value::Splat) {
        operands.push_back(b_.load(nest, x, forms[k], kept, number_));
        continue;
      }
      const int at = b_.load(nest, b_.contiguous(x), forms[k], kept, number_);
      nest.body[static_cast<std::size_t>(at)].in = {shift};
      operands.push_back(at);
    }
    const std::size_t num_reads = reads.size();
    std::vector<int> positions;
    for (std::size_t k = 0; k < code.indices.size(); ++k)
      positions.push_back(Builder::add(
          nest, {.kind = Stmt::Position, .dtype = Dtype::I64, .at = forms[num_reads + k], .eqn = number_}));
    const int value = apply(nest, r.y().dtype, scalar_text(code.text, r, num_reads),
                            joined(operands, positions), code.cost);
    b_.store(nest, y, forms.back(), value, number_);
    b_.push({std::move(nest)});
  }

  // Operands that the text does not name are left out: a spike does not read its surrogate.
  int apply(Nest& nest, Dtype dtype, const std::string& text, const std::vector<int>& operands, int cost) {
    Stmt s{.kind = Stmt::Apply, .dtype = dtype, .cost = cost, .eqn = number_};
    std::vector<int> place(operands.size(), -1);
    for (std::size_t i = 0; i < text.size(); ++i) {
      s.text += text[i];
      if (text[i] != '$') continue;
      std::size_t k = 0;
      while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9')
        k = k * 10 + static_cast<std::size_t>(text[++i] - '0');
      if (place[k] < 0) {
        place[k] = static_cast<int>(s.in.size());
        s.in.push_back(operands[k]);
      }
      s.text += std::to_string(place[k]);
    }
    return Builder::add(nest, std::move(s));
  }

  static std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // $t and $r spelled out, #k as a statement after the reads.
  static std::string scalar_text(const std::string& text, const EmitRequest& r, std::size_t num_reads) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.compare(i, 2, "$t") == 0) {
        out += short_name(r.x(0).dtype);
        ++i;
      } else if (text.compare(i, 2, "$r") == 0) {
        out += short_name(r.y().dtype);
        ++i;
      } else if (text[i] == '#') {
        out += "$" + std::to_string(num_reads + static_cast<std::size_t>(text[++i] - '0'));
      } else {
        out += text[i];
      }
    }
    return out;
  }

  void step(const Eqn& e, const EmitRequest& r, const ViewCode& code) {
    const Shape& shape = r.y().shape;
    if (code.pieces.size() == 1 && code.pieces[0].size == shape.to_dims()) {
      const ViewCode::Piece& piece = code.pieces[0];
      const ValueId x = value_of(e.in[piece.operand]);
      define(e.out[0], b_.view(r.y(), x, {piece.at.first, piece.at.step, {}}));
      return;
    }
    const ValueId y = result(e);
    if (shape.size() == 0) return;
    const Dims strides = strides_of(shape);
    if (code.fill)
      b_.copy(b_.view(r.y(), value_of(e.in[*code.fill]), constant_form(0, shape.rank())), y, number_);
    for (const ViewCode::Piece& piece : code.pieces) {
      if (Shape(piece.size).size() == 0) continue;
      std::vector<int> axis_of;
      Nest nest = Builder::over(piece.size, &axis_of);
      IndexForm to{0, strides};
      for (std::size_t a = 0; a < strides.size(); ++a) to.first += piece.start[a] * strides[a];
      Form target = position_form(nest, axis_of, to);
      Form* kept[] = {&target};
      const int x =
          b_.load(nest, value_of(e.in[piece.operand]), position_form(nest, axis_of, piece.at), kept, number_);
      b_.store(nest, y, target, x, number_);
      b_.push({std::move(nest)});
    }
  }

  void step(const Eqn& e, const EmitRequest& r, const ReshapeCode&) {
    define(e.out[0], b_.reshaped(r.y(), value_of(e.in[0])));
  }

  void step(const Eqn& e, const EmitRequest& r, const FoldCode& code) {
    const ValueId y = result(e);
    if (r.y().shape.size() == 0) return;
    const Shape& from = r.x(0).shape;
    if (is_vote(r, code)) return vote(e, code, y);
    const ReduceOrder order = reduce_order(from, code.axes);
    const Dims strides = strides_of(from);
    Nest nest;
    Form in, out;
    const auto add_axis = [&](std::size_t a, Axis::Kind kind, Index stride) {
      nest.axes.push_back({from[a], kind});
      in.step.push_back(strides[a]);
      out.step.push_back(stride);
    };
    const Dims to = row_major(r.y().shape.to_dims());
    for (std::size_t a = 0, k = 0; a < from.rank(); ++a)
      if (std::find(code.axes.begin(), code.axes.end(), static_cast<Index>(a)) == code.axes.end()) {
        const Index stride = to[k++];
        if (from[a] != 1) add_axis(a, Axis::Each, stride);
      }
    int value = 0;
    if (from.size() == 0) {
      value = Builder::add(nest, {.kind = Stmt::Number,
                                  .dtype = r.y().dtype,
                                  .text = neutral_text(code.op, r.y().dtype),
                                  .eqn = number_});
    } else {
      for (const Index a : order.chain) add_axis(static_cast<std::size_t>(a), Axis::Chain, 0);
      for (const Index a : order.line) add_axis(static_cast<std::size_t>(a), Axis::Line, 0);
      Form* kept[] = {&out};
      value = b_.load(nest, value_of(e.in[0]), in, kept, number_);
      if (order.joins())
        value = Builder::add(nest, {.kind = Stmt::Fold,
                                    .dtype = r.y().dtype,
                                    .in = {value},
                                    .op = code.op,
                                    .cost = 1,
                                    .eqn = number_});
    }
    b_.store(nest, y, out, value, number_);
    b_.push({std::move(nest)});
  }

  // Whether something holds at all positions, or at any.
  static bool is_vote(const EmitRequest& r, const FoldCode& code) {
    return r.x(0).dtype == Dtype::Bool && r.y().shape.is_scalar() && r.x(0).shape.size() > 1 &&
           (code.op == FoldCode::And || code.op == FoldCode::Or);
  }
  void vote(const Eqn& e, const FoldCode& code, ValueId y) {
    const Aval type = aval_of(e.in[0]);
    std::vector<int> axis_of;
    Nest nest = Builder::over(type.shape.to_dims(), &axis_of);
    const int x = b_.load(nest, value_of(e.in[0]), position_form(nest, axis_of, {0, strides_of(type.shape)}),
                          {}, number_);
    Builder::add(nest, {.kind = Stmt::Vote,
                        .dtype = Dtype::Bool,
                        .in = {x},
                        .value = y,
                        .at = constant_form(0, nest.axes.size()),
                        .op = code.op,
                        .cost = 1,
                        .eqn = number_});
    b_.push({std::move(nest)});
  }

  // Products
  // -------------------------------------------------------------------------------------------------- The
  // operand as matrices: (batch…, rows, columns), each group of axes as one if memory allows it.
  struct Operand {
    Matrices at;
    Index rows, columns;
  };
  Operand matrices(ValueId v, const Dims& batch, const Dims& rows, const Dims& columns) {
    const Shape shape = b_.value(v).aval.shape;
    const auto size_of_axes = [&](const Dims& axes) {
      Index n = 1;
      for (const Index a : axes) n *= shape[static_cast<std::size_t>(a)];
      return n;
    };
    const Index m = size_of_axes(rows), n = size_of_axes(columns);
    for (;;) {
      // As a nest that reads it, to follow views.
      Nest nest;
      Form flat;
      std::vector<std::size_t> group;  // of each axis: 0 … batch axes, then rows, columns
      const Dims strides = strides_of(shape);
      const auto add_axes = [&](const Dims& axes, bool alone, std::size_t first) {
        for (std::size_t i = 0; i < axes.size(); ++i) {
          const auto a = static_cast<std::size_t>(axes[i]);
          nest.axes.push_back({shape[a], Axis::Each});
          flat.step.push_back(strides[a]);
          group.push_back(alone ? first + i : first);
        }
      };
      add_axes(batch, true, 0);
      add_axes(rows, false, batch.size());
      add_axes(columns, false, batch.size() + 1);
      if (b_.value(v).home == Value::Splat) v = b_.contiguous(v);
      const std::size_t before = nest.axes.size();
      const int load = b_.load(nest, v, flat);
      const Stmt& s = nest.body[static_cast<std::size_t>(load)];
      if (nest.axes.size() == before)
        if (auto joined = join_groups(nest, s.at, group, batch.size() + 2)) return {{s.value, *joined}, m, n};
      // A copy in the order that a product wants.
      Dims order = batch;
      order.insert(order.end(), rows.begin(), rows.end());
      order.insert(order.end(), columns.begin(), columns.end());
      Dims sizes;
      Form permuted;
      for (const Index a : order) {
        sizes.push_back(shape[static_cast<std::size_t>(a)]);
        permuted.step.push_back(strides[static_cast<std::size_t>(a)]);
      }
      const ValueId turned = b_.view({b_.value(v).aval.dtype, sizes}, v, permuted);
      const ValueId copied = b_.contiguous(turned);
      const Dims packed = row_major(sizes);
      Form at = constant_form(0, 0);
      for (std::size_t i = 0; i < batch.size(); ++i) at.step.push_back(packed[i]);
      at.step.push_back(n);
      at.step.push_back(1);
      if (b_.value(copied).home != Value::Inside) return {{copied, at}, m, n};
      at.first = b_.value(copied).at.first;  // in this order it is a stretch of memory after all
      at.time = b_.value(copied).at.time;
      return {{b_.root(copied), at}, m, n};
    }
  }

  // One step per group, if the axes of each join.
  static std::optional<Form> join_groups(const Nest& nest, const Form& f,
                                         const std::vector<std::size_t>& group, std::size_t groups) {
    Form out = constant_form(f.first, groups);
    out.time = f.time;
    std::vector<Index> reach(groups, 1);  // elements of the group so far, from its innermost axis
    std::vector<bool> begun(groups, false);
    for (std::size_t a = nest.axes.size(); a-- > 0;) {
      const Index size = nest.axes[a].size, step = f.step[a];
      if (size == 1) continue;
      const std::size_t g = group[a];
      if (!begun[g]) {
        out.step[g] = step;
        begun[g] = true;
      } else if (step != out.step[g] * reach[g]) {
        return std::nullopt;
      }
      reach[g] *= size;
    }
    return out;
  }

  static Dims free_axes(std::size_t rank, const Dims& contract, const Dims& batch) {
    Dims out;
    for (Index a = 0; a < static_cast<Index>(rank); ++a)
      if (std::find(contract.begin(), contract.end(), a) == contract.end() &&
          std::find(batch.begin(), batch.end(), a) == batch.end())
        out.push_back(a);
    return out;
  }

  void step(const Eqn& e, const EmitRequest& r, const ProductCode& code) {
    const Dtype dtype = r.y().dtype;
    const bool by_loops = is_integer(dtype) && p_.target->integer_products();
    if ((!is_floating(dtype) && !by_loops) || r.x(0).dtype != dtype || r.y().shape.size() == 0)
      return step(e, r, KernelCode{});
    const Dims a_free = free_axes(r.x(0).shape.rank(), code.lhs_contract, code.lhs_batch);
    const Dims b_free = free_axes(r.x(1).shape.rank(), code.rhs_contract, code.rhs_batch);
    Product p{.dtype = dtype, .eqn = number_};
    const Operand a = matrices(value_of(e.in[0]), code.lhs_batch, a_free, code.lhs_contract);
    const Operand b = matrices(value_of(e.in[1]), code.rhs_batch, code.rhs_contract, b_free);
    for (const Index axis : code.lhs_batch) p.batch.push_back(r.x(0).shape[static_cast<std::size_t>(axis)]);
    p.rows = a.rows, p.columns = b.columns, p.depth = code.depth.value_or(a.columns);
    p.a = a.at, p.b = b.at;
    p.a.at.first += code.lhs_start * p.a.at.step[p.batch.size() + 1];
    p.b.at.first += code.rhs_start * p.b.at.step[p.batch.size()];
    p.c.value = result(e);
    p.onto = e.in.size() == 3;
    if (p.onto) b_.copy(value_of(e.in[2]), p.c.value, number_);
    Dims sizes = p.batch;
    sizes.push_back(p.rows);
    sizes.push_back(p.columns);
    p.c.at = {0, row_major(sizes), {}};
    if (p.columns == 1) {  // a single row of the transposed product reads memory along its rows
      std::swap(p.a, p.b);
      std::swap(p.rows, p.columns);
      for (Matrices* m : {&p.a, &p.b, &p.c})
        std::swap(m->at.step[p.batch.size()], m->at.step[p.batch.size() + 1]);
    }
    b_.push({std::move(p)});
  }

  // Kernels
  // -----------------------------------------------------------------------------------------------------
  void step(const Eqn& e, const EmitRequest& r, const KernelCode&) {
    Call call{.prim = e.prim,
              .params = e.params,
              .in_types = {r.in.begin(), r.in.end()},
              .out_types = {r.out.begin(), r.out.end()},
              .eqn = number_};
    for (const Atom& a : e.in) call.in.push_back(b_.contiguous(value_of(a)));
    for (std::size_t k = 0; k < e.out.size(); ++k) call.out.push_back(result(e, k));
    // Threads decide neither what is called nor what may lie in place.
    const etp_context anywhere = serial_context();
    Kernel kernel = make_kernel(*e.prim, {e.params, r.in, r.out, anywhere});
    const auto is_empty = [](const Aval& y) { return y.shape.size() == 0; };
    if (!p_.target->has(*e.prim, kernel.named.get()) && std::all_of(r.out.begin(), r.out.end(), is_empty))
      return;
    if (!p_.target->has(*e.prim, kernel.named.get()))
      throw NotSupportedError("emit",
                              fmt::format("'{}' runs as a kernel of the library, which code for the target "
                                          "'{}' cannot call",
                                          e.prim->spec.name, p_.target->name),
                              e.origin);
    call.in_place = std::move(kernel.in_place);
    call.kernel = std::move(kernel.named);
    if (call.kernel != nullptr)
      for (const Tensor& table : call.kernel->tables) {
        call.tables.push_back(b_.program().constants.size());
        b_.program().constants.push_back(table);
      }
    b_.push({std::move(call)});
  }

  // Regions
  // -----------------------------------------------------------------------------------------------------
  // Results that the blocks of a region update; they begin as copies.
  Values carried(const Values& init, std::span<const Var> out) {
    Values carry;
    for (std::size_t k = 0; k < init.size(); ++k) {
      carry.push_back(b_.stored(b_.value(init[k]).aval, b_.value(init[k]).name));
      b_.copy(init[k], carry[k], number_);
      define(out[k], carry[k]);
    }
    return carry;
  }

  void scan(const Eqn& e) {
    const int eqn = number_;
    const loops::Scan s(e);
    const Values in = values_of(e.in);
    const auto first_x = static_cast<std::ptrdiff_t>(s.first_x());
    const Values init(in.begin() + static_cast<std::ptrdiff_t>(s.num_consts), in.begin() + first_x);
    if (s.length == 1) return single_pass(e, *s.body, in, s.num_carry, first_x);

    const Values carry = carried(init, e.out);
    Values ys;
    for (std::size_t k = s.num_carry; k < e.out.size(); ++k) ys.push_back(result(e, k));
    if (s.length == 0) return;
    const int loop = static_cast<int>(p_.loops.size());
    p_.loops.push_back({s.length, s.reverse});
    // What of a stacked array belongs to this time.
    const auto at_time = [&](ValueId x) {
      const Aval aval{b_.value(x).aval.dtype, b_.value(x).aval.shape.without(0)};
      Form f{0, row_major(aval.shape.to_dims()), {}};
      if (aval.shape.size() != 0) f.time.emplace_back(loop, aval.shape.size());
      return b_.view(aval, x, f);
    };
    Region region{.kind = Region::Scan, .loop = loop, .blocks = std::vector<Block>(1), .eqn = eqn};
    b_.open(region.blocks[0]);
    Values args(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(s.num_consts));
    args.insert(args.end(), carry.begin(), carry.end());
    for (auto x = in.begin() + first_x; x != in.end(); ++x) args.push_back(at_time(*x));
    const Values outs = body(*s.body, args);
    Values to = carry;
    for (const ValueId y : ys) to.push_back(at_time(y));
    assign_all(outs, to, eqn);
    b_.close();
    b_.push({std::move(region)});
  }

  // A loop of one step is no loop.
  void single_pass(const Eqn& e, const ClosedJaxpr& inner, const Values& in, std::size_t num_carry,
                   std::ptrdiff_t first_x) {
    Values args(in.begin(), in.begin() + first_x);
    for (auto x = in.begin() + first_x; x != in.end(); ++x) {
      const Aval aval = b_.value(*x).aval;
      args.push_back(b_.reshaped({aval.dtype, aval.shape.without(0)}, *x));
    }
    const Values outs = body(inner, args);
    for (std::size_t k = 0; k < outs.size(); ++k)
      define(e.out[k], k < num_carry ? outs[k] : b_.reshaped(e.out[k].aval, outs[k]));
  }

  void while_loop(const Eqn& e) {
    const int eqn = number_;
    const loops::While w(e);
    const auto nc = static_cast<std::ptrdiff_t>(w.cond_nconsts),
               nb = static_cast<std::ptrdiff_t>(w.body_nconsts);
    const Values in = values_of(e.in);
    const Values carry = carried(Values(in.begin() + nc + nb, in.end()), e.out);
    Region region{.kind = Region::While, .blocks = std::vector<Block>(2), .eqn = eqn};
    const auto args = [&](std::ptrdiff_t from, std::ptrdiff_t count) {
      Values all(in.begin() + from, in.begin() + from + count);
      all.insert(all.end(), carry.begin(), carry.end());
      return all;
    };
    b_.open(region.blocks[0]);
    const Values go = body(*w.cond, args(0, nc));
    region.predicate = b_.stored({Dtype::Bool, {}});
    b_.copy(go[0], region.predicate, eqn);
    b_.close();
    b_.open(region.blocks[1]);
    assign_all(body(*w.body, args(nc, nb)), carry, eqn);
    b_.close();
    b_.push({std::move(region)});
  }

  void cond(const Eqn& e) {
    const int eqn = number_;
    const Values in = values_of(e.in);
    Values results;
    for (std::size_t k = 0; k < e.out.size(); ++k) results.push_back(result(e, k));
    const std::vector<JaxprPtr> branches = e.params.jaxprs("branches");
    Region region{.kind = Region::Cond,
                  .predicate = b_.contiguous(in[0]),
                  .blocks = std::vector<Block>(branches.size()),
                  .eqn = eqn};
    for (std::size_t k = 0; k < branches.size(); ++k) {
      b_.open(region.blocks[k]);
      assign_all(body(*branches[k], Values(in.begin() + 1, in.end())), results, eqn);
      b_.close();
    }
    b_.push({std::move(region)});
  }

  Builder b_;
  EmitProgram& p_;
  EqnNames names_;
  std::unordered_map<std::uint64_t, ValueId> env_;
  int number_ = -1;  // of the equation at hand
};

}  // namespace

EmitProgram lower(const Program& source, const Target& target) {
  EmitProgram p;
  p.target = &target;
  Lowering(p).program(source);
  return p;
}

}  // namespace etrace::emit
