"""Tests that the project's documents agree with the code: pins, commands, and every name that a guide mentions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

import pytest

from skillviz.analysis.null_measures import SHARED_ERRORS, SHARED_PROBABILITY, beyond_of_runs, by_measure
from skillviz.runs.record import GainNote
from skillviz.runs.store import Store
from skillviz.show.beyond import of_other_models
from tests.small_world import opening_run
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
    """Return the text of a file of the project."""
    return (PROJECT / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, str]:
    """Return normalized name -> version of each pin of a requirements file."""
    lines = [line.strip() for line in text(name).splitlines()]
    found = [PIN.match(line) for line in lines if line and not line.startswith(("#", "-"))]
    assert all(found), f"{name} has a line that is not an exact pin"
    return {normalised(match[1]): match[2] for match in found if match}


def normalised(distribution: str) -> str:
    """Return a distribution's name in the form that registries compare."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize("name", PINNED)
def test_what_is_pinned_is_what_runs_here(name: str) -> None:
    installed = {p: version(p).split("+")[0] for p in pins(name) if present(p)}
    assert installed == {p: v for p, v in pins(name).items() if p in installed}
    assert len(installed) >= 0.8 * len(pins(name))  # some are not needed on every system


def present(distribution: str) -> bool:
    """Return whether it is installed."""
    try:
        return bool(version(distribution))
    except PackageNotFoundError:
        return False


def test_nothing_is_pinned_twice() -> None:
    every = [pin for name in PINNED for pin in pins(name)]
    assert len(every) == len(set(every))
    assert "-c deploy/constraints.txt" in text("requirements.txt")
    assert "-r ../requirements.txt" in text("deploy/requirements-dev.txt")


def locked() -> dict[str, tuple[str, int]]:
    """Return normalized name -> (version, number of hashes) of each entry of the lock file."""
    entries = re.split(r"\n(?=[a-zA-Z0-9])", text("deploy/requirements.lock"))
    found = [(re.match(r"([\w.-]+)==([^\s;]+)", entry), entry.count("--hash=sha256:")) for entry in entries]
    return {normalised(match[1]): (match[2], hashes) for match, hashes in found if match}


