"""Tests of a run outside of the dashboard: in one zip (its manifest is right to the byte, and the unzipped folder is a
store that opens), in a notebook (the pages' figures by name, and a card that escapes untrusted markup) and as a report:
it has the whole run, needs no network, and shows a user's text as text."""

import base64
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pytest

import skillviz
from skillviz.errors import BadInput, CorruptRun
from skillviz.plots.region import cells
from skillviz.plots.restyle import with_dark_marks
from skillviz.plots.theme import GROUND, INK
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Library, Store, library
from skillviz.show import region as region_exhibits
from skillviz.show import text
from skillviz.show.bundle import MANIFEST, README, bundle, stored_bytes
from skillviz.show.glossary import GLOSSARY
from skillviz.show.notebook import PAGES as NOTEBOOK_PAGES
from skillviz.show.notebook import Plots
from skillviz.show.report import page
from skillviz.show.report.sections import Charts, Points, calibration, sections
from skillviz.ui.page_table import PAGES
from tests.fake_run import fake_run
from tests.refused import refuses
from tests.show.reading import Read, read
from tests.tables import check, equal, says
from tests.test_arrows import PROJECT
from tests.ui.shared_store import SMALL

Made = tuple[Path, dict[str, str]]


def zipped(root: Path, *names: str, reports: bool = False, grafts: dict[str, Path] | None = None) -> ZipFile:
    store, made = Store(root), io.BytesIO()
    makes = {name: name.encode for name in names} if reports else {}
    bundle([store.open(name) for name in names], Library([store]), made, reports=makes, grafts=grafts or {})
    return ZipFile(made)


@pytest.mark.slow
def test_the_manifest_vouches_for_every_file(made: Made) -> None:
    root, ids = made
    names = [ids["stagewise0"], ids["random"]]
    archive = zipped(root, *names, reports=True)
    manifest = json.loads(archive.read(MANIFEST))
    contents = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    files = {name: {"sha256": hashlib.sha256(one).hexdigest(), "bytes": len(one)} for name, one in contents.items()}
    assert (manifest["runs"], manifest["files"], archive.testzip()) == (names, files, None)


@pytest.mark.slow
def test_unzipped_it_is_a_store_whose_runs_verify(made: Made, tmp_path: Path) -> None:
    root, ids = made
    zipped(root, *ids.values()).extractall(tmp_path)
    copy = Store(tmp_path / "runs")
    assert {run.id for run in copy.list()} == set(ids.values())
    for name in ids.values():
        assert (copy.verify(name), copy.open(name).record) == ([], Store(root).open(name).record)


@pytest.mark.slow
def test_tables_read_back_as_they_are_stored(made: Made) -> None:
    root, ids = made
    run, archive = Store(root).open(ids["stagewise0"]), zipped(root, ids["stagewise0"])

    def stored(name: str) -> pd.DataFrame:
        return pd.read_csv(io.BytesIO(archive.read(f"tables/{run.id}/{name}.csv")))

    for name in ("scores", "predictions", "curve", "history", "layers", "interpolation"):
        read, own = stored(name), getattr(run, name)()
        assert list(read) == list(own) and len(read) == len(own) > 0, name
        numbers = list(own.select_dtypes("float64"))
        pd.testing.assert_frame_equal(read[numbers], own[numbers].reset_index(drop=True), check_exact=True)
    assert len(stored("predictions-imdb")) == len(run.predictions("imdb")) > 0
    assert f"tables/{ids['random']}/interpolation.csv" not in zipped(root, ids["random"]).namelist(), "it has no rows"


def test_what_is_not_in_it_is_named_with_the_command_that_makes_it(made: Made) -> None:
    archive = zipped(made[0], run_id := made[1]["stagewise0"])
    commands = {row["what"]: row["command"] for row in json.loads(archive.read(MANIFEST))["not_included"]}
    assert set(commands) == {"graft", "report"}
    check(commands["graft"], (f"^python -m skillviz export {run_id}", " --runs-dir runs$"))
    check(commands["report"], (" --runs-dir runs$",))  # the run may be in the zip alone
    check(archive.read(README).decode(), (*commands.values(),))


def test_reports_and_grafts_that_are_given_are_in_it(made: Made, tmp_path: Path) -> None:
    root, run_id, graft = made[0], made[1]["movement"], tmp_path / "graft"
    graft.write_bytes(b"values")
    archive = zipped(root, run_id, reports=True, grafts={run_id: graft})
    given = map(archive.read, (f"reports/{run_id}.html", f"grafts/{run_id}.safetensors"))
    assert [*given, json.loads(archive.read(MANIFEST))["not_included"]] == [run_id.encode(), b"values", []]
    assert "Nothing is missing" in archive.read(README).decode()


