// The forms of trace_window, each a kernel: what is told apart is where slots point, not what is computed.
#pragma once

#include "kernels/trace_geometry.h"

#pragma GCC visibility push(default)
namespace etrace::trace_pass {

enum class Form : std::uint8_t { Step, Tiles, Products, Rows, Lines, Patches, Wide };

// As the table of kernels has them.
template <Form F>
void run_form(const void* descriptor, const etp_context*, const void* const* in, void* const* out,
              void* scratch);
template <Form F>
std::size_t form_scratch_bytes(const void* descriptor, std::int64_t threads);

// Among how many threads a pass divides its work.
Index threads_of_form(Form, const etp_trace_window&, Index threads);

// What the order of sums over positions that share a parameter follows from, beside the geometry: rows of
// slots pass in blocks of so many, each with all samples; patches in chunks of positions, as many as the
// sizes say.
inline constexpr Index kRowsOfABlock = 48;
Index patch_chunks(const etp_trace_window&);

// Their code.
template <class T>
FormCode<T> step_form();  // trace_rows.cpp
template <class T>
FormCode<T> tiles_form();
template <class T>
FormCode<T> products_form();  // trace_rows.cpp
template <class T>
FormCode<T> rows_form();
template <class T>
FormCode<T> lines_form();
template <class T>
FormCode<T> patches_form();
template <class T>
FormCode<T> wide_form();

}  // namespace etrace::trace_pass
#pragma GCC visibility pop
