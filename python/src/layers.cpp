// Layers: making them by name, one step, what they hold. The rows are in nn_*.cpp.
#include "layers.h"

#include <map>

#include "base/nearest.h"
#include "calls.h"
#include "convert.h"

namespace etrace::python {

namespace {
// Never destroyed: rows live as long as the program.
std::vector<LayerRow>& rows() {
  static auto* const all = new std::vector<LayerRow>;
  return *all;
}
std::map<std::type_index, std::size_t>& by_type() {
  static auto* const all = new std::map<std::type_index, std::size_t>;
  return *all;
}

const LayerRow* row_of(const Module& m) {
  const auto found = by_type().find(typeid(m));
  return found == by_type().end() ? nullptr : &rows()[found->second];
}

// Spellings of braintrace.
const std::pair<const char*, const char*> kAliases[] = {
    {"w_init", "weight_init"}, {"b_init", "bias_init"}, {"w_mask", "mask"}};
}  // namespace

void add_layer(LayerRow row) {
  by_type().emplace(row.type, rows().size());
  rows().push_back(std::move(row));
}

std::vector<LayerRow::Described> described(const FieldTable& fields) {
  std::vector<LayerRow::Described> out;
  for (const FieldTable::Field& f : fields.all()) out.push_back({f.name, f.type, f.initial, false});
  return out;
}

// --- arguments
// -----------------------------------------------------------------------------------------------

CallArguments::CallArguments(std::string who, nb::tuple positional, nb::dict keywords)
    : who_(std::move(who)), positional_(std::move(positional)), keywords_(std::move(keywords)) {}

nb::object CallArguments::next(const char* name) {
  const bool named = keywords_.contains(name);
  if (at_ < positional_.size()) {
    if (named) throw TypeError(who_, std::string(name) + " was given twice, by position and by name");
    return nb::borrow(positional_[at_++]);
  }
  if (!named) return {};
  nb::object value = nb::borrow(keywords_[name]);
  keywords_.attr("pop")(name);
  return value;
}

void CallArguments::missing(const char* name) const {
  throw TypeError(who_, std::string("the argument ") + name + " is missing; see help(et.nn." + who_ + ")");
}

void CallArguments::finish(const FieldTable& options) {
  if (at_ < positional_.size())
    throw TypeError(who_, std::to_string(positional_.size()) +
                              " arguments were given by position, and it takes " + std::to_string(at_) +
                              "; options are given by name, see help(et.nn." + who_ + ")");
  for (const auto& [alias, name] : kAliases) {
    if (!keywords_.contains(alias)) continue;
    bool known = false;
    for (const FieldTable::Field& f : options.all()) known = known || std::string_view(f.name) == name;
    if (!known) continue;  // answered below, with the nearest name
    if (keywords_.contains(name))
      throw TypeError(who_, std::string(name) + " was given twice, also as " + alias);
    keywords_[name] = nb::borrow(keywords_[alias]);
    keywords_.attr("pop")(alias);
  }
  options.set_all(keywords_);
}

// --- for etrace/nn/_layer.py
// ---------------------------------------------------------------------------------

namespace {

const LayerRow& row_named(const std::string& name) {
  for (const LayerRow& r : rows())
    if (name == r.name) return r;
  throw ValueError("nn", no_such_name("layer", name, row_names(rows())));
}

std::shared_ptr<Module> make_layer(const std::string& name, const nb::tuple& args, const nb::dict& options) {
  CallArguments given(name, args, nb::cast<nb::dict>(options.attr("copy")()));
  return row_named(name).make(given);
}

nb::list described_rows() {
  const auto listed = [](const std::vector<LayerRow::Described>& all) {
    nb::list out;
    for (const auto& d : all) out.append(nb::make_tuple(d.name, d.type, d.initial, d.required));
    return out;
  };
  nb::list out;
  for (const LayerRow& r : rows())
    out.append(nb::make_tuple(r.name, r.parent, listed(r.arguments), listed(r.options())));
  return out;
}

nb::object row_name(const Module& m) {
  const LayerRow* const row = row_of(m);
  return row == nullptr ? nb::none() : nb::object(nb::str(row->name));
}

Arrays arrays_of(const nb::tuple& given) {
  Arrays x;
  for (nb::handle h : given) x.push_back(from_object<Array>(h));
  return x;
}
nb::object results(const Arrays& y) {
  if (y.size() == 1) return nb::cast(y[0]);
  return nb::tuple(to_list(y));
}

nb::object call_quantity(Module& m, const nb::tuple& given) {
  const LayerRow* const row = row_of(m);
  if (row == nullptr || row->of_quantity == nullptr || given.size() != 1)
    throw NotSupportedError(row == nullptr ? "nn" : row->name,
                            "the layer takes no quantities with a unit; give numbers: x.to(unit)");
  const Quantity x = from_object<Quantity>(given[0]);
  const LineScope line(x.mantissa());
  return row->of_quantity(m, x).value;
}
bool has_quantity(const nb::tuple& given) {
  for (nb::handle h : given)
    if (is_quantity(h)) return true;
  return false;
}

// One step with the place of the module on what is recorded, and without.
nb::object call_layer(Module& m, const nb::tuple& given) {
  if (has_quantity(given)) return call_quantity(m, given);
  const Arrays x = arrays_of(given);
  const LineScope line{ArraySpan(x)};
  return results(m(ArraySpan(x)));
}
nb::object update_layer(Module& m, const nb::tuple& given) {
  if (has_quantity(given)) return call_quantity(m, given);
  const Arrays x = arrays_of(given);
  const LineScope line{ArraySpan(x)};
  return results(m.update_all(ArraySpan(x)));
}

nb::object member(const Module& m, const std::string& name) {
  for (const Module::Member& each : m.members()) {
    const auto* const text = std::get_if<std::string>(&each.name);
    if (text == nullptr || *text != name) continue;
    if (each.state != nullptr) return nb::cast(each.state);
    return nb::cast(each.module);
  }
  return nb::borrow(nb::handle(Py_NotImplemented));
}

template <class T>
T& as(Module& m, const char* what) {
  auto* const found = dynamic_cast<T*>(&m);
  if (found == nullptr) throw TypeError("nn", std::string("the layer is no ") + what);
  return *found;
}

}  // namespace

nn::NeuronInput neuron_input(nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<nn::NeuronInput>(h)) return nb::cast<nn::NeuronInput>(h);
  return {.current = from_object<Array>(h), .current_of = {}, .delta = {}};
}

