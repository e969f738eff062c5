"""Tests of a run scored on other data: other tasks and texts that fit no class. Its own numbers stay as they are."""

import io
import json
import shutil
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import yaml

from skillviz.analysis.necessity import without_region
from skillviz.core.calibration import reliability
from skillviz.core.interpolate import PATHS
from skillviz.core.prefix import lowest_layer
from skillviz.core.scores import confidence, probabilities
from skillviz.core.separation import auroc, auroc_difference
from skillviz.core.temperature import scaled
from skillviz.errors import BadData, BadInput, UnknownTask
from skillviz.runs.artifact import CURRENT, RunArtifact
from skillviz.runs.metrics import complement_row, metrics
from skillviz.runs.plan import planned
from skillviz.runs.transfer import in_its_words, label_mapping, refuse_unfit
from skillviz.runs.wise import grid_logits, on_path
from skillviz.show import out_of_scope
from skillviz.show.bundle import bundle
from skillviz.show.finding import finding
from skillviz.show.report import sections
from skillviz.show.report.sections import Charts, Heading
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.source import OUT_OF_SCOPE
from skillviz.tasks.source import out_of_scope as texts
from skillviz.tasks.splits import load_test
from skillviz.tasks.task import Hub, LabelWords, Task, Template
from tests.refused import refused, refuses
from tests.runs.tiny_world import Library, Region, Run, Session, Store, library, predict, produce, produced, spec_of
from tests.tasks.make import write_rows, write_task
from tests.tiny import tiny_rows, tiny_task

STATES = ("pretrained", "finetuned", "grafted", "complement")


def other_task(folder: Path, name: str, rows: int = 40, seed: int = 70, **changes: Any) -> Path:
    """Write a task of this name whose test examples are drawn with the seed; return its path."""
    path = tiny_task(folder, rows=16)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "name": name, **changes}, sort_keys=False))
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tiny_rows(rows, seed=seed)))
    return path


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("others")
    return str(other_task(folder / "near", "near")), str(other_task(folder / "far", "far", rows=24, seed=71))


