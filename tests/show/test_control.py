"""Tests of a region's control: its choice, the examples used, and cases without a verdict; and of the runs that can be
pooled by their margins over their nulls."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.nulls import NULLS
from skillviz.runs.record import Estimate
from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.runs.tables import logit_columns
from skillviz.show.beyond import of_other_models
from skillviz.show.control import beside_control, beside_finetuned, control_of, smallest_enough
from tests.fake_run import fake_run
from tests.show.test_briefs import LARGE, brief
from tests.small_world import opening_run
from tests.tables import equal, plain
from tests.ui.shared_store import SMALL

JUDGED, MATCHED, USUAL = brief(seed=1), brief("random-matched"), brief("random", seed=3)
RIVALS = [brief("movement"), brief("random", seed=0), brief("random", seed=1), brief("random", size=100)]
VARIANT = replace(brief("random"), id="variant", settings=LARGE)
SIZES = [brief(size=size, recovered=gain) for size, gain in ((100, 0.5), (1000, 0.95), (10_000, 0.99))]
test_the_control_is_the_strictest_of_the_same_size_and_seed = equal({
    "the same seed": (lambda: control_of([JUDGED, *RIVALS], JUDGED), RIVALS[2]),
    "matched": (lambda: control_of([JUDGED, *RIVALS, MATCHED], JUDGED), MATCHED),
    "top movement": (lambda: control_of([JUDGED, RIVALS[0]], JUDGED), RIVALS[0]),
    "a control has stricter ones": (lambda: control_of(RIVALS[:2], RIVALS[0]), RIVALS[1]),
    "alone": (lambda: control_of(RIVALS[:2], RIVALS[1]), None),
    "another size": (lambda: control_of([JUDGED, brief("random", size=999)], JUDGED), None),
    "other examples": (lambda: control_of([JUDGED, brief("random", n=50)], JUDGED), None),
    "other models": (lambda: control_of([JUDGED, brief("random", pair=("x",))], JUDGED), None),
    "other settings are passed over": (lambda: control_of([JUDGED, VARIANT, USUAL], JUDGED), USUAL),
})  # fmt: skip
test_the_smallest_region_with_most_of_the_gain_is_judged_and_else_its_own = equal({
    "of the largest": (lambda: smallest_enough(SIZES, SIZES[2]), SIZES[1]),
    "of the smallest": (
        lambda: smallest_enough([*SIZES, brief("random", 10, recovered=1.0)], SIZES[0]), SIZES[1],
    ),
    "its own": (lambda: smallest_enough(SIZES[:1], SIZES[0]), SIZES[0]),
})  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fake_run(Store(tmp_path_factory.mktemp("runs")), sizes=("1%",), **SMALL)


def test_the_difference_is_paired_and_has_the_sign_of_the_graft(run: Run) -> None:
    predictions, columns = run.predictions(), list(logit_columns(run.labels))
    is_graft, worse = predictions["state"] == "grafted", predictions.copy()
    worse.loc[is_graft, columns] = worse.loc[is_graft, columns[::-1]].to_numpy()  # every answer is reversed
    for own, other, verdict, sign in (
        (predictions, worse, "better", "+"),
        (worse, predictions, "worse", "−"),
        (predictions, predictions, "no clear difference", ""),
    ):
        judged = beside_control(run.record, own, brief("random"), other, "test")
        assert judged is not None and judged.verdict == verdict
        assert judged.difference.startswith(sign) and "random region" in judged.subject
    others = predictions.assign(example_id="other-" + predictions["example_id"])
    assert beside_control(run.record, predictions, brief("random"), others, "test") is None, "no shared examples"


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(-0.03, -0.01, "worse"), (-0.03, 0.01, "no clear difference"), (0.01, 0.03, "better")]
)
def test_beside_the_fine_tuned_model_the_stored_difference_decides(
    low: float, high: float, verdict: str, run: Run
) -> None:
    stored, bare = (
        run.record.metrics["test"].model_copy(update={"differences": differences})
        for differences in ({"accuracy": Estimate(value=0.0, low=low, high=high)}, {})
    )
    judged, sized = (beside_finetuned(run.record, stored, names_size=is_named) for is_named in (False, True))
    assert judged is not None and sized is not None and beside_finetuned(run.record, bare) is None
    assert judged.verdict == sized.verdict == verdict and "at 0.99%" in plain(sized.subject)


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "nulls.md").read_text(encoding="utf-8")


def test_other_fine_tuned_models_have_the_same_search_and_number_of_steps() -> None:
    """A checkpoint, another recipe, another size and another seed of the search are not pooled."""
    records, own = [run.record for run in Store(shipped_root()).list()], opening_run().record
    others = of_other_models(own, records)
    found = sorted((one.spec.finetuned, one.size, one.spec.localizer, one.spec.seed) for one in others)
    assert found == [(f"models/examples/mr-sgd-{number}", own.size, "stagewise", 0) for number in (1, 2)]
    checkpoint = next(one for one in records if "checkpoint-312" in one.spec.finetuned)
    alone = (checkpoint, own.model_copy(update={"finetuned": None}))
    assert [of_other_models(one, records) for one in alone] == [[], []]


def test_the_table_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(row.name, row.keeps, row.breaks, row.tests) for row in NULLS.values()]
    assert rows[0] != (rows[0][0], *rows[1][1:]), "rows of other nulls would pass"


@pytest.mark.parametrize(
    ("passage", "rows", "is_named"),
    [
        (r"There is no null for (.*?):", LOCALIZERS, lambda row: not row.has_null),
        (r"can learn signs: (.*?)\. An entry", LOCALIZERS, lambda row: row.learns_signs),
        (r"\n- (`[a-z-]+` and `[a-z-]+`) are drawn", NULLS, lambda row: row.is_drawn),
        (r"\n- With (`[a-z-]+` and `[a-z-]+`), \*true signs\*", NULLS, lambda row: row.has_signs),
    ],
    ids=["without a null", "learned signs", "drawn", "true signs"],
)
def test_the_rows_with_a_property_are_named(
    passage: str, rows: Mapping[str, Any], is_named: Callable[[Any], bool]
) -> None:
    (words,) = re.findall(passage, PAGE)
    assert set(re.findall(r"`([a-z-]+)`", words)) == {row.name for row in rows.values() if is_named(row)}
