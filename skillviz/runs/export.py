"""Export a run's graft in one of three formats, to disk and optionally to the Hugging Face Hub."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillviz.atomic import whole_folder, working_folder, write_file
from skillviz.core.gain import Gain
from skillviz.core.graft import Graft
from skillviz.models.applied import opened_base
from skillviz.models.fetch import GRAFT_FILE
from skillviz.models.frozen_tensors import FLOAT16
from skillviz.models.mergekit import write_mergekit
from skillviz.models.peft_adapter import write_adapter
from skillviz.models.publish import publish, published_license
from skillviz.runs.graft_card import CARD, Origin, card, origin, with_license
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.run import Run
from skillviz.tasks.project import expanded

REFUSED_BY_MERGEKIT = {
    ("bert", "prompt"): "a pooler, which a masked language model does not have",
    ("gpt_neox", "causal"): "buffers that newer versions of transformers no longer store",
}
"""Family and readout of models that mergekit 0.1.5 does not open, and the part that it looks for; tested."""


@dataclass(frozen=True)
class ExportRequest:
    """The settings of an export.

    `name` is the repository or the folder. The other fields override the paths of the models and the card's facts about
    the base; None means the values known from the run and the models. `gain` overrides the run's gain.
    """

    form: str
    name: str
    base: str | None = None
    finetuned: str | None = None
    gain: Gain | None = None
    base_model: str | None = None
    license: str | None = None


@dataclass(frozen=True)
class Hub:
    """The settings of a publication: none without `repository`; with `dry_run` nothing is sent."""

    repository: str | None = None
    private: bool = False
    revision: str | None = None
    message: str | None = None
    dry_run: bool = False


@dataclass
class Exported:
    """The result of an export: entries of the region, bytes, the files by size, the card and its address."""

    size: int
    d: int
    bytes: int = 0
    files: dict[str, int] = field(default_factory=dict)
    card: str = ""
    url: str | None = None
    remarks: list[str] = field(default_factory=list)


def export(
    run: Run, request: ExportRequest, out: Path | None, overwrite: bool = False, hub: Hub | None = None
) -> Exported:
    """Write the run's graft to `out` (None: do not write it) and publish it if `hub` asks for that.

    Raises PairMismatch if the models on this machine differ from the run's, BadInput if the format cannot hold the
    graft, and HubError if publishing fails.
    """
    hub = hub or Hub()
    graft, remarks = graft_of_run(run, request.base, request.finetuned, request.gain)
    done = Exported(graft.region.size, graft.region.d, remarks=remarks)
    is_folder = out is not None and request.form != "graft"
    with whole_folder(out.absolute(), replace=True) if is_folder and out else working_folder() as draft:
        _write(draft, run, graft, request, hub, done)
        if out is not None and not is_folder:
            write_file(out, lambda path: shutil.copyfile(draft / GRAFT_FILE, path))
        files = {str(file.relative_to(draft)): file for file in sorted(draft.rglob("*")) if file.is_file()}
        done.files = {name: file.stat().st_size for name, file in files.items()}
        done.bytes = sum(size for name, size in done.files.items() if name != CARD)
        if hub.repository and not hub.dry_run:
            done.url = publish(
                files, hub.repository, message=hub.message or f"Graft of run {run.id}", private=hub.private,
                revision=hub.revision,
            )  # fmt: skip
    return done


def _write(draft: Path, run: Run, graft: Graft, request: ExportRequest, hub: Hub, done: Exported) -> None:
    """Fill the draft with the format's files and, except for mergekit, the card."""
    with_card = request.form == "peft" or hub.repository is not None
    about = _origin(run, graft, request, hub) if with_card else Origin(None, None)
    more: dict[str, Any] = {}
    if request.form == "graft":
        graft.save(draft / GRAFT_FILE)
    else:
        opened = opened_base(expanded(request.base or run.spec.base, "base"), graft)
        if request.form == "peft":
            adapter = write_adapter(draft, opened.model, graft, about.base or str(opened.info.id))
            # a copy stored here as float16 may be float32 on the hub
            more = {"adapter": adapter, "rounded": opened.info.dtype == FLOAT16}
        else:
            write_mergekit(draft, opened, graft)
            reason = REFUSED_BY_MERGEKIT.get((opened.info.model_type, str(graft.header.get("readout"))))
            if reason:
                done.remarks.append(f"mergekit 0.1.5 does not open this kind of model: it looks for {reason}.")
    if with_card:
        done.card = card(run, graft, request.name, about, **more)
        (draft / CARD).write_text(done.card, encoding="utf-8")
        if hub.repository and about.base is None:
            done.remarks.append("The card does not name the base on the Hub. Add --base-model org/name.")


def _origin(run: Run, graft: Graft, request: ExportRequest, hub: Hub) -> Origin:
    known = origin(run, graft, request.base, request.finetuned)
    about = Origin(request.base_model or known.base, request.license or known.license)
    if about.license is None and about.base and hub.repository and not hub.dry_run:
        return with_license(about, published_license(about.base))
    return about
