// The graph as SVG, laid out by us: weights -> operators -> hidden groups. Private to compiler/.
#pragma once

#include <string>
#include <string_view>

#include "report/explain_view.h"

namespace etrace {

std::string escape_html(std::string_view text);  // harmless in text and in quoted attributes

// How an edge of this kind is drawn: a class of the style sheet.
std::string_view css_class(PathClassification);

// Three columns, for a desktop; or one, for a phone.
enum class Drawing : std::uint8_t { Wide, Narrow };
std::string explain_drawing(const ExplainView&, Drawing);
double drawing_height(const ExplainView&);  // of the wide one, in pixels
// Arrowheads arrow-direct, arrow-mixed …: once per page, outside what may be hidden.
std::string drawing_markers();

}  // namespace etrace
