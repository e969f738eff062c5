"""Time and memory told before a run starts: the right order of magnitude, and better once runs are there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from statistics import median

import pytest

from skillviz.core.formats import rough_span
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadSize
from skillviz.runs import estimate as estimating
from skillviz.runs.estimate import OTHERS, Facts, estimate, facts_of, facts_of_record
from skillviz.runs.record import Architecture, RunRecord, TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, shipped_root
from skillviz.tasks.project import PROJECT
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import D, spec_of
from tests.test_torch_free import heavy_after

MINILM = Facts(
    d=10_646_784, parameters=22_713_216, width=384, layers=6, labels=2,
    counts={"train": 6908, "validation": 872, "test": 1821}, sizes=(10_646,),
)  # fmt: skip


def spec(localizer: str = "stagewise", **changes: object) -> RunSpec:
    return RunSpec(base="minilm", finetuned="f", task="sst2", localizer=localizer, **changes)  # type: ignore[arg-type]


def record(seconds: dict[str, float], **changes: object) -> RunRecord:
    words = (MINILM.tokens - 4) / 1.3
    task = TaskNote(name="sst2", labels=("a", "b"), counts=dict(MINILM.counts), words=words)
    built = Architecture(model_type="bert", known=True, d=MINILM.d, layers=6)
    said = {"device": "cpu (2 threads)", "task": task, "architecture": built, "sizes": (10_646,), "seconds": seconds}
    return RunRecord(**{
        "run_id": "x", "spec": spec(), "key": "", "status": "finished", "created": "", **said, **changes,
    })  # fmt: skip


def test_the_run_that_was_measured_is_foretold() -> None:
    """The shipped stagewise run on MiniLM took 45 s for the ends, 141 s for the search, 41 s for the grafts."""
    found = estimate(spec(), MINILM)
    assert found.phases["predict"] == pytest.approx(44.5, rel=0.3)
    assert found.phases["search"] == pytest.approx(140.6, rel=0.3)
    assert found.phases["evaluate"] == pytest.approx(40.9, rel=0.3)
    assert 0.5e9 < found.bytes < 2e9 and "rough" in found.words() and "GiB" in found.words()


@pytest.mark.parametrize("name", LOCALIZERS)
def test_more_work_takes_longer(name: str) -> None:
    one = estimate(spec(name), MINILM)
    assert estimate(spec(name), dataclasses.replace(MINILM, d=8 * MINILM.d)).seconds > one.seconds
    two = estimate(spec(name), dataclasses.replace(MINILM, sizes=(10_646, 1_064)))
    assert two.phases["evaluate"] > one.phases["evaluate"]
    assert (two.phases["search"] > one.phases["search"]) == (not LOCALIZERS[name].is_one_search)
    assert estimate(spec(name), dataclasses.replace(MINILM, parameters=10**9)).bytes > one.bytes
    assert estimate(spec(name), dataclasses.replace(MINILM, device="cuda")).phases["search"] < one.phases["search"] + 1


def test_options_count() -> None:
    usual = estimate(spec(), MINILM).phases["search"]
    assert estimate(spec(steps=100), MINILM).phases["search"] == pytest.approx(2 * usual)
    assert estimate(spec(options={"batch_size": 64}), MINILM).phases["search"] < 0.6 * usual
    assert estimate(spec(options={"steps": "many"}), MINILM).phases["search"] == usual
    small = estimate(spec("linearized", options={"jacobian_gib": 0.05}), MINILM)
    assert small.bytes < estimate(spec("linearized"), MINILM).bytes


def test_each_option_is_a_sequence() -> None:
    one, four = (estimate(spec(), dataclasses.replace(MINILM, sequences=n)) for n in (1, 4))
    for phase in ("predict", "search", "evaluate"):
        assert four.phases[phase] == pytest.approx(4 * one.phases[phase], rel=0.06)
    note = TaskNote(
        name="kind", kind="choice", labels=("A", "B", "C", "D", "E"), counts=dict(MINILM.counts), chance={"test": 0.25}
    )
    assert facts_of_record(record({}, task=note), MINILM).sequences == 4
    assert facts_of_record(record({}), MINILM).sequences == 1
    read_causally = record({}).model_copy(update={"readout": "causal"})
    assert facts_of_record(read_causally, MINILM).sequences == len(read_causally.task.labels) > 1
    assert 2 < load(task(PROJECT / "docs" / "examples" / "choose-kind.yaml")).options <= 5


def test_finished_runs_are_the_measure() -> None:
    rough = estimate(spec(), MINILM)
    slow = record({name: 3 * rough.phases[name] for name in ("search", "evaluate")})
    found = estimate(spec(), MINILM, [slow])
    assert found.runs == 1 and found.phases["search"] == pytest.approx(3 * rough.phases["search"], rel=0.05)
    assert "based on 1 earlier run of this base" in found.words()
    elsewhere = record({"search": 1.0, "evaluate": 1.0}, device="cuda (H100)")
    assert estimate(spec(), MINILM, [elsewhere, record({})]).runs == 0
    of_another = record({"search": 1.0, "evaluate": 1.0}, spec=spec().model_copy(update={"localizer": "of-another"}))
    assert estimate(spec(), MINILM, [slow, of_another]).phases == found.phases, "its cost is not known here"
    damaged = record({"search": 1e308, "evaluate": 1e308}, sizes=(2**70,), run_id="damaged")
    assert estimate(spec(), MINILM, [slow, damaged]).phases == found.phases
    other = record({"search": 1.0, "evaluate": 1.0}, spec=spec().model_copy(update={"base": "other"}))
    assert estimate(spec(), MINILM, [slow, other]).phases == found.phases, "runs of the same base first"


def test_a_fixed_part_does_not_spoil_the_measure() -> None:
    """The same pair once read 62, 34, 12 and 9 minutes: seconds that no example costs were spread over examples."""
    passes = estimate(spec(), MINILM).phases["evaluate"]

    def scored(share: float) -> RunRecord:
        counts = {name: round(share * rows) for name, rows in MINILM.counts.items()}
        task = record({}).task
        assert task is not None
        task = task.model_copy(update={"counts": counts})
        return record({"evaluate": 40 + 2 * share * passes}, task=task, run_id=str(share))

    for finished in ([scored(0.1), scored(0.2)], [scored(0.1), scored(0.05), scored(0.3)]):
        assert estimate(spec(), MINILM, finished).phases["evaluate"] == pytest.approx(40 + 2 * passes, rel=0.02)
    spoiled = median(r.seconds["evaluate"] / (share * passes) for share in (0.1,) if (r := scored(share)))
    assert spoiled * passes > 4 * (40 + 2 * passes) / 2, "what one ratio of all seconds would have said"


def test_the_nearest_runs_are_the_measure() -> None:
    """Of the same base, localizer and task before those of the same base; a task's length counts."""
    rough = estimate(spec(), MINILM).phases["search"]
    same = record({"search": 2 * rough}, run_id="same")
    fisher = record({"search": 900.0}, spec=spec("fisher"), run_id="fisher")
    assert estimate(spec(), MINILM, [fisher, same]).phases["search"] == pytest.approx(2 * rough)
    assert estimate(spec(), MINILM, [fisher]).phases["search"] != pytest.approx(rough)
    task = same.task
    assert task is not None
    longer = same.model_copy(update={"task": task.model_copy(update={"words": 10 * task.words})})
    assert estimate(spec(), MINILM, [longer]).phases["search"] < 0.3 * 2 * rough, "its sentences were ten times as long"
    half = record({"search": 60 * rough}, spec=spec(dtype="bfloat16"), run_id="half")
    assert estimate(spec(), MINILM, [half, same]).phases["search"] == pytest.approx(2 * rough), (
        "of the same dtype first"
    )


