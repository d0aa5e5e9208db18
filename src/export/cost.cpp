#include "export/cost.h"

#include <algorithm>

#include "emit/c_printer.h"
#include "emit/loop_tree.h"

namespace etrace::device {

namespace {

using emit::Block;
using emit::Nest;
using emit::Stmt;

// Instructions: measured on emulated boards (docs/microcontrollers.md).
constexpr std::int64_t kLoop = 3;          // of a loop beside its body: count, compare, branch
constexpr std::int64_t kSoftDouble = 140;  // of an operation in f64 without a unit for it
constexpr std::int64_t kWideSum = 40;      // a sum of f32 is formed in f64
constexpr std::int64_t kTurn = 350;        // sin and cos of f32 bring the angle into range in f64

class Counter {
 public:
  Counter(const emit::EmitProgram& p, bool doubles) : p_(p), doubles_(doubles) {}
  Cost run() {
    block(p_.entry, 1);
    return cost_;
  }

 private:
  void block(const Block& b, std::int64_t times) {
    for (const emit::Item& item : b) std::visit([&](const auto& s) { step(s, times); }, item.step);
  }
  std::int64_t times_soft(Dtype dtype) const { return dtype == Dtype::F64 && !doubles_ ? kSoftDouble : 1; }
  static bool mentions(const Stmt& s, const char* name) { return s.text.find(name) != std::string::npos; }
  void step(const Nest& n, std::int64_t times) {
    cost_.code += 60;
    std::int64_t positions = times, inner = times;
    for (const emit::Axis& a : n.axes) inner *= a.size;
    for (const emit::Axis& a : n.axes) positions *= a.folds() ? 1 : a.size;
    cost_.instructions += inner * kLoop;
    for (const Stmt& s : n.body) {
      const int soft = s.dtype == Dtype::F64 && !doubles_ ? 10 : 0;  // a call, and registers for it
      cost_.code += s.kind == Stmt::Number ? 0 : 8 + soft + 2 * std::min(s.cost, 4);
      const bool outside = has_folds(n) && (s.kind == Stmt::Store || s.kind == Stmt::Vote);
      const std::int64_t count = outside ? positions : inner;
      switch (s.kind) {
        case Stmt::Load:
        case Stmt::Store:
          cost_.instructions += count * (s.kind == Stmt::Load && !s.in.empty() ? 5 : 2);
          break;
        case Stmt::Vote:
        case Stmt::Position:
          cost_.instructions += count;
          break;
        case Stmt::Fold:
          cost_.instructions += count * (s.dtype == Dtype::F32 && s.op <= FoldCode::Product && !doubles_
                                             ? kWideSum
                                             : 2 * times_soft(s.dtype));
          cost_.multiply_adds += count;
          break;
        case Stmt::Apply:
          cost_.instructions += count * std::max(1, s.cost) * times_soft(s.dtype);
          if (!doubles_ && (mentions(s, "etp_sin_f32") || mentions(s, "etp_cos_f32")))
            cost_.instructions += count * kTurn;
          cost_.multiply_adds += count * (s.text.find('*') != std::string::npos ||
                                                  s.text.find("__builtin_fma") != std::string::npos ||
                                                  s.text.find("etp_") != std::string::npos
                                              ? 1
                                              : 0);
          break;
        default:
          break;
      }
    }
  }
  void step(const emit::Product& q, std::int64_t times) {
    std::int64_t n = times * q.rows * q.columns;
    for (const std::int64_t b : q.batch) n *= b;
    cost_.multiply_adds += n * q.depth;
    cost_.instructions += n * (q.depth * (5 + times_soft(q.dtype)) + 6);
    cost_.code += 120;
  }
  void step(const emit::Call&, std::int64_t) {}
  void step(const emit::Region& r, std::int64_t times) {
    using emit::Region;
    if (r.kind == Region::Scan) times *= p_.loops[static_cast<std::size_t>(r.loop)].length;
    if (r.kind == Region::While) cost_.is_bound = false;
    if (r.kind != Region::Cond) {
      for (const Block& b : r.blocks) block(b, times);
      return;
    }
    Cost most = cost_;  // the dearest branch
    for (const Block& b : r.blocks) {
      Counter one(p_, doubles_);
      one.cost_ = cost_;
      one.block(b, times);
      if (one.cost_.instructions > most.instructions) most = one.cost_;
    }
    cost_ = most;
  }

  const emit::EmitProgram& p_;
  const bool doubles_;
  Cost cost_;
};

std::int64_t bytes_of(const emit::Tree& tree) {
  std::int64_t all = 0;
  for (const emit::Node& node : tree) {
    if (std::holds_alternative<emit::Let>(node.what)) all += 8;
    if (const auto* lanes = std::get_if<emit::Lanes>(&node.what)) all += lanes->size * 8;
    if (const auto* loop = std::get_if<emit::For>(&node.what)) all += 8 + bytes_of(loop->body);
    if (const auto* when = std::get_if<emit::If>(&node.what)) all += bytes_of(when->body);
  }
  return all;
}

}  // namespace

Cost cost_of(const emit::EmitProgram& p, bool doubles) { return Counter(p, doubles).run(); }

// The compiler may put functions into each other, so that of all loops one after the other the greatest
// counts, and what the entry keeps.
std::int64_t stack_of(const emit::EmitProgram& p) {
  constexpr std::int64_t kOwn = 256;  // registers that are saved, the callers' frames
  const emit::Unit unit = emit::unit_of(p);
  std::int64_t most = 0;
  for (const emit::LoopFunction& f : unit.functions)
    most = std::max(most, bytes_of(f.body) + 4 * static_cast<std::int64_t>(f.pointers.size()));
  return (kOwn + most + 7) / 8 * 8;
}

}  // namespace etrace::device
