// A VerifyReport for the terminal and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "etrace/verify.h"
#include "io/json.h"
#include "verify/verify_words.h"

namespace etrace {

// Words -----------------------------------------------------------------------------------------------------
namespace {
constexpr std::size_t kColumns = 100;
}  // namespace

std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t head = (width - 2) / 2;
  return text.substr(0, head) + ".." + text.substr(text.size() - (width - 2 - head));
}

std::string wrapped_text(std::string_view text, std::size_t indent) {
  std::string out, line(indent, ' ');
  const auto flush = [&] {
    out += line + "\n";
    line.assign(indent, ' ');
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (line.size() > indent && line.size() + 1 + end > kColumns) flush();
    if (line.size() > indent) line += ' ';
    line += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  flush();
  return out;
}

std::string scientific(double x) {
  if (std::isnan(x)) return "-";
  if (std::isinf(x)) return "inf";
  return x == 0.0 ? "0" : fmt::format("{:.1e}", x);
}
std::string share_text(double x) { return std::isnan(x) ? "-" : fmt::format("{:.4f}", x); }

std::string window_text(std::int64_t window) {
  if (window == 0) return "single steps";
  return window == 1 ? "windows of 1 step" : fmt::format("windows of {} steps", window);
}

std::string horizon_text(const VerifyReport::Leaf& leaf, const std::optional<std::int64_t>& horizon) {
  if (horizon) return std::to_string(*horizon);
  if (leaf.credit.empty()) return "-";
  double most = 0.0;
  for (const VerifyReport::Lag& l : leaf.credit) most = std::max({most, l.bptt, l.online});
  return most > 0.0 ? fmt::format("> {}", leaf.credit.size()) : "-";
}

std::string summary_text(const VerifyReport& r) {
  std::size_t exact = 0, measured = 0, dead = 0, broken = 0;
  for (const VerifyReport::Leaf& leaf : r.leaves)
    for (const VerifyReport::Measure& m : leaf.measures) {
      exact += m.verdict == Verdict::Met ? 1 : 0;
      measured += m.verdict == Verdict::Measured ? 1 : 0;
      dead += m.verdict == Verdict::NotAlive ? 1 : 0;
      broken += m.verdict == Verdict::Broken ? 1 : 0;
    }
  std::string out = fmt::format("{} comparisons with BPTT: {} exact as theory expects",
                                exact + measured + dead + broken, exact);
  if (measured > 0) out += fmt::format(", {} measured without such an expectation", measured);
  if (dead > 0) out += fmt::format(", {} without a gradient to compare", dead);
  if (broken > 0) out += fmt::format(", {} NOT exact where theory expects it", broken);
  return out + ".";
}

namespace {

// What stands in place of the comparisons if there is none.
std::string nothing_compared(const VerifyReport& r) {
  std::size_t with_gradient = 0;
  for (const VerifyReport::Leaf& leaf : r.leaves) {
    with_gradient += leaf.measures.empty() ? 0 : 1;
    for (const VerifyReport::Measure& m : leaf.measures)
      if (m.verdict != Verdict::NotAlive) return {};
  }
  if (with_gradient == 0) return "nothing was compared: the model has no parameter of a floating type";
  return fmt::format(
      "nothing was compared: the BPTT gradient of every parameter is zero (the loss is {:.6g} in all), so a "
      "right rule and a wrong one look alike; give another loss, other inputs or more steps",
      r.loss);
}

}  // namespace

std::vector<std::string> rules_in_scope(const std::string& scope) {
  std::vector<std::string> out;
  for (const RuleRow* row : rule_rows()) {
    CompileOptions o;
    row->make({})->configure(o);
    const bool sparse = o.sparse_n && scope.compare(0, 4, "snap") == 0;  // of any order
    if (sparse || scope_name(o) == scope) out.push_back(row->name);
  }
  return out;
}

std::vector<VerifyReport::Reason> VerifyReport::reasons() const {
  std::vector<Reason> out;
  const auto add = [&](Expectation e, bool single, bool windows, const std::string& text, std::size_t leaf) {
    auto it = std::find_if(out.begin(), out.end(), [&](const Reason& r) {
      return r.expectation == e && r.single_step == single && r.windows == windows && r.text == text;
    });
    if (it == out.end()) it = out.insert(out.end(), {e, single, windows, text, {}});
    it->leaves.push_back(leaf);
  };
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ExpectedGradient &one = leaves[i].expected.single_step, &many = leaves[i].expected.windows;
    const auto holds = [](const ExpectedGradient& e, Expectation as, const std::string& text) {
      return e.expectation == as && std::find(e.reasons.begin(), e.reasons.end(), text) != e.reasons.end();
    };
    for (const std::string& text : one.reasons)
      add(one.expectation, true, holds(many, one.expectation, text), text, i);
    for (const std::string& text : many.reasons)
      if (!holds(one, many.expectation, text)) add(many.expectation, false, true, text, i);
  }
  return out;
}

