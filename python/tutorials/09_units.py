"""Physical units: they are checked while a model is made and recorded, and cost nothing when it runs.

last line: a current where a voltage belongs is refused
"""

import numpy as np

import etrace as et

ms, mV, mA, ohm, mS = et.units.ms, et.units.mV, et.units.mA, et.units.ohm, et.units.mS

# Quantities are arrays with a unit.
tau = 20 * ms
print(tau, "=", tau.to(et.units.s), "s;", (5 * mA) * (2 * ohm))

# Options of neurons take them; other units of the same dimension are converted.
neurons = et.nn.LIF(4, tau=tau, V_th=20 * mV, V_reset=0 * mV, V_rest=0 * mV, R=np.array([4.0, 5.0, 6.0, 7.0]) * ohm)
et.init_all_states(neurons)
for _ in range(30):
    spikes = neurons(np.full(4, 4.0, np.float32) * mA)
print("V:", np.asarray(neurons.V.value).round(2), "mV; spikes:", np.asarray(spikes))

# Weights have units, too: mS times mV is a current.
synapse = et.nn.Linear(2, 2, unit=mS, weight_init=1.0)
print(synapse(np.ones(2, np.float32) * mV).to(et.units.uA))

# A constant that is learned starts from a quantity.
learned = et.nn.LIF(4, tau=et.nn.learned(10 * ms))
print("parameters:", list(et.params(learned)))

try:
    et.nn.LIF(4, V_th=20 * mA)
except et.UnitError as error:
    print(error)
    print("a current where a voltage belongs is refused")
