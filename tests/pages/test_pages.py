"""Tests of every page on stored runs, also without classes, and on the shipped content: it opens, shows one run and its
numbers, and explains missing content."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from skillviz.analysis.null_measures import MEASURES, SHARED_PROBABILITY
from skillviz.core.metrics import METRICS
from skillviz.runs.store import Store, library, shipped_root, store_root
from skillviz.show import exhibit
from skillviz.show.region import tensor_table
from skillviz.show.sentences import no_classes, no_confidence
from skillviz.studies.store import list_studies
from skillviz.tasks.project import PROJECT
from skillviz.tasks.task import CHOICE, GENERATION
from skillviz.ui import chart, copy_link
from skillviz.ui.chart import FOLD
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.fake_run import SMALL as SMALLEST
from tests.fake_run import STATES, fake_run
from tests.pages.conftest import Use
from tests.runs.test_packed import pack_folders
from tests.scripts import script
from tests.small_world import opening_run
from tests.ui.driven import TEXT, charts, fields, figures, labels, lacks, links, opened, said, table, with_tables
from tests.ui.shared_store import SMALL

RUN_PAGES = [name for name, entry in PAGES.items() if entry.group == "This run"]
FIGURES = {  # the figures of these runs; studies are in test_study_pages.py
    "overview": 2, "region": 2, "sparsity": 2, "calibration": 3, "interpolation": 0, "transfer": 0, "examples": 7,
    "surgery": 1, "runs": 0, "launch": 0, "compare": 9, "home": 2, "tour": 0,
    "methods": 0, "tasks": 0, "continual": 0, "studies": 0, "paper": 0,
}  # fmt: skip
SHOWN = (
    "title", "header", "subheader", "markdown", "caption", "metric", "info", "warning", "error", "code", "table",
    "arrow_data_frame", "plotly_chart", "selectbox", "multiselect", "expander",
)  # fmt: skip
VERDICT = re.compile(r"(?:better|worse|no clear difference)\](?: (\w+))?")


def explained(test: AppTest) -> set[int]:
    """Return the numbers of figures, of alternative texts, of reading lines and of folds with help and table."""
    alts = [figure for figure in charts(test) if figure.proto.alt]
    reads = [caption for caption in test.caption if caption.value.startswith("How to read this:")]
    return {len(charts(test)), len(alts), len(reads), labels(test, "expander").count(FOLD)}


def has_link(test: AppTest) -> bool:
    return any(part.proto.component_name == copy_link.NAME for part in test.get("bidi_component"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparsity", "compare"])
def test_a_folded_table_is_sent_to_whoever_opens_it(name: str, ids: dict[str, str]) -> None:
    test = opened(name, run=ids["stagewise0"])
    assert not test.dataframe
    assert len(with_tables(test).dataframe) > len(charts(test)), "one of each figure, and one by itself"


@pytest.mark.parametrize("name", [*RUN_PAGES, "home", "runs", "compare", "launch"])
@pytest.mark.cases(2, 5)
def test_a_page_of_a_run_in_a_studys_file_is_that_of_its_folder(
    name: str, own_copy: Path, made: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.jobs.devices.free_memory", lambda: 2**34)  # otherwise it may change between the two

    def shown() -> Mapping[str, list[str]]:
        test = with_tables(opened(name, **({"run": made[1]["stagewise0"]} if name in RUN_PAGES else {})))
        assert not test.exception
        return {kind: [str(element.proto) for element in test.get(kind)] for kind in SHOWN}

    before = shown()
    pack_folders(Store(own_copy))
    assert len(Store(own_copy).list()) == len(made[1]) and not Store(own_copy).folders()
    assert shown() == before and sum(map(len, before.values())) > 3


def forget() -> None:
    """Clear the dashboard's cache and the cache of its figures."""
    st.cache_data.clear()
    st.cache_resource.clear()
    exhibit._place.cache_clear()
    chart._of_exhibit.cache_clear()


