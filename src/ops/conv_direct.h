// The convolution without copies of patches, where the features of the result lie side by side. Private to
// ops/.
#pragma once

#include "ops/conv_kernel.h"

namespace etrace {

// Result and kernel in float32 or float64, features of the result side by side, no cropping.
bool direct_conv_fits(const KernelRequest&, const ConvOptions&);
Kernel direct_conv_kernel(const KernelRequest&, const ConvOptions&);

}  // namespace etrace
