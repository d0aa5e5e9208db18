// What every form of trace_window shares: the flag that stops a pass, and the gradient so far.
#include "kernels/trace_forms.h"

#include <cstring>

#include "kernels/trace_storage.h"

namespace etrace::trace_pass {

namespace {

template <class T>
FormCode<T> code_of(Form form) {
  switch (form) {
    case Form::Step:
      return step_form<T>();
    case Form::Tiles:
      return tiles_form<T>();
    case Form::Products:
      return products_form<T>();
    case Form::Rows:
      return rows_form<T>();
    case Form::Lines:
      return lines_form<T>();
    case Form::Patches:
      return patches_form<T>();
    default:
      return wide_form<T>();
  }
}

template <class F>
auto with_type(const etp_trace_window& d, const F& f) {
  return d.dtype == ETP_F32 ? f(float{}) : f(double{});
}

template <class T>
Buffers<T> buffers_of(const etp_trace_window& d, const void* const* in, void* const* out) {
  const auto operand = [&](Operand i) { return static_cast<const T*>(in[i]); };
  return {static_cast<const std::byte*>(in[kTrace]),
          operand(kTransition),
          operand(kInjection),
          operand(kSource),
          operand(kGain),
          operand(kEntry),
          operand(kWeighted),
          operand(kTotal),
          static_cast<const std::uint32_t*>(in[kRounding]),
          static_cast<std::byte*>(out[0]),
          d.has_gradient != 0 ? static_cast<T*>(out[1]) : nullptr,
          storage_of<T>(d.stored)};
}

// A pass that does not go on leaves everything as it is.
template <class T>
void stay(const etp_trace_window& d, const Buffers<T>& b) {
  const auto bytes = static_cast<std::size_t>(d.batch * d.states * d.slots) * b.storage.bytes;
  if (b.next != b.trace) std::memcpy(b.next, b.trace, bytes);
  if (b.gradient == nullptr) return;
  if (b.total == nullptr)
    std::fill_n(b.gradient, d.parameters, T(0));
  else if (b.gradient != b.total)
    std::copy_n(b.total, d.parameters, b.gradient);
}

template <class T>
bool waits(const FormCode<T>& code, const etp_trace_window& d) {  // the gradient so far, for the window's own
  return d.has_total != 0 && !code.adds_total(d);
}

template <class T>
void run_as(const FormCode<T>& code, const etp_trace_window& d, const etp_context& context,
            const void* const* in, void* const* out, void* scratch) {
  Buffers<T> b = buffers_of<T>(d, in, out);
  if (in[kGo] != nullptr && *static_cast<const std::uint8_t*>(in[kGo]) == 0) return stay(d, b);
  if (!waits(code, d)) return code.run(d, context, in, b, scratch);
  T* const gradient = b.gradient;
  const T* const total = b.total;
  T* const window = b.gradient = static_cast<T*>(scratch);
  b.total = nullptr;
  code.run(d, context, in, b, static_cast<std::byte*>(scratch) + whole_lines<T>(d.parameters));
  const Index parts = parts_of_work(d.parameters, context.threads);
  in_parts(context, parts, [&](int part) {
    for (Index i = d.parameters * part / parts; i < d.parameters * (part + 1) / parts; ++i)
      gradient[i] = total[i] + window[i];
  });
}

}  // namespace

template <Form F>
void run_form(const void* descriptor, const etp_context* context, const void* const* in, void* const* out,
              void* scratch) {
  const auto& d = *static_cast<const etp_trace_window*>(descriptor);
  with_type(d, [&]<class T>(T) { run_as(code_of<T>(F), d, *context, in, out, scratch); });
}

template <Form F>
std::size_t form_scratch_bytes(const void* descriptor, std::int64_t threads) {
  const auto& d = *static_cast<const etp_trace_window*>(descriptor);
  return with_type(d, [&]<class T>(T) {
    const FormCode<T> code = code_of<T>(F);
    return code.scratch_bytes(d, threads) + (waits(code, d) ? whole_lines<T>(d.parameters) : 0);
  });
}

Index threads_of_form(Form form, const etp_trace_window& d, Index threads) {
  return with_type(d, [&]<class T>(T) { return code_of<T>(form).threads(d, threads); });
}

#define ETP_FORM(F)                                                                                          \
  template void run_form<Form::F>(const void*, const etp_context*, const void* const*, void* const*, void*); \
  template std::size_t form_scratch_bytes<Form::F>(const void*, std::int64_t);
ETP_FORM(Step)
ETP_FORM(Tiles)
ETP_FORM(Products)
ETP_FORM(Rows)
ETP_FORM(Lines)
ETP_FORM(Patches)
ETP_FORM(Wide)
#undef ETP_FORM

}  // namespace etrace::trace_pass
