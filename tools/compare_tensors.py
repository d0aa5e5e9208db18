#!/usr/bin/env python3
"""Whether two safetensors files hold the same floats to a tolerance, relative to the largest of each tensor.

    compare_tensors.py A B TOLERANCE
"""
import array
import json
import struct
import sys

TYPES = {'F32': 'f', 'F64': 'd'}


def tensors(path):
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    return {name: array.array(TYPES[t['dtype']], data[slice(*t['data_offsets'])])
            for name, t in header.items() if name != '__metadata__' and t['dtype'] in TYPES}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
    if a.keys() != b.keys() or not a:
        sys.exit(f'other tensors: {sorted(a.keys() ^ b.keys())}')
    worst, where = max((max(abs(x - y) for x, y in zip(a[n], b[n])) / (max(map(abs, b[n])) or 1), n) for n in a)
    print(f'{len(a)} tensors differ by {worst:.1e} at most ({where})')
    sys.exit(not worst <= float(sys.argv[3]))


if __name__ == '__main__':
    main()
