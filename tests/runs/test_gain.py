"""Tests of runs whose grafts have a gain: stored beside gain 1, on nulls and the fine-tuned model, and exported."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.draws import stratified
from skillviz.core.gain import GAINS, gain_fit
from skillviz.core.graft import Graft, grafted
from skillviz.core.scores import losses
from skillviz.core.temperature import temperature_fit
from skillviz.errors import BadInput, PairMismatch
from skillviz.live.request import PairRequest, Worker
from skillviz.models.lean_pair import load_lean
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs import gain as fits
from skillviz.runs.evaluation import evaluate
from skillviz.runs.export import Origin, card
from skillviz.runs.passes import UNKEPT
from skillviz.runs.spec import FIT, KINDS
from skillviz.show import gain as shown
from tests.cases.test_resumed_scoring import cut, resumed
from tests.refused import refuses
from tests.runs.tiny_world import (
    Region,
    Run,
    Session,
    Store,
    failed_checks,
    graft_of_run,
    load_pair,
    produce,
    produced,
    spec_of,
)

BY_KIND = {"query": 0.5, "MLP in": 3.0, "bias": 12.0}


# Top movement of two sizes, with fitted gains and two draws of its null.
fitted = produced(gain=FIT, sizes=("5%", "10%"), nulls="shuffled", null_draws=2, interpolation=True)


@pytest.fixture(scope="module")
def by_kind(world: Path, tmp_path_factory: pytest.TempPathFactory, session: Session) -> Run:
    """Return top movement with gains by module kind, and a draw of its null; the last gains tried are chosen."""
    falling = count(0, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "_loss", lambda *_: next(falling))
        return produce(
            spec_of(world, gain=KINDS, sizes=("5%", "2%"), nulls="shuffled", interpolation=True),
            Store(tmp_path_factory.mktemp("runs")),
            session=session,
        )


@pytest.fixture(scope="module")
def files(world: Path) -> dict[str, object]:
    return {"base": world / "base", "finetuned": world / "finetuned", "task": world / "task.yaml", "device": "cpu"}


@pytest.mark.parametrize("gain", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_equal_gains_of_all_kinds_are_the_single_gain_bit_for_bit(files, gain: float, load) -> None:
    pair = load(**files)
    region, kinds = Region.from_flat(np.arange(0, pair.d, 3), pair.table.shapes), dict.fromkeys(pair.table.kinds, gain)
    values, parameters = [], []
    for own in (gain, kinds, {**kinds, "bias": 7.0}):
        with pair.with_gain(own), pair.at("grafted", region):
            parameters.append(torch.cat([p.detach().flatten() for p in pair.model.parameters()]))
            values.append(torch.cat(list(pair.graft_values(region).values())))
    assert [(torch.equal(one, other), torch.equal(one, planted)) for one, other, planted in (values, parameters)] == [
        (True, False)
    ] * 2


def test_each_kind_has_a_gain_and_its_entries_on_the_graft_and_its_null(by_kind: Run, session: Session) -> None:
    record, places = by_kind.record, session.pair(by_kind.spec).table.by_kind(by_kind.region().flat())
    *grafts, whole = record.gains
    assert [note.of for note in record.gains] == ["grafted", "grafted", "null", "finetuned"]
    for note in grafts:
        assert (note.gain, sum(one.size for one in note.by_kind)) == (
            {one.kind: one.fitted for one in note.by_kind},
            note.size,
        ) and note.fitted is not None
    assert {one.kind: one.size for one in grafts[0].by_kind} == {kind: len(own) for kind, own in places.items()}
    assert record.gain == grafts[0].gain
    assert record.nulls[0].gain is None
    assert isinstance(whole.gain, float)
    assert not whole.by_kind
    own, one = by_kind.curve(), by_kind.curve(gain=1.0)
    assert len(own) == len(one) > 0 and own["gain"].isna().all() and "--gain kinds" in by_kind.spec.command()


def test_the_gain_that_does_best_on_the_other_half_is_used(session: Session, by_kind: Run) -> None:
    pair, spec, region, note = session.pair(by_kind.spec), by_kind.spec, by_kind.region(), by_kind.record.gains[0]
    ends = session.ends(spec)
    data = fits.GainData.of({split: session.encoded(spec)[split] for split in ends}, spec.data_seed)
    found = fits.gained(pair, region, data, ends["validation"]["pretrained"], KINDS, UNKEPT)
    tried = [1.0, note.fitted, {one.kind: one.fitted for one in note.by_kind}]
    encoded, half = data.splits["validation"], []
    for gain in tried:
        with pair.with_gain(gain):
            z = predict(pair, encoded, "grafted", region)
        z = z / temperature_fit(z[data.fits], encoded.labels[data.fits]).value
        half.append(losses(z[data.chooses], encoded.labels[data.chooses]).mean())
    assert (found.fit.value, found.gain, fits.Gained.from_numbers(found.numbers(), found.one, found.chosen)) == (
        note.fitted,
        tried[int(np.argmin(half))],
        found,
    )


def test_words_of_gains_by_kind(by_kind: Run) -> None:
    record, kinds, graft = by_kind.record, shown.kinds(by_kind.record), graft_of_run(by_kind)[0]
    lowest, highest = (f"{end(record.gain.values()):.1f}" for end in (min, max))
    note = record.gains[0].model_copy(update={"gain": record.gains[0].fitted})
    other = record.model_copy(update={"gains": (note, *record.gains[1:]), "gain": note.gain})
    text = card(by_kind, graft, "graft.safetensors", Origin(None, None))
    parts = {
        f"Gain **{lowest} to {highest} by module kind** brings": shown.sentence(record, "test"),
        "A single gain would be": shown.sentence(record, "test"),
        "by module kind is not measured": shown.sentence(record, "test"),
        "(used)": shown.kinds_caption(record), "one for all kinds": shown.table(record, "test")["gain factor"].iloc[-1],
        "was only fitted": shown.sentence(other, "test"), "only fitted": shown.kinds_caption(other),
        **{f"{kind} {gain:.2f}": text for kind, gain in record.gain.items()},
        "the gain of its module kind": text, "(gain 1) it reaches": text,
    }  # fmt: skip
    assert {words: said for words, said in parts.items() if words not in said} == {}
    assert set(kinds["module kind"]) == set(record.gain)
    assert graft.header["gain"] == record.gain
    assert shown.kinds(record.model_copy(update={"gains": ()})).empty


def test_every_graft_that_is_compared_has_its_own_gain(fitted: Run) -> None:
    record, (null,) = fitted.record, fitted.record.nulls
    assert [(note.of, note.size, note.draw) for note in record.gains] == [
        ("grafted", record.sizes[0], None), ("grafted", record.sizes[1], None),
        ("null", null.sizes[0], 0), ("null", null.sizes[1], 1), ("finetuned", None, None),
    ]  # fmt: skip
    for note in record.gains:
        assert note.gain in (1.0, note.fitted)
        assert note.low is not None
        assert note.low <= note.fitted
        assert set(note.states) == set(note.at_one) == {"validation", "test"}
        assert set(note.states["test"]) == {"accuracy", "nll", "ece"}
    assert (record.gain, null.gain) == (
        record.gains[0].gain,
        np.mean([note.gain for note in record.gains if note.of == "null"]),
    )


def test_the_stored_scores_are_those_of_the_scaled_values(fitted: Run, session: Session) -> None:
    pair, encoded = session.pair(fitted.spec), session.encoded(fitted.spec)["test"]
    inside = torch.from_numpy(fitted.region().flat())
    base, tuned = pair.base[inside], pair.finetuned[inside]
    with pair.at("pretrained"):
        pair.flat.theta[inside] = base + (tuned - base) * fitted.record.gain
        expected = pair.objective(encoded).logits()
        pair.flat.theta[inside] = base
    np.testing.assert_allclose(fitted.logits("grafted")[2], expected, rtol=1e-5, atol=1e-6)
    assert (failed_checks(fitted), pair.gain) == ([], 1)


def test_the_curve_has_each_size_at_its_gain_and_at_1_and_the_grid_ends_at_its_gain(
    fitted: Run, world: Path, store: Store, session: Session
) -> None:
    plain = produce(spec_of(world, sizes=("5%", "10%")), store, session=session)
    own, one = fitted.curve(), fitted.curve(gain=1.0)
    assert {size: set(rows["gain"]) for size, rows in own.groupby("size")} == {
        note.size: {note.gain} for note in fitted.record.gains if note.of == "grafted"
    }
    assert one.equals(plain.curve())
    assert len(own) == len(one)
    assert plain.record.gains == ()
    assert plain.record.gain == 1
    ends = fitted.interpolation().query("path == 'wise-graft' and alpha == 1 and metric == 'nll'")
    assert ends.set_index("size")["value"].to_dict() == pytest.approx(
        own.query("split == 'test' and metric == 'nll'").set_index("size")["value"].to_dict(), abs=1e-6
    )


def test_the_fit_beats_the_gains_around_it_on_its_own_half(fitted: Run, session: Session) -> None:
    spec, pair, note = fitted.spec, session.pair(fitted.spec), fitted.record.gains[0]
    encoded = session.encoded(spec)["validation"]
    half = encoded.take(stratified(encoded.labels, len(encoded) // 2, spec.data_seed))

    def loss(gain: float) -> float:
        with pair.with_gain(gain):
            return float(losses(predict(pair, half, "grafted", fitted.region()), half.labels).mean())

    assert note.fitted is not None and loss(note.fitted) <= min(loss(float(gain)) for gain in GAINS[1:]) + 1e-2


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("gain", [3.0, BY_KIND])
@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_the_exported_values_are_those_that_were_scored(fitted: Run, files, tmp_path: Path, load, gain) -> None:
    graft_of_run(fitted, gain=gain)[0].save(tmp_path / "graft.safetensors")
    again, pair, region = Graft.load(tmp_path / "graft.safetensors"), load(**files), fitted.region()
    assert again.header["gain"] == gain and "metrics" not in again.header
    with pair.with_gain(gain), pair.at("grafted", region):
        scored = {name: parameter.detach().clone() for name, parameter in pair.model.named_parameters()}
    with grafted(pair.model, again):
        applied = {name: parameter.detach().clone() for name, parameter in pair.model.named_parameters()}
    assert (
        [name for name in region.indices if not torch.equal(scored[name], applied[name])],
        graft_of_run(fitted)[0].header.get("gain", 1.0),
    ) == ([], fitted.record.gain)


@pytest.mark.parametrize("gain", [2.5, BY_KIND])
def test_many_grafts_at_once_have_the_gain_too(fitted: Run, session: Session, gain) -> None:
    pair, encoded = session.pair(fitted.spec), session.encoded(fitted.spec)["test"]
    regions = [fitted.region(), fitted.cut(fitted.record.sizes[1])]
    with pair.with_gain(gain):
        together = predict_grafts(pair, encoded, regions)
        alone = [predict(pair, encoded, "grafted", region) for region in regions]
    assert np.array_equal(np.stack(list(together)), np.stack(alone))


def test_a_gain_that_is_given_is_used_everywhere(world: Path, store: Store, session: Session) -> None:
    record = produce(spec_of(world, gain=2, nulls="shuffled"), store, session=session).record
    assert ([(note.gain, note.fitted, note.is_bounded) for note in record.gains], record.gain) == (
        [(2.0, None, True)] * 2,
        2,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"localizer": "dare"}, "makes no graft"),
        ({"max_validation": 12}, "The gain cannot be fitted: there are fewer than 20 validation examples"),
    ],
)
def test_what_cannot_have_a_fitted_gain_is_refused_before_the_start(
    world: Path, store: Store, changes: dict[str, object], words: str
) -> None:
    refuses(BadInput, words, produce, spec_of(world, gain=KINDS, **changes), store)
    assert not store.root.exists() or not list(store.list())


@pytest.mark.slow
@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("after", [6, 16, 26])
def test_fitted_gains_and_those_of_nulls_are_not_fitted_again(
    fitted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    run, _ = resumed(cut(fitted.spec, Store(tmp_path), after, monkeypatch), monkeypatch)
    kept = [
        (
            one.record.gains,
            one.record.nulls,
            [
                one.record.files[name]
                for name in ("nulls.parquet", "sizes.parquet", "curve.parquet", "interpolation.parquet")
            ],
        )
        for one in (run, fitted)
    ]
    assert kept[0] == kept[1]


def test_live_grafts_have_the_gain_of_a_region_of_the_run_alone(fitted: Run, by_kind: Run) -> None:
    for run, expression, gain in (
        (fitted, None, fitted.record.gain),
        (fitted, {"layers": [0]}, 1.0),
        (by_kind, None, by_kind.record.gain),
        *(
            (fitted, {"run": fitted.id, "size": note.size}, note.gain)
            for note in fitted.record.gains
            if note.of == "grafted"
        ),
    ):
        request = PairRequest(Worker(run.path.parent), {"run": run.id})
        request.region(expression)
        assert request.pair.gain == gain, expression


@pytest.mark.parametrize("gain", [3.0, BY_KIND])
def test_a_scaled_graft_is_evaluated_beside_its_fine_tuned_model(fitted: Run, files, gain) -> None:
    graft, _ = graft_of_run(fitted, gain=gain)
    of_graft, of_model, of_region = (
        evaluate(**{**files, **more}).scores["test"].states["grafted"]["nll"].value
        for more in (
            {"graft": graft}, {"graft": graft, "finetuned": None}, {"region": fitted.path / "region.safetensors"},
        )
    )  # fmt: skip
    assert (of_graft, of_region) == pytest.approx(
        (of_model, fitted.record.metrics["test"].states["grafted"]["nll"].value), abs=1e-6
    )
    refuses(
        PairMismatch, "not those of this fine-tuned model", evaluate, **files,
        graft=replace(graft, header={**graft.header, "gain": 2.0}),
    )  # fmt: skip


def test_what_overflows_is_not_chosen() -> None:
    labels = np.array([0, 1] * 20)
    logits = np.stack([np.where(np.eye(2)[labels] == 1, gain, -gain) * 0.01 for gain in GAINS])
    logits[-4:] = np.nan
    assert GAINS[-6] < gain_fit(logits, labels).value <= GAINS[-5]


def test_words_of_a_gain(fitted: Run) -> None:
    """The table has a row for each graft, and a verdict only if there is a null."""
    record, said = fitted.record, shown.sentence(fitted.record, "test")
    table = shown.table(record, "test")
    assert (
        len(table) == len(record.gains)
        and table["gain factor"].str.contains("–").all()
        and (said.startswith("Gain **") or "no better than gain 1" in said)
    )
    assert (
        shown.verdict(record, "test") in (shown.LOCALIZED, shown.DILUTED, shown.NOT_SHOWN)
        and shown.verdict(record.model_copy(update={"nulls": ()}), "test") is None
        and shown.by_run([record], "test")["localizer"].tolist() == ["top movement"] * 2
    )
