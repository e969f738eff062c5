"""Tests that guides hold what is stored: results, baselines, examples, data of the studies, the notebook. A generator
changes only the text between its marks, and stored intervals can be recomputed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import datasets
import numpy as np
import pandas as pd
import pytest
import yaml

from benchmarks.frame import fill
from docs.research import baselines
from skillviz.analysis.tables import check as checked
from skillviz.errors import BadInput
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.store import list_studies
from skillviz.tasks import registry
from skillviz.tasks.source import opened
from skillviz.tasks.task import Hub
from tests.refused import refuses
from tests.scripts import script
from tests.studies.fake_study import fake_study
from tests.studies.fake_tables import FAKE_TABLES, OTHERS, SIZES, TASKS, D
from tests.tables import check

MACHINE = re.compile(r"(?<![\w.`{}])/(?:home|root|tmp|work|usr|mnt|data|Users)\b")


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return script("docs/results.py")


@pytest.fixture(scope="module")
def made(results: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("studies")
    for name in ("table2", "figure8", "figure7"):
        fake_study(root, name)
    fake_study(root, "table3", seed=1, status="failed", tables=())
    return results.page(list_studies(Store(root)), results.read_words()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_page_is_what_the_generator_writes_from_the_stored_studies(results: ModuleType) -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page(
        list_studies(Store(shipped_root())), results.read_words()
    ), "run `python docs/results.py`"


def test_the_guide_has_a_row_for_every_item_of_the_paper_as_the_generator_writes_it(
    results: ModuleType, tmp_path: Path
) -> None:
    stored = results.every_item(list_studies(Store(shipped_root())))
    assert "\n".join(stored) in results.GUIDE.read_text(encoding="utf-8"), "run `python docs/results.py --guide`"
    fake_study(tmp_path, "table2")
    rows = {line.split(" | ")[0].strip("| "): line for line in results.every_item(list_studies(Store(tmp_path)))[2:]}
    names = (*(f"Table {n}" for n in range(1, 10)), *(f"Figure {n}" for n in range(1, 16)), "Appendix D")
    assert [name for name in names if not any(title.startswith(f"{name}:") for title in rows)] == []
    assert "1 of 2 confirmed" in rows[EXPERIMENTS["table2"].title] or "2 of 2" in rows[EXPERIMENTS["table2"].title]
    for name, row in EXPERIMENTS.items():
        assert f"`python -m skillviz reproduce {name}`" in rows[row.title]
        assert name == "table2" or "core-hour" in rows[row.title] and "not measured" in rows[row.title], name


@pytest.fixture(params=["invented", "stored"])
def any_page(request: pytest.FixtureRequest, made: str, results: ModuleType) -> str:
    return made if request.param == "invented" else results.PAGE.read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_result_or_the_command_that_measures_it(name: str, any_page: str) -> None:
    part, command = section(any_page, EXPERIMENTS[name].title), f"`python -m skillviz reproduce {name}"
    assert ("studies/" in part or f"{command} --scale small`: " in part) or f"{command}` measures it, in about " in part


@pytest.mark.slow
def test_no_machine_is_named(any_page: str) -> None:
    assert not MACHINE.search(any_page)


@pytest.mark.slow
def test_the_three_claims_are_counted_from_the_tables(made: str) -> None:
    claims = made.partition("## Three claims")[2].partition("## All experiments")[0]
    check(claims, (
        "The search is better in 12 of 12 comparisons, top movement in 0; 0 show no clear difference. "
        "Of 12 comparisons, ",
        "4 of 4 grafts, one a task and search, reach it. "
        "ECE against the fine-tuned model, better on 4, worse on 0, no clear difference on 0;",
        "| figure8-small | overlap | related - unrelated | 15.0 (13.0–17.0) |",
    ), ("No result",))  # fmt: skip
    assert claims.count("chance alone would give about") == 2  # against movement, and calibration against two rivals


@pytest.mark.slow
def test_a_study_tells_its_command_time_table_verdicts_and_notes(made: str) -> None:
    part = made.partition("\n## Table 2")[2].partition("\n## ")[0]
    check(part, (
        "**MR.** `python -m skillviz study run cached_runs/studies/table2-small/study.yaml`: ", "; 5 min 0 s on cpu.",
        "pre-trained | fine-tuned | graft, ", "its complement | agreement", "size needed | gain there, %",
        "\n| sst2_sentences to cr | 600 | ",
        "- **confirmed**: The graft is better calibrated than the fine-tuned model. 4 of 4 comparisons support it: ",
        "- Three mask seeds, one data seed.",
    ), ("Likely reason",))  # fmt: skip
    assert part.count("\n| sst2_sentences | ") == 2
    assert "**Not measured.** `python -m skillviz reproduce table3` measures it" in made  # the failed study


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "has", "lacks"),
    [({}, "Likely reason for the contradiction: Other shifts.", "What it says."),
     ({"studies": {"figure7-small": "What it says."}}, "\nWhat it says.\n", "Other shifts.")],
    ids=["the experiment's", "its own"],
)  # fmt: skip
def test_a_study_has_its_own_words_or_else_its_experiments(
    own: dict, has: str, lacks: str, results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OTHERS, "mpqa", ("yelp",))  # a large shift, where the invented graft is worse
    fake_study(tmp_path, "figure7", tasks=("mpqa",))
    check(
        results.page(list_studies(Store(tmp_path)), {"reasons": {"figure7": "Other shifts."}, **own}), (has,), (lacks,)
    )


def test_a_measured_number_among_the_words_is_refused(results: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "words.yaml"
    path.write_text("reasons: {table1: 'The graft has 87.3% only.'}\n")
    refuses(BadInput, "reasons.table1: .* holds a number", results.read_words, path)


@pytest.mark.slow
def test_two_studies_of_one_experiment_are_both_told_and_their_common_runs_count_once(
    results: ModuleType, tmp_path: Path
) -> None:
    step = {"kind": "localize", "title": "x", "state": "finished"}
    fake_study(tmp_path, "table2", steps={"a": step})
    fake_study(
        tmp_path, "table2", name="table2-small-more", steps={"a": step, "b": step}, command="python -m skillviz x"
    )
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    part = page.partition("\n## Table 2")[2].partition("\n## ")[0]
    assert part.index("studies/table2-small-more/") < part.index("studies/table2-small/")
    assert "Of 12 comparisons" in page and "4 of 4 grafts, one a task and search, reach it" in page


@pytest.mark.nightly
def test_a_study_without_a_command_gets_its_experiments(results: ModuleType, tmp_path: Path) -> None:
    fake_study(tmp_path, "table2", command=None)
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    assert "studies/table2-small/study.yaml`" in page and "None" not in page


SMALL, MIDDLE, LARGE = (round(size * D) for size in SIZES)


@pytest.fixture
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return invented tables of one task, with LoRA trained on exactly the middle size's number of entries."""
    made = [FAKE_TABLES[name](("sst2_sentences",), np.random.default_rng(0)) for name in ("scores", "differences")]
    scores, differences = (checked(frame, name) for frame, name in zip(made, ("scores", "differences"), strict=True))
    scores.loc[scores["method"] == "lora", "touched"] = float(MIDDLE)
    return scores, differences


