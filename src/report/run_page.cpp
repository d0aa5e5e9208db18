#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "etrace/version.h"
#include "report/curves.h"
#include "report/explain_drawing.h"
#include "report/page_parts.h"
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

nlohmann::json RunPage::to_json() const {
  nlohmann::json out{{"lead", lead}, {"tiles", tiles}, {"plots", nlohmann::json::array()}};
  for (const Plot& p : plots) {
    auto curves = nlohmann::json::array();
    for (const Curve& c : p.curves)
      if (!c.other) curves.push_back(page::points_json(c.points));
    out["plots"].push_back(std::move(curves));
  }
  return out;
}

std::string RunPage::to_html() const {
  std::string numbers, curves, rates, rest;
  for (const auto& [what, number] : tiles)
    numbers += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(what), escape_html(number));
  for (const Plot& p : plots) curves += page::plot_html(p);
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
      "etrace</title>\n<style>{1}{2}{3}</style></head>\n<body{13}><header><p class=\"kicker\">etrace "
      "train<span class=\"live\" role=\"status\"></span></p><h1>{0}</h1>"
      "<div class=\"verdict{4}\"><p class=\"lead\">{5}</p>{14}</div><dl "
      "class=\"tiles\">{6}</dl></header>\n<main>\n{7}{8}{9}{10}</main>\n"
      "<footer><p class=\"note\">Written by etrace {11}.</p></footer><script>{12}</script></body></html>\n",
      escape_html(title), kExplainStyle, kVerifyStyle, kRunStyle, good ? "" : " broken", escape_html(lead),
      numbers,
      section_html("Curves", curves_note,
                   page::tools_html(plots) + "<div class=\"plots\">" + curves + "</div>"),
      activity, rest, text, version(), kRunScript, live ? " data-events=\"events\"" : "",
      note.empty() ? "" : fmt::format("<p class=\"where\">{}</p>", escape_html(note)));
}

}  // namespace etrace
