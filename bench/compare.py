#!/usr/bin/env python3
"""etrace beside a peer on the same cores in one run: times per step, ratios and goals.

    compare.py --peer braintrace --etrace build/release/bin/etrace --venv build/peer/braintrace
    compare.py --peer torch --etrace … [--python PYTHON]

Row by row the peer runs first and etrace right after it, each in a process of its own. `./dev bench --peer NAME`
calls this. `--under 'taskset -c 1'` puts a command before both, for example to give them a core of their own.
Status 0, 2 for a peer that cannot be had.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What the recorded numbers were measured with.
PACKAGES = ['braintrace==0.2.6', 'brainstate==0.5.4', 'braintools==0.3.0', 'brainevent==0.2.1', 'jax==0.10.2',
            'jaxlib==0.10.2', 'numba==0.68.1']

# Ours (workload, rule, batch, form), the peer's row, and how many times faster we mean to be.
BRAINTRACE = [
    ('W1 D_RTRL 1 window', 'W1 D_RTRL 1', 3), ('W1 D_RTRL 32 window', 'W1 D_RTRL 32', 40),
    ('W2 D_RTRL 1 window', 'W2 D_RTRL 1', 2), ('W2 D_RTRL 32 window', 'W2 D_RTRL 32', 50),
    ('W3 D_RTRL 1 window', 'W3 D_RTRL 1', 100), ('W3 D_RTRL 32 window', 'W3 D_RTRL 32', 120),
    ('W3 pp_prop 1 window', 'W3 pp_prop 1', 5), ('W3 pp_prop 128 window', 'W3 pp_prop 128', 5),
    ('W3-saturated pp_prop 128 window', 'W3-saturated pp_prop 128', None),
    ('W5 D_RTRL 1 window', 'W5 D_RTRL 1', 6),
    ('W6 D_RTRL 8 window', 'W6 D_RTRL 8', 6), ('W6 pp_prop 8 window', 'W6 pp_prop 8', 6),
    ('W1 D_RTRL 32 window', 'W1 BPTT 32', 1), ('W2 D_RTRL 32 window', 'W2 BPTT 32', 1),
    ('W3 D_RTRL 32 window', 'W3 BPTT 32', 1), ('W3 pp_prop 128 window', 'W3 BPTT 128', 1),
    ('W1 BPTT 32 window', 'W1 BPTT 32', None), ('W2 BPTT 32 window', 'W2 BPTT 32', None),
    ('W3 BPTT 128 window', 'W3 BPTT 128', None),
    ('W1 latency 1', 'W1 latency 1', 20),
]
TORCH = [
    ('W1 D_RTRL 1 window', 'W1 BPTT 1', 1), ('W1 D_RTRL 32 window', 'W1 BPTT 32', 1),
    ('W2 D_RTRL 1 window', 'W2 BPTT 1', 1), ('W2 D_RTRL 32 window', 'W2 BPTT 32', 1),
    ('W3 pp_prop 1 window', 'W3 BPTT 1', 1), ('W3 pp_prop 128 window', 'W3 BPTT 128', 1),
    ('W3 D_RTRL 32 window', 'W3 BPTT 32', 1),
    ('W1 BPTT 32 window', 'W1 BPTT 32', None), ('W2 BPTT 32 window', 'W2 BPTT 32', None),
    ('W3 BPTT 128 window', 'W3 BPTT 128', None),
]


def give_up(text):
    print(f'compare: {text}', file=sys.stderr)
    sys.exit(2)


def braintrace_python(venv):
    """The interpreter of a virtual environment with the peer, made if need be."""
    python = pathlib.Path(venv) / 'bin' / 'python'
    if not python.exists():
        print(f'making a virtual environment with {PACKAGES[0]} in {venv}', flush=True)
        made = subprocess.run([sys.executable, '-m', 'venv', venv])
        if made.returncode != 0:
            give_up('python3 -m venv failed; on Debian: apt-get install python3-venv')
    if subprocess.run([python, '-c', 'import braintrace, brainevent, numba'], capture_output=True).returncode != 0:
        if subprocess.run([python, '-m', 'pip', 'install', '-q', *PACKAGES]).returncode != 0:
            give_up(f'pip could not install {" ".join(PACKAGES)}; its message is above. It needs PyPI or a mirror')
    return str(python)


def torch_python(python):
    if subprocess.run([python, '-c', 'import torch'], capture_output=True).returncode != 0:
        give_up(f'{python} has no PyTorch. Make a virtual environment (python3 -m venv DIR), install it there '
                '(DIR/bin/pip install torch), and give --python DIR/bin/python')
    return python


def peer_time(under, python, script, row):
    run = subprocess.run([*under, python, HERE / script, row], capture_output=True, text=True,
                         env={**os.environ, 'JAX_PLATFORMS': 'cpu'})
    if run.returncode != 0:
        return {'error': run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f'status {run.returncode}'}
    return json.loads(run.stdout.strip().splitlines()[-1])


def better(a, b):
    """The faster of two runs of a peer, each of its times by itself."""
    if a is None or 'error' in b:
        return b
    return {key: min(a[key], value) if isinstance(value, (int, float)) else value for key, value in b.items()}


def etrace_time(under, etrace, ours, threads):
    work, rule, batch = ours.split()[:3]
    choice = (['--latency', '--steps', '100000'] if rule == 'latency' else
              ['--part', 'workloads', '--only', work, '--rule', rule, '--batch', batch, '--form', 'window'])
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / 'out.json'
        subprocess.run([*under, etrace, 'bench', *choice, '--backend', 'native', '--threads', str(threads), '--json', out],
                       check=True, stdout=subprocess.DEVNULL)
        result = json.loads(out.read_text())
    if rule == 'latency':
        return result['latency'][0]['p50_us'], None
    return result['workloads'][0]['us_per_step'], result['workloads'][0]['window']


def start_rows(under, etrace, peers):
    """The first gradient: the peer's build and compile, without the run, against ours with it."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / 'out.json'
        subprocess.run([*under, etrace, 'bench', '--part', 'start', '--json', out], check=True, stdout=subprocess.DEVNULL)
        ours = json.loads(out.read_text())['start']
    for row in ours:
        peer = peers.get(f'{row["work"]} {row["rule"]} {row["batch"]}')
        if row['rule'] != 'D_RTRL' or not peer or 'compile_s' not in peer:
            continue
        seconds = peer['build_s'] + peer['compile_s']
        # Gradients by the interpreter, which begins at once; then native code until it is ready to run.
        for key, goal in (('first_step_ms', 10), ('first_window_ms', 10), ('cold_ready_ms', 1),
                          ('cached_ready_ms', 100)):
            yield f'{row["work"]} start {key[:-3]}', row[key] * 1e3, seconds * 1e6, goal


