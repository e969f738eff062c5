"""Tests of docs/research/baselines.md: numbers from stored tables, LoRA at its own size, verdicts from intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from docs.research import baselines
from skillviz.analysis.tables import check
from tests.studies.fake_tables import FAKE_TABLES, SIZES, D

SMALL, MIDDLE, LARGE = (round(size * D) for size in SIZES)


@pytest.fixture
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return invented tables of one task, with LoRA trained on exactly the middle size's number of entries."""
    made = [FAKE_TABLES[name](("sst2_sentences",), np.random.default_rng(0)) for name in ("scores", "differences")]
    scores, differences = (check(frame, name) for frame, name in zip(made, ("scores", "differences"), strict=True))
    scores.loc[scores["method"] == "lora", "touched"] = float(MIDDLE)
    return scores, differences


def cells(lines: list[str], first: str) -> list[str]:
    """Return the cells of the only row with this first cell."""
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_cell_is_the_tables_number_at_its_size(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    scores, differences = tables
    lines = baselines.board(scores, differences)
    above, below, areas = "\n".join(lines).split("\n\n")
    above, below = above.split("\n"), below.split("\n")
    assert cells(areas.split("\n"), "`movement`")[1] and "without the region" in areas
    own = scores[(scores["task"] == "sst2_sentences") & (scores["metric"] == "accuracy") & (scores["split"] == "test")]
    row = own[(own["method"] == "graft_movement") & (own["share"] == 0.01)].iloc[0]
    wanted = f"{100 * row['mean']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
    assert cells(above, "`movement`")[2] == wanted
    asked = (
        (differences["a"] == "graft") & (differences["b"] == "graft_movement") & (differences["metric"] == "accuracy")
    )
    row = differences[asked & (differences["task"] == "sst2_sentences") & (differences["share"] == 0.1)].iloc[0]
    assert cells(below, "`movement`")[3].startswith(f"{100 * row['value']:+.1f}".replace("-", "−"))


def test_lora_stands_at_the_size_that_it_trains_alone(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    lines = baselines.board(*tables)
    for part in (lines[: lines.index("")], lines[lines.index("") + 1 :]):
        small, middle, large = cells(part, "LoRA")[1:]
        assert middle and not small and not large


def test_lora_is_turned_round(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    scores, differences = tables
    less = baselines.compared(differences, scores)
    lora = less[less["method"] == "lora"]
    asked = (differences["a"] == "lora") & (differences["b"] == "graft") & (differences["metric"] == "accuracy")
    row = differences[asked & (differences["task"] == "sst2_sentences") & (differences["share"] == 0.01)].iloc[0]
    assert lora["value"].tolist() == [-row["value"]] and lora["low"].tolist() == [-row["high"]]


@pytest.mark.parametrize(("low", "high", "words"), [(0.01, 0.02, "better than"), (-0.02, -0.01, "worse than"),
                                                    (-0.01, 0.02, "no clear difference from")])  # fmt: skip
def test_a_verdict_is_what_the_interval_says(
    tables: tuple[pd.DataFrame, pd.DataFrame], low: float, high: float, words: str
) -> None:
    scores, differences = tables
    planted = differences[(differences["b"] == "graft_random") & (differences["a"] == "graft")]
    less = baselines.compared(planted.assign(value=(low + high) / 2, low=low, high=high), scores)
    found = list(baselines.verdicts(scores, less.assign(holds=True)))
    assert len(found) == len(SIZES) and all(f"is {words} `random`." in line for line in found)
    found = list(baselines.verdicts(scores, less.assign(holds=False)))
    mark = "" if low < 0 < high else " †"
    assert all(f"is {words} `random`{mark}." in line for line in found)


@pytest.mark.nightly
def test_the_page_holds_what_is_stored(tmp_path: Path) -> None:
    page = tmp_path / "baselines.md"
    stored = baselines.PAGE.read_text(encoding="utf-8")
    page.write_text(stored.replace("points", "pints"), encoding="utf-8")
    assert baselines.write(page=page) == ["baselines-minilm"]
    assert page.read_text(encoding="utf-8").count("points") >= 3 * 3
    page.write_text(stored, encoding="utf-8")
    baselines.write(page=page)
    assert page.read_text(encoding="utf-8") == stored
