// The program as a unit of loop functions and the entry that calls them. Functions and buffers carry the
// model's paths; a number makes them different, not readable.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "emit/c_printer.h"
#include "emit/c_text.h"
#include "emit/loop_tree.h"
#include "emit/target.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

class UnitBuilder {
 public:
  UnitBuilder(const EmitProgram& p, UnitOptions options)
      : p_(p), t_(*p.target), steps_(host_steps(p)), timed_(options.timed), options_(std::move(options)) {
    unit_.program = &p;
    if (t_.memory != Target::Static) return;
    unit_.name = options_.name.empty() ? "etrace_" + identifier(p.name) : options_.name;
    unit_.arena = options_.arena.empty() ? unit_.name : options_.arena;
  }

  Unit run() {
    unit_.entry = block(p_.entry);
    std::map<std::tuple<Value::Home, std::size_t, std::size_t>, const Named*>
        ordered;  // not by what they hold
    for (const auto& [place, named] : buffers_)
      ordered[{std::get<0>(place), std::get<1>(place), named.number}] = &named;
    for (const auto& [place, named] : ordered) {
      const auto& [home, index, number] = place;
      unit_.buffers.push_back({named->variable, place_text(home, index, named->dtype), named->what});
      if (home == Value::Constant) unit_.constants.push_back(index);
    }
    if (timed_ != nullptr) unit_.clocks = std::max<std::size_t>(timed_->size(), 1);
    return std::move(unit_);
  }

 private:
  // Pointers ----------------------------------------------------------------------------------------------
  std::string pointer(ValueId v, Index first, const std::vector<std::pair<int, Index>>& time) {
    const Value& x = p_.value(v);
    const auto width = static_cast<Index>(size_of(x.aval.dtype));
    if (x.home == Value::Inside) {
      ETRACE_CHECK(time.empty() && first == 0);
      return pointer(x.base, x.at.first, x.at.time);
    }
    std::string text = buffer(v);
    if (first != 0) text += fmt::format(" + {}", first * width);
    for (const auto& [loop, stride] : time) text += fmt::format(" + t{} * {}", loop, stride * width);
    return text;
  }
  std::string pointer(ValueId v) { return pointer(v, 0, {}); }

  // The variable of `run` that points to a value: in and out are ports, by number, k constants, and v is what
  // lies in between.
  std::string buffer(ValueId v) {
    const Value& x = p_.value(v);
    const std::string what = to_string(x.aval) + (x.name.empty() ? "" : " ") + x.name;
    const bool shared = x.home == Value::Arena;  // one after the other, values lie at the same place
    const auto [it, is_new] = buffers_.try_emplace({x.home, x.index, shared ? what : ""});
    if (is_new) {
      const std::size_t order = buffers_.size() - 1, number = shared ? order : x.index;
      it->second = {
          fmt::format("{}{}{}{}", prefix(x.home), number, x.name.empty() ? "" : "_", identifier(x.name)),
          CommentText(what), x.aval.dtype, order};
    }
    return it->second.variable;
  }
  static const char* prefix(Value::Home home) {
    switch (home) {
      case Value::Argument:
        return "in";
      case Value::Result:
        return "out";
      case Value::Constant:
        return "k";
      case Value::Arena:
        return "v";
      default:
        internal_error("a value that is used has a place", __FILE__, __LINE__);
    }
  }
  std::string place_text(Value::Home home, std::size_t index, Dtype dtype) const {
    const bool own = t_.memory == Target::Static;
    switch (home) {
      case Value::Arena:
        return own ? fmt::format("(char*){}_{} + {}", unit_.arena, short_name(dtype), index)
                   : fmt::format("m + {}", index);
      case Value::Argument:
        return options_.arguments.empty() ? fmt::format("(char*)a[{}]", index)
                                          : "(char*)" + options_.arguments[index];
      case Value::Result:
        return options_.results.empty() ? fmt::format("y[{}]", index) : "(char*)" + options_.results[index];
      default:
        if (!options_.constants.empty()) return "(char*)" + options_.constants[index];
        return own ? fmt::format("(char*){}_k{}", unit_.name, index) : fmt::format("(char*)c[{}]", index);
    }
  }

