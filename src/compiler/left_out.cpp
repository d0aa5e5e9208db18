#include "compiler/left_out.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/explain_text.h"

namespace etrace {

Attr::Dict classification_attr(const HiddenParamOpRelation& r) {
  Attr::Dict out;
  for (std::size_t i = 0; i < r.connected_hidden_paths.size(); ++i)
    out.emplace_back(to_string(r.connected_hidden_paths[i]), std::string(name(r.path_classification[i])));
  return out;
}

void name_left_out(const std::vector<LeftOutWay>& ways, const std::vector<std::string>& leaves,
                   HiddenParamOpRelation& r, CompilationRecord& included) {
  std::vector<std::string> texts;
  Attr::List states;
  for (const LeftOutWay& way : ways) {
    if (std::find_first_of(way.leaves.begin(), way.leaves.end(), leaves.begin(), leaves.end()) ==
        way.leaves.end())
      continue;
    texts.push_back(fmt::format("into {} ({})", path_list(way.states), way.why));
    for (const StatePath& path : way.states) states.emplace_back(to_string(path));
  }
  if (texts.empty()) return;
  for (PathClassification& c : r.path_classification)
    if (c == PathClassification::AllDirect) c = PathClassification::Mixed;
  included.message += "; not traced " + join(texts);
  for (auto& [key, value] : included.context)
    if (key == "path_classification") value = Attr::dict(classification_attr(r));
  included.context.emplace_back("left_out_hidden_paths", Attr::list(states));
}

}  // namespace etrace