def line(ours, mine, peer, theirs, goal, window=None):
    ratio = theirs / mine
    ours += f' {window}' if window else ''  # steps at once, as the learner chose
    verdict = '' if goal is None else f'{goal:>6}  {"reached" if ratio >= goal else "missed"}'
    print(f'{ours:<36}{mine:>12.1f}   {peer:<26}{theirs:>12.1f}{ratio:>9.2f}{verdict}', flush=True)
    return {'ours': ours, 'window': window, 'us': mine, 'peer': peer, 'peer_us': theirs, 'ratio': ratio, 'goal': goal}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--peer', choices=['braintrace', 'torch'], required=True)
    parser.add_argument('--etrace', required=True)
    parser.add_argument('--venv', default='build/peer/braintrace')
    parser.add_argument('--python', default=sys.executable)
    parser.add_argument('--only', default='', help='rows that begin with one of these words, as in W1,W3')
    parser.add_argument('--under', default='', help='a command to run both under')
    parser.add_argument('--repeat', type=int, default=1, help='both sides in turn so many times, the best of each')
    parser.add_argument('--json', default='')
    o = parser.parse_args()
    python = braintrace_python(o.venv) if o.peer == 'braintrace' else torch_python(o.python)
    script, rows = (('peer_braintrace.py', BRAINTRACE) if o.peer == 'braintrace' else ('peer_torch.py', TORCH))
    under = o.under.split()
    threads = int(subprocess.run([*under, 'nproc'], capture_output=True, text=True, check=True).stdout)
    only = tuple(o.only.split(',')) if o.only else ('',)
    print(f'{o.peer} and etrace (native) on {threads} cores, microseconds per step')
    print(f'{"etrace":<36}{"":>12}   {o.peer:<26}{"":>12}{"ratio":>9}{"goal":>6}')
    results, peers = [], {}
    for ours, row, goal in rows:
        if not ours.startswith(only):
            continue
        known = row in peers
        mine, window = float('inf'), None
        for _ in range(o.repeat):
            if not known:
                peers[row] = better(peers.get(row), peer_time(under, python, script, row))
            if 'error' in peers[row]:
                break
            now, window = etrace_time(under, o.etrace, ours, threads)
            mine = min(mine, now)
        if 'error' in peers[row]:
            print(f'{ours:<36}{"":>12}   {row:<26}  failed: {peers[row]["error"]}', flush=True)
            continue
        results.append(line(ours, mine, row, peers[row]['us_per_step'], goal, window))
    if o.peer == 'braintrace':
        for name, mine, theirs, goal in start_rows(under, o.etrace, peers):
            results.append(line(name, mine, 'build and compile', theirs, goal))
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(results, indent=1) + '\n')


if __name__ == '__main__':
    main()
