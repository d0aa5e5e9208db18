"""Texts of the layers, by class: (formula, meaning, {option: (first value, meaning)}).

Written by tools/nn_docs.py from the headers; do not edit.
"""

DOCS = {
    'ALIF': (
        's = H((V − V_th − β·a)/(V_th − V_reset))\nV ← reset(V, s), a ← a + s;  τ dV/dt = −V + V_rest + R·I   τ_a da/dt = −a',
        'LIF neurons whose threshold rises with every spike. Hidden states V [size] and a [size]; the input is the\ncurrent I; returns the spikes of the new states.',
        {
            'tau': ('5.0', ''),
            'tau_a': ('100.0', ''),
            'dt': ('1.0', ''),
            'beta': ('0.1', ''),
            'R': ('1.0', ''),
            'V_th': ('1.0', ''),
            'V_reset': ('0.0', ''),
            'V_rest': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'AMPA': (
        'Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole\nsteps (the nearest number, at least one).\n  AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g\n  NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x\nBoth are linear in g (and x), so that the step is exact.',
        'Hidden state g [size], the part of open channels; the input is 1 where a spike arrives and 0 elsewhere. The\nnumber of steps that transmitter is still there is the state `left`. Spikes act through a switch, so no\ngradient passes through them.',
        {
            'alpha': ('0.98', '1/(mM·ms), 1/ms'),
            'beta': ('0.18', '1/(mM·ms), 1/ms'),
            'T': ('0.5', 'mM'),
            'T_dur': ('0.5', ''),
            'dt': ('0.1', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'AdEx': (
        's = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), w ← w + b·s\nτ dV/dt = −(V − V_rest) + Δ_T·e^((V − V_T)/Δ_T) − R·w + R·I   τ_w dw/dt = a·(V − V_rest) − w',
        'Adaptive exponential integrate-and-fire neurons. Hidden states V [size], at first V_rest, and w [size]; the\ninput is the current I; returns the spikes of the new states. V is cut at V_th: beyond it, it only runs off\nto infinity.',
        {
            'tau': ('10.0', ''),
            'tau_w': ('30.0', ''),
            'dt': ('0.1', ''),
            'R': ('1.0', ''),
            'V_rest': ('-65.0', ''),
            'V_reset': ('-68.0', ''),
            'V_th': ('-30.0', ''),
            'V_T': ('-59.9', ''),
            'delta_T': ('3.48', ''),
            'a': ('1.0', 'mA/mV'),
            'b': ('1.0', ''),
            'reset': ('Reset::Hard', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'method': ('Method::ExpEuler', ''),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'AdaptiveAvgPool1d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptiveAvgPool2d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptiveAvgPool3d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptiveMaxPool1d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptiveMaxPool2d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptiveMaxPool3d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AdaptivePool': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
        },
    ),
    'AlignPost': (
        'From the spikes of one population to the input of another, through a connection (comm), a synapse and an\noutput.\n  AlignPost   input = out(synapse(Σ comm(spikes)))    the synapse has the size of the receivers\n  AlignPre    input = out(Σ comm(synapse(spikes)))    the synapse has the size of the senders\nSynapses that are linear give the same either way; the smaller side takes less memory.',
        'Connections that end at one synapse, each with senders of its own:\n  AlignPost& exc = child<AlignPost>("exc", SynapticCurrent::coba(0.0));\n  exc.connect<Linear>(100, 50);  exc.connect<SparseLinear>(pattern);  exc.synapse<Expon>(50);\n  … neurons.step(fired, exc.input(Arrays{x, fired}) + inh.input(fired));\nPaths: comm/0/weight, syn/g. Without a synapse, what the connections give is the conductance.',
        {
        },
    ),
    'AlignPre': (
        'From the spikes of one population to the input of another, through a connection (comm), a synapse and an\noutput.\n  AlignPost   input = out(synapse(Σ comm(spikes)))    the synapse has the size of the receivers\n  AlignPre    input = out(Σ comm(synapse(spikes)))    the synapse has the size of the senders\nSynapses that are linear give the same either way; the smaller side takes less memory.',
        'One synapse per sender, and connections from it.',
        {
        },
    ),
    'AllToAll': (
        'y = x·W + b, without the diagonal of W unless `include_self`; with one weight for all: y_j = w·Σ_{i (≠ j)}\nx_i',
        'Every input to every output. One parameter `weight` with the leaves bias [out] and weight [in, out] or [1].',
        {
            'weight_init': ('init.kaiming_normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'include_self': ('True', 'false: neurons i and i are not connected'),
            'one_weight': ('False', 'one number for all connections; weight_init draws a vector of length 1'),
            'unit': ('None', 'of W'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Alpha': (
        'g ← e^(−dt/τ)·g + (1 − e^(−dt/τ))·h   h ← e^(−dt/τ)·h + x, with the old h in the first',
        'A synapse with a smooth rise. Hidden states g and h [size]; returns the new g, in the unit of x.',
        {
            'tau': ('8.0', ''),
            'dt': ('1.0', ''),
            'unit': ('units.mS', 'of x and g, where x has one'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'AvgPool1d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'AvgPool2d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'AvgPool3d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'BatchNorm': (
        'y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over batch and space; while evaluating, their running averages',
        'Samples have 0 to 3 axes of space; x must have a batch axis. One parameter `weight` with the leaves bias\nand scale [channels]; running_mean and running_variance [channels] are kept over resets. While the model\ntrains (model.train()) the batch counts and the running averages follow it.',
        {
            'momentum': ('0.99', 'running ← momentum·running + (1 − momentum)·that of the batch'),
            'epsilon': ('1e-5', ''),
            'scale': ('True', ''),
            'bias': ('True', ''),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'CELU': (
        '',
        '',
        {
        },
    ),
    'CFNCell': (
        'f = σ(Wf[x, h])   i = σ(Wi[x, h])   h ← f⊙φ(h) + i⊙φ(Wh x)',
        'The chaos-free network. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. No weight\nacts through another one, so all three are learned online.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'ConstantIn': (
        'Constants of neurons and synapses: one number, one per neuron, or learned.\n  .tau = 5.0, .tau = 5_ms              a number, in the unit that the option names\n  .tau = array({3, 5, 8}) * units::ms  one per neuron\n  .tau = learned(5_ms)                 a parameter with one entry per neuron, at first 5 ms',
        '',
        {
        },
    ),
    'Conv': (
        'y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space',
        'One parameter `weight` with the leaves bias [1, …, 1, out] ([out, 1, …, 1] with channels first) and weight\n[kernel…, in/groups, out], or in the order of the layout. x is one sample or a batch of them.',
        {
            'strides': ('(1,)', 'one per axis of space, or one for all; so are the dilations'),
            'padding': ("'SAME'", ''),
            'dilation': ('(1,)', 'of the kernel'),
            'input_dilation': ('(1,)', 'of x: zeros between its entries; needs padding by numbers'),
            'groups': ('1', 'of channels that see only each other'),
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'mask': ('None', 'fixed factor of K, broadcast to it; None: none'),
            'standardize': ('False', 'K standardised per output channel'),
            'channel_first': ('False', 'samples are [channels, space…] instead of [space…, channels]'),
            'layout': ('None', 'Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.'),
            'unit': ('None', 'of K'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Conv1d': (
        'y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space',
        '',
        {
            'strides': ('(1,)', 'one per axis of space, or one for all; so are the dilations'),
            'padding': ("'SAME'", ''),
            'dilation': ('(1,)', 'of the kernel'),
            'input_dilation': ('(1,)', 'of x: zeros between its entries; needs padding by numbers'),
            'groups': ('1', 'of channels that see only each other'),
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'mask': ('None', 'fixed factor of K, broadcast to it; None: none'),
            'standardize': ('False', 'K standardised per output channel'),
            'channel_first': ('False', 'samples are [channels, space…] instead of [space…, channels]'),
            'layout': ('None', 'Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.'),
            'unit': ('None', 'of K'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Conv2d': (
        'y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space',
        '',
        {
            'strides': ('(1,)', 'one per axis of space, or one for all; so are the dilations'),
            'padding': ("'SAME'", ''),
            'dilation': ('(1,)', 'of the kernel'),
            'input_dilation': ('(1,)', 'of x: zeros between its entries; needs padding by numbers'),
            'groups': ('1', 'of channels that see only each other'),
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'mask': ('None', 'fixed factor of K, broadcast to it; None: none'),
            'standardize': ('False', 'K standardised per output channel'),
            'channel_first': ('False', 'samples are [channels, space…] instead of [space…, channels]'),
            'layout': ('None', 'Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.'),
            'unit': ('None', 'of K'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Conv3d': (
        'y[b, s, k] = Σ_{u,c} x[b, s·stride + u·dilation, c]·K[u, c, k] + bias[k]    in 1 to 3 dimensions of space',
        '',
        {
            'strides': ('(1,)', 'one per axis of space, or one for all; so are the dilations'),
            'padding': ("'SAME'", ''),
            'dilation': ('(1,)', 'of the kernel'),
            'input_dilation': ('(1,)', 'of x: zeros between its entries; needs padding by numbers'),
            'groups': ('1', 'of channels that see only each other'),
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'mask': ('None', 'fixed factor of K, broadcast to it; None: none'),
            'standardize': ('False', 'K standardised per output channel'),
            'channel_first': ('False', 'samples are [channels, space…] instead of [space…, channels]'),
            'layout': ('None', 'Any other order: x, kernel and y by letters, such as {"NCHW", "HWIO", "NHWC"}, the batch in front. Sizes of samples then follow the letters of x; kernel sizes, strides, dilations and padding those of the kernel.'),
            'unit': ('None', 'of K'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'ConvGRUCell': (
        'The cells with convolutions in place of matrix products; x and h are images [space…, channels]:\n  ConvRNNCell    h ← φ(W[x, h])\n  ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])\n  ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)',
        'φ = tanh; as ConvRNNCell.',
        {
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dilation': ('(1,)', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'of cells with gates: as CellOptions::memory'),
        },
    ),
    'ConvLSTMCell': (
        'The cells with convolutions in place of matrix products; x and h are images [space…, channels]:\n  ConvRNNCell    h ← φ(W[x, h])\n  ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])\n  ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)',
        'φ = tanh; as ConvRNNCell, with the second hidden state c.',
        {
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dilation': ('(1,)', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'of cells with gates: as CellOptions::memory'),
        },
    ),
    'ConvRNNCell': (
        'The cells with convolutions in place of matrix products; x and h are images [space…, channels]:\n  ConvRNNCell    h ← φ(W[x, h])\n  ConvGRUCell    z = σ(Wz[x, h])   r = σ(Wr[x, h])   h ← (1 − z)⊙h + z⊙φ(Wh[x, r⊙h])\n  ConvLSTMCell   c ← σ(Wf[x, h] + 1)⊙c + σ(Wi[x, h])⊙φ(Wg[x, h])   h ← σ(Wo[x, h])⊙φ(c)',
        'φ = tanh. Samples x are [space…, in] in 1 to 3 dimensions, `in_size`; hidden state h [space…, out].',
        {
            'weight_init': ('init.xavier_normal()', ''),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dilation': ('(1,)', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'of cells with gates: as CellOptions::memory'),
        },
    ),
    'CurrentGif': (
        's = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), I2 ← I2 + A2·s\nτ_I2 dI2/dt = −I2   τ dV/dt = −V + V_rest + R·(I + I2), with the new I2',
        'LIF neurons with a slow current after each spike: the GIF neurons of working-memory models. Hidden states\nV [size] and I2 [size]; the input is the current I; returns the spikes of the new states.',
        {
            'tau': ('20.0', ''),
            'tau_I2': ('50.0', ''),
            'dt': ('1.0', ''),
            'A2': ('-1.0', 'below 0: spikes make further spikes less likely'),
            'R': ('1.0', ''),
            'V_th': ('1.0', ''),
            'V_reset': ('0.0', ''),
            'V_rest': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('True', 'no gradient flows through the spikes that reset V and drive I2'),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'DegreeOne': (
        '',
        'f(c·x) = c·f(x) for c > 0: keeps the unit of x.',
        {
        },
    ),
    'Delay': (
        'y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry',
        'The delay must be a whole number of steps (ValueError).',
        {
            'dt': ('1.0', ''),
            'memory': ('DelayMemory::Ring', ''),
            'unit': ('None', 'of x, if it has one'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'DelayLine': (
        'y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry',
        'What came in during the last steps. Delays are numbers of steps, up to `longest`.',
        {
        },
    ),
    'DelayedLinear': (
        'y(t) = x(t − d), zeros before the first step; d is the same for all, or one per entry',
        "y_j(t) = Σ_i w_ij·x_i(t − d_ij) + b_j: a delay per synapse. `delays` has one entry per entry of the\npattern. The weights come after the delay, so their own credit is that of a Linear, whatever keeps the\npast; memory='hidden' is for credit of what x comes from; x are numbers, as spikes are. One parameter\n`weight` with the leaves bias [out] and weight [nnz], in the pattern's order.",
        {
            'dt': ('1.0', ''),
            'memory': ('DelayMemory::Ring', ''),
            'weight_init': ('None', 'of the stored weights [nnz]; None: normal, variance 2/mean number of inputs'),
            'bias_init': ('None', 'None: no bias'),
            'unit': ('None', 'of the weights'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Dropout': (
        'y = x ⊙ m/p    m = 1 with probability p, else 0; drawn anew at every step',
        'Active while the model trains (model.train()); y = x while it is evaluated. The random key `key` goes on\nover resets.',
        {
            'keep': ('0.5', 'p, the probability with which an entry is kept'),
            'seed': ('0', ''),
        },
    ),
    'DualExpon': (
        'g_r ← e^(−dt/τ_r)·g_r + x   g_d ← e^(−dt/τ_d)·g_d + x   g = a·(g_d − g_r)\nBy default a makes the peak of one spike 1: a = τ_d/(τ_d − τ_r)·(τ_r/τ_d)^(τ_r/(τ_r − τ_d)). With A it is\nA·(τ_d − τ_r)/(τ_r·τ_d), in 1/ms, as in the reference system (whose default A is the first formula).',
        'A synapse that rises and decays. Hidden states g_rise and g_decay [size]; returns g, in the unit of x.',
        {
            'tau_decay': ('10.0', ''),
            'tau_rise': ('1.0', ''),
            'dt': ('1.0', ''),
            'A': ('None', 'none: the peak of one spike is 1, at the time between steps where it lies'),
            'unit': ('units.mS', 'of x and g, where x has one'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'Dynamics': (
        'Constants of neurons and synapses: one number, one per neuron, or learned.\n  .tau = 5.0, .tau = 5_ms              a number, in the unit that the option names\n  .tau = array({3, 5, 8}) * units::ms  one per neuron\n  .tau = learned(5_ms)                 a parameter with one entry per neuron, at first 5 ms',
        'A layer with constants and a time step: neurons and synapses.',
        {
        },
    ),
    'ELU': (
        '',
        '',
        {
        },
    ),
    'Embedding': (
        'y = T[x]',
        'A row of a table per whole number x. Parameter `weight` [rows, features], a bare array. x is one index or\n[batch]; more axes are folded and restored. Negative indices count from the end, others out of range give\nNaN.',
        {
            'weight_init': ('init.lecun_uniform()', ''),
            'unit': ('None', 'of T'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Expon': (
        'g ← e^(−dt/τ)·g + x',
        'A synapse whose conductance jumps and decays. Hidden state g [size]; returns the new g, in the unit of x.',
        {
            'tau': ('8.0', ''),
            'dt': ('1.0', ''),
            'unit': ('units.mS', 'of x and g, where x has one'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'FixedPool': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'Flatten': (
        'Flatten: […, a, b, c] -> […, a·b·c]     Unflatten: […, a·b·c] -> […, a, b, c]',
        "All axes of a sample into one. The sample's sizes are said, so that the batch is never guessed.",
        {
        },
    ),
    'GABAa': (
        'Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole\nsteps (the nearest number, at least one).\n  AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g\n  NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x\nBoth are linear in g (and x), so that the step is exact.',
        'As AMPA, with the constants of inhibition.',
        {
            'alpha': ('0.98', '1/(mM·ms), 1/ms'),
            'beta': ('0.18', '1/(mM·ms), 1/ms'),
            'T': ('0.5', 'mM'),
            'T_dur': ('0.5', ''),
            'dt': ('0.1', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'GELU': (
        '',
        '',
        {
        },
    ),
    'GLU': (
        '',
        '',
        {
        },
    ),
    'GRUCell': (
        'z = σ(Wz[x, h])   r = σ(Wr[x, h])   c = φ(Wh[x, r⊙h])   h ← (1 − z)⊙h + z⊙c',
        'φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'Gif': (
        's = H((V − V_th)/(V_th − V_reset))     V_th is a state\non a spike   I_j ← R_j·I_j + A_j   V_th ← max(V_th_reset, V_th)   V ← reset(V, s)\ndI_j/dt = −k_j·I_j   dV_th/dt = a·(V − V_rest) − b·(V_th − V_th_inf)   τ dV/dt = −(V − V_rest) + R·(I + I_1\n+ I_2) V follows the new I_1 and I_2; V_th follows V as the reset has left it',
        'Generalised integrate-and-fire neurons. Hidden states V, I1, I2, V_th [size], at first V_rest, 0, 0,\nV_th_inf; the input is the current I; returns the spikes of the new states.',
        {
            'tau': ('20.0', ''),
            'dt': ('1.0', ''),
            'R': ('20.0', ''),
            'V_rest': ('-70.0', ''),
            'V_reset': ('-70.0', ''),
            'V_th_inf': ('-50.0', ''),
            'V_th_reset': ('-60.0', ''),
            'a': ('0.0', '1/ms'),
            'b': ('0.01', '1/ms'),
            'k1': ('0.2', '1/ms'),
            'k2': ('0.02', '1/ms'),
            'R1': ('0.0', ''),
            'R2': ('1.0', ''),
            'A1': ('0.0', ''),
            'A2': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'GroupNorm': (
        'y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over space and the channels of one group',
        'Neighbouring channels form a group. One parameter `weight` with the leaves bias and scale [channels]. x is\none sample or a batch of them.',
        {
            'groups': ('32', ''),
            'epsilon': ('1e-6', ''),
            'scale': ('True', ''),
            'bias': ('True', ''),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'GroupedLinear': (
        'y[…, g, :] = x[…, g, :]·W[g] + b[g]',
        'Several Linear layers side by side; a trace smaller by the number of groups than that of the dense layer.\nOne parameter `weight` with the leaves bias [groups, out] and weight [groups, in, out]. x is [groups, in]\nor [batch, groups, in]; more leading axes are folded.',
        {
            'weight_init': ("init.kaiming_normal(init.'normal')", "One weight [in, out] per group: a group's fan is that of its own matrix."),
            'bias_init': ('init.zeros()', 'None: no bias'),
            'unit': ('None', 'of W'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'HardShrink': (
        '',
        '',
        {
        },
    ),
    'HardSiLU': (
        '',
        '',
        {
        },
    ),
    'HardSigmoid': (
        '',
        '',
        {
        },
    ),
    'HardTanh': (
        '',
        '',
        {
        },
    ),
    'HodgkinHuxley': (
        'C dV/dt = −g_Na·m³·h·(V − E_Na) − g_K·n⁴·(V − E_K) − g_L·(V − E_L) + I\ndx/dt = α_x(V)·(1 − x) − β_x(V)·x  for x = m, h, n\n  α_m = 0.1(V + 40)/(1 − e^(−(V + 40)/10))   β_m = 4·e^(−(V + 65)/18)\n  α_h = 0.07·e^(−(V + 65)/20)                β_h = 1/(1 + e^(−(V + 35)/10))\n  α_n = 0.01(V + 55)/(1 − e^(−(V + 55)/10))  β_n = 0.125·e^(−(V + 65)/80)\na spike: V rises through V_th',
        "Hodgkin and Huxley's neurons. Hidden states V, m, h, n [size], at first at rest for V_start; the input is\nthe current I in µA/cm²; returns 1 at the step at which V rises through V_th.",
        {
            'E_Na': ('50.0', ''),
            'E_K': ('-77.0', ''),
            'E_L': ('-54.387', ''),
            'g_Na': ('120.0', 'mS/cm²'),
            'g_K': ('36.0', 'mS/cm²'),
            'g_L': ('0.3', 'mS/cm²'),
            'C': ('1.0', 'µF/cm²'),
            'V_th': ('20.0', ''),
            'V_start': ('-65.0', ''),
            'dt': ('0.01', ''),
            'method': ('Method::ExpEuler', ''),
            'surrogate': ('surrogate.relu_grad()', ''),
            'surrogate_width': ('20.0', 'mV that count as 1 in the surrogate'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'IF': (
        's = H((V − V_th)/(V_th − V_reset))           the spikes of the step before\nτ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps\nreset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient\nFor a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)',
        "LIF neurons that rest at 0, as the reference system's IF (it leaks, too).",
        {
            'tau': ('5.0', ''),
            'dt': ('1.0', ''),
            'R': ('1.0', ''),
            'V_th': ('1.0', ''),
            'V_reset': ('0.0', ''),
            'V_rest': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'tau_ref': ('0.0', 'So long after a spike V stays where the reset has put it: the fewest steps that last as long.'),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'Identity': (
        '',
        '',
        {
        },
    ),
    'Izhikevich': (
        's = H((V − V_th)/(V_th − c))   V ← reset(V, s) to c, u ← u + d·s\ndV/dt = 0.04·V² + 5·V + 140 − u + I   du/dt = a·(b·V − u)',
        "Izhikevich's neurons; the defaults fire regularly and adapt, others give bursts, fast spikes and more.\nHidden states V [size], at first c, and u [size], at first b·c; the input is the current I in mV/ms;\nreturns the spikes of the new states. V is cut at V_th.",
        {
            'a': ('0.02', '1/ms'),
            'b': ('0.2', '1/ms'),
            'c': ('-65.0', ''),
            'V_th': ('30.0', ''),
            'd': ('8.0', 'mV/ms'),
            'dt': ('0.1', ''),
            'reset': ('Reset::Hard', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'method': ('Method::ExpEuler', ''),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'LIF': (
        's = H((V − V_th)/(V_th − V_reset))           the spikes of the step before\nτ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps\nreset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient\nFor a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)',
        'Leaky integrate-and-fire neurons. Hidden state V [size], at first V_rest; the input is the current I;\nreturns the spikes of the new V. With tau_ref the number of steps since the last spike, up to the period,\nis the state `since`. The constants may differ between neurons, and all but tau_ref be learned.',
        {
            'tau': ('5.0', ''),
            'dt': ('1.0', ''),
            'R': ('1.0', ''),
            'V_th': ('1.0', ''),
            'V_reset': ('0.0', ''),
            'V_rest': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'tau_ref': ('0.0', 'So long after a spike V stays where the reset has put it: the fewest steps that last as long.'),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'LIFLayer': (
        "A recurrent layer of LIF neurons: s = spikes of the step before, y = [x, s]·W + b, and\n  synapse='expon'   g ← e^(−dt/τ_syn)·g + y;  the current is g\n  synapse='delta'   y is added to V",
        "Hidden states V [out] and, with synapse='expon', g [out]; W and b are the parameter syn/weight. Returns the\nspikes of the new V.",
        {
            'neuron': ('None', ''),
            'synapse': ('Synapse::Expon', ''),
            'tau_syn': ('10.0', "not used by synapse='delta'"),
            'input_init': ('init.kaiming_normal()', 'Rows of W for the input [in, out] and for the spikes [out, out]: each block has its own fan.'),
            'recurrent_init': ('init.kaiming_normal()', 'Rows of W for the input [in, out] and for the spikes [out, out]: each block has its own fan.'),
            'input_scale': ('1.0', 'factors of what the initialisers give'),
            'recurrent_scale': ('1.0', 'factors of what the initialisers give'),
            'bias_init': ('init.zeros()', 'None: no bias'),
            'seed': ('0', ''),
        },
    ),
    'LIFRef': (
        's = H((V − V_th)/(V_th − V_reset))           the spikes of the step before\nτ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps\nreset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient\nFor a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)',
        'LIF neurons with a refractory period of 5 ms, unless the options name one.',
        {
            'tau': ('5.0', ''),
            'dt': ('1.0', ''),
            'R': ('1.0', ''),
            'V_th': ('1.0', ''),
            'V_reset': ('0.0', ''),
            'V_rest': ('0.0', ''),
            'reset': ('Reset::Soft', ''),
            'detached': ('False', "no gradient flows through the reset's spikes"),
            'tau_ref': ('0.0', 'So long after a spike V stays where the reset has put it: the fewest steps that last as long.'),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'LRUCell': (
        'λ = exp(−e^ν + i·e^θ)   h ← λ⊙h + e^γ⊙(B x)   y = Re(C h) + D⊙x\nin real numbers, with a = e^(−e^ν), b = e^θ:\n  h_re ← a·cos(b)⊙h_re − a·sin(b)⊙h_im + e^γ⊙(B_re x)   h_im ← a·sin(b)⊙h_re + a·cos(b)⊙h_im + e^γ⊙(B_im x)\n  y = C_re h_re − C_im h_im + D⊙x',
        'The linear recurrent unit: complex states whose transition is diagonal, so that D-RTRL is exact for all\nthat acts on them (ν, θ, γ, B_re, B_im). Hidden states h_re, h_im [hidden]; returns y [model]. Parameters\nnu_log, theta_log, gamma_log [hidden] and D [model], and the layers B_re, B_im, C_re, C_im without biases.',
        {
            'r_min': ('0.0', '|λ| at first: uniform over this ring'),
            'r_max': ('1.0', '|λ| at first: uniform over this ring'),
            'max_phase': ('6.28', 'the phase of λ at first: uniform in [0, max_phase)'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'LSTMCell': (
        'i = Wi[x, h]   g = Wg[x, h]   f = Wf[x, h]   o = Wo[x, h]\nc ← σ(f + 1)⊙c + σ(i)⊙φ(g)   h ← σ(o)⊙φ(c)',
        'φ = tanh, weights Xavier normal. Hidden states c [out] and h [out]; returns the new h. The 1 beside f lets\na fresh cell remember.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'Lambda': (
        '',
        'A function of one array as a module: net.add<Lambda>("relu"), net.add<Lambda>([](const Array& x) { … }).',
        {
        },
    ),
    'LayerNorm': (
        'y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: mean and variance over the last axes of a sample',
        'One parameter `weight` with the leaves bias and scale of the shape of the last axes; both are learned\nonline where they reach a hidden state. The variance takes two passes: in one, E[x²] − μ², rounding leaves\na rest that recurrences amplify.',
        {
            'axes': ('1', 'so many of the last ones'),
            'epsilon': ('1e-6', ''),
            'scale': ('True', ''),
            'bias': ('True', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'LeakyRateReadout': (
        'r ← e^(−dt/τ)·r + x·W',
        'Filtered rates of spikes, weighted. Parameter W [in, out], a bare array; hidden state r [out]; returns the\nnew r. W reaches a hidden state, so it has a trace of its own.',
        {
            'tau': ('5.0', ''),
            'dt': ('1.0', ''),
            'weight_init': ('init.kaiming_normal()', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'LeakyReLU': (
        '',
        '',
        {
        },
    ),
    'LeakySpikeReadout': (
        's = H((V − V_th)/V_th)   V ← V − V_th·s   τ dV/dt = −V + x·W',
        'Output neurons that spike. Parameter W [in, out], a bare array; hidden state V [out]; returns the spikes of\nthe new V.',
        {
            'tau': ('5.0', ''),
            'dt': ('1.0', ''),
            'V_th': ('1.0', ''),
            'reset': ('Reset::Soft', ''),
            'weight_init': ('init.kaiming_normal()', ''),
            'surrogate': ('surrogate.relu_grad()', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Linear': (
        'y = x·W + b',
        'One parameter `weight` with the leaves bias [out] and weight [in, out]. x is [in] or [batch, in]; more\nleading axes are folded into one and restored.',
        {
            'weight_init': ('init.kaiming_normal()', ''),
            'bias_init': ('init.zeros()', 'None: no bias'),
            'mask': ('None', 'fixed factor of W, broadcast to [in, out]; None: none'),
            'unit': ('None', 'of W'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'LinearDynamics': (
        'Constants of neurons and synapses: one number, one per neuron, or learned.\n  .tau = 5.0, .tau = 5_ms              a number, in the unit that the option names\n  .tau = array({3, 5, 8}) * units::ms  one per neuron\n  .tau = learned(5_ms)                 a parameter with one entry per neuron, at first 5 ms',
        'A layer that remembers x and is linear in it: what comes in and what goes out has one unit.',
        {
        },
    ),
    'LoRA': (
        'y = (1/R)·x·A·B (+ base(x))    A [in, R] = lora_a, B [R, out] = lora_b',
        'A weight of low rank, alone or beside another layer. One parameter `weight` with the leaves lora_a and\nlora_b. (The operator beneath, lora_matmul, calls the factor at the input B and the other A.)',
        {
            'factor_init': ('init.lecun_normal()', 'of both factors'),
            'unit': ('None', 'of A·B'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'LogSigmoid': (
        '',
        '',
        {
        },
    ),
    'LogSoftmax': (
        '',
        '',
        {
        },
    ),
    'MGUCell': (
        'f = σ(Wf[x, h])   c = φ(Wh[x, f⊙h])   h ← (1 − f)⊙h + f⊙c',
        'The minimal gated unit. φ = tanh, weights orthogonal. Hidden state h [out]; returns the new h. Wf acts on h\ndirectly and through Wh; the second way is not learned online.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'MaxPool1d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'MaxPool2d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'MaxPool3d': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        '',
        {
            'strides': ('None', 'one per axis of space, or one for all; None: the window'),
            'padding': ('None', 'Entries added before and after; one pair per axis, or one for all. Added entries never are the maximum.'),
            'count_padding': ('False', 'means: added entries count as zeros; false: they do not count'),
            'channel_first': ('False', 'a sample is [channels, space…] instead of [space…, channels]'),
        },
    ),
    'MiniGRU': (
        'z = σ(W_z[x, h])   h ← (1 − z)⊙h + z⊙φ(W_x x)',
        'φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. The candidate does not look at\nh, so both weights reach h directly and both are learned online.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'MiniLSTM': (
        'f = σ(W_f[x, h])   i = σ(W_i[x, h])   h ← f⊙h + i⊙φ(W_x x)',
        'φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. All three weights are learned\nonline.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'MinimalRNNCell': (
        'z = φ(phi(x))   u = σ(W_u[z, h])   h ← u⊙h + (1 − u)⊙z',
        'φ = identity, weights orthogonal. Hidden state h [out]; returns the new h. phi is a Linear; it acts on h\ndirectly and through W_u, of which the second is not learned online.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'Mish': (
        '',
        '',
        {
        },
    ),
    'NMDA': (
        'Receptors that transmitter opens for a while after each spike: on = 1 for T_dur from a spike on, in whole\nsteps (the nearest number, at least one).\n  AMPA, GABAa   dg/dt = α·T·on·(1 − g) − β·g\n  NMDA          dx/dt = α_2·T·on·(1 − x) − β_2·x   dg/dt = α_1·x·(1 − g) − β_1·g, with the new x\nBoth are linear in g (and x), so that the step is exact.',
        'Hidden states g and x [size]; otherwise as AMPA.',
        {
            'alpha1': ('2.0', '1/ms'),
            'beta1': ('0.01', '1/ms'),
            'alpha2': ('1.0', '1/(mM·ms), 1/ms'),
            'beta2': ('0.5', '1/(mM·ms), 1/ms'),
            'T': ('1.0', 'mM'),
            'T_dur': ('0.5', ''),
            'dt': ('0.1', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'Neuron': (
        'What spiking neurons share. A step takes the spikes of the step before (recomputed from the states),\nresets, integrates, adds what jumps, and returns the spikes of the new states.',
        '',
        {
        },
    ),
    'NumberLayer': (
        'What layers make of an input with a unit: they compute with mantissas, and their bases say what that means.\nLayers with weights: etrace/nn/weight_layer.h; neurons and synapses: etrace/nn/constant.h.',
        'Of numbers: x has no dimension (kHz·ms is 1), else UnitError.',
        {
        },
    ),
    'OneToOne': (
        'y = x ⊙ w + b',
        'Every input to the output of its number. One parameter `weight` with the leaves bias and weight of the size\nof one sample, which may have several axes.',
        {
            'weight_init': ('init.normal()', ''),
            'bias_init': ('None', 'None: no bias'),
            'unit': ('None', 'of w'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'PReLU': (
        'y = x where x ≥ 0, else a·x',
        'relu with a slope that is learned, also online. Parameter `slope` [1] or [features].',
        {
            'slope': ('0.25', 'at first'),
            'per_feature': ('False', 'one slope per entry of the last axis; false: one for all'),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'Parallel': (
        'Layers made of layers. Sequential (etrace/module.h) is y = f_n(… f_1(x));\nResidual: y = x + f(x)     Parallel: y = f_1(x) + … + f_n(x), or the results joined on the last axis',
        'The same input to every branch: net.add<Linear>(3, 5); net.add<GRUCell>(3, 5). Paths: branches/0/weight.',
        {
        },
    ),
    'Pool': (
        'Pooling over windows of space, in 1 to 3 dimensions.\n  AvgPool: the mean of a window   MaxPool: its largest value; of equal ones, the first has the derivative\n  AdaptiveAvgPool, AdaptiveMaxPool: as many windows as asked for; window i of m on n entries is\n  [⌊i·n/m⌋, ⌈(i+1)·n/m⌉)',
        'One axis after the other, which gives the same as whole windows. x is one sample or a batch of them.',
        {
        },
    ),
    'RMSNorm': (
        'y = x/√(mean(x²) + ε) ⊙ scale    over the last axes of a sample',
        'One parameter `weight` with the leaf scale; the option bias is not used.',
        {
            'axes': ('1', 'so many of the last ones'),
            'epsilon': ('1e-6', ''),
            'scale': ('True', ''),
            'bias': ('True', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'ReLU': (
        '',
        '',
        {
        },
    ),
    'ReLU6': (
        '',
        '',
        {
        },
    ),
    'Residual': (
        'Layers made of layers. Sequential (etrace/module.h) is y = f_n(… f_1(x));\nResidual: y = x + f(x)     Parallel: y = f_1(x) + … + f_n(x), or the results joined on the last axis',
        'x and what the layers, one after the other, make of it; both must have one shape. States have paths such as\nlayers/0/h.',
        {
        },
    ),
    'SELU': (
        '',
        '',
        {
        },
    ),
    'STD': (
        'Synapses whose strength depends on what they have just done; s: spikes that arrive.\n  STD   x⁻ = 1 + (x − 1)·e^(−dt/τ)   x ← x⁻ − s·U·x_old                              passes on x·s\n  STP   u⁻ = u·e^(−dt/τ_f)   x⁻ = 1 + (x − 1)·e^(−dt/τ_d)\n        u ← u⁻ + s·U·(1 − u_old)   x ← x⁻ − s·u_new·x_old                            passes on u·x·s',
        'Short-term depression. Hidden state x [size], at first 1: the share of vesicles that is left.',
        {
            'tau': ('200.0', ''),
            'dt': ('1.0', ''),
            'U': ('0.07', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'STP': (
        'Synapses whose strength depends on what they have just done; s: spikes that arrive.\n  STD   x⁻ = 1 + (x − 1)·e^(−dt/τ)   x ← x⁻ − s·U·x_old                              passes on x·s\n  STP   u⁻ = u·e^(−dt/τ_f)   x⁻ = 1 + (x − 1)·e^(−dt/τ_d)\n        u ← u⁻ + s·U·(1 − u_old)   x ← x⁻ − s·u_new·x_old                            passes on u·x·s',
        'Short-term facilitation and depression. Hidden states u [size], at first U, and x [size], at first 1.',
        {
            'tau_f': ('1500.0', ''),
            'tau_d': ('200.0', ''),
            'dt': ('1.0', ''),
            'U': ('0.15', ''),
            'dtype': ('Dtype::F32', ''),
        },
    ),
    'SameUnitLayer': (
        'What layers make of an input with a unit: they compute with mantissas, and their bases say what that means.\nLayers with weights: etrace/nn/weight_layer.h; neurons and synapses: etrace/nn/constant.h.',
        'Moves entries, or is of degree one, f(c·x) = c·f(x) for c > 0: the result has the unit of x.',
        {
        },
    ),
    'ScaleFreeLayer': (
        'What layers make of an input with a unit: they compute with mantissas, and their bases say what that means.\nLayers with weights: etrace/nn/weight_layer.h; neurons and synapses: etrace/nn/constant.h.',
        'Divides by the scale of x: any unit will do, and the result is a number.',
        {
        },
    ),
    'ScaledWSLinear': (
        'y = (x·(ŵ ⊙ mask)) ⊙ gain + b    ŵ: the weights standardised per output\n',
        'One parameter `weight` with the leaves bias [out], gain [1, out] (at first 1) and weight [in, out]. Gain\nand bias are learned online too.',
        {
            'weight_init': ('init.kaiming_normal()', ''),
            'bias_init': ('init.zeros()', 'None: no bias'),
            'mask': ('None', 'fixed factor of ŵ, broadcast to [in, out]; None: none'),
            'gain': ('True', ''),
            'epsilon': ('1e-4', ''),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'SiLU': (
        '',
        '',
        {
        },
    ),
    'Sigmoid': (
        '',
        '',
        {
        },
    ),
    'SignedWLinear': (
        'y = x·(|W| ⊙ sign)',
        'Weights that keep their sign. Parameter `weight` [in, out], a bare array; no bias. The derivative of |W| at\n0 is 0.',
        {
            'weight_init': ('init.kaiming_normal()', ''),
            'sign': ('None', "broadcast to [in, out]; None: +1 everywhere. A column [in, 1] of ±1 is Dale's law"),
            'unit': ('None', 'of W'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'SoftShrink': (
        '',
        '',
        {
        },
    ),
    'SoftSign': (
        '',
        '',
        {
        },
    ),
    'Softmax': (
        '',
        '',
        {
        },
    ),
    'Softmin': (
        '',
        '',
        {
        },
    ),
    'Softplus': (
        '',
        '',
        {
        },
    ),
    'SparseLinear': (
        'y = x·sparse(w) + b, or sparse(|w| ⊙ sign)',
        "Weights at fixed places [in, out] only; et.nn.connect draws such patterns. One parameter `weight`\nwith the leaves bias [out] and weight [nnz], in the pattern's order.",
        {
            'weight_init': ('None', 'Of the stored weights [nnz]; None: normal with variance 2 / mean number of inputs of an output.'),
            'bias_init': ('None', 'None: no bias'),
            'sign': ('None', 'per stored weight; None: weights of either sign'),
            'unit': ('None', 'of w'),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
        },
    ),
    'Tanh': (
        '',
        '',
        {
        },
    ),
    'TanhShrink': (
        '',
        '',
        {
        },
    ),
    'Threshold': (
        '',
        '',
        {
        },
    ),
    'URLSTMCell': (
        'f = σ(Wf[x, h] + β)   r = σ(Wr[x, h] − β)   q = 2rf + (1 − 2r)f²\nc ← q⊙c + (1 − q)⊙φ(Wu[x, h])   h ← σ(Wo[x, h])⊙φ(c)',
        'The LSTM with refined gates. φ = tanh, weights Xavier normal, no biases but β [out], the parameter `bias`:\nσ(β) is at first uniform in (1/out, 1 − 1/out), so that units forget at many speeds. Hidden states c [out]\nand h [out]; returns the new h.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'Unflatten': (
        'Flatten: […, a, b, c] -> […, a·b·c]     Unflatten: […, a·b·c] -> […, a, b, c]',
        'The last axis into several.',
        {
        },
    ),
    'VanillaRNNCell': (
        'h ← φ(W[x, h])',
        'φ = relu, W Xavier normal. Hidden state h [out]; returns the new h.',
        {
            'weight_init': ('None', "None: the cell's own"),
            'bias_init': ('init.zeros()', 'None: no biases'),
            'activation': ('None', "None: the cell's own"),
            'dtype': ('Dtype::F32', ''),
            'seed': ('0', ''),
            'memory': ('0.0', 'For how many steps units shall hold what they have taken in, at the start. Gates then begin with biases that differ from unit to unit (±log u with u uniform in (1, memory): chrono initialisation), a layer without gates with the identity between its units. 0: as weight_init and bias_init give them.'),
        },
    ),
    'WeightLayer': (
        'What layers with weights share: units. A layer computes with mantissas; `unit` says what its weights mean.',
        '',
        {
        },
    ),
}
