"""Tests of the words in a study's table."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from skillviz.analysis.tables import csv_text
from skillviz.show import tasks, text
from skillviz.show.table_words import worded
from tests.studies.fake_tables import FAKE_TABLES
from tests.tables import equal


def recipe(stored: str) -> list[str]:
    return worded(pd.DataFrame({"recipe": [stored], "recipe_b": [stored], "variant": ["rank 8"]})).loc[0].tolist()


BREAKS = "95%: 17.6–21.5, fine-tuned - here"
test_names_are_told_in_words = equal({
    **{f"the recipe {stored}": (partial(recipe, stored), [shown, shown, "rank 8"]) for stored, shown in (
        ("sgd", "SGD"), ("continual", "one task after the other"), ("adamw-l1", "AdamW + L1"), ("a new one",) * 2,
    )},
    **{f"the source {source}": (partial(text.short_source, source), shown) for source, shown in (
        ("/data/models/minilm-l6", "minilm-l6"), ("../out/minilm-sst2/", "minilm-sst2"),
        ("microsoft/MiniLM",) * 2, ("org/name@main",) * 2, ("org/name@" + "a1" * 20, "org/name@a1a1a1a"),
        ("C:\\models\\mine", "mine"), ("tasks/mine.yaml",) * 2, ("./tasks/mine.yaml", "mine"),
    )},
    # A generated text is one line that begins no list.
    **{f"the text {written!r}": (partial(text.plain_line, written), shown) for written, shown in (
        ("\nParis\n\n- Rome\n=====", "Paris  - Rome ====="), ("- Rome", r"\- Rome"), ("12. Rome", r"12\. Rome"),
        ("  # Rome", r"\# Rome"), ("Rome, 12. May -",) * 2, (" \n", ""),
    )},
    # A command in a sentence stays code.
    **{f"the sentence {written}": (partial(text.with_code, written, *names), shown) for written, shown, *names in (
        ("set A_B; `run --x '${A_B}'` makes it", r"set A\_B; `run --x '${A_B}'` makes it"), ("a `b", r"a \`b"),
        ("on sst2: `run --task sst2`, my_cr", r"on SST-2\: `run --task sst2`, my\_cr", text.tasks),
        ("on sst2: x", r"on sst2\: x"),  # an error's ids
    )},
    "a label breaks between its words alone": (
        lambda: text.unbroken(BREAKS), BREAKS.replace("–", "–\u2060").replace("e-t", "e-\u2060t"),
    ),
    "the last part of an id": (lambda: text.last_part("microsoft/MiniLM"), "MiniLM"),
    "the last part of a path": (lambda: text.last_part("/data/MiniLM/"), "MiniLM"),
    "a user's names are not read as Markdown": (
        lambda: text.plain("a_b*c [d](e) $x$ :red[f]"), r"a\_b\*c \[d\]\(e\) \$x\$ \:red\[f\]",
    ),
})  # fmt: skip


def test_tasks_have_readable_names_for_readers_and_ids_in_files() -> None:
    gain = FAKE_TABLES["gain"](("cr", "film-reviews"), np.random.default_rng(0))
    shown = tasks.gain(gain, ("cr", "film-reviews"), "light")
    assert csv_text(shown.table) == (ids := csv_text(gain)) and "cr + film-reviews" in ids and "CR" not in ids, (
        "keys stay"
    )
    assert set(shown.figure.layout.xaxis.ticktext) == {"CR", "film-reviews"}
    assert "CR + film-reviews on CR" in shown.alt
    assert set(worded(gain)["region_tasks"]) - {""} == {"CR", "film-reviews", "CR + film-reviews"}
    assert gain["region_tasks"].map(type).eq(tuple).all(), "the argument is left as it is"