  // Steps -------------------------------------------------------------------------------------------------
  Tree block(const Block& b) {
    Tree out;
    for (const Item& item : b) std::visit([&](const auto& s) { step(s, out); }, item.step);
    return out;
  }

  CommentText about(int eqn) const {
    return eqn < 0 ? CommentText() : p_.eqns[static_cast<std::size_t>(eqn)].about();
  }
  // Around a step.
  void clocked(Tree& out, TimedStep step, Tree nodes) {
    if (timed_ == nullptr) return void(std::move(nodes.begin(), nodes.end(), std::back_inserter(out)));
    const std::size_t clock = rows_ > 0 ? clock_of_rows_++ : timed_->size();
    if (rows_ == 0) timed_->push_back(std::move(step));
    out.push_back({Clock{clock, true, rows_ > 0}});
    std::move(nodes.begin(), nodes.end(), std::back_inserter(out));
    out.push_back({Clock{clock, false, rows_ > 0}});
  }

  static std::vector<int> eqns_of(const Nest& n) {
    std::vector<int> seen;
    for (const Stmt& s : n.body)
      if (s.eqn >= 0 && std::find(seen.begin(), seen.end(), s.eqn) == seen.end()) seen.push_back(s.eqn);
    std::sort(seen.begin(), seen.end());
    return seen;
  }
  // The module that most of the equations come from.
  std::string path_of(const std::vector<int>& eqns) const {
    std::map<std::string, int> count;
    for (const int e : eqns) ++count[p_.eqns[static_cast<std::size_t>(e)].path];
    count.erase("");
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == count.end() ? "" : most->first;
  }

  // The name of a function with these loops; equal ones are printed once.
  std::string function(LoopFunction f, const std::vector<int>& eqns) {
    const auto is_same = [&](const LoopFunction& g) { return g.pointers == f.pointers && g.body == f.body; };
    for (const auto* list : {&options_.known, &std::as_const(unit_.functions)})
      if (const auto same = std::find_if(list->begin(), list->end(), is_same); same != list->end())
        return same->name;
    const std::string path = identifier(path_of(eqns));
    f.name = fmt::format("{}{}loop{}{}{}", unit_.name, unit_.name.empty() ? "" : "_", unit_.functions.size(),
                         path.empty() ? "" : "_", path);
    for (const int e : eqns) f.notes.push_back(about(e));
    unit_.functions.push_back(std::move(f));
    return unit_.functions.back().name;
  }
  void run_loops(LoopFunction f, const std::vector<int>& eqns, const std::vector<Pointer>& pointers,
                 Index size, Index parts, Tree& out, Tree before = {}) {
    const std::string name = function(std::move(f), eqns);
    for (const int e : eqns) out.push_back({Note{about(e)}});
    RunLoops run{name, {}, size, parts, rows_ > 0 ? size / rows_ : 0};
    for (const Pointer& q : pointers) run.pointers.push_back(pointer(q.value, q.first, q.time));
    before.push_back({std::move(run)});
    clocked(out, {TimedStep::Loops, name, eqns}, std::move(before));
  }

  void step(const Nest& n, Tree& out) {
    const Index size = n.axes.empty() ? 1 : n.axes[0].size;
    Tree before;  // votes: as if nobody had any
    for (const Stmt& s : n.body)
      if (s.kind == Stmt::Vote)
        before.push_back({Set{fmt::format("*(uint8_t*)({})", pointer(s.value, s.at.first, s.at.time)),
                              s.op == FoldCode::And ? "1" : "0"}});
    run_loops(loops_of(p_, n), eqns_of(n), nest_pointers(n), size, n.parts, out, std::move(before));
  }

