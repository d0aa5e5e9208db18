// A training run, or several side by side, as one page that loads nothing: curves, rates of spiking layers,
// tables, configuration. A small script of its own shows values under the pointer; without it the page is
// whole.
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
    // Around each point: lowest and highest of several runs; empty: there is no spread.
    std::vector<std::pair<double, double>> band = {};
    bool other = false;  // of another run, drawn behind
  };
  struct Plot {
    std::string title;
    std::vector<Curve> curves;
    bool logarithmic = false;
  };
  std::vector<Plot> plots;

  struct Layer {
    std::string name, text;
    std::vector<double> rates;  // spikes per step of each unit
  };
  std::vector<Layer> layers;

  struct Table {
    std::string title, note;
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;  // as many cells as columns; the first is the name
  };
  std::vector<Table> tables;

  struct Text {
    std::string title, note, body;  // shown as it stands
  };
  std::vector<Text> texts;

  std::string to_html() const;
};

}  // namespace etrace
#pragma GCC visibility pop