@pytest.mark.cases(0, 2)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*RUN_PAGES, "compare"])
def test_what_is_remembered_is_what_would_be_made_now(name: str, ids: dict[str, str]) -> None:
    """Open one run, then another, then the first again."""

    def seen(run: str) -> tuple[str, list[str], list[str]]:
        test = opened(name, run=ids[run])
        specs = [figure.proto.spec for figure in charts(test)]
        return said(test), specs, [table.value.to_csv() for table in test.dataframe]

    runs = ("stagewise0", "random", "stagewise0")
    remembered, anew = [seen(run) for run in runs], []
    for run in runs:
        forget()
        anew.append(seen(run))
    assert remembered == anew and (not charts(opened(name, run=ids["random"])) or anew[0] != anew[1])


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("name", PAGES)
def test_it_opens_under_its_question_and_every_chart_is_explained(name: str, ids: dict[str, str]) -> None:
    """Each page opens without an error, and each chart has its alt text, a reading line and a fold."""
    test = opened(name)
    assert said(test, "title") == PAGES[name].question and not test.error
    (figures,) = explained(test)
    assert figures == FIGURES.get(name, figures)


def test_a_run_without_a_gain_says_so_on_sparsity(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If complements are stored too, there is still no share of a gain to draw."""
    monkeypatch.setitem(STATES, "finetuned", (-1.0, 11.0, 1.0))
    run = fake_run(Store(empty), sizes=("3%", "1%"), **SMALL)
    assert run.record.metrics["test"].recovered.value is None
    assert "there is no gain to recover" in said(opened("sparsity", run=run.id))


@pytest.mark.cases(3, 5)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_the_run_bar_is_first_and_the_run_is_always_in_the_address(name: str, ids: dict[str, str]) -> None:
    assert opened(name).query_params["run"] == ids["paraphrase"]
    test = opened(name, run=ids["movement"][:-3])
    assert test.query_params["run"] == ids["movement"], "the beginning of an id is enough"
    boxes = test.selectbox[:4]
    assert [box.label for box in boxes] == ["Task and model", "Region size", "Localizer", "Seed"]
    assert boxes[2].value == "top movement" and boxes[0].options[0].startswith("MRPC · tiny-base")
    bar = test.get("popover")[0].proto.popover.label
    assert not lacks(bar, "top movement", "seed 0") and not re.search(r"[0-9a-f]{6}", bar)


@pytest.mark.nightly
def test_study_variants_are_offered_on_request_and_one_that_is_open_stays(empty: Path) -> None:
    plain, *_ = (fake_run(Store(empty), seed=seed, sizes=("3%",), **SMALL).id for seed in (0, 1))
    variant = fake_run(Store(empty), seed=0, sizes=("3%",), batch_size=16, **SMALL).id

    def seeds(test: AppTest) -> list[str]:
        return test.selectbox(key="run-bar.seed").options

    test = opened("region", run=plain)
    assert seeds(test) == ["0", "1"]
    assert seeds(test.toggle(key="control.variants").set_value(True).run()) == ["0", "0 · batch size 16", "1"]
    shown = opened("region", run=variant)
    assert "0 · batch size 16" in seeds(shown) and "gray-badge[variant]" in said(shown)


@pytest.mark.parametrize(
    ("name", "says"),
    [*((name, ["There is no run yet", "EMPTY", "python -m skillviz localize"])
       for name in (*RUN_PAGES, "runs", "compare")),
     ("jobs", ["no jobs yet", "Start a localization"]), ("tour", ["Localize a pair"])],
)  # fmt: skip
def test_an_empty_store_explains_how_to_make_the_first_run(name: str, says: list[str], empty: Path) -> None:
    test = opened(name)
    text = "\n".join([said(test, "info", "markdown", "caption"), *links(test), *(code.value for code in test.code[:1])])
    assert not lacks(text, *(part.replace("EMPTY", str(empty)) for part in says)) and not test.radio


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_an_unknown_run_in_the_address_is_explained_and_another_offered(name: str, ids: dict[str, str]) -> None:
    test = opened(name, run="no-such-run")
    assert "no-such-run" in said(test, "error") and not charts(test)
    assert " · seed " in test.button[0].label and ids["paraphrase"] not in test.button[0].label
    assert not test.button[0].click().run().error and test.query_params["run"] == ids["paraphrase"]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", ["region", "runs", "compare", "paper"])
def test_the_link_of_a_view_can_be_copied(name: str, ids: dict[str, str]) -> None:
    tests = [opened(name, run=ids["movement"], **more) for more in ({}, {"present": "yes"})]
    assert [has_link(test) for test in tests] == [True, False], "a room has no use for it"
    assert not any(test.exception for test in tests)


@pytest.mark.parametrize(
    ("page", "file", "change", "says"),
    [
        ("overview", "region.safetensors", lambda old: b"short", "region.safetensors is missing or not"),
        ("region", "layers.parquet", lambda old: b"x" * len(old), "layers.parquet"),
        ("compare", "predictions.parquet", lambda old: b"x" * len(old), "predictions.parquet"),
        ("overview", "run.json", lambda old: json.dumps({**json.loads(old), "layout": 99}).encode(), "layout 99"),
    ],
    ids=["short", "no table", "no predictions", "another version"],
)
def test_a_file_that_cannot_be_read_stops_its_page_with_a_sentence(
    page: str, file: str, change: Callable[[bytes], bytes], says: str, own_copy: Path, made: tuple[Path, dict[str, str]]
) -> None:
    one, other = (made[1][name] for name in ("movement", "random"))
    path = own_copy / one / file
    path.write_bytes(change(path.read_bytes()))
    assert says in said(opened(page, **({"runs": f"{one},{other}"} if page == "compare" else {"run": one})), "error")


def test_picking_another_localizer_keeps_size_and_seed(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["stagewise0"])
    assert test.selectbox(key="run-bar.localizer").select("random").run().query_params["run"] == ids["random"]
    assert test.selectbox[0].select_index(0).run().query_params["run"] == ids["paraphrase"] and not test.exception


def test_the_choices_of_the_calibration_page_stand_in_the_address_and_come_back(ids: dict[str, str]) -> None:
    test = opened("calibration", run=ids["movement"], bins="many", split="nowhere")
    assert test.slider[0].value == 15, "nonsense falls back to the default"
    assert test.slider[0].set_value(7).run().query_params["bins"] == "7"
    assert VERDICT.findall(said(test)) == ["ECE", "AURC"], "of each, the first verdict alone"
    again = opened("calibration", run=ids["movement"], bins="7", kind="mass", scaled="no", split="validation")
    assert again.slider[0].value == 7 and "7 bins of equal mass on 60 examples" in said(again)
    assert ["for temperature scaling" in said(each) for each in (test, again)] == [True, False]


def test_histograms_are_of_equal_width_whatever_the_bins_of_the_error(ids: dict[str, str]) -> None:
    mass, width = (
        [[trace["y"] for trace in figure["data"]] for figure in figures(opened("calibration", **query))]
        for query in ({"run": ids["movement"], "bins": "7", "kind": kind} for kind in ("mass", "width"))
    )
    assert mass[0] == width[0] and mass[1] != width[1]


PICTURE = "![x](https://elsewhere.invalid/x.png)"


@pytest.mark.nightly
def test_a_picture_in_a_name_stays_text(user_runs: Path) -> None:
    """This covers all places where Streamlit reads Markdown: texts, captions, and the cells of `st.table`."""
    run = fake_run(
        Store(user_runs), task=f"reviews {PICTURE}", localizer=f"mine {PICTURE}", base=f"me/base {PICTURE}",
        labels=(f"bad {PICTURE}", "good"), sizes=("1%",), **SMALL,
    )  # fmt: skip
    found = 0
    for name in dict.fromkeys((*RUN_PAGES, "compare", "runs")):
        test = opened(name, run=run.id)
        assert not test.exception
        cells = [str(cell) for table in test.table for cell in table.value.to_numpy().ravel()]
        read = [str(part.value) for kind in ("metric", *TEXT) if kind != "code" for part in test.get(kind)]
        texts = [*cells, *read, *(part.label for part in (*test.metric, *test.expander))]
        assert not [text for text in texts if PICTURE in re.sub("`[^`]*`", "", text)]
        found += sum("elsewhere" in text for text in texts)
    assert found > 4


def test_the_sparsity_page_puts_all_runs_of_a_pair_together(ids: dict[str, str]) -> None:
    test = opened("sparsity", run=ids["stagewise0"], metric="nll")
    drawn = figures(test)[0]
    assert {"stagewise", "top movement", "random"} <= {trace["name"] for trace in drawn["data"]}
    assert "4 runs of this pair and task" in test.expander[1].label and not drawn["layout"]["showlegend"]
    share = figures(opened("sparsity", run=ids["stagewise0"], metric="nll", axis="gain"))[0]
    of_share, of_metric = (figure["layout"]["yaxis"]["title"]["text"] for figure in (share, drawn))
    assert "gain recovered" in of_share != of_metric


@pytest.mark.parametrize(
    ("run", "page", "query", "figures", "says", "omits"),
    [
        ("paraphrase", "overview", {}, 2, [": F1 ", "\nF1: "], []),
        ("stagewise0", "sparsity", {"metric": "nll"}, 2, ["95% of the gain"], []),
        ("stagewise0", "region", {"cell": "1 · MLP in"}, 2,
         ["intermediate.dense.weight", "Zoom in on: 1 · MLP in"], []),
        ("stagewise0", "region", {"cell": "0 · query", "lines": "head"}, None, ["## Attention heads"], []),
        ("stagewise0", "region", {"cell": "0 · MLP in", "lines": "head"}, None, [], ["## Attention heads"]),
        *(pytest.param("stagewise0", "region", *row, marks=pytest.mark.slow) for row in (
            ({"view": "movement"}, 2, ["movement held, %"], ["IoU"]),
            ({"view": "stability"}, None, ["Mean IoU of **2 seeds**"], []),
            ({"other": "nothing-of-this-name", "view": "depth", "within": "kind"}, None, ["density"], []))),
        ("stagewise0", "transfer", {}, 2,
         ["-badge[", "IMDb, zero-shot: accuracy **", "--also imdb", '["SST-2","IMDb"]',
          "**120 examples** scored · 12 skipped (seen in training) · 0 skipped (label not mapped)"],
         ['"name":"temperature-scaled"']),
        ("stagewise0", "transfer", {"metric": "nll"}, 2, ["IMDb, zero-shot: NLL **", '"name":"temperature-scaled"'],
         ['"name":"chance"']),
        ("paraphrase", "transfer", {}, 0, ["No other task scored yet", "its own task alone", "--also TASK",
                                           "Score another task now"], []),
        ("stagewise0", "transfer", {"also": "yelp"}, 2, ["demo/tiny-base", '["SST-2","IMDb"]'], []),
        *(("stagewise0", "transfer", {"also": name}, 2, ["is not a task"], [])
          for name in ("no-such-task", "~nobody-is-called-so", "x" * 280)),
        ("stagewise0", "examples", {}, 7, [
            "from the Hugging Face Hub", "The sentences are not on this machine",
            "need the task's data on this machine", "by number"], ["Words in the text"]),
        ("movement", "surgery", {}, 1, [
            "**65 entries**", "[Undo] off", "[Save as a run] off", "[Reset to this run's region] off"],
         ["?expression=", "Held of this run's region: "]),
        ("movement", "surgery", {"expression": '{"layers":[0],"rows":[9999]}'}, None,
         ["Entries: 0", "[Save as a run] off"], []),
    ],
)  # fmt: skip
def test_a_page_says_of_a_run(
    run: str, page: str, query: dict[str, str], figures: int | None, says: list[str], omits: list[str],
    ids: dict[str, str],
) -> None:  # fmt: skip
    test = opened(page, run=ids[run], **query)
    parts = [f"{part.label}: {part.value}" for kind in ("selectbox", "metric", "text_input") for part in test.get(kind)]
    buttons = [f"[{button.label}]{' off' * button.disabled}" for button in test.button]
    drawn, address = [chart.proto.spec for chart in charts(test)], [f"?{name}=" for name in test.query_params]
    text = "\n".join([said(test), *parts, *buttons, *labels(test, "expander"), *drawn, *address])
    assert not lacks(text, *says) and lacks(text, *omits) == omits
    assert figures in (len(drawn), None) and not test.error and ("also" not in query or len(test.warning) == 1)


@pytest.mark.slow
def test_the_region_page_compares_two_regions(ids: dict[str, str]) -> None:
    one, other = (library().open(ids[name]).region() for name in ("stagewise0", "random"))
    compared = said(opened("region", run=ids["stagewise0"], other=ids["random"]))
    assert f"{len(one & other):,} in both, {len(other - one):,} only there" in compared


def test_the_overview_gives_command_and_python(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["movement"])
    test.session_state["overview.again"] = True
    _, null, command, python, export, graft = (code.value for code in test.run().code)
    assert null.startswith("python -m skillviz localize") and "--nulls none" not in null
    assert command.startswith("python -m skillviz localize") and "--method movement" in command
    there = f" --runs-dir {shlex.quote(os.environ['SKILLVIZ_RUNS'])}"  # a terminal lacks the dashboard's folder
    assert export == f"python -m skillviz runs export {ids['movement']} -o run.zip{there}"
    assert graft == f"python -m skillviz export {ids['movement']} -o graft.safetensors{there}"
    assert "skillviz.localize(" in python
    assert {"Everything of this run (zip)", "Report (HTML)"} <= {*labels(test, "download_button")}


@pytest.mark.nightly
def test_the_dashboard_opens_without_torch(ids: dict[str, str]) -> None:
    """Open all pages in a new process: neither torch nor transformers may be imported."""
    code = (
        "import sys\nfrom streamlit.testing.v1 import AppTest\n"
        f"for name in {list(PAGES)!r}:\n"
        f"    test = AppTest.from_file({str(PROJECT / 'pages')!r} + f'/{{name}}.py', default_timeout=60).run()\n"
        "    assert not test.exception, name\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, env=os.environ, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr[-2000:]


@pytest.mark.parametrize(("name", "table"), [("region", "layers"), ("calibration", "predictions")])
def test_a_run_without_a_table_says_what_is_missing_and_how_to_make_it(
    name: str, table: str, own_copy: Path, made: tuple[Path, dict[str, str]]
) -> None:
    path = own_copy / made[1]["movement"] / "run.json"
    record = json.loads(path.read_text())
    del record["files"][f"{table}.parquet"]
    path.write_text(json.dumps(record))
    test = opened(name, run=path.parent.name)
    assert f"stored no {table}" in said(test, "info") and "--method movement" in test.code[0].value


def test_the_table_of_tensors_leads_to_surgery(ids: dict[str, str]) -> None:
    table = tensor_table(library().open(ids["stagewise0"]).layers())
    found = links(opened("region", run=ids["stagewise0"]))
    query = parse_qs(next(query for label, query in found.items() if "in Surgery" in label))
    surgery = opened("surgery", run=query["run"][0], expression=query["expression"][0])
    assert not surgery.exception
    assert f"{int(table.loc[0, 'selected']):,}" in {metric.value for metric in surgery.metric}


@pytest.mark.parametrize("name", ["sparsity", "region"])
def test_a_page_of_a_result_has_one_verdict_chip(name: str, ids: dict[str, str]) -> None:
    assert len(VERDICT.findall(said(opened(name, run=ids["stagewise0"])))) == 1


KINDS = {
    "choice": {"task": "made-choice", "kind": CHOICE, "labels": ("A", "B", "C")},
    "generation": {"task": "made-generation", "kind": GENERATION},
    "likelihood": {"task": "made-likelihood", "kind": GENERATION, "metric": "perplexity"},
}
OF_CLASSES = {"True class", "Look at", "Sentence", "Explain this prediction", "Show the complement"}
SAYS = {"examples": ("By class", no_classes), "transfer": ("Other tasks cannot be scored", no_classes)}
SAYS_OF_TEXT = {
    **SAYS,
    "calibration": ("No calibration", no_confidence),
    "interpolation": ("Confidence at this point", no_confidence),
}


@pytest.fixture
def run_id(request: pytest.FixtureRequest, use: Use, tmp_path: Path) -> str:
    """Make a run of a task of this kind in the user's folder."""
    use(tmp_path)
    return fake_run(Store(tmp_path), interpolation=True, **KINDS[request.param], **SMALLEST).id


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run_id", [kind], indirect=True)


def opens(name: str, run_id: str, says: dict = SAYS_OF_TEXT) -> str:
    """Open a run's page, and check its title and the reason in `says`; return its text."""
    test = opened(name, run=run_id)
    title, reason = says.get(name, ("", lambda record: ""))
    text = said(test)
    assert not lacks(text, title, reason(Store(store_root()).open(run_id).record)) and not test.error
    assert says is SAYS or len(lacks(text, "ECE", "Temperature")) == 2
    return text.casefold()


@of("choice")
@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_of_options_opens(name: str, run_id: str) -> None:
    assert opens(name, run_id, SAYS)


@of("generation")
@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_of_generated_answers_opens(name: str, run_id: str) -> None:
    assert "exact match" in opens(name, run_id) or name not in ("overview", "sparsity")


@of("likelihood")
@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", (*RUN_PAGES, "runs", "compare"))
def test_every_page_of_a_run_without_predictions_opens(name: str, run_id: str) -> None:
    text = opens(name, run_id)
    assert lacks(text, "exact match", "mcnemar", "agree") == ["exact match", "mcnemar", "agree"]
    assert name not in ("overview", "sparsity", "interpolation", "examples") or "perplexity" in text


def test_lower_perplexity_is_better_in_every_verdict(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATES, "grafted", (0.7, 2.6, 0.85))
    run = fake_run(Store(empty), kind=GENERATION, metric="perplexity", task="made", sizes=("10%", "0.01%"))
    scores, row = run.record.metrics["test"], METRICS["perplexity"]
    before, graft, after = (scores.states[s]["perplexity"].value for s in ("pretrained", "grafted", "finetuned"))
    assert before > graft > after > 1 and scores.differences["perplexity"].low > 0
    assert scores.recovered is not None and 0 < scores.recovered.value < 1
    for page, words in {
        "examples": [": worse] ", "The graft gives the reference a higher probability on"],
        "overview": [f"perplexity {row.number(before)} → {row.number(graft)}"],
        "sparsity": [": worse]"],
    }.items():
        assert not lacks(said(opened(page, run=run.id)), *words), page
    assert f"graft perplexity down to {row.number(graft)}" in "\n".join(labels(opened("runs"), "expander"))


@of("likelihood")
def test_an_example_has_the_probability_of_its_reference(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id, example="test-0"))
    assert not test.error and " generates " not in said(test) and said(test).count("per token") >= 3
    narrow = next(frame.value for frame in test.dataframe if list(frame.value) == ["example", "grafted", "fine-tuned"])
    assert narrow["grafted"].str.fullmatch(r"\d+\.\d%").all()
    cases = next(box for box in test.selectbox if box.label == "Show")
    assert [option.rpartition(" (")[0] for option in cases.options][1:3] == [
        "likelier by fine-tuned", "likelier by the graft",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("run_id", "query", "says", "omits", "dropped"),
    [
        ("generation", {"area": "confidence_0.5_1_0_0.5"}, [], ["true class"], {"area"}),
        ("generation", {"example": "test-0"}, ["per token", "By slice"], [], set()),
        ("choice", {"area": "confidence_0_0.5_0_0.5"}, ["confidence in the right option, fine-tuned"], ["true class"],
         set()),
        ("choice", {"label": "B", "look": "typed"}, ["right option", "By slice"], [], set()),
    ],
    indirect=["run_id"],
)  # fmt: skip
def test_examples_are_told_without_classes(
    run_id: str, query: dict[str, str], says: list[str], omits: list[str], dropped: set[str]
) -> None:
    test = opened("examples", run=run_id, **query)
    text = said(test)
    assert not lacks(text, *says) and lacks(text, *omits) == omits and not test.error
    assert {*query} - {*test.query_params} == dropped and not {field.label for field in fields(test)} & OF_CLASSES
    assert text.count(" generates ") == (3 if "example" in query else text.count(" generates "))


