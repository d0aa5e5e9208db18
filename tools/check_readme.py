#!/usr/bin/env python3
"""Runs what README.md and CONTRIBUTING.md show.

    ```cpp test=NAME        a program (or the body of main), compiled against the library and run
    ```text output=NAME     what the program NAME prints
    ```{literalinclude} F.cpp a program that the build has made of the file F.cpp and put into a folder --programs
    ```console              lines "$ build/bin/etrace ..." and "$ etrace ..." are run, in a fresh folder that shows what
                            lies beside the page and the files of --with; the lines up to the next "$" are the
                            expected output
    ```console scratch=NAME all lines "$ ..." are run by the shell in a fresh folder; $ETRACE is the folder of the
                            page, $CXX the compiler, $ETRACE_FLAGS what a program needs to compile and link
    ```console needs=A,B    not run, and said, where one of these programs is not installed
    ```console figures=A-1.2,B-3  numbers are those of these versions of programs: with others, lines are compared
                            without their numbers, which is said

In expected output a line "..." stands for any lines and "..." inside a line for any text. No expected output:
only the exit code counts. Other commands in console blocks (./dev ...) are listed, not run.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^(```+)[ \t]*([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
PROGRAM = "build/bin/etrace"
INCLUDE = "{literalinclude}"
PRELUDE = re.compile(r"^\s*(#|//|using |namespace \w+ = )")


def blocks(text, first=1):
    """(line, language, options, body) of every fenced block; of a tab, the blocks in it."""
    for m in FENCE.finditer(text):
        words = m.group(2).split()
        line = text.count("\n", 0, m.start()) + first + 1
        if words[:1] == ["{tab}"]:
            yield from blocks(m.group(3), line)
            continue
        options = {"file": words[1]} if words[:1] == [INCLUDE] else dict(w.partition("=")[::2] for w in words[1:])
        yield line, words[0] if words else "", options, m.group(3)


def as_program(body):
    """A complete program: a snippet without main gets one around its statements."""
    if re.search(r"\bint\s+main\s*\(", body):
        return body
    lines = body.splitlines()
    split = 0
    while split < len(lines) and (not lines[split].strip() or PRELUDE.match(lines[split])):
        split += 1
    return "\n".join(lines[:split] + ["int main() {"] + lines[split:] + ["}", ""])


def matches(expected, actual):
    """Line-wise comparison with the "..." wildcards; trailing blanks do not count."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual)) is not None


def commands(body):
    """(offset, command, expected lines) of a console block; a trailing backslash continues a command."""
    result = []
    lines = body.splitlines()
    i = 0
    while i < len(lines):
        if lines[i].startswith("$ "):
            start, command = i, lines[i][2:]
            while command.endswith("\\") and i + 1 < len(lines):
                i += 1
                command = command[:-1] + " " + lines[i].strip()
            result.append((start, command, []))
        elif result:
            result[-1][2].append(lines[i])
        i += 1
    return [(at, command, trim(expected)) for at, command, expected in result]


def without_numbers(lines):
    """Expected lines with any number in the place of each."""
    return [re.sub(r"(?<![\w.])\d[\d,.]*", "...", line) for line in lines]


