// Numbers as pictures inside of a page: one pixel each, blue above zero, orange below, clear at zero, so that
// they stand on a light ground and on a dark one.
#pragma once

#include <string>

#include "report/run_page.h"

namespace etrace::page {

std::string picture_html(const RunPage::Picture&);

}  // namespace etrace::page
