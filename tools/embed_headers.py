#!/usr/bin/env python3
"""Writes the C99 kernel headers as strings of a C++ file, for programs that are emitted with them.

    python3 tools/embed_headers.py OUT.cpp HEADER.h…
"""

import re
import sys
from pathlib import Path

OWN_INCLUDE = re.compile(r'^#include "(?:(?:runtime|kernels|emit/device)/)?etp_[^"]*"\n', re.MULTILINE)


def main():
    out, headers = Path(sys.argv[1]), [Path(h) for h in sys.argv[2:]]
    lines = ['#include "emit/kernel_text.h"\n', "namespace etrace::emit {", "const KernelHeader kKernelHeaders[] = {"]
    for h in sorted(headers, key=lambda h: h.name):
        text = OWN_INCLUDE.sub("", h.read_text(encoding="utf-8"))
        if ')ETP"' in text:
            sys.exit(f"{h} holds the end mark of the string")
        # A literal may not be longer than 64 KB everywhere: pieces stand side by side.
        pieces = "\n".join(f'R"ETP({text[i:i + 8000]})ETP"' for i in range(0, len(text), 8000))
        lines.append(f'{{"{h.name}", {pieces}}},')
    lines += ["};", f"const std::size_t kNumKernelHeaders = {len(headers)};", "}  // namespace etrace::emit\n"]
    out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
