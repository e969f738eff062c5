"""Tests of the comparison of two tokenizers by their output: same, different or unknown; the last two give a note."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, GPT2Tokenizer

from skillviz.core.comparison import Comparison
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import has_tokenizer
from skillviz.models.tokenizer_comparison import compared_as_loaded, compared_by_files
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file
from tests.cases.test_added_tokens import written_vocabulary
from tests.test_torch_free import heavy_after
from tests.tiny import tiny_tokenizer

Change = Callable[[Path], object]


def settings(folder: Path, **changes: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.is_file() else {}), **changes}))


def part(folder: Path, **changes: Any) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cased(words: list[str]) -> list[str]:
    return [*words, *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "##X"]


def wordpiece(folder: Path) -> None:
    """Write vocab.txt and settings, from which transformers builds a BertTokenizer."""
    written_vocabulary(folder, cased)


def plain(folder: Path) -> None:
    """Write a tokenizer.json that is read unchanged."""
    tiny_tokenizer("bert").save_pretrained(folder)


def rebuilt(folder: Path) -> None:
    """Write a tokenizer.json of a class that reads only its vocabulary."""
    tiny_tokenizer("bert").save_pretrained(folder)
    settings(folder, tokenizer_class="BertTokenizer")


def byte_level(folder: Path) -> None:
    ids = tiny_tokenizer("gpt2").get_vocab()
    merges = json.loads(tiny_tokenizer("gpt2").backend_tokenizer.to_str())["model"]["merges"]
    GPT2Tokenizer(vocab=ids, merges=[tuple(merge) for merge in merges]).save_pretrained(folder)


def llama(folder: Path) -> None:
    tiny_tokenizer("llama").save_pretrained(folder)


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
    at = [tiny_tokenizer("bert").convert_tokens_to_ids(word) for word in ("film", "good")]
    written_vocabulary(folder, lambda words: swapped(words, *at))


def swapped(words: list[str], one: int, other: int) -> list[str]:
    words[one], words[other] = words[other], words[one]
    return words


def other_merges(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())["model"]
    part(folder, model={**content, "merges": content["merges"][::-1]})


def stripping(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    part(folder, added_tokens=[{**token, "rstrip": True} for token in content["added_tokens"]])


DIFFERENT: dict[str, tuple[Change, Change]] = {
    "do_lower_case": (wordpiece, lambda f: settings(f, do_lower_case=False)),
    "strip_accents": (wordpiece, lambda f: settings(f, do_lower_case=False, strip_accents=True)),
    "tokenize_chinese_chars": (wordpiece, lambda f: settings(f, tokenize_chinese_chars=False)),
    "a setting that one of them leaves out": (rebuilt, lambda f: settings(f, do_lower_case=False)),
    "add_prefix_space": (byte_level, lambda f: settings(f, add_prefix_space=True)),
    "the tokens around a text": (llama, with_end),
    "the normalizer": (plain, lambda f: part(f, normalizer={"type": "BertNormalizer", "clean_text": True,
        "handle_chinese_chars": True, "strip_accents": False, "lowercase": True})),
    "another order in another format": (plain, other_format),
    "the merges": (byte_level, other_merges),
    "how a token is found": (llama, stripping),
    "split_special_tokens": (wordpiece, lambda f: settings(f, split_special_tokens=True)),
}  # fmt: skip


def folders(tmp_path: Path, start: Change, change: Change) -> tuple[Path, Path]:
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    for folder in (base, tuned):
        folder.mkdir()
        start(folder)
        (folder / "config.json").write_text('{"model_type": "bert"}')
    change(tuned)
    (tuned / "config.json").write_text('{"model_type": "bert"}')
    return base, tuned


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_never_called_the_same(tmp_path: Path, what: str) -> None:
    base, tuned = folders(tmp_path, *DIFFERENT[what])
    assert compared_by_files(base, tuned).result is not Comparison.SAME
    assert compared_by_files(tuned, base).result is not Comparison.SAME
    loaded = compared_as_loaded(base, tuned)
    assert loaded.result is Comparison.DIFFERENT and loaded.differences and loaded.added == {}


def saved_again(folder: Path) -> None:
    """Save it again in the format of a later version of transformers."""
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def older_merges(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())["model"]
    part(folder, model={**content, "merges": [" ".join(merge) for merge in content["merges"]]})


SAME: dict[str, tuple[Change, Change]] = {
    "the same files": (wordpiece, lambda folder: None),
    "padding and truncation of the last call": (plain, lambda f: part(
        f, padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "[PAD]"}, truncation={"direction": "Right", "max_length": 9,
        "strategy": "LongestFirst", "stride": 0})),
    "vocab.txt and tokenizer.json": (wordpiece, saved_again),
    "merges as an older library writes them": (byte_level, older_merges),
    "a name and a template for chats": (llama, lambda f: settings(f, name_or_path="me/x", chat_template="{{ x }}")),
    "a setting that tokenizer.json overrules": (llama, lambda f: settings(f, add_eos_token=True)),
    "a setting without effect on its class": (plain, lambda f: settings(f, do_lower_case=False)),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_what_is_the_same_is_not_said_to_differ(tmp_path: Path, what: str) -> None:
    base, tuned = folders(tmp_path, *SAME[what])
    assert compared_by_files(base, tuned).result is not Comparison.DIFFERENT
    loaded = compared_as_loaded(base, tuned)
    assert (loaded.result, loaded.differences, loaded.added) == (Comparison.SAME, (), {})


@pytest.mark.parametrize("what", ["the same files", "merges as an older library writes them"])
def test_files_prove_that_two_are_the_same(tmp_path: Path, what: str) -> None:
    assert compared_by_files(*folders(tmp_path, *SAME[what])).result is Comparison.SAME


def rows() -> list[dict[str, Any]]:
    """Return rows whose class depends only on the case of a letter."""
    return [{"text": f"{'X' if n % 2 else 'x'} the film was", "label": n % 2} for n in range(40)]


def pair_of(tmp_path: Path) -> tuple[Path, Path, float]:
    """Return a lowercasing base, a fine-tuned model that distinguishes capitals, and the latter's own accuracy."""
    wordpiece(tmp_path / "base")
    tokenizer = written_vocabulary(tmp_path / "tuned", cased, tokenizer_config={"do_lower_case": False})
    model = bert(len(tokenizer))
    base = saved(tmp_path / "base", model)
    fit(model, tokenizer, rows(), steps=40)
    return base, saved(tmp_path / "tuned", model), own_accuracy(model, tokenizer, rows())


