"""Tests that examples/NOTICE.md gives the source, the authors and the license of every shipped folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from skillviz.models.examples import ExamplePair, example_pairs
from tests.test_arrows import PROJECT

EXAMPLES = PROJECT / "examples"
LICENSE = re.compile(r"\[(Apache-2\.0|MIT|CC BY(?:-SA)? [34]\.0)\]\((https://\S+|licenses/\S+)\)")


def rows() -> dict[str, list[str]]:
    """Return folder -> its cells in the tables of the notice."""
    lines = [line.strip("| ").split(" | ") for line in (EXAMPLES / "NOTICE.md").read_text("utf-8").splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in lines if cells[0].startswith("`")}


def folders(*kinds: str) -> list[str]:
    """Return the folders of these kinds, named like in the notice."""
    return sorted(f"{kind}/{folder.name}" for kind in kinds for folder in (EXAMPLES / kind).iterdir())


def test_the_notice_names_every_folder_and_no_other() -> None:
    assert sorted(rows()) == folders("models", "data", "pairs")


@pytest.mark.parametrize("folder", folders("models", "data"))
def test_a_folder_is_named_with_source_authors_license_and_changes(folder: str) -> None:
    source, authors, license, changed = rows()[folder]
    assert "](https://" in source and re.search(r"20\d\d", authors) and changed
    assert LICENSE.fullmatch(license)


@pytest.mark.parametrize("pair", [pair for pair in example_pairs() if pair.ships], ids=lambda pair: pair.name)
def test_a_pair_is_under_the_license_of_its_base_and_names_that_of_its_texts(pair: ExamplePair) -> None:
    base, license, trained_on = rows()[f"pairs/{pair.name}"]
    base, data = base.strip("`"), f"data/{Path(pair.task).stem}"
    of_texts = LICENSE.fullmatch(rows()[data][2])
    assert f"examples/{base}" == pair.base and license == rows()[base][2]
    assert of_texts is not None and trained_on == f"`{data}`, {of_texts[1]}"


def test_the_texts_of_licenses_are_carried() -> None:
    """Apache-2.0 and MIT require a copy of their text."""
    texts = {match[2] for cells in rows().values() for cell in cells if (match := LICENSE.fullmatch(cell))}
    kept = {text for text in texts if text.startswith("licenses/")}
    assert kept == {f"licenses/{path.name}" for path in (EXAMPLES / "licenses").iterdir()} and len(kept) == 2
    assert all((EXAMPLES / text).stat().st_size > 1000 for text in kept)


@pytest.mark.parametrize("path", sorted((EXAMPLES / "tasks").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_task_says_the_license_of_its_texts(path: Path) -> None:
    source = yaml.safe_load(path.read_text("utf-8"))["source"]
    license = re.match(r"\[(.*?)\]", rows()[f"data/{path.stem}"][2])
    assert license is not None and f"; {license[1]} (examples/NOTICE.md)" in source


def test_the_guide_tells_the_number_of_examples_of_every_task() -> None:
    lines = (PROJECT / "docs" / "examples.md").read_text("utf-8").splitlines()
    cells = {line.split("`")[1]: line.strip("| ").split("|") for line in lines if re.match(r"\| `\w+` \|.*\d", line)}
    for folder in (EXAMPLES / "data").iterdir():
        files = [folder / f"{split}.jsonl" for split in ("train", "validation", "test")]
        counts = [f"{len(file.read_text('utf-8').splitlines()):,}" if file.is_file() else "" for file in files]
        assert [cell.strip() for cell in cells[folder.name][3:]] == counts, folder.name
