#include "emit/merge.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "emit/builder.h"

namespace etrace::emit {

namespace {

// Axes that a form moves along, those with the longest steps first.
std::vector<std::size_t> moved_axes(const Form& f) {
  std::vector<std::size_t> out;
  for (std::size_t a = 0; a < f.step.size(); ++a)
    if (f.step[a] != 0) out.push_back(a);
  std::sort(out.begin(), out.end(),
            [&](std::size_t a, std::size_t b) { return std::abs(f.step[a]) > std::abs(f.step[b]); });
  return out;
}

// Equal statements once; a load of what was stored or loaded before is that value.
void number_values(Nest& n) {
  std::map<std::tuple<ValueId, Index, Dims, std::vector<std::pair<int, Index>>>, int> contents;
  std::map<std::tuple<int, Dtype, std::string, std::vector<int>, Index, Dims>, int> known;
  std::vector<int> same(n.body.size());
  for (std::size_t k = 0; k < n.body.size(); ++k) {
    Stmt& s = n.body[k];
    same[k] = static_cast<int>(k);
    for (int& i : s.in) i = same[static_cast<std::size_t>(i)];
    const auto element = std::tuple(s.value, s.at.first, s.at.step, s.at.time);
    if (s.kind == Stmt::Store) {
      contents[element] = s.in[0];
    } else if (s.kind == Stmt::Load && s.in.empty()) {
      same[k] = contents.try_emplace(element, static_cast<int>(k)).first->second;
    } else if (s.kind == Stmt::Apply || s.kind == Stmt::Number || s.kind == Stmt::Position) {
      const auto key = std::tuple(static_cast<int>(s.kind), s.dtype, s.text, s.in, s.at.first, s.at.step);
      same[k] = known.try_emplace(key, static_cast<int>(k)).first->second;
    }
  }
}

// What needs the result of a fold runs after it: it can neither go into a fold nor belong to one position of
// its axes.
bool folds_come_first(const Nest& n) {
  std::vector<bool> late(n.body.size(), false), inside(n.body.size(), false);
  for (std::size_t k = 0; k < n.body.size(); ++k) {
    const Stmt& s = n.body[k];
    bool needs_fold = false, in_fold = false;
    for (const int i : s.in) {
      needs_fold = needs_fold || late[static_cast<std::size_t>(i)];
      in_fold = in_fold || inside[static_cast<std::size_t>(i)];
    }
    for (std::size_t a = 0; has_form(s) && a < n.axes.size(); ++a)
      in_fold = in_fold || (n.axes[a].folds() && s.at.step[a] != 0);
    if (needs_fold && (in_fold || s.kind == Stmt::Fold)) return false;
    late[k] = needs_fold || s.kind == Stmt::Fold;
    inside[k] = in_fold && s.kind != Stmt::Fold;
  }
  return true;
}

// Compilers do not vectorise a loop that joins votes and carries the totals of a fold as well. A vote about
// the results of folds runs after them.
bool votes_in_folds(const Nest& n) {
  std::vector<bool> inside(n.body.size(), false);
  for (std::size_t k = 0; k < n.body.size(); ++k) {
    const Stmt& s = n.body[k];
    for (const int i : s.in) inside[k] = inside[k] || inside[static_cast<std::size_t>(i)];
    for (std::size_t a = 0; has_form(s) && a < n.axes.size(); ++a)
      inside[k] = inside[k] || (n.axes[a].folds() && s.at.step[a] != 0);
    if (s.kind == Stmt::Vote && inside[k]) return true;
    if (s.kind == Stmt::Fold) inside[k] = false;
  }
  return false;
}

// The same element of one value, named by statement `s` of a nest; split_axis keeps the statement current.
struct Link {
  std::size_t first, second;  // statements
};

class Merger {
 public:
  Merger(const Nest& first, const Nest& second) : a_(first), b_(second) {}

  std::optional<Nest> run(const char*& why) {
    why = "nothing in common";
    for (const Link& link : links()) {
      Nest a = a_, b = b_;
      why = "they do not walk the same positions";
      std::vector<std::pair<std::size_t, std::size_t>> pairs;
      if (!match(a, b, link, pairs)) continue;
      Nest merged;
      if (!lay_side_by_side(a, b, pairs, merged)) continue;
      why = "an element is needed at another position";
      if (!compatible(merged, a.body.size())) continue;
      number_values(merged);
      why = "one needs the whole of a fold that the other is";
      if (has_folds(merged) && !folds_come_first(merged)) continue;
      why = "votes inside a fold keep it from vectors";
      if (has_folds(merged) && votes_in_folds(merged)) continue;
      return merged;
    }
    return std::nullopt;
  }

 private:
  // Stores that the second nest loads; else loads that both have.
  std::vector<Link> links() const {
    std::vector<Link> out;
    for (const Stmt::Kind kind : {Stmt::Store, Stmt::Load}) {
      for (std::size_t i = 0; i < a_.body.size(); ++i)
        for (std::size_t j = 0; j < b_.body.size(); ++j) {
          const Stmt &s = a_.body[i], &t = b_.body[j];
          if (s.kind == kind && t.kind == Stmt::Load && s.value == t.value && t.in.empty() &&
              (kind == Stmt::Store || s.in.empty()))
            out.push_back({i, j});
        }
      if (!out.empty() && kind == Stmt::Store) return out;
    }
    return out;
  }