def test_the_range_is_as_wide_as_earlier_runs_differ() -> None:
    rough = estimate(spec(), MINILM)
    assert rough.range == pytest.approx((rough.seconds / 3, rough.seconds * 3)) and rough.runs == 0
    steady = [record({"search": 100 + n, "evaluate": 40.0}, run_id=str(n)) for n in range(3)]
    low, high = estimate(spec(), MINILM, steady).range
    assert high / low == pytest.approx(1.5**2), "no promise is narrower"
    loaded = [record({"search": 60.0 * 2**n, "evaluate": 40.0}, run_id=str(n)) for n in range(3)]
    found = estimate(spec(), MINILM, loaded)
    assert found.range[1] / found.seconds == pytest.approx(2.0)
    other = [r.model_copy(update={"spec": spec().model_copy(update={"base": "other"})}) for r in steady]
    assert estimate(spec(), MINILM, other).spread == 2.0 and "other models" in estimate(spec(), MINILM, other).words()
    assert rough_span(240, 540) == "4–9 min" and rough_span(40, 130) == "40 s to 2 min" and rough_span(5, 5) == "5 s"


def recorded() -> list[RunRecord]:
    """Runs of MiniLM on SST-2, timed in processor seconds of one thread, which no other process changes."""
    rows = json.loads((Path(__file__).parent / "recorded_times.json").read_text())
    records = []
    for number, row in enumerate(rows):
        # examples of another task are counted among its own: a record's transfers hold scores too
        counts = {**row["counts"], OTHERS: row["others"]}
        task = TaskNote(name="sst2_sentences", labels=("a", "b"), counts=counts, words=row["words"])
        one = spec(**row["spec"])
        changes = {"run_id": str(number), "spec": one, "task": task, "sizes": tuple(row["sizes"])}
        records.append(record(row["seconds"], **changes))
    return records


