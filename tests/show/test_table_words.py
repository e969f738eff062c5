"""Tests of the words in a study's table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import csv_text
from skillviz.show import tasks, text
from skillviz.show.table_words import worded
from tests.studies.fake_tables import FAKE_TABLES


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("sgd", "SGD"), ("continual", "one task after the other"), ("adamw-l1", "AdamW + L1"), ("a new one", "a new one")],
)
def test_a_recipe_is_told_in_words(stored: str, shown: str) -> None:
    rows = pd.DataFrame({"recipe": [stored], "recipe_b": [stored], "variant": ["rank 8"]})
    assert worded(rows).loc[0].tolist() == [shown, shown, "rank 8"]


def test_tasks_have_readable_names_for_readers_and_ids_in_files() -> None:
    gain = FAKE_TABLES["gain"](("cr", "film-reviews"), np.random.default_rng(0))
    ids = csv_text(gain)
    shown = tasks.gain(gain, ("cr", "film-reviews"), "light")
    assert csv_text(shown.table) == ids and "cr + film-reviews" in ids and "CR" not in ids, "keys stay"
    assert set(shown.figure.layout.xaxis.ticktext) == {"CR", "film-reviews"}
    assert "CR + film-reviews on CR" in shown.alt
    assert set(worded(gain)["region_tasks"]) - {""} == {"CR", "film-reviews", "CR + film-reviews"}
    assert gain["region_tasks"].map(type).eq(tuple).all(), "the argument is left as it is"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("/data/models/minilm-l6", "minilm-l6"),
        ("../out/minilm-sst2/", "minilm-sst2"),
        ("microsoft/MiniLM", "microsoft/MiniLM"),
        ("org/name@main", "org/name@main"),
        ("org/name@" + "a1" * 20, "org/name@a1a1a1a"),
        ("C:\\models\\mine", "mine"),
        ("tasks/mine.yaml", "tasks/mine.yaml"),
        ("./tasks/mine.yaml", "mine"),
    ],
)
def test_short_sources(source: str, shown: str) -> None:
    assert text.short_source(source) == shown


def test_a_label_can_break_between_its_words_alone() -> None:
    words = "95%: 17.6–21.5, fine-tuned - here"
    assert text.unbroken(words) == words.replace("–", "–\u2060").replace("e-t", "e-\u2060t")


def test_the_last_part_is_the_name_alone() -> None:
    assert text.last_part("microsoft/MiniLM") == text.last_part("/data/MiniLM/") == "MiniLM"


def test_a_users_names_are_not_read_as_markdown() -> None:
    assert text.plain("a_b*c [d](e) $x$ :red[f]") == r"a\_b\*c \[d\]\(e\) \$x\$ \:red\[f\]"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\nParis\n\n- Rome\n=====", "Paris  - Rome ====="),
        ("- Rome", r"\- Rome"),
        ("12. Rome", r"12\. Rome"),
        ("  # Rome", r"\# Rome"),
        ("Rome, 12. May -", "Rome, 12. May -"),
        (" \n", ""),
    ],
)
def test_a_generated_text_is_one_line_that_begins_no_list(written: str, shown: str) -> None:
    assert text.plain_line(written) == shown


def test_a_command_in_a_sentence_stays_code() -> None:
    assert text.with_code("set A_B; `run --x '${A_B}'` makes it") == r"set A\_B; `run --x '${A_B}'` makes it"
    assert text.with_code("a `b") == r"a \`b"
    noted = text.with_code("on sst2: `run --task sst2`, my_cr", text.tasks)
    assert noted == r"on SST-2\: `run --task sst2`, my\_cr" and "sst2\\:" in text.with_code("on sst2: x"), (
        "an error's ids"
    )
