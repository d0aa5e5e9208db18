// et.data: the readers of the command line, and what they know by name.
#include "convert.h"
#include "data/catalog.h"
#include "data/reader.h"
#include "errors.h"
#include "gil.h"
#include "options.h"

namespace etrace::python {

namespace {

using data::Dataset;

const char* part_word(data::Given part) {
  switch (part) {
    case data::Given::Train:
      return "train";
    case data::Given::Valid:
      return "valid";
    case data::Given::Test:
      return "test";
    case data::Given::Nothing:
      break;
  }
  return "";
}

struct Loaded {
  std::shared_ptr<Dataset> data;
  std::string path;
};

Loaded loaded(const std::string& given, const std::string& format, const nb::dict& options) {
  data::GivenOptions read;
  for (const auto& [key, value] : options)
    read.emplace_back(nb::cast<std::string>(key), text("option", value));
  const Released free;
  const data::KnownData* known = data::find_known_data(given);
  if (known == nullptr) return {data::read_data(given, format, read), given};
  for (std::string own = read.empty() ? known->read : ""; !own.empty();) {  // "channels=28,steps=10"
    const std::size_t end = std::min(own.find(','), own.size()), equals = own.find('=');
    read.emplace_back(own.substr(0, equals), own.substr(equals + 1, end - equals - 1));
    own.erase(0, std::min(end + 1, own.size()));
  }
  const std::string reader = format.empty() ? known->format : format;
  Loaded out{data::read_data(data::require_installed(*known), reader, read), given};
  out.data->name = given;
  return out;
}

std::size_t index_in(const Dataset& d, nb::handle given) {
  std::int64_t i = integer("the number of a series", given);
  const auto n = static_cast<std::int64_t>(d.samples.size());
  if (i < -n || i >= n)
    throw IndexError("data",
                     "there is no series " + std::to_string(i) + "; the data has " + std::to_string(n));
  return static_cast<std::size_t>(i < 0 ? i + n : i);
}

// [steps, channels]
Array series(const Dataset& d, std::size_t i) {
  Tensor out = Tensor::uninitialized({Dtype::F32, Shape{d.samples[i].steps, d.channels}});
  d.write(i, reinterpret_cast<float*>(out.writable()));
  return Array(out);
}

// [samples, steps, channels], zeros behind the end of shorter series.
Array padded(const Dataset& d) {
  std::int64_t steps = 0;
  for (const data::Sample& s : d.samples) steps = std::max(steps, s.steps);
  const Released free;
  const auto n = static_cast<std::int64_t>(d.samples.size());
  Tensor out = Tensor::uninitialized({Dtype::F32, Shape{n, steps, d.channels}});
  auto* to = reinterpret_cast<float*>(out.writable());
  for (std::size_t i = 0; i < d.samples.size(); ++i) {
    const std::int64_t own = d.samples[i].steps * d.channels, all = steps * d.channels;
    d.write(i, to);
    std::fill(to + own, to + all, 0.0F);
    to += all;
  }
  return Array(out);
}

template <class F>
nb::list of_samples(const Dataset& d, const F& f) {
  nb::list out;
  for (const data::Sample& s : d.samples) out.append(nb::cast(f(s)));
  return out;
}

nb::list reader_rows() {
  nb::list out;
  for (const data::Reader* r : data::readers()) {
    nb::list options;
    for (const data::ReaderOption& o : r->options) options.append(nb::make_tuple(o.name, o.value, o.doc));
    out.append(nb::make_tuple(r->name, r->doc, options));
  }
  return out;
}

nb::list known_rows() {
  nb::list out;
  for (const data::KnownData& k : data::known_data())
    out.append(nb::make_tuple(k.name, k.doc, k.package, !data::installed_path(k).empty()));
  return out;
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<Loaded>(m, "_Data")
      .def("__len__", [](const Loaded& l) { return l.data->samples.size(); })
      .def(
          "series", [](const Loaded& l, nb::handle i) { return series(*l.data, index_in(*l.data, i)); },
          "index"_a)
      .def("padded", [](const Loaded& l) { return padded(*l.data); })
      .def_prop_ro("name", [](const Loaded& l) { return l.data->name; })
      .def_prop_ro("path", [](const Loaded& l) { return l.path; })
      .def_prop_ro("channels", [](const Loaded& l) { return l.data->channels; })
      .def_prop_ro("channel_names",
                   [](const Loaded& l) {
                     const auto& names =
                         l.data->columns.inputs;  // of a table with a sample per line: of its numbers
                     const bool each = names.size() == static_cast<std::size_t>(l.data->channels);
                     return each ? names : std::vector<std::string>();
                   })
      .def_prop_ro("classes", [](const Loaded& l) { return l.data->classes; })
      .def_prop_ro("notes", [](const Loaded& l) { return l.data->notes; })
      .def_prop_ro("files",
                   [](const Loaded& l) {
                     nb::list out;
                     for (const data::DataFile& f : l.data->files) out.append(f.path);
                     return out;
                   })
      .def_prop_ro("lengths",
                   [](const Loaded& l) { return of_samples(*l.data, [](const auto& s) { return s.steps; }); })
      .def_prop_ro("labels",
                   [](const Loaded& l) { return of_samples(*l.data, [](const auto& s) { return s.label; }); })
      .def_prop_ro("groups",
                   [](const Loaded& l) { return of_samples(*l.data, [](const auto& s) { return s.group; }); })
      .def_prop_ro("names",
                   [](const Loaded& l) { return of_samples(*l.data, [](const auto& s) { return s.name; }); })
      .def_prop_ro("parts",
                   [](const Loaded& l) {
                     return of_samples(*l.data, [](const auto& s) { return std::string(part_word(s.part)); });
                   })
      .def("describe", [](const Loaded& l) { return data::describe(*l.data); });
  m.def("_load_data", loaded, "path"_a, "format"_a, "options"_a);
  m.def("_reader_rows", reader_rows);
  m.def("_known_data", known_rows);
}

}  // namespace etrace::python
