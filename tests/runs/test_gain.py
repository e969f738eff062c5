"""Tests of runs whose grafts have a gain: stored beside gain 1, on nulls and the fine-tuned model, and exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.gain import GAINS, gain_fit
from skillviz.core.graft import Graft, grafted
from skillviz.core.region import Region
from skillviz.core.scores import losses
from skillviz.errors import BadInput, PairMismatch
from skillviz.live.request import PairRequest, Worker
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.evaluation import evaluate
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import FIT, read_spec
from skillviz.runs.store import Store
from skillviz.show import gain as shown
from tests.cases.test_resumed_scoring import cut, resumed
from tests.runs.tiny_world import spec_of


@pytest.fixture(scope="module")
def fitted(world: Path, tmp_path_factory: pytest.TempPathFactory, session: Session) -> Run:
    """Return top movement of two sizes with fitted gains and two draws of its null."""
    spec = spec_of(world, gain=FIT, sizes=("5%", "10%"), nulls="shuffled", null_draws=2, interpolation=True)
    return produce(spec, Store(tmp_path_factory.mktemp("runs")), session=session)


def test_every_graft_that_is_compared_has_its_own_gain(fitted: Run) -> None:
    record = fitted.record
    assert [(note.of, note.size, note.draw) for note in record.gains] == [
        ("grafted", record.sizes[0], None), ("grafted", record.sizes[1], None),
        ("null", record.nulls[0].sizes[0], 0), ("null", record.nulls[0].sizes[1], 1), ("finetuned", None, None),
    ]  # fmt: skip
    for note in record.gains:
        assert note.gain in (1.0, note.fitted) and note.low is not None and note.low <= note.fitted
        assert set(note.states) == set(note.at_one) == {"validation", "test"}
        assert set(note.states["test"]) == {"accuracy", "nll", "ece"}
    assert record.gain == record.gains[0].gain
    assert record.nulls[0].gain == np.mean([note.gain for note in record.gains if note.of == "null"])


def test_the_stored_scores_are_those_of_the_scaled_values(fitted: Run, session: Session) -> None:
    pair, encoded, region = session.pair(fitted.spec), session.encoded(fitted.spec)["test"], fitted.region()
    inside = torch.from_numpy(region.flat())
    base, tuned = pair.base[inside], pair.finetuned[inside]
    with pair.at("pretrained"):
        pair.flat.theta[inside] = base + (tuned - base) * fitted.record.gain
        expected = pair.objective(encoded).logits()
        pair.flat.theta[inside] = base
    rows = fitted.predictions()
    stored = rows[(rows["state"] == "grafted") & (rows["split"] == "test")].filter(like="logit_").to_numpy()
    np.testing.assert_allclose(stored, expected, rtol=1e-5, atol=1e-6)
    assert all(check.passed for check in fitted.record.checks) and pair.gain == 1


def test_the_curve_has_each_size_at_its_gain_and_at_1(fitted: Run, world: Path, store: Store, session: Session) -> None:
    plain = produce(spec_of(world, sizes=("5%", "10%")), store, session=session)
    own, one = fitted.curve(), fitted.curve(gain=1.0)
    gains = {note.size: note.gain for note in fitted.record.gains if note.of == "grafted"}
    assert {size: set(rows["gain"]) for size, rows in own.groupby("size")} == {s: {g} for s, g in gains.items()}
    assert one.equals(plain.curve()) and len(own) == len(one)
    assert plain.record.gains == () and plain.record.gain == 1 and plain.spec.key() != fitted.spec.key()


def test_the_fit_beats_the_gains_around_it_on_its_own_half(fitted: Run, session: Session) -> None:
    from skillviz.core.draws import stratified

    spec, pair, note = fitted.spec, session.pair(fitted.spec), fitted.record.gains[0]
    encoded = session.encoded(spec)["validation"]
    half = encoded.take(stratified(encoded.labels, len(encoded) // 2, spec.data_seed))

    def loss(gain: float) -> float:
        with pair.with_gain(gain):
            return float(losses(predict(pair, half, "grafted", fitted.region()), half.labels).mean())

    assert note.fitted is not None
    assert loss(note.fitted) <= min(loss(float(gain)) for gain in GAINS[1:]) + 1e-2


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_the_exported_values_are_those_that_were_scored(fitted: Run, world: Path, tmp_path: Path, load) -> None:
    graft, _ = graft_of_run(fitted, gain=3.0)
    graft.save(tmp_path / "graft.safetensors")
    again = Graft.load(tmp_path / "graft.safetensors")
    assert again.header["gain"] == 3.0 and "metrics" not in again.header
    pair = load(world / "base", world / "finetuned", task=world / "task.yaml", device="cpu")
    region = fitted.region()
    with pair.with_gain(3.0), pair.at("grafted", region):
        scored = {name: parameter.detach().clone() for name, parameter in pair.model.named_parameters()}
    with grafted(pair.model, again):
        applied = {name: parameter.detach().clone() for name, parameter in pair.model.named_parameters()}
    assert all(torch.equal(scored[name], applied[name]) for name in region.indices)
    assert graft_of_run(fitted)[0].header.get("gain", 1.0) == fitted.record.gain


def test_many_grafts_at_once_have_the_gain_too(fitted: Run, session: Session) -> None:
    pair, encoded = session.pair(fitted.spec), session.encoded(fitted.spec)["test"]
    larger = Region.from_flat(fitted.ranking()[: fitted.record.sizes[1]], pair.table.shapes)
    regions = [fitted.region(), larger]
    with pair.with_gain(2.5):
        together = predict_grafts(pair, encoded, regions)
        alone = [predict(pair, encoded, "grafted", region) for region in regions]
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one, other)


def test_a_gain_that_is_given_is_used_everywhere(world: Path, store: Store, session: Session) -> None:
    run = produce(spec_of(world, gain=2, nulls="shuffled"), store, session=session)
    assert [note.gain for note in run.record.gains] == [2.0, 2.0] and run.record.gain == 2
    assert all(note.fitted is None and note.is_bounded for note in run.record.gains)
    assert "--gain 2.0" in run.spec.command()


@pytest.mark.parametrize("gain", ["many", -1, 1001, float("nan"), None])
def test_what_is_no_gain_is_refused_in_one_sentence(gain: object) -> None:
    with pytest.raises(BadInput, match="and must be fit, or a number from 0 to 1000"):
        read_spec({"base": "a", "finetuned": "b", "task": "sst2", "gain": gain})


def test_what_cannot_have_a_fitted_gain_is_refused_before_the_start(world: Path, store: Store) -> None:
    for changes, words in (
        ({"localizer": "dare"}, "makes no graft"),
        ({"max_validation": 12}, "The gain cannot be fitted: there are fewer than 20 validation examples"),
    ):
        with pytest.raises(BadInput, match=words):
            produce(spec_of(world, gain=FIT, **changes), store)
    assert not store.root.exists() or not list(store.list())


@pytest.mark.slow
@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("after", [6, 16, 26])
def test_fitted_gains_and_those_of_nulls_are_not_fitted_again(
    fitted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    run, _ = resumed(cut(fitted.spec, Store(tmp_path), after, monkeypatch), monkeypatch)
    assert run.record.gains == fitted.record.gains and run.record.nulls == fitted.record.nulls
    for name in ("nulls.parquet", "sizes.parquet", "curve.parquet", "interpolation.parquet"):
        assert run.record.files[name] == fitted.record.files[name], name


def test_the_grid_ends_at_the_graft_of_each_size(fitted: Run) -> None:
    grid, curve = fitted.interpolation(), fitted.curve()
    ends = grid[(grid["path"] == "wise-graft") & (grid["alpha"] == 1) & (grid["metric"] == "nll")].set_index("size")
    stored = curve[(curve["split"] == "test") & (curve["metric"] == "nll")].set_index("size")
    assert set(ends.index) == set(stored.index) == set(fitted.record.sizes)
    for size, row in stored.iterrows():
        assert ends.loc[size, "value"] == pytest.approx(row["value"], abs=1e-6)


def test_live_grafts_have_the_gain_of_a_region_of_the_run_alone(fitted: Run) -> None:
    request = PairRequest(Worker(fitted.path.parent), {"run": fitted.id})
    sizes = {note.size: note.gain for note in fitted.record.gains if note.of == "grafted"}
    for expression, gain in (
        (None, fitted.record.gain), ({"layers": [0]}, 1.0),
        *(({"run": fitted.id, "size": size}, gain) for size, gain in sizes.items()),
    ):  # fmt: skip
        request.region(expression)
        assert request.pair.gain == gain, expression


def test_a_scaled_graft_is_evaluated_beside_its_fine_tuned_model(fitted: Run, world: Path, tmp_path: Path) -> None:
    graft, _ = graft_of_run(fitted, gain=3.0)
    options = {"base": world / "base", "finetuned": world / "finetuned", "task": world / "task.yaml", "device": "cpu"}
    found = evaluate(**options, graft=graft)
    alone = evaluate(world / "base", task=world / "task.yaml", graft=graft, device="cpu")
    of_graft, of_model = (one.scores["test"].states["grafted"]["nll"].value for one in (found, alone))
    assert of_graft == pytest.approx(of_model, abs=1e-6)
    with pytest.raises(PairMismatch, match="not those of this fine-tuned model"):
        evaluate(**options, graft=replace(graft, header={**graft.header, "gain": 2.0}))
    by_region = evaluate(**options, region=fitted.path / "region.safetensors")
    stored = fitted.record.metrics["test"].states["grafted"]["nll"].value
    assert by_region.scores["test"].states["grafted"]["nll"].value == pytest.approx(stored, abs=1e-6)


def test_what_overflows_is_not_chosen() -> None:
    labels = np.array([0, 1] * 20)
    logits = np.stack([np.where(np.eye(2)[labels] == 1, gain, -gain) * 0.01 for gain in GAINS])
    logits[-4:] = np.nan
    assert GAINS[-6] < gain_fit(logits, labels).value <= GAINS[-5]


def test_words_of_a_gain(fitted: Run) -> None:
    """The table has a row for each graft, and a verdict only if there is a null."""
    record = fitted.record
    table = shown.table(record, "test")
    assert len(table) == len(record.gains) and table["gain factor"].str.contains("–").all()
    assert shown.sentence(record, "test").startswith("Gain **") or "no better than gain 1" in shown.sentence(
        record, "test"
    )
    assert shown.verdict(record, "test") in (shown.LOCALIZED, shown.DILUTED, shown.NOT_SHOWN)
    assert shown.verdict(record.model_copy(update={"nulls": ()}), "test") is None
    rows = shown.by_run([record], "test")
    assert len(rows) == 2 and rows["localizer"].tolist() == ["top movement"] * 2