def test_each_recorded_run_is_foretold_by_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run is measure enough: sizes, steps, the grid, another task and the rows differ; within a factor of 1.5."""
    plain = estimating.facts_of_record

    def with_others(one: RunRecord, facts: Facts) -> Facts:
        assert one.task is not None
        return dataclasses.replace(plain(one, facts), counts=one.task.counts)

    monkeypatch.setattr(estimating, "facts_of_record", with_others)
    runs, phases = recorded(), ("predict", "search", "evaluate")
    assert len(runs) == 6 and len({r.sizes for r in runs}) > 1
    for one in runs:
        took, facts = sum(one.seconds[name] for name in phases), with_others(one, MINILM)
        for other in runs:
            if other is not one:
                found = estimate(one.spec, facts, [other]).phases
                assert 1 / 1.5 < sum(found[name] for name in phases) / took < 1.5, (one.run_id, other.run_id)
        without = dataclasses.replace(facts, counts={**facts.counts, OTHERS: 0}, sizes=facts.sizes[:1])
        bare = one.spec.model_copy(update={"interpolation": False})
        if one.spec.interpolation or len(one.sizes) > 1:
            found = estimate(bare, without, [runs[0]]).phases
            assert sum(found[name] for name in phases) < took / 1.5, "what is left out would be missed"


@pytest.mark.slow
def test_shipped_runs_of_a_quiet_machine_are_foretold_by_the_others() -> None:
    """Runs of real models on a GPU that did nothing else: each within a factor of 1.5 of what took place, but for 5%.

    Localizers, sizes, steps, tasks, other test sets differ; a run's own times are left out.
    """
    records = [run.record for run in Store(shipped_root()).list()]
    quiet = [r for r in records if (r.device or "").startswith("cuda") and r.architecture and r.task]
    assert len(quiet) > 100
    cuda = dataclasses.replace(MINILM, device="cuda")
    factors = []
    for one in quiet:
        others = [r for r in records if r.run_id != one.run_id]
        found = estimate(one.spec, facts_of_record(one, cuda), others).phases
        told = found["search"] + found["evaluate"]
        factors.append(told / (one.seconds["search"] + one.seconds["evaluate"]))
    within = [1 / 1.5 <= factor <= 1.5 for factor in factors]
    assert sum(within) >= 0.95 * len(within), sorted(factors)
    assert 0.9 < median(factors) < 1.1


def test_other_tasks_and_the_grid_take_their_time() -> None:
    wider = dataclasses.replace(MINILM, counts={**MINILM.counts, "others": 1000})
    bare, also = estimate(spec(), MINILM), estimate(spec(others=("imdb",)), wider)
    forward = bare.phases["predict"] / 2 / (872 + 1821)  # with its part in the intervals
    assert also.phases["predict"] == bare.phases["predict"] and also.phases["search"] == bare.phases["search"]
    assert also.phases["evaluate"] - bare.phases["evaluate"] == pytest.approx(4 * 1000 * forward), "their ends too"
    grid = estimate(spec(others=("imdb",), interpolation=True), wider).phases["evaluate"] - also.phases["evaluate"]
    assert grid == pytest.approx(21 * 2821 * forward)


def test_facts_come_from_headers_and_data_without_torch(world: Path, tmp_path: Path) -> None:
    facts = facts_of(spec_of(world, sizes=("5%", "10"), max_train=40))
    assert (facts.d, facts.layers, facts.width, facts.labels, facts.sizes) == (D, 2, 16, 2, (222, 10))
    assert facts.counts == {"train": 40, "validation": 32, "test": 32} and 4 < facts.tokens < 30
    assert facts.parameters > D and estimate(spec_of(world), facts).seconds < 60
    other = other_task(tmp_path, "near")
    assert facts_of(spec_of(world, others=(str(other),), max_test=9)).counts["others"] == 9
    with pytest.raises(BadSize):
        facts_of(spec_of(world, sizes=("0",)))
    assert heavy_after("skillviz.runs.estimate") == {}
