"""Write docs/research/roberta.md: every experiment of the paper on RoBERTa-base, its command, and its needs.

`python docs/research/roberta.py`. Nothing is fetched and no model is run: the numbers are the same as with
`--dry-run`, from headers of RoBERTa-base's shape without weights and the published row counts of the tasks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

import torch
from tokenizers import Tokenizer, models
from transformers import RobertaConfig, RobertaForMaskedLM

from skillviz.core import formats
from skillviz.runs.store import Store
from skillviz.studies.needs import Needs, needs
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import study_of
from skillviz.studies.spec import ExperimentRequest

PAGE, WORDS = PROJECT / "docs" / "research" / "roberta.md", PROJECT / "docs" / "research" / "roberta_words.md"
TABLE = "<!-- table -->"
COMMAND = "python -m skillviz reproduce {} --scale paper"
COLUMNS = ("experiment", "command", "models", "runs", "scores", "GPU memory", "main memory", "disk")


def headers(folder: Path) -> Path:
    """A folder with RoBERTa-base's configuration and the header of its weights; the values are a hole in the file."""
    config = RobertaConfig(
        vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, layer_norm_eps=1e-5, architectures=["RobertaForMaskedLM"],
    )  # fmt: skip
    with torch.device("meta"):
        parameters = dict(RobertaForMaskedLM(config).named_parameters())  # tied parameters appear once
    entries, end = {}, 0
    for name, parameter in parameters.items():
        begin, end = end, end + 4 * parameter.numel()
        entries[name] = {"dtype": "F32", "shape": list(parameter.shape), "data_offsets": [begin, end]}
    folder.mkdir()
    config.save_pretrained(folder)
    Tokenizer(models.BPE({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}, [])).save(
        str(folder / "tokenizer.json")
    )
    text = json.dumps(entries).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return folder


def planned(name: str, base: Path) -> Needs:
    """Return the needs of an experiment on this base, with nothing finished."""
    store = Store(base.parent / "runs")
    return needs(study_of(ExperimentRequest(name, "paper", base=str(base)), store)[2], store)


def page() -> str:
    """Return the page: its words, with the table in its place."""
    with TemporaryDirectory() as folder:
        base = headers(Path(folder) / "roberta-base")
        plans = {name: planned(name, base) for name in EXPERIMENTS}
    rows = [
        [
            EXPERIMENTS[name].title.partition(":")[0], f"`{COMMAND.format(name)}`", str(one.models), str(one.runs),
            str(one.scores), formats.byte_size(one.device),
            formats.byte_size(one.host["cuda"]), formats.byte_size(one.disk),
        ]
        for name, one in plans.items()
    ]  # fmt: skip
    table = "\n".join(formats.markdown_table(COLUMNS, rows))
    return WORDS.read_text(encoding="utf-8").replace(TABLE, table)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
