// A training run, or several side by side, as one page that loads nothing: curves, rates of spiking layers,
// tables, configuration. A script of its own shows values under the pointer, smooths, changes axes, hides
// curves and hands out CSV; without it the page is whole. While a run goes, a server feeds the curves
// (base/page_server.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"

#pragma GCC visibility push(default)
namespace etrace {

struct RunPage {
  std::string title, lead;                                 // the run's name; what it came to
  std::string note = {};                                   // below the lead
  bool good = true;                                        // the colour of the lead
  std::vector<std::pair<std::string, std::string>> tiles;  // what, number

  struct Point {
    double x = 0.0, y = 0.0;  // updates, value
    double seconds = 0.0;     // of the run until then
    std::int64_t count = 1;   // batches that it is the mean of
  };
  struct Curve {
    std::string name;           // "training", "held out"
    std::vector<Point> points;  // x ascends
    // Around each point: lowest and highest of several runs; empty: there is no spread.
    std::vector<std::pair<double, double>> band = {};
    bool smooth = false;  // drawn as an average over about the last 20 batches, with its points faint behind
    bool other = false;   // of another run, drawn behind

    // Neighbours become their mean when there are too many points for a page. Values that are not finite are
    // left out.
    void add(Point);
  };
  struct Plot {
    std::string title;
    std::vector<Curve> curves;
    bool logarithmic = false;
    std::string x = "updates";
    std::vector<double> marks = {};  // places on the x axis, as lines upright
  };
  std::vector<Plot> plots;
  std::string curves_note = "Held out: batches that are never trained on.";

  struct Layer {
    std::string name, text;
    std::vector<double> rates;  // spikes per step of each unit
  };
  std::vector<Layer> layers;

  // What units did over the steps of some samples, one beside the other.
  struct Picture {
    std::string title, text;
    std::size_t rows = 0, columns = 0;             // units, steps
    std::vector<std::vector<float>> samples = {};  // row by row; what is not finite stays clear
  };
  std::vector<Picture> pictures;
  std::string pictures_note;

  // How the numbers of a parameter are spread.
  struct Spread {
    double low = 0.0, high = 0.0;  // of all
    double mean = 0.0, deviation = 0.0;
    std::vector<double> shares = {};  // of equal parts from low to high
  };
  struct Weights {
    std::string name;
    std::vector<Spread> before;  // one, or none where it is not known
    Spread after;
  };
  std::vector<Weights> weights;

  std::string graph;  // the drawing of explain's page, as markup: graph_figure()

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

  bool live = false;  // the run goes on: a server has the events, to_json() of new points or of all

  std::string to_html() const;
  // {"lead":…,"tiles":[[what,number],…],"plots":[[[[x,y,seconds,count],…],…],…],"marks":[[x,…],…]}: by plot
  // and curve.
  Json to_json() const;
};

}  // namespace etrace
#pragma GCC visibility pop
