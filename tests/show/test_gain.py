"""Tests of runs whose grafts have a gain: numbers before temperature scaling, and the distance that a graft moves."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store, shipped_root
from skillviz.show import beyond, gain, home, sentences
from skillviz.show.entries import setting_words
from skillviz.show.table_words import in_words
from tests.tables import equal

BEFORE = "before temperature scaling"


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    """Return the shipped runs that have a null: some with gains, some without."""
    stored = [run.record for run in Store(shipped_root()).list()]
    return [record for record in stored if record.null("test") and "ece" in record.metrics["test"].differences]


def test_calibration_and_nats_say_that_they_are_before_temperature_scaling(records: list[RunRecord]) -> None:
    assert {bool(record.gains) for record in records} == {True, False}
    for record in records:
        scores, judged = record.metrics["test"], beyond.judged(record, "test")
        line, copied, *numbers = (
            sentences.calibration_line(record, scores),
            *home.numbers(record, scores, "test", pd.DataFrame()),
        )
        assert line is not None and judged is not None
        error = next(one for one in numbers if one.title == "Calibration error")
        said = line[1], error.basis, judged.difference, sentences.overview(record, scores)
        assert [BEFORE in words for words in said] == [bool(record.gains)] * 4
        # Fine-tuned values are copied at gain 1 alone.
        told = "fine-tuned values" in home.sentence(record, scores), copied.title == "Parameters copied"
        assert told == (record.gain == 1,) * 2


def test_the_scaled_error_of_the_fine_tuned_model_says_at_which_gain(records: list[RunRecord]) -> None:
    for record in records:
        tuned = next((note for note in record.gains if note.of == "finetuned"), None)
        words = gain.scaled_errors(record, "test")
        assert (f"at its gain {tuned.gain:.1f}" in words) == (tuned.gain != 1) if tuned else words == ""


def test_a_region_by_hand_says_how_far_its_graft_moves(records: list[RunRecord]) -> None:
    record = next(record for record in records if record.gain != 1)
    own, main, by = {"run": record.run_id}, record.size or 0, f"{record.gain:.1f}"
    assert record.gain_of(own, main) == record.gain == record.gain_of({**own, "size": main}, main)
    assert f"**{by} times**" in gain.of_region(record, own, main) and f"{by} times" in gain.of_path(record, main)
    for expression, size in (({"layers": [0]}, main), ({**own, "size": main // 2}, main // 2)):
        words = gain.of_region(record, expression, size)
        assert record.gain_of(expression, size) == 1 and "gain 1," in words and by in words
    usual = next(record for record in records if not record.gains)
    paths = (
        gain.of_path(record, main // 2),
        gain.of_path(usual, usual.size or 0),
        gain.of_region(usual, {"layers": [0]}, 5),
    )
    assert paths == ("", "", "")


def test_a_file_of_the_gains_has_their_own_headings(records: list[RunRecord]) -> None:
    """In other tables, the heading "gain" means shares of fine-tuning's gain."""
    table = gain.table(next(record for record in records if record.gains), "test")
    assert in_words(table).headings == tuple(table.columns)


test_a_gain_is_named_without_the_words_of_the_command = equal({
    value: (partial(setting_words, "gain", value), words)
    for value, words in (
        ('"fit"', "fitted gain"), ('"kinds"', "gain fitted by module kind"), ("1.0", "gain 1"), ("2.5", "gain 2.5"),
    )
})  # fmt: skip
