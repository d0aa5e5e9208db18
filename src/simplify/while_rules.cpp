// Rules for while and its tape. A carry that the body hands on unchanged is a constant of condition and body;
// constants that nobody reads go, uniform ones become literals; a loop that never starts is its carry.
#include "control/body.h"
#include "etrace/control.h"
#include "simplify/loop_rules.h"

namespace etrace {

namespace {

// One program of the loop: what it reads and never changes, then what is carried, then the rest.
struct LoopProgram {
  ClosedJaxpr program;
  Invariants consts;
  std::vector<Var> rest;

  LoopProgram(const ClosedJaxpr& p, std::span<const Atom> operands) : program(p) {
    for (std::size_t i = 0; i < operands.size(); ++i) consts.add(p.jaxpr.invars[i], operands[i]);
    rest.assign(p.jaxpr.invars.begin() + static_cast<std::ptrdiff_t>(operands.size()), p.jaxpr.invars.end());
  }

  bool tidied(Rewriter& rw) {
    const bool lifted = !program.consts.empty();
    lift_constants(rw, program, consts);
    return tidy(rw, program.jaxpr, consts) || lifted;
  }

  JaxprPtr closed() {
    program.jaxpr.invars = consts.inner;
    program.jaxpr.invars.insert(program.jaxpr.invars.end(), rest.begin(), rest.end());
    return share(std::move(program));
  }
};

class WhileEdit {
 public:
  WhileEdit(Rewriter& rw, const Eqn& eqn) : WhileEdit(rw, eqn, eqn.in) {}

  std::optional<std::vector<Atom>> run() {
    if (const auto* go = std::get_if<Literal>(&cond_.program.jaxpr.outs[0]))
      if (to_int(go->value) == 0) return std::vector<Atom>(carry_.begin(), carry_.end());
    bool changed = constant_carries();
    changed |= cond_.tidied(rw_);
    changed |= body_.tidied(rw_);
    if (!changed) return std::nullopt;
    return rebuilt();
  }

 private:
  WhileEdit(Rewriter& rw, const Eqn& eqn, std::span<const Atom> in)
      : rw_(rw),
        eqn_(eqn),
        cond_(*eqn.params.jaxpr("cond_jaxpr"), in.first(count("cond_nconsts"))),
        body_(*eqn.params.jaxpr("body_jaxpr"), in.subspan(count("cond_nconsts"), count("body_nconsts"))),
        results_(eqn.out.size()) {
    const std::span<const Atom> carry = in.subspan(count("cond_nconsts") + count("body_nconsts"));
    carry_.assign(carry.begin(), carry.end());
    for (std::size_t i = 0; i < carry_.size(); ++i) kept_.push_back(i);
  }

  std::size_t count(const char* key) const { return static_cast<std::size_t>(eqn_.params.integer(key)); }

  bool constant_carries() {
    std::vector<std::size_t> varying;
    std::vector<Var> in_cond, in_body;
    for (std::size_t i = 0; i < carry_.size(); ++i) {
      const Var* next = as_var(body_.program.jaxpr.outs[i]);
      if (next != nullptr && *next == body_.rest[i]) {
        cond_.consts.add(cond_.rest[i], carry_[i]);
        body_.consts.add(body_.rest[i], carry_[i]);
        results_[i] = carry_[i];
        continue;
      }
      varying.push_back(i);
      in_cond.push_back(cond_.rest[i]);
      in_body.push_back(body_.rest[i]);
    }
    const bool changed = varying.size() != carry_.size();
    kept_ = std::move(varying);
    cond_.rest = std::move(in_cond);
    body_.rest = std::move(in_body);
    return changed;
  }

  std::optional<std::vector<Atom>> rebuilt() {
    // A loop without a carry that varies would never end: left as it is.
    if (kept_.empty()) return std::nullopt;
    std::vector<Atom> in = cond_.consts.outer, outs;
    in.insert(in.end(), body_.consts.outer.begin(), body_.consts.outer.end());
    for (const std::size_t k : kept_) {
      in.push_back(carry_[k]);
      outs.push_back(body_.program.jaxpr.outs[k]);
    }
    body_.program.jaxpr.outs = std::move(outs);
    const std::size_t cond_nconsts = cond_.consts.outer.size(), body_nconsts = body_.consts.outer.size();
    const Params params = eqn_.params.with("cond_jaxpr", cond_.closed())
                              .with("cond_nconsts", cond_nconsts)
                              .with("body_jaxpr", body_.closed())
                              .with("body_nconsts", body_nconsts);
    const std::vector<Atom> out = rw_.write_all(while_p, in, params);
    for (std::size_t i = 0; i < kept_.size(); ++i) results_[kept_[i]] = out[i];
    std::vector<Atom> all;
    for (const std::optional<Atom>& r : results_) all.push_back(*r);
    return all;
  }

  Rewriter& rw_;
  const Eqn& eqn_;
  LoopProgram cond_, body_;
  std::vector<Atom> carry_;
  std::vector<std::size_t> kept_;             // carries that vary
  std::vector<std::optional<Atom>> results_;  // known outside
};

std::optional<std::vector<Atom>> simplify_while(Rewriter& rw, const Eqn& eqn) {
  return WhileEdit(rw, eqn).run();
}

// The tape keeps every carry; only its constants are looked at.
std::optional<std::vector<Atom>> simplify_tape(Rewriter& rw, const Eqn& eqn) {
  const auto count = [&](const char* key) { return static_cast<std::size_t>(eqn.params.integer(key)); };
  const std::size_t nc = count("cond_nconsts"), nb = count("body_nconsts"), back = count("back_nconsts");
  const std::span<const Atom> in = eqn.in;
  const std::size_t nk = eqn.params.jaxpr("body_jaxpr")->jaxpr.outs.size();
  LoopProgram cond(*eqn.params.jaxpr("cond_jaxpr"), in.first(nc));
  LoopProgram body(*eqn.params.jaxpr("body_jaxpr"), in.subspan(nc, nb));
  LoopProgram behind(*eqn.params.jaxpr("back_jaxpr"), in.subspan(nc + nb + nk, back));
  bool changed = cond.tidied(rw);
  changed |= body.tidied(rw);
  changed |= behind.tidied(rw);
  if (!changed) return std::nullopt;
  std::vector<Atom> operands;
  const auto append = [&](std::span<const Atom> atoms) {
    operands.insert(operands.end(), atoms.begin(), atoms.end());
  };
  append(cond.consts.outer);
  append(body.consts.outer);
  append(in.subspan(nc + nb, nk));
  append(behind.consts.outer);
  append(in.subspan(nc + nb + nk + back));
  const std::size_t sizes[] = {cond.consts.outer.size(), body.consts.outer.size(),
                               behind.consts.outer.size()};
  return rw.write_all(tape_while_p, operands,
                      eqn.params.with("cond_jaxpr", cond.closed())
                          .with("cond_nconsts", sizes[0])
                          .with("body_jaxpr", body.closed())
                          .with("body_nconsts", sizes[1])
                          .with("back_jaxpr", behind.closed())
                          .with("back_nconsts", sizes[2]));
}

}  // namespace

void add_while_rules(RuleTable& t) {
  t.add_many(while_p, simplify_while);
  t.add_many(tape_while_p, simplify_tape);
}

}  // namespace etrace