  void step(const Product& q, Tree& out) {
    if (!t_.has_products()) return run_loops(loops_of(p_, q), {q.eqn}, product_pointers(q), 1, 1, out);
    out.push_back({Note{about(q.eqn)}});
    const etp_matrix_product d = steps_.descriptor(p_, q);
    std::string at[3];
    const Matrices* all[] = {&q.a, &q.b, &q.c};
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = pointer(all[i]->value, all[i]->at.first, all[i]->at.time);
      const Index width = static_cast<Index>(size_of(q.dtype));
      for (std::size_t k = 0; k < q.batch.size(); ++k)
        if (all[i]->at.step[k] != 0) at[i] += fmt::format(" + b{} * {}", k, all[i]->at.step[k] * width);
    }
    const Index per_row = rows_ > 0 ? q.rows / rows_ : 0;
    if (rows_ > 0)
      for (const std::size_t i : {0, 2})
        at[i] +=
            fmt::format(" + lo * {}", all[i]->at.step[0] * per_row * static_cast<Index>(size_of(q.dtype)));
    Tree nodes{
        {CallLibrary{callee("matrix_product"),
                     descriptor(*find_kernel("matrix_product"), reinterpret_cast<const std::int64_t*>(&d)),
                     {at[0], at[1]},
                     {at[2]},
                     per_row}}};
    for (std::size_t k = q.batch.size(); k-- > 0;)
      nodes = Tree{{For{{.variable = fmt::format("b{}", k), .from = "0", .to = std::to_string(q.batch[k])},
                        std::move(nodes)}}};
    clocked(out, {TimedStep::Product, "matrix_product", {q.eqn}}, std::move(nodes));
  }

  void step(const Call& q, Tree& out) {
    out.push_back({Note{about(q.eqn)}});
    const std::string name = steps_.name(q);
    CallLibrary call{callee(name), "", {}, {}, 0};
    for (const ValueId v : q.out) call.out.push_back(pointer(v));
    if (q.kernel == nullptr) {
      for (const ValueId v : q.in) call.in.push_back(pointer(v));
    } else {
      for (const auto& operand : q.kernel->operands)
        call.in.push_back(operand ? pointer(q.in[*operand]) : "0");
      for (const std::size_t table : q.tables) call.in.push_back(fmt::format("c[{}]", table));
      call.descriptor = descriptor(*q.kernel->row, q.kernel->descriptor.data());
    }
    clocked(out, {TimedStep::Call, name, {q.eqn}}, {{std::move(call)}});
  }

  std::string callee(const std::string& name) {
    if (std::find(unit_.callees.begin(), unit_.callees.end(), name) == unit_.callees.end())
      unit_.callees.push_back(name);
    return name;
  }
  // The constant that holds a descriptor; equal ones are one.
  std::string descriptor(const KernelRow& row, const std::int64_t* values) {
    std::string fields;
    for (std::size_t i = 0; i < row.fields.size(); ++i)
      if (values[i] != 0)
        fields += fmt::format("{}.{} = {}", fields.empty() ? "" : ", ", row.fields[i], values[i]);
    if (fields.empty()) fields = "0";
    const std::string type(row.descriptor);
    for (const Unit::Descriptor& d : unit_.descriptors)
      if (d.type == type && d.fields == fields) return d.name;
    unit_.descriptors.push_back({type, fields, fmt::format("{}{}", row.name, unit_.descriptors.size())});
    return unit_.descriptors.back().name;
  }

  // A step of a loop over time, before which whoever waits for the run may end it.
  Tree asked(Tree step) const {
    if (t_.memory == Target::Host) step.insert(step.begin(), {Leave{"x->ends != NULL && x->ends(x->host)"}});
    return step;
  }

  Node scan(const Region& q) {
    const Loop& loop = p_.loops[static_cast<std::size_t>(q.loop)];
    return {For{{.variable = fmt::format("t{}", q.loop),
                 .from = std::to_string(loop.reverse ? loop.length - 1 : 0),
                 .to = std::to_string(loop.reverse ? 0 : loop.length),
                 .down = loop.reverse},
                asked(block(q.blocks[0]))}};
  }
  void step(const Region& q, Tree& out) {
    out.push_back({Note{about(q.eqn)}});
    switch (q.kind) {
      case Region::Scan: {
        clock_of_rows_ = timed_ != nullptr ? timed_->size() : 0;
        Node together = scan(q);
        if (q.rows == 0) return out.push_back(std::move(together));
        rows_ = q.rows;
        Node own = scan(q);
        rows_ = 0;
        return out.push_back({ShareRows{q.rows, q.most_parts, {std::move(own)}, {std::move(together)}}});
      }
      case Region::While: {
        Tree condition = block(q.blocks[0]);
        std::string predicate = fmt::format("*(const uint8_t*)({})", pointer(q.predicate));
        out.push_back({Repeat{std::move(condition), std::move(predicate), asked(block(q.blocks[1]))}});
        return;
      }
      case Region::Cond: {
        const bool is_bool = p_.value(q.predicate).aval.dtype == Dtype::Bool;
        Choose choose{fmt::format("etp_clip(*(const {}*)({}), {})", is_bool ? "uint8_t" : "int32_t",
                                  pointer(q.predicate), q.blocks.size() - 1),
                      {}};
        for (const Block& b : q.blocks) choose.cases.push_back(block(b));
        out.push_back({std::move(choose)});
        return;
      }
    }
  }

  const EmitProgram& p_;
  const Target& t_;
  const HostSteps steps_;
  std::vector<TimedStep>* timed_;
  Index rows_ = 0;                 // of the loop whose rows threads share; 0: they share each step
  std::size_t clock_of_rows_ = 0;  // its next step
  const UnitOptions options_;
  struct Named {
    std::string variable;
    CommentText what;
    Dtype dtype;
    std::size_t number;  // in order of appearance
  };
  std::map<std::tuple<Value::Home, std::size_t, std::string>, Named> buffers_;  // home, index, value
  Unit unit_;
};

