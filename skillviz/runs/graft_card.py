"""The model card of a published graft: a YAML header for the Hugging Face Hub, and the information needed to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from skillviz.core.formats import byte_size, count, counted, listed, markdown_table, number, share
from skillviz.core.gain import Gain, gain_in
from skillviz.core.graft import Graft
from skillviz.core.localizers.table import has_null
from skillviz.core.metrics import metric_row, panels
from skillviz.errors import BadInput
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import is_local, resolve
from skillviz.models.frozen_tensors import published_base
from skillviz.models.heads import is_linear
from skillviz.models.load import auto_class
from skillviz.models.peft_adapter import Adapter
from skillviz.regular_file import read_text
from skillviz.runs.record import Scores
from skillviz.runs.run import Run
from skillviz.tasks.project import expanded
from skillviz.tasks.task import CLASSIFICATION, PIPELINES
from skillviz.tasks.yaml_files import parsed

CARD = "README.md"
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
    split, scores = _scored(run) if gain == run.record.gain else ("", None)
    header = _header(run, name, about, split, scores, adapter is not None)
    task = run.record.task_name
    size, d = graft.region.size, graft.region.d
    lines = [
        "---", yaml.safe_dump(header, sort_keys=False, allow_unicode=True).strip(), "---", "",
        f"# {task}: a graft for {base}", "",
        f"{share(size / d)} of the parameters of `{base}` ({size:,} of {d:,}), with the values that fine-tuning on "
        f"`{task}` gave them{_by(gain)}. Copied into the base, they turn it into {_what(run)}.",
        *(_labels(graft) if run.record.has_classes else _options(run, graft)), *_added(graft), "",
    ]  # fmt: skip
    if scores is not None:
        lines += ["## Scores", "", *_score_lines(run, split, scores), ""]
    lines += ["## How to use it", "", *(_apply(place, name) if adapter is None else _open(place, name, graft, rounded))]
    if adapter is not None:
        lines += ["", *_exactness(adapter)]
    lines += ["", "## Provenance", "", *markdown_table(("what", "value"), _facts(run, graft)), ""]
    return "\n".join(lines)


def with_license(about: Origin, licence: str | None) -> Origin:
    """Return the same origin with this license if none was known."""
    return about if about.license or not licence else replace(about, license=licence)


def _license(folder: Path | None) -> str | None:
    """Return the license named in the header of a folder's card; None if it cannot be read for any reason."""
    if folder is None or not (folder / CARD).is_file():
        return None
    try:
        parts = read_text(folder / CARD).split("---\n", 2)
        header = parsed(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except (BadInput, OSError, ValueError, yaml.YAMLError):
        return None
    value = header.get("license") if isinstance(header, Mapping) else None
    return value if isinstance(value, str) else None


def _scored(run: Run) -> tuple[str, Scores | None]:
    """Return the split that a card reports (test if there is one) and its scores."""
    for split in ("test", "validation"):
        if found := run.record.metrics.get(split):
            return split, found
    return "", None


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


def _by(gain: Gain) -> str:
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
