// Texts of the files beside an exported model. Private to export/.
#pragma once

#include <string>
#include <string_view>

namespace etrace::device {

// NAME and name stand for the model's name where the text has @NAME@ and @name@.
std::string project_file(std::string_view file, const std::string& model_name);
std::string with_name(std::string text, const std::string& model_name);

}  // namespace etrace::device
