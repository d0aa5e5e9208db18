// Layout and SVG of the drawing. A block holds one hidden group, the operators that feed it first, and their
// weights; blocks stand below each other in the order of the groups. Weights that are not learned online
// stand apart, below. Every node is a link to its row in the tables; its <title> is what the page shows on
// hover.
#include "report/explain_drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/explain_text.h"
#include "etrace/primitive.h"

namespace etrace {

std::string_view css_class(PathClassification c) {
  switch (c) {
    case PathClassification::AllDirect:
      return "direct";
    case PathClassification::Mixed:
      return "mixed";
    case PathClassification::AllThroughOtherEtp:
      return "through";
  }
  return "";
}

namespace {

constexpr double kChar = 7.6;  // advance of the drawing's monospace font, rounded up
constexpr double kHead = 38, kRow = 24, kNode = 48, kGap = 16;

struct Box {
  double x = 0, y = 0, w = 0, h = 0;
  double right() const { return x + w; }
  double bottom() const { return y + h; }
};

// At most `limit` characters, the middle left out; never cuts inside a UTF-8 sequence.
std::string shortened(const std::string& text, std::size_t limit) {
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_start(text[i])) starts.push_back(i);
  if (starts.size() <= limit || limit < 5) return text;
  const std::size_t front = (limit - 1) / 3, back = limit - 1 - front;
  return text.substr(0, starts[front]) + "…" + text.substr(starts[starts.size() - back]);
}

std::string leaves_text(const WeightInfo& w) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < w.invars.size(); ++i) {
    const bool keyed = i < w.leaf_keys.size() && !w.leaf_keys[i].empty();
    parts.push_back((keyed ? to_string(w.leaf_keys[i]) + " " : "") + to_string(w.invars[i].aval));
  }
  return join(parts, " · ");
}

std::string signature(const HiddenParamOpRelation& r) {
  return (r.x_var ? to_string(r.x_var->aval) : std::string()) + " → " + to_string(r.y_var.aval);
}

// Three columns, for a desktop; or one, for a phone.
enum class Drawing : std::uint8_t { Wide, Narrow };

class Canvas {
 public:
  Canvas(const ExplainView& view, Drawing kind, GraphLinks links)
      : v_(view), wide_(kind == Drawing::Wide), links_(links) {
    weights_.resize(v_.weights.size());
    operators_.resize(v_.relations.size());
    groups_.resize(v_.graph.hidden_groups.size());
    place();
  }

  double height() const { return height_; }

  std::string svg() {
    for (std::size_t i = 0; i < v_.relations.size(); ++i) relation_edges(i);
    for (std::size_t i = 0; i < groups_.size(); ++i) group(i);
    for (std::size_t i = 0; i < weights_.size(); ++i) weight(i);
    for (std::size_t i = 0; i < operators_.size(); ++i) oper(i);
    const std::string label = escape_html("Weights, operators and hidden groups. " + v_.summary());
    return fmt::format(
        "<svg class=\"drawing {0}\" viewBox=\"-4 -4 {1} {2:.0f}\" style=\"--w:{1};--h:{2:.0f}\" "
        "role=\"group\" "
        "aria-label=\"{3}\">{4}</svg>\n",
        wide_ ? "wide" : "narrow", wide_ ? 1088 : 388, height_ + 8, label, body_);
  }

 private:
  struct Block {
    std::vector<std::size_t> operators, weights;
    std::optional<std::size_t> group;
  };

  std::vector<Block> blocks() const {
    std::vector<Block> out(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) out[g].group = g;
    std::vector<bool> placed(weights_.size());
    for (std::size_t i = 0; i < v_.relations.size(); ++i) {
      const auto& r = v_.relations[i];
      Block& b = out[r.info->hidden_groups.front()];
      b.operators.push_back(i);
      for (const std::size_t w : r.weights) {
        if (!placed[w]) b.weights.push_back(w);
        placed[w] = true;
      }
    }
    return out;
  }

  double group_height(std::size_t g) const {
    return kHead + kRow * static_cast<double>(v_.graph.hidden_groups[g].hidden_paths.size()) + 30;
  }

