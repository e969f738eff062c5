"""Tests of rivals at equal bytes: fits as for a graft's gain, stored singly, resumed, and compared with the nearest."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from skillviz.analysis.rivals import rivals
from skillviz.core.compressed import COMPRESSIONS
from skillviz.core.intervals import accuracy_difference
from skillviz.core.scores import losses
from skillviz.core.temperature import scaled
from skillviz.errors import BadInput
from skillviz.runs.part_scores import CHOSEN, ONE, PartScores
from skillviz.runs.produce import produce
from skillviz.runs.rivals import score_rivals
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.runs.tables import score_matrix
from skillviz.show import rivals as shown
from tests.runs.tiny_world import D, spec_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(world, sizes=("5%", "20%"), gain="fit"), Store(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def beside(run: Run) -> PartScores:
    return score_rivals(run, Store(run.root), None, lambda *heard: None)


def logits_of(scores: PartScores, name: str, at: str, labels: tuple[str, ...]) -> np.ndarray:
    rows = scores.predictions()
    return score_matrix(rows[(rows["kind"] == name) & (rows["condition"] == at)], labels)


def test_a_graft_has_the_gain_and_the_scores_that_its_run_has(run: Run, beside: PartScores) -> None:
    for note in (note for note in run.record.gains if note.of == "grafted"):
        facts = beside.record.facts[f"entries {note.size}"]
        assert (facts["gain"], facts["fitted"], facts["low"]) == (note.gain, note.fitted, note.low)
        assert facts.get("temperature") == note.temperature and facts["bytes"] == 12 * (note.size or 0)
        rows = rivals(run, beside).query(f"name == 'entries {note.size}' and at == 'chosen'").set_index("metric")
        for metric, stored in note.states["test"].items():
            assert list(rows.loc[metric, ["value", "low", "high"]]) == pytest.approx(
                [stored.value, stored.low, stored.high]
            )
    for size in (run.record.size or 0, 4 * (run.record.size or 0)):
        _, _, own = run.logits("grafted", size=size)
        assert np.allclose(logits_of(beside, f"entries {size}", CHOSEN, run.labels), own, atol=1e-6)


def test_one_byte_an_entry_is_nearly_the_fine_tuned_model(run: Run, beside: PartScores) -> None:
    _, _, tuned = run.logits("finetuned")
    assert np.allclose(logits_of(beside, "int8", ONE, run.labels), tuned, atol=0.2)
    assert not np.allclose(logits_of(beside, "signs", ONE, run.labels), tuned, atol=0.2), (
        "coarser, so a difference shows"
    )
    assert set(COMPRESSIONS) < set(beside.record.facts) and beside.record.facts["int8"]["bytes"] > D


def test_differences_are_paired_with_the_graft_nearest_in_bytes(run: Run, beside: PartScores) -> None:
    table, facts = rivals(run, beside), beside.record.facts
    row = table.query("name == 'signs' and at == 'chosen' and metric == 'accuracy'").iloc[0]
    nearest = min((name for name in facts if name.startswith("entries")),
                  key=lambda name: abs(np.log(facts[name]["bytes"]) - np.log(row["bytes"])))  # fmt: skip
    labels = beside.predictions().query("kind == 'signs' and condition == 'one'")["label"].to_numpy()
    z = {name: logits_of(beside, name, CHOSEN, run.labels) for name in ("signs", nearest)}
    less = accuracy_difference(z["signs"], z[nearest], labels)
    assert row["nearest"] == nearest and (row["difference_low"], row["difference_high"]) == (less.low, less.high)
    nll = table.query("name == 'signs' and at == 'one' and metric == 'nll'").iloc[0]["value"]
    one = scaled(logits_of(beside, "signs", ONE, run.labels), facts["signs"].get("temperature_at_one", 1.0))
    assert nll == pytest.approx(losses(one, labels).mean())
    assert table["name"].tolist()[0] == "pretrained" and table.loc[0, "nearest"] == ""
    text = shown.table(table, "accuracy")
    assert text["stored"].tolist()[:4] == ["pre-trained", "fine-tuned", "graft of 5%", "graft of 20.0%"]
    assert all("kB has **" in line and "points (95%" in line for line in shown.finding(table, "accuracy"))
    figure = shown.by_bytes(table, "nll", "accuracy", "light").figure
    assert {trace.name for trace in figure.data} == {"graft", "signs", "low rank", "int8"}


def test_a_cut_one_resumes_and_another_sample_starts_over(run: Run, beside: PartScores, tmp_path: Path) -> None:
    store, told = Store(shutil.copytree(run.root, tmp_path / "copy")), list[str]()
    copy = store.open(run.id)

    def cut(name: str, *heard: object) -> None:
        told.append(name)
        if name.startswith("rank 1"):
            raise KeyboardInterrupt

    assert score_rivals(copy, store, None, cut).record.facts == beside.record.facts and not told
    with pytest.raises(KeyboardInterrupt):
        score_rivals(copy, store, 20, cut)
    told.clear()
    again = score_rivals(copy, store, 20, lambda name, *heard: told.append(name))
    assert again.record.n == 20 and told[0].startswith("rank 1, 4 of 8") and store.verify(run.id) == []
    assert rivals(run, again)["name"].nunique() == 2 + again.predictions()["kind"].nunique()


def test_what_no_gain_can_be_fitted_on_is_refused_in_one_sentence(world: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for changes, words in (({"max_validation": 12}, "fewer than 20"), ({"localizer": "dare"}, "no graft")):
        with pytest.raises(BadInput, match=words):
            score_rivals(produce(spec_of(world, **changes), store), store, None, lambda *heard: None)
