"""Tests of every page on stored runs: it opens, shows one run and its numbers, and explains missing content."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from skillviz.runs.run import Run
from skillviz.runs.store import Store, library
from skillviz.show import exhibit
from skillviz.show.region import tensor_table
from skillviz.tasks.project import PROJECT
from skillviz.ui import chart, copy_link
from skillviz.ui.page_table import PAGES
from tests.fake_run import STATES, fake_run
from tests.runs.test_packed import pack_folders
from tests.ui.shared_store import SMALL
from tests.visitor import confirmed

RUN_PAGES = [name for name, entry in PAGES.items() if entry.group == "This run"]
FIGURES = {  # the figures of these runs; studies are in test_study_pages.py
    "overview": 2, "region": 2, "sparsity": 2, "calibration": 3, "interpolation": 0, "transfer": 0, "examples": 7,
    "surgery": 1, "runs": 0, "launch": 0, "compare": 9, "home": 2, "tour": 0,
    "methods": 0, "tasks": 0, "continual": 0, "studies": 0, "paper": 0,
}  # fmt: skip


def opened(name: str, **query: str) -> AppTest:
    """Return the page after its first script run, with these parameters in the address."""
    test = AppTest.from_file(str(PAGES[name].path), default_timeout=60)
    for key, value in query.items():
        test.query_params[key] = value
    return confirmed(test.run())


def words(test: AppTest) -> str:
    """Return all text of the page."""
    parts = (*test.markdown, *test.caption, *test.title, *test.info, *test.error, *test.code)
    return "\n".join(str(part.value) for part in parts)


def told(name: str, run: Run, says: Mapping[str, tuple[str, str]]) -> str:
    """Open a run's page, and check its title and the reason in `says`; return its text."""
    test = opened(name, run=run.id)
    assert not test.exception and not test.error
    said = words(test)
    if name in says:
        title, reason = says[name]
        assert title in said and reason in said.replace("\\", "")
    return said


def charts(test: AppTest) -> list:
    return test.get("plotly_chart")


def copied(test: AppTest) -> dict[str, str]:
    """Return the defaults that a copied link names and the address omits."""
    drawn = "".join(block.proto.body for block in test.get("html"))
    return dict(re.findall(r'class="copied-too" data-name="(.*?)" data-value="(.*?)"', drawn))


def with_tables(test: AppTest) -> AppTest:
    """Return the page with every folded table unfolded."""
    for fold in test.expander:
        if (key := fold.proto.id.split("-", 2)[-1]).startswith("table."):
            test.session_state[key] = True
    return test.run()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparsity", "compare"])
def test_a_folded_table_is_sent_to_whoever_opens_it(name: str, ids: dict[str, str]) -> None:
    test = opened(name, run=ids["stagewise0"])
    assert not test.dataframe
    assert len(with_tables(test).dataframe) > len(charts(test)), "one of each figure, and one by itself"


@pytest.mark.nightly
def test_a_run_in_the_file_of_a_study_says_on_every_page_what_it_said_from_its_folder(
    own_copy: Path, ids: dict[str, str]
) -> None:
    def said() -> dict[str, str]:
        tests = {name: opened(name, run=ids["stagewise0"]) for name in (*RUN_PAGES, "compare")}
        assert not any(test.exception or test.error for test in tests.values())
        return {name: words(test) for name, test in tests.items()}

    before = said()
    pack_folders(Store(own_copy))
    assert said() == before


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
        figures = [figure.proto.spec for figure in charts(test)]
        return words(test), figures, [table.value.to_csv() for table in test.dataframe]

    runs = ("stagewise0", "random", "stagewise0")
    remembered = [seen(run) for run in runs]
    anew = []
    for run in runs:
        forget()
        anew.append(seen(run))
    assert remembered == anew
    assert not charts(opened(name, run=ids["random"])) or anew[0] != anew[1]


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("name", PAGES)
def test_it_opens_under_its_question_and_every_chart_is_explained(name: str, ids: dict[str, str]) -> None:
    """Each page opens without an error, and each chart has its alt text, a reading line, a table and downloads."""
    test = opened(name)
    assert not test.exception and not test.error
    assert [title.value for title in test.title] == [PAGES[name].question]
    figures = charts(test)
    assert len(figures) == FIGURES.get(name, len(figures))
    assert all(figure.proto.alt for figure in figures)
    assert len([c for c in test.caption if c.value.startswith("How to read this:")]) == len(figures)
    assert len([e for e in test.expander if e.label == "Table"]) == len(figures)
    assert len([e for e in test.get("popover") if e.proto.popover.label == "Download"]) == len(figures)