std::vector<std::string> VerifyReport::failures() const {
  std::vector<std::string> out;
  if (std::string nothing = nothing_compared(*this); !nothing.empty()) out.push_back(std::move(nothing));
  for (const Leaf& leaf : leaves) {
    const std::string who = etrace::to_string(leaf.id);
    for (const Measure& m : leaf.measures)
      if (m.verdict == Verdict::Broken)
        out.push_back(fmt::format("{}, {}: deviation {} from BPTT, but it must be exact ({})", who,
                                  window_text(m.window), scientific(m.deviation),
                                  m.window == 0       ? leaf.expected.single_step.reason
                                  : m.window >= steps ? "a window over the whole sequence is reverse mode"
                                                      : leaf.expected.windows.reason));
    if (!(leaf.as_recorded < leaf.tolerance))
      out.push_back(fmt::format(
          "{}: BPTT through the program that learns deviates by {} from BPTT through the function as it was "
          "written; a pass has changed its derivative",
          who, scientific(leaf.as_recorded)));
    if (leaf.slope && !(*leaf.slope < leaf.oracle_tolerance))
      out.push_back(
          fmt::format("{}: along one direction the slope by BPTT deviates by {} from differences of the "
                      "function as it was "
                      "written; a derivative is wrong",
                      who, scientific(*leaf.slope)));
    if (leaf.finite_differences && leaf.differences_exempt.empty() &&
        !(*leaf.finite_differences < leaf.oracle_tolerance))
      out.push_back(fmt::format("{}: BPTT itself deviates by {} from finite differences", who,
                                scientific(*leaf.finite_differences)));
    if (leaf.full_rtrl && leaf.alive && !(*leaf.full_rtrl < leaf.tolerance))
      out.push_back(
          fmt::format("{}: BPTT itself deviates by {} from full RTRL", who, scientific(*leaf.full_rtrl)));
  }
  return out;
}

// The terminal ----------------------------------------------------------------------------------------------
namespace {

constexpr std::size_t kNameColumns = 36, kNumberColumns = 9;

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::size_t first_width;

  std::string to_string() const {
    std::string out = line(head);
    for (const auto& row : rows) out += line(row);
    return out;
  }

 private:
  std::string line(const std::vector<std::string>& cells) const {
    std::string out = fmt::format("  {:<{}}", cells[0], first_width);
    for (std::size_t i = 1; i < cells.size(); ++i) out += fmt::format(" {:>{}}", cells[i], width(i));
    return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  }
  std::size_t width(std::size_t column) const { return std::max(kNumberColumns, head[column].size()); }
};

std::string mark(Verdict v) {
  return v == Verdict::Broken ? "!" : v == Verdict::NotAlive ? "~" : v == Verdict::Met ? "=" : " ";
}