void collect(const Block& b, HostSteps& out) {
  for (const Item& item : b) {
    if (const auto* call = std::get_if<Call>(&item.step)) out.calls.push_back(call);
    if (const auto* product = std::get_if<Product>(&item.step)) out.products.push_back(product);
    if (const auto* region = std::get_if<Region>(&item.step))
      for (const Block& inner : region->blocks) collect(inner, out);
  }
}

// No step changes the matrix B of a product: it is an argument that no result replaces, as it lies.
bool keeps_matrix(const EmitProgram& p, const Product& q) {
  const bool kept = p.values[static_cast<std::size_t>(q.b.value)].home == Value::Argument &&
                    std::find(p.results.begin(), p.results.end(), q.b.value) == p.results.end();
  return kept && q.batch.empty() && q.b.at.time.empty();
}

}  // namespace

std::string HostSteps::name(const Call& q) const {
  if (q.kernel != nullptr) return std::string(q.kernel->row->name);
  return fmt::format("{}#{}", identifier(q.prim->name()),
                     std::find(calls.begin(), calls.end(), &q) - calls.begin());
}

etp_matrix_product HostSteps::descriptor(const EmitProgram& p, const Product& q) const {
  const std::size_t row = q.batch.size(), column = row + 1;
  etp_matrix_product d{};
  d.dtype = static_cast<std::int64_t>(q.dtype);
  d.rows = q.rows, d.columns = q.columns, d.depth = q.depth;
  d.a_row = q.a.at.step[row], d.a_depth = q.a.at.step[column];
  d.b_depth = q.b.at.step[row], d.b_column = q.b.at.step[column];
  d.c_row = q.c.at.step[row];
  d.onto = q.onto ? 1 : 0;
  if (keeps_matrix(p, q)) d.known = 1 + (std::find(products.begin(), products.end(), &q) - products.begin());
  return d;
}

HostSteps host_steps(const EmitProgram& p) {
  HostSteps out;
  collect(p.entry, out);
  return out;
}

Unit unit_of(const EmitProgram& p, UnitOptions options) { return UnitBuilder(p, std::move(options)).run(); }

}  // namespace etrace::emit
