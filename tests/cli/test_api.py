"""Tests of the Python API: the same words as the commands, loaded lazily."""

import shlex
import subprocess
import sys

import pytest
import torch

import skillviz
from skillviz.errors import BadInput, BadSize
from tests.cli.calls import PROJECT, done


@pytest.mark.parametrize("name", skillviz.__all__)
def test_every_public_name_is_there(name):
    assert getattr(skillviz, name) is not None and name in dir(skillviz)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(AttributeError, match="localize"):
        skillviz.localise  # noqa: B018


@pytest.mark.nightly
def test_importing_costs_no_torch():
    code = (
        "import sys, skillviz\nassert 'torch' not in sys.modules\n"
        "for name in ('Region', 'open_run', 'task', 'Run', 'Task'):\n"
        "    getattr(skillviz, name)\n    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_localize_open_evaluate_and_graft(pair, task_file, user_runs):
    heard = []
    run = skillviz.localize(
        base=pair[0], finetuned=pair[1], task=task_file, size=["10%", 222], method="stagewise", seed=1, steps=2,
        device="cpu", progress=heard.append,
    )  # fmt: skip
    region, metrics = run.region(), run.headline()["metrics"]
    assert (run.path.parent, region.size, run.spec.sizes) == (user_runs, 444, ("10%", "222"))
    assert {p.phase for p in heard} >= {"check", "load", "search", "evaluate"}
    assert skillviz.open_run(run.id).headline() == run.headline()

    loaded = skillviz.load_pair(*pair, device="cpu")
    graft, before = loaded.graft(region), loaded.flat.theta.clone()
    with skillviz.grafted(loaded.model, graft):
        assert int((loaded.flat.theta != before).sum()) == int((loaded.finetuned != loaded.base)[region.flat()].sum())
    assert torch.equal(loaded.flat.theta, before)

    scored = skillviz.evaluate(base=pair[0], finetuned=pair[1], task=skillviz.task(task_file), region=region)
    by_graft = skillviz.evaluate(pair[0], task=task_file, graft=graft).headline()["metrics"]
    assert scored.headline()["metrics"] == metrics and by_graft["grafted"] == metrics["grafted"]


def test_a_task_object_may_be_given(pair, task_file):
    run = skillviz.localize(*pair, skillviz.task(task_file), size=0.01, method="movement", device="cpu")
    assert run.record.size == 44 and run.spec.task == str(task_file)


@pytest.mark.parametrize(
    ("call", "options", "error", "words"),
    [
        (skillviz.localize, {"size": "0%"}, BadSize, "0%"),
        (skillviz.localize, {"speed": 9}, BadInput, "speed"),
        (skillviz.evaluate, {"region": "a", "graft": "b"}, BadInput, "not both"),
        (skillviz.evaluate, {"finetuned": None}, BadInput, "--graft"),
    ],
    ids=lambda value: str(value) if isinstance(value, (str, dict)) else value.__name__,
)
def test_wrong_input_raises_the_error_tree(pair, task_file, call, options, error, words):
    with pytest.raises(error, match=words):
        call(**{"base": pair[0], "finetuned": pair[1], "task": task_file, **options})


def test_without_region_or_graft_only_the_ends_are_scored(pair, task_file):
    scored = skillviz.evaluate(*pair, task_file, device="cpu")
    states = scored.scores["test"].states
    assert {"pretrained", "finetuned"} <= set(states) and "grafted" not in states and scored.size is None


@pytest.mark.nightly
def test_a_run_s_own_command_and_python_make_it_again(pair, task_file, user_runs):
    run = skillviz.localize(*pair, task_file, size=["1%", 9], method="movement", device="cpu", max_test=8)
    words, space = shlex.split(run.spec.command()), {}
    assert (words[:3], done(*words[3:], "--json").json["metrics"]) == (
        ["python", "-m", "skillviz"],
        run.headline()["metrics"],
    )
    exec(run.spec.python(), space)
    assert space["run"].spec == run.spec and len(list(user_runs.iterdir())) == 3


def test_an_empty_graft_scores_as_the_pre_trained_model(pair, task_file):
    opened = skillviz.load_pair(*pair, device="cpu")
    found = skillviz.evaluate(
        pair[0], task=task_file, graft=opened.graft(skillviz.Region({}, opened.table.shapes)), device="cpu"
    )
    states = found.scores["test"].states
    assert states["grafted"] == states["pretrained"] and found.size == 0