  void place() {
    double y = 0;
    for (const Block& b : blocks()) y = wide_ ? place_wide(b, y) : place_narrow(b, y);
    std::vector<std::size_t> apart;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (!v_.weights[i].learned()) apart.push_back(i);
    if (!apart.empty()) {
      divider_ = y + 2;
      y += 38;
    }
    for (const std::size_t i : apart) {
      weights_[i] = {0, y, wide_ ? 300.0 : 372.0, wide_ ? kNode : kNode + 20};
      y += weights_[i].h + 12;
    }
    height_ = std::max(y, 24.0);
    if (divider_) {
      body_ += fmt::format(
          "<path class=\"divider\" d=\"M0 {0:.1f}H{1}\"/><text class=\"caption\" x=\"0\" y=\"{2:.1f}\">"
          "Not learned online</text>",
          *divider_, wide_ ? 1080 : 380, *divider_ + 22);
    }
  }

  double place_wide(const Block& b, double top) {
    const auto stacked = [](std::size_t n, double h) {
      return n == 0 ? 0.0 : static_cast<double>(n) * (h + kGap) - kGap;
    };
    const double weights = stacked(b.weights.size(), kNode), operators = stacked(b.operators.size(), kNode);
    const double hidden = group_height(*b.group), block = std::max({weights, operators, hidden});
    double y = top + (block - weights) / 2;
    for (const std::size_t w : b.weights) {
      weights_[w] = {0, y, 300, kNode};
      y += kNode + kGap;
    }
    y = top + (block - operators) / 2;
    for (const std::size_t i : b.operators) {
      operators_[i] = {400, y, 250, kNode};
      y += kNode + kGap;
    }
    groups_[*b.group] = {790, top + (block - hidden) / 2, 250, hidden};
    return top + block + 36;
  }

  double place_narrow(const Block& b, double top) {
    double y = top;
    std::vector<bool> done(weights_.size());
    for (const std::size_t i : b.operators) {
      for (const std::size_t w : v_.relations[i].weights) {
        const bool here = std::find(b.weights.begin(), b.weights.end(), w) != b.weights.end();
        if (!here || done[w]) continue;
        done[w] = true;
        weights_[w] = {0, y, 326, kNode};
        y += kNode + 12;
      }
      operators_[i] = {30, y, 296, kNode};
      y += kNode + 22;
    }
    groups_[*b.group] = {0, y, 326, group_height(*b.group)};
    return groups_[*b.group].bottom() + 36;
  }

  // Where an edge meets the row of a hidden state.
  double state_y(std::size_t g, std::size_t row) const {
    return groups_[g].y + kHead + kRow * (static_cast<double>(row) + 0.5);
  }