def test_a_run_without_a_gain_says_so_on_sparsity(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If complements are stored too, there is still no share of a gain to draw."""
    monkeypatch.setitem(STATES, "finetuned", (-1.0, 11.0, 1.0))
    run = fake_run(Store(empty), sizes=("3%", "1%"), **SMALL)
    assert run.record.metrics["test"].recovered.value is None
    test = opened("sparsity", run=run.id)
    assert not test.exception and "there is no gain to recover" in words(test)


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_the_run_is_always_written_to_the_address(name: str, ids: dict[str, str]) -> None:
    assert opened(name).query_params["run"] == ids["paraphrase"]
    assert opened(name, run=ids["movement"]).query_params["run"] == ids["movement"]


@pytest.mark.cases(3, 5)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_the_run_bar_is_first_and_in_order(name: str, ids: dict[str, str]) -> None:
    test = opened(name, run=ids["movement"])
    boxes = test.selectbox[:4]
    assert [box.label for box in boxes] == ["Task and model", "Region size", "Localizer", "Seed"]
    assert boxes[2].value == "top movement" and boxes[0].options[0].startswith("MRPC · tiny-base")
    label = next(e.proto.popover.label for e in test.get("popover") if e.proto.popover.label != "Download")
    assert "top movement" in label and "seed 0" in label and not re.search(r"[0-9a-f]{6}", label)


@pytest.mark.nightly
def test_study_variants_are_offered_on_request_and_one_that_is_open_stays(empty: Path) -> None:
    plain, *_ = (fake_run(Store(empty), seed=seed, sizes=("3%",), **SMALL).id for seed in (0, 1))
    variant = fake_run(Store(empty), seed=0, sizes=("3%",), batch_size=16, **SMALL).id

    def seeds(test: AppTest) -> list[str]:
        return test.selectbox(key="run-bar.seed").options

    test = opened("region", run=plain)
    assert seeds(test) == ["0", "1"]
    test.toggle(key="control.variants").set_value(True).run()
    assert seeds(test) == ["0", "0 · batch size 16", "1"]
    shown = opened("region", run=variant)
    assert "0 · batch size 16" in seeds(shown) and "gray-badge[variant]" in words(shown)


@pytest.mark.parametrize("name", [*RUN_PAGES, "runs", "compare"])
def test_an_empty_store_explains_how_to_make_the_first_run(name: str, empty: Path) -> None:
    test = opened(name)
    assert not test.exception
    assert "There is no run yet" in words(test)
    assert "python -m skillviz localize" in test.code[0].value
    assert str(empty) in words(test)


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_an_unknown_run_in_the_address_is_explained_and_another_offered(name: str, ids: dict[str, str]) -> None:
    test = opened(name, run="no-such-run")
    assert not test.exception and not charts(test)
    assert "no-such-run" in test.error[0].value
    assert " · seed " in test.button[0].label and ids["paraphrase"] not in test.button[0].label
    test.button[0].click().run()
    assert not test.error and test.query_params["run"] == ids["paraphrase"]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", ["region", "runs", "compare", "paper"])
def test_the_link_of_a_view_can_be_copied(name: str, ids: dict[str, str]) -> None:
    page, presented = opened(name, run=ids["movement"]), opened(name, run=ids["movement"], present="yes")
    assert not page.exception and not presented.exception
    assert has_link(page) and not has_link(presented), "a room has no use for it"


def has_link(test: AppTest) -> bool:
    return any(part.proto.component_name == copy_link.NAME for part in test.get("bidi_component"))


def test_the_beginning_of_an_id_is_enough(ids: dict[str, str]) -> None:
    beginning = ids["movement"][:-3]
    assert opened("overview", run=beginning).query_params["run"] == ids["movement"]


def test_a_broken_run_is_explained(own_copy: Path, ids_of_copy: dict[str, str]) -> None:
    broken = own_copy / ids_of_copy["movement"]
    (broken / "region.safetensors").write_bytes(b"short")
    test = opened("overview", run=broken.name)
    assert not test.exception and "region.safetensors is missing or not" in test.error[0].value


def test_a_file_that_cannot_be_read_stops_its_page_with_a_sentence(own_copy: Path, ids_of_copy: dict[str, str]) -> None:
    path = own_copy / ids_of_copy["movement"] / "layers.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    test = opened("region", run=ids_of_copy["movement"])
    assert not test.exception and "layers.parquet" in test.error[0].value


def test_a_run_of_another_version_is_explained(own_copy: Path, ids_of_copy: dict[str, str]) -> None:
    path = own_copy / ids_of_copy["movement"] / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layout": 99}))
    test = opened("overview", run=ids_of_copy["movement"])
    assert not test.exception and "layout 99" in test.error[0].value.replace("\\", "")


def test_picking_another_localizer_keeps_size_and_seed(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["stagewise0"])
    test.selectbox(key="run-bar.localizer").select("random").run()
    assert test.query_params["run"] == ids["random"]
    test.selectbox[0].select_index(0).run()
    assert test.query_params["run"] == ids["paraphrase"]
    assert not test.exception


def test_the_choices_of_the_calibration_page_stand_in_the_address_and_come_back(ids: dict[str, str]) -> None:
    test = opened("calibration", run=ids["movement"])
    test.slider[0].set_value(7).run()
    assert test.query_params["bins"] == "7"
    again = opened("calibration", run=ids["movement"], bins="7", kind="mass", scaled="no", split="validation")
    assert again.slider[0].value == 7
    assert "7 bins of equal mass on 60 examples" in words(again)
    assert "for temperature scaling" in words(test) and "for temperature scaling" not in words(again)
    chips = re.findall(r"badge\[:material/\w+: (?:better|worse|no clear difference)\] (\w+)", words(test))
    assert chips == ["ECE", "AURC"]  # of each, the first verdict alone


def test_histograms_are_of_equal_width_whatever_the_bins_of_the_error(ids: dict[str, str]) -> None:
    def heights(kind: str, place: int) -> list:
        drawn = json.loads(charts(opened("calibration", run=ids["movement"], bins="7", kind=kind))[place].proto.spec)
        return [trace["y"] for trace in drawn["data"]]

    assert heights("mass", 0) == heights("width", 0)
    assert heights("mass", 1) != heights("width", 1)


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
        read = (*test.markdown, *test.caption, *test.title, *test.info, *test.warning, *test.error, *test.metric)
        texts = [str(part.value) for part in read] + [part.label for part in (*test.metric, *test.expander)]
        assert not [text for text in (*texts, *cells) if PICTURE in re.sub("`[^`]*`", "", text)]
        found += sum("elsewhere" in text for text in (*texts, *cells))
    assert found > 4


def test_a_nonsense_choice_in_the_address_falls_back_to_the_default(ids: dict[str, str]) -> None:
    test = opened("calibration", run=ids["movement"], bins="many", split="nowhere")
    assert not test.exception and test.slider[0].value == 15


def test_the_sparsity_page_puts_all_runs_of_a_pair_together(ids: dict[str, str]) -> None:
    test = opened("sparsity", run=ids["stagewise0"], metric="nll")
    drawn = json.loads(charts(test)[0].proto.spec)
    names = {trace["name"] for trace in drawn["data"]}
    assert {"stagewise", "top movement", "random"} <= names
    assert "4 runs of this pair and task" in test.expander[1].label
    assert "95% of the gain" in words(test) and not drawn["layout"]["showlegend"]
    share = json.loads(charts(opened("sparsity", run=ids["stagewise0"], metric="nll", axis="gain"))[0].proto.spec)
    assert "gain recovered" in share["layout"]["yaxis"]["title"]["text"] != drawn["layout"]["yaxis"]["title"]["text"]


def test_the_region_page_shows_the_cell_of_the_address(ids: dict[str, str]) -> None:
    test = opened("region", run=ids["stagewise0"], cell="1 · MLP in")
    assert str(next(b for b in test.selectbox if b.label == "Zoom in on").value) == "1 · MLP in"
    assert "intermediate.dense.weight" in words(test)


@pytest.mark.slow
def test_the_region_page_compares_two_regions_and_several_seeds(ids: dict[str, str]) -> None:
    alone = opened("region", run=ids["stagewise0"], view="movement")
    assert "movement held, %" in charts(alone)[0].proto.spec and "IoU" not in words(alone)
    one, other = (library().open(ids[name]).region() for name in ("stagewise0", "random"))
    compared = words(opened("region", run=ids["stagewise0"], other=ids["random"]))
    assert f"{len(one & other):,} in both, {len(other - one):,} only there" in compared
    seeds = opened("region", run=ids["stagewise0"], view="stability")
    assert "Mean IoU of **2 seeds**" in words(seeds) and not seeds.exception
    lost = opened("region", run=ids["stagewise0"], other="nothing-of-this-name", view="depth", within="kind")
    assert not lost.exception and "density" in charts(lost)[0].proto.spec


def test_the_region_page_counts_heads_only_where_there_are_heads(ids: dict[str, str]) -> None:
    query = opened("region", run=ids["stagewise0"], cell="0 · query", lines="head")
    assert "Attention heads" in words(query)
    dense = opened("region", run=ids["stagewise0"], cell="0 · MLP in", lines="head")
    assert not dense.exception and "## Attention heads" not in words(dense)


def test_f1_tasks_are_judged_by_f1(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["paraphrase"])
    assert "F1" in {metric.label for metric in test.metric}
    assert ": F1 " in words(test)


def test_the_overview_gives_command_and_python(ids: dict[str, str]) -> None:
    test = opened("overview", run=ids["movement"])
    test.session_state["overview.again"] = True
    test.run()
    null, command, python, export, graft = (code.value for code in test.code)
    assert null.startswith("python -m skillviz localize") and "--nulls none" not in null
    assert command.startswith("python -m skillviz localize") and "--method movement" in command
    assert "skillviz.localize(" in python
    there = f" --runs-dir {shlex.quote(os.environ['SKILLVIZ_RUNS'])}"  # a terminal lacks the dashboard's folder
    assert export == f"python -m skillviz runs export {ids['movement']} -o run.zip{there}"
    assert graft == f"python -m skillviz export {ids['movement']} -o graft.safetensors{there}"
    labels = [button.proto.label for button in test.get("download_button")]
    assert {"Everything of this run (zip)", "Report (HTML)"} <= set(labels)


@pytest.fixture
def ids_of_copy(made: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return made[1]


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
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "table"), [("region", "layers"), ("calibration", "predictions")])
def test_a_run_without_a_table_says_what_is_missing_and_how_to_make_it(
    name: str, table: str, own_copy: Path, ids_of_copy: dict[str, str]
) -> None:
    path = own_copy / ids_of_copy["movement"] / "run.json"
    record = json.loads(path.read_text())
    del record["files"][f"{table}.parquet"]
    path.write_text(json.dumps(record))
    test = opened(name, run=ids_of_copy["movement"])
    assert not test.exception and f"stored no {table}" in test.info[0].value
    assert "--method movement" in test.code[0].value


def test_the_table_of_tensors_leads_to_surgery(ids: dict[str, str]) -> None:
    test = opened("region", run=ids["stagewise0"])
    table = tensor_table(library().open(ids["stagewise0"]).layers())
    link = next(one for one in test.get("page_link") if "in Surgery" in one.proto.label)
    query = parse_qs(link.proto.query_string)
    surgery = opened("surgery", run=query["run"][0], expression=query["expression"][0])
    assert not surgery.exception
    assert f"{int(table.loc[0, 'selected']):,}" in {metric.value for metric in surgery.metric}


@pytest.mark.parametrize("name", ["sparsity", "region"])
def test_a_page_of_a_result_has_one_verdict_chip(name: str, ids: dict[str, str]) -> None:
    verdicts = re.findall(r"(better|worse|no clear difference)\]", words(opened(name, run=ids["stagewise0"])))
    assert len(verdicts) == 1
