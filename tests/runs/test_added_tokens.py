"""Test of a pair whose fine-tuning added tokens: the exported graft on the plain base is the model that was scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.core.graft import Graft
from skillviz.errors import BadInput
from skillviz.runs.evaluation import evaluate
from skillviz.runs.export import ExportRequest, Hub, export
from skillviz.runs.produce import produce
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.models.test_other_checkpoints import with_added_token
from tests.tiny import tiny_pair, tiny_task


@pytest.mark.slow
def test_the_exported_graft_has_the_runs_scores_on_the_plain_base(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    with_added_token(tuned, "gpt2", "causal")
    tiny_task(tmp_path / "task", rows=24)
    task = str(tmp_path / "task" / "task.yaml")
    spec = RunSpec(
        base=str(base), finetuned=str(tuned), task=task, localizer="movement", sizes=("20%",), device="cpu",
        readout="causal",
    )  # fmt: skip
    run, file = produce(spec, Store(tmp_path / "runs")), tmp_path / "graft.safetensors"
    done = export(run, ExportRequest("graft", "me/graft"), file, hub=Hub("me/graft", dry_run=True))
    assert "Fine-tuning added 1 token: `[added]`." in done.card
    graft = Graft.load(file)
    assert graft.rows and graft.header["vocabulary"]["tokens"][0]["content"] == "[added]"
    scored, stored = evaluate(base, None, task, graft=graft, readout="causal"), run.record.metrics["test"].states
    for state in ("pretrained", "grafted"):
        assert scored.scores["test"].states[state] == stored[state]
    with pytest.raises(BadInput, match="peft would store the whole embedding"):
        export(run, ExportRequest("peft", "graft"), tmp_path / "peft")