  void relation_edges(std::size_t i) {
    const ExplainView::Relation& r = v_.relations[i];
    const Box& o = operators_[i];
    const std::string op = fmt::format("r{}", i);
    for (const std::size_t w : r.weights) {
      const Box& from = weights_[w];
      const std::string path =
          wide_ ? curve(from.right(), from.y + from.h / 2, o.x, o.y + o.h / 2)
                : fmt::format("M14 {:.1f}V{:.1f}H{:.1f}", from.bottom(), o.y + o.h / 2, o.x);
      edge("weight", fmt::format("w{}", w), op, path,
           to_string(v_.weights[w].info->path) + ": " + join(r.keys_of(v_, w)));
    }
    for (std::size_t k = 0; k < r.info->connected_hidden_paths.size(); ++k) {
      const StatePath& path = r.info->connected_hidden_paths[k];
      const HiddenGroup* g = v_.graph.hid_path_to_group(path);
      if (g == nullptr) continue;
      const auto row =
          std::find(g->hidden_paths.begin(), g->hidden_paths.end(), path) - g->hidden_paths.begin();
      const Box& to = groups_[g->index];
      const double ty = state_y(g->index, static_cast<std::size_t>(row)), fy = o.y + o.h / 2 - 6;
      const double lane = 338 + 6 * static_cast<double>(i % 7);
      const std::string_view css = css_class(r.info->path_classification[k]);
      edge(css, op, fmt::format("g{}", g->index),
           wide_ ? curve(o.right(), fy, to.x, ty)
                 : fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}", o.right(), fy, lane, ty, to.right()),
           fmt::format("{} → {}: {}", r.info->primitive->name(), to_string(path),
                       name(r.info->path_classification[k])));
    }
    if (!wide_) return;
    for (const ExplainView::Read& read : r.reads) {
      const Box& g = groups_[read.group];
      edge("reads", fmt::format("g{}", read.group), op,
           curve(g.x, g.bottom() - 14, o.right(), o.y + o.h / 2 + 12),
           fmt::format("x depends on group {} at {}", read.group, read.previous ? "t−1" : "t"));
    }
  }

  void weight(std::size_t i) {
    const ExplainView::Weight& w = v_.weights[i];
    const Box& b = weights_[i];
    const std::string path = to_string(w.info->path), leaves = leaves_text(*w.info);
    std::string title = "parameter " + path + "\n" + leaves + "\n";
    title += w.learned() ? "learned online" : "not learned online: " + w.why();
    if (!w.learned() && !w.advice().empty()) title += "\nTo do: " + w.advice();
    open(fmt::format("w{}", i), w.learned() ? "weight" : "weight apart", fmt::format("#weight-{}", i), title);
    rect(b, 9);
    if (w.learned())
      body_ += fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{:.1f}\" width=\"4\" height=\"{}\" rx=\"2\"/>",
                           b.x, b.y + 10, b.h - 20);
    lines(b, path, leaves);
    if (!w.learned()) {
      const std::string reason(w.reason ? name(*w.reason) : kNoOperator);
      if (wide_)
        text("why", b.right() + 22, b.y + b.h / 2 + 4,
             shortened(reason + (w.reason ? ": " + std::string(meaning(*w.reason)) : ""), 108));
      else
        text("why", b.x + 16, b.y + 57, shortened(reason, fits(b)));
    }
    close();
  }

  void oper(std::size_t i) {
    const ExplainView::Relation& r = v_.relations[i];
    const HiddenParamOpRelation& info = *r.info;
    std::string title =
        fmt::format("operator {}{}\n{}", info.primitive->name(),
                    r.equation ? fmt::format(", equation {}", *r.equation) : "", signature(info));
    for (const ExplainView::Read& read : r.reads)
      title += fmt::format("\nx depends on group {} at {}", read.group, read.previous ? "t−1" : "t");
    for (std::size_t k = 0; k < info.connected_hidden_paths.size(); ++k)
      title += fmt::format("\n→ {}: {}", to_string(info.connected_hidden_paths[k]),
                           name(info.path_classification[k]));
    open(fmt::format("r{}", i), "operator", fmt::format("#relation-{}", i), title);
    rect(operators_[i], 24);
    lines(operators_[i], std::string(info.primitive->name()), signature(info), /*inset=*/24);
    close();
  }

  void group(std::size_t i) {
    const HiddenGroup& g = v_.graph.hidden_groups[i];
    const Box& b = groups_[i];
    const std::string id = fmt::format("g{}", i);
    std::string size = fmt::format("{} × {}", to_string(g.varshape()),
                                   counted(static_cast<std::size_t>(g.num_state()), "state"));
    open(id, "group", fmt::format("#group-{}", i),
         fmt::format("hidden group {}: {}\n{}\n{}", i, path_list(g.hidden_paths), size, v_.recurrence(g)));
    rect(b, 14);
    text("t1", b.x + 18, b.y + 24, fmt::format("group {}", i));
    body_ += fmt::format("<text class=\"t2\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                         b.right() - 18, b.y + 24, escape_html(size));
    for (std::size_t k = 0; k < g.hidden_paths.size(); ++k) {
      const double y = state_y(i, k);
      body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>",
                           wide_ ? b.x + 18 : b.right() - 18, y);
      text("state", b.x + (wide_ ? 30 : 18), y + 4, shortened(to_string(g.hidden_paths[k]), fits(b) - 3));
    }
    const bool recurs = ExplainView::recurs(g);
    const char* how = !recurs                    ? "keeps nothing of t−1"
                      : g.is_diagonal_recurrence ? "each position by itself"
                                                 : "positions coupled";
    text("t2", b.x + 18, b.bottom() - 13,
         std::string(wide_ || !recurs ? "" : "↻ ") + how +
             (g.snap ? fmt::format(" · SnAp-{}", g.snap->n) : ""));
    close();
    if (wide_ && recurs)  // the step from t-1 to t, back into the group
      edge("recurrence", id, id,
           fmt::format("M{0:.1f} {1:.1f}C{2:.1f} {1:.1f} {2:.1f} {3:.1f} {0:.1f} {3:.1f}", b.right(),
                       b.bottom() - 18, b.right() + 44, b.y + 20),
           v_.recurrence(g));
  }

  // SVG
  // -------------------------------------------------------------------------------------------------------------
  static std::string curve(double x0, double y0, double x1, double y1) {
    const double bend = (x1 - x0) / 2;
    return fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x0, y0, x0 + bend, y0,
                       x1 - bend, y1, x1, y1);
  }

  void edge(std::string_view css, const std::string& from, const std::string& to, const std::string& path,
            const std::string& title) {
    body_ += fmt::format(
        "<path class=\"edge {}\" data-from=\"{}\" data-to=\"{}\" d=\"{}\" "
        "marker-end=\"url(#arrow-{})\"><title>{}</title></path>",
        css, from, to, path, css, escape_html(title));
  }

  void open(const std::string& id, std::string_view css, const std::string& link, const std::string& title) {
    const std::string tag = links_ == GraphLinks::None ? "g" : fmt::format("a href=\"{}\"", link);
    body_ += fmt::format("<{} class=\"node {}\" data-id=\"{}\"><title>{}</title>", tag, css, id,
                         escape_html(title));
  }
  void close() { body_ += links_ == GraphLinks::None ? "</g>" : "</a>"; }
  void rect(const Box& b, double radius) {
    body_ += fmt::format(
        "<rect class=\"box\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\"/>", b.x,
        b.y, b.w, b.h, radius);
  }
  void text(std::string_view css, double x, double y, const std::string& words) {
    body_ +=
        fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", css, x, y, escape_html(words));
  }
  static std::size_t fits(const Box& b, double inset = 16) {
    return static_cast<std::size_t>((b.w - 2 * inset) / kChar);
  }
  void lines(const Box& b, const std::string& first, const std::string& second, double inset = 16) {
    text("t1", b.x + inset, b.y + 21, shortened(first, fits(b, inset)));
    text("t2", b.x + inset, b.y + 38, shortened(second, fits(b, inset)));
  }

  const ExplainView& v_;
  bool wide_;
  GraphLinks links_;
  std::vector<Box> weights_, operators_, groups_;
  std::optional<double> divider_;
  double height_ = 0;
  std::string body_;
};

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\0':
        out += "�";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

