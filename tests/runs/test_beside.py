"""Tests of what is stored beside a run: regions kept out of it, other regions, and rivals at equal bytes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.analysis.other_regions import as_good, other_regions
from skillviz.analysis.rivals import rivals
from skillviz.core.compressed import COMPRESSIONS
from skillviz.core.intervals import accuracy_difference
from skillviz.core.nulls import beyond_null
from skillviz.core.scores import correct, losses
from skillviz.core.temperature import scaled
from skillviz.errors import BadInput, BadSize
from skillviz.models.null_pair import kept_out, null_pair
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import (
    ADVERSARIAL,
    CHOSEN,
    CONTROL,
    DISJOINT,
    MINIMAL,
    ONE,
    REGIONS,
    SEARCHED,
    PartScores,
)
from skillviz.runs.rivals import score_rivals
from skillviz.runs.tables import score_matrix
from skillviz.show import other_regions as shown
from skillviz.show import rivals as compared
from tests.core.by_hand import near, refuses
from tests.runs.tiny_world import D, Region, Run, Session, Store, produce, produced, spec_of

SEARCH = {"localizer": "stagewise", "steps": 3, "batch_size": 16, "sizes": ("5%",), "nulls": "shuffled"}


run = produced(**SEARCH)


@pytest.mark.nightly
def test_a_run_and_its_nulls_stay_out_of_the_region_of_another(run: Run, world: Path, store: Store) -> None:
    spec = spec_of(world, **SEARCH, outside=run.id)
    other = produce(spec, Store(shutil.copytree(run.root, store.root)))
    assert other.region().size == run.region().size
    assert (other.region() & run.region()).size == 0
    assert other.region_header()["made_of"][0]["run"] == run.id
    assert any("stays out of 222 entries" in note for note in other.record.notes)
    assert other.record.nulls
    assert f"--outside '{spec.outside}'" in spec.command() and "outside" in spec.search_fields()


@pytest.mark.parametrize("lean", [False, True])
def test_only_the_entries_that_are_left_out_lose_their_movement(run: Run, world: Path, lean: bool) -> None:
    pair = Session().pair(spec_of(world, **SEARCH, lean=lean, dtype="own" if lean else "float32"))
    region, index = run.region(), torch.arange(pair.d)
    rest, span = np.setdiff1d(index, region.flat()), index[: pair.table.offsets[1]]
    inside = region.mask(pair.table.names[0]).reshape(-1)
    for moved in (pair, null_pair(pair, "shuffled", 0)):
        out = kept_out(moved, region)
        before, after = (one.movement.of(0, one.base[span], one.finetuned[span]) for one in (moved, out))
        assert (
            not after[inside].any()
            and torch.equal(after[~inside], before[~inside])
            and torch.equal(out.finetuned[index][rest], moved.finetuned[index][rest])
        )


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"localizer": "random"}, BadInput, "the localizer 'random' does not choose entries by their movement"),
        ({"sizes": ("100%",)}, BadSize, r"4,448 entries were requested, and 4,226 are outside"),
    ],
    ids=["by chance", "too many"],
)
def test_what_cannot_be_kept_out_is_refused(
    run: Run, world: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    refuses(error, words, produce, spec_of(world, outside=run.id, **changes), Store(run.root))


@pytest.fixture(scope="module")
def beside(run: Run) -> OtherRegions:
    found = OtherRegions(run, Store(run.root), sample=20, told=lambda text: None)
    for kind, count in ((DISJOINT, 2), (MINIMAL, 1), (ADVERSARIAL, 1)):
        found.find(kind, count, 2)
    return found


@pytest.fixture
def known(beside: OtherRegions) -> PartScores:
    assert beside.known is not None and beside.known.path.name == REGIONS
    return beside.known


def test_disjoint_regions_share_nothing_and_each_has_its_nulls(beside: OtherRegions, known: PartScores) -> None:
    regions = [beside.region.flat(), *known.entries(DISJOINT)]
    assert ([len(flat) for flat in regions], len(np.unique(np.concatenate(regions)))) == (
        [beside.region.size] * 3, 3 * beside.region.size,
    )  # fmt: skip
    rows = known.predictions().query("kind == @DISJOINT")
    assert set(zip(rows["head"], rows["condition"], rows["draw"], strict=True)) == (
        {
            (number, condition, draw)
            for number in (1, 2)
            for condition, draw in ((SEARCHED, 0), (CONTROL, 1), (CONTROL, 2))
        }
    )
    assert rows["example_id"].nunique() == 20
    assert known.record.n == 20
    assert Store(beside.run.root).verify(beside.run.id) == []


def test_the_part_that_suffices_has_no_higher_loss_on_the_half_that_decides(
    beside: OtherRegions, known: PartScores
) -> None:
    (kept,), facts = known.entries(MINIMAL), known.record.facts["minimal 1"]
    assert np.isin(kept, beside.region.flat()).all()
    assert len(kept) < beside.region.size and facts["loss_kept"] <= facts["loss"]


def test_what_hurts_lies_outside_and_hurts_more_than_random(beside: OtherRegions, known: PartScores) -> None:
    (worst,) = known.entries(ADVERSARIAL)
    (row,) = other_regions(beside.run, known).query("kind == @ADVERSARIAL and measure == 'nll'").itertuples()
    assert len(worst) == beside.region.size
    assert row.draws == 2
    assert not np.isin(worst, beside.region.flat()).any()
    assert row.less < 0
    assert row.beyond < 0


def test_what_is_stored_is_not_searched_again_and_more_go_on_from_there(
    beside: OtherRegions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use a copy of the store, because other tests read the original."""
    told: list[str] = []
    store = Store(shutil.copytree(beside.run.root, tmp_path / "copy"))
    again = OtherRegions(store.open(beside.run.id), store, sample=20, told=told.append)
    again.find(DISJOINT, 2, 2)
    assert not told
    monkeypatch.setattr(again, "disjoint", lambda there, draws: (np.arange(len(there)), [], {}))
    found = again.find(DISJOINT, 3)
    assert "disjoint 3: searching" in told and found.entries(DISJOINT)[2].tolist() == [0, 1]
    assert set(found.record.facts) == {"disjoint 1", "disjoint 2", "disjoint 3", "minimal 1", "adversarial 1"}
    assert OtherRegions(store.open(beside.run.id), store, sample=10).known is None, "of another sample"


