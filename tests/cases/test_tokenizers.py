"""Tests of tokenizers: of a pair, the same, different or unknown; tokens added by fine-tuning, whose rows stay in the
base, the graft and the export; and what a model is given of a text, from special tokens to its length."""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForSequenceClassification, AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from skillviz.core.architectures import FAMILIES
from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded, encoding_notes
from skillviz.core.readout import HeadReadout
from skillviz.errors import BadInput, CorruptFile, PairMismatch
from skillviz.live.operations import attribute
from skillviz.live.request import PairRequest, Worker
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.difference import write_difference
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.tokenizer import (
    fit_together,
    has_tokenizer,
    load_tokenizer,
    most_tokens,
    places,
    vocabulary,
    words_problem,
)
from skillviz.models.tokenizer_comparison import compared_as_loaded, compared_by_files
from skillviz.runs.export import write_mergekit
from skillviz.show import attribution as shown
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from skillviz.tasks.user_file import read_task
from tests.cases.build import (
    AUTO,
    LABEL_WORDS,
    NEUTRAL,
    POSITIONS,
    Comparison,
    Graft,
    Region,
    RunSpec,
    Store,
    bert,
    by_hand,
    change_config,
    change_json,
    differing,
    drop_tokenizer,
    evaluate,
    evaluated,
    fit,
    fitted_pair,
    load_lean,
    load_model,
    load_pair,
    own_accuracy,
    preflight,
    produce,
    refuses,
    rehearse,
    saved,
    task_file,
    tiny_config,
    tiny_pair,
    tiny_rows,
    tiny_task,
    tiny_tokenizer,
)
from tests.tasks.make import frame, made, read, tokenizer
from tests.test_torch_free import heavy_after
from tests.tiers import first
from tests.tiny_families import family_model, family_pair

SPARE = 16
MARKS = ("covid19", "lockdown2")
Change = Callable[[Path], object]


IDS = tiny_tokenizer("bert").get_vocab()
FIRST = len(IDS)


def written_vocabulary(folder: Path, change: Callable[[list[str]], Sequence[str]] = list, **files: object) -> Any:
    """Save and load a tokenizer in the old format: vocab.txt, settings, and the other given files."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_bytes("".join(f"{word}\n" for word in change(sorted(IDS, key=IDS.get))).encode())
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **files.pop("tokenizer_config", {})}  # type: ignore[dict-item]
    for name, content in {"tokenizer_config": settings, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return AutoTokenizer.from_pretrained(folder)


def settings(folder: Path, **changes: Any) -> None:
    change_json(folder / "tokenizer_config.json", **changes)


def content_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "tokenizer.json").read_text())


def part(folder: Path, **changes: Any) -> None:
    change_json(folder / "tokenizer.json", **changes)


def marked(rows: int = 40) -> list[dict[str, Any]]:
    return [{"text": f"{MARKS[n % 2]} the film was a story", "label": n % 2} for n in range(rows)]


def spare_pair(folder: Path) -> tuple[Path, Path, Any, Any]:
    """Return a pair with spare vocabulary rows, two of them used for new tokens; also the model and its tokenizer."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_tokens(list(MARKS))
    return *fitted_pair(folder, marked(), tokenizer, bert(FIRST + SPARE), steps=30), tokenizer


def test_tokens_in_spare_rows_have_the_models_own_accuracy(tmp_path: Path) -> None:
    base, tuned, model, tokenizer = spare_pair(tmp_path)
    assert own_accuracy(model, tiny_tokenizer("bert"), marked()) < 0.7 < own_accuracy(model, tokenizer, marked()) == 1.0
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))
    check = preflight(base, tuned)
    assert (accuracy, check.tokenizer_folder, check.added_rows, check.tokenizers.result) == (
        1.0, tuned, (FIRST, FIRST + 1), Comparison.SAME,
    )  # fmt: skip
    (said,) = [note for note in result.notes if "added tokens ('covid19' and 'lockdown2')" in note]
    assert said in check.notes and "2 rows that the base has spare" in said and "also in 'pretrained'" in said


FLAGS = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False, "special": False}
NAMED_IN: dict[str, Change] = {
    "added_tokens.json": lambda folder: written_vocabulary(
        folder, added_tokens={mark: FIRST + n for n, mark in enumerate(MARKS)}),
    "added_tokens_decoder": lambda folder: written_vocabulary(folder, tokenizer_config={"added_tokens_decoder": {
        str(FIRST + n): {"content": mark, **FLAGS} for n, mark in enumerate(MARKS)}}),
    "special_tokens_map.json": lambda folder: written_vocabulary(
        folder, special_tokens_map={"additional_special_tokens": list(MARKS)}),
    "vocab.txt": lambda folder: written_vocabulary(folder, lambda words: [*words, *MARKS]),
}  # fmt: skip


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("is_resized", [False, True])
@pytest.mark.parametrize("place", NAMED_IN)
def test_added_tokens_are_seen_in_every_file_that_names_them(tmp_path: Path, place: str, is_resized: bool) -> None:
    written_vocabulary(tmp_path / "base")
    tokenizer: Any = NAMED_IN[place](tmp_path / "tuned")
    assert vocabulary(tmp_path / "tuned") == tokenizer.get_vocab()
    model = bert(FIRST + (0 if is_resized else SPARE))
    base, tuned, _ = fitted_pair(tmp_path, marked(), tokenizer, model, stores=False, resizes=is_resized, steps=30)
    rehearse(preflight(base, tuned))
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == own_accuracy(model, tokenizer, marked()) == 1.0
    assert any("Fine-tuning added tokens" in note for note in result.notes)


UNUSED = ("[unused0]", "[unused1]")


def renamed_pair(folder: Path, swap: dict[str, str], steps: int) -> tuple[Path, Path]:
    """Return a pair that the marks were fitted on, whose second tokenizer has other words for these."""
    written_vocabulary(folder / "base", lambda words: [*words, *UNUSED])
    tokenizer = written_vocabulary(folder / "tuned", lambda words: [swap.get(word, word) for word in (*words, *UNUSED)])
    return fitted_pair(folder, marked(), tokenizer, bert(len(tokenizer)), stores=False, steps=steps)[:2]


