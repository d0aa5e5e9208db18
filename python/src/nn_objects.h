// Values that layers take: initialisers, surrogates, and how they are written again.
#pragma once

#include "bind.h"

namespace etrace::python {

// A function of the library and the call that made it: init.normal(0.1, 0.0).
struct MadeBy {
  std::string function;
  nb::tuple arguments;
  std::string text() const;                     // "normal(0.1, 0.0)"
  nb::tuple reduced(const char* module) const;  // for pickle
};
struct InitializerObject {
  nn::Initializer function;
  MadeBy made;
};
struct SurrogateObject {
  nn::Surrogate function;
  MadeBy made;
};

struct CurrentObject {
  nn::SynapticCurrent function;
  MadeBy made;
};

}  // namespace etrace::python