def test_the_table_is_the_difference_of_grafts_and_nulls_by_hand(beside: OtherRegions, known: PartScores) -> None:
    run, first = beside.run, known.predictions().query("kind == @DISJOINT and head == 1")
    ids = list(dict.fromkeys(known.predictions()["example_id"]))

    def right(frame: pd.DataFrame, rows: str) -> np.ndarray:
        frame = frame.query(rows).set_index("example_id").loc[ids]
        return correct(score_matrix(frame, run.labels), frame["label"].to_numpy()).astype(float)

    graft, drawn = right(first, "condition == @SEARCHED"), [right(first, f"draw == {draw}") for draw in (1, 2)]
    own_graft = right(run.predictions(), "state == 'grafted' and split == 'test'")
    own_null = right(run.nulls(), "draw == 0 and split == 'test'")
    table = other_regions(run, known)
    (row,) = table.query("kind == @DISJOINT and number == 1 and measure == 'accuracy'").itertuples()
    assert (row.less, row.beyond, row.low, row.high) == near(
        ((graft - drawn[0]) - (own_graft - own_null)).mean(), *beyond_null(graft, drawn)[:3]
    ) and (row.less != pytest.approx((graft - own_graft).mean()) or own_null.mean() == drawn[0].mean())
    assert shown.table(table)["region"].tolist()[:2] == ["this region", "disjoint 1"]
    said = "\n".join(shown.finding(table, run.record, known.record.facts))
    assert "of this size" in said and "of the region suffices" in said and "that hurt most" in said


def test_a_region_does_as_well_where_it_is_beyond_its_null_and_not_clearly_less() -> None:
    rows = [
        {"kind": DISJOINT, "number": number, "measure": measure, "low": low, "less": 0.0, "less_high": high}
        for number, cases in enumerate([[(0.1, 0.2), (0.1, 0.0)], [(0.1, -0.1), (0.1, 0.1)], [(-0.1, 1), (1, 1)]], 1)
        for measure, (low, high) in zip(("accuracy", "nll"), cases, strict=True)
    ]
    assert as_good(pd.DataFrame(rows)) == [1]


def test_roles_of_cells_by_hand(run: Run) -> None:
    shapes = run.region().shapes
    name, other = [n for n in shapes if n.endswith("query.weight")][:2]
    cells = shown.cell_roles(
        run, [Region({name: np.arange(10)}, shapes), Region({other: np.arange(10), name: np.arange(5)}, shapes)]
    )
    assert {
        cell: role for cell, role in cells.set_index(["layer", "kind"])["role"].to_dict().items() if role != shown.NEVER
    } == {
        (0, "query"): shown.CORE,
        (1, "query"): shown.CONTINGENT,
    }
    assert "1 core, 1 contingent" in shown.role_map(cells, 2, "light").finding


def test_a_run_with_a_gain_is_refused(beside: OtherRegions) -> None:
    record = beside.run.record.model_copy(update={"gains": ()})
    object.__setattr__(record, "gain", 2.0)
    refuses(BadInput, "has the gain 2", OtherRegions, Run(beside.run.path, record), beside.store)


gained = produced(sizes=("5%", "20%"), gain="fit")


@pytest.fixture(scope="module")
def scored(gained: Run) -> PartScores:
    return score_rivals(gained, Store(gained.root), None, lambda *heard: None)


@pytest.fixture
def table(gained: Run, scored: PartScores) -> pd.DataFrame:
    return rivals(gained, scored)


