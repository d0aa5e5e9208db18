#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/version.h"
#include "io/json.h"
#include "report/curves.h"
#include "report/explain_drawing.h"
#include "report/page_parts.h"
#include "report/picture.h"
#include "report/web/explain_style.h"
#include "report/web/run_style.h"
#include "report/web/verify_style.h"

namespace etrace {

namespace {

constexpr int kPlotWidth = 480, kPlotHeight = 240, kPlotLeft = 52, kPlotRight = 10, kPlotTop = 10,
              kPlotBottom = 34;

std::string table_html(const RunPage::Table& t) {
  std::vector<std::string_view> columns(t.columns.begin(), t.columns.end());
  std::string rows;
  for (const auto& row : t.rows) {
    std::string cells = page::row_header(escape_html(row.at(0)));
    for (std::size_t i = 1; i < row.size(); ++i)
      cells += page::cell(t.columns[i], escape_html(row[i]), "num");
    rows += fmt::format("<tr role=\"row\">{}</tr>", cells);
  }
  return page::table(t.title, columns, rows);
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

// Two outlines on one axis: before is dashed. Heights are densities, so that areas are alike.
std::string weights_html(const RunPage::Weights& w) {
  constexpr double kWidth = 230, kHeight = 90, kFoot = 16;
  double low = w.after.low, high = w.after.high, most = 0.0;
  const auto each = [&](const auto& use) {
    for (const RunPage::Spread& s : w.before) use(s, "before");
    use(w.after, "after");
  };
  const auto step = [](const RunPage::Spread& s) {
    return std::max(s.high - s.low, 1e-30) / static_cast<double>(std::max<std::size_t>(s.shares.size(), 1));
  };
  each([&](const RunPage::Spread& s, const char*) {
    low = std::min(low, s.low);
    high = std::max(high, s.high);
    for (const double share : s.shares)
      if (s.high > s.low) most = std::max(most, share / step(s));
  });
  if (!(low < high)) {
    low -= 0.5;
    high += 0.5;
  }
  const auto x = [&](double value) { return 1.0 + (kWidth - 2.0) * (value - low) / (high - low); };
  std::string paths;
  each([&](const RunPage::Spread& s, const char* css) {
    std::string path = fmt::format("M{:.1f} {}", x(s.low), kHeight);
    if (!(s.high > s.low)) path += "V2";  // all are the same
    for (std::size_t i = 0; i < s.shares.size() && s.high > s.low; ++i)
      path += fmt::format("V{:.1f}H{:.1f}", kHeight - (kHeight - 4.0) * s.shares[i] / step(s) / most,
                          x(s.low + step(s) * static_cast<double>(i + 1)));
    paths += fmt::format("<path class=\"spread {}\" d=\"{}V{}\"/>", css, path, kHeight);
  });
  const auto words = [](const RunPage::Spread& s) {
    return fmt::format("{:.3g} ± {:.2g}", s.mean, s.deviation);
  };
  const std::string name = escape_html(w.name);
  return fmt::format(
      "<figure><figcaption><code>{0}</code> {1}</figcaption><svg class=\"plot\" viewBox=\"0 0 {2} {3}\" "
      "role=\"img\" aria-label=\"{0}: {1}\">{4}<path class=\"grid\" d=\"M0 {5}H{2}\"/><text x=\"1\" "
      "y=\"{6}\">{7:.3g}</text><text x=\"{8}\" y=\"{6}\" text-anchor=\"end\">{9:.3g}</text></svg></figure>",
      name, w.before.empty() ? words(w.after) : words(w.before.front()) + " → " + words(w.after), kWidth,
      kHeight + kFoot, paths, kHeight, kHeight + kFoot - 3, low, kWidth - 1, high);
}

std::string section_html(std::string_view title, std::string_view note, std::string_view body) {
  return fmt::format("<section><h2>{}</h2><p class=\"note\">{}</p>{}</section>\n", escape_html(title),
                     escape_html(note), body);
}

}  // namespace

Json RunPage::to_json() const {
  Json out{{"lead", lead}, {"tiles", tiles}, {"plots", Json::array()}, {"marks", Json::array()}};
  for (const Plot& p : plots) {
    auto curves = Json::array();
    for (const Curve& c : p.curves)
      if (!c.other) curves.push_back(page::points_json(c.points));
    out["plots"].push_back(std::move(curves));
    out["marks"].push_back(p.marks);
  }
  return out;
}

std::string RunPage::to_html() const {
  std::string numbers, curves, rates, rest, seen, spreads;
  for (const Picture& p : pictures) seen += page::picture_html(p);
  for (const Weights& w : weights) spreads += weights_html(w);
  for (const auto& [what, number] : tiles)
    numbers += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(what), escape_html(number));
  for (Plot p : plots) {
    if (!live) std::erase_if(p.curves, [](const Curve& c) { return c.points.empty(); });
    curves += page::plot_html(p);
  }
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
  const std::string shown =
      seen.empty() ? ""
                   : section_html("Activity", pictures_note, "<div class=\"pictures\">" + seen + "</div>");
  const std::string moved =
      spreads.empty() ? ""
                      : section_html("Weights",
                                     "How the numbers of each parameter are spread, mean and deviation: "
                                     "dashed before learning, full at the end.",
                                     "<div class=\"spreads\">" + spreads + "</div>");
  const std::string drawing =
      graph.empty() ? ""
                    : section_html("Graph",
                                   "Each weight acts through an operator on the states of a hidden group. "
                                   "A trace follows that influence through time.",
                                   graph);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0} · "
      "etrace</title>\n<style>{1}{2}{3}</style></head>\n<body{13}><header><p class=\"kicker\">etrace "
      "train<span class=\"live\" role=\"status\"></span></p><h1>{0}</h1>"
      "<div class=\"verdict{4}\"><p class=\"lead\">{5}</p>{14}</div><dl "
      "class=\"tiles\">{6}</dl></header>\n<main>\n{7}{8}{9}{10}</main>\n"
      "<footer><p class=\"note\">Written by etrace {11}.</p></footer><script>{12}</script></body></html>\n",
      escape_html(title), kExplainStyle, kVerifyStyle, kRunStyle, good ? "" : " broken", escape_html(lead),
      numbers,
      section_html("Curves", curves_note,
                   page::tools_html(*this) + "<div class=\"plots\">" + curves + "</div>"),
      shown + activity, moved + rest + drawing, text, version(), kRunScript,
      live ? " data-events=\"events\"" : "",
      note.empty() ? "" : fmt::format("<p class=\"where\">{}</p>", escape_html(note)));
}

}  // namespace etrace
