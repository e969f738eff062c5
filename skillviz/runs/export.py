"""Export a run's graft in one of three formats with a model card, to disk and optionally to the Hugging Face Hub.

mergekit gets the base, the grafted model, and a recipe that adds their difference to the base. It reads whole models,
never sparse ones. Its task vector here is grafted minus base, which is zero outside the region. So `task_arithmetic`
with weight 1 gives the grafted model, and further models can be added to the recipe. Source: the documentation of
mergekit 0.1 (merge_methods.md, "Task Arithmetic").
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from skillviz.atomic import whole_folder, working_folder, write_file
from skillviz.core.formats import byte_size, count, counted, listed, markdown_table, number, share
from skillviz.core.gain import Gain, gain_in
from skillviz.core.graft import Graft
from skillviz.core.localizers.table import has_null
from skillviz.core.metrics import metric_row, panels
from skillviz.core.region import Region
from skillviz.errors import BadData
from skillviz.models.applied import Applied, opened_base, save_applied
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import CARD, GRAFT_FILE, card_header, hub_name, is_local, resolve
from skillviz.models.frozen_tensors import FLOAT16, published_base
from skillviz.models.heads import is_linear
from skillviz.models.load import auto_class
from skillviz.models.peft_adapter import Adapter, write_adapter
from skillviz.models.publish import publish, published_license
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.record import Scores
from skillviz.runs.run import Run
from skillviz.tasks.project import expanded
from skillviz.tasks.task import CLASSIFICATION, PIPELINES

STATES = {"pretrained": "pre-trained", "grafted": "graft", "finetuned": "fine-tuned"}


@dataclass(frozen=True)
class Origin:
    """The base's id on the hub and its license, for the card; each None if unknown."""

    base: str | None
    license: str | None


def origin(run: Run, graft: Graft, base: str | None, finetuned: str | None) -> Origin:
    """Return the base's id and license as far as this machine knows them; no request is made.

    The id is the hub's if the base was downloaded, or the one named in the fine-tuned folder. The license comes from
    the base's own card, or from the card beside a model that is stored as a difference from its base.
    """
    folders = [expanded(base or run.spec.base, "base"), expanded(finetuned or run.spec.finetuned, "finetuned")]
    first, second = (resolve(folder) if is_local(folder) else None for folder in folders)
    published = published_base(read_info(second)) if second else None
    made_for = graft.header.get("base") or {}
    name = made_for.get("id") if made_for.get("revision") else published
    known = _license(first) or (_license(second) if published else None)
    return Origin(name.partition("@")[0] if name else None, known)


def card(
    run: Run, graft: Graft, name: str, about: Origin, *, adapter: Adapter | None = None, rounded: bool = False
) -> str:
    """Return the card of a graft file or, with `adapter`, of a peft adapter; `name` is its repository or folder.

    `rounded` is True if the graft was made for the base in float16, so that other copies of the base must be rounded.
    """
    base = about.base or str((graft.header.get("base") or {}).get("id") or "the base")
    place = about.base or f"path/to/{base}"  # a folder's own path would reveal a path on the author's machine
    gain = gain_in(graft.header)
    split, scores = "", None
    if gain == run.record.gain:  # the card reports the test set if there is one
        split, scores = next(
            ((s, found) for s in ("test", "validation") if (found := run.record.metrics.get(s))), ("", None)
        )
    header = _header(run, name, about, split, scores, adapter is not None)
    task = run.record.task_name
    size, d = graft.region.size, graft.region.d
    lines = [
        "---", yaml.safe_dump(header, sort_keys=False, allow_unicode=True).strip(), "---", "",
        f"# {task}: a graft for {base}", "",
        f"{share(size / d)} of the parameters of `{base}` ({size:,} of {d:,}), with the values that fine-tuning on "
        f"`{task}` gave them{_scaled_by(gain)}. Copied into the base, they turn it into {_what(run)}.",
        *(_labels(graft) if run.record.has_classes else _options(run, graft)), *_added(graft), "",
    ]  # fmt: skip
    if scores is not None:
        lines += ["## Scores", "", *_score_lines(run, split, scores), ""]
    lines += ["## How to use it", "", *(_apply(place, name) if adapter is None else _open(place, name, graft, rounded))]
    if adapter is not None:
        lines += ["", *_exactness(adapter)]
    lines += ["", "## Provenance", "", *markdown_table(("what", "value"), _facts(run, graft)), ""]
    return "\n".join(lines)


