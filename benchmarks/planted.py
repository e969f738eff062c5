"""Measure whether localizers find a planted skill: fine-tunes with a known true region, by place, maker and distractor.

    python -m benchmarks planted [--localizer NAME] [--seed 0] [--encoder small] [--work FOLDER] [--tables]

A small encoder, trained on movie reviews, learns to separate objective from subjective sentences in a region alone
(skillviz.planted), and movement without this skill is put around it. Each row of results/planted.csv is a planted
model, a localizer and a size; each row of results/planted_models.csv is a planted model. Existing rows are not made
again, so an interrupted run resumes. docs/research/known-truth.md has the tables.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import typer
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from benchmarks.frame import RESULTS, ROOT, Rows, fill, measure
from benchmarks.localizer import searched
from skillviz.analysis import known_truth
from skillviz.analysis.known_truth import ALONE, CELL, DISTRACTORS, EVERYWHERE, KEEPS, SKILL, SMALL
from skillviz.core.encoded import Encoded
from skillviz.core.formats import markdown_table, number, percent
from skillviz.core.localizers.table import localizer
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.models.finetune.region_lock import union
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.planted import (
    PLACES,
    elsewhere,
    place,
    plant,
    recovery,
    table_of,
    with_random_movement,
    with_skill_of,
    without,
)
from skillviz.show import known_truth as exhibits
from skillviz.tasks import registry
from skillviz.tasks.splits import load

PAGE, COMMAND = ROOT / "docs" / "research" / "known-truth.md", "python -m benchmarks planted"
MINILM = ROOT / "examples" / "models" / "minilm-l6"
FIRST, TASK, OTHER = (ROOT / "examples" / "tasks" / f"{name}.yaml" for name in ("mr", "subj", "cr"))
"""The task that the small base is trained on, the task of the planted skill, and the task of the distractor."""
LOCALIZERS = ("stagewise", "movement", "random", "linearized")
SEEDS = (0, 1, 2)
FACTORS = (1.0, 0.3, 3.0)
"""Sizes of the searched regions, as multiples of the true one's; the most decisive is first."""
MOVED = {"random 1×": 1.0, "random 3×": 3.0}
OTHER_SHARE = 0.03
"""The share of entries in which the other task's skill is planted."""
DATA = DataSettings(max_train=4000, max_validation=200)
MOST_TEST = 600
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS, WIDTH, LAYERS, TOKENS = 5000, 64, 2, 32
"""Settings of the small encoder: tokens of its vocabulary, width, layers, longest input."""
HEAD_START = 3.0
"""The factor of the initial weights of the small encoder's head, so that a step does not move only the head."""


class Cell(NamedTuple):
    """The key of a planted model."""

    encoder: str
    place: str
    maker: str
    distractor: str
    seed: int


def small_base(out: Path) -> Path:
    """Return a BERT of two layers with the largest principal components of MiniLM's word vectors, trained on FIRST."""
    if out.is_dir():
        return out
    start, texts = (
        out.with_name(f"{out.name}-random"),
        [text for task in (FIRST, TASK, OTHER) for text in load(registry.task(task)).train["text_a"]],
    )
    tokenizer, kept = _vocabulary(texts)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=TOKENS, **{f"{t[1:-1].lower()}_token": t for t in SPECIAL}
    ).save_pretrained(start)
    torch.manual_seed(0)
    deviation = WIDTH**-0.5
    config = BertConfig(
        vocab_size=len(kept), hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=4,
        intermediate_size=4 * WIDTH, max_position_embeddings=TOKENS, initializer_range=deviation,
    )  # fmt: skip
    model = BertForTokenClassification(config)
    vectors = load_file(MINILM / "model.safetensors")["embeddings.word_embeddings.weight"][kept].float()
    left, sizes, _ = torch.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    components = left[:, :WIDTH] * sizes[:WIDTH]
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.copy_(2 * deviation * components / components.std())
        model.classifier.weight.mul_(HEAD_START)
    model.save_pretrained(start)
    recipe = TrainingConfig(recipe="adamw", head="linear", steps=500, lr=1e-3, batch_size=16)
    finetune(str(start), [registry.task(FIRST)], recipe, DATA, out=out, device="cpu")
    shutil.rmtree(start)
    return out