std::size_t name_width(const VerifyReport& r) {
  std::size_t width = 9;
  for (const VerifyReport::Leaf& leaf : r.leaves) width = std::max(width, to_string(leaf.id).size());
  return std::min(width, kNameColumns);
}

// The windows that were run, 0 for single steps; none if no parameter has a gradient.
std::vector<std::int64_t> windows_of(const VerifyReport& r) {
  for (const VerifyReport::Leaf& leaf : r.leaves) {
    std::vector<std::int64_t> out;
    for (const VerifyReport::Measure& m : leaf.measures) out.push_back(m.window);
    if (!out.empty()) return out;
  }
  return {};
}

// Windows side by side, as many as fit.
std::string deviation_tables(const VerifyReport& r) {
  const std::size_t names = name_width(r), fit = (kColumns - 2 - names) / (kNumberColumns + 1);
  const std::vector<std::int64_t> windows = windows_of(r);
  std::string out;
  for (std::size_t first = 0; first < windows.size(); first += fit) {
    Table t{{"parameter"}, {}, names};
    const std::size_t end = std::min(windows.size(), first + fit);
    for (std::size_t i = first; i < end; ++i)
      t.head.push_back((windows[i] == 0 ? "single" : fmt::format("K={}", windows[i])) + " ");
    for (const VerifyReport::Leaf& leaf : r.leaves) {
      if (leaf.measures.empty()) continue;
      std::vector<std::string> row{shortened(to_string(leaf.id), names)};
      for (std::size_t i = first; i < end; ++i)
        row.push_back(scientific(leaf.measures[i].deviation) + mark(leaf.measures[i].verdict));
      t.rows.push_back(std::move(row));
    }
    out += t.to_string() + (end < windows.size() ? "\n" : "");
  }
  return out;
}

std::string fidelity_table(const VerifyReport& r) {
  Table t{{"parameter", "|BPTT|", "cosine", "ratio", "signs", "BPTT", "online"}, {}, name_width(r)};
  for (const VerifyReport::Leaf& leaf : r.leaves) {
    if (leaf.measures.empty()) continue;
    const VerifyReport::Measure& m = leaf.measures.front();
    t.rows.push_back({shortened(to_string(leaf.id), name_width(r)), scientific(leaf.norm),
                      share_text(m.cosine), share_text(m.norm_ratio), share_text(m.sign_agreement),
                      horizon_text(leaf, leaf.bptt_horizon), horizon_text(leaf, leaf.online_horizon)});
  }
  return t.to_string();
}

std::string oracle_table(const VerifyReport& r) {
  Table t{{"parameter", "differences", "full RTRL"}, {}, name_width(r)};
  const auto cell = [](const std::optional<double>& d) { return d ? scientific(*d) : std::string("-"); };
  for (const VerifyReport::Leaf& leaf : r.leaves)
    if (leaf.finite_differences || leaf.full_rtrl)
      t.rows.push_back({shortened(to_string(leaf.id), name_width(r)), cell(leaf.finite_differences),
                        cell(leaf.full_rtrl)});
  return t.rows.empty() ? "" : t.to_string();
}

// What BPTT itself was held against.
std::string reference_list(const VerifyReport& r) {
  std::size_t checked = 0, exempt = 0, floating = 0;
  for (const VerifyReport::Leaf& leaf : r.leaves) {
    if (leaf.measures.empty()) continue;
    ++floating;
    checked += leaf.slope ? 1 : 0;
    exempt += leaf.differences_exempt.empty() ? 0 : 1;
  }
  std::string out = fmt::format(
      "BPTT through the function as it was written, before any pass; held against differences along one "
      "direction for {} of {} parameters",
      checked, floating);
  if (exempt != 0) out += fmt::format(", {} have derivatives of their own on their way", exempt);
  if (checked + exempt < floating)
    out += fmt::format(", {} no slope that differences show (a kink, a jump, or too small)",
                       floating - checked - exempt);
  return wrapped_text(out, 2);
}

