// Words and spellings that every form of explain shares. Private to compiler/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"  // bytes_text
#include "etrace/graph.h"

#pragma GCC visibility push(default)
namespace etrace {

inline constexpr std::string_view kNoOperator = "no trainable operator uses it";
inline constexpr std::string_view kNoOperatorAdvice =
    "pass it to matmul, conv, element_wise or another trainable operator to have it learned online";
inline constexpr std::string_view kInstantOnly =
    "gets the gradient of the current step, without the influence of earlier steps";

std::string grouped(std::int64_t);                         // 12,345
std::string counted(std::size_t n, std::string_view one);  // "1 group", "2 groups", "0 groups"
std::string path_list(const std::vector<StatePath>&);      // "a/b, c/d"
std::string group_list(const std::vector<std::size_t>&);   // "group 0", "groups 0, 2"
std::string join(const std::vector<std::string>&, std::string_view separator = ", ");
// "a, b, c and 4 more": at most `most` of them.
std::string short_list(const std::vector<std::string>&, std::size_t most);
std::string leaf_text(const StatePath& path, const StatePath& leaf_key);  // "a/b", "a/b.bias"
// What the path from an operator to a hidden state means for learning.
std::string_view meaning(PathClassification);

}  // namespace etrace
#pragma GCC visibility pop
