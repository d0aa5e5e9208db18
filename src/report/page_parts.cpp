#include "report/page_parts.h"

#include <fmt/format.h>

#include "report/explain_drawing.h"

namespace etrace::page {

std::string tag(std::string_view css, std::string_view text) {
  return fmt::format("<span class=\"tag {}\">{}</span>", css, escape_html(text));
}

std::string cell(std::string_view label, std::string_view inner, std::string_view css) {
  const std::string style = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  return fmt::format("<td role=\"cell\" data-label=\"{}\"><div{}>{}</div></td>", escape_html(label), style,
                     inner);
}

std::string row_header(std::string_view inner) {
  return fmt::format("<th role=\"rowheader\" scope=\"row\">{}</th>", inner);
}

std::string table(std::string_view label, const std::vector<std::string_view>& columns,
                  std::string_view rows) {
  std::string head;
  for (const std::string_view c : columns)
    head += fmt::format("<th role=\"columnheader\" scope=\"col\">{}</th>", escape_html(c));
  return fmt::format(
      "<div class=\"scroll\"><table role=\"table\" aria-label=\"{}\"><thead role=\"rowgroup\"><tr "
      "role=\"row\">{}</tr></thead><tbody role=\"rowgroup\">{}</tbody></table></div>",
      escape_html(label), head, rows);
}

}  // namespace etrace::page