def logits_of(scores: PartScores, name: str, at: str, labels: tuple[str, ...]) -> np.ndarray:
    return score_matrix(scores.predictions().query("kind == @name and condition == @at"), labels)


@pytest.mark.slow
def test_a_graft_has_the_gain_and_the_scores_that_its_run_has(
    gained: Run, scored: PartScores, table: pd.DataFrame
) -> None:
    for note in (note for note in gained.record.gains if note.of == "grafted"):
        name, wanted = f"entries {note.size}", note.states["test"]
        assert {
            key: scored.record.facts[name].get(key) for key in ("gain", "fitted", "low", "temperature", "bytes")
        } == {
            "gain": note.gain, "fitted": note.fitted, "low": note.low, "temperature": note.temperature,
            "bytes": 12 * note.size,
        }  # fmt: skip
        assert table.query("name == @name and at == 'chosen'").set_index("metric").loc[list(wanted)][
            ["value", "low", "high"]
        ].to_numpy().tolist() == [
            pytest.approx([one.value, one.low, one.high]) for one in wanted.values()
        ] and np.allclose(
            logits_of(scored, name, CHOSEN, gained.labels), gained.logits("grafted", size=note.size)[2], atol=1e-6
        )


@pytest.mark.slow
def test_one_byte_an_entry_is_nearly_the_fine_tuned_model(gained: Run, scored: PartScores) -> None:
    _, _, tuned = gained.logits("finetuned")
    assert {
        name: np.allclose(logits_of(scored, name, ONE, gained.labels), tuned, atol=0.2) for name in ("int8", "signs")
    } == {"int8": True, "signs": False}, "signs are coarser, so a difference shows"
    assert set(COMPRESSIONS) < set(scored.record.facts) and scored.record.facts["int8"]["bytes"] > D


@pytest.mark.slow
def test_differences_are_paired_with_the_graft_nearest_in_bytes(
    gained: Run, scored: PartScores, table: pd.DataFrame
) -> None:
    facts, labels = scored.record.facts, gained.logits("grafted")[1]
    row, nll = (
        table.query(f"name == 'signs' and {rest}").iloc[0]
        for rest in ("at == 'chosen' and metric == 'accuracy'", "at == 'one' and metric == 'nll'")
    )
    nearest = min((name for name in facts if name.startswith("entries")),
                  key=lambda name: abs(np.log(facts[name]["bytes"]) - np.log(row["bytes"])))  # fmt: skip
    less = accuracy_difference(*(logits_of(scored, name, CHOSEN, gained.labels) for name in ("signs", nearest)), labels)
    assert row[["nearest", "difference_low", "difference_high"]].tolist() == [nearest, less.low, less.high]
    assert nll["value"] == pytest.approx(
        losses(
            scaled(logits_of(scored, "signs", ONE, gained.labels), facts["signs"].get("temperature_at_one", 1.0)),
            labels,
        ).mean()
    )


@pytest.mark.slow
def test_what_is_shown_of_rivals(table: pd.DataFrame) -> None:
    assert (table.loc[0, ["name", "nearest"]].tolist(), compared.table(table, "accuracy")["stored"].tolist()[:4]) == (
        ["pretrained", ""],
        ["pre-trained", "fine-tuned", "graft of 5%", "graft of 20.0%"],
    )
    assert (
        [line for line in compared.finding(table, "accuracy") if "kB has **" not in line or "points (95%" not in line],
        {trace.name for trace in compared.by_bytes(table, "nll", "accuracy", "light").figure.data},
    ) == ([], {"graft", "signs", "low rank", "int8"})


@pytest.mark.slow
def test_a_cut_one_resumes_and_another_sample_starts_over(gained: Run, scored: PartScores, tmp_path: Path) -> None:
    store, told = Store(shutil.copytree(gained.root, tmp_path / "copy")), list[str]()
    copy = store.open(gained.id)

    def cut(name: str, *heard: object) -> None:
        told.append(name)
        if name.startswith("rank 1"):
            raise KeyboardInterrupt

    assert score_rivals(copy, store, None, cut).record.facts == scored.record.facts and not told
    refuses(KeyboardInterrupt, None, score_rivals, copy, store, 20, cut)
    told.clear()
    again = score_rivals(copy, store, 20, lambda name, *heard: told.append(name))
    assert again.record.n == 20
    assert store.verify(gained.id) == []
    assert rivals(gained, again)["name"].nunique() == 2 + again.predictions()["kind"].nunique()
    assert told[0].startswith("rank 1, 4 of 8")


@pytest.mark.parametrize(
    ("changes", "words"), [({"max_validation": 12}, "fewer than 20"), ({"localizer": "dare"}, "no graft")]
)
@pytest.mark.slow
def test_what_no_gain_can_be_fitted_on_is_refused_in_one_sentence(
    world: Path, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    store = Store(tmp_path)
    refuses(BadInput, words, score_rivals, produce(spec_of(world, **changes), store), store, None, lambda *heard: None)
