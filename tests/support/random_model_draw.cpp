// Draws a model: states one after the other, each updated from its memory and some terms; terms are operators
// on arguments, states before and after the step or what lies between, with tails; then a result that reads
// states, and readouts. Whatever is nearly allowed happens: shared weights, weights behind weights, states
// that follow others within the step, mixed positions, control flow.
#include <map>

#include "support/random_model_parts.h"

namespace etrace::testing {

namespace {

class Drawer : ModelParts {
 public:
  explicit Drawer(std::uint64_t seed) : ModelParts(seed) {}

  ModelDescription draw() {
    draw_sizes();
    draw_ports();
    const std::size_t states = 1 + dice_.weighted({0.3, 0.35, 0.22, 0.13});
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < states; ++i) {
      add_state();
      order.push_back(i);
    }
    shuffle(order);
    for (const std::size_t i : order) update(states_[i]);
    draw_result();
    draw_order();
    prune(m_);
    return m_;
  }

 private:
  // Updates ---------------------------------------------------------------------------------------------
  std::string term(const Names& dims) {
    std::vector<Value> there = known(dims, {Kind::Between});
    const std::vector<Value> others = known(dims, {Kind::Old, Kind::New});
    switch (dice_.weighted({0.62, there.empty() ? 0.0 : 0.16, others.empty() ? 0.0 : 0.14, 0.08})) {
      case 1:
        return tail(dice_.of(there).name, dims);
      case 2:
        return add("scale", {tail(dice_.of(others).name, dims)}, {0.4});
      case 3: {
        const std::string w = weight(dims), y = add("element_wise", {w}, functions());
        return add("mul", {y, any_of_shape(dims)});
      }
      default: {
        // Now and then to another shape first.
        if (dims.size() == 1 && dice_.chance(0.08)) {
          const std::string wide = dims[0] == "m" ? "n" : "m";
          const std::string y = tail(operate({wide}), {wide});
          return dice_.chance(0.5) ? add("resize", {y}, {}, dims)
                                   : add("reproject", {y}, {constant_seed()}, dims);
        }
        const std::string y = operate(dims);
        if (depth_ == 0) pool_.push_back(between(y, dims));
        const std::string end = tail(y, dims);
        if (depth_ == 0 && end != y && dice_.chance(0.5)) pool_.push_back(between(end, dims));
        return end;
      }
    }
  }
  std::string memory(const std::string& old, const Names& dims) {
    switch (dice_.weighted({0.34, 0.16, 0.14, 0.14, 0.08})) {
      case 0:
        return add("scale", {old}, {0.7});
      case 1:
        return add("scale", {add(dice_.chance(0.5) ? "tanh" : "sin", {old})}, {0.8});
      case 2:
        return add("mul", {old, add("logistic", {any_of_shape(dims)})});
      case 3:
        return add("scale", {mix(old, dims)}, {0.4});
      default:
        return old;
    }
  }
  // Runs f with lines going to a body.
  template <class F>
  Block body(const Names& args, const F& f) {
    Block b;
    b.args = args;
    std::vector<Line>* outer = lines_;
    const std::size_t known = pool_.size();
    lines_ = &b.lines;
    ++depth_;
    b.results = f();
    --depth_;
    pool_.resize(known);
    lines_ = outer;
    return b;
  }
  // A state that is still to be updated and may be carried along.
  const State* partner(const State& s) {
    const auto taken = [&](const State& other) {
      return pending_.contains(other.old.name) ||
             std::any_of(m_.next.begin(), m_.next.end(),
                         [&](const auto& n) { return n.first == other.old.name; });
    };
    for (const State& other : states_)
      if (other.old.name != s.old.name && !other.stacked && other.old.dims == s.old.dims && !taken(other))
        return &other;
    return nullptr;
  }
  std::string controlled(const State& s, const Names& dims) {
    const std::string& old = s.old.name;
    const std::string out = fresh("v");
    Line l{{out}, "", {}};
    const auto step = [&](const std::string& c) {
      std::string y = dice_.chance(0.6) ? tail(operate(dims), dims) : tail(any_of_shape(dims), dims);
      if (depth_ < 2 && dice_.chance(0.1)) {  // one inside the other
        const std::string a = fresh("c"), r = fresh("v");
        const Block inner = body({a}, [&] { return Names{add("tanh", {tail(a, dims)})}; });
        const std::string op = dice_.chance(0.5) ? "scan" : "while";
        lines_->push_back({{r},
                           op,
                           {y},
                           op == "scan" ? std::vector<double>{2, 1, 0} : std::vector<double>{2},
                           {},
                           {inner}});
        y = r;
      }
      return Names{add("add", {add("scale", {c}, {0.6}), add("scale", {y}, {0.5})})};
    };
    const std::string c = fresh("c");
    switch (dice_.weighted({0.2, 0.25, 0.35, 0.2})) {
      case 0:
        l.op = "jit";
        l.in = {old};
        l.blocks.push_back(body({c}, [&] { return step(c); }));
        break;
      case 1: {
        l.op = "cond";
        l.in = {source().name, old};
        const std::string d = fresh("c");
        l.blocks.push_back(body({c}, [&] { return step(c); }));
        l.blocks.push_back(
            body({d}, [&] { return dice_.chance(0.5) ? step(d) : Names{add("scale", {d}, {0.5})}; }));
        if (dice_.chance(0.15)) m_.policy.cond = ControlFlowPolicy::Cond::Opaque;
        break;
      }
      case 2: {
        l.op = "scan";
        const auto length = static_cast<double>(2 + dice_.below(2));
        l.numbers = {length, 1, dice_.chance(0.1) ? 1.0 : 0.0};
        l.in = {old};
        Names args{c};
        const bool over_data = dims.size() == 1 && dice_.chance(0.4);
        if (over_data) {
          const std::string steps = std::to_string(static_cast<int>(length)), xs = fresh("xs");
          Names all = with_batch({"i"});
          all.insert(all.begin(), steps);
          m_.ports.push_back({Role::Arg, xs, all, ""});
          l.in.push_back(xs);
          args.push_back(fresh("e"));
        }
        const State* other = !over_data && dice_.chance(0.4) ? partner(s) : nullptr;
        if (other != nullptr) {  // two states in one loop
          const std::string d = fresh("c"), second = fresh("v");
          l.in.push_back(other->old.name);
          l.out.push_back(second);
          l.numbers[1] = 2;
          pending_[other->old.name] = second;
          l.blocks.push_back(body({c, d}, [&] {
            const std::string now = step(c)[0];
            return Names{add("sub", {now, add("scale", {d}, {0.2})}),
                         add("add", {add("scale", {d}, {0.8}), add("scale", {add("tanh", {c})}, {0.3})})};
          }));
          if (dice_.chance(0.6)) m_.policy.scan_unroll_limit = 1;
          break;
        }
        l.blocks.push_back(body(args, [&] {
          if (over_data) pool_.push_back({args[1], {"i"}, Kind::Arg});
          if (over_data && dice_.chance(0.7)) {
            const std::string y = add("matmul", {args[1], weight({"i", dims[0]})});
            return Names{add("add", {add("scale", {c}, {0.6}), tail(y, dims)})};
          }
          return step(c);
        }));
        if (dice_.chance(0.6)) m_.policy.scan_unroll_limit = 1;
        break;
      }
      default: {
        l.op = "while";
        const std::string drive = term(dims);
        l.in = {old};
        l.numbers = {static_cast<double>(2 + dice_.below(2))};
        l.blocks.push_back(body({c}, [&] {
          if (dice_.chance(0.3)) return step(c);
          return Names{add("add", {c, add("scale", {add("tanh", {add("sub", {drive, c})})}, {0.5})})};
        }));
        break;
      }
    }
    if (dice_.chance(0.3)) m_.policy.etp_in_control_flow = ControlFlowPolicy::EtpInside::Exclude;
    lines_->push_back(l);
    return out;
  }