void bind_layers(nb::module_& m) {
  m.def("_make_layer", make_layer, "name"_a, "args"_a, "options"_a);
  m.def("_layer_rows", described_rows);
  m.def("_layer_name", row_name, "node"_a);
  m.def("_layer_call", call_layer, "node"_a, "args"_a);
  m.def("_layer_update", update_layer, "node"_a, "args"_a);
  m.def("_layer_member", member, "node"_a, "name"_a);
  m.def(
      "_neuron_spikes", [](Module& n) { return as<nn::Neuron>(n, "neuron").spikes(); }, "node"_a);
  m.def(
      "_neuron_step",
      [](Module& n, ArrayLike fired, nb::handle input) {
        auto& neuron = as<nn::Neuron>(n, "neuron");
        const nn::NeuronInput in = neuron_input(input);
        const Array spikes = fired;
        const LineScope line(spikes);
        return neuron.step(spikes, in);
      },
      "node"_a, "fired"_a, "input"_a.none());
  m.def(
      "_lif_after_reset",
      [](Module& n, ArrayLike fired) { return as<nn::LIF>(n, "LIF neuron").after_reset(fired); }, "node"_a,
      "fired"_a);
  m.def(
      "_dynamics_size", [](Module& n) { return as<nn::Dynamics>(n, "neuron or synapse").size(); }, "node"_a);
  m.def(
      "_dynamics_dt", [](Module& n) { return as<nn::Dynamics>(n, "neuron or synapse").dt(); }, "node"_a);
  m.def(
      "_dynamics_unit", [](Module& n) { return as<nn::Dynamics>(n, "neuron or synapse").input_unit(); },
      "node"_a);
  m.def(
      "_weight_unit", [](Module& n) { return as<nn::WeightLayer>(n, "layer with weights").weight_unit(); },
      "node"_a);
  m.def(
      "_conv_out_size", [](Module& n) { return as<nn::Conv>(n, "convolution").out_size(); }, "node"_a);
}

}  // namespace etrace::python
