#!/usr/bin/env python3
"""Writes a file as an array of a C++ source.

    python3 tools/embed_file.py OUT.cpp FILE NAMESPACE NAME     defines NAMESPACE::NAME, a std::string_view
"""

import sys
from pathlib import Path


def main():
    out, source, namespace, name = sys.argv[1:]
    data = Path(source).read_bytes()
    rows = [",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    text = [
        "#include <string_view>",
        f"namespace {namespace} {{",
        f"extern const std::string_view {name};",
        f"static const unsigned char bytes[] = {{\n{','.join(chr(10) + r for r in rows).lstrip(chr(10))}}};",
        f"const std::string_view {name}(reinterpret_cast<const char*>(bytes), sizeof bytes);",
        f"}}  // namespace {namespace}",
    ]
    Path(out).write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