  std::string sum_of_terms(const Names& dims) {
    std::string out = term(dims);
    const std::size_t more = dice_.weighted({0.5, 0.38, 0.12});
    for (std::size_t i = 0; i < more; ++i) {
      const std::string op = dice_.chance(0.15) ? "mul" : dice_.chance(0.2) ? "sub" : "add";
      out = add(op, {out, term(dims)});
    }
    return out;
  }
  void update(const State& s) {
    const Names& dims = s.old.dims;
    if (s.stacked) return update_stacked(s);
    std::string v;
    const std::vector<Value> drives = known(dims, {Kind::Between}), ahead = known(dims, {Kind::New});
    if (const auto it = pending_.find(s.old.name); it != pending_.end()) return set(s, it->second);
    if (dice_.chance(0.02)) return;  // stays as it is
    if (dice_.chance(0.05)) {
      // A delay line, an input that is remembered, two states of one value.
      return set(s, any_of_shape(dims));
    }
    if (dice_.chance(0.16)) {
      v = controlled(s, dims);
    } else if (!drives.empty() && !ahead.empty() && dice_.chance(0.3)) {
      // Follows another state within the step, and what drives that one drives it as well.
      v = add("add", {tail(dice_.of(drives).name, dims), dice_.of(ahead).name});
      if (dice_.chance(0.7)) v = add("add", {add("scale", {s.old.name}, {0.5}), v});
    } else {
      v = sum_of_terms(dims);
      if (dice_.chance(0.7)) {
        const std::string kept = memory(s.old.name, dims);
        v = add("add", dice_.chance(0.5) ? Names{kept, v} : Names{v, kept});
      }
    }
    if (dice_.chance(0.3)) v = tail(v, dims);
    if (dice_.chance(0.05)) v = noisy(v);
    if (dice_.chance(0.14)) v = spiking(v, dims);
    if (dice_.chance(0.03)) v = add("copy", {v});
    set(s, v);
  }
  void update_stacked(const State& s) {
    const Names dims{s.old.dims[0]};
    const std::string a = add("entry", {s.old.name}, {0}), b = add("entry", {s.old.name}, {1});
    const std::string drive = sum_of_terms(dims);
    const std::string v =
        add("sub", {add("add", {add("scale", {a}, {0.7}), drive}), add("scale", {b}, {0.2})});
    const std::string w = add(
        "add", {add("scale", {b}, {0.85}), add("scale", {add("tanh", {dice_.chance(0.5) ? a : v})}, {0.3})});
    set(s, add("stack", {v, w}));
    pool_.push_back({add("entry", {m_.next.back().second}, {0}), dims, Kind::New});
  }
  void set(const State& s, const std::string& value) {
    // One value may be the new value of two states, or an input itself: both are legal.
    m_.next.emplace_back(s.old.name, value);
    if (!s.stacked) pool_.push_back({value, s.old.dims, Kind::New});
  }
  std::string noisy(const std::string& v) {
    if (m_.port("key") != nullptr) return v;
    m_.ports.push_back({Role::Other, "key", {"2"}, "key"});
    const std::string key = fresh("v"), noise = fresh("v");
    lines_->push_back({{key, noise}, "noise", {"key", v}, {0.1}});
    m_.next.emplace_back("key", key);
    return add("add", {v, noise});
  }
  std::string spiking(const std::string& v, const Names& dims) {
    const std::vector<std::string> ops{"spike", "spike_jvp", "spike_vjp"};
    const std::string z = add(ops[dice_.weighted({0.6, 0.3, 0.1})], {v}, {0.1});
    pool_.push_back(between(z, dims));
    if (dice_.chance(0.4)) return z;
    return dice_.chance(0.6) ? add("sub", {v, add("scale", {z}, {0.5})}) : v;
  }