std::string where_text(const VerifyReport::Reason& reason) {
  if (reason.single_step && reason.windows) return "";
  return reason.single_step ? " in single steps" : " in windows";
}

// Every reason once, with the parameters it holds for; those of the same parameters together.
std::string expectation_list(const VerifyReport& r) {
  constexpr std::size_t kMost = 24;  // parameters by name
  std::vector<std::pair<std::string, std::vector<std::size_t>>> entries;
  for (const VerifyReport::Reason& reason : r.reasons()) {
    const std::string head = fmt::format("{}{}: ", name(reason.expectation), where_text(reason));
    auto it = std::find_if(entries.begin(), entries.end(), [&](const auto& e) {
      return e.second == reason.leaves && e.first.compare(0, head.size(), head) == 0;
    });
    if (it == entries.end())
      entries.emplace_back(head + reason.text, reason.leaves);
    else
      it->first += "; " + reason.text;
  }
  std::string out;
  for (const auto& [text, leaves] : entries) {
    std::vector<std::string> who;
    for (const std::size_t i : leaves) who.push_back(to_string(r.leaves[i].id));
    out += wrapped_text(text, 2) + wrapped_text(short_list(who, kMost), 6);
  }
  return out;
}

// Parameters whose way holds a narrower type than the model's.
std::string tolerance_list(const VerifyReport& r) {
  std::string out;
  for (const VerifyReport::Leaf& leaf : r.leaves)
    if (leaf.tolerance != r.tolerance && !leaf.measures.empty())
      out += wrapped_text(fmt::format("{}: exact below {}, because {} values lie on its way",
                                      to_string(leaf.id), scientific(leaf.tolerance), name(leaf.dtype)),
                          2);
  return out;
}

// Why differences of some parameters are shown and not judged: each reason once.
std::string exemption_list(const VerifyReport& r) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (const VerifyReport::Leaf& leaf : r.leaves) {
    if (leaf.differences_exempt.empty() || !leaf.finite_differences) continue;
    auto it = std::find_if(found.begin(), found.end(),
                           [&](const auto& f) { return f.first == leaf.differences_exempt; });
    if (it == found.end()) it = found.insert(found.end(), {leaf.differences_exempt, {}});
    it->second.push_back(to_string(leaf.id));
  }
  std::string out;
  for (const auto& [why, who] : found)
    out += wrapped_text(fmt::format("differences not judged: {}", why), 2) +
           wrapped_text(short_list(who, 24), 6);
  return out;
}

}  // namespace

std::string VerifyReport::to_string() const {
  std::string out = fmt::format("{}: {}, {} {}, {}, loss {:.6g} in all\n\n", model.empty() ? "model" : model,
                                rule, steps, steps == 1 ? "step" : "steps", etrace::name(dtype), loss);
  out += "Relative deviation from BPTT, in single steps and in windows of K\n" + deviation_tables(*this);
  out += wrapped_text(
      fmt::format("= exact as expected (below {})   ! must be exact and is not   ~ not alive: the gradient "
                  "is zero, nothing was tested",
                  scientific(tolerance)),
      2);
  out += tolerance_list(*this);
  if (const auto windows = windows_of(*this); !windows.empty() && windows.back() >= steps)
    out += wrapped_text(fmt::format("K={} is reverse mode over all steps, exact for every rule", steps), 2);
  if (const auto windows = windows_of(*this); !windows.empty())
    out += fmt::format(
        "\nIn {}: direction, size and signs; steps back that hold 90 % of the last step's credit\n",
        window_text(windows.front()));
  out += fidelity_table(*this);
  out += "\nThe reference\n" + reference_list(*this);
  if (const std::string oracles = oracle_table(*this); !oracles.empty()) {
    out += "\nBPTT itself: relative deviation from central differences and from full RTRL\n" + oracles;
    out += exemption_list(*this);
  }
  out += "\nWhat theory expects\n" + expectation_list(*this);
  if (!scopes.empty()) out += wrapped_text(scopes, 2);
  out += "\n" + wrapped_text(summary_text(*this), 0);
  for (const std::string& f : failures()) out += wrapped_text("NOT MET: " + f, 2);
  return out;
}