def test_the_lock_file_has_the_pinned_versions_each_with_hashes() -> None:
    lock = locked()
    wanted = pins("requirements.txt") | pins("deploy/requirements-deploy.txt")
    version_of = wanted | pins("deploy/constraints.txt")
    assert {name: lock[name][0] for name in wanted if name != "torch"} == {
        name: version for name, version in wanted.items() if name != "torch"
    }, "run `make lock`"
    assert all(version_of[name] == version for name, (version, _) in lock.items() if name in version_of), "`make lock`"
    assert all(hashes for _, hashes in lock.values()) and len(lock) > len(wanted)
    of_torch = [name for name in lock if name.startswith(("torch", "nvidia", "cuda", "triton"))]
    assert not of_torch, f"OF_TORCH in the Makefile lacks {of_torch}"
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
    for file in ("README.md", "Makefile"):
        assert OPEN in [line.strip() for line in text(file).splitlines()]
        assert TEST in [line.strip() for line in text(file).splitlines()]
    assert TEST in text(".ci/run").splitlines()
    assert os.access(PROJECT / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", PROJECT / ".ci/run"], check=True)


def test_the_help_target_lists_every_target() -> None:
    makefile = text("Makefile")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert targets is not None
    described = re.findall(r"^([a-z]+):.*## \S", makefile, re.M)
    assert sorted(described) == sorted(targets[1].split())


def test_the_licence_and_the_version_are_said_once() -> None:
    assert text("LICENSE").startswith("MIT License\n\nCopyright (c) 2026 The skillviz authors\n")
    project = re.search(r'^version = "(.+)"$', text("pyproject.toml"), re.M)
    assert project is not None and f"## {project[1]}" in text("docs/CHANGELOG.md")
    assert re.search(r'^license = "MIT"$', text("pyproject.toml"), re.M)


def quoted(markdown: str) -> list[str]:
    """Return the texts in single backticks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", markdown, flags=re.S))


def missing_path(word: str) -> bool:
    """Return whether a path with a slash does not exist; for a path with a placeholder, whether its folder does not."""
    path = re.sub(r"[^/]*<.*", "", word).rstrip("/")
    roots = (PROJECT, PROJECT / "skillviz")
    return not any((root / path).exists() for root in roots)


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
    """Return the source of the application in one string."""
    return "\n".join(file.read_text(encoding="utf-8") for file in FILES)


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_names_only_what_exists(guide: str, code: str) -> None:
    assert stale(text(guide), code) == []
    assert len(quoted(text(guide))) > 5


def test_a_name_that_is_gone_is_noticed(code: str) -> None:
    gone = ["skillviz/core/gone.py", "skillviz.core.ranking.gone", "problem.gone_since(x)", "problem.gone_since"]
    gone += ["GONE", "Gone"]
    assert stale(" ".join(f"`{word}`" for word in gone), code) == gone
    assert (
        stale("`skillviz/core/ranking.py` `skillviz.core.ranking.top` `problem.tau` `LocalizerStep` `LOCALIZERS`", code)
        == []
    )


LINK = re.compile(r'\]\(([^()\s]+)\)|(?:href|src)="([^"]+)"')


def papers() -> list[str]:
    """Return the Markdown files for readers of the project."""
    found = [f for folder in (".", "docs", "docs/research", "benchmarks") for f in (PROJECT / folder).glob("*.md")]
    return sorted(file.relative_to(PROJECT).as_posix() for file in found)


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


@pytest.mark.parametrize("name", papers())
def test_links_of_the_papers_lead_somewhere(name: str) -> None:
    assert dead_links(name, text(name)) == []


def test_links_of_the_notebook_lead_somewhere() -> None:
    cells = [cell for cell in json.loads(text("docs/notebook.ipynb"))["cells"] if cell["cell_type"] == "markdown"]
    markdown = "\n".join("".join(cell["source"]) for cell in cells)
    assert "](python.md)" in markdown and dead_links("docs/notebook.ipynb", markdown) == []


def test_a_dead_link_is_noticed() -> None:
    alive = (
        "[a](docs/studies.md#recipes-of-fine-tuning) ![c](docs/screenshots/calibration-light.png) [b](https://a.org)"
    )
    assert dead_links("README.md", alive) == []
    dead = '[a](docs/gone.md) [b](docs/studies.md#gone) <img src="docs/gone.png"> [c](#gone)'
    assert dead_links("README.md", dead) == ["docs/gone.md", "docs/studies.md#gone", "docs/gone.png", "#gone"]


def debiased(error: dict[str, float]) -> str:
    """Return the error in the README's form, for example `14.0% (12.2–15.7)`."""
    return f"{100 * error['debiased']:.1f}% ({100 * error['low']:.1f}–{100 * error['high']:.1f})"


def percent(share: Any) -> str:
    """`90% (83–97)`."""
    return f"{100 * share.value:.0f}% ({100 * share.low:.0f}–{100 * share.high:.0f})"


def test_the_readme_s_finding_is_that_of_the_stored_run() -> None:
    """README gives share, gain, calibration error and null of the run that the dashboard opens on."""
    record = json.loads((opening_run().path / "run.json").read_text(encoding="utf-8"))
    scores = record["metrics"]["test"]
    gain, states = scores["recovered"], scores["states"]
    (null,) = record["nulls"]
    beyond = null["beyond"]["test"]["accuracy"]
    opening = " ".join(text("README.md").partition("\n![")[0].split())
    for words in (
        f"copying {100 * record['share']:.1f}% of the fine-tuned parameters",
        f"{100 * gain['value']:.0f}% of the accuracy gain",
        f"(95% interval {100 * gain['low']:.0f}–{100 * gain['high']:.0f})",
        f"calibration error from {debiased(states['finetuned']['ece'])} to {debiased(states['grafted']['ece'])}",
        f"of the accuracy gain, the nulls {100 * null['states']['test']['recovered']['value']:.0f}%",
        f"{100 * beyond['value']:.1f} points of accuracy ({100 * beyond['low']:.1f}–{100 * beyond['high']:.1f})",
    ):
        assert words in opening
    shared, errors = (
        by_measure(opening_run()).set_index("measure").loc[one] for one in (SHARED_PROBABILITY, SHARED_ERRORS)
    )
    for words in (
        f"shares {100 * shared['graft']:.0f}% of its probability with the fine-tuned model, the nulls "
        f"{100 * shared['null']:.0f}%: {100 * shared['beyond']:.1f} points ({100 * shared['low']:.1f}–"
        f"{100 * shared['high']:.1f}) are beyond the null",
        f"makes {100 * errors['graft']:.0f}% of that model's errors, the nulls {100 * errors['null']:.0f}%",
    ):
        assert words in opening
    others = [json.loads(path.read_text(encoding="utf-8")) for path in (PROJECT / "cached_runs").glob("*/run.json")]
    others = [one for one in others if searched_as(one) == searched_as(record) and one["spec"]["seed"] > 0]
    tests = [one["metrics"]["test"] for one in sorted(others, key=lambda one: one["spec"]["seed"])]
    nulls = [one["nulls"][0]["states"]["test"] for one in sorted(others, key=lambda one: one["spec"]["seed"])]
    shares, of_nulls = ([f"{100 * one['recovered']['value']:.0f}%" for one in side] for side in (tests, nulls))
    errors = [debiased(one["states"]["grafted"]["ece"]).partition(" ")[0] for one in tests]
    for words in (
        f"seeds of the search bring back {' and '.join(shares)} at 1%, their nulls {' and '.join(of_nulls)}",
        f"calibration errors are {' and '.join(errors)}.",
    ):
        assert words in opening


def test_the_readme_s_margin_over_fine_tuned_models_is_that_of_the_stored_runs() -> None:
    store, opening = Store(PROJECT / "cached_runs"), " ".join(text("README.md").partition("\n![")[0].split())
    models = of_other_models(opening_run().record, (run.record for run in store.list()))
    models = sorted(models, key=lambda one: one.spec.finetuned)
    runs = [opening_run(), *(store.open(one.run_id) for one in models)]
    pooled = beyond_of_runs(runs, "test")["accuracy"]
    tests = [one.metrics["test"] for one in models]
    shares = [percent(one.recovered) for one in tests]
    of_nulls = [percent(one.nulls[0].states["test"]["recovered"]).partition(" ")[0] for one in models]
    errors = [
        [debiased(one.states[s]["ece"].model_dump()).partition(" ")[0] for s in ("finetuned", "grafted")]
        for one in tests
    ]
    for words in (
        f"with other seeds, bring back {' and '.join(shares)}, their nulls {' and '.join(of_nulls)}",
        " and ".join(f"from {before} to {after}" for before, after in errors),
        "Over the three models the graft is "
        f"{100 * pooled.value:.1f} points ({100 * pooled.low:.1f}–{100 * pooled.high:.1f})",
    ):
        assert words in opening, words


def test_the_readme_s_gain_is_that_of_the_stored_run() -> None:
    """README and the page on pairs made elsewhere give the gains of top movement on the AdamW pair, and its null."""
    runs = Store(PROJECT / "cached_runs").list()
    (run,) = [one for one in runs if one.spec.finetuned.endswith("mr-adamw") and one.spec.localizer == "movement"]
    small, large = sorted((note for note in run.record.gains if note.of == "grafted"), key=lambda note: note.size or 0)

    def share(note: GainNote, gain: float | None) -> str:
        rows = run.curve(gain)
        row = rows[(rows["split"] == "test") & (rows["metric"] == "recovered") & (rows["size"] == note.size)].iloc[0]
        ends = f" ({100 * row['low']:.0f}–{100 * row['high']:.0f})" if gain is None else ""
        return f"{100 * row['value']:.0f}%{ends}"

    opening = " ".join(text("README.md").partition("\n![")[0].split())
    null = run.record.nulls[0].states["test"]["recovered"]
    assert null.value is not None and null.low is not None and null.high is not None
    for words in (
        f"bring back {share(large, 1.0)} of the gain",
        f"of {large.gain:.1f} ({large.low:.1f}–{large.high:.1f})",
        f"bring back {share(large, None)}", f"it is {share(small, None)}",
        f"{100 * null.value:.0f}% ({100 * null.low:.0f} to {100 * null.high:.0f}) of shuffled".replace("-", "−"),
    ):  # fmt: skip
        assert words in opening, words
    page = text("docs/own-pair.md")
    assert f"bring back {share(small, 1.0)}, and {share(small, None)} at {small.gain:.1f}" in page


def searched_as(record: dict[str, Any]) -> list[Any]:
    """Return the settings that are equal in runs that differ only in the seed of the search."""
    return [record["spec"][name] for name in ("base", "finetuned", "task", "localizer", "sizes")]


def test_streamlit_listens_to_this_machine_only() -> None:
    config = text(".streamlit/config.toml")
    assert re.search(r'^address = "127\.0\.0\.1"$', config, re.M) and "allowedHosts" in config
    assert re.search(r'^fileWatcherType = "none"$', config, re.M)


def test_no_path_of_a_machine_stands_in_the_project() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files; run it in a clone")
    for name in listed.stdout.split("\n"):
        path = PROJECT / name
        if name and path.suffix in (".py", ".md", ".toml", ".json", ".yaml", ".txt", "") and path.is_file():
            assert not re.search(OF_A_MACHINE, path.read_text(encoding="utf-8", errors="replace")), name
