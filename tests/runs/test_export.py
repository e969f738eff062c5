"""Tests of exported grafts: tokens that fine-tuning added, their prompt, and the license of the base (untrusted)."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest

from skillviz.core.graft import Graft
from skillviz.errors import BadInput
from skillviz.regular_file import MOST_BYTES
from skillviz.runs.evaluation import evaluate
from skillviz.runs.export import ExportRequest, Hub, _license, export
from skillviz.runs.graft_of_run import prompt_of
from skillviz.tasks import registry
from skillviz.tasks.definition import definition
from tests.models.test_other_checkpoints import resize
from tests.runs.tiny_world import Store, produce, spec_of
from tests.tiny import tiny_pair, tiny_task

MERGES = "".join(f"a{k + 1}: &a{k + 1}\n  <<: [*a{k}, *a{k}]\n" for k in range(30))
LICENSES: dict[str, tuple[str, str | None]] = {
    "a license": ("license: mit\n", "mit"),
    "nested merges": (f"a0: &a0 {{x: 1}}\n{MERGES}license: mit\n", None),
    "no date": ("license: 2026-99-99\n", None),
    "deep lists": (f"a: {'[' * 5_000}{']' * 5_000}\nlicense: mit\n", None),
    "no number": ("a: !!int x\nlicense: mit\n", None),
    "no binary": ("a: !!binary [x]\nlicense: mit\n", None),
    "a mapping as key": ("? {a: 1}\n: b\nlicense: mit\n", None),
    "not YAML": ("license: [\n", None),
    "too long": (f"license: mit\na: {'x' * MOST_BYTES}\n", None),
    "a list": ("license: [mit]\n", None),
    "another encoding": ("license: mit\na: \udcff\n", None),
}


@pytest.mark.parametrize(("header", "stated"), LICENSES.values(), ids=LICENSES)
def test_a_header_that_cannot_be_read_states_no_license(tmp_path: Path, header: str, stated: str | None) -> None:
    (tmp_path / "README.md").write_bytes(f"---\n{header}---\n# A model\n".encode(errors="surrogateescape"))
    assert _license(tmp_path) == stated


@pytest.mark.slow
def test_the_exported_graft_has_the_runs_scores_on_the_plain_base(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    resize(tuned, "causal", 8, "[added]")
    task = str(tiny_task(tmp_path, rows=24))
    run = produce(spec_of(tmp_path, sizes=("20%",), readout="causal"), Store(tmp_path / "runs"))
    done = export(
        run, ExportRequest("graft", "me/graft"), tmp_path / "x.safetensors", hub=Hub("me/graft", dry_run=True)
    )
    graft = Graft.load(tmp_path / "x.safetensors")
    assert (
        "Fine-tuning added 1 token: `[added]`." in done.card
        and graft.rows
        and graft.header["vocabulary"]["tokens"][0]["content"] == "[added]"
    )
    scored = evaluate(base, None, task, graft=graft, readout="causal").scores["test"].states
    own = run.record.metrics["test"].states
    assert own | {state: scored[state] for state in ("pretrained", "grafted")} == own
    with pytest.raises(BadInput, match="peft would store the whole embedding"):
        export(run, ExportRequest("peft", "graft"), tmp_path / "peft")


@pytest.mark.parametrize(
    ("of_run", "is_told", "words"),
    [(None, True, ""), ("", True, "does not store the definition"), ("of before", False, "has changed since the run")],
)
def test_a_graft_says_no_prompt_that_has_changed_since_its_run(
    world: Path, of_run: str | None, is_told: bool, words: str
) -> None:
    task = registry.task(world / "task.yaml")
    note = SimpleNamespace(definition=definition(task) if of_run is None else of_run)
    record, spec = SimpleNamespace(readout="prompt", task=note), SimpleNamespace(readout="prompt", task=str(task.path))
    fields, remarks = prompt_of(SimpleNamespace(record=record, spec=spec))  # type: ignore[arg-type]
    assert (fields, len(remarks)) == (
        ({"template": task.template.masked, "label_words": ANY} if is_told else {}),
        bool(words),
    ) and words in "".join(remarks)
