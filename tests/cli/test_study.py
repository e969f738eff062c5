"""Tests of `study`, and of `jobs` for a study, named by file or by name, the user's or shipped."""

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from skillviz.jobs import control, kinds, start_study
from skillviz.jobs.backend import LocalBackend
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import list_studies
from tests.cli.calls import call, done, refused, sentence
from tests.fake_run import fake_run
from tests.studies.fake_study import fake_running, fake_study, works_on
from tests.studies.tiny_study import models_in
from tests.tables import check


@pytest.fixture(scope="module")
def made(pair: tuple[Path, Path], task_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with the finished study `Tiny one`: a model, a region, tables. Tests must not change it."""
    entry = {"recipe": "sgd", "finetune": {"steps": 4, "lr": 0.05}, "localizer": "movement", "size": "10%"}
    common = {"base": str(pair[0]), "task": str(task_file), "readout": "head", "device": "cpu"}
    with models_in(tmp_path_factory.mktemp("made")) as store:
        assert run_study(StudySpec(name="Tiny one", defaults=common, runs=(entry,)), store).is_whole
    return store


@pytest.fixture
def shipped(made: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of the shipped stores: it has the packed study, without its model."""
    root = tmp_path / "shipped"
    call("study", "pack", "tiny-one", "--to", root, "--runs-dir", made.root)
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: root)
    return root


def test_a_name_stands_for_the_study_in_the_users_own_store(made: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(made.root.parent / "finetuned-models"))
    folder = made.root / "studies" / "tiny-one"
    for name in ("Tiny one", "tiny-one", folder, folder / "study.yaml"):
        said = done("study", "status", name, "--runs-dir", made.root, "--json")
        assert (said.json["states"], said.json["left"]) == ({"finished": 3}, "nothing is left"), name
        assert f"It is in {folder}, with the tables scores" in said.out


def test_areas_are_a_table_of_a_study_and_of_one_size_there_is_none(made: Store) -> None:
    rows = done("study", "table", "tiny-one", "--areas", "--runs-dir", made.root, "--json").json["rows"]
    assert {(row["state"], row["sizes"], row["value"]) for row in rows} == {
        ("grafted", 1, None), ("complement", 1, None),
    }  # fmt: skip


def test_a_study_that_ships_is_told_as_it_lies_there(shipped: Path, user_runs: Path) -> None:
    said = done("study", "status", "tiny-one", "--json")
    states = [step["state"] for step in said.json["steps"]]
    assert (states, said.json["states"], said.json["workers"], "in parallel" in said.json["left"]) == (
        ["not here", "finished", "finished"], {"finished": 2, "not here": 1}, 1, False,
    )  # fmt: skip
    place = shipped / "studies" / "tiny-one"
    check(said.out, (f"It ships with skillviz in {place}, with the tables scores",
                     f"to make it again in {user_runs}: 3 of 3 steps to do"))  # fmt: skip
    assert not user_runs.exists()