// JSON ------------------------------------------------------------------------------------------------------
namespace {

// JSON has no NaN and no infinity.
OrderedJson number_json(double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(); }
template <class T>
OrderedJson optional_json(const std::optional<T>& x) {
  return x ? OrderedJson(*x) : OrderedJson();
}
OrderedJson reason_json(const VerifyReport::Reason& r) {
  return {{"expectation", name(r.expectation)},
          {"single_step", r.single_step},
          {"windows", r.windows},
          {"text", r.text},
          {"parameters", r.leaves}};
}
OrderedJson leaf_json(const VerifyReport::Leaf& leaf) {
  OrderedJson out{{"parameter", to_string(leaf.id)},
                  {"shape", leaf.shape.to_dims()},
                  {"bptt_norm", number_json(leaf.norm)},
                  {"alive", leaf.alive}};
  out["expected"] = {{"single_step", name(leaf.expected.single_step.expectation)},
                     {"windows", name(leaf.expected.windows.expectation)}};
  out["narrowest_dtype"] = name(leaf.dtype);
  out["tolerance"] = leaf.tolerance;
  out["measures"] = OrderedJson::array();
  for (const VerifyReport::Measure& m : leaf.measures)
    out["measures"].push_back({{"mode", m.window == 0 ? "single-step" : "multi-step"},
                               {"window", m.window == 0 ? OrderedJson() : OrderedJson(m.window)},
                               {"deviation", number_json(m.deviation)},
                               {"cosine", number_json(m.cosine)},
                               {"norm_ratio", number_json(m.norm_ratio)},
                               {"sign_agreement", number_json(m.sign_agreement)},
                               {"expected", name(m.expected)},
                               {"verdict", name(m.verdict)}});
  out["credit"] = OrderedJson::array();
  for (const VerifyReport::Lag& l : leaf.credit)
    out["credit"].push_back(
        {{"lag", l.lag}, {"bptt", l.bptt}, {"online", l.online}, {"cosine", number_json(l.cosine)}});
  out["bptt_horizon"] = optional_json(leaf.bptt_horizon);
  out["online_horizon"] = optional_json(leaf.online_horizon);
  const auto deviation = [](const std::optional<double>& d) { return d ? number_json(*d) : OrderedJson(); };
  out["finite_differences"] = deviation(leaf.finite_differences);
  out["differences_exempt"] =
      leaf.differences_exempt.empty() ? OrderedJson() : OrderedJson(leaf.differences_exempt);
  out["full_rtrl"] = deviation(leaf.full_rtrl);
  out["as_recorded"] = number_json(leaf.as_recorded);
  out["slope"] = deviation(leaf.slope);
  return out;
}

}  // namespace

std::string VerifyReport::to_json() const {
  OrderedJson out{{"format", "etrace.verify"},
                  {"version", 1},
                  {"model", model},
                  {"rule", rule},
                  {"steps", steps},
                  {"dtype", etrace::name(dtype)},
                  {"tolerance", tolerance},
                  {"oracle_tolerance", oracle_tolerance},
                  {"loss", number_json(loss)},
                  {"surrogate", surrogate},
                  {"met", met()},
                  {"failures", failures()}};
  out["scopes"] = scopes.empty() ? OrderedJson() : OrderedJson(scopes);
  // Parameters by their place in the list below.
  out["reasons"] = OrderedJson::array();
  for (const Reason& r : reasons()) out["reasons"].push_back(reason_json(r));
  out["parameters"] = OrderedJson::array();
  for (const Leaf& leaf : leaves) out["parameters"].push_back(leaf_json(leaf));
  return json_text(out, 2) + "\n";
}

}  // namespace etrace