def test_a_changed_file_is_refused(made: Made, tmp_path: Path) -> None:
    run_id = made[1]["movement"]
    file = shutil.copytree(made[0] / run_id, tmp_path / run_id) / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    words = rf": runs/{run_id}/curve.parquet was changed: its SHA-256 .*`runs verify`"
    refuses(CorruptRun, words, zipped, tmp_path, run_id)


def test_the_bytes_are_those_of_the_stored_files(made: Made) -> None:
    run = Store(made[0]).open(made[1]["movement"])
    assert (stored_bytes([run]), stored_bytes([])) == (sum((run.path / name).stat().st_size for name in run.files), 0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = Store(tmp_path_factory.mktemp("runs"))
    fake_run(store, localizer="random", sizes=("1%", "10%"), **SMALL)
    return fake_run(store, sizes=("1%", "10%"), interpolation=True, others=("imdb",), **SMALL)


@pytest.fixture
def notebook_run(stored: Run) -> skillviz.Run:
    return skillviz.open_run(str(stored.path))


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["density", "movement"])
def test_a_page_gives_the_figure_of_the_page(notebook_run: skillviz.Run, theme: str, view: str) -> None:
    layers = notebook_run.layers()
    exhibit = region_exhibits.region_map(layers, view, region_exhibits.fullest_cells(cells(layers))[0], theme)
    drawn = notebook_run.plot.region(exhibit.name, theme), with_dark_marks(exhibit.figure)
    assert json.loads(drawn[0].to_json()) == json.loads(drawn[1].to_json())


@pytest.mark.nightly
def test_every_name_that_is_listed_gives_a_figure(notebook_run: skillviz.Run) -> None:
    names = notebook_run.plot.names()
    drawn = {name: getattr(notebook_run.plot, name.partition(".")[0])(name.partition(".")[2]) for name in names}
    assert len(drawn) == len(names) and {name.partition(".")[0] for name in names} == set(NOTEBOOK_PAGES)
    assert [name for name, figure in drawn.items() if not len(figure.data)] == []
    firsts = {page: next(name for name in names if name.startswith(f"{page}.")) for page in NOTEBOOK_PAGES}
    own = {page: getattr(notebook_run.plot, page)().to_json() == drawn[name].to_json() for page, name in firsts.items()}
    assert own == dict.fromkeys(NOTEBOOK_PAGES, True)


def test_the_methods_are_the_pages() -> None:
    assert {name for name in vars(Plots) if not name.startswith("_")} - {"names"} == set(NOTEBOOK_PAGES)


@pytest.mark.slow
def test_runs_of_the_pair_stand_beside_it(notebook_run: skillviz.Run) -> None:
    check(" ".join(str(trace.name) for trace in notebook_run.plot.sparsity().data), ("random", "stagewise"))


def test_a_changed_figure_leaves_the_next_one_alone(notebook_run: skillviz.Run) -> None:
    notebook_run.plot.region().update_layout(title="mine")
    assert notebook_run.plot.region().layout.title.text is None


@pytest.mark.parametrize(
    ("page", "options", "error", "words"),
    [
        ("region", {"name": "nothing"}, BadInput, r"'nothing' is not a figure of plot.region; known: .*movement"),
        ("transfer", {}, BadInput, "stored nothing that plot.transfer draws"),
        ("region", {"theme": "blue"}, ValueError, "theme 'blue'"),
    ],
    ids=["name", "page", "theme"],
)
def test_a_name_that_is_not_there_is_a_sentence(
    page: str, options: dict[str, str], error: type[Exception], words: str, alone: Run
) -> None:
    refuses(error, words, getattr(skillviz.open_run(str(alone.path)).plot, page), **options)


def test_the_card_has_name_finding_and_scores(notebook_run: skillviz.Run) -> None:
    words = (
        notebook_run.id,
        "stagewise",
        "of the graftable parameters",
        "grafted",
        "ECE",
        "120 examples of the test set",
    )
    check(read(notebook_run._repr_html_().encode()).text, (notebook_run.id, *words))


@pytest.fixture
def alone(tmp_path: Path) -> Run:
    return fake_run(Store(tmp_path), sizes=("1%",), **SMALL)