def _license(folder: Path | None) -> str | None:
    """Return the license named in the header of a folder's card; None if there is none that can be read."""
    with suppress(BadData):
        value = (card_header(folder) or {}).get("license") if folder is not None else None
        return value if isinstance(value, str) else None
    return None


def _header(run: Run, name: str, about: Origin, split: str, scores: Scores | None, is_adapter: bool) -> dict[str, Any]:
    header: dict[str, Any] = {}
    if about.base:
        header |= {"base_model": about.base, "base_model_relation": "adapter"}
    if about.license:
        header["license"] = about.license.lower()
    header |= {
        "library_name": "peft" if is_adapter else "skillviz",
        "pipeline_tag": _pipeline(run),
        "tags": ["skillviz", "graft", "skill-localization"],
    }
    grafted = scores.states.get("grafted", {}) if scores else {}
    metrics = []
    for metric in panels(run.record.metric):
        estimate, row = grafted.get(metric), metric_row(metric)
        if estimate is not None and estimate.value is not None:
            cell = row.cell(estimate.value, estimate.low, estimate.high, estimate.debiased)
            metrics.append(
                {"type": metric, "value": round(estimate.value, 4), "name": f"{row.axis}, 95% interval: {cell}"}
            )
    if metrics:
        task = run.record.task_name
        result = {
            "task": {"type": _pipeline(run)},
            "dataset": {"name": task, "type": task, "split": split},
            "metrics": metrics,
        }
        header["model-index"] = [{"name": name.rpartition("/")[2], "results": [result]}]
    return header


def _labels(graft: Graft) -> list[str]:
    """Return lines with the classes in the order of the logits, and the prompt."""
    header = graft.header
    labels = [f"`{label}`" for label in header.get("labels") or ()]
    lines = ["", f"Classes, in order: {', '.join(labels)}."] if labels else []
    if header.get("template"):
        words = ", ".join(f"`{word.strip()}`" for word in header.get("label_words") or ())
        lines += ["", f"Prompt: `{header['template']}`. Class scores are those of the words {words}."]
    return lines


def _added(graft: Graft) -> list[str]:
    """Return lines about the tokens that fine-tuning added; none if it added none."""
    tokens = [f"`{token['content']}`" for token in (graft.header.get("vocabulary") or {}).get("tokens") or ()]
    if not tokens:
        return []
    return [
        "", f"Fine-tuning added {counted(len(tokens), 'token')}: {listed(tokens, 5)}. The graft holds what is new in "
        "the vocabulary; `apply` adds it to the base and its tokenizer.",
    ]  # fmt: skip


def _scaled_by(gain: Gain) -> str:
    """Return a phrase for the gain of the values; empty for the fine-tuned values themselves."""
    if gain == 1:
        return ""
    if isinstance(gain, Mapping):
        factors = ", ".join(f"{kind} {number(factor, 2)}" for kind, factor in gain.items())
        return f", each one's distance from the base multiplied by the gain of its module kind ({factors})"
    return f", each one's distance from the base multiplied by {number(gain, 2)}, the gain"


def _what(run: Run) -> str:
    if run.record.generates:
        return "a model that generates the answer"
    if run.record.has_reference:
        return "a language model for this task"
    return "a classifier for this task" if run.record.has_classes else "a model that chooses among the options"


def _pipeline(run: Run) -> str:
    return PIPELINES[run.record.task.kind if run.record.task else CLASSIFICATION]


