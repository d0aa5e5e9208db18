#include "report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/json.h"
#include "report/explain_drawing.h"

namespace etrace {

void RunPage::Curve::add(Point next) {
  constexpr std::size_t kMost = 2000;
  if (!std::isfinite(next.y)) return;
  points.push_back(next);
  if (points.size() <= kMost) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
    const Point &a = points[i], &b = points[i + 1];
    const auto m = static_cast<double>(a.count), n = static_cast<double>(b.count);
    points[kept++] = {b.x, (m * a.y + n * b.y) / (m + n), b.seconds, a.count + b.count};
  }
  if (points.size() % 2 == 1) points[kept++] = points.back();
  points.resize(kept);
}

namespace page {

namespace {

constexpr int kWidth = 480, kHeight = 240, kLeft = 52, kRight = 10, kTop = 10, kBottom = 34;

using Place = std::pair<double, double>;
using Places = std::vector<Place>;

// At most so many; of each stretch the smallest and the largest stay, so that no spike is lost.
Places thinned(const Places& all, std::size_t most) {
  if (all.size() <= most) return all;
  Places out;
  const std::size_t stretches = most / 2;
  for (std::size_t k = 0; k < stretches; ++k) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(k * all.size() / stretches),
               end = all.begin() + static_cast<std::ptrdiff_t>((k + 1) * all.size() / stretches);
    const auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const Place& place : low < high ? Places{*low, *high} : Places{*high, *low}) out.push_back(place);
  }
  return out;
}

// The script does the same with other averages.
Places drawn(const RunPage::Curve& c) {
  Places out;
  for (const RunPage::Point& p : c.points) {
    const double keep =
        c.smooth && !out.empty() ? std::pow(1.0 - 1.0 / kSmoothOver, static_cast<double>(p.count)) : 0.0;
    out.emplace_back(p.x, keep == 0.0 ? p.y : keep * out.back().second + (1.0 - keep) * p.y);
  }
  return out;
}

// What a plot shows: x from 0, y between the smallest and the largest value that is finite.
struct Frame {
  bool logarithmic;
  double last = 1.0, low = std::numeric_limits<double>::infinity(), high = -low;

  explicit Frame(const RunPage::Plot& plot) : logarithmic(plot.logarithmic) {
    for (const RunPage::Curve& c : plot.curves) {
      for (const auto& [x, y] : drawn(c)) {
        last = std::max(last, x);
        take(y);
      }
      for (const auto& [from, to] : c.band) {
        take(from);
        take(to);
      }
    }
    if (!logarithmic) {
      low = std::min(low, 0.0);
      high = std::max(high, 1.0);
    }
    if (!(low < high)) {
      low = std::isfinite(low) ? low - 0.5 : 0.0;
      high = low + 1.0;
    }
  }
  void take(double y) {
    if (!shows(y)) return;
    low = std::min(low, scaled(y));
    high = std::max(high, scaled(y));
  }
  bool shows(double y) const { return std::isfinite(y) && (!logarithmic || y > 0.0); }
  double scaled(double y) const { return logarithmic ? std::log10(y) : y; }
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / last; }
  double y(double value) const {
    return kTop + (kHeight - kTop - kBottom) * (high - scaled(value)) / (high - low);
  }
};

constexpr int kLines = 4;  // of the grid, above the lowest
double grid_value(const Frame& f, int line) {
  const double at = f.low + (f.high - f.low) * line / kLines;
  return f.logarithmic ? std::pow(10.0, at) : at;
}
// So many digits that no two lines have the same number.
int grid_digits(const Frame& f) {
  int digits = 2;
  const auto are_alike = [&] {
    for (int k = 0; k < kLines; ++k)
      if (fmt::format("{:.{}g}", grid_value(f, k), digits) ==
          fmt::format("{:.{}g}", grid_value(f, k + 1), digits))
        return true;
    return false;
  };
  while (digits < 6 && are_alike()) ++digits;
  return digits;
}

std::string grid_of(const Frame& f, const RunPage::Plot& plot) {
  std::string out;
  const int digits = grid_digits(f);
  for (int k = 0; k <= kLines; ++k) {
    const double value = grid_value(f, k);
    out += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.{}g}</text>",
        kLeft, f.y(value), kWidth - kRight, kLeft - 6, f.y(value) + 4.0, value, digits);
  }
  for (const double part : {0.0, 0.5, 1.0})
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{:.0f}</text>", f.x(part * f.last),
                       kHeight - 16,
                       part == 0.0   ? "start"
                       : part == 1.0 ? "end"
                                     : "middle",
                       part * f.last);
  for (const double mark : plot.marks)
    out += fmt::format("<path class=\"mark\" d=\"M{:.1f} {}V{}\"/>", f.x(mark), kTop, kHeight - kBottom);
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kWidth - kRight,
                           kHeight - 3, escape_html(plot.x));
}