@pytest.mark.parametrize(
    ("change", "has", "lacks"),
    [
        (lambda record: {"task": {**record["task"], "name": "<img src=x onerror=alert(1)>"}}, "&lt;img", ("<img",)),
        (lambda record: {"metrics": {}}, "stored no scores", ()),
    ],
    ids=["a stranger's name is text", "a run without scores has a card too"],
)
def test_the_card_of_a_changed_record(
    alone: Run, change: Callable[[dict], dict], has: str, lacks: tuple[str, ...]
) -> None:
    record = json.loads((alone.path / RECORD).read_text())
    (alone.path / RECORD).write_text(json.dumps({**record, **change(record)}))
    check(skillviz.open_run(str(alone.path))._repr_html_(), (has,), lacks)


HOSTILE = '"><script>window.caught=1</script><img src=x onerror="window.caught=1">[a](javascript:window.caught=1)`'
ASKED = ("overview", "region", "sparsity", "calibration", "examples", "interpolation", "transfer")
SECTIONS = (*ASKED, "origin", "glossary")


@pytest.fixture
def found(run: Run) -> Read:
    return report_of(run.path)


@cache
def report_of(path: Path) -> Read:
    """Return the report of the stored run; it is made once, and tests must not change it."""
    return read(page.report(library().open(path.name), library().list()))


@pytest.mark.slow
def test_it_has_every_section_and_a_table_of_contents_that_leads_there(found: Read) -> None:
    assert [a["id"] for a in found.of("section")] == list(SECTIONS)
    assert [page for page in ASKED if PAGES[page].question not in found.text] == []
    anchors, links = {f"#{a['id']}" for _, a in found.elements if "id" in a}, [a["href"] for a in found.of("a")]
    assert links[: len(SECTIONS)] == [f"#{name}" for name in SECTIONS] and set(links) <= anchors


@pytest.mark.slow
def test_every_figure_has_alt_text_a_reading_line_a_table_and_both_themes(found: Read, run: Run) -> None:
    places = [a for a in found.of("div") if "data-figure" in a]
    chapters = sections(run, library().list())
    figures = {s.name: sum(len(part.makes) for part in s.parts if isinstance(part, Charts)) for s in chapters}
    assert 0 not in [figures[name] for name in ASKED] and {a["role"] for a in places} == {"img"}
    n = len(found.figures)
    assert [a["data-figure"] for a in places] == [str(number) for number in range(n)]
    assert [a for a in places if len(a["aria-label"] or "") <= 20] == []
    assert [sum(figures.values()), found.text.count("How to read this:"), len(found.of("details"))] == [n, n, n]
    for figure in found.figures:
        assert {theme: figure[theme]["layout"]["template"]["layout"]["font"]["color"] for theme in INK} == INK


@pytest.mark.slow
def test_sentences_numbers_provenance_checks_and_commands_are_there(found: Read, run: Run) -> None:
    check(found.text, (
        "of the graftable parameters", "of the gain", "4 runs of this pair and task", "Expected calibration error",
        "passed: ", "Fine-tuned model: sha256", "Best accuracy on IMDb", "In and out of distribution",
        run.spec.command(), "skillviz.localize(",
    ))  # fmt: skip
    assert set(GLOSSARY) <= {(a["id"] or "").removeprefix("word-") for a in found.of("dt")}


@pytest.mark.slow
def test_a_calibration_error_is_the_same_in_words_and_on_its_panel(run: Run) -> None:
    drawn, listed = ([p for p in calibration(run).parts if isinstance(p, kind)] for kind in (Charts, Points))
    for charts, points in zip(drawn, listed, strict=True):
        figure = charts.makes[0]("light").figure
        titles = [*(note.text for note in figure.layout.annotations), *(trace.name for trace in figure.data)]
        for error in re.findall(r"\*\*(\S+%)\*\*", " ".join(points.items)):
            assert any(f"{name} {error}" in title for name in ("ECE", "AURC") for title in titles), (error, titles)


@pytest.mark.slow
def test_nothing_in_it_asks_for_the_network(run: Run) -> None:
    html = page.report(run)
    found = read(html)
    assert [name for name, a in found.elements if "src" in a or name in ("link", "iframe", "base", "form")] == []
    (style,) = re.findall(r"<style>(.*?)</style>", html.decode(), re.S)
    assert "url(" not in style and "@import" not in style
    policy = next(a["content"] for a in found.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    ran = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    assert ["plotly.js v" in text[:200] for text in ran] in ([True, False], [False, True])
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in ran]
    assert [one for one in hashes if one not in policy] == []


