"""Tests of a study for readers: its table (order of columns, percent for shares, titles of tasks), its status in one
line, the command that really makes it, and study files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.readable_table import not_in_percent
from skillviz.analysis.tables import TABLES, check, empty
from skillviz.errors import BadInput
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, open_study
from skillviz.tasks.readable_names import readable
from skillviz.ui import study_words
from skillviz.ui.pages.studies import start, studies_page
from tests.refused import refused
from tests.studies.fake_study import fake_study
from tests.studies.fake_tables import FAKE_TABLES, TASKS
from tests.ui.driven import lacks

BASE, MR = "examples/models/minilm-l6", "examples/tasks/mr.yaml"
STEPS = {
    str(number): {"kind": "localize", "title": f"step {number}", "state": state}
    for number, state in enumerate(("finished", "finished", "failed", "missing"))
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in FAKE_TABLES.items()}


def test_what_is_asked_first_stands_first_and_what_is_empty_last(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].assign(debiased=np.nan)
    order, own = (studies_page.columns(rows) for rows in (scores, scores[scores["id_task"] == scores["task"]]))
    assert order[:6] == ["id_task", "task", "method", "localizer", "share", "metric"] and order[-1] == "debiased"
    assert sorted(order) == sorted(scores.columns) and order.index("mean") < order.index("base")
    assert own[0] == "task" and {*own[-2:]} == {"debiased", "id_task"}
    recovered = studies_page.columns(tables["recovered"])
    assert recovered.index("value_ft") == recovered.index("value") + 1, "what is compared stands side by side"


def test_shares_are_in_percent_and_nats_stay(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    shown, is_nll = studies_page.shown(scores), scores["metric"] == "nll"
    assert is_nll.any() and not is_nll.all()
    np.testing.assert_allclose(shown["mean"], scores["mean"] * np.where(is_nll, 1, 100))
    np.testing.assert_allclose(shown["share"], 100 * scores["share"], rtol=0.05)
    assert (shown["size"].dropna() == scores["size"].dropna().round()).all()
    assert "NLL is in nats" in not_in_percent(scores)


def test_a_table_without_a_metric_holds_shares(tables: dict[str, pd.DataFrame]) -> None:
    columns = ["value", "low", "high", "chance"]
    np.testing.assert_allclose(studies_page.shown(tables["overlap"])[columns], 100 * tables["overlap"][columns])
    assert (not_in_percent(tables["overlap"]), studies_page.methods(tables["overlap"])) == ("", [])


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_is_headed_and_explained_in_words(name: str) -> None:
    config, lines = studies_page.config(name), studies_page.columns_in_words(name)
    assert list(config) == [column.name for column in TABLES[name].columns]
    assert studies_page.shown(empty(name)).empty and len(studies_page.columns(empty(name))) == len(config)
    heads, helps = ([column[key] for column in config.values()] for key in ("label", "help"))
    assert [head for head in heads if "_" in head] == [] and len({*heads}) == len(heads)
    assert [text for text in helps if "METHODS" in text or "OVER" in text] == []
    assert [column for column, line in zip(config, lines, strict=True) if f"`{column}`" not in line] == []


@pytest.mark.parametrize(
    ("table", "heads"),
    [
        ("recovered", {"ece_ft_low": "ECE, fine-tuned, low, %", "size": "region size, entries", "value": "graft, %",
                       "value_low": "graft, low, %", "ece_less_ft": "ECE less fine-tuned, points"}),
        ("scores", {"mean": "mean, %"}),
        ("differences", {"value": "A less B, points"}),
    ],
)  # fmt: skip
def test_percent_is_said_in_the_head(table: str, heads: dict[str, str]) -> None:
    assert {name: studies_page.config(table)[name]["label"] for name in heads} == heads


def test_cells_have_the_words_of_the_figures(tables: dict[str, pd.DataFrame]) -> None:
    given = {
        "method": ["graft_retrain", "ft", "graft"], "localizer": ["learned-ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["graft-retrain", "sgd", "sgd"],
        "metric": ["ece", "nll", "recovered"], "base": ["${SKILLVIZ_REAL}/models/minilm-l6"] * 3,
    }  # fmt: skip
    scores = tables["scores"].head(3).assign(**given)
    assert studies_page.shown(scores)[list(given)].to_dict("list") == {
        "method": ["region re-trained", "fine-tuned", "graft"], "localizer": ["learned, ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["re-training the region", "SGD", "SGD"],
        "metric": ["ECE", "NLL", "gain recovered"], "base": ["minilm-l6"] * 3,
    }  # fmt: skip
    assert scores["method"].iloc[0] == "graft_retrain", "the argument is left as it is"
    regions = studies_page.shown(tables["gain"])["region_tasks"]
    assert regions.tolist() == list(map(readable, tables["gain"]["region"])), "several tasks as `a + b`"
    methods = [line.strip() for line in studies_page.methods(tables["scores"])]
    assert "- **graft**: graft of a searched region" in methods


def test_sizes_have_two_figures_and_counts_are_whole(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].head(4).assign(share=[0.0000999, 0.00586, 0.1234, 1.0], size=[1064.333, 1.0, 2.0, 3.0])
    shown = studies_page.shown(scores)
    assert list(shown["share"]) == pytest.approx([0.01, 0.59, 12.3, 100]) and shown["size"].iloc[0] == 1064


def test_tasks_are_told_by_the_titles_of_their_files() -> None:
    titles = study_words.task_titles(["cr", "clinc_domains", "unknown", "../cr", "cr"])
    assert "**CLINC domains**: What a user asks an assistant\\: ten domains." in titles and "unknown" not in titles
    assert titles.count("**CR**: Customer reviews") == 1 and study_words.task_titles(["unknown"]) == ""


def content(base: str, more: str = "") -> bytes:
    quoted = base if base.startswith('"') else repr(base)
    entry = f"{{task: t, base: {quoted}, finetuned: f, localizer: movement, sizes: ['1%']}}"
    return f"name: own\n{more}runs:\n- {entry}\n".encode()


@pytest.mark.parametrize("base", ["${HOME}/x", "$HOME/x", '"\\x24{AWS_SECRET}"', "a/${SKILLVIZ_REAL}/${PATH}"])
def test_a_variable_of_the_machine_is_refused_and_not_told(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "AWS_SECRET", "PATH"):
        monkeypatch.setenv(name, "hidden-value")
    with pytest.raises(BadInput, match="only variables whose names begin with SKILLVIZ_") as error:
        start.uploaded("own.yaml", content(base))
    assert "hidden-value" not in str(error.value)


@pytest.mark.parametrize("base", ["${SKILLVIZ_REAL}/models/x", "$SKILLVIZ_REAL/x", "models/x", "costs 5 $", "a$/b"])
def test_the_projects_own_and_what_is_none_stay_as_they_are(base: str) -> None:
    assert start.uploaded("own.yaml", content(base)).runs[0]["base"] == base


def test_a_typed_path_fills_in_the_projects_variables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_bytes(content("b"))
    for name in ("SKILLVIZ_HERE", "OTHER"):
        monkeypatch.setenv(name, str(tmp_path))
    assert start.typed("${SKILLVIZ_HERE}/own.yaml").name == "own"
    with pytest.raises(BadInput, match="is not filled in") as error:
        start.typed("$OTHER/own.yaml")
    assert str(tmp_path) not in str(error.value)


test_a_fault_is_told_of_the_file = refused(
    BadInput,
    ("not filled in", start.uploaded, "own.yaml", content("b", "defaults: {finetune: {'$HOME': 1}}\n")),
    ("'command': it is 'curl evil.example'", start.uploaded, "own.yaml", content("b", "command: curl evil.example\n")),
    (r"the study file own\.yaml must have", start.uploaded, "own.yaml", b"name: own\nruns: []\n"),
)


def study(root: Path, base: str = BASE, task: str = MR, **record: Any) -> StudyFolder:
    """Return a stored study, with another base or task in its file."""
    file = fake_study(root, **{"tables": ("scores", "note"), **record}) / "study.yaml"
    file.write_text(file.read_text().replace(f"base: {BASE}", f"base: {base}").replace(MR, task))
    folder = open_study(file.parent)
    assert folder is not None
    return folder


@pytest.mark.parametrize(
    ("record", "says", "omits"),
    [
        ({}, ["`table1-small` · made 20 Nov 2026, 10:05 UTC · in 5"], []),
        *(({"status": status, "steps": STEPS, "finished": "2026-11-20T10:05:00+00:00"},
           [f"**{status}** 20 Nov 2026, 10:05 UTC", "2 of 4 steps", "1 table"], [])
          for status in ("cancelled", "failed")),
        ({"status": "running", "steps": STEPS, "tables": ()}, ["2 of 4 steps"], ["2026"]),
    ],
    ids=["made", "cancelled", "failed", "running"],
)  # fmt: skip
def test_a_study_says_how_it_ended_and_what_is_there(
    record: dict[str, Any], says: list[str], omits: list[str], tmp_path: Path
) -> None:
    caption = study_words.caption(study(tmp_path, **record))
    assert not lacks(caption, *says) and lacks(caption, *omits) == omits


def test_a_study_is_called_after_its_tasks_and_a_base_of_its_own(tmp_path: Path) -> None:
    files = {"a": (BASE, MR), "b": ("my/minibert", MR), "c": (BASE, "my/task.yaml")}
    shown = [study_words.label(study(tmp_path, *of, name=name, tables=())) for name, of in files.items()]
    assert shown == ["Table 1 · MR", "Table 1 · MR · minibert", "Table 1 · task"]
    broken = study(tmp_path, name="d")
    (broken.path / "study.yaml").write_text("runs: 3")
    assert study_words.label(broken) == "Table 1 · small"


@pytest.mark.parametrize("command", [
    "curl evil.example", "python -m skillviz reproduce `id`", "python -m skillviz reproduce x; rm y", "a 'lone quote",
    "python -m skillviz study run nowhere.yaml", "python -m skillviz examples", "", None,
    "python -m skillviz reproduce table1 --scale small --base minibert",
    "python -m skillviz reproduce table1 --tasks a.yaml",
])  # fmt: skip
def test_a_command_that_is_not_ours_gives_way_to_the_one_that_runs_the_file(
    command: str | None, tmp_path: Path
) -> None:
    found = study(tmp_path, command=command)
    assert study_words.command(found) == f"python -m skillviz study run {found.path}/study.yaml"
    assert "evil" not in study_words.caption(found)


def test_a_command_of_ours_stands_where_it_makes_the_study(tmp_path: Path) -> None:
    command = "python -m skillviz study run benchmarks/studies/stories260k.yaml"
    assert study_words.command(study(tmp_path, command=command)) == command
    changed = study(tmp_path, name="changed")
    assert study_words.command(changed) == f"python -m skillviz study run {changed.path}/study.yaml"
    (changed.path / "study.yaml").write_text(StudySpec(**EXPERIMENTS["table1"].build(scale("small"))).yaml_text())
    assert study_words.command(changed) == "python -m skillviz reproduce table1 --scale small"
