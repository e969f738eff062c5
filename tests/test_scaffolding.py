"""Tests that the project's documents agree with the code: pins and `make raise`, commands, and every name that a guide
mentions; and that every error is a complete sentence."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skillviz.analysis.null_measures import SHARED_ERRORS, SHARED_PROBABILITY, beyond_of_runs, by_measure
from skillviz.errors import MOST_LETTERS, BadInput, CorruptRun, visible
from skillviz.runs.record import GainNote
from skillviz.runs.store import Store
from skillviz.show.beyond import of_other_models
from tests.scripts import script
from tests.small_world import opening_run
from tests.tables import check, equal
from tests.test_arrows import FILES, PROJECT, imports_of

PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([0-9][A-Za-z0-9.]*)$")
OPEN = "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt && .venv/bin/streamlit run dashboard.py"
TEST = "python3 -m venv .venv && .venv/bin/pip install -q -r deploy/requirements-dev.txt && .venv/bin/python -m pytest"
PINNED = (
    "requirements.txt",
    *(f"deploy/{name}.txt" for name in ("requirements-deploy", "requirements-dev", "constraints")),
)
OTHER_SYSTEMS = {"colorama", "httpx2-jsfetch", "setuptools"}
"""Locked packages that are needed only on Windows or in a browser, or are part of every environment."""
# A slash that begins a path, then a folder for personal files.
OF_A_MACHINE = re.compile(r"(?<![\w.<>{}/-])/(home|Users|work|root)/[a-z]")
GUIDES = (
    "docs/add-a-task.md", "docs/CONTRIBUTING.md", "docs/jobs.md", "ARCHITECTURE.md",
)  # fmt: skip


def text(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, str]:
    """Return normalized name -> version of each pin of a requirements file."""
    lines = [line.strip() for line in text(name).splitlines()]
    found = [PIN.match(line) for line in lines if line and not line.startswith(("#", "-"))]
    assert all(found), f"{name} has a line that is not an exact pin"
    return {normalised(match[1]): match[2] for match in found if match}


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize("name", PINNED)
def test_what_is_pinned_is_what_runs_here(name: str) -> None:
    pinned = pins(name)
    installed = {p: version(p).split("+")[0] for p in pinned if present(p)}
    assert installed == {p: pinned[p] for p in installed}
    assert len(installed) >= 0.8 * len(pinned)  # some are not needed on every system


def present(distribution: str) -> bool:
    try:
        return bool(version(distribution))
    except PackageNotFoundError:
        return False


def test_nothing_is_pinned_twice() -> None:
    assert [pin for pin, times in Counter([pin for name in PINNED for pin in pins(name)]).items() if times > 1] == []
    assert "-c deploy/constraints.txt" in text("requirements.txt")
    assert "-r ../requirements.txt" in text("deploy/requirements-dev.txt")


def locked() -> dict[str, tuple[str, int]]:
    """Return normalized name -> (version, number of hashes) of each entry of the lock file."""
    entries = re.split(r"\n(?=[a-zA-Z0-9])", text("deploy/requirements.lock"))
    found = [(re.match(r"([\w.-]+)==([^\s;]+)", entry), entry.count("--hash=sha256:")) for entry in entries]
    return {normalised(match[1]): (match[2], hashes) for match, hashes in found if match}


def test_the_lock_file_has_the_pinned_versions_each_with_hashes() -> None:
    lock, wanted = locked(), pins("requirements.txt") | pins("deploy/requirements-deploy.txt")
    version_of = wanted | pins("deploy/constraints.txt")
    of_torch = [name for name in lock if name.startswith(("torch", "nvidia", "cuda", "triton"))]
    assert not of_torch, f"OF_TORCH in the Makefile lacks {of_torch}"
    assert wanted.keys() - lock.keys() <= {"torch"} and len(lock) > len(wanted), "run `make lock`"
    locked_at = {name: version for name, (version, _) in lock.items() if name in version_of}
    assert locked_at == {name: version_of[name] for name in locked_at}, "run `make lock`"
    assert [name for name, (_, hashes) in lock.items() if not hashes] == []
    unknown = set(lock) - set(version_of)
    assert unknown <= OTHER_SYSTEMS, f"not in constraints.txt: {sorted(unknown)}"


@pytest.mark.slow
def test_everything_the_app_imports_is_pinned_by_name() -> None:
    owners = packages_distributions()
    used = {module.split(".")[0] for file in FILES for module in imports_of(file)}
    outside = used - set(sys.stdlib_module_names) - {"skillviz", "pages"}
    missing = {m for m in outside if not {normalised(d) for d in owners.get(m, [m])} & set(pins("requirements.txt"))}
    assert not missing, f"imported, but not in requirements.txt: {sorted(missing)}"


def test_the_two_commands_are_the_same_wherever_they_stand() -> None:
    for file, commands in (("README.md", {OPEN, TEST}), ("Makefile", {OPEN, TEST}), (".ci/run", {TEST})):
        assert commands <= {line.strip() for line in text(file).splitlines()}, file
    assert os.access(PROJECT / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", PROJECT / ".ci/run"], check=True)


def test_the_help_target_lists_every_target() -> None:
    makefile = text("Makefile")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    assert sorted(re.findall(r"^([a-z]+):.*## \S", makefile, re.M)) == sorted(targets.split())


def test_the_licence_and_the_version_are_said_once() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert text("LICENSE").startswith("MIT License\n\nCopyright (c) 2026 The skillviz authors\n")
    assert project["license"] == "MIT" and f"## {project['version']}" in text("docs/CHANGELOG.md")


def quoted(markdown: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", markdown, flags=re.S))


def missing_path(word: str) -> bool:
    """Return whether a path with a slash does not exist; for a path with a placeholder, whether its folder does not."""
    path = re.sub(r"[^/]*<.*", "", word).rstrip("/")
    return not any((root / path).exists() for root in (PROJECT, PROJECT / "skillviz"))


def missing_module(word: str) -> bool:
    """Return whether a dotted name from skillviz is neither a module nor a name in a module."""
    parts = word.split("(")[0].split(".")
    for cut in (len(parts), len(parts) - 1):
        try:
            module = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return not all(hasattr(module, name) for name in parts[cut:])
    return True


def missing_name(word: str, code: str) -> bool:
    """Return whether the last identifier of a name or call is not defined in the code."""
    last = word.split("(")[0].split(".")[-1]
    return not re.search(rf"(def|class) {last}\b|\b{last}\b(: |\] ?=| =)", code)


def stale(markdown: str, code: str) -> list[str]:
    """Return the quoted paths, modules and names of a guide that no longer exist."""
    found = []
    for word in quoted(markdown):
        if " " in word.split("(")[0] or word.startswith(("python", "make ", "-")):
            continue
        if word.startswith("skillviz."):
            found += [word] if missing_module(word) else []
        elif "/" in word or word.endswith((".py", ".md", ".txt")):
            found += [word] if missing_path(word) else []
        elif re.fullmatch(r"(problem\.|page\.)?[A-Za-z_.]+\(.*\)|problem\.[a-z_.]+|[A-Z][A-Za-z]+|[A-Z_]+", word):
            found += [word] if missing_name(word, code) and not word.startswith("SKILLVIZ_") else []
    return found


@pytest.fixture(scope="module")
def code() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in FILES)


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_names_only_what_exists(guide: str, code: str) -> None:
    assert stale(text(guide), code) == [] and len(quoted(text(guide))) > 5


def test_a_name_that_is_gone_is_noticed(code: str) -> None:
    gone = ["skillviz/core/gone.py", "skillviz.core.ranking.gone", "problem.gone_since(x)", "problem.gone_since",
            "GONE", "Gone"]  # fmt: skip
    here = ["skillviz/core/ranking.py", "skillviz.core.ranking.top", "problem.tau", "LocalizerStep", "LOCALIZERS"]
    assert stale(" ".join(f"`{word}`" for word in (*gone, *here)), code) == gone


LINK = re.compile(r'\]\(([^()\s]+)\)|(?:href|src)="([^"]+)"')


PAPERS = sorted(
    file.relative_to(PROJECT).as_posix()
    for folder in (".", "docs", "docs/research", "benchmarks")
    for file in (PROJECT / folder).glob("*.md")
)


def anchors(markdown: str) -> set[str]:
    """Return the valid link anchors: the headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", markdown, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(name: str, markdown: str) -> list[str]:
    """Return the links and pictures of a file that lead to no file, or to no heading of it."""
    dead = []
    for match in LINK.finditer(re.sub(r"```.*?```", "", markdown, flags=re.S)):
        target = match[1] or match[2]
        path, _, heading = target.partition("#")
        file = (PROJECT / name).parent / path if path else PROJECT / name
        if "://" in target or target.startswith("mailto:"):
            continue
        if not file.exists() or (heading and heading not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    return dead


@pytest.mark.parametrize("name", PAPERS)
def test_links_of_the_papers_lead_somewhere(name: str) -> None:
    assert dead_links(name, text(name)) == []


def test_links_of_the_notebook_lead_somewhere() -> None:
    cells = [
        cell["source"] for cell in json.loads(text("docs/notebook.ipynb"))["cells"] if cell["cell_type"] == "markdown"
    ]
    markdown = "\n".join("".join(source) for source in cells)
    assert "](python.md)" in markdown and dead_links("docs/notebook.ipynb", markdown) == []


ALIVE = "[a](docs/studies.md#recipes-of-fine-tuning) [b](https://example.org/x) ![c](docs/screenshots/home-light.png)"
DEAD = '[a](docs/gone.md) [b](docs/studies.md#gone) <img src="docs/gone.png"> [c](#gone)'


def test_a_dead_link_is_noticed() -> None:
    gone = ["docs/gone.md", "docs/studies.md#gone", "docs/gone.png", "#gone"]
    assert dead_links("README.md", f"{ALIVE} {DEAD}") == gone


def debiased(error: dict[str, float]) -> str:
    """Return the error in the README's form, for example `14.0% (12.2–15.7)`."""
    return f"{100 * error['debiased']:.1f}% ({100 * error['low']:.1f}–{100 * error['high']:.1f})"


def percent(share: Any) -> str:
    return f"{100 * share.value:.0f}% ({100 * share.low:.0f}–{100 * share.high:.0f})"


def opening() -> str:
    """Return the text of README above its first picture."""
    return " ".join(text("README.md").partition("\n![")[0].split())


def test_the_readme_s_finding_is_that_of_the_stored_run() -> None:
    """README gives share, gain, calibration error and null of the run that the dashboard opens on."""
    record = json.loads((opening_run().path / "run.json").read_text(encoding="utf-8"))
    scores, (null,) = record["metrics"]["test"], record["nulls"]
    gain, states, beyond = scores["recovered"], scores["states"], null["beyond"]["test"]["accuracy"]
    measures = by_measure(opening_run()).set_index("measure")
    shared, errors = (measures.loc[one] for one in (SHARED_PROBABILITY, SHARED_ERRORS))
    others = [json.loads(path.read_text(encoding="utf-8")) for path in (PROJECT / "cached_runs").glob("*/run.json")]
    others = sorted(
        (one for one in others if searched_as(one) == searched_as(record) and one["spec"]["seed"] > 0),
        key=lambda one: one["spec"]["seed"],
    )
    tests, nulls = ([of(one) for one in others] for of in (
        lambda one: one["metrics"]["test"], lambda one: one["nulls"][0]["states"]["test"],
    ))  # fmt: skip
    shares, of_nulls = ([f"{100 * one['recovered']['value']:.0f}%" for one in side] for side in (tests, nulls))
    debiased_errors = [debiased(one["states"]["grafted"]["ece"]).partition(" ")[0] for one in tests]
    check(opening(), (
        f"copying {100 * record['share']:.1f}% of the fine-tuned parameters",
        f"{100 * gain['value']:.0f}% of the accuracy gain",
        f"(95% interval {100 * gain['low']:.0f}–{100 * gain['high']:.0f})",
        f"calibration error from {debiased(states['finetuned']['ece'])} to {debiased(states['grafted']['ece'])}",
        f"of the accuracy gain, the nulls {100 * null['states']['test']['recovered']['value']:.0f}%",
        f"{100 * beyond['value']:.1f} points of accuracy ({100 * beyond['low']:.1f}–{100 * beyond['high']:.1f})",
        f"shares {100 * shared['graft']:.0f}% of its probability with the fine-tuned model, the nulls "
        f"{100 * shared['null']:.0f}%: {100 * shared['beyond']:.1f} points ({100 * shared['low']:.1f}–"
        f"{100 * shared['high']:.1f}) are beyond the null",
        f"makes {100 * errors['graft']:.0f}% of that model's errors, the nulls {100 * errors['null']:.0f}%",
        f"seeds of the search bring back {' and '.join(shares)} at 1%, their nulls {' and '.join(of_nulls)}",
        f"calibration errors are {' and '.join(debiased_errors)}.",
    ))  # fmt: skip


def test_the_readme_s_margin_over_fine_tuned_models_is_that_of_the_stored_runs() -> None:
    store = Store(PROJECT / "cached_runs")
    models = sorted(
        of_other_models(opening_run().record, (run.record for run in store.list())), key=lambda one: one.spec.finetuned
    )
    pooled = beyond_of_runs([opening_run(), *(store.open(one.run_id) for one in models)], "test")["accuracy"]
    states = [one.metrics["test"].states for one in models]
    shares = [percent(one.metrics["test"].recovered) for one in models]
    of_nulls = [percent(one.nulls[0].states["test"]["recovered"]).partition(" ")[0] for one in models]
    before, after = (
        [debiased(one[state]["ece"].model_dump()).partition(" ")[0] for one in states]
        for state in ("finetuned", "grafted")
    )
    check(opening(), (
        f"with other seeds, bring back {' and '.join(shares)}, their nulls {' and '.join(of_nulls)}",
        " and ".join(f"from {one} to {other}" for one, other in zip(before, after, strict=True)),
        "Over the three models the graft is "
        f"{100 * pooled.value:.1f} points ({100 * pooled.low:.1f}–{100 * pooled.high:.1f})",
    ))  # fmt: skip


def test_the_readme_s_gain_is_that_of_the_stored_run() -> None:
    """README and the page on pairs made elsewhere give the gains of top movement on the AdamW pair, and its null."""
    runs = Store(PROJECT / "cached_runs").list()
    (run,) = [one for one in runs if one.spec.finetuned.endswith("mr-adamw") and one.spec.localizer == "movement"]
    small, large = sorted((note for note in run.record.gains if note.of == "grafted"), key=lambda note: note.size or 0)

    def share(note: GainNote, gain: float | None) -> str:
        row = run.curve(gain).query("split == 'test' and metric == 'recovered'").set_index("size").loc[note.size]
        ends = f" ({100 * row['low']:.0f}–{100 * row['high']:.0f})" if gain is None else ""
        return f"{100 * row['value']:.0f}%{ends}"

    null = run.record.nulls[0].states["test"]["recovered"]
    assert null.value is not None and null.low is not None and null.high is not None
    check(opening(), (
        f"bring back {share(large, 1.0)} of the gain",
        f"of {large.gain:.1f} ({large.low:.1f}–{large.high:.1f})",
        f"bring back {share(large, None)}", f"it is {share(small, None)}",
        f"{100 * null.value:.0f}% ({100 * null.low:.0f} to {100 * null.high:.0f}) of shuffled".replace("-", "−"),
    ))  # fmt: skip
    check(text("docs/own-pair.md"), (f"bring back {share(small, 1.0)}, and {share(small, None)} at {small.gain:.1f}",))


def searched_as(record: dict[str, Any]) -> list[Any]:
    """Return the settings that are equal in runs that differ only in the seed of the search."""
    return [record["spec"][name] for name in ("base", "finetuned", "task", "localizer", "sizes")]


def test_streamlit_listens_to_this_machine_only() -> None:
    server = tomllib.loads(text(".streamlit/config.toml"))["server"]
    told = server["address"], server["fileWatcherType"], "allowedHosts" in text(".streamlit/config.toml")
    assert told == ("127.0.0.1", "none", True)


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Return the paths of the project's files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files; run it in a clone")
    return [PROJECT / name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]


def test_no_path_of_a_machine_stands_in_the_project(tracked: list[Path]) -> None:
    for path in tracked:
        if path.suffix in (".py", ".md", ".toml", ".json", ".yaml", ".txt", ""):
            assert not re.search(OF_A_MACHINE, path.read_text(encoding="utf-8", errors="replace")), path


def test_what_ships_stays_small(tracked: list[Path]) -> None:
    runs = [path for path in tracked if path.is_relative_to(PROJECT / "cached_runs")]
    folders = {folder for path in runs for folder in path.parents if folder.is_relative_to(PROJECT / "cached_runs")}
    assert sum(path.stat().st_size for path in tracked) <= 260e6
    assert sum(path.stat().st_size for path in runs) <= 50e6 and len(runs) <= 1000 and len(folders) <= 60


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("deploy/raise_versions.py")


@pytest.fixture
def files(program: ModuleType) -> dict[str, str]:
    return {name: text(name) for name in (*program.REQUIREMENTS, program.CONSTRAINTS, *program.NAMED)}


def resolved(program: ModuleType, files: dict[str, str], *names: str) -> str:
    """Return the resolver's output if nothing is newer: every pin of these files."""
    return "".join(f"{name}=={version}\n" for file in names for name, version in program.pins(files[file]).items())


def test_with_nothing_newer_every_file_stays(program: ModuleType, files: dict[str, str]) -> None:
    of_app = resolved(program, files, *program.REQUIREMENTS[:-1], program.CONSTRAINTS)
    changed = program.raised(files, of_app, resolved(program, files, program.OF_TOOLS))
    constraints = changed.pop(program.CONSTRAINTS)
    assert (changed, program.pins(constraints)) == (
        {name: files[name] for name in changed},
        program.pins(files[program.CONSTRAINTS]),
    )


def test_a_newer_version_is_written_wherever_it_is_named(program: ModuleType, files: dict[str, str]) -> None:
    of_app = resolved(program, files, *program.REQUIREMENTS[:-1], program.CONSTRAINTS)
    old = program.pins(files["requirements.txt"])["torch"]
    changed = program.raised(
        files, of_app.replace(f"torch=={old}", "torch==99.0") + "brought-along==1\n",
        resolved(program, files, program.OF_TOOLS).replace("uv==", "uv==9"),
    )  # fmt: skip
    for name in ("requirements.txt", *program.NAMED):
        assert changed[name] == files[name].replace(f"torch=={old}", "torch==99.0") != files[name]
    assert "\nuv==9" in changed[program.OF_TOOLS] and "brought-along==1\n" in changed[program.CONSTRAINTS]
    assert "torch==" not in changed[program.CONSTRAINTS], "what is required directly is pinned once"
    with pytest.raises(KeyError):
        program.raised(files, "torch==99.0\n", "")


@pytest.mark.parametrize(("names", "left"), [([], "torch\nPyYAML\n"), (["pyyaml"], "torch==2.1\nPyYAML\n")])
def test_only_what_is_asked_for_is_free(names: list[str], left: str, program: ModuleType) -> None:
    assert program.asked("# a comment\n-c constraints.txt\ntorch==2.1\nPyYAML==6.0\n", names) == left


def test_the_makefile_runs_it_before_lock_and_tests() -> None:
    words = ["make", "-n", "-o", ".venv-tools/bin", "raise", "ONLY=plotly"]
    steps = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    order = ("deploy/raise_versions.py", "--only plotly", "deploy/requirements.lock", ".venv-raised", "pytest")
    assert re.search(".*".join(map(re.escape, order)), steps, re.DOTALL), steps


@pytest.mark.parametrize("kind", [BadInput, CorruptRun])
def test_what_is_quoted_whole_is_shortened_and_its_advice_stays(kind: type[Exception]) -> None:
    error = kind(f"'{'x' * 900_000}' is no size; give a share such as 1%.")
    assert len(str(error)) < MOST_LETTERS + 50 and kind("short.").args[0] == "short."
    assert "'xxx" in str(error) and str(error).endswith("is no size; give a share such as 1%.")


test_an_error_is_one_line_of_visible_letters = equal({
    "a library's words of several lines": (
        lambda: BadInput("a file cannot be read (no thrift:\n  bad data\n).").args[0],
        "a file cannot be read (no thrift: bad data ).",
    ),
    "control characters": (
        lambda: BadInput("'\x1b[8mhidden\x07\u202e' is no size.").args[0],
        "'\\x1b[8mhidden\\x07\\u202e' is no size.",
    ),
    "letters of other scripts": (lambda: visible("a\tb\nc é 日本"), "a\tb\nc é 日本"),
})  # fmt: skip