def _options(run: Run, graft: Graft) -> list[str]:
    """Return lines about the prompt for an example's own options, or for its reference."""
    template, record = graft.header.get("template"), run.record
    read = "An option's score is its log-likelihood after it."
    if record.generates:
        read = "The answer is generated after it, greedily."
    elif record.has_reference:
        read = "The reference is scored by its log-likelihood after it."
    return ["", f"Prompt: `{template}`. {read}"] if template else []


def _score_lines(run: Run, split: str, scores: Scores) -> list[str]:
    metrics = [m for m in panels(run.record.metric) if any(m in row for row in scores.states.values())]
    rows = []
    for state, word in STATES.items():
        found = scores.states.get(state)
        if found:
            rows.append((word, *(_cell(found.get(metric), metric) for metric in metrics)))
    headings = ("model", *(metric_row(metric).axis for metric in metrics))
    return [
        *markdown_table(headings, rows), "",
        f"The {split} set of `{run.record.task_name}`, n = {scores.n:,}, with 95% intervals over its examples.",
        *_gain_lines(run, split), *_null_lines(run, split),
    ]  # fmt: skip


def _gain_lines(run: Run, split: str) -> list[str]:
    """Return lines with the score of the fine-tuned values themselves, if the graft has another gain."""
    if run.record.gain == 1:
        return []
    scores, metric = run.record.gains[0].at_one[split], next(iter(run.record.gains[0].at_one[split]))
    return ["", f"With the fine-tuned values themselves (gain 1) it reaches {_cell(scores[metric], metric)}."]


def _null_lines(run: Run, split: str) -> list[str]:
    """Return lines about the same search on shuffled movements; none for a localizer without a null."""
    if not has_null(run.spec.localizer):
        return []
    note = run.record.null(split)
    if note is None:
        return ["", "Beyond the null: not measured."]
    metric, beyond = next(iter(note.beyond[split].items()))
    score = _cell(note.states[split].get(run.record.metric), run.record.metric)
    difference = metric_row(metric).difference(beyond.value, beyond.low, beyond.high)
    return [
        "", f"The same search over shuffled movements ({counted(note.draws, 'draw')}) reaches {score}; the graft is "
        f"{difference} beyond it.",
    ]  # fmt: skip


def _cell(estimate: Any, metric: str) -> str:
    row = metric_row(metric)
    if estimate is None:
        return row.cell(None, None, None)
    return row.cell(estimate.value, estimate.low, estimate.high, estimate.debiased)


def _apply(base: str, name: str) -> list[str]:
    return [
        "Write the grafted model as an ordinary `from_pretrained` folder with skillviz:", "",
        "```sh", f"python -m skillviz apply --base {base} --graft {name} --out grafted-model", "```", "",
        "Or in Python:", "",
        "```python", "import skillviz", "", f'graft = skillviz.load_graft("{name}")',
        "graft.apply(model)  # a transformers model of this base", "```", "",
        "The values are copied, so the result is exact to the bit. `apply` refuses a base with other weights.",
    ]  # fmt: skip


def _open(base: str, name: str, graft: Graft, rounded: bool) -> list[str]:
    readout = str(graft.header.get("readout"))
    config = graft.header.get("config") or {}
    linear = is_linear(config.get("architecture") or ())
    opener = auto_class(readout, linear).__name__
    labels = f", num_labels={len(config.get('id2label') or ())}" if readout == "head" else ""
    dtype, after = ("float16", ".float()") if rounded else ("float32", "")
    lines = [
        "```python", "import torch", "from peft import PeftModel", f"from transformers import {opener}", "",
        f'base = {opener}.from_pretrained("{base}"{labels}, dtype=torch.{dtype}){after}',
    ]  # fmt: skip
    if config.get("pad_token_id") is not None and any(tensor.startswith("score.") for tensor in graft.head):
        lines.append(f"base.config.pad_token_id = {config['pad_token_id']}")
    lines += [f'model = PeftModel.from_pretrained(base, "{name}").eval()', "```"]
    if rounded:
        lines += ["", "The graft belongs to the base with its values rounded to float16, hence the two dtypes."]
    if linear and readout == "head":
        lines += ["", "The class scores are the logits of the first token: `model(**inputs).logits[:, 0]`."]
    return lines


