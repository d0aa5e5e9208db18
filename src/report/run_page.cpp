#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/version.h"
#include "report/explain_drawing.h"
#include "report/page_parts.h"
#include "report/web/explain_style.h"
#include "report/web/run_style.h"
#include "report/web/verify_style.h"

namespace etrace {

namespace {

constexpr int kPlotWidth = 480, kPlotHeight = 240, kPlotLeft = 52, kPlotRight = 10, kPlotTop = 10,
              kPlotBottom = 34;

using Points = std::vector<std::pair<double, double>>;

// At most so many points; of each stretch the smallest and the largest stay, so that no spike is lost.
Points thinned(const Points& all, std::size_t most) {
  if (all.size() <= most) return all;
  Points out;
  const std::size_t stretches = most / 2;
  for (std::size_t k = 0; k < stretches; ++k) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(k * all.size() / stretches),
               end = all.begin() + static_cast<std::ptrdiff_t>((k + 1) * all.size() / stretches);
    const auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& point : low < high ? Points{*low, *high} : Points{*high, *low}) out.push_back(point);
  }
  return out;
}

// What a plot shows: x from 0, y between the smallest and the largest value that is finite.
struct Frame {
  bool logarithmic;
  double last = 1.0, low = std::numeric_limits<double>::infinity(), high = -low;

  explicit Frame(const RunPage::Plot& plot) : logarithmic(plot.logarithmic) {
    for (const RunPage::Curve& c : plot.curves)
      for (std::size_t i = 0; i < c.points.size(); ++i) {
        last = std::max(last, c.points[i].first);
        take(c.points[i].second);
        if (!c.band.empty()) take(c.band[i].first);
        if (!c.band.empty()) take(c.band[i].second);
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
  double x(double value) const { return kPlotLeft + (kPlotWidth - kPlotLeft - kPlotRight) * value / last; }
  double y(double value) const {
    return kPlotTop + (kPlotHeight - kPlotTop - kPlotBottom) * (high - scaled(value)) / (high - low);
  }
};

std::string grid_of(const Frame& f) {
  std::string out;
  constexpr int kLines = 4;
  for (int k = 0; k <= kLines; ++k) {
    const double at = f.low + (f.high - f.low) * k / kLines, value = f.logarithmic ? std::pow(10.0, at) : at;
    out += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.2g}</text>",
        kPlotLeft, f.y(value), kPlotWidth - kPlotRight, kPlotLeft - 6, f.y(value) + 4.0, value);
  }
  for (const double part : {0.0, 0.5, 1.0})
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{:.0f}</text>", f.x(part * f.last),
                       kPlotHeight - 16,
                       part == 0.0   ? "start"
                       : part == 1.0 ? "end"
                                     : "middle",
                       part * f.last);
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">updates</text>",
                           kPlotWidth - kPlotRight, kPlotHeight - 3);
}

// The colours of curves, as classes c0, c1 … of the style below; those of other runs are grey.
constexpr std::size_t kColours = 6;
std::string colour_of(const RunPage::Curve& c, std::size_t number) {
  return c.other ? "other" : fmt::format("c{}", number % kColours);
}

std::string path_of(const Frame& frame, const Points& points) {
  std::string path;
  for (const auto& [x, y] : points)
    if (frame.shows(y))
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.x(x), frame.y(y));
  return path;
}

// Along the highest values and back along the lowest.
std::string band_of(const Frame& frame, const RunPage::Curve& c) {
  Points around;
  for (std::size_t i = 0; i < c.points.size(); ++i) around.emplace_back(c.points[i].first, c.band[i].second);
  for (std::size_t i = c.points.size(); i-- > 0;) around.emplace_back(c.points[i].first, c.band[i].first);
  return path_of(frame, around);
}