@pytest.fixture(scope="module")
def made(world: Path, session: Session, others: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a movement run of three sizes, scored on both tasks, with the grid."""
    return produce(
        spec_of(world, sizes=("5%", "1%", "20%"), others=others, interpolation=True),
        Store(tmp_path_factory.mktemp("scored")),
        session=session,
    )


@pytest.mark.nightly
def test_the_record_tells_what_was_scored(made: Run, others: tuple[str, str]) -> None:
    near = made.record.transfers[0]
    assert (made.datasets, [(note.name, note.named) for note in made.record.transfers]) == (
        ("tiny", "near", "far"),
        list(zip(("near", "far"), others, strict=True)),
    )
    assert (near.mapping, near.unmapped) == (
        {name: name for name in made.labels},
        0,
    ) and near.rows == near.dropped + near.scores.n == 40
    assert near.majority == pytest.approx(0.5, abs=0.1) and len(near.fingerprint) == 64
    assert set(STATES) == near.scores.states.keys()  # no temperature: the tiny pair makes no error on validation
    assert near.scores.differences["accuracy"].low is not None and Store(made.path.parent).verify(made.id) == []


@pytest.mark.slow
def test_stored_predictions_are_those_of_the_other_task(made: Run, session: Session, others: tuple[str, str]) -> None:
    pair, task = session.pair(made.spec), registry.task(others[0])
    frame, trained = load_test(task)[0], {row["text"] for row in tiny_rows(64)}
    encoded = encode(task, frame[~frame["text_a"].isin(trained)].reset_index(drop=True), pair.tokenizer, "head")
    for state in STATES:
        ids, labels, logits = made.logits(state, "test", "near")
        assert (
            np.array_equal(logits, predict(pair, encoded, state, made.region()))
            and list(ids) == encoded.ids
            and np.array_equal(labels, encoded.labels)
        ), state
    assert made.record.transfers[0].scores.states["grafted"] == metrics(
        made.logits("grafted", "test", "near")[2], encoded.labels, made.record.task
    )


@pytest.mark.slow
def test_its_own_tables_hold_its_own_examples_alone(made: Run, world: Path, session: Session) -> None:
    bare = produce(spec_of(world, sizes=("5%", "1%", "20%")), Store(made.path.parent), session=session)
    assert made.predictions().equals(bare.predictions())
    assert made.curve().equals(bare.curve())
    assert set(made.predictions()["dataset"]) == {"tiny"}
    assert set(made.predictions("far")["dataset"]) == {"far"}
    assert (made.record.metrics, bare.record.transfers) == (
        bare.record.metrics,
        (),
    ) and made.record.key != bare.record.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "size", "alpha"), [("wise-ft", None, 0.3), ("wise-graft", 889, 0.7), ("wise-graft", 44, 1.0)]
)
def test_every_point_of_the_grid_is_what_evaluation_says(
    made: Run, session: Session, path: str, size: int | None, alpha: float
) -> None:
    pair, encoded = session.pair(made.spec), session.other_ends(made.spec, made.record.task)["far"].encoded
    with on_path(pair, path, alpha, made.cut(size or 1)):
        logits = pair.objective(encoded).logits()

    def at(frame: pd.DataFrame) -> pd.DataFrame:
        found = frame[(frame["path"] == path) & np.isclose(frame["alpha"], alpha) & (frame["dataset"] == "far")]
        return found[found["size"].isna() if size is None else found["size"].eq(size).fillna(False).astype(bool)]

    found = at(made.interpolation()).set_index("metric")[["value", "low", "high"]].astype(object)
    wanted = {
        name: [one.value, one.low, one.high] for name, one in metrics(logits, encoded.labels, made.record.task).items()
    }
    assert found.where(found.notna(), None).loc[list(wanted)].T.to_dict("list") == wanted
    own, told = at(made.interpolation_bins()).sort_values("bin"), reliability(logits, encoded.labels)
    assert own["count"].tolist() == told["count"].tolist() and own["count"].sum() == len(encoded)
    assert np.allclose(
        [own["confidence"], (own["correct"] / own["count"].where(own["count"] > 0))],
        [told["confidence"], told["accuracy"]],
        equal_nan=True,
    )
    assert (own["confidence"].fillna(0) * own["count"] - own["correct"]).abs().sum() / len(encoded) == pytest.approx(
        found.loc["ece", "value"]
    )


@pytest.mark.slow
def test_the_grid_has_every_size_on_every_task(made: Run) -> None:
    grid = made.interpolation()
    assert (
        grid[["dataset", "path", "size", "alpha"]]
        .drop_duplicates()
        .groupby(["dataset", "path", "size"], dropna=False)
        .size()
        .tolist(),
        set(grid["dataset"]),
        set(grid["size"].dropna()),
    ) == ([11] * 3 * 4, {"tiny", "near", "far"}, set(made.record.sizes))


@pytest.mark.slow
@pytest.mark.parametrize("paths", [PATHS, PATHS[1:]], ids=len)
def test_the_grid_of_a_region_in_upper_layers_is_that_of_whole_passes(
    made: Run, session: Session, paths: tuple[str, ...]
) -> None:
    pair, encoded = session.pair(made.spec), session.other_ends(made.spec, made.record.task)["far"].encoded
    table, whole = pair.table, made.cut(889)
    upper = Region(
        {
            p.name: whole.indices[p.name]
            for p in table.parameters
            if p.layer == table.layers - 1 and p.name in whole.indices
        },
        table.shapes,
    )
    assert lowest_layer(upper, table) > 0 == lowest_layer(whole, table)
    grid = list(grid_logits(pair, encoded, {upper.size: upper}, np.array([0.0, 0.35, 1.0]), paths))
    assert [path for path, *_ in grid] == [path for path in paths for _ in range(3)]
    for path, _, alpha, logits in grid:
        with on_path(pair, path, alpha, upper):
            assert np.array_equal(logits, pair.objective(encoded).logits()), (path, alpha)


@pytest.mark.slow
def test_differences_are_paired_with_the_fine_tuned_model(made: Run) -> None:
    wanted = made.record.transfers[0].scores.differences["accuracy"]
    grid = made.interpolation().query("dataset == 'near' and metric == 'accuracy_difference' and alpha == 1")
    assert [
        grid.query(end)[["value", "low", "high"]].to_numpy().tolist()
        for end in ("path == 'wise-ft'", f"path == 'wise-graft' and size == {made.record.size}")
    ] == [
        [[0, 0, 0]],
        [[wanted.value, wanted.low, wanted.high]],
    ]


@pytest.mark.slow
def test_the_ends_of_other_tasks_are_scored_once(made: Run, session: Session) -> None:
    first = session.other_ends(made.spec, made.record.task)
    run = produce(
        made.spec.model_copy(update={"localizer": "random", "interpolation": False}),
        Store(made.path.parent),
        session=session,
    )
    assert session.other_ends(run.spec, run.record.task) is first and (
        len(run.record.transfers),
        len(run.interpolation()),
    ) == (2, 0)


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"labels": ["good", "bad"]}, BadInput, "'good' is a label of 'strange' that 'tiny' does not have"),
        ({"name": "tiny"}, BadInput, "name each task once"),
        ({"pair": True}, BadInput, "differ in the number of texts; only tasks"),
        ({"spelled": "nothing"}, UnknownTask, "nothing"),
        ({"rows": 64, "seed": 0}, BadData, "no test example of 'strange' is left: of 64, 64 occur"),
    ],
    ids=["labels", "name", "number of texts", "unknown", "only examples of the training"],
)
def test_tasks_that_do_not_fit_are_refused_before_anything_is_loaded(
    world: Path, store: Store, tmp_path: Path, change: dict[str, Any], error: type[Exception], word: str
) -> None:
    spelled = change.get("spelled") or (
        tiny_task(tmp_path, pair=True) if "pair" in change else other_task(tmp_path, **{"name": "strange", **change})
    )
    spec, session = spec_of(world, others=(str(spelled),)), Session()
    refuses(error, rf"^[^\n]*{word}[^\n]*\Z", produce, spec, store, session=session)
    assert error is BadData or "pair" not in session.values, "the models were loaded"
    assert not list(store.root.glob("*/run.json"))


@pytest.mark.slow
def test_a_finished_run_counts_while_the_other_data_are_the_same(world: Path, store: Store, tmp_path: Path) -> None:
    run = produce(spec_of(world, others=(str(other_task(tmp_path, "near")),), max_test=10), store)
    assert run.record.transfers[0].scores.n == 10 and RunArtifact(run.spec).changes(run, store, Session()) == CURRENT
    other_task(tmp_path, "near", seed=99)
    assert "the data of the task 'near'" in RunArtifact(run.spec).changes(run, store, Session()).why


def test_every_size_has_its_complement(world: Path, store: Store) -> None:
    session = Session()
    run = produce(spec_of(world, sizes=("10%", "50%", "1%")), store, session=session)
    table = run.complement().query("split == 'test'")
    values = table.set_index(["size", "metric"])["value"]
    assert "complement.parquet" in run.files and (
        set(run.complement()["size"]),
        values[run.record.size, "accuracy"],
    ) == (set(run.record.sizes), run.record.metrics["test"].states["complement"]["accuracy"].value)
    pair, encoded = session.pair(run.spec), session.encoded(run.spec)["test"]
    for size in run.record.sizes:
        row = complement_row(
            {**session.ends(run.spec)["test"], "complement": predict(pair, encoded, "complement", run.cut(size))},
            encoded.labels,
            run.record.task,
        )
        assert values.loc[size].dropna().to_dict() == pytest.approx(
            {name: e.value for name, e in row.items() if e.value is not None}
        )
    pd.testing.assert_frame_equal(without_region(run, "test"), table)


def labelled(
    name: str, *labels: str, words: tuple[str, ...] | None = None, asks: str = "masked", **changes: Any
) -> Task:
    """Return a task with these labels and a template that contains its name."""
    fields: dict[str, Any] = {
        "data": Hub(id="none/none"), "text": ("text",), "label_words": LabelWords(**{asks: words or labels}),
        "template": Template(**{asks: f"{{text}} {name} <mask>." if asks == "masked" else f"{{text}} {name}:"}),
    }  # fmt: skip
    return Task(name=name, labels=labels, **{**fields, **changes})


SOURCE = labelled("source", "bad", "good", words=("terrible", "great"))
OTHER = labelled("other", "good", "bad")
UNASKED = labelled("other", "good", "bad", asks="causal", max_length=32)
ASKS = "{text} other <mask>."
MANY = labelled("other", "awful", "poor", "bad", "fine", words=("w1", "w2", "w3", "w4"))


@pytest.mark.parametrize("labels", [("Good", "BAD"), ("good", "bad")])
def test_labels_go_together_by_name_whatever_their_order_and_case(labels: tuple[str, str]) -> None:
    assert label_mapping(SOURCE, labelled("other", *labels)) == dict(zip(labels, ("good", "bad"), strict=True))


@pytest.mark.parametrize(
    ("other", "labels", "wording"),
    [
        (labelled("other", "good", "bad", words=("lovely", "awful"), max_length=64), ("good", "bad"),
         (ASKS, ("awful", "lovely"))),
        (MANY, ("bad", "bad", None, "good"), (ASKS, ("w1", "w4"))),
        (MANY, ("bad", "bad", "bad", "good"), (ASKS, ("w3", "w4"))),
        (MANY, ("bad", None, None, None), (ASKS, ("w1", "great"))),
        (UNASKED, ("good", "bad"), SOURCE.wording("prompt")),
        (labelled("other", "good", "bad", words=("terrible", "dull")), ("good", None), SOURCE.wording("prompt")),
    ],
    ids=["in the order of the source's labels", "the first of several labels", "the namesake", "a label without one",
         "no words", "one word for both labels asks nothing"],
)  # fmt: skip
def test_another_task_is_asked_in_its_own_words_and_else_in_the_source_s_which_is_said(
    other: Task, labels: tuple[str | None, ...], wording: tuple[str, tuple[str, ...]]
) -> None:
    asked, notes = in_its_words(SOURCE, other, dict(zip(other.labels, labels, strict=True)), "prompt")
    is_source_s = wording == SOURCE.wording("prompt")
    assert (asked.wording("prompt"), asked.labels, asked.name) == (wording, ("bad", "good"), "other")
    assert is_source_s or asked.max_length == other.max_length
    assert ["those of 'source' are used" in note for note in notes] == [True] * is_source_s


def test_the_head_needs_no_words() -> None:
    asked, notes = in_its_words(SOURCE, UNASKED, label_mapping(SOURCE, UNASKED), "head")
    assert (asked.labels, asked.limit("head"), notes) == (SOURCE.labels, 32, ())


test_what_does_not_fit_is_one_sentence = refused(
    BadInput,
    (
        "^(?!.*say which)(?=.*'ugly' is a label of 'other').*only tasks with the same labels can be scored with it",
        refuse_unfit, SOURCE, {"x.yaml": labelled("other", "good", "ugly")},
    ),
    ("number of texts", refuse_unfit, SOURCE,
     {"two": labelled("two", "good", "bad", text=("a", "b"), template=Template(masked="{a} {b} <mask>"))}),
    ("name each task once", refuse_unfit, SOURCE, {"a": OTHER, "b": OTHER}),
    *(
        ("a mapping takes each of good, bad", label_mapping, SOURCE, OTHER, mapping)
        for mapping in (
            {"good": "good"}, {"good": "fine", "bad": "bad"}, {"good": None, "bad": None}, {"good": "good", "b": "bad"},
        )
    ),
)  # fmt: skip


def test_what_fits_is_not_refused() -> None:
    refuse_unfit(SOURCE, {"a": OTHER, "b": labelled("third", "good", "bad")})
    for source, others in (("sst2", ("imdb", "yelp", "mr")), ("qnli", ("mnli_01", "snli_01", "rte"))):
        refuse_unfit(TASKS[source], {name: TASKS[name] for name in others})


ROWS = [{"text": f"how many {word} are there in {n} boxes"} for n in range(20) for word in ("apples", "stars")]


def named(world: Path, folder: Path, name: str = "outside.jsonl", rows: list[dict[str, str]] | None = None) -> Path:
    """Copy the world to a folder, with a task that names a file of such texts; return the folder."""
    shutil.copytree(world, folder, dirs_exist_ok=True)
    if rows is not None:
        write_rows(folder / name, rows)
    (folder / "task.yaml").write_text(
        yaml.safe_dump({**yaml.safe_load((folder / "task.yaml").read_text()), "out_of_scope": name}, sort_keys=False)
    )
    return folder


@pytest.fixture(scope="module")
def folder(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return named(world, tmp_path_factory.mktemp("outside"), rows=ROWS)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(folder), Store(tmp_path_factory.mktemp("with")))


without = produced()


def logits_of(run: Run) -> dict[str, np.ndarray]:
    return {
        state: rows[[f"logit_{label}" for label in run.labels]].to_numpy()
        for state, rows in run.out_of_scope().groupby("state", sort=False)
    }


def test_the_three_models_are_scored_on_them_and_kept_apart(folder: Path, run: Run, without: Run) -> None:
    session, spec = Session(), spec_of(folder)
    encoded, pair = session.encoded_out_of_scope(spec), session.pair(spec)
    assert (encoded.ids, run.out_of_scope()["example_id"].tolist()) == (
        [f"{OUT_OF_SCOPE}-{n}" for n in range(len(ROWS))],
        encoded.ids * 3,
    )
    found = logits_of(run)
    assert list(found) == ["pretrained", "finetuned", "grafted"]
    for state, logits in found.items():
        np.testing.assert_array_equal(
            logits, predict(pair, encoded, state, (run.region() if state == "grafted" else None))
        )
    assert set(run.files) - set(without.files) == {"out_of_scope.parquet"}


def test_all_else_is_as_without_them(run: Run, without: Run) -> None:
    assert without.out_of_scope().empty and out_of_scope.of_run(without) == {}
    for name in ("predictions", "curve", "complement", "layers"):
        pd.testing.assert_frame_equal(getattr(run, name)(), getattr(without, name)())
    assert run.record.task == without.record.task, "neither the examples nor the definition has changed"
    assert (run.record.metrics, run.record.notes) == (without.record.metrics, without.record.notes)


def test_what_is_shown_of_them(run: Run, without: Run) -> None:
    sure, outside = out_of_scope.of_run(run), logits_of(run)
    test = {state: run.logits(state)[2] for state in outside}
    if run.record.temperature is not None:
        test["temperature"], outside["temperature"] = (
            scaled(z["finetuned"], run.record.temperature) for z in (test, outside)
        )
    assert set(sure) == set(test)
    top = {name: [confidence(probabilities(z[name])) for z in (test, outside)] for name in test}
    table = out_of_scope.confidence_scores(sure).set_index("state")
    assert {name: tuple(table.loc[name, ["auroc", "confidence_out_of_scope"]]) for name in top} == {
        name: pytest.approx((auroc(inside, others).value, others.mean())) for name, (inside, others) in top.items()
    }
    verdict, words = out_of_scope.findings(sure)[0]
    less = auroc_difference(*top["grafted"], *top["finetuned"])
    assert f"{100 * abs(less.value):.1f} points" in words and verdict in ("better", "worse", "no clear difference")
    (line,) = (line for line in finding(run) if line.startswith("Out of scope."))
    assert "AUROC" in line and "40 texts" in line and "scope" not in "".join(finding(without))
    exhibit = out_of_scope.histogram(sure, "light")
    assert len(exhibit.figure.data) == 2 * len(sure) and "out of scope" in exhibit.alt


def test_report_and_zip_hold_them(run: Run, without: Run) -> None:
    for one, has in ((run, True), (without, False)):
        parts, file = sections.calibration(one).parts, io.BytesIO()
        headings = [i for i, part in enumerate(parts) if isinstance(part, Heading) and part.text == out_of_scope.TITLE]
        assert [isinstance(parts[i + 3], Charts) for i in headings] == [True] * has
        bundle([one], Library([Store(one.root)]), file, reports={}, grafts={})
        names = {f"runs/{one.id}/out_of_scope.parquet", f"tables/{one.id}/out_of_scope_scores.csv"}
        assert names & set(ZipFile(file).namelist()) == (names if has else set())


def test_every_text_is_read_and_no_more_are_scored_than_test_examples(folder: Path) -> None:
    scored = Session().encoded_out_of_scope(spec_of(folder, max_test=7)).ids
    assert (len(texts(task(folder / "task.yaml"))), len(scored)) == (len(ROWS), 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "how many"}], "x.jsonl has no column 'text', which task 'tiny' names"),
        ([{"text": "how many"}, {"text": " "}], "has no text in the column 'text' of row 2"),
        (None, r"there is no file .*x.jsonl \(out_of_scope\); correct the path"),
    ],
    ids=["no column", "no text", "no file"],
)
def test_a_file_that_cannot_be_used_is_refused_before_the_run_starts(
    world: Path, tmp_path: Path, rows: list[dict[str, str]] | None, message: str
) -> None:
    refuses(BadData, message, planned, spec_of(named(world, tmp_path / "world", "x.jsonl", rows)), Session(), library())


def test_a_task_without_classes_takes_none(tmp_path: Path) -> None:
    path = write_task(
        tmp_path, reference="label", labels=None, label=None, label_words=None, template={"causal": "{text}"},
        out_of_scope="outside.jsonl",
    )  # fmt: skip
    refuses(BadInput, "'out_of_scope' names texts that fit no class", task, path)
