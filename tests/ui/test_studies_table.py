"""Tests of a study's table for readers: order of columns, percent for shares, titles of tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.readable_table import not_in_percent
from skillviz.analysis.tables import TABLES, check, empty
from skillviz.errors import BadInput
from skillviz.tasks.readable_names import readable
from skillviz.ui import study_words
from skillviz.ui.pages.studies import start, studies_page
from tests.studies.fake_tables import FAKE_TABLES, TASKS

ENTRY = "runs:\n- {task: t, base: BASE, finetuned: f, localizer: movement, sizes: ['1%']}\n"


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in FAKE_TABLES.items()}


def test_what_is_asked_first_stands_first_and_what_is_empty_last(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].assign(debiased=np.nan)
    order = studies_page.columns(scores)
    assert sorted(order) == sorted(scores.columns)
    assert order[:6] == ["id_task", "task", "method", "localizer", "share", "metric"] and order[-1] == "debiased"
    assert order.index("mean") < order.index("base")
    own = studies_page.columns(scores[scores["id_task"] == scores["task"]])
    assert own[0] == "task" and set(own[-2:]) == {"debiased", "id_task"}


def test_shares_are_in_percent_and_nats_stay(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    shown = studies_page.shown(scores)
    is_nll = scores["metric"] == "nll"
    assert is_nll.any() and not is_nll.all()
    np.testing.assert_allclose(shown["mean"], scores["mean"] * np.where(is_nll, 1, 100))
    np.testing.assert_allclose(shown["share"], 100 * scores["share"], rtol=0.05)
    assert (shown["size"].dropna() == scores["size"].dropna().round()).all() and "NLL is in nats" in not_in_percent(
        scores
    )


def test_a_table_without_a_metric_holds_shares(tables: dict[str, pd.DataFrame]) -> None:
    shown = studies_page.shown(tables["overlap"])
    for column in ("value", "low", "high", "chance"):
        np.testing.assert_allclose(shown[column], 100 * tables["overlap"][column])
    assert not_in_percent(tables["overlap"]) == "" and studies_page.methods(tables["overlap"]) == []


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_is_headed(name: str) -> None:
    config = studies_page.config(name)
    assert list(config) == [column.name for column in TABLES[name].columns]
    assert studies_page.shown(empty(name)).empty and len(studies_page.columns(empty(name))) == len(config)


def test_percent_is_said_in_the_head_and_methods_are_explained(tables: dict[str, pd.DataFrame]) -> None:
    config = studies_page.config("recovered")
    assert (
        config["ece_ft_low"]["label"] == "ECE, fine-tuned, low, %" and config["size"]["label"] == "region size, entries"
    )
    assert config["value"]["label"] == "graft, %" and config["value_low"]["label"] == "graft, low, %"
    order = studies_page.columns(tables["recovered"])
    assert order.index("value_ft") == order.index("value") + 1, "what is compared stands side by side"
    assert config["ece_less_ft"]["label"] == "ECE less fine-tuned, points"
    assert studies_page.config("scores")["mean"]["label"] == "mean, %"
    assert studies_page.config("differences")["value"]["label"] == "A less B, points"
    lines = studies_page.methods(tables["scores"])
    assert any(line.strip() == "- **graft**: graft of a searched region" for line in lines)


@pytest.mark.parametrize("name", TABLES)
def test_no_heading_and_no_meaning_is_a_name_of_the_code(name: str) -> None:
    config = studies_page.config(name)
    heads = [column["label"] for column in config.values()]
    assert not any("_" in head for head in heads) and len(set(heads)) == len(heads)
    assert not any("METHODS" in column["help"] or "OVER" in column["help"] for column in config.values())
    lines = studies_page.columns_in_words(name)
    assert len(lines) == len(config) and all(f"`{column}`" in line for column, line in zip(config, lines, strict=True))


def test_cells_have_the_words_of_the_figures(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].head(3).assign(
        method=["graft_retrain", "ft", "graft"], localizer=["learned-ranked", "", "stagewise"],
        search_variant=["", "", "purified"],
        recipe=["graft-retrain", "sgd", "sgd"], base="${SKILLVIZ_REAL}/models/minilm-l6", 
        metric=["ece", "nll", "recovered"],
    )  # fmt: skip
    shown = studies_page.shown(scores)
    assert list(shown["method"]) == ["region re-trained", "fine-tuned", "graft"]
    assert list(shown["localizer"]) == ["learned, ranked", "", "stagewise"]
    assert list(shown["search_variant"]) == ["", "", "purified"]
    assert list(shown["recipe"]) == ["re-training the region", "SGD", "SGD"]
    assert list(shown["metric"]) == ["ECE", "NLL", "gain recovered"]
    assert set(shown["base"]) == {"minilm-l6"}
    gain = studies_page.shown(tables["gain"])
    assert gain["region_tasks"].tolist() == list(map(readable, tables["gain"]["region"])), "several tasks as `a + b`"
    assert scores["method"].iloc[0] == "graft_retrain", "the argument is left as it is"


def test_sizes_have_two_figures_and_counts_are_whole(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].head(4).assign(share=[0.0000999, 0.00586, 0.1234, 1.0], size=[1064.333, 1.0, 2.0, 3.0])
    shown = studies_page.shown(scores)
    assert list(shown["share"]) == pytest.approx([0.01, 0.59, 12.3, 100]) and shown["size"].iloc[0] == 1064


def test_tasks_are_told_by_the_titles_of_their_files() -> None:
    titles = study_words.task_titles(["cr", "clinc_domains", "unknown", "../cr", "cr"])
    assert (
        titles.count("**CR**: Customer reviews") == 1
        and "**CLINC domains**: What a user asks an assistant\\: ten domains." in titles
    )
    assert "unknown" not in titles and study_words.task_titles(["unknown"]) == ""


def content(base: str, more: str = "") -> bytes:
    return f"name: own\n{more}{ENTRY.replace('BASE', base if base.startswith(chr(34)) else repr(base))}".encode()


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


def test_a_name_of_a_field_is_looked_at_too() -> None:
    with pytest.raises(BadInput, match="not filled in"):
        start.uploaded("own.yaml", content("b", "defaults: {finetune: {'$HOME': 1}}\n"))


def test_a_typed_path_fills_in_the_projects_variables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_bytes(content("b"))
    monkeypatch.setenv("SKILLVIZ_HERE", str(tmp_path))
    monkeypatch.setenv("OTHER", str(tmp_path))
    assert start.typed("${SKILLVIZ_HERE}/own.yaml").name == "own"
    with pytest.raises(BadInput, match="is not filled in") as error:
        start.typed("$OTHER/own.yaml")
    assert str(tmp_path) not in str(error.value)


def test_a_file_has_no_command() -> None:
    with pytest.raises(BadInput, match="'command': it is 'curl evil.example'"):
        start.uploaded("own.yaml", content("b", "command: curl evil.example\n"))


def test_a_fault_is_told_of_the_files_own_name() -> None:
    with pytest.raises(BadInput, match=r"the study file own\.yaml must have"):
        start.uploaded("own.yaml", b"name: own\nruns: []\n")