def trim(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def shown(folder, to):
    """A fresh folder `to` that shows the project around `folder` by links; gives back where `folder` is in it."""
    root = next((p for p in (folder, *folder.parents) if (p / "CMakeLists.txt").is_file()), folder)
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    inner = folder.relative_to(root).parts
    for depth in range(len(inner) + 1):
        for entry in root.joinpath(*inner[:depth]).iterdir():
            on_the_way = depth < len(inner) and entry.name == inner[depth]
            if on_the_way:
                (to / entry.name).mkdir()
            elif not entry.name.startswith(".") and entry.name not in ("build", "runs"):
                (to / entry.name).symlink_to(entry)
        if depth < len(inner):
            to = to / inner[depth]
    return to


class Checker:
    def __init__(self, args):
        self.args = args
        self.failures = 0
        self.ran = 0
        self.here = None  # where commands are run, once one is

    def fail(self, line, text):
        self.failures += 1
        print(f"{self.args.readme.name}:{line}: {text}", file=sys.stderr)

    def run(self, line, what, command, cwd, environment=None):
        """Output lines, or None after a failure that was reported."""
        try:
            done = subprocess.run(command, cwd=cwd, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=self.args.timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.fail(line, f"{what}: {error}")
            return None
        if done.returncode != 0:
            self.fail(line, f"{what} ended with {done.returncode}:\n{done.stdout}")
            return None
        return done.stdout.splitlines()

    def compare(self, line, what, expected, actual):
        if expected and not matches(expected, trim(actual)):
            self.fail(line, f"{what} printed\n  " + "\n  ".join(actual) + "\nbut the page says\n  " +
                      "\n  ".join(expected))

    def program(self, line, name, body):
        folder = self.args.work / name
        folder.mkdir(parents=True, exist_ok=True)
        source, binary = folder / f"{name}.cpp", folder / name
        source.write_text(f'#line {line} "{self.args.readme.name}"\n' + as_program(body), encoding="utf-8")
        compile_flags, link_flags = self.flags()
        compile_command = [self.args.cxx, *compile_flags, str(source), "-o", str(binary), *link_flags]
        self.ran += 1
        if self.run(line, f"compiling {name}", compile_command, folder) is None:
            return None
        return self.run(line, f"program {name}", [str(binary)], folder)

    def folder(self):
        """Where commands are run: a fresh folder that shows what lies beside the page, so that what they write is not
        left among the sources."""
        if self.here is None:
            self.here = shown(self.args.readme.parent, self.args.work / "here")
            for file in self.args.beside:
                shutil.copy(file, self.here)
        return self.here

    def built(self, line, file):
        """What a program of the build prints; its source is named relative to the page."""
        if not (self.args.readme.parent / file).is_file():
            return self.fail(line, f"there is no file {file}")
        candidates = [Path(folder).resolve() / Path(file).stem for folder in self.args.programs]
        program = next((p for p in candidates if p.is_file()), None)
        if program is None:
            return self.fail(line, f"{file} is not built in {', '.join(self.args.programs) or 'any folder'}")
        self.ran += 1
        return self.run(line, file, [str(program)], self.folder())

    def flags(self):
        """What a program needs of the library: to compile, and to link."""
        compile_flags = ["-std=c++20", "-O0", "-Wall", "-Wextra", *self.args.flag]
        for include in self.args.include:
            compile_flags += ["-I", include]
        if not self.args.library:
            return compile_flags, []
        library = Path(self.args.library)
        return compile_flags, [str(library), f"-Wl,-rpath,{library.parent}"]

    def scratch(self, line, name, body):
        folder = self.args.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        compile_flags, link_flags = self.flags()
        environment = {"ETRACE": str(self.args.readme.parent), "CXX": self.args.cxx,
                       "ETRACE_FLAGS": shlex.join(compile_flags + link_flags)}
        for offset, command, expected in commands(body):
            self.ran += 1
            actual = self.run(line + offset, command, ["bash", "-euc", command], folder, environment)
            if actual is None:
                return
            self.compare(line + offset, command, expected, actual)

    def console(self, line, command, expected):
        words = shlex.split(command, comments=True)
        if not words or words[0] not in (PROGRAM, "etrace"):
            print(f"  listed, not run: {command}")
            return
        if not self.args.etrace:
            print(f"  no command-line program in this build, not run: {command}")
            return
        self.ran += 1
        actual = self.run(line, command, [self.args.etrace, *words[1:]], self.folder())
        if actual is not None:
            self.compare(line, command, expected, actual)

    def are_other_versions(self, line, programs):
        """Whether a program is of another version than the figures of a block; which one is said."""
        others = []
        for program in filter(None, programs.split(",")):
            name, _, version = program.rpartition("-")
            said = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout if shutil.which(name) else ""
            if not re.search(rf"(?<![\d.]){re.escape(version)}(?![\d])", said.partition("\n")[0]):
                others.append(f"{name} {version}")
        if others:
            print(f"  numbers of line {line} are not compared: they are of {', '.join(others)}")
        return bool(others)

    def is_missing(self, line, needs):
        """Whether a program that a block needs is not installed; which one is said."""
        missing = [name for name in needs.split(",") if name and not shutil.which(name)]
        if missing:
            print(f"  not run: line {line} needs {', '.join(missing)}")
        return bool(missing)

    def check(self):
        outputs = {}
        for line, language, options, body in blocks(self.args.readme.read_text(encoding="utf-8")):
            if language == "cpp" and "test" in options:
                outputs[options["test"]] = self.program(line, options["test"], body)
            elif language == INCLUDE and options["file"].endswith(".cpp"):
                outputs[Path(options["file"]).stem] = self.built(line, options["file"])
            elif "output" in options and not options["output"].endswith(".py"):  # Python: python/tests/test_documents.py
                name = options["output"]
                if name not in outputs:
                    self.fail(line, f"output={name}: no block test={name} before it")
                elif outputs[name] is not None:
                    self.compare(line, f"program {name}", trim(body.splitlines()), outputs[name])
            elif language == "console" and "scratch" in options:
                self.scratch(line, options["scratch"], body)
            elif language == "console" and self.is_missing(line, options.get("needs", "")):
                continue
            elif language == "console":
                vague = self.are_other_versions(line, options.get("figures", ""))
                for offset, command, expected in commands(body):
                    self.console(line + offset, command, without_numbers(expected) if vague else expected)
        print(f"check_readme: ran {self.ran} block(s) and command(s), {self.failures} failure(s)")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readme", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for the extracted programs")
    parser.add_argument("--cxx", default=os.environ.get("CXX") or "c++")
    parser.add_argument("--include", action="append", default=[], help="include folder (may be repeated)")
    parser.add_argument("--flag", action="append", default=[], help="compiler flag (may be repeated)")
    parser.add_argument("--library", help="the shared library")
    parser.add_argument("--etrace", help=f"what {PROGRAM} stands for")
    parser.add_argument("--programs", action="append", default=[], help="folder of built programs (may be repeated)")
    parser.add_argument("--with", dest="beside", action="append", default=[], help="file that commands find beside them")
    parser.add_argument("--timeout", type=float, default=120)
    args = parser.parse_args()
    args.readme, args.work = args.readme.resolve(), args.work.resolve()
    return Checker(args).check()


if __name__ == "__main__":
    sys.exit(main())