def _exactness(adapter: Adapter) -> list[str]:
    lines = [
        f"This is a SHiRA adapter of rank {adapter.rank} ({byte_size(adapter.bytes)}): {adapter.sparse} sparse "
        f"matrices, {adapter.whole} modules stored whole, {adapter.biases} biases. Keep the base in float32. "
        + (
            "Every weight is then the graft's."
            if adapter.difference == 0
            else f"No weight then differs from the graft's by more than {adapter.difference:.1e}."
        )
    ]
    if adapter.biases:
        lines += ["", "Biases are written into the base itself, so `disable_adapter` leaves them as they are."]
    return lines


def _facts(run: Run, graft: Graft) -> list[tuple[str, str]]:
    record, header = run.record, graft.header
    rows = [("run", f"`{run.id}`"), ("localizer", f"{record.spec.localizer}, seed {record.spec.seed}")]
    if record.stopped:
        rows.append(("search", f"ended by a user after step {record.stopped}"))
    rows.append(("region", f"{count(graft.region.size)} of {count(graft.region.d)} graftable parameters"))
    for word in ("base", "finetuned"):
        model = header.get(word) or {}
        revision = f", revision `{model['revision']}`" if model.get("revision") else ""
        rows.append(
            (
                STATES.get(word, word),
                f"`{model.get('id')}`{revision}, sha256 of its weights `{model.get('fingerprint')}`",
            )
        )
    if record.task and record.task.fingerprint:
        rows.append(("data", f"`{record.task.name}`, sha256 `{record.task.fingerprint}`"))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in record.versions.items())))
    rows.append(("method", "Panigrahi et al., Task-Specific Skill Localization in Fine-tuned Language Models, 2023"))
    return rows


RECIPE, BASE, GRAFTED = "mergekit.yml", "base", "graft"
COMMAND = f"mergekit-yaml {RECIPE} ../merged"
ABOUT = (
    f"# Run it in this folder: {COMMAND}\n"
    "# Weight 1 gives the grafted model. Add other models of the same base to the list to merge skills.\n"
)


def write_mergekit(folder: Path, opened: Applied, graft: Graft) -> str:
    """Write the grafted model, the base and the recipe; return the base's name in the recipe.

    `opened` is the base from `opened_base`; the graft is applied to it. If the base came from the hub with the same
    tensors, the recipe names it there. Otherwise it is written too, with the graft's head and rows of added tokens, so
    that their difference is zero.
    """
    head_only = Graft(Region({}, graft.region.shapes), {}, graft.head, graft.header, graft.rows)
    head_only.apply(opened.model)
    save_applied(opened, folder / BASE)
    graft.apply(opened.model)
    save_applied(opened, folder / GRAFTED)
    name, revision = hub_name(opened.info.folder)
    base = f"./{BASE}"
    has_same_tensors = not opened.info.wrapper and opened.info.shapes == read_info(folder / BASE).shapes
    if revision is not None and not graft.rows and not opened.info.rounded and has_same_tensors:
        for file in (folder / BASE).iterdir():
            file.unlink()
        (folder / BASE).rmdir()
        base = f"{name}@{revision}"
    recipe = {
        "merge_method": "task_arithmetic",
        "base_model": base,
        "models": [{"model": f"./{GRAFTED}", "parameters": {"weight": 1.0}}],
        "parameters": {"normalize": False, "lambda": 1.0},
        "dtype": "float32",
    }
    (folder / RECIPE).write_text(ABOUT + yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return base


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
        return replace(about, license=published_license(about.base) or None)
    return about