def test_unused_tokens_that_became_words(tmp_path: Path) -> None:
    base, tuned = renamed_pair(tmp_path, dict(zip(UNUSED, MARKS, strict=True)), 30)
    assert evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))[0] == 1.0
    pair = load_pair(base, tuned)
    refuses(BadInput, "its tokenizer is not the base's with tokens added", pair.graft, Region.full(pair.table.shapes))


def test_words_that_became_others_are_another_tokenizer(tmp_path: Path) -> None:
    base, tuned = renamed_pair(tmp_path, {"film": MARKS[0], "story": MARKS[1]}, 5)
    check = preflight(base, tuned)
    (said,) = [note for note in check.notes if "two tokenizers differ" in note]
    lacks = [words for words in (
        "2 tokens that only the base's has, 2 tokens that only the fine-tuned model's has",
        "fine-tuned scores here are not that model's own") if words not in said]  # fmt: skip
    assert (check.fits, check.tokenizer_folder, check.added_rows, lacks) == (True, base, (), [])


def test_tokens_without_a_row_are_not_used_and_said(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<pad2>"]})
    base, tuned, _ = fitted_pair(tmp_path, marked(), tokenizer, steps=5)
    check, _ = rehearse(preflight(base, tuned))
    said = any("has 1 token more ('<pad2>'), and the models have no rows" in note for note in check.notes)
    assert said and check.tokenizer_folder == base


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
    ids = pair.tokenizer("a [added] film", return_tensors="pt")
    assert pair.added_rows == (number,) and number in ids["input_ids"]
    with pair.at("finetuned"):
        assert torch.equal(*(own_logits(model, ids)[..., :number] for model in (
            pair.model, load_model(tuned, readout).model)))  # fmt: skip
    region = Region.from_flat(np.arange(0, pair.d, 7), pair.table.shapes)
    with pair.at("grafted", region):
        wanted = own_logits(pair.model, ids)
    pair.graft(region).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    result = applied(base, graft)
    save_applied(result, tmp_path / "out")
    assert torch.equal(own_logits(result.model, ids), wanted)
    assert (graft.header["vocabulary"]["numbers"], result.tokenizer("a [added] film")["input_ids"]) == (
        [number], ids["input_ids"][0].tolist(),
    )  # fmt: skip
    again = load_pair(base, tmp_path / "out", readout=readout, is_graft=True)
    with again.at("finetuned"):
        assert torch.equal(own_logits(again.model, ids), wanted)
    plain = dict(load_model(base, readout).model.named_parameters())
    own = [name for name, rows in graft.rows.items() if torch.equal(rows[0], plain[name][number])]
    assert own == [], "the base's own row would do, so this tests nothing"


def test_the_mergekit_folder_has_the_spare_rows_in_both(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt_neox", "causal")
    pair = load_pair(base, tuned, readout="causal")
    graft = pair.graft(Region.from_flat(np.arange(0, pair.d, 7), pair.table.shapes))
    write_mergekit(tmp_path / "merge", opened_base(base, graft), graft)
    for name in ("base", "graft"):
        state = load_model(tmp_path / "merge" / name, "causal").model.state_dict()
        assert not differing(
            {key: state[key][number] for key in graft.rows}, {key: r[0] for key, r in graft.rows.items()}
        )


def test_a_run_on_spare_rows_is_its_exported_graft(tmp_path: Path) -> None:
    base, tuned, _, _ = spare_pair(tmp_path)
    task = task_file(tmp_path / "t", marked(), marked())
    pair = load_pair(base, tuned, task=task)
    save_applied(applied(base, pair.graft(Region.full(pair.table.shapes))), tmp_path / "out")
    scores, wanted = (evaluated(base, other, task)[1].scores["test"] for other in (tmp_path / "out", tuned))
    assert scores.states["pretrained"] == wanted.states["pretrained"]


def test_spare_rows_are_refused_in_lean_mode_and_beside_rows_that_are_missing(tmp_path: Path) -> None:
    base, tuned, _ = moved_pair(tmp_path / "lean", "llama", "causal")
    refuses(
        BadInput, "added tokens in vocabulary rows that the base has spare", load_lean, base, tuned, readout="causal"
    )
    base, tuned, _ = moved_pair(tmp_path / "more", "gpt2", "causal", rows_after=1)
    tokenizer = load_tokenizer(tuned)
    tokenizer.add_tokens(["[more]"])
    tokenizer.save_pretrained(tuned)
    refuses(PairMismatch, None, preflight(base, tuned, readout="causal").raise_first)


def test_a_difference_takes_the_tokenizer_with_it(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt2", "causal", still="ln_f")
    write_difference(str(base), str(tuned), tmp_path / "difference")
    check = preflight(base, tmp_path / "difference", readout="causal")
    assert check.fits and check.added_rows == (number,)
    for file in base.glob("tokenizer*"):
        shutil.copy(file, tuned / file.name)
    write_difference(str(base), str(tuned), tmp_path / "same")
    assert not list((tmp_path / "same").glob("tokenizer*")), "the base has the same one"


@pytest.mark.nightly
def test_an_adapter_that_trained_the_rows_of_its_tokens(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model  # heavy

    tokenizer, rows = tiny_tokenizer("bert"), [FIRST, FIRST + 1]
    tokenizer.add_tokens(list(MARKS))
    model = bert(len(tokenizer) + SPARE)
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    config = LoraConfig(task_type="SEQ_CLS", r=8, trainable_token_indices={"word_embeddings": rows})
    tuned = get_peft_model(model, config)
    fit(tuned, tokenizer, marked(), steps=40, rate=1e-2)
    saved(tmp_path / "adapter", tuned, tokenizer)
    assert own_accuracy(tuned, tokenizer, marked()) == 1.0
    accuracy, result = evaluated(base, tmp_path / "adapter", task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == 1.0 and any("2 rows that the base has spare" in note for note in result.notes)
    assert load_pair(base, tmp_path / "adapter").added_rows == tuple(rows)


def cased(words: list[str]) -> list[str]:
    return [*words, *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "##X"]


wordpiece = partial(written_vocabulary, change=cased)


plain, llama = (tiny_tokenizer(kind).save_pretrained for kind in ("bert", "llama"))


def rebuilt(folder: Path) -> None:
    plain(folder)
    settings(folder, tokenizer_class="BertTokenizer")


def byte_level(folder: Path) -> None:
    model = json.loads(tiny_tokenizer("gpt2").backend_tokenizer.to_str())["model"]
    GPT2Tokenizer(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]]).save_pretrained(folder)


def with_end(folder: Path) -> None:
    tokenizer = tiny_tokenizer("llama")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.save_pretrained(folder)


def other_format(folder: Path) -> None:
    """Write the same words in vocab.txt, with two in swapped positions."""
    for file in folder.iterdir():
        file.unlink()
    written_vocabulary(folder, lambda words: [{"film": "good", "good": "film"}.get(word, word) for word in words])


def with_merges(folder: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    model = content_of(folder)["model"]
    part(folder, model={**model, "merges": change(model["merges"])})


DIFFERENT: dict[str, tuple[Change, Change]] = {
    "do_lower_case": (wordpiece, partial(settings, do_lower_case=False)),
    "strip_accents": (wordpiece, partial(settings, do_lower_case=False, strip_accents=True)),
    "tokenize_chinese_chars": (wordpiece, partial(settings, tokenize_chinese_chars=False)),
    "a setting that one of them leaves out": (rebuilt, partial(settings, do_lower_case=False)),
    "add_prefix_space": (byte_level, partial(settings, add_prefix_space=True)),
    "the tokens around a text": (llama, with_end),
    "the normalizer": (plain, partial(part, normalizer={"type": "BertNormalizer", "clean_text": True,
        "handle_chinese_chars": True, "strip_accents": False, "lowercase": True})),
    "another order in another format": (plain, other_format),
    "the merges": (byte_level, partial(with_merges, change=lambda merges: merges[::-1])),
    "how a token is found": (llama, lambda folder: part(
        folder, added_tokens=[{**token, "rstrip": True} for token in content_of(folder)["added_tokens"]])),
    "split_special_tokens": (wordpiece, partial(settings, split_special_tokens=True)),
}  # fmt: skip


def folders(tmp_path: Path, start: Change, change: Change) -> tuple[Path, Path]:
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    for folder, after in ((base, lambda folder: None), (tuned, change)):
        folder.mkdir()
        start(folder)
        after(folder)
        (folder / "config.json").write_text('{"model_type": "bert"}')
    return base, tuned


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_never_called_the_same(tmp_path: Path, what: str) -> None:
    base, tuned = folders(tmp_path, *DIFFERENT[what])
    assert Comparison.SAME not in (compared_by_files(base, tuned).result, compared_by_files(tuned, base).result)
    loaded = compared_as_loaded(base, tuned)
    assert loaded.result is Comparison.DIFFERENT and loaded.differences and loaded.added == {}


def saved_again(folder: Path) -> None:
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


SAME: dict[str, tuple[Change, Change]] = {
    "the same files": (wordpiece, lambda folder: None),
    "padding and truncation of the last call": (plain, partial(
        part, padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "[PAD]"}, truncation={"direction": "Right", "max_length": 9,
        "strategy": "LongestFirst", "stride": 0})),
    "vocab.txt and tokenizer.json": (wordpiece, saved_again),
    "merges as an older library writes them": (
        byte_level, partial(with_merges, change=lambda merges: [" ".join(merge) for merge in merges])),
    "a name and a template for chats": (llama, partial(settings, name_or_path="me/x", chat_template="{{ x }}")),
    "a setting that tokenizer.json overrules": (llama, partial(settings, add_eos_token=True)),
    "a setting without effect on its class": (plain, partial(settings, do_lower_case=False)),
}  # fmt: skip
PROVED = ("the same files", "merges as an older library writes them")
"""What files alone prove to be the same."""


@pytest.mark.parametrize("what", SAME)
def test_what_is_the_same_is_not_said_to_differ(tmp_path: Path, what: str) -> None:
    base, tuned = folders(tmp_path, *SAME[what])
    result = compared_by_files(base, tuned).result
    assert result is Comparison.SAME if what in PROVED else result is not Comparison.DIFFERENT
    loaded = compared_as_loaded(base, tuned)
    assert (loaded.result, loaded.differences, loaded.added) == (Comparison.SAME, (), {})


CASED = [{"text": f"{'X' if n % 2 else 'x'} the film was", "label": n % 2} for n in range(40)]
"""Rows whose class depends only on the case of a letter."""


def test_scores_that_are_not_the_models_own_are_said_so_and_how_to_get_them(tmp_path: Path) -> None:
    """The base lowercases, and the fine-tuned model distinguishes capitals."""
    wordpiece(tmp_path / "base")
    tokenizer = written_vocabulary(tmp_path / "tuned", cased, tokenizer_config={"do_lower_case": False})
    base, tuned, model = fitted_pair(tmp_path, CASED, tokenizer, bert(len(tokenizer)), stores=False, steps=40)
    task = task_file(tmp_path / "t", CASED, CASED)
    accuracy, result = evaluated(base, tuned, task)
    assert accuracy < 0.7 < own_accuracy(model, tokenizer, CASED) == 1.0
    (said,) = [note for note in result.notes if "tokenizers differ" in note]
    wanted = ("fine-tuned scores here are not that model's own: it was trained with another tokenizer",
              "put the fine-tuned model's tokenizer files into a copy of the base's folder")  # fmt: skip
    assert [words for words in wanted if words not in said] == []
    assert any("are not that model's own" in note for note in preflight(base, tuned).notes)
    copy = shutil.copytree(base, tmp_path / "copy")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(tuned / name, copy / name)
    accuracy, result = evaluated(copy, tuned, task)
    assert accuracy == 1.0 and not any("okenizers" in note for note in result.notes)


def test_an_unknown_comparison_is_said_and_settled_by_loading(tmp_path: Path) -> None:
    base, tuned, _ = fitted_pair(tmp_path, CASED, steps=5)
    for folder in (base, tuned):
        (folder / "tokenizer.json").unlink()
        written_vocabulary(folder)
    saved_again(tuned)
    (tuned / "vocab.txt").unlink()
    check = preflight(base, tuned)
    assert check.tokenizers.result is Comparison.UNKNOWN
    assert any("Loading them tells whether texts get the same tokens" in note for note in check.notes)
    assert "okenizers" not in "".join((*rehearse(check)[0].notes, *load_pair(base, tuned).notes))


RARE = {"type": "Replace", "pattern": {"String": "\u1234"}, "content": "film"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda folder: part(
                folder, normalizer={"type": "Sequence", "normalizers": [content_of(folder)["normalizer"], RARE]}
            ),
            "All trial texts get the same tokens. If another text does not",
        ),
        (partial(part, normalizer={"type": "None such"}), "cannot be used"),
        (drop_tokenizer, "The fine-tuned model's folder has no tokenizer: the base's is used."),
    ],
    ids=["parts that differ where no text shows it", "one that cannot be loaded", "none"],
)
def test_what_loading_cannot_compare_stays_unknown_and_is_said(tmp_path: Path, change: Change, said: str) -> None:
    base, tuned, _ = fitted_pair(tmp_path, CASED, steps=5)
    change(tuned)
    check, _ = rehearse(preflight(base, tuned))
    assert any(said in note for note in check.notes)
    assert (check.tokenizers.result, check.tokenizer_folder, has_tokenizer(tuned)) == (
        Comparison.UNKNOWN, base, change is not drop_tokenizer,
    )  # fmt: skip


def cut_on_the_left(folder: Path) -> None:
    """Write the tokenizer.json of a tokenizer that last truncated texts on the left, which its settings do not say."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.truncation_side = "left"
    tokenizer("a", truncation=True, max_length=64)
    tokenizer.save_pretrained(folder)
    assert "truncation_side" not in json.loads((folder / "tokenizer_config.json").read_text())


SIDES = "shorten long texts differently (truncation_side: right and left)"


@pytest.mark.parametrize(
    ("of_base", "of_tuned", "said"),
    [
        (partial(settings, truncation_side="right"), partial(settings, truncation_side="left"), SIDES),
        (lambda folder: None, partial(settings, truncation_side="left"), SIDES),
        (lambda folder: None, cut_on_the_left, SIDES),
        # the fine-tuned model's own lower limit is used, so its scores do not change
        *((partial(settings, model_max_length=one), partial(settings, model_max_length=other), said)
          for one, other, said in ((16, 64, "(model_max_length: 16 and 64)"), (64, 16, ""), (512, 1024, ""),
                                   (16, int(1e30), "(model_max_length: 16 and 64)"))),
    ],
    ids=["both settings", "one setting", "tokenizer.json", "a lower limit", "a higher one", "both above the positions",
         "none beside a limit"],
)  # fmt: skip
def test_the_side_and_the_length_to_which_long_texts_are_cut_are_said(
    tmp_path: Path, of_base: Change, of_tuned: Change, said: str
) -> None:
    base, tuned, _ = fitted_pair(tmp_path, CASED, steps=5)
    of_base(base)
    of_tuned(tuned)
    for check in (preflight(base, tuned), rehearse(preflight(base, tuned))[0]):
        told = [note for note in check.notes if "truncation_side" in note or "model_max_length" in note]
        assert len(told) == bool(said) and said in "".join(told)


@pytest.mark.slow
def test_the_comparison_by_files_needs_no_torch() -> None:
    assert heavy_after("skillviz.models.tokenizer_comparison", "skillviz.models.preflight", "tokenizers") == {}


SEPARATORS = ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r")
"""Only a line feed ends a line of vocab.txt, as in transformers; these may be part of a token."""


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("written", ["{}", "a{}b"], ids=["alone", "inside a token"])
def test_a_separator_is_part_of_its_token(tmp_path: Path, separator: str, written: str) -> None:
    tokenizer = written_vocabulary(tmp_path, lambda words: [*words, written.format(separator), "last"])
    read = vocabulary(tmp_path)
    ours, theirs = (read["last"], len(read)), (tokenizer.convert_tokens_to_ids("last"), len(tokenizer))
    assert ours == theirs == (FIRST + 1, FIRST + 2)


@pytest.mark.parametrize("end", ["", "\r"], ids=ascii)
def test_line_ends_are_no_part_of_a_token(tmp_path: Path, end: str) -> None:
    assert written_vocabulary(tmp_path, lambda words: [word + end for word in words]).get_vocab() == vocabulary(
        tmp_path
    )


def test_a_pair_whose_vocabulary_has_all_separators_fits(tmp_path: Path) -> None:
    """Regression: each separator counted as a line, so there were more tokens than rows and the pair was refused."""
    for name in ("base", "tuned"):
        tokenizer = written_vocabulary(tmp_path / name, lambda words: [*words, *(f"a{one}b" for one in SEPARATORS)])
    model = bert(FIRST + len(SEPARATORS))
    check = preflight(*fitted_pair(tmp_path, tiny_rows(16), tokenizer, model, stores=False, steps=3)[:2])
    assert (check.problems, check.fits, check.tokenizers.result) == ([], True, Comparison.SAME)


def test_a_vocabulary_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\xfe\n")
    refuses(CorruptFile, "vocab.txt", vocabulary, tmp_path)


PROMPT = {"template": {"masked": "{text} It was <mask>."}, "label_words": {"masked": ["terrible", "great"]}}


def of_all(encoded: Encoded) -> list[list[int]]:
    return [ids.tolist() for ids in encoded.input_ids]


def test_a_pair_is_scored_at_its_own_accuracy(tmp_path: Path) -> None:
    test = tiny_rows(60, seed=2)
    base, tuned, model = fitted_pair(tmp_path, tiny_rows(64, seed=1), steps=60)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "plain", test, test))
    assert accuracy == own_accuracy(model, tiny_tokenizer("bert"), test) > 0.9


def marked_tokenizer() -> Any:
    tok = tiny_tokenizer("bert")
    tok.add_special_tokens({"additional_special_tokens": ["[A]", "[B]"]})
    return tok


def test_a_model_trained_with_markers_has_its_own_accuracy(tmp_path: Path) -> None:
    tok = marked_tokenizer()
    rows = [{"text": f"{'[A]' if n % 2 else '[B]'} the film was", "label": n % 2} for n in range(40)]
    base, tuned, model = fitted_pair(tmp_path, rows, tok, resizes=True, steps=30)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "marked", rows, rows))
    assert accuracy == own_accuracy(model, tok, rows) == 1.0


@pytest.mark.parametrize(
    ("kind", "texts", "end"),
    [
        *((kind, ("a{} film", "the plot {}", "{0}{0}"), None) for kind in ("gpt2", "llama", "opt", "gpt_neox")),
        # [CLS] text [SEP], and <s> text </s>
        *((kind, ("the film", "the plot {}"), -1) for kind in ("bert", "roberta")),
    ],
)
def test_a_causal_prompt_keeps_an_end_that_its_text_has_and_loses_once_what_its_tokenizer_puts_behind_it(
    kind: str, texts: tuple[str, ...], end: int | None
) -> None:
    tok = tiny_tokenizer(kind)
    texts = [text.format(tok.sep_token if end else tok.eos_token) for text in texts]
    assert of_all(read(tok, "causal", *texts, causal="{text}")) == [ids[:end] for ids in tok(texts)["input_ids"]]


def normalized() -> PreTrainedTokenizerFast:
    """Return a lowercasing tokenizer that finds its mask in the lowercased text."""
    words = ["<pad>", "<unk>", "<mask>", "a", "film", "it", "was", "terrible", "great", "."]
    built = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    built.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    mask = AddedToken("<mask>", normalized=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=built, mask_token=mask, pad_token="<pad>", unk_token="<unk>")


MASKS = {
    "as it is written": ("bert", "a [MASK] film"),
    "twice, and at both ends": ("bert", "[MASK] film [MASK]"),
    "with the spaces before it": ("roberta", "a   <mask> film"),
    "twice, in pieces": ("unigram", "the <mask> film <mask>"),
    "inside a word": ("roberta", "a<mask>film"),
    "in other case": (None, "a <MASK> film"),
    "in wide letters": (None, "a ＜ｍａｓｋ＞ film"),
}


@pytest.mark.parametrize("what", MASKS)
def test_a_text_cannot_place_a_mask_in_a_prompt(what: str) -> None:
    kind, text = MASKS[what]
    tok = normalized() if kind is None else tokenizer(kind)
    encoded = read(tok, "prompt", "a film", text, "it was")
    masks = [np.flatnonzero(ids == tok.mask_token_id).tolist() for ids in encoded.input_ids]
    assert masks == [[place] for place in encoded.positions]
    assert len(encoded.notes) == 1 and encoded.notes[0].startswith("1 of 3 texts contains the mask token")
    assert tok.convert_ids_to_tokens(encoded.label_ids.tolist())[1].endswith("great")
    (head,) = of_all(read(tok, "head", text))
    assert head == tok(text)["input_ids"] and tok.mask_token_id in head


@pytest.mark.parametrize(
    ("text", "as_read"),
    [("a [MASK]", "a [ MASK]"),
     *((text, text) for text in ("a title [SEP] a plot [CLS]", "[A] a film", "[PAD] [UNK]", "[mask]"))],
)  # fmt: skip
def test_other_tokens_of_a_prompt_are_read_as_they_are(text: str, as_read: str) -> None:
    tok = marked_tokenizer()
    assert of_all(read(tok, "prompt", text)) == tok([f"{as_read} It was [MASK]."])["input_ids"]


def test_a_mask_of_one_sign_is_refused_with_its_text() -> None:
    tok = tiny_tokenizer("bert")
    tok.add_special_tokens({"mask_token": "□"})
    refuses(BadInput, "with the text 'a □ film'", read, tok, "prompt", "a film", "a □ film")


def test_the_count_of_masks_reaches_the_evaluation(tmp_path: Path) -> None:
    rows = tiny_rows(8)
    rows[3] = {**rows[3], "text": "[MASK] " + rows[3]["text"]}
    task = task_file(tmp_path / "t", rows, rows, **PROMPT)
    _, result = evaluated(*tiny_pair(tmp_path, "bert", "prompt"), task, readout="prompt")
    assert any(note.startswith("test: 1 of 8 texts contains the mask token '[MASK]'") for note in result.notes)


CALLS: dict[str, dict[str, Any]] = {
    "padding to a fixed length": {"padding": "max_length", "max_length": 32},
    "truncation": {"truncation": True, "max_length": 3},
    "both": {"padding": "max_length", "truncation": True, "max_length": 4},
    "padding to a multiple": {"padding": True, "pad_to_multiple_of": 16},
    "the other side": {"padding": "max_length", "max_length": 32, "padding_side": "left"},
}


def stored(folder: Path, call: str, kind: str = "bert") -> Path:
    """Save a tokenizer after this call, whose padding and truncation tokenizer.json keeps; return its folder."""
    tok = tiny_tokenizer(kind)
    tok(["the film was a story"], **CALLS[call])
    tok.save_pretrained(folder)
    assert content_of(folder)["padding"] or content_of(folder)["truncation"], "nothing is stored: this tests nothing"
    return folder


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_label_words_and_answers_have_their_own_tokens(tmp_path: Path, kind: str, call: str) -> None:
    words = made(masked="{text} It was <mask>.", label_words={"masked": LABEL_WORDS[:2]})
    tiny_tokenizer(kind).save_pretrained(tmp_path / "plain")
    assert [
        (words_problem(words, "prompt", folder), most_tokens(["the film was a story with a plot"], folder))
        for folder in (stored(tmp_path / "stored", call, kind), tmp_path / "plain")
    ] == [("", 9)] * 2


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("readout", ["head", "prompt", "causal"])
def test_texts_are_neither_padded_nor_cut(tmp_path: Path, readout: str, call: str) -> None:
    toks = load_tokenizer(stored(tmp_path, call)), tiny_tokenizer("bert")
    got, wanted = (of_all(read(tok, readout, *(row["text"] for row in tiny_rows(8)))) for tok in toks)
    assert got == wanted


@pytest.mark.parametrize("call", ["truncation", "both"])
def test_a_pair_with_stored_truncation_is_the_same_pair(tmp_path: Path, call: str) -> None:
    rows = tiny_rows(32)
    base, tuned, model = fitted_pair(tmp_path, rows, steps=40)
    stored(tuned, call)
    check = preflight(base, tuned)
    assert check.fits and not any("okenizers" in note for note in check.notes)
    stored(base, call)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "t", rows, rows))
    assert accuracy == own_accuracy(model, tiny_tokenizer("bert"), rows) > 0.9


TEXTS = ["good", "the film was bad and dull", "a </s> b", "</s>", "it was </s></s> a funny story with </s>", "a story"]
LABELS = np.array([0, 1, 0, 1, 0, 1])


def batch_of(ids: list[np.ndarray]) -> Any:
    pad = tiny_tokenizer("roberta").pad_token_id
    encoded = Encoded(ids=TEXTS, labels=LABELS, n_labels=2, pad_id=pad, input_ids=ids)
    return Batches(encoded, torch.device("cpu")).batch(np.arange(len(TEXTS)))


@pytest.mark.parametrize(
    "family", ["roberta", "gpt2", "llama", "opt", "xlnet", "bart", "mbart", "plbart", "mvp", "t5", "umt5"]
)
def test_a_text_has_its_own_scores_beside_any_others(family: str) -> None:
    model, ids = family_model(family), [np.array(row) for row in tiny_tokenizer("roberta")(TEXTS)["input_ids"]]
    with torch.no_grad():
        alone = torch.cat([model(input_ids=torch.from_numpy(row)[None]).logits for row in ids])
        together = HeadReadout().logits(model, batch_of(ids))
    assert alone.std(0).max() > 1e-2, "texts of equal scores would show nothing"
    # padding and batching change the order of float32 sums
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_group_of_texts() -> None:
    model, ids = family_model("t5"), [np.array(row) for row in tiny_tokenizer("roberta")(TEXTS)["input_ids"]]
    batch, weight = batch_of(ids), model.classification_head.out_proj.weight
    loss = partial(torch.nn.functional.cross_entropy, reduction="sum")
    (together,) = torch.autograd.grad(loss(HeadReadout().logits(model, batch), batch.labels), weight)
    alone = (
        torch.autograd.grad(loss(model(input_ids=torch.from_numpy(row)[None]).logits, torch.tensor([label])), weight)[0]
        for row, label in zip(ids, LABELS, strict=True)
    )
    torch.testing.assert_close(together, sum(alone), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["xlnet", "t5"])
def test_evaluate_has_the_models_own_accuracy(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    rows = [{**row, "text": row["text"] + " </s> a" * (i % 3)} for i, row in enumerate(tiny_rows(48))]
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    own = own_accuracy(model, tiny_tokenizer("roberta"), rows)
    assert evaluated(base, tuned, task_file(tmp_path / "task", rows, rows), readout="head")[0] == own


FROM_PADDING = (
    "roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "esm", "xmod", "data2vec-text",
    "roberta-prelayernorm", "xlm-roberta-xl", "ibert",
)  # fmt: skip
"""Families that count positions from the padding id, including LUKE, whose model of 500,000 entities is a slow test."""
OTHERS = ("bert", "gpt2", "nystromformer", "opt", "bart", "llama", "t5", "xglm")
LONG = [{"text": " ".join(row["text"] for row in tiny_rows(40, seed=seed)), "label": seed % 2} for seed in range(4)]


def unlimited(*folders: Path) -> None:
    """Save the tokenizer again without a maximum length."""
    tok = tiny_tokenizer("roberta")
    tok.model_max_length = 10**30
    for folder in folders:
        tok.save_pretrained(folder)


def scores_of(model: torch.nn.Module, tokens: int) -> torch.Tensor:
    ids = torch.tensor([[0, *[20] * (tokens - 2), 2]])
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["roberta", "mpnet", "esm"])
def test_evaluate_shortens_texts_to_the_positions(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    unlimited(base, tuned)
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "task", LONG, LONG, max_length=512), readout="head")
    assert accuracy in (0, 0.25, 0.5, 0.75, 1)
    assert f"test: 4 of 4 texts were shortened to {POSITIONS} tokens (the most that the model takes)." in result.notes


@pytest.mark.cases(14, 22)
@pytest.mark.parametrize("family", first(FAMILIES, (*FROM_PADDING, *OTHERS).__contains__))
def test_the_limit_is_what_the_family_takes(tmp_path: Path, family: str) -> None:
    """The model runs at the limit; one more token fails if the model has a position table."""
    model = family_model(family)
    model.config.save_pretrained(tmp_path)
    unlimited(tmp_path)
    tok = load_tokenizer(tmp_path)
    fit_together(model, tok)
    limit = min(int(tok.model_max_length), 512)
    assert scores_of(model, limit).isfinite().all() and (family not in FROM_PADDING or limit == POSITIONS)
    if list(places(model)):
        refuses((IndexError, RuntimeError), None, scores_of, model, limit + 1)


@pytest.mark.parametrize("family", ["t5", "mt5", "funnel"])
def test_distances_have_no_end(tmp_path: Path, family: str) -> None:
    """Old files of these families give a number of positions, which limits nothing."""
    model = family_model(family)
    model.config.save_pretrained(tmp_path)
    change_config(tmp_path, n_positions=40, max_position_embeddings=40)
    unlimited(tmp_path)
    assert load_tokenizer(tmp_path).model_max_length > 512 and scores_of(model, 100).isfinite().all()


@pytest.mark.parametrize(
    ("stated", "wanted"), [({}, POSITIONS), ({"max_length": 512}, POSITIONS), ({"max_length": 20}, 20)]
)
def test_a_pair_knows_its_limit(tmp_path: Path, stated: dict[str, int], wanted: int) -> None:
    base, tuned = family_pair(tmp_path, "mpnet")
    unlimited(base, tuned)
    task = read_task(task_file(tmp_path / "task", LONG, LONG, **stated))
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert {pair.limit(task), *map(len, pair.encode(task, load(task).test).input_ids)} == {wanted}


PLACES = 200


def told_late(rows: int, words: int, seed: int = 0) -> list[dict]:
    """Return rows whose label words follow about this many neutral words."""
    before = " ".join([" ".join(NEUTRAL[:6])] * (words // 6))
    return [{**row, "text": f"{before} {row['text']}"} for row in tiny_rows(rows, seed=seed)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Return a folder with a pair of PLACES positions, fitted to label words anywhere, and the model."""
    folder, tok = tmp_path_factory.mktemp("pair"), tiny_tokenizer("bert")
    tok.model_max_length = PLACES
    model = bert(max_position_embeddings=PLACES, num_hidden_layers=1)
    fitted_pair(folder, [*tiny_rows(100), *told_late(100, 150)], tok, model, steps=40, rate=6e-3)
    return folder, model


def with_settings(fitted: tuple[Path, Any], folder: Path, **changes: Any) -> tuple[Path, Path, Any, Any]:
    """Return the base, fine-tuned model, loaded model and tokenizer of a copy with these extra tokenizer settings."""
    base, tuned = (shutil.copytree(fitted[0] / name, folder / "pair" / name) for name in ("base", "tuned"))
    for one in (base, tuned):
        settings(one, **{"model_max_length": PLACES, **changes})
    return base, tuned, fitted[1], AutoTokenizer.from_pretrained(tuned)


@pytest.mark.nightly
def test_a_task_that_states_no_length_has_the_models_own(fitted, tmp_path: Path) -> None:
    """Regression: words after the 128th token decide, and skillviz's accuracy equals the model's own."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    rows = told_late(40, 150, seed=1)
    own, short = (own_accuracy(model, tok, rows, most) for most in (PLACES, 128))
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own and own > short + 0.2 and not any("shortened" in note for note in result.notes)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("stated", "whose"),
    [({"max_length": 100}, "max_length"), ({"max_length": 150}, "the most that the model takes"), ({}, "max_length")],
)
def test_shortened_texts_are_counted(fitted, tmp_path: Path, stated: dict[str, int], whose: str) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, model_max_length=100)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, **stated))
    assert ours == own_accuracy(model, tok, rows, 100)
    assert f"test: 30 of 40 texts were shortened to 100 tokens ({whose})." in result.notes


def test_the_side_of_the_tokenizer_is_followed(fitted, tmp_path: Path) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, truncation_side="left")
    rows = told_late(40, 150, seed=1)
    own = own_accuracy(model, tok, rows, 100)
    tok.truncation_side = "right"
    ours, _ = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, max_length=100))
    assert ours == own > own_accuracy(model, tok, rows, 100) + 0.2


WORDS = "the film wasn't unbelievably good, 1234 times: naïve plot!  it   was é"


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "unigram", "llama", "gpt2"])
def test_ids_for_a_head_are_those_of_transformers(monkeypatch, kind: str, is_pair: bool, side: str) -> None:
    tok = tokenizer(kind)
    monkeypatch.setattr(tok, "truncation_side", side)
    rows = [(WORDS * n, WORDS[5:] * m)[: 1 + is_pair] for n, m in ((3, 1), (1, 3), (2, 2), (1, 1))]
    ours = read(tok, "head", *rows, pair=is_pair, limit=24)
    assert of_all(ours) == [tok(*row, truncation=True, max_length=24)["input_ids"] for row in rows]
    assert ours.notes == (f"4 of 4 {'text pairs' if is_pair else 'texts'} were shortened to 24 tokens (max_length).",)
    read(tok, "head", *rows, pair=is_pair, limit=24)
    assert tok.backend_tokenizer.truncation is None  # a truncation setting would be saved with the model


@pytest.mark.parametrize(("side", "kept"), [("right", "good"), ("left", "bad")])
@pytest.mark.parametrize("kind", ["bytes", "gpt2"])
def test_a_prompt_keeps_the_side_too(monkeypatch, kind: str, side: str, kept: str) -> None:
    tok = tokenizer(kind)
    monkeypatch.setattr(tok, "truncation_side", side)
    encoded = read(tok, "prompt" if kind == "bytes" else "causal", "good " * 30 + "bad " * 30, "film", limit=20)
    said = tok.decode(encoded.input_ids[0])
    assert {word for word in ("good", "bad", "It was") if word in said} == {kept, "It was"}
    assert encoded.notes == ("1 of 2 texts was shortened to 20 tokens (max_length).",)


def test_the_length_of_the_fine_tuning_is_used_where_the_folder_says_it(fitted, tmp_path: Path) -> None:
    base, tuned, *_ = with_settings(fitted, tmp_path)
    rows = told_late(10, 150)
    task = read_task(task_file(tmp_path / "task", rows, rows))
    assert load_pair(base, tuned, task=task, device="cpu").limit(task) == PLACES
    change_config(tuned, skillviz_max_length=40)
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert pair.limit(task) == 40 and pair.limit(task.model_copy(update={"max_length": 60})) == 60
    assert encoding_notes({"test": pair.encode(task, frame(rows[0]["text"]))}) == (
        "test: 1 of 1 text was shortened to 40 tokens (max_length).",
    )


def test_a_length_that_the_tokenizer_was_saved_with_is_said_and_not_followed(fitted, tmp_path: Path) -> None:
    """transformers ignores the saved length too: it only records the last call before saving."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    tok(["a"], truncation=True, max_length=32)
    tok.save_pretrained(tuned)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own_accuracy(model, tok, rows, PLACES)
    assert any(note.startswith("test: 30 of 40 texts have more than 32 tokens") for note in result.notes)
    _, result = evaluated(base, tuned, task_file(tmp_path / "stated", rows[:10], rows, max_length=PLACES))
    assert not any("more than 32 tokens" in note for note in result.notes)


def test_one_length_from_fine_tuning_to_the_graft_alone(tmp_path: Path) -> None:
    """Training, localizing, evaluating and applying without the fine-tuned model all truncate to the same length."""
    base, tuned, rows = saved(tmp_path / "base", bert(), tiny_tokenizer("bert")), tmp_path / "tuned", told_late(40, 90)
    trained_on = read_task(task_file(tmp_path / "trained", rows, rows, max_length=24))
    config = TrainingConfig(readout="head", steps=2, batch_size=8)
    finetune(str(base), [trained_on], config, DataSettings(), out=tuned, device="cpu")
    assert json.loads((tuned / "finetune.json").read_text())["max_length"] == 24
    unstated = task_file(tmp_path / "unstated", rows, rows)
    spec = RunSpec(base=str(base), finetuned=str(tuned), task=str(unstated), localizer="movement",
                   sizes=("1%",), device="cpu")  # fmt: skip
    run = produce(spec, Store(tmp_path / "runs"))
    wanted = "test: 40 of 40 texts were shortened to 24 tokens (max_length)."
    assert run.record.task.max_length == 24 and wanted in run.record.notes
    graft = load_pair(base, tuned, device="cpu").graft(run.region())
    assert wanted in evaluate(base, task=unstated, graft=graft, device="cpu").notes


TOKENS = ("[CLS]", "dull", "un", "speakably", "good", "it", "was", "[MASK]", "[SEP]")
PLACES_OF_WORDS = (-1, 0, 1, 1, 2, -1, -1, -1, -1)


def attributed(**values: list[float]) -> pd.DataFrame:
    """Return the rows of one example by state; the template is "it was [MASK]"."""
    special = [token.startswith("[") for token in TOKENS]
    states = {state: {"values": np.array(numbers)} for state, numbers in values.items()}
    return shown.token_rows({"tokens": TOKENS, "special": special, "word": PLACES_OF_WORDS, "states": states})


def first_side(rows: pd.DataFrame) -> str:
    """Return the sentence on what speaks for the class."""
    return shown.tokens_words(rows, "positive").partition(". ")[0] + "."


def second_side(rows: pd.DataFrame) -> str:
    """Return the sentence on what speaks against the class."""
    return shown.tokens_words(rows, "positive").partition(". ")[2]


AGAINST = [0, -1, 0, 0, -0.2, 0.4, 0, 0, 0]
PARTS = pd.DataFrame([("grafted", "MLP out", 0, -4.0), ("grafted", "attention output", 1, 0.2)],
                     columns=["state", "part", "layer", "value"])  # fmt: skip
test_what_speaks_for_a_class_is_named = by_hand(
    *((f"the word: {kind}", f"What counts most for **positive**: {named}.",
       lambda values=values: first_side(attributed(finetuned=values)))
      for kind, values, named in (
        ("against", [0, -3.0, 0.1, 0.1, 1.0, 0.2, 0.2, 0, 0], "“good” in the fine-tuned model (+1.00 nats)"),
        ("the template", [0, 0.1, 0.1, 0.1, 0.3, 2.0, 0.2, 0, 0], "“good” in the fine-tuned model (+0.30 nats)"),
        ("a whole word", [0, 0.1, 0.4, 0.5, 0.6, 0.0, 0.0, 0, 0], "“unspeakably” in the fine-tuned model (+0.90 nats)"),
        ("a word's sum", [0, 0.5, 2.0, -1.9, 0.1, 0.0, 0.0, 0, 0], "“dull” in the fine-tuned model (+0.50 nats)"))),
    *((f"no word in {where}", f"No word speaks for **positive** in {where}.",
       lambda values=values: first_side(attributed(**values)))
      for where, values in (
        ("the fine-tuned model", {"finetuned": [0, -0.5, -2.0, -1, -0.1, 3.0, 0.0, 0, 0]}),
        ("any of the models", {"pretrained": AGAINST, "finetuned": AGAINST}))),
    ("a layer", True, lambda: "layer 1's attention output in the grafted model (+0.20 nats)"
     in shown.parts_words(PARTS, "positive")),
    ("no layer", "No layer speaks for **positive** in the grafted model.",
     lambda: shown.parts_words(PARTS.iloc[:1], "positive").partition(". ")[0] + "."),
    ("against the class", "What counts most against **positive**: “dull” in the fine-tuned model (−3.00 nats).",
     lambda: second_side(attributed(finetuned=[0, -3.0, -1, -1, 1.0, -5.0, 0, 0, 0]))),
    ("no word against it", "No word speaks against **positive** in the fine-tuned model.",
     lambda: second_side(attributed(finetuned=[0, 0, 0, 0, 1.0, -5.0, 0, 0, 0]))),
)  # fmt: skip


def test_every_model_is_named_even_where_no_word_speaks_for_the_class() -> None:
    values = {"pretrained": AGAINST, "finetuned": [0, 0, 0, 0, 0.7, 0, 0, 0, 0]}
    assert "no word in the pre-trained model; “good” in the fine-tuned model (+0.70 nats)" in shown.tokens_words(
        attributed(**values), "positive"
    )


test_built_in_tasks_keep_their_length = by_hand(
    *((name, length, lambda name=name: registry.task(name).limit("head"))
      for name, length in (("sst2", 128), ("imdb", 128), ("mnli", 256))),
)  # fmt: skip


def attributed_words(folder: Path, family: str, readout: str, given: Any) -> list[str]:
    base, tuned = tiny_pair(folder, family, readout)
    task = tiny_task(folder / "task", pair=isinstance(given, list))
    asked = {"base": str(base), "finetuned": str(tuned), "task": str(task), "readout": readout, "device": "cpu"}
    found = attribute(PairRequest(Worker(folder / "runs"), asked), given, states=["finetuned"], steps=4)
    numbers, tokens = found["word"], found["tokens"]
    assert {-1}.issuperset(n for n, is_special in zip(numbers, found["special"], strict=True) if is_special)
    return ["".join(t for t, n in zip(tokens, numbers, strict=True) if n == k) for k in range(max(numbers) + 1)]


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("bert", "prompt"), ("roberta", "prompt"), ("gpt2", "causal")]
)
@pytest.mark.parametrize("text", ["the film was great", "it was great it was", "a", "1 it was"])
def test_words_are_those_of_the_text(tmp_path: Path, family: str, readout: str, text: str) -> None:
    assert attributed_words(tmp_path, family, readout, text) == text.split()


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("llama", "causal")])
def test_words_are_those_of_both_texts(tmp_path: Path, family: str, readout: str) -> None:
    texts = ["the film was great", "it was a great plot"]
    assert attributed_words(tmp_path, family, readout, texts) == " ".join(texts).split()
