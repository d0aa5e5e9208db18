// Numbers that users give: in range, or a ValueError that says what was found and what was expected.
#pragma once

#include <string_view>

namespace etrace::optim {

void require_positive(std::string_view stage, std::string_view what, double value);
void require_not_negative(std::string_view stage, std::string_view what, double value);
void require_fraction(std::string_view stage, std::string_view what, double value);  // in [0, 1)

}  // namespace etrace::optim