  // The result ------------------------------------------------------------------------------------------
  Value reading() {
    std::vector<Value> there;
    const Kind wanted =
        std::vector<Kind>{Kind::New, Kind::Old, Kind::Between}[dice_.weighted({0.7, 0.18, 0.12})];
    for (const Value& v : pool_)
      if (v.kind == wanted) there.push_back(v);
    if (there.empty()) return pool_.back();
    const Value v = dice_.of(there);
    if (v.dims.size() != 1 || !dice_.chance(0.25)) return v;
    const Names out{"o"};
    if (dice_.chance(0.6)) {
      Names args{v.name};
      for (const std::string& w : weight_and_bias({v.dims[0], "o"}, out)) args.push_back(w);
      return between(add("matmul", args), out);
    }
    return between(add("plain", {v.name, param({v.dims[0], "o"})}), out);
  }
  void draw_result() {
    std::vector<Value> parts;
    const std::size_t count = 1 + dice_.weighted({0.4, 0.4, 0.2});
    for (std::size_t i = 0; i < count; ++i) parts.push_back(reading());
    const bool equal =
        std::all_of(parts.begin(), parts.end(), [&](const Value& v) { return v.dims == parts[0].dims; });
    if (equal && dice_.chance(0.6)) {
      std::string v = parts[0].name;
      for (std::size_t i = 1; i < parts.size(); ++i)
        v = add(dice_.chance(0.25) ? "mul" : "add", {v, parts[i].name});
      m_.result = dice_.chance(0.2) ? tail(v, parts[0].dims) : v;
      return;
    }
    Names names;
    for (const Value& v : parts) names.push_back(v.name);
    m_.result = add("join", names);
  }

  template <class T>
  void shuffle(std::vector<T>& v) {
    for (std::size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[dice_.below(i)]);
  }
  void draw_order() {
    // The order of the states' records: that of the updates, that of the inputs, or any.
    if (dice_.chance(0.4)) shuffle(m_.next);
    if (dice_.chance(0.4)) shuffle(m_.ports);
    m_.result_first = !dice_.chance(0.1);
    m_.params_out = dice_.chance(0.6);
  }

  std::map<std::string, std::string> pending_;  // values of states that others have brought along
};

}  // namespace

ModelDescription draw_model(std::uint64_t seed) { return Drawer(seed).draw(); }

}  // namespace etrace::testing