def cells(lines: list[str], first: str) -> list[str]:
    """Return the cells of the only row with this first cell."""
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_cell_is_the_tables_number_at_its_size(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    scores, differences = tables
    above, below, areas = "\n".join(baselines.board(scores, differences)).split("\n\n")
    above, below = above.split("\n"), below.split("\n")
    assert cells(areas.split("\n"), "`movement`")[1] and "without the region" in areas
    own = scores[(scores["task"] == "sst2_sentences") & (scores["metric"] == "accuracy") & (scores["split"] == "test")]
    row = own[(own["method"] == "graft_movement") & (own["share"] == 0.01)].iloc[0]
    assert (
        cells(above, "`movement`")[2] == f"{100 * row['mean']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
    )
    asked = (
        (differences["a"] == "graft") & (differences["b"] == "graft_movement") & (differences["metric"] == "accuracy")
    )
    row = differences[asked & (differences["task"] == "sst2_sentences") & (differences["share"] == 0.1)].iloc[0]
    assert cells(below, "`movement`")[3].startswith(f"{100 * row['value']:+.1f}".replace("-", "−"))


def test_lora_stands_at_the_size_that_it_trains_alone(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    lines = baselines.board(*tables)
    for part in (lines[: lines.index("")], lines[lines.index("") + 1 :]):
        small, middle, large = cells(part, "LoRA")[1:]
        assert middle and not small and not large


def test_lora_is_turned_round(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    scores, differences = tables
    less = baselines.compared(differences, scores)
    lora = less[less["method"] == "lora"]
    asked = (differences["a"] == "lora") & (differences["b"] == "graft") & (differences["metric"] == "accuracy")
    row = differences[asked & (differences["task"] == "sst2_sentences") & (differences["share"] == 0.01)].iloc[0]
    assert lora["value"].tolist() == [-row["value"]] and lora["low"].tolist() == [-row["high"]]


@pytest.mark.parametrize(("low", "high", "words"), [(0.01, 0.02, "better than"), (-0.02, -0.01, "worse than"),
                                                    (-0.01, 0.02, "no clear difference from")])  # fmt: skip
def test_a_verdict_is_what_the_interval_says(
    tables: tuple[pd.DataFrame, pd.DataFrame], low: float, high: float, words: str
) -> None:
    scores, differences = tables
    planted = differences[(differences["b"] == "graft_random") & (differences["a"] == "graft")]
    less = baselines.compared(planted.assign(value=(low + high) / 2, low=low, high=high), scores)
    found = list(baselines.verdicts(scores, less.assign(holds=True)))
    assert len(found) == len(SIZES) and all(f"is {words} `random`." in line for line in found)
    found = list(baselines.verdicts(scores, less.assign(holds=False)))
    mark = "" if low < 0 < high else " †"
    assert all(f"is {words} `random`{mark}." in line for line in found)


@pytest.mark.nightly
def test_the_page_holds_what_is_stored(tmp_path: Path) -> None:
    page, stored = tmp_path / "baselines.md", baselines.PAGE.read_text(encoding="utf-8")
    page.write_text(stored.replace("points", "pints"), encoding="utf-8")
    assert baselines.write(page=page) == ["baselines-minilm"]
    assert page.read_text(encoding="utf-8").count("points") >= 3 * 3
    page.write_text(stored, encoding="utf-8")
    baselines.write(page=page)
    assert page.read_text(encoding="utf-8") == stored


PAGE = "Above.\n\n<!-- one: written by it -->\nold\nolder\n<!-- end of one -->\n\nBelow.\n"


def test_only_what_is_between_the_marks_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    fill(page, {"one": ["new", "line"]}, "it")
    assert page.read_text() == PAGE.replace("old\nolder", "new\nline")
    fill(page, {"one": ["new", "line"]}, "it")
    assert page.read_text() == PAGE.replace("old\nolder", "new\nline")


@pytest.mark.parametrize("name", ["two", "three"])
def test_a_page_without_the_mark_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE + "<!-- three: written by it -->\n")
    before = page.read_text()
    with pytest.raises(BadInput, match=rf"page.md has no marks for '{name}'. Add <!-- {name}: written by it -->"):
        fill(page, {"one": ["new"], name: ["new"]}, "it")
    assert page.read_text() == before


@pytest.fixture(scope="module")
def numbers() -> ModuleType:
    return script("docs/make_numbers.py")


def table(name: str) -> pd.DataFrame:
    return checked(FAKE_TABLES[name](TASKS, np.random.default_rng(0)), name)


@pytest.mark.parametrize("name", ["scores", "differences", "recovered", "stages", "overlap"])
def test_intervals_follow_and_every_other_number_stays(numbers: ModuleType, name: str) -> None:
    stored = table(name)
    ends = [column for column in stored if numbers.follows(column) and stored[column].dtype.kind == "f"]
    made = stored.assign(**{column: stored[column] + 1 for column in ends}).sample(frac=1, random_state=0)
    found, missing = numbers.renewed(stored, made.reset_index(drop=True), name)
    assert missing == 0
    rest = [column for column in stored if column not in ends]
    pd.testing.assert_frame_equal(found[rest], stored[rest])
    pd.testing.assert_frame_equal(found[ends], stored[ends] + 1)


def test_a_row_of_other_numbers_keeps_its_own_interval(numbers: ModuleType) -> None:
    """If one of three seeds is missing in the store, a mean of two must not give its interval to the mean of three."""
    stored = table("scores")
    made = stored.assign(low=0.0, high=1.0)
    made.loc[3, "mean"] += 1e-6
    made = made.drop(index=5)
    found, missing = numbers.renewed(stored, made.reset_index(drop=True), "scores")
    assert missing == 2
    assert found.loc[[3, 5], "low"].equals(stored.loc[[3, 5], "low"]) and (found["low"].drop([3, 5]) == 0.0).all()


TABLE = re.compile(r"written by docs/stored_examples.py -->.*?<!-- end", re.DOTALL)


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return script("docs/stored_examples.py")


@pytest.mark.slow
def test_the_pages_hold_what_is_stored(pages: ModuleType, tmp_path: Path) -> None:
    originals = (
        pages.PARTS,
        pages.CHECKPOINTS,
        pages.BASELINES,
        pages.NULLS,
        pages.GAIN,
        pages.REGIONS_PAGE,
        pages.RIVALS_PAGE,
    )
    copies = [Path(shutil.copy(page, tmp_path)) for page in originals]
    for copy in copies:
        copy.write_text(
            TABLE.sub(lambda found: found[0].replace(" points (", " pints ("), copy.read_text(encoding="utf-8")),
            encoding="utf-8",
        )
    pages.main(*copies)
    for copy, page in zip(copies, originals, strict=True):
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_the_opening_run_has_its_matched_random_regions(pages: ModuleType) -> None:
    """There are three seeds, found by the key of the search that they match."""
    assert len([line for line in pages.matched(pages.Store(pages.STORE)) if "`random-matched`" in line]) == 3


PROJECT = Path(__file__).resolve().parents[1]
TASK_FILES = PROJECT / "benchmarks" / "tasks"
GUIDE = (PROJECT / "docs" / "studies.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)`( \*)? \| ([^|]+) \| `([^`]+)`(?:, (\w+))? \| (\w+) \|$", re.MULTILINE)
OF_THE_REGISTRY = {"sst2_sentences": "sst2", "yelp_reviews": "yelp"}
"""Names that differ in the registry."""
OTHER_SPLIT = ("mrpc",)
"""GLUE tasks with a labeled test split: they are tested on it and validated on the other split."""


def rows() -> dict[str, re.Match[str]]:
    """Return folder -> its row of the table."""
    return {found[1]: found for found in ROW.finditer(GUIDE)}


def files_of(name: str) -> dict[str, object]:
    """Return the content of a task file by name."""
    return yaml.safe_load((TASK_FILES / f"{name}.yaml").read_text(encoding="utf-8"))


def test_the_table_has_every_folder_that_the_studies_read() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (PROJECT / "benchmarks" / "studies").glob("*.yaml")]
    tasks = {task for text in texts for task in re.findall(r"benchmarks/tasks/(\w+)\.yaml", text)}
    read = {Path(path).parts[-2] for task in tasks for path in files_of(task)["data"].values()}  # type: ignore[attr-defined]
    assert read and read <= set(rows())


@pytest.mark.parametrize("name", rows())
def test_files_and_labels_are_those_that_the_task_reads(name: str) -> None:
    row, task = rows()[name], files_of(name)
    splits = ("train", "test", *(["validation"] if row[2] else []))
    assert (task["data"], task["labels"]) == (
        {split: f"${{SKILLVIZ_REAL}}/data/{name}/{split}.jsonl" for split in splits},
        [label.strip() for label in row[3].split("(")[0].split(",")],
    )


@pytest.mark.parametrize("name", rows())
def test_names_on_the_hub_are_those_of_the_registry(name: str) -> None:
    row, data = rows()[name], registry.task(OF_THE_REGISTRY.get(name, name)).data
    assert isinstance(data, Hub) and (data.id, data.config) == (row[4], row[5])
    assert name in OTHER_SPLIT or row[6] == data.test


def test_the_lines_of_python_make_what_the_tasks_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"question": ["a?", "b?"], "sentence": ["yes", "no"], "label": [0, 1], "idx": [0, 1]}
    one = {"text": ["good", "bad", "fine"], "label": [1, 0, 1], "label_text": ["x", "y", "z"]}
    load = Mock(side_effect=lambda _, config, split: datasets.Dataset.from_dict(pair if config else one))
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setenv("SKILLVIZ_REAL", str(tmp_path))
    (code,) = re.findall(r"```python\n(.+?)```", GUIDE, re.DOTALL)
    exec(code, {})
    assert load.call_count == 5
    load.assert_any_call("nyu-mll/glue", "qnli", split="validation")
    for name, labels in (("sst2_sentences", {0: 1, 1: 2}), ("qnli", {0: 1, 1: 1})):
        found = opened(registry.task(str(TASK_FILES / f"{name}.yaml")), ("train", "test"))
        counts = {split: pd.Series(data.labels).value_counts().to_dict() for split, data in found.items()}
        assert counts["test"] == labels and set(counts) == {"train", "test"}