@pytest.mark.slow
def test_the_style_has_the_grounds_of_the_figures() -> None:
    style = (Path(page.__file__).parent / "report.css").read_text()
    for theme, part in zip(("light", "dark"), style.split("prefers-color-scheme: dark"), strict=True):
        assert GROUND[theme].lower() in part and INK[theme].lower() in part


@pytest.mark.slow
@pytest.mark.nightly
def test_a_users_words_are_shown_as_words(tmp_path: Path) -> None:
    enough: dict[str, Any] = {**SMALL, "n": {"validation": 200, "test": 2000}}  # both runs have the same verdicts
    run = fake_run(
        Store(tmp_path), task=f"reviews {HOSTILE}", base=f"me/base {HOSTILE}", finetuned=f"me/tuned {HOSTILE}",
        localizer=f"mine {HOSTILE}", labels=(f"bad {HOSTILE}", "good"), sizes=("1%",), **enough,
    )  # fmt: skip
    mine = fake_run(Store(tmp_path), localizer="mine", sizes=("1%",), **enough)  # it has no null
    found, ordinary = (read(page.report(one)) for one in (run, mine))
    assert [name for name, _ in found.elements] == [name for name, _ in ordinary.elements]
    assert [a for _, a in found.elements if any(name.startswith("on") for name in a)] == []
    assert found.text.count("<script>window.caught=1</script>") >= 5 and "[a](javascript:window.caught=1)" in found.text


@pytest.mark.slow
def test_a_title_that_was_not_escaped_would_be_seen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "title", lambda run: "<b>bold</b>")
    monkeypatch.setattr(page, "escape", str)
    assert read(page.report(run)).of("b")


@pytest.mark.slow
def test_a_run_without_tables_says_what_is_missing(run: Run) -> None:
    found = read(page.report(Run(run.path, run.record.model_copy(update={"files": {}, "metrics": {}}))))
    check(found.text, tuple(f"This run stored no {one}" for one in ("scores", "layers", "curve", "predictions")))
    assert found.figures == []


@pytest.mark.slow
@pytest.mark.nightly
def test_two_classes_or_fourteen_and_a_tiny_test_set(tmp_path: Path) -> None:
    labels = tuple(f"class {n}" for n in range(14))
    few = {**SMALL, "n": {"validation": 15, "test": 16}}
    assert len(read(page.report(fake_run(Store(tmp_path), labels=labels, sizes=("1%",), **few))).figures) > 10


@pytest.mark.slow
def test_it_is_made_without_torch_and_without_streamlit() -> None:
    code = (
        "import sys, skillviz.show.report.page, skillviz.commands.runs\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'streamlit'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


CELL = pd.DataFrame({"<i>": ["<b>"]})
ROWS = pd.DataFrame({"row": range(page.MOST_ROWS + 1)})
test_only_emphasis_and_code_are_markup_and_long_tables_are_cut = pytest.mark.slow(equal({
    **{markdown: (partial(page.inline, markdown), html) for markdown, html in (
        ("**80%** of *it*", "<strong>80%</strong> of <em>it</em>"),
        ("run `a<b`", "run <code>a&lt;b</code>"),
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("[a](http://b)", "[a](http://b)"),
        ("![a](http://b)", "![a](http://b)"),
        ("<http://b>", "&lt;http://b&gt;"),
    )},
    # A name that was escaped for a page is shown as it is.
    **{f"the name {name}": (partial(page.inline, text.plain(name)), name.replace("<", "&lt;").replace(">", "&gt;"))
       for name in ("a_b*c*", "`x`", "[a](b)", "~x~ $y$", "a<b>c", "C:\\models")},
    "rows of a long table": (lambda: page.table_html(ROWS, "Rows").count("<tr>"), page.MOST_ROWS + 1),
}))  # fmt: skip
test_tables = pytest.mark.slow(says({
    "a long table says what it leaves out": (lambda: page.table_html(ROWS, "Rows"), ("The first 200 of 201 rows",)),
    "a whole one does not": (lambda: page.table_html(ROWS.head(page.MOST_ROWS), "Rows"), (), ("The first",)),
    "a cell is escaped": (lambda: page.table_html(CELL, "T"), ("&lt;b&gt;",), ("<i>",)),
}))  # fmt: skip