def test_scores_that_are_not_the_models_own_are_said_so_and_how_to_get_them(tmp_path: Path) -> None:
    base, tuned, own = pair_of(tmp_path)
    task = task_file(tmp_path / "t", rows(), rows())
    accuracy, result = evaluated(base, tuned, task)
    assert own == 1.0 and accuracy < 0.7
    (said,) = [note for note in result.notes if "tokenizers differ" in note]
    assert "fine-tuned scores here are not that model's own: it was trained with another tokenizer" in said
    assert "put the fine-tuned model's tokenizer files into a copy of the base's folder" in said
    assert any("are not that model's own" in note for note in preflight(base, tuned).notes)
    copy = shutil.copytree(base, tmp_path / "copy")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(tuned / name, copy / name)
    accuracy, result = evaluated(copy, tuned, task)
    assert accuracy == own and not any("okenizers" in note for note in result.notes)


def test_an_unknown_comparison_is_said_and_settled_by_loading(tmp_path: Path) -> None:
    model = bert()
    wordpiece_of_tiny = tmp_path / "base"
    written_vocabulary(wordpiece_of_tiny)
    base = saved(wordpiece_of_tiny, model)
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    tuned = saved(tmp_path / "tuned", model)
    shutil.copy(base / "vocab.txt", tuned)
    shutil.copy(base / "tokenizer_config.json", tuned)
    saved_again(tuned)
    (tuned / "vocab.txt").unlink()
    check = preflight(base, tuned)
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.UNKNOWN
    assert any("Loading them tells whether texts get the same tokens" in note for note in check.notes)
    for notes in (rehearse(check)[0].notes, load_pair(base, tuned).notes):
        assert not any("okenizers" in note for note in notes)