std::string drawing_markers() {
  std::string out = "<svg class=\"markers\" aria-hidden=\"true\"><defs>";
  for (const std::string_view css : {"weight", "direct", "mixed", "through", "reads", "recurrence"})
    out += fmt::format(
        "<marker id=\"arrow-{0}\" class=\"arrow {0}\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" "
        "markerWidth=\"8\" "
        "markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 .5L8 4L0 "
        "7.5z\"/></marker>",
        css);
  return out + "</defs></svg>\n";
}

std::string size_choice(double height) {
  constexpr double kTall = 1200, kVeryTall = 2000;
  if (height < kTall) return "";
  const auto choice = [](std::string_view id, std::string_view text, bool checked) {
    return fmt::format("<label><input type=\"radio\" name=\"size\" id=\"size-{}\"{}> {}</label>", id,
                       checked ? " checked" : "", text);
  };
  return "<fieldset class=\"filter\"><legend>Show</legend>" +
         choice("whole", "the whole graph", height >= kVeryTall) +
         choice("full", "in full size", height < kVeryTall) + "</fieldset>\n";
}

std::string legend(std::string_view css, std::string_view text) {
  return fmt::format(
      "<li class=\"{0}\"><svg viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path class=\"edge {0}\" d=\"M1 "
      "5H32\" "
      "marker-end=\"url(#arrow-{0})\"/></svg>{1}</li>",
      css, text);
}

}  // namespace

std::string graph_figure(const ExplainView& v, GraphLinks links) {
  Canvas wide(v, Drawing::Wide, links), narrow(v, Drawing::Narrow, links);
  return "<figure id=\"drawing\" class=\"card\">\n" + drawing_markers() + size_choice(wide.height()) +
         wide.svg() + narrow.svg() + "<ul class=\"legend\">" + legend("weight", "weight of an operator") +
         legend("direct", "all_direct") + legend("mixed", "mixed") +
         legend("through", "all_through_other_etp") + legend("reads", "the operator’s x reads the state") +
         legend("recurrence", "from t−1 to t") + "</ul>\n" +
         (links == GraphLinks::None
              ? ""
              : "<div class=\"details\" role=\"status\" data-hint=\"Point at, tap or tab to a "
                "node for its details.\"></div>\n") +
         "</figure>";
}

}  // namespace etrace