def _vocabulary(texts: Sequence[str]) -> tuple[Tokenizer, np.ndarray]:
    """Return a tokenizer of MiniLM's WORDS most frequent tokens, and their numbers there."""
    old = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    old.no_padding()
    old.no_truncation()
    counts = np.zeros(old.get_vocab_size(), dtype=np.int64)
    for encoding in old.encode_batch(list(texts)):
        np.add.at(counts, encoding.ids, 1)
    special = [old.token_to_id(token) for token in SPECIAL]
    counts[special] = 0
    kept = np.array([*special, *np.argsort(-counts, kind="stable")[: WORDS - len(special)]])
    words = {old.id_to_token(int(one)): number for number, one in enumerate(kept)}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    ends = [(token, words[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer, kept


class Encoder(NamedTuple):
    """An encoder's cells (place, maker, distractor), the steps of training, and its learning rates by maker.

    `rates` are those of planting in a region, `unplanted_rates` those of training all graftable parameters.
    """

    cells: tuple[tuple[str, str, str], ...]
    steps: int
    rates: dict[str, float]
    unplanted_rates: dict[str, float]


ENCODERS = {
    SMALL: Encoder(
        tuple(itertools.product(PLACES, ("sgd", "adamw"), DISTRACTORS)), 600, {"sgd": 0.3, "adamw": 0.03},
        {"sgd": 0.1, "adamw": 0.001},
    ),
    MINILM.name: Encoder(
        (("scattered 0.5%", "sgd", "random 1×"), ("one layer's values", "adamw", "random 3×"),
         ("two heads", "sgd", SKILL)),
        1500, {"sgd": 0.3, "adamw": 0.003}, {"sgd": 0.04, "adamw": 2e-5},
    ),
}  # fmt: skip


class Workshop:
    """An encoder's models, made if the work folder lacks them, and the examples for search and scoring."""

    def __init__(self, encoder: str, work: Path) -> None:
        self.encoder, self.settings, self.work = encoder, ENCODERS[encoder], work / encoder
        self.base = small_base(self.work / "base") if encoder == SMALL else MINILM
        self.task = registry.task(TASK)

    @cached_property
    def table(self) -> ParameterTable:
        """The base's graftable parameters."""
        return table_of(self.base, self.task, "linear")

    @cached_property
    def encoded(self) -> dict[str, Encoded]:
        """The training and test examples."""
        splits, pair = load(self.task, max_train=DATA.max_train, max_test=MOST_TEST), self.unplanted("sgd", 0)
        return {"train": pair.encode(self.task, splits.train), "test": pair.encode(self.task, splits.test)}

    def unplanted(self, maker: str, seed: int) -> ModelPair:
        """Return the pair with all graftable parameters trained."""
        out = self.work / f"{EVERYWHERE}-{maker}-{seed}"
        if not out.is_dir():
            finetune(
                str(self.base), [self.task],
                TrainingConfig(recipe=maker, lr=self.settings.unplanted_rates[maker], **self._training(seed)), DATA,
                out=out, device="cpu",
            )  # fmt: skip
        return load_pair(self.base, out, task=self.task, device="cpu")

    def _training(self, seed: int) -> dict[str, Any]:
        return {"head": "linear", "steps": self.settings.steps, "batch_size": 16, "seed": seed}

    def _skill(self, name: str, task: Path, region: Region, maker: str, seed: int) -> ModelPair:
        out = self.work / f"{name}-{maker}-{seed}".replace(" ", "-")
        if out.is_dir():
            return load_pair(self.base, out, task=task, device="cpu")
        rate = self.settings.rates[maker]
        return plant(
            self.base, registry.task(task), region, out, maker=maker, lr=rate, data=DATA, **self._training(seed)
        )

    def planted(self, cell: Cell) -> tuple[ModelPair, Region]:
        """Return the pair of a cell and its true region."""
        true = place(cell.place, self.table, cell.seed)
        pair = self._skill(cell.place, TASK, true, cell.maker, cell.seed)
        if cell.distractor in MOVED:
            return with_random_movement(pair, true, MOVED[cell.distractor], cell.seed), true
        if cell.distractor == SKILL:
            region = other_region(self.table, cell.seed)
            return with_skill_of(pair, self._skill(SKILL, OTHER, region, cell.maker, cell.seed)), true
        return pair, true

    def accuracy(self, pair: ModelPair, state: str, region: Region | None = None) -> float:
        """Return the accuracy of the pair in a state, on the test examples."""
        encoded = self.encoded["test"]
        return round(float((predict(pair, encoded, state, region).argmax(axis=1) == encoded.labels).mean()), 4)

    def model_rows(self, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
        """Yield the unplanted model of each maker and seed among the cells, then one row per cell."""
        gains: dict[tuple[str, int], float] = {}
        unplanted = [Cell(self.encoder, EVERYWHERE, maker, ALONE, seed) for _, _, maker, _, seed in cells]
        for cell in (*dict.fromkeys(unplanted), *cells):
            of_maker, is_planted = (cell.maker, cell.seed), cell.place != EVERYWHERE
            pair, true = self.planted(cell) if is_planted else (self.unplanted(*of_maker), None)
            base, whole = (self.accuracy(pair, state) for state in ("pretrained", "finetuned"))
            gain = gains.setdefault(of_maker, whole - base)
            graft = whole if true is None else self.accuracy(pair, "grafted", true)
            kept = 1.0 if true is None else (graft - base) / gain if gain > 0 else float("nan")
            yield {
                **cell._asdict(), "size": pair.d if true is None else true.size,
                "moved": int((pair.finetuned != pair.base).sum()), "base": base, "true_region": graft, "whole": whole,
                "kept": round(kept, 4), "counts": is_planted and bool(kept >= KEEPS),
            }  # fmt: skip

    def search_row(self, cell: Cell, name: str, factor: float) -> list[dict[str, object]]:
        """Return a localizer's row in a cell, at a multiple of the true size.

        It has the recovery of the true region, the graft's accuracy, and the accuracies of its true and its false
        entries alone. `kept_out` is the accuracy of a search that cannot use the true region; if nothing else moved,
        its graft has no effect.
        """
        pair, true = self.planted(cell)
        size = min(max(1, round(factor * true.size)), pair.d)
        region = self._found(pair, name, size, cell.seed)
        barred = without(pair, true)
        kept_out = self._found(barred, name, size, cell.seed) if (barred.finetuned != barred.base).any() else true
        found = recovery(region, true, (pair.finetuned - pair.base).numpy())
        return [{
            **cell._asdict(), "localizer": name, "factor": factor, "size": region.size,
            **{column: round(value, 4) for column, value in found._asdict().items()},
            "graft": self.accuracy(pair, "grafted", region),
            "true_part": self.accuracy(pair, "grafted", region & true),
            "false_part": self.accuracy(pair, "grafted", region - true),
            "kept_out": self.accuracy(barred, "grafted", kept_out),
        }]  # fmt: skip

    def _found(self, pair: ModelPair, name: str, size: int, seed: int) -> Region:
        row = localizer(name)
        order, _ = searched(row, pair.problem(self.encoded["train"]), size, seed, row.make_options({}))
        return Region.from_flat(np.sort(order), pair.table.shapes)


def other_region(table: ParameterTable, seed: int) -> Region:
    """Return entries outside every place of this seed, so that one other skill serves all of them."""
    taken = union(place(name, table, seed) for name in PLACES)
    return elsewhere(taken, seed, round(OTHER_SHARE * table.d))


def run(
    work: Path, results: Path, encoder: str, seeds: Sequence[int], names: Sequence[str],
    factors: Sequence[float] = FACTORS,
) -> None:  # fmt: skip
    """Make the models of each seed, then the rows of its cells that count; existing rows are not made again.

    Cells without a distractor are last, because they have no other movement to find.
    """
    made = Rows(results / "planted_models.csv", CELL)
    found = Rows(results / "planted.csv", [*CELL, "localizer", "factor"])
    shop = Workshop(encoder, work)
    for seed in seeds:
        cells = [Cell(encoder, *cell, seed) for cell in shop.settings.cells]
        if not all(made.has(cell._asdict()) for cell in cells):
            made.add(*(row for row in shop.model_rows(cells) if not made.has(row)))
        counts = {made.key_of(row) for row in made.rows if str(row["counts"]) == "True"}
        counted = [cell for cell in cells if made.key_of(cell._asdict()) in counts]
        searches = itertools.product(factors, names, sorted(counted, key=lambda cell: cell.distractor == ALONE))
        measure(found, (
            ({**cell._asdict(), "localizer": name, "factor": factor}, partial(shop.search_row, cell, name, factor))
            for factor, name, cell in searches
        ))  # fmt: skip


def board(rows: pd.DataFrame, made: pd.DataFrame) -> list[str]:
    """Return the board by encoder, distractor, size and localizer, over the models that count."""
    found = known_truth.board(rows, made)
    found = found.assign(order=found["distractor"].map(DISTRACTORS.index))
    found = found.sort_values(["encoder", "order", "factor"], kind="stable")
    shown = exhibits.table(found)
    keys = zip(found["encoder"], found["distractor"], found["factor"], shown.to_numpy().tolist(), strict=True)
    lines = [[encoder, distractor, f"{factor:g}×", *cells] for encoder, distractor, factor, cells in keys]
    return markdown_table(("encoder", "distractor", "size", *shown.columns), lines)


def models_table(made: pd.DataFrame) -> list[str]:
    """Return one row per planted model: its movement, its accuracies in percent, and the kept share of the gain."""
    head = ("encoder", "place", "maker", "distractor", "seed", "true entries", "moved", "base", "true region",
            "whole model", "gain kept", "counts")  # fmt: skip
    return markdown_table(
        head,
        (
            [row["encoder"], row["place"], row["maker"], row["distractor"], str(row["seed"]), f"{row['size']:,}",
             f"{row['moved']:,}", *(number(100 * row[name], 1) for name in ("base", "true_region", "whole")),
             percent(row["kept"], 0), "" if row["place"] == EVERYWHERE else "yes" if row["counts"] else "no"]
            for row in made.to_dict("records")
        ),
    )  # fmt: skip


def write() -> None:
    """Put the tables into the page."""
    rows, made = known_truth.searches(), known_truth.models()
    fill(PAGE, {"board": board(rows, made), "models": models_table(made)}, COMMAND)


def main(
    names: Annotated[
        list[str] | None, typer.Option("--localizer", metavar="NAME", help="Only this localizer; repeatable.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(min=0, help="Only this seed; repeatable.")] = None,
    encoder: Annotated[str, typer.Option(metavar="|".join(ENCODERS), help="The base.")] = SMALL,
    work: Annotated[Path, typer.Option(help="Folder of the models. Missing ones are made.")] = Path("models/planted"),
    results: Annotated[
        Path, typer.Option(help="Folder of the rows. With another one, docs/research/known-truth.md does not change.")
    ] = RESULTS,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the tables.")] = False,
) -> None:
    """Plant skills in known regions, search them with localizers, and write docs/research/known-truth.md's tables."""
    if not tables:
        run(work, results, encoder, seed or SEEDS, [localizer(name).name for name in names or LOCALIZERS])
    if results.resolve() == RESULTS:
        write()
