"""Tests of `python -m benchmarks planted` on a tiny pair: its rows, resuming, the board, and the page's tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import planted
from benchmarks.planted import Cell, Workshop, other_region
from skillviz.analysis import known_truth
from skillviz.analysis.known_truth import ALONE, CELL, EVERYWHERE, SKILL, SMALL
from skillviz.planted import PLACES, place
from tests.tiny import tiny_pair, tiny_task

CELLS = (("scattered 3%", "adamw", ALONE), ("scattered 3%", "adamw", "random 1×"), ("scattered 3%", "adamw", SKILL))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the command twice, the second time with nothing left to do; return the folder of both tables."""
    folder = tmp_path_factory.mktemp("planted")
    base, task = tiny_pair(folder, "bert", "head")[1], tiny_task(folder / "data")
    rates = {"sgd": 0.3, "adamw": 0.05}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(planted.ENCODERS, SMALL, planted.Encoder(tuple(CELLS), 30, rates, rates))
        patch.setattr(planted, "small_base", lambda out: base)
        patch.setattr(planted, "TASK", task)
        patch.setattr(planted, "OTHER", task)
        patch.setattr(planted, "KEEPS", -10.0)
        for _ in range(2):
            planted.run(folder / "work", folder, SMALL, [0], ["movement", "random"], [1.0, 3.0])
            assert len(pd.read_csv(folder / "planted_models.csv")) == 4, "none is made twice"
            assert len(pd.read_csv(folder / "planted.csv")) == 3 * 2 * 2
        shop = Workshop(SMALL, folder / "work")
        other = other_region(shop.table, 0)
        assert not any(other & place(name, shop.table) for name in PLACES), "apart from every place"
        pair, true = shop.planted(Cell(SMALL, *CELLS[2], 0))
        assert not true & other and (pair.finetuned != pair.base).sum() > 0
    return folder


@pytest.mark.nightly
def test_a_model_without_distractor_is_found_whole_by_top_movement(results: Path) -> None:
    rows, made = (read(results / name) for read, name in (
        (known_truth.searches, "planted.csv"), (known_truth.models, "planted_models.csv")))  # fmt: skip
    assert len(rows) == 12 and list(made["place"]) == [EVERYWHERE, *["scattered 3%"] * 3]
    alone = rows[(rows["distractor"] == ALONE) & (rows["localizer"] == "movement")]
    assert (alone["precision"] == 1).all() and (alone["chance"] == 1).all() and (alone["recall"] > 0.999).all()
    model = made[(made["distractor"] == ALONE) & (made["place"] != EVERYWHERE)].iloc[0]
    assert (alone["graft"] == model["true_region"]).all() and (alone["true_part"] == alone["graft"]).all()
    assert (alone["kept_out"] == model["base"]).all() and (alone["false_part"] == model["base"]).all()
    beside = rows[(rows["distractor"] == "random 1×") & (rows["localizer"] == "random") & (rows["factor"] == 3.0)]
    assert beside["chance"].item() == pytest.approx(0.5, abs=0.02) and beside["size"].item() > 2.9 * model["size"]


def test_the_board_takes_models_that_count_and_its_interval_is_over_seeds() -> None:
    cell = {"encoder": "small", "place": "two heads", "maker": "sgd", "distractor": ALONE}
    shares = {"chance": 0.2, "recall": 0.5, "tensor": 2.0, "graft": 0.8, "true_part": 0.7, "false_part": 0.6,
              "kept_out": 0.55}  # fmt: skip
    rows = pd.DataFrame(
        [{**cell, "seed": seed, "localizer": "movement", "factor": 1.0, "precision": precision, **shares}
         for seed, precision in ((0, 0.4), (1, 0.6), (2, 1.0))]
    )  # fmt: skip
    made = rows[CELL].assign(counts=[True, True, False])
    (row,) = known_truth.board(rows, made).to_dict("records")
    assert row["models"] == row["seeds"] == 2 and row["above_chance"] == pytest.approx(0.3)
    assert row["above_chance_low"] < 0.3 < row["above_chance_high"] and row["recall_low"] == row["recall_high"] == 0.5
    (one,) = known_truth.board(rows, made.assign(counts=[True, False, False])).to_dict("records")
    assert one["above_chance"] == pytest.approx(0.2) and pd.isna(one["above_chance_low"]), "one seed has no interval"
    assert known_truth.board(pd.DataFrame(), made).empty


def test_the_page_has_the_stored_tables() -> None:
    """Every number in docs/research/known-truth.md's tables is a stored one."""
    text = planted.PAGE.read_text(encoding="utf-8")
    rows, made = known_truth.searches(), known_truth.models()
    assert "\n".join(planted.board(rows, made)) in text and "\n".join(planted.models_table(made)) in text
