"""Tests of runs whose grafts have a gain: numbers before temperature scaling, and the distance that a graft moves."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store, shipped_root
from skillviz.show import beyond, gain, home, sentences
from skillviz.show.entries import setting_words
from skillviz.show.table_words import in_words

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
        line = sentences.calibration_line(record, scores)
        number = next(
            one for one in home.numbers(record, scores, "test", pd.DataFrame()) if one.title == "Calibration error"
        )
        assert line is not None and judged is not None
        for words in (line[1], number.basis, judged.difference, sentences.overview(record, scores)):
            assert (BEFORE in words) == bool(record.gains)


def test_the_scaled_error_of_the_fine_tuned_model_says_at_which_gain(records: list[RunRecord]) -> None:
    for record in records:
        tuned = next((note for note in record.gains if note.of == "finetuned"), None)
        words = gain.scaled_errors(record, "test")
        assert (f"at its gain {tuned.gain:.1f}" in words) == (tuned.gain != 1) if tuned else words == ""


def test_a_region_by_hand_says_how_far_its_graft_moves(records: list[RunRecord]) -> None:
    record = next(record for record in records if record.gain != 1)
    own, main = {"run": record.run_id}, record.size or 0
    assert record.gain_of(own, main) == record.gain == record.gain_of({**own, "size": main}, main)
    assert f"**{record.gain:.1f} times**" in gain.of_region(record, own, main)
    for expression, size in (({"layers": [0]}, main), ({**own, "size": main // 2}, main // 2)):
        assert record.gain_of(expression, size) == 1
        words = gain.of_region(record, expression, size)
        assert "gain 1," in words and f"{record.gain:.1f}" in words
    assert f"{record.gain:.1f} times" in gain.of_path(record, main) and gain.of_path(record, main // 2) == ""
    plain = next(record for record in records if not record.gains)
    assert gain.of_region(plain, {"layers": [0]}, 5) == gain.of_path(plain, plain.size or 0) == ""


def test_home_copies_fine_tuned_values_only_at_gain_1(records: list[RunRecord]) -> None:
    for record in records:
        said = (
            home.sentence(record, record.metrics["test"]),
            home.numbers(record, record.metrics["test"], "test", pd.DataFrame())[0].title,
        )
        assert ("fine-tuned values" in said[0], said[1] == "Parameters copied") == (record.gain == 1,) * 2


def test_a_file_of_the_gains_has_their_own_headings(records: list[RunRecord]) -> None:
    """In other tables, the heading "gain" means shares of fine-tuning's gain."""
    table = gain.table(next(record for record in records if record.gains), "test")
    assert in_words(table).headings == tuple(table.columns)


def test_a_gain_is_named_without_the_words_of_the_command() -> None:
    assert [setting_words("gain", value) for value in ('"fit"', '"kinds"', "1.0", "2.5")] == [
        "fitted gain", "gain fitted by module kind", "gain 1", "gain 2.5",
    ]  # fmt: skip
