/* The descriptors of kernels, each a list of fields: int64_t, so that a descriptor is written into emitted
 * code field by field, and read back by whoever has this list. What varies in length is no field but an
 * operand of the kernel, a table. */
#ifndef ETP_DESCRIPTORS_H
#define ETP_DESCRIPTORS_H

#include <stdint.h>

#define ETP_FIELD(name) int64_t name;
#define ETP_DESCRIPTOR(name, fields) \
  typedef struct name {              \
    fields(ETP_FIELD)                \
  } name;

/* matrix_product(a, b) -> c: C = A·B, or C += A·B, strides in elements:
 *   A[i,k] = a[i·a_row + k·a_depth], B[k,j] = b[k·b_depth + j·b_column], C[i,j] = c[i·c_row + j]
 * dtype: I32, I64, U32, F32, F64; integers wrap around. known: 1 + the number of the byte of
 * etp_context.known that says what the run knows of B, which no step of it writes; 0: B may change. */
/* clang-format off */
#define ETP_MATRIX_PRODUCT(F) \
  F(dtype) F(rows) F(columns) F(depth) F(a_row) F(a_depth) F(b_depth) F(b_column) F(c_row) F(onto) \
  F(known)
/* clang-format on */
ETP_DESCRIPTOR(etp_matrix_product, ETP_MATRIX_PRODUCT)

/* trace_step, trace_tiles, trace_products, trace_rows, trace_lines, trace_patches, trace_wide: one pass of
 * trace_window, each where its form fits. Operands, null where there is none: trace, transition, injection,
 * source, gain, entry, weighted, go, total, rounding, tables -> trace, gradient.
 * dtype is that of all numbers but the trace, which is `stored`. Slots are walked as matrices of rows and
 * columns; what a step along an axis adds to the places in source, anchor and parameter stands beside its
 * size. Tables, of int64 without further word:
 * - step, tiles, products, rows: outer axes [outer_axes][4]; if gathered, source, anchor, parameter by slot
 * - lines (of one anchor if by_anchor, else of one source), int32: the first slot of each line, the other
 *   place of each slot, its number (if not in_order)
 * - patches: places of rows (row_count) in data, slots and parameter, of columns (column_count) in data and
 *   parameter, of positions (position_count) in slots, source and anchors
 * - wide: the first slot of each position, slots, their sources and parameters, and (bytes) whether the slots
 *   of the next position stand beside those of this one */
/* clang-format off */
#define ETP_TRACE_WINDOW(F) \
  F(dtype) F(stored) F(batch) F(states) F(steps) F(positions) F(elements) F(slots) F(parameters) \
  F(has_gain) F(has_gradient) F(has_weighted) F(has_total) F(shared) F(gathered) F(outer_axes) F(matrices) \
  F(row_size) F(row_source) F(row_anchor) F(row_parameter) F(column_size) F(column_source) \
  F(column_anchor) F(column_parameter) F(by_anchor) F(in_order) F(anchored_columns) F(row_count) \
  F(column_count) F(position_count) F(wanted_threads)
/* clang-format on */
ETP_DESCRIPTOR(etp_trace_window, ETP_TRACE_WINDOW)

/* sparse_product(x [batch, rows], w [entries], lines) -> y [batch, columns], y = x·S(w);
 * sparse_gradient(x, y, lines) -> g [entries], g[p] = Σ_b x[b,row(p)]·y[b,column(p)]
 * Lines are tables of int32: where each column's entries begin (and the last one's end), the row of each
 * entry, and its number, unless the entries are in_order. */
#define ETP_SPARSE(F) F(dtype) F(batch) F(rows) F(columns) F(entries) F(in_order)
ETP_DESCRIPTOR(etp_sparse, ETP_SPARSE)

/* conv_direct(x, w, tables) -> y: the convolution where the features of the result lie side by side; features
 * and channels are those of one group. Every output position is a row of `width` features, of which the
 * kernel, if packed, has a copy. Tables: axes of the input [pad_axes][6] (size and stride before and after
 * padding, place of the first entry, distance), the points of an image (with one round: of all images) in x
 * and y, the taps of the kernel; of int32: where the terms of the inner sum lie in x and w, for `chunk`
 * channels and all taps. padded_size 0: x is read where it lies. */
/* clang-format off */
#define ETP_CONV_DIRECT(F) \
  F(dtype) F(groups) F(features) F(channels) F(taps) F(chunk) F(inner) F(pieces) F(rounds) F(points) \
  F(width) F(packed) F(x_image) F(x_channel) F(x_group) F(w_feature) F(w_channel) F(y_image) \
  F(padded_size) F(pad_axes) F(pad_first) F(pad_stretch)
/* clang-format on */
ETP_DESCRIPTOR(etp_conv_direct, ETP_CONV_DIRECT)

/* conv_patches(x, w, tables) -> y: any convolution, as matrix products with the patches that the window sees;
 * features and channels are those of one group. Tables: of int32, where each tap sees each position within a
 * channel of x, or -1 for a zero [taps][positions]; the taps in w, the positions in y. w_in_order,
 * y_in_order: they lie as features, channels, taps and as images, features, positions. */
/* clang-format off */
#define ETP_CONV_PATCHES(F) \
  F(dtype) F(images) F(groups) F(features) F(channels) F(taps) F(positions) F(x_image) F(x_channel) \
  F(x_group) F(w_feature) F(w_channel) F(w_in_order) F(y_image) F(y_feature) F(y_in_order)
/* clang-format on */
ETP_DESCRIPTOR(etp_conv_patches, ETP_CONV_PATCHES)

#endif /* ETP_DESCRIPTORS_H */
