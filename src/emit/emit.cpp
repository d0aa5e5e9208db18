#include "emit/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "emit/lower.h"
#include "emit/passes.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

#ifdef NDEBUG
constexpr double kProved = 0;
#else
constexpr double kProved = 1 << 12;  // elements to look at
#endif

struct Pass {
  void (*run)(EmitProgram&);
  bool keeps_formulas = true;  // else names change with them
};
constexpr Pass kPasses[] = {
    {remove_dead}, {coalesce_kernels}, {remove_dead},  {spell_out, false}, {fuse_around_loops}, {remove_dead},
    {split_loops}, {walk_time},        {fuse},         {remove_dead},      {coalesce},          {remove_dead},
    {schedule},    {share_rows},       {place_buffers}};

// What a program gives, followed in several ways.
class Proof {
 public:
  explicit Proof(double most_work) : most_work_(most_work) {}
  void begin(const EmitProgram& p) {
    on_ = work_to_follow(p) <= most_work_;
    for (std::size_t k = 0; k < 2 && on_; ++k) names_[k] = follow(p, {false, k});
  }
  void end(const EmitProgram& p) const {
    for (std::size_t k = 0; k < 2 && on_; ++k)
      for (const bool backwards : {false, true})
        ETRACE_CHECK(follow(p, {backwards, k}) == names_[k]);  // a pass changed what the program computes
  }

 private:
  const double most_work_;
  bool on_ = false;
  std::vector<std::uint64_t> names_[2];
};

EmitProgram build(const Program& source, const Target& target, std::vector<Refusal>* why, double most_work) {
  EmitProgram p = lower(source, target);
  p.why = why;
  Proof proof(most_work);
  proof.begin(p);
  for (const Pass& pass : kPasses) {
    check(p);
    if (!pass.keeps_formulas) proof.end(p);
    pass.run(p);
    if (!pass.keeps_formulas) proof.begin(p);
  }
  proof.end(p);
  p.why = nullptr;
  return p;
}

}  // namespace

EmitProgram build(const Program& source, const Target& target, std::vector<Refusal>* why) {
  EmitProgram p = build(source, target, why, kProved);
  if (why != nullptr) {
    std::stable_sort(why->begin(), why->end(), [](const Refusal& a, const Refusal& b) {
      return std::pair(a.first, a.second) < std::pair(b.first, b.second);
    });
    why->erase(std::unique(why->begin(), why->end()), why->end());
  }
  return p;
}

EmitProgram build_proved(const Program& source, const Target& target) {
  return build(source, target, nullptr, std::numeric_limits<double>::infinity());
}

std::string text_of(const std::vector<Refusal>& all, const EmitProgram& p) {
  constexpr const char* what[] = {"not fused", "copied", "stays in its loop", "no vectors",
                                  "threads meet at every step"};
  std::string out;
  for (const Refusal& r : all) {
    out += fmt::format("{}: {}\n", what[static_cast<std::size_t>(r.kind)], r.reason);
    for (const int e : {r.first, r.second}) {
      if (e < 0) continue;
      const SourceEqn& eqn = p.eqns[static_cast<std::size_t>(e)];
      out += fmt::format("    {}{}{}\n", eqn.text, eqn.path.empty() ? "" : "    ", eqn.path);
    }
  }
  return out;
}

}  // namespace etrace::emit
