"""A fine-tuned model stored as its difference from its published base, in a folder small enough to share.

The values are rounded to float16. Tensors equal to the base's (`frozen_tensors`) and unchanged rows of embeddings are
omitted. The card names the base, its license and its fingerprint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillviz.atomic import whole_folder
from skillviz.core.comparison import Comparison
from skillviz.core.formats import byte_size, counted
from skillviz.models.checkpoint import SINGLE, read_info
from skillviz.models.fetch import CARD, resolve
from skillviz.models.frozen_tensors import FLOAT16, check_single, strip
from skillviz.models.preflight import Preflight, as_loaded, preflight
from skillviz.models.tokenizer import BESIDE, FILES, has_tokenizer

KEPT = ("config.json", SINGLE, CARD, "finetune.json")


@dataclass(frozen=True)
class Difference:
    """The result of writing a difference: numbers of tensors stored and omitted, and bytes of the weights.

    `rows` is the number of changed rows of each matrix for which only these are stored.
    """

    kept: int
    left_out: int
    bytes: int
    rows: Mapping[str, int]


def write_difference(
    base: str, finetuned: str, out: Path, *, hub: str | None = None, licence: str | None = None, replace: bool = False
) -> Difference:
    """Write the fine-tuned model as a float16 difference from its base.

    `hub` is the published base (`org/name`), for users without a copy; `licence` is the base's, by its SPDX name.
    Raises the errors of `preflight`, and BadInput if nothing equals the base or a value is outside the range of
    float16.
    """
    check = as_loaded(preflight(base, finetuned))
    check_single(check.finetuned)
    half_base, _ = check.base.read_as_float16(), check.finetuned.read_as_float16()  # raises before a draft exists
    source = resolve(finetuned)
    with whole_folder(out, replace=replace) as draft:
        for name in (*KEPT, *_tokenizer_files(check)):
            if (source / name).is_file():
                shutil.copyfile(source / name, draft / name)
        stripped = strip(draft, base, FLOAT16, hub, name=check.finetuned.id)
        info = read_info(draft)
        size = (draft / SINGLE).stat().st_size
        kept = len(info.tensors) - 2 * len(stripped.rows)  # the changed rows are two tensors of the file
        done = Difference(kept, len(stripped.names), size, stripped.rows)
        fingerprint = half_base.fingerprint
        own = (draft / CARD).read_text(encoding="utf-8") if (draft / CARD).is_file() else ""
        card = _card(out.name, hub or check.base.id, licence, fingerprint, done, own)
        (draft / CARD).write_text(card, encoding="utf-8")
    return done


def _tokenizer_files(check: Preflight) -> set[str]:
    """Return the names of the tokenizer's files; empty if the base's tokenizer is the same."""
    found = check.tokenizers
    is_same = found is not None and found.result is Comparison.SAME and not found.added and not found.cuts
    if is_same or not has_tokenizer(check.finetuned.folder):
        return set()
    return {name for names in (*FILES, BESIDE) for name in names}


def _card(name: str, base: str, licence: str | None, fingerprint: str, done: Difference, own: str) -> str:
    header = {"base_model": base, "base_model_relation": "finetune", "tags": ["skillviz"]}
    if licence:
        header["license"] = licence.lower()
    licensed = f" Both are under the base's licence, {licence}." if licence else ""
    rows = "".join(f", and the {counted(count, 'changed row')} of `{name}`" for name, count in done.rows.items())
    lines = [
        "---",
        *(f"{key}: {json.dumps(value)}" for key, value in header.items()),
        "---",
        "",
        f"# {name}: what fine-tuning changed in {base}",
        "",
        f"This folder holds {counted(done.kept, 'tensor')} of the fine-tuned model as {FLOAT16} "
        f"({byte_size(done.bytes)}){rows}. The {counted(done.left_out, 'other tensor')} equal those of "
        f"`{base}`, rounded to {FLOAT16}, and are taken from there.{licensed}",
        "",
        "The rounded values are the model: results stored for this pair were made from them.",
        "",
        f"Fingerprint of the base (sha256 of its values as {FLOAT16}): `{fingerprint}`. Any other base is refused.",
        "",
        "Open it with skillviz:",
        "",
        "```",
        f"python -m skillviz preflight --base {base} --finetuned {name}",
        "```",
        "",
    ]
    if own:
        body = own.split("---", 2)[-1].strip() if own.startswith("---") else own.strip()
        lines += [
            "What follows is the card of the model before rounding; its scores are those of the unrounded values.",
            "",
            body.replace("# ", "## ", 1) if body.startswith("# ") else body,
            "",
        ]
    return "\n".join(lines)
