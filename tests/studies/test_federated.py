"""Federated averaging: exact ends, what is sent, resuming after a round, and a study of both kinds of clients."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.finetune import federated
from skillviz.models.finetune.federated import Message, average
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training import training_data
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.runs.doctor import findings
from skillviz.studies.federated import FederatedSpec, federated_table
from skillviz.studies.pack import pack
from skillviz.studies.store import open_study
from skillviz.tasks import registry
from tests.models.folders import change_json
from tests.refused import refused
from tests.studies.tiny_study import Store, run_study, study_of, study_plan, tasks, tiny_world

NONE = torch.empty(0)
CONFIG = {"batch_size": 4, "lr": 0.05, "keep": "last"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federated")
    tiny_world(folder)
    return folder


def clients(folder: Path, files: tuple[str, ...], shares: int, send: str = "full", share: float = 0.05) -> Any:
    data = training_data([registry.task(file) for file in files], DataSettings(), "head")
    settings = TrainingConfig(steps=3, **CONFIG).settings()
    return federated.Clients(str(folder / "base"), data, settings, shares, send, share, torch.device("cpu"))


def after(made: Any, rounds: int, state: Any = None) -> tuple[Any, list[Any]]:
    """Return the last state and all rows."""
    begun = state or made.start()
    yielded = list(federated.rounds(made, rounds, begun, lambda *_: None))
    return yielded[-1][0], [row for _, rows in yielded for row in rows]


def test_equal_clients_with_full_updates_are_plainly_averaged() -> None:
    body, values = torch.randn(50), [torch.randn(50) for _ in range(4)]
    messages = [Message(None, each, NONE) for each in values]
    assert torch.equal(average(body, messages, [7] * 4), torch.stack(values).double().mean(0).float())
    every = [Message(torch.arange(50), each, NONE) for each in values]
    assert torch.equal(average(body, every, [7] * 4), average(body, messages, [7] * 4)), "the full region is all"
    assert torch.equal(average(body, messages[:1], [7]), values[0])
    assert not torch.equal(average(body, messages, [7, 7, 7, 8]), average(body, messages, [7] * 4))


def test_an_entry_that_nobody_sends_keeps_its_bits() -> None:
    body = torch.randn(1000)
    made = average(body, [Message(torch.tensor([i]), torch.tensor([9.0]), NONE) for i in (3, 3, 5)], [1, 1, 1])
    assert torch.equal(torch.tensor([3, 5]), (made != body).nonzero().flatten())
    assert made[3] == pytest.approx((18 + float(body[3])) / 3) and made[5] == pytest.approx(
        (9 + 2 * float(body[5])) / 3
    )


def test_bytes_are_those_of_the_graft_file(tmp_path: Path) -> None:
    region = Region.from_flat(np.array([1, 4, 7]), {"a": (10,)})
    values, head = torch.randn(3), torch.randn(6)
    Graft(region, {"a": values}, {"head": head}, {}).save(tmp_path / "graft.safetensors")
    stored = sum(t.numel() * t.element_size() for t in load_file(tmp_path / "graft.safetensors").values())
    assert Message(torch.tensor([1, 4, 7]), values, head).bytes == stored == 3 * 12 + 6 * 4
    assert Message(None, torch.randn(10), head).bytes == 64


@pytest.mark.slow
def test_one_client_with_all_data_is_plain_training(folder: Path) -> None:
    one, _ = tasks(folder)
    state, _ = after(clients(folder, (one,), 1), 2)
    config = TrainingConfig(steps=6, **CONFIG)
    finetune(str(folder / "base"), [registry.task(one)], config, out=folder / "plain", device="cpu")
    stored = load_file(folder / "plain" / "model.safetensors")
    made = clients(folder, (one,), 1)
    names = made.models[0].table.names
    assert torch.equal(state.body, torch.cat([stored[name].flatten() for name in names]))
    assert not torch.equal(state.body, made.start().body)


@pytest.mark.slow
@pytest.mark.parametrize("send", ["full", "region", "random"])
def test_only_the_region_moves_and_a_resumed_federation_is_the_same(send: str, folder: Path) -> None:
    one, _ = tasks(folder)
    base = clients(folder, (one,), 3, send).start().body
    whole, rows = after(clients(folder, (one,), 3, send), 3)
    half, first = after(clients(folder, (one,), 3, send), 1)
    kept = federated.state_of(federated.tensors_of(half), half.round)
    resumed, rest = after(clients(folder, (one,), 3, send), 3, kept)
    assert torch.equal(resumed.body, whole.body) and torch.equal(resumed.heads[0], whole.heads[0])
    assert [row[:5] for row in first + rest] == [row[:5] for row in rows]
    moved = set((whole.body != base).nonzero().flatten().tolist())
    size = max(1, round(0.05 * len(base)))
    if send == "full":
        assert len(moved) > 3 * size and whole.regions == [None] * 3
        return
    assert moved <= {int(i) for region in whole.regions for i in region}
    assert [len(region) for region in whole.regions] == [size] * 3
    sent = {row.value for row in rows if row.what == "bytes"}
    assert sent == {each * size + 4 * len(whole.heads[0]) for each in (12, 4)}
    assert send == "region" or all(torch.equal(region, whole.regions[0]) for region in whole.regions)


@pytest.mark.slow
def test_clients_of_one_task_each_keep_their_heads(folder: Path) -> None:
    state, rows = after(clients(folder, tasks(folder), 4, "region"), 2)
    assert len(state.heads) == 2 and not torch.equal(state.heads[0], state.heads[1])
    assert {(row.task, row.what) for row in rows} == {
        (task, what) for task in ("one", "two") for what in ("score", "bytes", "membership")
    }
    size = max(1, round(0.05 * len(state.body)))
    assert {row.value for row in rows if row.what == "bytes"} == {12 * size, 4 * size}


@pytest.mark.slow
def test_a_study_has_the_table_of_every_round_over_seeds(folder: Path) -> None:
    one, two = tasks(folder)
    fields = {"rounds": 2, "steps": 2, "clients": 2}
    study = study_of(
        folder, {"task": one, "federated": fields, "seed": [0, 1]}, {"tasks": [one, two], "federated": fields}
    )
    done = run_study(study, Store(folder / "runs"))
    assert [failure.message for _, failure in done.failed] == [] and len(done.finished) == 10
    again = run_study(study, Store(folder / "runs"))
    assert not again.finished and len(again.skipped) == 10
    table = open_study(done.path).table("federated")
    of_one = table[table["tasks"].map(len) == 1]
    assert set(zip(of_one["send"], of_one["what"], of_one["round"], strict=True)) == {
        (send, what, number)
        for send in ("full", "region", "random")
        for what in ("score", "bytes", "membership")
        for number in range(3)
        if number or what == "score"
    }
    assert set(of_one["seeds"]) == {2} and set(table[table["tasks"].map(len) == 2]["seeds"]) == {1}
    assert table[table["what"] == "membership"]["value"].between(0, 1).all() and set(table["setting"]) == {""}
    packed = Store(folder / "packed")
    pack(study, Store(folder / "runs"), packed)
    assert not run_study(study, packed).finished, "a pack carries the federations"
    (first, *_) = (packed.root / "federated").glob("*.json")
    assert [str(one.path) for one in findings(packed)] == []
    change_json(first, layout=99)
    assert [one.path for one in findings(packed)] == [first]


def test_federations_of_other_settings_and_scores_without_an_interval_keep_their_rows() -> None:
    def made(steps: int, value: float, low: float | None) -> Any:
        spec = FederatedSpec(base="b", tasks=("mr",), steps=steps)
        row = {
            "round": 1,
            "client": None,
            "task": "mr",
            "what": "score",
            "value": value,
            "low": low,
            "high": low,
            "n": 9,
        }
        return SimpleNamespace(record=SimpleNamespace(spec=spec, rows=[{**row, "n": 9}], d=10))

    results = SimpleNamespace(federations=lambda: [made(50, 0.7, 0.6), made(200, 0.0, None)])
    table = federated_table(results)["federated"]
    assert dict(zip(table["setting"], table["value"], strict=True)) == {"steps 50": 0.7, "steps 200": 0.0}
    assert list(table["low"].isna()) == [False, True]


def planned(**entry: Any) -> Any:
    return study_plan(study_of(Path("nowhere"), {"task": "mr", **entry}))


test_wrong_federations_are_refused_with_what_is_allowed = refused(
    BadInput,
    ("'send'", lambda: planned(federated={"send": "everything"})),
    ("'share'", lambda: planned(federated={"share": 2})),
    ("'sent' is not a field of a federation; known: base", lambda: planned(federated={"sent": "full"})),
    ("'federated' takes fields", lambda: planned(federated=4)),
    ("leave recipe out", lambda: planned(federated={}, recipe="adamw")),
    ("give seed beside federated", lambda: planned(federated={}, finetune={"seed": [1, 2]})),
)
