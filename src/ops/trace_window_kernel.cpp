// Which kernel a trace_window runs, why, and with which descriptor. A dense weight has code of its own, for
// one step and for many; so have tables, patches and traces of many states. Elsewhere, with more than a few
// steps, and rows × columns that split into source and anchor, the sums over k are matrix products.
#include <algorithm>

#include "etrace/error.h"
#include "kernels/trace_forms.h"
#include "ops/structure_common.h"
#include "ops/trace_describe.h"

namespace etrace::trace_pass {

namespace {

static_assert(int(TraceForm::Step) == int(Form::Step) && int(TraceForm::Tiles) == int(Form::Tiles) &&
              int(TraceForm::Products) == int(Form::Products) && int(TraceForm::Rows) == int(Form::Rows) &&
              int(TraceForm::Lines) == int(Form::Lines) && int(TraceForm::Patches) == int(Form::Patches) &&
              int(TraceForm::Wide) == int(Form::Wide));

constexpr Index kProductSteps = 4;  // from so many steps on, products pay
constexpr Index kWideStates = 8;    // from so many on

// A trace, and the forms that fit it, the fastest first; the last one always does.
struct Fitting {
  explicit Fitting(const KernelRequest& r) : rows(describe(r)) {
    const etp_trace_window& d = rows.d;
    if (d.states >= kWideStates) {
      forms = {TraceForm::Wide};
    } else if (d.gathered != 0 && d.shared == 0) {
      forms = {TraceForm::Lines};
    } else {
      patches = describe_patches(r, d);
      if (patches) forms.push_back(TraceForm::Patches);
      if (is_one_dense_step(d)) forms.push_back(TraceForm::Step);
      if (are_dense_steps(d)) forms.push_back(TraceForm::Tiles);
      if (are_products(d)) forms.push_back(TraceForm::Products);
    }
    forms.push_back(TraceForm::Rows);
  }

  // The anchors of a row lie side by side, the row has one source, and no slots share a parameter.
  static bool is_dense(const etp_trace_window& d) {
    return d.gathered == 0 && d.states <= 2 && d.shared == 0 && d.has_gain == 0 && d.column_source == 0 &&
           d.column_anchor == 1;
  }
  static bool is_one_dense_step(const etp_trace_window& d) {
    return is_dense(d) && d.steps == 1 && d.has_gradient == d.has_weighted;
  }
  static bool are_dense_steps(const etp_trace_window& d) {
    return is_dense(d) && d.steps > 1 && d.elements > 0 && d.row_anchor == 0 &&
           (d.column_parameter == 1 || d.has_gradient == 0);
  }
  static bool are_products(const etp_trace_window& d) {
    return d.gathered == 0 && d.steps > 1 && d.elements > 0 && d.column_size <= 4096 &&
           ((d.column_source == 0 && d.row_anchor == 0) || (d.column_anchor == 0 && d.row_source == 0));
  }

  Described describe_for(TraceForm form, const KernelRequest& r) const {
    if (form == TraceForm::Patches) return *patches;
    if (form == TraceForm::Lines) return describe_lines(r, rows.d);
    if (form == TraceForm::Wide) return describe_wide(r, rows.d);
    return rows;
  }

  Described rows;
  std::optional<Described> patches;
  std::vector<TraceForm> forms;
};

// The form that is asked for, or the first that pays.
TraceForm form_of(const Fitting& f, const KernelRequest& r) {
  const Index steps = f.rows.d.steps;
  if (const std::string wanted = r.params.text_or("form", ""); !wanted.empty()) {
    const std::optional<TraceForm> form = trace_form(wanted);
    if (form && std::find(f.forms.begin(), f.forms.end(), *form) != f.forms.end()) return *form;
    structure::refuse("trace_window", "the form " + wanted + " does not fit a trace of type " +
                                          to_string(r.x(0)) + " in " + std::to_string(steps) + " steps");
  }
  return *std::find_if(f.forms.begin(), f.forms.end(), [&](TraceForm form) {
    return steps >= kProductSteps || (form != TraceForm::Tiles && form != TraceForm::Products);
  });
}

// What keeps a weight from the code for dense ones.
std::string not_dense(const etp_trace_window& d) {
  if (d.states > 2) return std::to_string(d.states) + " states at each position";
  if (d.has_gain != 0) return "every slot has a gain";
  if (d.elements == 0) return "slots have no source";
  if (d.shared != 0) return "positions share their parameter";
  return "a row of slots is no row of positions";
}

std::string reason_of(TraceForm form, const Fitting& f, const KernelRequest& r) {
  if (r.params.has("form")) return "as asked for";
  const std::string steps = std::to_string(f.rows.d.steps) + " steps";
  switch (form) {
    case TraceForm::Step:
      return "one step of a dense weight";
    case TraceForm::Tiles:
      return steps + " of a dense weight";
    case TraceForm::Products:
      return steps + ", and " + not_dense(f.rows.d);
    case TraceForm::Lines:
      return "tables name its slots";
    case TraceForm::Patches:
      return "its parameter feeds many positions";
    case TraceForm::Wide:
      return std::to_string(f.rows.d.states) + " states at each slot";
    case TraceForm::Rows:
      return f.forms.size() > 1 ? steps + " are too few for sums beforehand" : not_dense(f.rows.d);
  }
  return {};
}

// What threads take of a pass.
const char* parts_of(TraceForm form, const etp_trace_window& d) {
  switch (form) {
    case TraceForm::Lines:
      return "lines";
    case TraceForm::Patches:
    case TraceForm::Wide:
      return "positions";
    case TraceForm::Tiles:
      return "columns";
    default:
      if (form == TraceForm::Rows && d.matrices * d.row_size == 1) return "columns";
      return d.gathered != 0 ? "columns" : d.shared != 0 ? "rows of every position" : "rows";
  }
}

}  // namespace

Choice choice_of(const KernelRequest& r) {
  const Fitting f(r);
  const TraceForm form = form_of(f, r);
  const etp_trace_window& d = form == TraceForm::Patches ? f.patches->d : f.rows.d;
  Choice out{form, 1, reason_of(form, f, r)};
  out.threads = static_cast<int>(threads_of_form(static_cast<Form>(form), d, r.context.threads));
  if (r.params.has("threads"))
    out.reason += "; threads as asked for";
  else if (out.threads > 1)
    out.reason += std::string("; threads take ") + parts_of(form, d);
  else if (r.context.threads > 1)
    out.reason += "; too little work to divide";
  return out;
}

std::vector<TraceForm> forms_that_fit(const KernelRequest& r) { return Fitting(r).forms; }

Kernel make_kernel(const KernelRequest& r) {
  const Fitting f(r);
  const TraceForm form = form_of(f, r);
  Described described = f.describe_for(form, r);
  const Layout at(r.params);
  return named_kernel(NamedKernel::of(std::string("trace_") + name(form), described.d,
                                      {at.trace, at.transition, at.injection, at.source, at.gain, at.entry,
                                       at.weighted, at.go, at.total, at.rounding},
                                      std::move(described.tables)),
                      r.context);
}

}  // namespace etrace::trace_pass
