"""Tests of fine-tunes with a known region, and of `python -m benchmarks planted` on a tiny pair: its rows, resuming,
the board, and the page's tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import planted
from skillviz.analysis.known_truth import ALONE, CELL, EVERYWHERE, SKILL, SMALL, board, models, searches
from skillviz.core.draws import uniform
from skillviz.core.parameters import ParameterTable, head_numbers
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.finetune.region_lock import MovedOutside, RegionLock
from skillviz.models.pair import ModelPair, load_pair
from skillviz.planted import (
    PLACES,
    elsewhere,
    place,
    plant,
    save,
    table_of,
    with_random_movement,
    with_skill_of,
    without,
)
from skillviz.tasks import registry
from skillviz.tasks.task import Task
from tests.refused import refuses
from tests.tiny import tiny_pair, tiny_task

SETTINGS = {"adamw": {"steps": 20, "lr": 0.01}, "sgd": {"steps": 40, "lr": 0.3}}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return registry.task(tiny_task(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny BERT with a head, which is the base of every skill here."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[1]


@pytest.fixture(scope="module")
def table(base: Path, task: Task) -> ParameterTable:
    return table_of(base, task)


@pytest.fixture(scope="module")
def skills(base: Path, task: Task, table: ParameterTable, tmp_path_factory: pytest.TempPathFactory) -> list[ModelPair]:
    """Return one skill trained with AdamW in 3% of the entries, and one elsewhere."""
    folder, true = tmp_path_factory.mktemp("skills"), place("scattered 3%", table)
    return [
        plant(base, task, region, folder / name, maker="adamw", **SETTINGS["adamw"])
        for name, region in (("here", true), ("there", elsewhere(true)))
    ]


def bits(values: torch.Tensor) -> torch.Tensor:
    return values.view(torch.int32)


def moved(pair: ModelPair) -> np.ndarray:
    """Return the global flat indices of the entries whose bits differ from the base's."""
    return torch.nonzero(bits(pair.finetuned) != bits(pair.base)).flatten().numpy()


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("maker", SETTINGS)
def test_no_bit_outside_the_place_changes(
    name: str, maker: str, base: Path, task: Task, table: ParameterTable, tmp_path: Path
) -> None:
    region = place(name, table, seed=1)
    changed = set(moved(plant(base, task, region, tmp_path / "out", maker=maker, **SETTINGS[maker])))
    assert changed <= set(region.flat())
    assert len(changed) > 0.5 * region.size, "but for keys' biases, which softmax does not see"


def test_places_are_what_they_say(table: ParameterTable) -> None:
    scattered, flat = place("scattered 0.5%", table, 3), place("biases and LayerNorm", table)
    assert scattered.size == round(0.005 * table.d) and scattered != place("scattered 0.5%", table, 4)
    by_chance = set(uniform(table.d, scattered.size, 3)) & set(scattered.flat())
    assert len(by_chance) < 0.5 * scattered.size, "the localizer `random` with the same seed does not draw it"
    (name,) = place("one layer's values", table, 1).indices
    assert "layer.1" in name and name.endswith("value.weight")
    for parameter in table.parameters:
        chosen = place("two heads", table).indices.get(parameter.name, np.empty(0, np.int64))
        numbers = head_numbers(table, parameter, np.arange(parameter.size))
        assert set(numbers[chosen]) == (set(numbers) - {-1} if parameter.layer == 0 else set()), "both heads of layer 0"
    assert (set(flat.indices), [name for name in flat.indices if not flat.has_all_of(name)]) == (
        {p.name for p in table.parameters if len(p.shape) == 1},
        [],
    )


@pytest.mark.parametrize("seed", range(5))
def test_draws_are_independent_of_the_localizer_random(seed: int, table: ParameterTable) -> None:
    region = place("one layer's values", table)
    outside, drawn = elsewhere(region, seed), set(uniform(table.d, region.size, seed))
    expected = region.size * region.size / table.d
    assert abs(len(drawn & set(outside.flat())) - expected) < 5 * expected**0.5
    assert not outside & region and outside.size == region.size


def test_a_weak_lock_is_caught(
    base: Path, task: Task, table: ParameterTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegionLock, "mask", lambda self: None)
    words, here = "entries outside the region moved", place("scattered 3%", table)
    refuses(MovedOutside, words, plant, base, task, here, tmp_path / "out", maker="adamw", steps=2)


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_random_movement_has_the_regions_distances_and_lies_outside(skills: list[ModelPair], factor: float) -> None:
    skill, region = skills[0], place("scattered 3%", skills[0].table)
    both = with_random_movement(skill, region, factor, seed=2)
    inside, outside = (torch.from_numpy(one.flat()) for one in (region, elsewhere(region, 2)))
    assert torch.equal(both.finetuned[inside], skill.finetuned[inside])
    assert set(moved(both)) <= {*inside.tolist(), *outside.tolist()}
    far, distractor = ((one.finetuned - one.base)[at] for one, at in ((skill, inside), (both, outside)))
    # The sum is rounded once.
    torch.testing.assert_close(distractor.abs().sort().values, factor * far.abs().sort().values, rtol=1e-4, atol=1e-6)
    assert {-1.0, 1.0} <= set(distractor.sign().tolist())


