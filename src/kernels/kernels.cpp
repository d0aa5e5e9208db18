#include "kernels/kernels.h"

#include <utility>

#include "etrace/aval.h"
#include "kernels/trace_forms.h"

namespace etrace {

namespace {

static_assert(ETP_BOOL == int(Dtype::Bool) && ETP_I32 == int(Dtype::I32) && ETP_I64 == int(Dtype::I64) &&
              ETP_U32 == int(Dtype::U32) && ETP_F16 == int(Dtype::F16) && ETP_BF16 == int(Dtype::BF16) &&
              ETP_F32 == int(Dtype::F32) && ETP_F64 == int(Dtype::F64));

#define ETP_NAME(name) #name,
constexpr std::string_view kMatrixProduct[] = {ETP_MATRIX_PRODUCT(ETP_NAME)};
constexpr std::string_view kConvDirect[] = {ETP_CONV_DIRECT(ETP_NAME)};
constexpr std::string_view kConvPatches[] = {ETP_CONV_PATCHES(ETP_NAME)};
constexpr std::string_view kSparse[] = {ETP_SPARSE(ETP_NAME)};
constexpr std::string_view kTraceWindow[] = {ETP_TRACE_WINDOW(ETP_NAME)};
#undef ETP_NAME

using trace_pass::Form;
constexpr std::pair<std::uint8_t, std::uint8_t> kTraceInPlace[] = {{0, trace_pass::kTrace},
                                                                   {1, trace_pass::kTotal}};
template <Form F>
constexpr KernelRow trace_row(std::string_view name) {
  return {name,
          "etp_trace_window",
          kTraceWindow,
          trace_pass::run_form<F>,
          trace_pass::form_scratch_bytes<F>,
          kTraceInPlace,
          kHostCpu};
}

constexpr KernelRow kRows[] = {
    {"matrix_product",
     "etp_matrix_product",
     kMatrixProduct,
     run_matrix_product,
     matrix_product_scratch,
     {},
     kHostCpu | kCudaDevice},
    {"conv_direct", "etp_conv_direct", kConvDirect, run_conv_direct, conv_direct_scratch, {}, kHostCpu},
    {"conv_patches", "etp_conv_patches", kConvPatches, run_conv_patches, conv_patches_scratch, {}, kHostCpu},
    {"sparse_product", "etp_sparse", kSparse, run_sparse_product, sparse_scratch, {}, kHostCpu},
    {"sparse_gradient", "etp_sparse", kSparse, run_sparse_gradient, sparse_scratch, {}, kHostCpu},
    trace_row<Form::Step>("trace_step"),
    trace_row<Form::Tiles>("trace_tiles"),
    trace_row<Form::Products>("trace_products"),
    trace_row<Form::Rows>("trace_rows"),
    trace_row<Form::Lines>("trace_lines"),
    trace_row<Form::Patches>("trace_patches"),
    trace_row<Form::Wide>("trace_wide"),
};

}  // namespace

std::span<const KernelRow> kernel_rows() { return kRows; }

const KernelRow* find_kernel(std::string_view name) {
  for (const KernelRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace etrace
