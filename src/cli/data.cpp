// etrace data: formats that are read, data sets that are known and whether they are here; what a file holds;
// data sets out of packages.
#include <fmt/format.h>

#include <iostream>
#include <map>

#include "cli/help.h"
#include "cli/option_values.h"
#include "cli/verbs.h"
#include "data/catalog.h"
#include "data/hdf5.h"
#include "data/reader.h"
#include "etrace/error.h"

namespace etrace::cli {

namespace {

struct DataCommand {
  std::string what, file, format;
  std::vector<std::string> options;
  std::int64_t sample = -1;
};

std::string formats_text() {
  std::string text = "Formats, and what --set read=NAME=VALUE,… can change:\n";
  for (const data::Reader* r : data::readers()) {
    text += wrapped(fmt::format("  {}:", r->name), 4, r->doc);
    for (const data::ReaderOption& o : r->options)
      text += wrapped(fmt::format("    {}", o.name), 17,
                      fmt::format("{} (default {})", o.doc, o.value.empty() ? "none" : o.value));
  }
  const std::string hdf5 = data::hdf5_library();
  return text + fmt::format("HDF5, for shd: {}\n",
                            hdf5.empty() ? "not installed; on Debian `apt-get install libhdf5-103-1`" : hdf5);
}

std::string known_text() {
  std::string text = "Data sets that are known by name:\n";
  for (const data::KnownData& d : data::known_data()) {
    const std::string path = data::installed_path(d);
    text += wrapped(fmt::format("  {}:", d.name), 4,
                    fmt::format("{}; {}; licence {}{}", d.doc, d.package, d.licence,
                                d.memory > 0.0 ? fmt::format("; learned with --memory {}", d.memory) : ""));
    text += path.empty() ? "    not installed\n" : fmt::format("    installed: {}\n", path);
  }
  return text + fmt::format("Imported data is kept in {} ($ETRACE_DATA).\n", data::data_folder());
}

data::GivenOptions given_options(const std::vector<std::string>& texts) {
  data::GivenOptions out;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ValueError("data", fmt::format("--option {}: expected NAME=VALUE", text));
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

// A series as a table: a line per step.
std::string sample_text(const data::Dataset& data, std::int64_t number) {
  const auto i = static_cast<std::size_t>(number);
  if (i >= data.samples.size())
    throw ValueError("data",
                     fmt::format("--sample {}: the samples are 0 to {}", number, data.samples.size() - 1));
  const data::Sample& s = data.samples[i];
  std::vector<float> values(static_cast<std::size_t>(s.steps * data.channels));
  data.write(i, values.data());
  std::string text = fmt::format("sample {}: class {}{}, a line per step\n", number,
                                 data.classes[static_cast<std::size_t>(s.label)],
                                 s.group.empty() ? "" : ", group " + s.group);
  for (std::int64_t t = 0; t < s.steps; ++t) {
    const auto begin = values.begin() + t * data.channels;
    text += fmt::format("{}\n", fmt::join(begin, begin + data.channels, ","));
  }
  return text;
}

void show_file(const DataCommand& c) {
  std::string path = c.file, format = c.format;
  if (const data::KnownData* known = data::find_known_data(c.file)) {
    path = data::require_installed(*known);
    if (format.empty()) format = known->format;
  }
  const auto data = data::read_data(path, format, given_options(c.options));
  std::cout << fmt::format("{}: {}\n", c.file, describe(*data));
  std::map<std::int32_t, std::int64_t> counts;
  for (const data::Sample& s : data->samples) ++counts[s.label];
  for (const auto& [label, n] : counts)
    std::cout << fmt::format("  class {}: {} samples\n", data->classes[static_cast<std::size_t>(label)], n);
  for (const data::DataFile& f : data->files)
    std::cout << fmt::format("  file {}, {} bytes\n", f.path, f.bytes);
  for (const std::string& note : data->notes) std::cout << "  " << note << "\n";
  if (c.sample >= 0) std::cout << sample_text(*data, c.sample);
}

void run_data(const DataCommand& c) {
  if (c.what.empty()) {
    std::cout << known_text() << "\n" << formats_text();
    return;
  }
  if (c.what != "show" && c.what != "import")
    throw ValueError(
        "data",
        fmt::format("'{}': expected `etrace data`, `etrace data show FILE` or `etrace data import FILE.whl`",
                    c.what));
  if (c.file.empty()) throw ValueError("data", fmt::format("`etrace data {}` needs a file", c.what));
  if (c.what == "show") return show_file(c);
  for (const std::string& name : data::import_wheel(c.file))
    std::cout << fmt::format("{}: {}\n", name, data::installed_path(*data::find_known_data(name)));
}

}  // namespace

void add_data(CLI::App& app, Status&) {
  CLI::App* verb =
      app.add_subcommand("data", "data sets and formats: what is known, what is here, what a file holds");
  auto c = std::make_shared<DataCommand>();
  verb->add_option("WHAT", c->what,
                   "show: what a file holds; import: data sets out of a wheel; nothing: all that is known");
  verb->add_option("FILE", c->file, "a file, a folder, a known name, or a wheel");
  verb->add_option("--format", c->format, "the reader (default: the one that knows the file)")
      ->type_name("NAME");
  verb->add_option("--option", c->options, "an option of the reader; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--sample", c->sample, "print the series of the sample of this number, too")
      ->type_name("N")
      ->check(count_from(0));
  verb->callback([c] { run_data(*c); });
}

}  // namespace etrace::cli