  // Splits axes until the two forms walk in equal steps; which axis goes with which.
  static bool match(Nest& a, Nest& b, const Link& link,
                    std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
    for (;;) {
      const Form &f = a.body[link.first].at, &g = b.body[link.second].at;
      if (f.first != g.first || f.time != g.time) return false;
      const std::vector<std::size_t> x = moved_axes(f), y = moved_axes(g);
      pairs.clear();
      bool split = false;
      for (std::size_t k = 0; k < std::max(x.size(), y.size()) && !split; ++k) {  // from the innermost
        if (k >= x.size() || k >= y.size()) return false;
        const std::size_t i = x[x.size() - 1 - k], j = y[y.size() - 1 - k];
        if (f.step[i] != g.step[j]) return false;
        const Index m = a.axes[i].size, n = b.axes[j].size;
        if (m == n) {
          pairs.emplace_back(i, j);
          continue;
        }
        if (std::max(m, n) % std::min(m, n) != 0) return false;
        if ((m > n ? a.axes[i] : b.axes[j]).kind == Axis::Time) return false;  // it is one loop
        if (m > n)
          split_axis(a, i, n);
        else
          split_axis(b, j, m);
        split = true;
      }
      if (!split) return true;
    }
  }

  // One list of axes. A nest without folds joins the other one, on its Each axes or on all of them.
  static bool lay_side_by_side(const Nest& a, const Nest& b,
                               const std::vector<std::pair<std::size_t, std::size_t>>& pairs, Nest& out) {
    if ((has_time(a) && has_folds(b)) || (has_folds(a) && has_time(b))) return false;
    const bool timed = has_time(a) || has_time(b);
    const bool host_is_a = has_folds(a) || has_time(a);
    const bool both = has_folds(a) && has_folds(b);
    const Nest &host = host_is_a ? a : b, &guest = host_is_a ? b : a;
    std::vector<int> guest_axis(host.axes.size(), -1);
    std::vector<bool> used(guest.axes.size(), false);
    for (const auto& [i, j] : pairs) {
      const std::size_t h = host_is_a ? i : j, g = host_is_a ? j : i;
      guest_axis[h] = static_cast<int>(g);
      used[g] = true;
    }
    if (std::find(used.begin(), used.end(), false) != used.end()) return false;
    bool folds_joined = false, folds_left = false;
    int last_fold = -1;
    for (std::size_t h = 0; h < host.axes.size(); ++h) {
      const bool joined = guest_axis[h] >= 0, fold = host.axes[h].folds();
      if (!fold && !joined) return false;
      if (joined && timed) {  // times go together, in one direction; or with all positions of an Each axis
        const Axis& g = guest.axes[static_cast<std::size_t>(guest_axis[h])];
        if (g.kind == Axis::Time && (host.axes[h].kind != Axis::Time || g.reverse != host.axes[h].reverse))
          return false;
      }
      if (fold) (joined ? folds_joined : folds_left) = true;
      // Two folds side by side must go over the same axes, in the same order.
      if (both && (!joined || guest.axes[static_cast<std::size_t>(guest_axis[h])].kind != host.axes[h].kind))
        return false;
      if (both && fold) {
        if (guest_axis[h] < last_fold) return false;
        last_fold = guest_axis[h];
      }
    }
    if (folds_joined && folds_left) return false;
    out.axes = host.axes;
    const auto moved = [&](const Nest& n, bool is_host) {
      for (Stmt s : n.body) {
        for (int& i : s.in) i += is_host == host_is_a ? 0 : static_cast<int>(a.body.size());
        if (!is_host && has_form(s)) {
          Dims step(host.axes.size(), 0);
          for (std::size_t h = 0; h < step.size(); ++h)
            if (guest_axis[h] >= 0) step[h] = s.at.step[static_cast<std::size_t>(guest_axis[h])];
          s.at.step = step;
        }
        out.body.push_back(std::move(s));
      }
    };
    moved(a, host_is_a);
    moved(b, !host_is_a);
    return true;
  }

  // Every value that one of the two writes and the other touches is touched at one element per position, or
  // the two touch different stretches of it. What is carried through time belongs to one of them alone.
  static bool compatible(const Nest& n, std::size_t border) {
    Dims sizes;
    for (const Axis& a : n.axes) sizes.push_back(a.size);
    for (std::size_t i = 0; i < border; ++i) {
      const Stmt& s = n.body[i];
      if (!accesses(s)) continue;
      for (std::size_t j = border; j < n.body.size(); ++j) {
        const Stmt& t = n.body[j];
        if (!accesses(t) || s.value != t.value) continue;
        if (s.kind == Stmt::Load && t.kind == Stmt::Load) continue;
        const bool lookups =
            (s.kind == Stmt::Load && !s.in.empty()) || (t.kind == Stmt::Load && !t.in.empty());
        if (!lookups && never_meet(s.at, t.at, sizes)) continue;
        if (writes(s) && writes(t)) return false;
        if (s.kind == Stmt::Vote || t.kind == Stmt::Vote) return false;  // not known before the end
        if (has_time(n) && s.at.step.back() == 0) return false;
        if (lookups || s.at != t.at) return false;
      }
    }
    return true;
  }

  const Nest &a_, &b_;
};

}  // namespace

std::optional<Nest> merge(const Nest& first, const Nest& second, const char*& why) {
  return Merger(first, second).run(why);
}

}  // namespace etrace::emit