def test_tables_that_ship_stand_though_their_runs_bear_other_names(
    shipped: Path, made: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing omits a run that exists under another id; in the user's own store the tables would be rebuilt."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(made.root.parent / "finetuned-models"))
    path = shipped / "studies" / "tiny-one" / "study.json"
    (study,) = list_studies(Store(shipped))
    path.write_text(path.read_text().replace(study.record.made_of, "0" * 64))
    assert call("study", "status", "tiny-one", "--json").json["states"] == {"finished": 3}
    own = call("study", "status", "tiny-one", "--runs-dir", shipped, "--json")
    assert own.json["states"] == {"finished": 2, "missing": 1} and own.json["left"].startswith("1 of 3 steps to do")


def test_the_tables_that_ship_are_printed_and_packed(shipped: Path, tmp_path: Path, user_runs: Path) -> None:
    said = done("study", "table", "tiny-one", "--name", "scores")
    assert "that ships" in said.err and said.out.startswith("base\trecipe\tvariant\tsetting\t")
    assert len(said.out.splitlines()) == 1 + len(list_studies(Store(shipped))[0].table("scores"))
    assert call("study", "table", "tiny-one").out == said.out  # the default table is its scores
    assert call("study", "pack", "tiny-one", "--to", tmp_path / "to", "--json").json["runs"] == 1
    assert not user_runs.exists()


@pytest.mark.nightly
def test_a_study_that_ships_is_run_in_the_users_own_store(shipped: Path, user_runs: Path) -> None:
    before, dry = sorted(shipped.rglob("*")), call("study", "run", "tiny-one", "--dry-run", "--json").json
    assert dry["workers"] == 1 and dry["left"].startswith("3 of 3 steps to do") and not user_runs.exists()
    ran = done("study", "run", "tiny-one", "--workers", "1", "--json").json
    assert (ran["steps"]["finished"], ran["path"]) == (3, str(user_runs / "studies" / "tiny-one"))
    after = call("study", "status", "tiny-one", "--json").json
    assert (after["states"], after["store"]) == ({"finished": 3}, str(user_runs)) and sorted(
        shipped.rglob("*")
    ) == before


def test_a_file_counts_for_what_ships_only_where_it_is_the_very_same(shipped: Path, tmp_path: Path) -> None:
    same, other = tmp_path / "same.yaml", tmp_path / "other.yaml"
    text = shutil.copy(shipped / "studies" / "tiny-one" / "study.yaml", same).read_text()
    other.write_text(text.replace("steps: 4", "steps: 5"))
    done("study", "table", same, "--name", "scores")
    sentence(call("study", "table", other, "--name", "scores"), "has no tables")
    assert other.read_text() != text


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of the shipped stores, which does not exist yet."""
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "shipped")
    return tmp_path / "shipped"


def test_a_study_begun_anew_is_the_one_whose_status_is_told(root: Path, user_runs: Path) -> None:
    shelved = fake_study(root, "table2")
    fake_running(user_runs, None)
    status = call("study", "status", "table2-small", "--json")
    assert status.json["store"] == str(user_runs) and "without tables yet" in status.out
    assert f"One of this name that has tables ships in {shelved}" in status.out
    assert "that ships" in call("study", "table", "table2-small").err
    shutil.rmtree(root)
    assert "without tables yet" in (out := call("study", "status", "table2-small").out) and "ships" not in out


@pytest.mark.nightly
def test_the_file_written_for_a_name_is_the_one_that_runs(root: Path, user_runs: Path) -> None:
    """`reproduce --write-only` writes a file to be edited; a shipped study of the same name must not hide it."""
    fake_study(root, "figure6")
    done("reproduce", "figure6", "--write-only", "--runs-dir", user_runs)
    path = user_runs / "studies" / "figure6-small" / "study.yaml"
    words = ("study", "run", "figure6-small", "--dry-run", "--json")
    steps, content = len(call(*words).json["steps"]), yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**content, "runs": [{**run, "seed": 0} for run in content["runs"]]}))
    assert steps > 2 and len(call(*words).json["steps"]) < steps, "the stand-in study has one run"


@pytest.mark.parametrize("command", ["run", "status", "table", "pack"])
def test_what_is_neither_a_name_nor_a_file_ends_in_one_sentence(command: str, shipped: Path, tmp_path: Path) -> None:
    to, gone = (("--to", tmp_path / "to") if command == "pack" else ()), tmp_path / "gone.yaml"
    said = call("study", command, "tiny-oen", *to)
    sentence(said, "'tiny-oen' is neither", "stored: tiny-one.", "YAML file")
    assert "Errno" not in said.err
    sentence(call("study", command, gone, *to), f"there is no study file {gone}", "tiny-one")


@pytest.mark.parametrize("name", ["..", "...", "../studies", ""])
def test_a_name_does_not_lead_out_of_the_store(name: str, shipped: Path, user_runs: Path, monkeypatch) -> None:
    user_runs.mkdir()
    shutil.copy(shipped / "studies" / "tiny-one" / "study.yaml", shipped / "study.yaml")
    monkeypatch.chdir(user_runs)
    refused(call("study", "status", name))


def test_processes_side_by_side_are_those_it_was_begun_with(shipped: Path, made: Store, user_runs: Path) -> None:
    path = shutil.copytree(made.root, user_runs) / "studies" / "tiny-one" / "study.json"
    status = ("study", "status", "tiny-one", "--json")
    assert call(*status).json["workers"] == 1
    path.write_text(path.read_text().replace('"workers": 1', '"workers": 4'))
    told = call(*status).json
    assert told["workers"] == 4 and told["left"].endswith("with 4 processes in parallel")
    assert "in parallel" not in call(*status, "--workers", "1").json["left"]


def test_an_experiment_without_scores_shows_its_main_table(root: Path, user_runs: Path) -> None:
    fake_study(user_runs, "figure9", tables=("composition", "note"))
    assert done("study", "table", "figure9-small").out.startswith("task\tlocalizer\tvariant\tseed\tlayer\t")


class Started(NamedTuple):
    """A record of a process that was not really started."""

    folder: Path
    words: Sequence[str]
    cwd: Path

    @property
    def workers(self) -> int:
        return int(self.words[self.words.index("--workers") + 1])


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Record the processes to be started and start none, so the models that the studies name need not exist."""
    started: list[Started] = []
    for module in (control, kinds):
        monkeypatch.setattr(module, "check", lambda at: None)
    monkeypatch.setattr(LocalBackend, "start", lambda self, *words: started.append(Started(*words)))
    return started


def test_a_study_under_way_is_listed_and_others_are_not(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_study(empty, "table1")
    assert "No job is queued or running" in call("jobs", "list").out
    fake_running(empty, sleeper)
    said = call("jobs", "list", "--json")
    check(said.out, ("table2-small", "step 4 of 31"), ("Nothing waits", "table1-small"))
    (told,) = said.json["studies"]
    assert told.items() >= {"study": "table2-small", "status": "running", "step": 4, "steps": 31}.items()


def test_a_study_under_way_is_cancelled_by_its_name(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    assert done("jobs", "cancel", "table2-small").out.startswith("table2-small is stopped")
    assert sleeper.wait(10) is not None and call("jobs", "list", "--json").json == {"jobs": [], "studies": []}
    refused(call("jobs", "cancel", "table2-small"), "only a queued or running job can be cancelled")


def test_a_name_that_a_run_has_too_means_the_run_unless_the_study_runs(
    empty: Path, sleeper: subprocess.Popen[str]
) -> None:
    run = fake_run(Store(empty), task="sst2")
    fake_study(empty, "table1", name=run.id)
    refused(call("jobs", "cancel", run.id), f"run {run.id} is finished")
    fake_running(empty, sleeper, run.id[:5])
    assert call("jobs", "cancel", run.id[:5]).out.startswith(f"{run.id[:5]} is stopped")
    assert sleeper.wait(10) is not None


def test_watching_a_study_ends_with_it(empty: Path) -> None:
    fake_study(empty, "table1")
    assert done("jobs", "watch", "table1-small", "--json").json["status"] == "finished"
    fake_running(empty, None)
    cut = call("jobs", "watch", "table2-small")
    assert cut.code == 2 and "table2-small has stopped." in cut.out


def test_the_log_of_a_study_is_printed(empty: Path) -> None:
    fake_running(empty, None)
    said = call("jobs", "log", "table2-small")
    assert said.out == "3 of 31 finished: fine-tune mr\n"
    assert "table2-small has stopped." in said.err and "`python -m skillviz jobs resume table2-small`" in said.err


def test_the_log_says_what_the_page_says(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    assert "table2-small is running: step 4 of 31: " in call("jobs", "log", "table2-small").err
    run = fake_run(Store(empty), seed=1)
    record, work = run.path / "run.json", run.path / "work"
    content = json.loads(record.read_text())
    record.write_text(
        json.dumps(
            {**content, "status": "failed", "error": {"kind": "BadData", "message": "no rows", "hint": "Add some."}}
        )
    )
    check(call("jobs", "log", run.id).err, (f"{run.id} has failed.", "BadData: no rows Add some.", "resume"))
    record.write_text(json.dumps({**content, "status": "running"}))
    work.mkdir(exist_ok=True)
    works_on(sleeper, work)
    step = {"phase": "search", "search": 1, "searches": 1, "step": 31, "total": 50, "size": 9, "added": 1, "removed": 0,
            "loss": 0.412, "time": time.time(), "left": 75, "target": 9}  # fmt: skip
    (work / "events.jsonl").write_text(json.dumps(step) + "\n")
    assert (
        f"{run.id} is running: searching: step 31 of 50, loss 0.412, about 75 s left" in call("jobs", "log", run.id).err
    )


@pytest.mark.parametrize("workers", [3, None])
def test_a_study_that_was_cut_goes_on_with_as_many_processes(
    workers: int | None, empty: Path, begun: list[Started]
) -> None:
    """One that never began takes as many as the command."""
    folder = fake_running(empty, None)
    record = folder / "study.json"
    record.write_text(record.read_text().replace('"workers": 1', f'"workers": {workers}'))
    if workers is None:
        record.unlink()
    assert call("jobs", "resume", "table2-small").out == "table2-small\n"
    assert [(one.folder, one.words[:3], one.workers) for one in begun] == [
        (folder, ["study", "run", str(folder / "study.yaml")], workers or 1)
    ]


def test_a_study_goes_on_from_the_folder_it_was_started_in(
    empty: Path, begun: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative names in a study's file refer to the same files, from any folder in which it is resumed."""
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    file = fake_running(empty, None) / "study.yaml"
    monkeypatch.chdir(first)
    start_study(file, Store(empty), workers=2)
    monkeypatch.chdir(second)
    call("jobs", "resume", "table2-small")
    shutil.rmtree(first)
    call("jobs", "resume", "table2-small")
    assert [process.cwd for process in begun] == [first, first, second], "at last the folder is gone"
    assert [process.workers for process in begun] == [2, 2, 2]


def test_a_finished_study_is_not_resumed(empty: Path, begun: list[Started]) -> None:
    fake_study(empty, "table1")
    refused(call("jobs", "resume", "table1-small"), "only a failed, cancelled or stopped job can be resumed")
    assert not begun
