"""./dev: every verb of its help is there and says what it does, every verb that is there stands in the help, and so does
every one that documents, programs and scripts name."""

import os
import re
import subprocess
import unittest

import needs

DEV = needs.ROOT / "dev"
# Where a sentence may end in "./dev" or show a verb that is made up.
NAMED_IN = ["*.md", "docs", "tools", "cmake", "src", "include", "python", "tests", "bench", "examples", "fuzz", ".ci", ".github"]
TEXT = {".md", ".py", ".sh", ".cmake", ".cpp", ".h", ".yml", ".txt", ".toml", ".json", ""}


def dev(*words):
    """Without setting anything up: no verb may do work when it is asked what it does."""
    env = {**os.environ, "ETRACE_NO_SETUP": "1"}
    return subprocess.run([str(DEV), *words], capture_output=True, text=True, env=env, timeout=60, check=False)


def helped():
    return set(re.findall(r"^  ([a-z-]+) ", dev("help").stdout, re.M))


def files():
    for pattern in NAMED_IN:
        for found in needs.ROOT.glob(pattern):
            for path in [found] if found.is_file() else found.rglob("*"):
                if path.is_file() and path.suffix in TEXT and path.stat().st_size < 1 << 20:
                    yield path


class Verbs(unittest.TestCase):
    def test_help_lists_the_verbs_that_there_are(self):
        there = set(re.findall(r"^cmd_([a-z-]+)\(\)", DEV.read_text("utf-8"), re.M))
        self.assertGreater(len(there), 15)
        self.assertEqual(helped(), there)

    def test_every_verb_answers(self):
        for verb in sorted(helped()):
            with self.subTest(verb):
                done = dev(verb, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, rf"(?m)^  {verb} .*\S")

    def test_other_words_are_refused(self):
        for word in ("board", "usage", "install_packages", "a.b", "--setup"):
            done = dev(word)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"unknown verb: {word}", done.stderr)

    def test_verbs_that_are_named_exist(self):
        named = {}
        for path in files():
            for verb in re.findall(r"(?<![\w/.])\./dev ([a-z][a-z-]*)", path.read_text("utf-8", "ignore")):
                named.setdefault(verb, []).append(str(path.relative_to(needs.ROOT)))
        self.assertGreater(len(named), 12)
        self.assertEqual({verb: where for verb, where in named.items() if verb not in helped()}, {})


class Pinned(unittest.TestCase):
    """What others can change under a name is named by what it holds."""

    def test_actions_are_commits_and_may_only_read(self):
        workflows = sorted((needs.ROOT / ".github/workflows").glob("*.yml"))
        self.assertGreater(len(workflows), 0)
        for path in workflows:
            text = path.read_text("utf-8")
            self.assertRegex(text, r"(?m)^permissions:\n  contents: read\n", path.name)
            for action in re.findall(r"uses:\s*(\S+)", text):
                self.assertRegex(action, r"^[\w./-]+@[0-9a-f]{40}$", path.name)

    def test_python_packages_have_hashes(self):
        lists = sorted((needs.ROOT / "tools/requirements").glob("*.in"))
        self.assertGreater(len(lists), 2)
        for wanted in lists:
            locked = re.sub(r"\\\n\s*", "", wanted.with_suffix(".txt").read_text("utf-8")).splitlines()
            names = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in locked if line and line[0] not in "# "}
            asked = {re.match(r"[\w.-]+", line)[0].lower() for line in wanted.read_text("utf-8").splitlines() if line and line[0] != "#"}
            self.assertLessEqual(asked, names, wanted.name)
            for line in locked:
                if line and line[0] not in "# ":
                    self.assertRegex(line, r"^[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", wanted.name)


if __name__ == "__main__":
    unittest.main()
