// How a nest runs: which axes are one loop, in which order, which one is the vector's, and into how many
// parts threads may cut it. Parts follow from sizes alone, never from the number of threads. What is folded
// stays in its order.
#include <algorithm>

#include "emit/passes.h"
#include "emit/target.h"
#include "etrace/error.h"

namespace etrace::emit {

namespace {

// Two neighbouring axes of one kind that every form walks as one.
bool joinable(const Nest& n, std::size_t a) {
  if (n.axes[a].kind != n.axes[a + 1].kind || n.axes[a].kind == Axis::Time) return false;
  return std::all_of(n.body.begin(), n.body.end(), [&](const Stmt& s) {
    return !has_form(s) || s.at.step[a] == s.at.step[a + 1] * n.axes[a + 1].size;
  });
}

void join(Nest& n, std::size_t a) {
  n.axes[a + 1].size *= n.axes[a].size;
  n.axes.erase(n.axes.begin() + static_cast<std::ptrdiff_t>(a));
  for (Stmt& s : n.body)
    if (has_form(s)) s.at.step.erase(s.at.step.begin() + static_cast<std::ptrdiff_t>(a));
}

void permute(Nest& n, const std::vector<std::size_t>& order) {
  const auto by_order = [&](const auto& old) {
    auto out = old;
    for (std::size_t i = 0; i < order.size(); ++i) out[i] = old[order[i]];
    return out;
  };
  n.axes = by_order(n.axes);
  for (Stmt& s : n.body)
    if (has_form(s)) s.at.step = by_order(s.at.step);
}

// Each axes by the distance of neighbours in the first store, so that memory is written in order.
void sort_axes(Nest& n) {
  const auto store =
      std::find_if(n.body.begin(), n.body.end(), [](const Stmt& s) { return s.kind == Stmt::Store; });
  if (store == n.body.end()) return;
  std::vector<std::size_t> order(n.axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const Dims step = store->at.step;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (n.axes[a].kind != n.axes[b].kind) return n.axes[a].kind < n.axes[b].kind;
    return n.axes[a].kind == Axis::Each && step[a] > step[b];
  });
  permute(n, order);
}

// How well vectors along this axis read and write.
double merit(const Nest& n, std::size_t axis) {
  double sum = 0;
  for (const Stmt& s : n.body) {
    if (s.kind != Stmt::Load && s.kind != Stmt::Store) continue;
    const double weight = s.kind == Stmt::Store ? 1.5 : 1.0;
    if (s.at.step[axis] == 1)
      sum += weight;
    else if (s.at.step[axis] != 0 || (s.kind == Stmt::Load && !s.in.empty()))
      sum -= weight;
  }
  return sum + (n.axes[axis].size < 8 ? -1.0 : 0.0);
}

void choose_lane(const Target& t, Nest& n) {
  if (n.axes.empty() || !t.vectors) return;
  if (n.axes.back().kind == Axis::Line) {
    n.lane = static_cast<int>(n.axes.size()) - 1;
    return;
  }
  std::vector<std::size_t> order;
  std::size_t best = n.axes.size();
  for (std::size_t a = 0; a < n.axes.size(); ++a) {
    order.push_back(a);
    if (n.axes[a].kind == Axis::Each && (best == n.axes.size() || merit(n, a) >= merit(n, best))) best = a;
  }
  if (best == n.axes.size()) return;
  // It becomes the last Each axis.
  std::size_t last = best;
  while (last + 1 < n.axes.size() && n.axes[last + 1].kind == Axis::Each) ++last;
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(best),
              order.begin() + static_cast<std::ptrdiff_t>(best) + 1,
              order.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  permute(n, order);
  n.lane = static_cast<int>(last);
}

void choose_parts(const Target& t, Nest& n) {
  n.parts = 1;
  if (n.axes.empty() || n.axes[0].kind != Axis::Each) return;
  const double work = work_of(n);
  // Whole vectors; of what is read again and again along a column or at every time, stretches worth a fetch.
  const bool folds = has_folds(n), timed = has_time(n);
  Index inside = 1;  // elements of one position of the outermost axis
  for (std::size_t a = 1; a < n.axes.size(); ++a)
    if (n.axes[a].kind == Axis::Each) inside *= n.axes[a].size;
  const Index unit = timed ? std::max<Index>(t.block / inside, 1) : n.lane != 0 ? 1 : folds ? 128 : 64;
  const auto most = std::min<Index>(t.most_parts, n.axes[0].size / unit);
  n.parts = std::clamp<Index>(static_cast<Index>(work / t.part_work), 1, std::max<Index>(most, 1));
}

// Loads and formulas first: a result may then lie where an operand of the same position lay.
void stores_last(Nest& n) {
  std::vector<int> place(n.body.size());
  std::vector<Stmt> body;
  for (const bool stores : {false, true})
    for (std::size_t s = 0; s < n.body.size(); ++s) {
      if ((n.body[s].kind == Stmt::Store) != stores) continue;
      place[s] = static_cast<int>(body.size());
      body.push_back(std::move(n.body[s]));
      for (int& i : body.back().in) i = place[static_cast<std::size_t>(i)];
    }
  n.body = std::move(body);
}

void schedule_nest(const Target& t, Nest& n) {
  stores_last(n);
  sort_axes(n);
  for (std::size_t a = n.axes.size(); a-- > 1;)
    if (joinable(n, a - 1)) join(n, a - 1);
  choose_lane(t, n);
  choose_parts(t, n);
}

}  // namespace

double work_of(const Nest& n) {
  double work = 0;
  for (const Stmt& s : n.body)
    work += s.kind == Stmt::Load || s.kind == Stmt::Store ? 1.0 : static_cast<double>(s.cost);
  for (const Axis& a : n.axes) work *= static_cast<double>(a.size);
  return work;
}

void schedule(EmitProgram& p) {
  for_each_nest(p.entry, [&](Nest& n) {
    schedule_nest(*p.target, n);
    if (p.why == nullptr || !p.target->vectors || n.lane >= 0) return;
    p.why->push_back({Refusal::Vectorise, n.body.empty() ? -1 : n.body[0].eqn, -1,
                      n.axes.empty() ? "it has one position" : "its positions run one after the other"});
  });
}

}  // namespace etrace::emit