def test_two_skills_lie_apart(skills: list[ModelPair]) -> None:
    both = with_skill_of(*skills)
    here, there = (set(moved(one)) for one in skills)
    assert not here & there and set(moved(both)) == here | there
    for one in skills:
        at = torch.from_numpy(moved(one))
        assert torch.equal(bits(both.finetuned[at]), bits(one.finetuned[at]))


def test_without_the_region_its_entries_are_the_bases(skills: list[ModelPair]) -> None:
    skill, region = skills[0], place("scattered 3%", skills[0].table)
    both = with_random_movement(skill, region)
    assert (set(moved(without(both, region))), len(moved(without(skill, region)))) == (
        set(moved(both)) - set(region.flat()),
        0,
    )


def test_a_saved_model_is_the_one_in_memory(skills: list[ModelPair], task: Task, base: Path, tmp_path: Path) -> None:
    both = with_skill_of(*skills)
    save(both, tmp_path / "both")
    read = load_pair(base, tmp_path / "both", task=task, device="cpu")
    assert torch.equal(bits(read.finetuned), bits(both.finetuned)) and torch.equal(read.base, both.base)
    refuses(BadInput, "is not empty", save, both, tmp_path / "both")


@pytest.mark.parametrize(
    ("plant_it", "words"),
    [
        (lambda here: place("nowhere", here[1].table), "'nowhere' is not a place; known: scattered 0.5%"),
        (lambda here: plant(*here[0], place("scattered 3%", here[1].table), Path("x"), maker="lion"),
         "'lion' is not an optimizer; known: sgd, adamw"),
        (lambda here: elsewhere(Region.full(here[1].table.shapes)), "0 others are left"),
        (lambda here: with_random_movement(here[1], place("scattered 3%", here[1].table), 0), "the factor is 0"),
    ],
    ids=["place", "optimizer", "full", "factor"],
)  # fmt: skip
def test_what_cannot_be_planted_is_refused(
    plant_it: Callable[[Any], object], words: str, skills: list[ModelPair], base: Path, task: Task
) -> None:
    refuses(BadInput, words, plant_it, ((base, task), skills[0]))


CELLS = (("scattered 3%", "adamw", ALONE), ("scattered 3%", "adamw", "random 1×"), ("scattered 3%", "adamw", SKILL))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the command twice, the second time with nothing left to do; return the folder of both tables."""
    folder = tmp_path_factory.mktemp("planted")
    base, task = tiny_pair(folder, "bert", "head")[1], tiny_task(folder / "data")
    rates = {"sgd": 0.3, "adamw": 0.05}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(planted.ENCODERS, SMALL, planted.Encoder(tuple(CELLS), 30, rates, rates))
        for name, value in {"small_base": lambda out: base, "TASK": task, "OTHER": task, "KEEPS": -10.0}.items():
            patch.setattr(planted, name, value)
        for _ in range(2):
            planted.run(folder / "work", folder, SMALL, [0], ["movement", "random"], [1.0, 3.0])
            assert len(pd.read_csv(folder / "planted_models.csv")) == 4, "none is made twice"
            assert len(pd.read_csv(folder / "planted.csv")) == 3 * 2 * 2
        shop = planted.Workshop(SMALL, folder / "work")
        other = planted.other_region(shop.table, 0)
        assert not any(other & place(name, shop.table) for name in PLACES), "apart from every place"
        pair, true = shop.planted(planted.Cell(SMALL, *CELLS[2], 0))
        assert not true & other and (pair.finetuned != pair.base).sum() > 0
    return folder


@pytest.mark.nightly
def test_a_model_without_distractor_is_found_whole_by_top_movement(results: Path) -> None:
    rows, made = (read(results / name) for read, name in (
        (searches, "planted.csv"), (models, "planted_models.csv")))  # fmt: skip
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
    (row,) = board(rows, made).to_dict("records")
    assert row["models"] == row["seeds"] == 2 and row["above_chance"] == pytest.approx(0.3)
    assert row["above_chance_low"] < 0.3 < row["above_chance_high"] and row["recall_low"] == row["recall_high"] == 0.5
    (one,) = board(rows, made.assign(counts=[True, False, False])).to_dict("records")
    assert one["above_chance"] == pytest.approx(0.2) and pd.isna(one["above_chance_low"]), "one seed has no interval"
    assert board(pd.DataFrame(), made).empty


def test_the_page_has_the_stored_tables() -> None:
    """Every number in docs/research/known-truth.md's tables is a stored one."""
    text = planted.PAGE.read_text(encoding="utf-8")
    rows, made = searches(), models()
    assert "\n".join(planted.board(rows, made)) in text and "\n".join(planted.models_table(made)) in text
