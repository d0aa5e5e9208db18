#include "paths.h"

#include "convert.h"

namespace etrace::python {

namespace {
bool is_number(const std::string& s) {
  return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos && s.size() < 18;
}
}  // namespace

StatePath path_of(nb::handle h) {
  StatePath out;
  if (nb::isinstance<nb::str>(h)) {
    const auto text = nb::cast<std::string>(h);
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('/', begin), text.size());
      const std::string part = text.substr(begin, end - begin);
      if (is_number(part))
        out.emplace_back(static_cast<std::int64_t>(std::stoll(part)));
      else
        out.emplace_back(part);
      begin = end + 1;
    }
    return out;
  }
  if (!nb::isinstance<nb::tuple>(h) && !nb::isinstance<nb::list>(h))
    throw TypeError("path", "a path is a text such as 'rnn/h' or a tuple of its parts, not " + describe(h));
  for (nb::handle each : nb::borrow(h)) {
    if (PyLong_Check(each.ptr()))
      out.emplace_back(nb::cast<std::int64_t>(each));
    else
      out.emplace_back(nb::cast<std::string>(each));
  }
  return out;
}

std::string path_text(nb::handle h) {
  if (nb::isinstance<nb::str>(h)) return nb::cast<std::string>(h);
  return to_string(path_of(h));
}

nb::tuple path_tuple(const StatePath& path) {
  nb::list out;
  for (const PathPart& p : path) std::visit([&](const auto& v) { out.append(v); }, p);
  return nb::tuple(out);
}

}  // namespace etrace::python
