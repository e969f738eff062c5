"""Tests of tokens added by fine-tuning: all are found, and their rows stay in the base, the graft and the export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from skillviz.core.comparison import Comparison
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.difference import write_difference
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.pair import ModelPair, load_pair, rehearse
from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import load_tokenizer, vocabulary
from skillviz.runs.export import write_mergekit
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file
from tests.tiny import AUTO, tiny_config, tiny_tokenizer

SPARE = 16
MARKS = ("covid19", "lockdown2")


def marked(rows: int = 40) -> list[dict[str, Any]]:
    return [{"text": f"{MARKS[n % 2]} the film was a story", "label": n % 2} for n in range(rows)]


def written_vocabulary(folder: Path, change: Callable[[list[str]], Sequence[str]] = list, **files: object) -> Any:
    """Save and load a tokenizer in the old format: vocab.txt, settings, and the other given files."""
    ids = tiny_tokenizer("bert").get_vocab()
    folder.mkdir(exist_ok=True)
    words = change(sorted(ids, key=lambda token: ids[token]))
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    for name, content in {"tokenizer_config": {}, **files}.items():
        value = {**settings, **content} if name == "tokenizer_config" else content  # type: ignore[dict-item]
        (folder / f"{name}.json").write_text(json.dumps(value))
    return AutoTokenizer.from_pretrained(folder)


def spare_pair(folder: Path, tokenizer: Any = None) -> tuple[Path, Path, Any, Any]:
    """Return a pair with spare vocabulary rows, two of them used for new tokens; also the model and its tokenizer."""
    if tokenizer is None:
        tokenizer = tiny_tokenizer("bert")
        tokenizer.add_tokens(list(MARKS))
    model = bert(len(tiny_tokenizer("bert")) + SPARE)
    base = saved(folder / "base", model, tiny_tokenizer("bert"))
    fit(model, tokenizer, marked(), steps=30)
    return base, saved(folder / "tuned", model, tokenizer), model, tokenizer


def test_tokens_in_spare_rows_have_the_models_own_accuracy(tmp_path: Path) -> None:
    base, tuned, model, tokenizer = spare_pair(tmp_path)
    assert own_accuracy(model, tokenizer, marked()) == 1.0
    assert own_accuracy(model, tiny_tokenizer("bert"), marked()) < 0.7
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == 1.0
    check = preflight(base, tuned)
    number = len(tiny_tokenizer("bert"))
    assert check.tokenizer_folder == tuned and check.added_rows == (number, number + 1)
    (said,) = [note for note in result.notes if "added tokens ('covid19' and 'lockdown2')" in note]
    assert said in check.notes and "2 rows that the base has spare" in said and "also in 'pretrained'" in said
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.SAME


def with_added_tokens_json(folder: Path) -> Any:
    ids = len(tiny_tokenizer("bert"))
    return written_vocabulary(folder, added_tokens={mark: ids + number for number, mark in enumerate(MARKS)})


def with_added_tokens_decoder(folder: Path) -> Any:
    flags = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False, "special": False}
    ids = len(tiny_tokenizer("bert"))
    decoder = {str(ids + number): {"content": mark, **flags} for number, mark in enumerate(MARKS)}
    return written_vocabulary(folder, tokenizer_config={"added_tokens_decoder": decoder})


def with_special_tokens_map(folder: Path) -> Any:
    return written_vocabulary(folder, special_tokens_map={"additional_special_tokens": list(MARKS)})


def with_longer_vocabulary(folder: Path) -> Any:
    return written_vocabulary(folder, lambda words: [*words, *MARKS])


PLACES = {
    "added_tokens.json": with_added_tokens_json,
    "added_tokens_decoder": with_added_tokens_decoder,
    "special_tokens_map.json": with_special_tokens_map,
    "vocab.txt": with_longer_vocabulary,
}


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("is_resized", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_added_tokens_are_seen_in_every_file_that_names_them(tmp_path: Path, place: str, is_resized: bool) -> None:
    base_tokenizer = written_vocabulary(tmp_path / "base")
    tokenizer = PLACES[place](tmp_path / "tuned")
    assert vocabulary(tmp_path / "tuned") == tokenizer.get_vocab()
    model = bert(len(base_tokenizer) + (0 if is_resized else SPARE))
    base = saved(tmp_path / "base", model)
    if is_resized:
        model.resize_token_embeddings(len(tokenizer))
    fit(model, tokenizer, marked(), steps=30)
    tuned = saved(tmp_path / "tuned", model)
    assert own_accuracy(model, tokenizer, marked()) == 1.0
    rehearse(preflight(base, tuned))
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == 1.0 and any("Fine-tuning added tokens" in note for note in result.notes)


def renamed(words: list[str]) -> list[str]:
    """Return the words with two unused tokens renamed."""
    return [MARKS[int(word[7])] if word.startswith("[unused") else word for word in words]


def unused(words: list[str]) -> list[str]:
    return [*words, "[unused0]", "[unused1]"]


def test_unused_tokens_that_became_words(tmp_path: Path) -> None:
    written_vocabulary(tmp_path / "base", unused)
    tokenizer = written_vocabulary(tmp_path / "tuned", lambda words: renamed(unused(words)))
    model = bert(len(tokenizer))
    base = saved(tmp_path / "base", model)
    fit(model, tokenizer, marked(), steps=30)
    tuned = saved(tmp_path / "tuned", model)
    assert evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))[0] == 1.0
    pair = load_pair(base, tuned)
    with pytest.raises(BadInput, match="its tokenizer is not the base's with tokens added"):
        pair.graft(Region.full(pair.table.shapes))


def test_words_that_became_others_are_another_tokenizer(tmp_path: Path) -> None:
    written_vocabulary(tmp_path / "base")
    swap = {"film": MARKS[0], "story": MARKS[1]}
    tokenizer = written_vocabulary(tmp_path / "tuned", lambda words: [swap.get(word, word) for word in words])
    model = bert(len(tokenizer))
    base = saved(tmp_path / "base", model)
    fit(model, tokenizer, marked(), steps=5)
    check = preflight(base, saved(tmp_path / "tuned", model))
    assert check.fits and check.tokenizer_folder == base and check.added_rows == ()
    (said,) = [note for note in check.notes if "two tokenizers differ" in note]
    assert "2 tokens that only the base's has, 2 tokens that only the fine-tuned model's has" in said
    assert "fine-tuned scores here are not that model's own" in said


def test_tokens_without_a_row_are_not_used_and_said(tmp_path: Path) -> None:
    """A padding token is only in the tokenizer, so no model can read it."""
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), marked(), steps=5)
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<pad2>"]})
    tuned = saved(tmp_path / "tuned", model, tokenizer)
    check, _ = rehearse(preflight(base, tuned))
    assert check.tokenizer_folder == base
    assert any("has 1 token more ('<pad2>'), and the models have no rows" in note for note in check.notes)


def moved_pair(
    folder: Path, family: str, readout: str, rows_after: int | None = None, still: str = "none"
) -> tuple[Path, Path, int]:
    """Return a random pair with spare rows; all tensors moved but `still`, and the second model has one more token."""
    tokenizer = tiny_tokenizer(family)
    number = len(tokenizer)
    torch.manual_seed(0)
    model = AUTO[readout].from_config(tiny_config(family, number + SPARE)).eval()
    base = saved(folder / "base", model, tokenizer)
    with torch.no_grad():
        for parameter in (p for name, p in model.named_parameters() if still not in name):
            parameter.add_(0.05 * torch.randn_like(parameter))
    if rows_after is not None:
        model.resize_token_embeddings(number + rows_after, mean_resizing=False)
    tokenizer.add_tokens(["[added]"])
    return base, saved(folder / "tuned", model, tokenizer), number


def own_logits(model: Any, ids: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(**ids).logits


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("family", "readout", "rows_after"),
    [
        ("gpt_neox", "causal", None),  # it has a separate output matrix
        ("bert", "prompt", None),  # it has a bias for each token
        ("llama", "head", None),
        ("gpt2", "causal", 1),  # resized to the tokenizer, so the base has more rows
        ("opt", "causal", SPARE + 8),  # padded to more rows
    ],
)
def test_a_graft_brings_the_spare_rows(tmp_path: Path, family: str, readout: str, rows_after: int | None) -> None:
    base, tuned, number = moved_pair(tmp_path, family, readout, rows_after)
    pair = load_pair(base, tuned, readout=readout)
    assert pair.added_rows == (number,)
    ids = pair.tokenizer("a [added] film", return_tensors="pt")
    assert number in ids["input_ids"]
    stored = load_model(tuned, readout).model
    with pair.at("finetuned"):
        assert torch.equal(own_logits(pair.model, ids)[..., :number], own_logits(stored, ids)[..., :number])
    region = Region.from_flat(np.arange(0, pair.d, 7), pair.table.shapes)
    with pair.at("grafted", region):
        wanted = own_logits(pair.model, ids)
    pair.graft(region).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    assert graft.header["vocabulary"]["numbers"] == [number]
    result = applied(base, graft)
    assert torch.equal(own_logits(result.model, ids), wanted)
    assert result.tokenizer("a [added] film")["input_ids"] == ids["input_ids"][0].tolist()
    save_applied(result, tmp_path / "out")
    again = load_pair(base, tmp_path / "out", readout=readout, is_graft=True)
    with again.at("finetuned"):
        assert torch.equal(own_logits(again.model, ids), wanted)
    plain = dict(load_model(base, readout).model.named_parameters())
    for name, rows in graft.rows.items():
        assert not torch.equal(rows[0], plain[name][number]), "the base's own row would do, so this tests nothing"


def test_the_mergekit_folder_has_the_spare_rows_in_both(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt_neox", "causal")
    pair = load_pair(base, tuned, readout="causal")
    graft = pair.graft(Region.from_flat(np.arange(0, pair.d, 7), pair.table.shapes))
    write_mergekit(tmp_path / "merge", opened_base(base, graft), graft)
    start, end = (load_model(tmp_path / "merge" / name, "causal").model.state_dict() for name in ("base", "graft"))
    assert all(torch.equal(start[name][number], end[name][number]) for name in graft.rows)
    assert all(torch.equal(end[name][number], rows[0]) for name, rows in graft.rows.items())


def test_a_run_on_spare_rows_is_its_exported_graft(tmp_path: Path) -> None:
    base, tuned, _, _ = spare_pair(tmp_path)
    task = task_file(tmp_path / "t", marked(), marked())
    pair: ModelPair = load_pair(base, tuned, task=task)
    graft = pair.graft(Region.full(pair.table.shapes))
    save_applied(applied(base, graft), tmp_path / "out")
    scores = evaluated(base, tmp_path / "out", task)[1].scores["test"]
    wanted = evaluated(base, tuned, task)[1].scores["test"]
    assert scores.states["pretrained"] == wanted.states["pretrained"]


def test_lean_mode_refuses_spare_rows(tmp_path: Path) -> None:
    base, tuned, _ = moved_pair(tmp_path, "llama", "causal")
    with pytest.raises(BadInput, match="added tokens in vocabulary rows that the base has spare"):
        load_lean(base, tuned, readout="causal")


def test_a_difference_takes_the_tokenizer_with_it(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt2", "causal", still="ln_f")
    write_difference(str(base), str(tuned), tmp_path / "difference")
    check = preflight(base, tmp_path / "difference", readout="causal")
    assert check.fits and check.added_rows == (number,)
    for file in base.glob("tokenizer*"):
        shutil.copy(file, tuned / file.name)
    write_difference(str(base), str(tuned), tmp_path / "same")
    assert not list((tmp_path / "same").glob("tokenizer*")), "the base has the same one"


def test_a_token_beside_rows_that_are_missing_is_refused(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt2", "causal", rows_after=1)
    tokenizer = load_tokenizer(tuned)
    tokenizer.add_tokens(["[more]"])
    tokenizer.save_pretrained(tuned)
    with pytest.raises(PairMismatch):
        preflight(base, tuned, readout="causal").raise_first()


@pytest.mark.nightly
def test_an_adapter_that_trained_the_rows_of_its_tokens(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model  # heavy

    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_tokens(list(MARKS))
    rows = [len(tokenizer) - 2, len(tokenizer) - 1]
    model = bert(len(tokenizer) + SPARE)
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    tuned = get_peft_model(
        model, LoraConfig(task_type="SEQ_CLS", r=8, trainable_token_indices={"word_embeddings": rows})
    )
    fit(tuned, tokenizer, marked(), steps=40, rate=1e-2)
    saved(tmp_path / "adapter", tuned, tokenizer)
    assert own_accuracy(tuned, tokenizer, marked()) == 1.0
    accuracy, result = evaluated(base, tmp_path / "adapter", task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == 1.0 and any("2 rows that the base has spare" in note for note in result.notes)
    assert load_pair(base, tmp_path / "adapter").added_rows == tuple(rows)