std::string plot_html(const RunPage::Plot& plot) {
  const Frame frame(plot);
  std::string bands, lines, keys, values;
  std::size_t number = 0;
  for (const RunPage::Curve& c : plot.curves) {
    const std::string colour = colour_of(c, number);
    number += c.other ? 0 : 1;
    const Points points = thinned(c.points, 1200);
    if (!c.band.empty())
      bands += fmt::format("<path class=\"band {}\" d=\"{}Z\"/>", colour, band_of(frame, c));
    (c.other ? bands : lines) +=
        fmt::format("<path class=\"line {}\" d=\"{}\"/>", colour, path_of(frame, points));
    keys += fmt::format(
        "<li><svg viewBox=\"0 0 22 10\" class=\"plot\" aria-hidden=\"true\"><path class=\"line {}\" d=\"M0 "
        "5H22\"/></svg>{}<output></output></li>",
        colour, escape_html(c.name));
    std::string numbers;
    for (const auto& [x, y] : thinned(c.points, 400))
      if (frame.shows(y)) numbers += fmt::format("{}[{:.0f},{:.4g}]", numbers.empty() ? "" : ",", x, y);
    values += fmt::format("{}[{}]", values.empty() ? "" : ",", numbers);
  }
  return fmt::format(
      "<figure class=\"curves\" data-left=\"{5}\" data-right=\"{6}\" data-last=\"{7}\" "
      "data-values=\"[{8}]\"><figcaption>{0}</figcaption><svg class=\"plot\" viewBox=\"0 0 {1} {2}\" "
      "role=\"img\" aria-label=\"{0}\">{3}<path class=\"cursor\" d=\"\"/></svg><ul "
      "class=\"key\">{4}</ul></figure>",
      escape_html(plot.title), kPlotWidth, kPlotHeight, grid_of(frame) + bands + lines, keys, kPlotLeft,
      kPlotWidth - kPlotRight, frame.last, values);
}

std::string table_html(const RunPage::Table& t) {
  std::vector<std::string_view> columns(t.columns.begin(), t.columns.end());
  std::string rows;
  for (const auto& row : t.rows) {
    std::string cells = page::row_header(escape_html(row.at(0)));
    for (std::size_t i = 1; i < row.size(); ++i)
      cells += page::cell(t.columns[i], escape_html(row[i]), "num");
    rows += fmt::format("<tr role=\"row\">{}</tr>", cells);
  }
  return page::table(escape_html(t.title), columns, rows);
}

// A bar for each unit, the most active first.
std::string layer_html(const RunPage::Layer& layer) {
  std::vector<double> rates = layer.rates;
  std::sort(rates.rbegin(), rates.rend());
  std::string bars;
  const double width = static_cast<double>(kPlotWidth - kPlotLeft - kPlotRight) /
                       static_cast<double>(std::max<std::size_t>(rates.size(), 1));
  const double most = std::max(rates.empty() ? 0.0 : rates.front(), 1e-9),
               room = kPlotHeight - kPlotTop - kPlotBottom;
  for (std::size_t i = 0; i < rates.size(); ++i)
    bars += fmt::format("<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                        kPlotLeft + width * static_cast<double>(i), kPlotTop + room * (1.0 - rates[i] / most),
                        std::max(width - 0.5, 0.5), room * rates[i] / most);
  return fmt::format(
      "<figure><figcaption>{}: {}</figcaption><svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"Rates of {}\">"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.2g}</text>{}</svg></figure>",
      escape_html(layer.name), escape_html(layer.text), kPlotWidth, kPlotHeight, escape_html(layer.name),
      kPlotLeft - 6, kPlotTop + 8, most, bars);
}

std::string section_html(std::string_view title, std::string_view note, std::string_view body) {
  return fmt::format("<section><h2>{}</h2><p class=\"note\">{}</p>{}</section>\n", escape_html(title),
                     escape_html(note), body);
}

}  // namespace

std::string RunPage::to_html() const {
  std::string numbers, curves, rates, rest;
  for (const auto& [what, number] : tiles)
    numbers += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(what), escape_html(number));
  for (const Plot& p : plots) curves += plot_html(p);
  for (const Layer& l : layers) rates += layer_html(l);
  for (const Table& t : tables) rest += section_html(t.title, t.note, table_html(t));
  std::string text;
  for (const Text& t : texts)
    text += section_html(
        t.title, t.note,
        fmt::format("<div class=\"card\"><pre class=\"model\">{}</pre></div>", escape_html(t.body)));
  const std::string activity =
      rates.empty()
          ? ""
          : section_html("Spiking layers", "Spikes per step of each unit at the end, the most active first.",
                         "<div class=\"plots\">" + rates + "</div>");
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0} · "
      "etrace</title>\n<style>{1}{2}{3}</style></head>\n<body><header><p class=\"kicker\">etrace "
      "train</p><h1>{0}</h1>"
      "<div class=\"verdict{4}\"><p class=\"lead\">{5}</p></div><dl "
      "class=\"tiles\">{6}</dl></header>\n<main>\n{7}{8}{9}{10}</main>\n"
      "<footer><p class=\"note\">Written by etrace {11}.</p></footer><script>{12}</script></body></html>\n",
      escape_html(title), kExplainStyle, kVerifyStyle, kRunStyle, good ? "" : " broken", escape_html(lead),
      numbers,
      section_html("Curves", "Held out: batches that are never trained on.",
                   "<div class=\"plots\">" + curves + "</div>"),
      activity, rest, text, version(), kRunScript);
}

}  // namespace etrace