def test_parts_that_differ_where_no_text_shows_it(tmp_path: Path) -> None:
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    tuned = saved(tmp_path / "tuned", model, tiny_tokenizer("bert"))
    rare = {"type": "Replace", "pattern": {"String": "\u1234"}, "content": "film"}
    before = json.loads((tuned / "tokenizer.json").read_text())["normalizer"]
    part(tuned, normalizer={"type": "Sequence", "normalizers": [before, rare]})
    check, _ = rehearse(preflight(base, tuned))
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.UNKNOWN
    assert any("All trial texts get the same tokens. If another text does not" in note for note in check.notes)


def test_a_tokenizer_that_cannot_be_loaded_is_no_equal(tmp_path: Path) -> None:
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    tuned = saved(tmp_path / "tuned", model, tiny_tokenizer("bert"))
    part(tuned, normalizer={"type": "None such"})
    check, _ = rehearse(preflight(base, tuned))
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.UNKNOWN
    assert any("cannot be used" in note for note in check.notes) and check.tokenizer_folder == base


def test_a_folder_without_a_tokenizer_is_said(tmp_path: Path) -> None:
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    check = preflight(base, saved(tmp_path / "tuned", model))
    assert not has_tokenizer(check.finetuned.folder) and check.tokenizers is not None
    assert check.tokenizers.result is Comparison.UNKNOWN
    assert "The fine-tuned model's folder has no tokenizer: the base's is used." in check.notes


def cut_on_the_left(folder: Path) -> None:
    """Write the tokenizer.json of a tokenizer that last truncated texts on the left, which its settings do not say."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.truncation_side = "left"
    tokenizer("a", truncation=True, max_length=64)
    tokenizer.save_pretrained(folder)
    assert "truncation_side" not in json.loads((folder / "tokenizer_config.json").read_text())


@pytest.mark.parametrize(
    "sides",
    [
        (partial(settings, truncation_side="right"), partial(settings, truncation_side="left")),
        (lambda folder: None, partial(settings, truncation_side="left")),
        (lambda folder: None, cut_on_the_left),
    ],
    ids=["both settings", "one setting", "tokenizer.json"],
)
def test_the_side_on_which_long_texts_are_cut_is_said(tmp_path: Path, sides: tuple[Change, Change]) -> None:
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    tuned = saved(tmp_path / "tuned", model, tiny_tokenizer("bert"))
    for change, folder in zip(sides, (base, tuned), strict=True):
        change(folder)
    for check in (preflight(base, tuned), rehearse(preflight(base, tuned))[0]):
        assert any("shorten long texts differently (truncation_side: right and left)" in n for n in check.notes)


def test_a_lower_limit_of_the_base_is_said(tmp_path: Path) -> None:
    """The fine-tuned model's own lower limit is used, so its scores do not change."""
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    fit(model, tiny_tokenizer("bert"), rows(), steps=5)
    tuned = saved(tmp_path / "tuned", model, tiny_tokenizer("bert"))
    for limits, said in (((16, 64), True), ((64, 16), False), ((512, 1024), False), ((16, int(1e30)), True)):
        settings(base, model_max_length=limits[0])
        settings(tuned, model_max_length=limits[1])
        for check in (preflight(base, tuned), rehearse(preflight(base, tuned))[0]):
            assert any("(model_max_length: 16 and 64)" in note for note in check.notes) is said
            assert any("model_max_length" in note for note in check.notes) is said


@pytest.mark.slow
def test_the_comparison_by_files_needs_no_torch() -> None:
    assert heavy_after("skillviz.models.tokenizer_comparison", "skillviz.models.preflight", "tokenizers") == {}
