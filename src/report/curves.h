// The plots of a run's page: each as a drawing that stands by itself, with its numbers for the script.
#pragma once

#include <string>

#include "report/run_page.h"

#include "io/json.h"

namespace etrace::page {

inline constexpr double kSmoothOver = 20.0;  // batches, of curves that are drawn smooth

std::string plot_html(const RunPage::Plot&);
std::string tools_html(const RunPage&);  // what the script offers; hidden without it
Json points_json(const std::vector<RunPage::Point>&);

}  // namespace etrace::page