NOTEBOOK = PROJECT / "docs" / "notebook.ipynb"

# This follows Jupyter: cells share their names, and the last expression of a cell is its value.
RUN = """
import ast, json, sys
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    shown = getattr(value, "_repr_html_", None)
    entry = {"kind": type(value).__name__, "value": value if isinstance(value, dict) else None}
    entry["html"] = shown() if shown else ""
    entry["marks"] = sum(trace.type is not None for trace in value.data) if entry["kind"] == "Figure" else 0
    print("cell", json.dumps(entry))
"""


def _cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


@pytest.mark.nightly
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    sources = ["".join(cell["source"]) for cell in _cells("code")]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(sources), cwd=NOTEBOOK.parent, capture_output=True, text=True,
        check=False, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SKILLVIZ_RUNS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line.removeprefix("cell ")) for line in done.stdout.splitlines() if line.startswith("cell ")]
    assert len(told) == len(sources)
    by_source = dict(zip(sources, told, strict=True))
    card = next(cell for source, cell in by_source.items() if source.endswith("\nrun"))
    assert card["kind"] == "Run" and "<table" in card["html"]
    assert [source for source, cell in by_source.items() if cell["kind"] == "Figure" and cell["marks"]] == [
        f"run.plot.{page}()" for page in ("region", "sparsity", "calibration")
    ]
    checks = [cell["value"] for cell in told if cell["value"] is not None]
    assert [len(one) for one in checks] == [3, 2] and all(value is True for one in checks for value in one.values())
    assert [cell["kind"] for cell in told].count("DataFrame") == 2


def test_it_is_stored_without_outputs() -> None:
    cells = _cells("code")
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]
