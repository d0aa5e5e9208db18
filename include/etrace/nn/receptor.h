// Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole
// steps (the nearest number, at least one).
//   AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g
//   NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x
// Both are linear in g (and x), so that the step is exact.
#pragma once

#include "etrace/nn/constant.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct ReceptorOptions {
  Number alpha = 0.98, beta = 0.18;  // 1/(mM·ms), 1/ms
  Number T = 0.5;                    // mM
  Time T_dur = 0.5, dt = 0.1;
  Dtype dtype = Dtype::F32;
};
inline ReceptorOptions ampa_options() { return {}; }
inline ReceptorOptions gabaa_options() { return {.alpha = 0.53, .T = 1.0, .T_dur = 1.0}; }

// Hidden state g [size], the part of open channels; the input is 1 where a spike arrives and 0 elsewhere. The
// number of steps that transmitter is still there is the state `left`. Spikes act through a switch, so no
// gradient passes through them.
class AMPA : public Dynamics {
 public:
  using Options = ReceptorOptions;
  explicit AMPA(const Size& n, const ReceptorOptions& o = ampa_options()) : AMPA("AMPA", n, o) {}
  Array update(const Array& spikes) override;

  HiddenState& g;
  ShortTermState& left;

 protected:
  AMPA(const char* who, const Size&, const ReceptorOptions&);

 private:
  StepConstant alpha_, beta_, T_;
  Array T_dur_;  // steps
};

// As AMPA, with the constants of inhibition.
class GABAa : public AMPA {
 public:
  explicit GABAa(const Size& n, const ReceptorOptions& o = gabaa_options()) : AMPA("GABAa", n, o) {}
};

struct NMDAOptions {
  Number alpha1 = 2.0, beta1 = 0.01;  // 1/ms
  Number alpha2 = 1.0, beta2 = 0.5;   // 1/(mM·ms), 1/ms
  Number T = 1.0;                     // mM
  Time T_dur = 0.5, dt = 0.1;
  Dtype dtype = Dtype::F32;
};

// Hidden states g and x [size]; otherwise as AMPA.
class NMDA : public Dynamics {
 public:
  using Options = NMDAOptions;
  explicit NMDA(const Size&, const NMDAOptions& = {});
  Array update(const Array& spikes) override;

  HiddenState &g, &x;
  ShortTermState& left;

 private:
  StepConstant alpha1_, beta1_, alpha2_, beta2_, T_;
  Array T_dur_;  // steps
};

}  // namespace etrace::nn
#pragma GCC visibility pop
