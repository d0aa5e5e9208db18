"""Models of braintrace: every recurrent part of braintrace.nn, and every neuron and synapse of brainpy.state that can be
a model's part, between an input and a readout."""

import brainpy
import brainstate
import braintools
import braintrace
import jax.numpy as jnp
import saiunit as u

INPUTS, UNITS, OUTPUTS = 3, 4, 2

brainstate.environ.set(precision=64, dt=1.0 * u.ms)


def number(value):
    return getattr(value, "mantissa", value)


class Cell(brainstate.nn.Module):
    def __init__(self, cell, size=UNITS):
        super().__init__()
        self.cell = cell
        self.out = braintrace.nn.Linear(size, OUTPUTS)

    def update(self, x):
        return self.out(self.cell(x))


class Spiking(brainstate.nn.Module):
    """Current from inputs and spikes, a neuron, its spikes to the readout."""

    def __init__(self, neuron, unit=u.mA, scale=5.0):
        super().__init__()
        self.into = braintrace.nn.Linear(INPUTS + UNITS, UNITS, w_init=braintools.init.KaimingNormal(scale=scale))
        self.neuron, self.unit = neuron, unit
        self.out = braintrace.nn.Linear(UNITS, OUTPUTS)

    def update(self, x):
        spikes = number(self.neuron.get_spike())
        self.neuron(self.into(jnp.concatenate([x, spikes], -1)) * self.unit)
        return self.out(number(self.neuron.get_spike()))


class Refractory(Spiking):
    """The same for neurons that ask for the time."""

    def __init__(self, neuron, unit=u.mA):
        super().__init__(neuron, unit)
        self.steps = brainstate.ShortTermState(jnp.zeros(()))

    def update(self, x):
        with brainstate.environ.context(t=self.steps.value * u.ms):
            out = super().update(x)
        self.steps.value = self.steps.value + 1.0
        return out


class Analog(Spiking):
    """The same, with the membrane potential to the readout."""

    def update(self, x):
        self.neuron(self.into(jnp.concatenate([x, 0.01 * number(self.neuron.V.value)], -1)) * self.unit)
        return self.out(0.01 * number(self.neuron.V.value))


class Synaptic(brainstate.nn.Module):
    """Inputs through a synapse into a neuron, with recurrent spikes."""

    def __init__(self, synapse, unit):
        super().__init__()
        self.neuron = brainpy.state.LIF(UNITS, R=1.0 * u.ohm, tau=20.0 * u.ms, V_th=1.0 * u.mV, V_reset=0.0 * u.mV,
                                        V_rest=0.0 * u.mV)
        self.into = braintrace.nn.Linear(INPUTS + UNITS, UNITS, w_init=braintools.init.KaimingNormal(scale=5.0))
        self.synapse, self.unit = synapse, unit
        self.out = braintrace.nn.Linear(UNITS, OUTPUTS)

    def update(self, x):
        spikes = number(self.neuron.get_spike())
        current = number(self.synapse(self.into(jnp.concatenate([x, spikes], -1)) * self.unit))
        self.neuron(current * u.mA)
        return self.out(number(self.neuron.get_spike()))


class Projected(brainstate.nn.Module):
    """brainpy's aligned projection: the synapse lives at its target."""

    def __init__(self, synapse, out):
        super().__init__()
        self.neuron = brainpy.state.LIF(UNITS, R=1.0 * u.ohm, tau=20.0 * u.ms, V_th=1.0 * u.mV, V_reset=0.0 * u.mV,
                                        V_rest=0.0 * u.mV)
        self.projection = brainpy.state.AlignPostProj(
            comm=braintrace.nn.Linear(INPUTS + UNITS, UNITS, w_init=braintools.init.KaimingNormal(scale=5.0, unit=u.mS),
                                      b_init=None),
            syn=synapse, out=out, post=self.neuron)
        self.out = braintrace.nn.Linear(UNITS, OUTPUTS)

    def update(self, x):
        self.projection(jnp.concatenate([x, number(self.neuron.get_spike())], -1))
        self.neuron(0.0 * u.mA)
        return self.out(number(self.neuron.get_spike()))


def _models():
    nn, state = braintrace.nn, brainpy.state
    for name in ("ValinaRNNCell GRUCell MGUCell LSTMCell URLSTMCell MinimalRNNCell MiniGRU MiniLSTM CFNCell "
                 "LeakyRateReadout").split():
        yield name, lambda name=name: Cell(getattr(nn, name)(INPUTS, UNITS))
    yield "LRUCell", lambda: Cell(nn.LRUCell(INPUTS, UNITS), INPUTS)
    for name in "IF LIF ALIF ExpIF AdExIF QuaIF AdQuaIF Gif".split():
        yield name, lambda name=name: Spiking(getattr(state, name)(UNITS))
    for name in "LIFRef ExpIFRef AdExIFRef AdQuaIFRef GifRef".split():
        yield name, lambda name=name: Refractory(getattr(state, name)(UNITS))
    yield "Izhikevich", lambda: Spiking(state.Izhikevich(UNITS), u.mV / u.ms)
    yield "IzhikevichRef", lambda: Refractory(state.IzhikevichRef(UNITS), u.mV / u.ms)
    for name, unit in (("HH", u.nA), ("MorrisLecar", u.uA), ("WangBuzsakiHH", u.uA), ("FitzHughNagumo", 1.0),
                       ("HindmarshRose", 1.0)):
        yield name, lambda name=name, unit=unit: Analog(getattr(state, name)(UNITS), unit)
    for name, unit in (("Expon", u.mS), ("Alpha", u.mS), ("DualExpon", u.mS), ("STP", 1.0), ("STD", 1.0)):
        yield "synapse_" + name, lambda name=name, unit=unit: Synaptic(getattr(state, name)(UNITS), unit)
    yield "projection_CUBA", lambda: Projected(state.Expon.desc(UNITS, tau=5.0 * u.ms), state.CUBA.desc())


MODELS = dict(_models())


def make(name):
    """The model; its weights are the same every time."""
    brainstate.random.seed(3)
    return MODELS[name]()