@of("generation")
def test_a_phone_has_what_is_generated_without_a_number(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    narrow = table(test, "grafted")
    assert list(narrow) == ["example", "grafted", "fine-tuned"], "one label for all says nothing"
    assert narrow["grafted"].tolist() == table(test, "grafted generates")["grafted generates"].tolist()
    assert "What each model generates." in said(test)


@of("choice")
def test_what_is_right_is_an_option_in_tables_and_figures(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    drawn = " ".join(chart.proto.spec for chart in charts(test))
    assert "right option, %" in drawn and "true class" not in drawn and len(table(test, "grafted: right option"))
    assert not lacks(said(test), "Confidence in the right option, %.", "Confidence by option")


@of("choice")
def test_no_other_task_is_asked_for_where_labels_are_no_classes(run_id: str) -> None:
    text = said(opened("interpolation", run=run_id))
    assert "--interpolation" in text and lacks(text, "--also", "No other task") == ["--also", "No other task"]


def opens_stored(page: str, **query: str) -> None:
    test = opened(page, **query)
    assert not test.exception and not test.error, (page, query)
    assert PAGES[page].question in [title.value for title in test.title]


@pytest.mark.parametrize(
    "page",
    [*(pytest.param(page, marks=pytest.mark.slow) for page in ("methods", "tasks")),
     *(pytest.param(page, marks=pytest.mark.nightly) for page in ("continual", "studies"))],
)  # fmt: skip
def test_every_stored_study_opens_on_each_page_of_studies(page: str) -> None:
    studies = list_studies(Store(shipped_root()))
    assert len(studies) > 5
    for study in studies:
        opens_stored(page, study=study.name, **({"view": "study"} if page == "studies" else {}))


@pytest.mark.nightly
def test_compare_opens_on_a_run_of_each_pair_and_localizer() -> None:
    specs = {run.id: run.record.spec for run in Store(shipped_root()).list()}
    runs = {(spec.base, spec.finetuned, spec.task, spec.localizer): name for name, spec in specs.items()}
    assert len(runs) > 50
    for name in runs.values():
        opens_stored("compare", run=name)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("page", [name for name, row in PAGES.items() if row.group == "This run"])
def test_a_run_in_a_study_s_file_opens_on_each_page_of_a_run(page: str) -> None:
    packed = {path.parent: name for name, path in Store(shipped_root()).packed().items()}
    assert len(packed) > 5
    for name in packed.values():
        opens_stored(page, run=name)


@pytest.mark.parametrize(
    ("page", "query", "column", "names", "says"),
    [
        pytest.param("methods", {"study": "baselines-minilm"}, "beyond, NLL", {"stagewise", "top movement"}, [],
                     marks=pytest.mark.slow),
        ("methods", {"around": "random 1×"}, "kept out of the true region", {"stagewise", "top movement", "random"},
         ["finds most", "planted models keep 80% of the gain and count"]),
        ("overview", {}, "standard errors", {SHARED_PROBABILITY},
         ["\nOver 3 fine-tuned models: +", "points (95%", "nats (95%",
          "\nWhat the labels do not ask for: the graft shares"]),
    ],
    ids=["the nulls of a base whose studies make none", "the board of hidden skills", "what nulls share"],
)  # fmt: skip
def test_a_page_shows_what_is_measured_beyond_scores(
    page: str, query: dict[str, str], column: str, names: set[str], says: list[str]
) -> None:
    test = opened(page, **(query or {"run": opening_run().id}))
    rows = table(test, column)
    assert names <= {*rows.get("localizer", rows.get("measure"))} and not lacks(
        said(test, "markdown", "caption"), *says
    )
    assert page != "overview" or (len(rows), rows["measure"].iloc[0]) == (len(MEASURES), SHARED_PROBABILITY)
    assert "study" not in query or len(rows) > 7


def test_a_run_with_a_gain_shows_it_beside_gain_1() -> None:
    run = next(run for run in Store(shipped_root()).list() if run.record.gains)
    test = opened("overview", run=run.id)
    assert len(table(test, "accuracy at gain 1")) == len(run.record.gains) and "The skill is **diluted**" in said(test)
    assert said(opened("sparsity", run=run.id))


@pytest.mark.slow
def test_the_table_of_the_lesson_plan_is_what_the_tour_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/lesson-plan.md has the questions, answers and numbers of the tour on the shipped run."""
    monkeypatch.setenv("SKILLVIZ_RUNS", "restored after the test")
    plan = script("docs/lesson_plan.py")
    rows = plan.table()
    assert len(rows) == len(STEPS) + 2
    assert "\n".join(rows) in plan.PLAN.read_text(encoding="utf-8"), "python docs/lesson_plan.py"


def test_the_bound_is_behind_a_fold_of_the_overview(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["movement"])
    before = len(charts(test))
    test.session_state["overview.bound"] = True
    test.run()
    assert len(charts(test)) == before + 1 and "variance term" in said(test)
    assert list(table(test, "× the vacuous value 1")["× the vacuous value 1"]).count("not measured") == 2
