"""Raise pinned versions: ask the registry for the newest compatible versions, and rewrite every pin.

    make raise                       # all packages
    make raise ONLY="plotly pandas"  # these, and their dependencies

This rewrites the pins of requirements*.txt, all of constraints.txt, and the version of PyTorch in README.md and
docs/deploy.md. `make raise` then writes requirements.lock, installs everything into a new environment, .venv-raised,
and runs the tests of each commit there. Nothing is committed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ("requirements.txt", *(f"deploy/requirements-{name}.txt" for name in ("deploy", "dev", "tools")))
OF_TOOLS = REQUIREMENTS[-1]  # installed in an environment of its own
CONSTRAINTS = "deploy/constraints.txt"
NAMED = ("README.md", "docs/deploy.md")  # the files that say which PyTorch to install first
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def normalised(name: str) -> str:
    """Return a package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Return the versions by normalized name, for every pin of a requirements file."""
    return {normalised(name): version for name, version in PIN.findall(text)}


def with_pins(text: str, versions: Mapping[str, str]) -> str:
    """The file with these versions in its pins and everything else unchanged. Raises KeyError for an unknown pin."""
    return PIN.sub(lambda pin: f"{pin[1]}=={versions[normalised(pin[1])]}", text)


def constraints(text: str, resolved: str, direct: Mapping[str, str]) -> str:
    """Return constraints.txt: its heading, and every resolved package that is not required directly."""
    heading = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    found = {f"{name}=={version}" for name, version in PIN.findall(resolved) if normalised(name) not in direct}
    return heading + "".join(f"{pin}\n" for pin in sorted(found, key=str.lower))


def asked(text: str, only: Sequence[str]) -> str:
    """Return the requirements for the registry: the names without versions; with `only`, other packages keep theirs."""
    lines = [line for line in text.splitlines() if PIN.match(line)]
    free = {normalised(name) for name in only}
    loose = [PIN.sub(lambda pin: pin[0] if free and normalised(pin[1]) not in free else pin[1], line) for line in lines]
    return "".join(f"{line}\n" for line in loose)


def newest(uv: str, requirements: str, leave: Sequence[str]) -> str:
    """Return the newest compatible versions, as uv writes them."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "requirements.in"
        source.write_text(requirements, encoding="utf-8")
        command = [uv, "pip", "compile", "-q", "--no-annotate", "--no-header", "--python-version", "3.11"]
        command += [word for name in leave for word in ("--no-emit-package", name)]
        return subprocess.run([*command, str(source)], check=True, stdout=subprocess.PIPE, text=True).stdout


def raised(files: Mapping[str, str], of_app: str, of_tools: str) -> dict[str, str]:
    """Return the files with the resolved versions: `of_app` has the app's and its tests', `of_tools` the tools'."""
    direct = {name: version for file in REQUIREMENTS[:-1] for name, version in pins(files[file]).items()}
    app, tools = pins(of_app), pins(of_tools)
    changed = {file: with_pins(files[file], tools if file == OF_TOOLS else app) for file in REQUIREMENTS}
    changed[CONSTRAINTS] = constraints(files[CONSTRAINTS], of_app, direct)
    for file in NAMED:
        changed[file] = files[file].replace(f"torch=={direct['torch']}", f"torch=={app['torch']}")
    return changed


def main() -> int:
    """Rewrite the files; the exit code is 0 even if there is nothing to raise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uv", default="uv", help="the program uv")
    parser.add_argument(
        "--only", nargs="*", default=[], help="packages to raise; others keep their version if they can"
    )
    parser.add_argument("--leave", nargs="*", default=[], help="packages that constraints.txt leaves out")
    parser.add_argument("--dry-run", action="store_true", help="only list what would change")
    given = parser.parse_args()
    files = {file: (ROOT / file).read_text(encoding="utf-8") for file in (*REQUIREMENTS, CONSTRAINTS, *NAMED)}
    known = {name for file in REQUIREMENTS for name in pins(files[file])}
    if unknown := [name for name in given.only if normalised(name) not in known]:
        parser.error(f"'{unknown[0]}' is not pinned in {', '.join(REQUIREMENTS)}.")
    of_app = "".join(asked(files[file], given.only) for file in REQUIREMENTS[:-1])
    if given.only:  # their dependencies keep their versions too, if possible
        of_app = "".join(line for line in [of_app, asked(files[CONSTRAINTS], given.only)])
    leave = [name for name in given.leave if normalised(name) != "torch"]
    of_tools = newest(given.uv, asked(files[OF_TOOLS], given.only), ())
    changed = raised(files, newest(given.uv, of_app, leave), of_tools)
    count = 0
    for file in (*REQUIREMENTS, CONSTRAINTS):
        before, after = pins(files[file]), pins(changed[file])
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                count += 1
                sys.stdout.write(f"{file}: {name} {before.get(name, 'new')} -> {after.get(name, 'gone')}\n")
    sys.stdout.write(f"{count} {'version' if count == 1 else 'versions'} to raise.\n")
    for file, text in changed.items() if not given.dry_run else ():
        (ROOT / file).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
