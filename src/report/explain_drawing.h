// The graph as SVG, laid out by us: weights -> operators -> hidden groups. Private to compiler/.
#pragma once

#include <string>
#include <string_view>

#include "report/explain_view.h"

namespace etrace {

std::string escape_html(std::string_view text);  // harmless in text and in quoted attributes

// How an edge of this kind is drawn: a class of the style sheet.
std::string_view css_class(PathClassification);

// For a desktop and for a phone, with what the lines mean. Nodes lead to their rows on explain's page, with
// details under the pointer by its script; or they lead nowhere. Once per page.
enum class GraphLinks : std::uint8_t { None, Below };
std::string graph_figure(const ExplainView&, GraphLinks);

}  // namespace etrace
