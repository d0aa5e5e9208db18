// A training run as one page that loads nothing and runs no script: curves, rates of spiking layers,
// configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

struct RunPage {
  std::string title, lead;                                 // the run's name; what it came to
  bool good = true;                                        // the colour of the lead
  std::vector<std::pair<std::string, std::string>> tiles;  // what, number

  struct Curve {
    std::string name;                               // "training", "held out"
    std::vector<std::pair<double, double>> points;  // updates, value; ascending
  };
  struct Plot {
    std::string title;
    std::vector<Curve> curves;  // two at most
    bool logarithmic = false;
  };
  std::vector<Plot> plots;

  struct Layer {
    std::string name, text;
    std::vector<double> rates;  // spikes per step of each unit
  };
  std::vector<Layer> layers;

  struct Text {
    std::string title, note, body;  // shown as it stands
  };
  std::vector<Text> texts;

  std::string to_html() const;
};

}  // namespace etrace
#pragma GCC visibility pop