// The colours of curves, as classes c0, c1 … of the style; those of other runs are grey.
constexpr std::size_t kColours = 6;
std::string colour_of(const RunPage::Curve& c, std::size_t number) {
  return c.other ? "other" : fmt::format("c{}", number % kColours);
}

std::string path_of(const Frame& frame, const Places& places) {
  std::string path;
  for (const auto& [x, y] : places)
    if (frame.shows(y))
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.x(x), frame.y(y));
  return path;
}

// Along the highest values and back along the lowest.
std::string band_of(const Frame& frame, const RunPage::Curve& c) {
  Places around;
  for (std::size_t i = 0; i < c.points.size(); ++i) around.emplace_back(c.points[i].x, c.band[i].second);
  for (std::size_t i = c.points.size(); i-- > 0;) around.emplace_back(c.points[i].x, c.band[i].first);
  return path_of(frame, around);
}

Json plot_json(const RunPage::Plot& plot) {
  Json out{{"title", plot.title}, {"x", plot.x}, {"marks", plot.marks}, {"curves", Json::array()}};
  for (const RunPage::Curve& c : plot.curves) {
    Json curve{{"name", c.name}, {"points", points_json(c.points)}};
    if (c.smooth) curve["smooth"] = true;
    if (c.other) curve["other"] = true;
    for (const auto& [low, high] : c.band) curve["band"].push_back({low, high});
    out["curves"].push_back(std::move(curve));
  }
  return out;
}

// Inside of a script element "<" could begin a tag or a comment.
std::string script_text(const Json& json) {
  std::string out;
  for (const char c : json_text(json)) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

// Of four digits: as many as a plot can show.
double short_number(double value) { return std::stod(fmt::format("{:.4g}", value)); }

}  // namespace

Json points_json(const std::vector<RunPage::Point>& points) {
  auto out = Json::array();
  for (const RunPage::Point& p : points) {
    Json one{p.x, short_number(p.y), std::round(100.0 * p.seconds) / 100.0};
    if (p.x == std::floor(p.x)) one[0] = static_cast<std::int64_t>(p.x);
    if (p.count > 1) one.push_back(p.count);
    out.push_back(std::move(one));
  }
  return out;
}

std::string plot_html(const RunPage::Plot& plot) {
  const Frame frame(plot);
  std::string behind, lines, keys;
  std::size_t number = 0;
  for (const RunPage::Curve& c : plot.curves) {
    const std::string colour = colour_of(c, number);
    number += c.other ? 0 : 1;
    if (!c.band.empty())
      behind += fmt::format("<path class=\"band {}\" d=\"{}Z\"/>", colour, band_of(frame, c));
    (c.other ? behind : lines) +=
        fmt::format("<path class=\"line {}\" d=\"{}\"/>", colour, path_of(frame, thinned(drawn(c), 1000)));
    keys += fmt::format(
        "<li><button type=\"button\" aria-pressed=\"true\" disabled><svg viewBox=\"0 0 22 10\" "
        "class=\"plot\" aria-hidden=\"true\"><path class=\"line {}\" d=\"M0 "
        "5H22\"/></svg>{}</button><output></output></li>",
        colour, escape_html(c.name));
  }
  return fmt::format(
      "<figure class=\"curves\"><figcaption>{0}<label class=\"log\" hidden><input "
      "type=\"checkbox\"{1}>logarithmic</label></figcaption><svg class=\"plot\" viewBox=\"0 0 {2} {3}\" "
      "role=\"img\" aria-label=\"{0}\"><g>{4}</g><path class=\"cursor\" d=\"\"/></svg><ul "
      "class=\"key\">{5}</ul><script type=\"application/json\">{6}</script></figure>",
      escape_html(plot.title), plot.logarithmic ? " checked" : "", kWidth, kHeight,
      grid_of(frame, plot) + behind + lines, keys, script_text(plot_json(plot)));
}

std::string tools_html(const RunPage& page) {
  const auto any = [&](const auto& has) {
    return std::ranges::any_of(page.plots,
                               [&](const RunPage::Plot& p) { return std::ranges::any_of(p.curves, has); });
  };
  std::string out;
  if (any([](const RunPage::Curve& c) { return c.smooth; }))
    out +=
        "<label>average over <input type=\"range\" name=\"smooth\" min=\"0\" max=\"7\" value=\"3\"> "
        "<output></output></label>";
  if (page.live ||
      any([](const RunPage::Curve& c) { return !c.points.empty() && c.points.back().seconds > 0.0; }))
    out += fmt::format(
        "<label>along <select name=\"along\"><option value=\"0\">{}</option><option "
        "value=\"2\">seconds</option></select></label>",
        page.plots.empty() ? "updates" : escape_html(page.plots.front().x));
  return fmt::format(
      "<form class=\"tools\" hidden>{}<button type=\"button\" name=\"csv\">Download as CSV</button></form>",
      out);
}

}  // namespace page
}  // namespace etrace
