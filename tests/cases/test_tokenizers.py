"""Tests of a pair's two tokenizers: same, different or unknown, what is said, and tokens added by fine-tuning, whose
rows stay in the base, the graft and the export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, GPT2Tokenizer

from skillviz.core.comparison import Comparison
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, PairMismatch
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.difference import write_difference
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import has_tokenizer, load_tokenizer, vocabulary
from skillviz.models.tokenizer_comparison import compared_as_loaded, compared_by_files
from skillviz.runs.export import write_mergekit
from tests.cases.build import bert, evaluated, fit, fitted_pair, own_accuracy, saved, task_file, tiny_rows
from tests.models.folders import drop_tokenizer
from tests.test_torch_free import heavy_after
from tests.tiny import AUTO, tiny_config, tiny_tokenizer

SPARE = 16
MARKS = ("covid19", "lockdown2")
Change = Callable[[Path], object]


def tiny_words() -> list[str]:
    """Return the words of the tiny BERT tokenizer by id."""
    ids = tiny_tokenizer("bert").get_vocab()
    return sorted(ids, key=lambda token: ids[token])


def written_vocabulary(folder: Path, change: Callable[[list[str]], Sequence[str]] = list, **files: object) -> Any:
    """Save and load a tokenizer in the old format: vocab.txt, settings, and the other given files."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_bytes("".join(f"{word}\n" for word in change(tiny_words())).encode())
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **files.pop("tokenizer_config", {})}  # type: ignore[dict-item]
    for name, content in {"tokenizer_config": settings, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return AutoTokenizer.from_pretrained(folder)


def settings(folder: Path, **changes: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.is_file() else {}), **changes}))


def content_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "tokenizer.json").read_text())


def part(folder: Path, **changes: Any) -> None:
    (folder / "tokenizer.json").write_text(json.dumps({**content_of(folder), **changes}))


def marked(rows: int = 40) -> list[dict[str, Any]]:
    return [{"text": f"{MARKS[n % 2]} the film was a story", "label": n % 2} for n in range(rows)]


def spare_pair(folder: Path) -> tuple[Path, Path, Any, Any]:
    """Return a pair with spare vocabulary rows, two of them used for new tokens; also the model and its tokenizer."""
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
    check, number = preflight(base, tuned), len(tiny_tokenizer("bert"))
    assert check.tokenizer_folder == tuned and check.added_rows == (number, number + 1)
    (said,) = [note for note in result.notes if "added tokens ('covid19' and 'lockdown2')" in note]
    assert said in check.notes and "2 rows that the base has spare" in said and "also in 'pretrained'" in said
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.SAME


FIRST = len(tiny_words())
FLAGS = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False, "special": False}
PLACES: dict[str, Change] = {
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
@pytest.mark.parametrize("place", PLACES)
def test_added_tokens_are_seen_in_every_file_that_names_them(tmp_path: Path, place: str, is_resized: bool) -> None:
    written_vocabulary(tmp_path / "base")
    tokenizer: Any = PLACES[place](tmp_path / "tuned")
    assert vocabulary(tmp_path / "tuned") == tokenizer.get_vocab()
    model = bert(FIRST + (0 if is_resized else SPARE))
    base = saved(tmp_path / "base", model)
    if is_resized:
        model.resize_token_embeddings(len(tokenizer))
    fit(model, tokenizer, marked(), steps=30)
    tuned = saved(tmp_path / "tuned", model)
    assert own_accuracy(model, tokenizer, marked()) == 1.0
    rehearse(preflight(base, tuned))
    accuracy, result = evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))
    assert accuracy == 1.0 and any("Fine-tuning added tokens" in note for note in result.notes)


UNUSED = ("[unused0]", "[unused1]")


def renamed_pair(folder: Path, swap: dict[str, str], steps: int) -> tuple[Path, Path]:
    """Return a pair that the marks were fitted on, whose second tokenizer has other words for these."""
    written_vocabulary(folder / "base", lambda words: [*words, *UNUSED])
    tokenizer = written_vocabulary(folder / "tuned", lambda words: [swap.get(word, word) for word in (*words, *UNUSED)])
    model = bert(len(tokenizer))
    base = saved(folder / "base", model)
    fit(model, tokenizer, marked(), steps=steps)
    return base, saved(folder / "tuned", model)


def test_unused_tokens_that_became_words(tmp_path: Path) -> None:
    base, tuned = renamed_pair(tmp_path, dict(zip(UNUSED, MARKS, strict=True)), 30)
    assert evaluated(base, tuned, task_file(tmp_path / "t", marked(), marked()))[0] == 1.0
    pair = load_pair(base, tuned)
    with pytest.raises(BadInput, match="its tokenizer is not the base's with tokens added"):
        pair.graft(Region.full(pair.table.shapes))


def test_words_that_became_others_are_another_tokenizer(tmp_path: Path) -> None:
    base, tuned = renamed_pair(tmp_path, {"film": MARKS[0], "story": MARKS[1]}, 5)
    check = preflight(base, tuned)
    assert check.fits and check.tokenizer_folder == base and check.added_rows == ()
    (said,) = [note for note in check.notes if "two tokenizers differ" in note]
    assert "2 tokens that only the base's has, 2 tokens that only the fine-tuned model's has" in said
    assert "fine-tuned scores here are not that model's own" in said


def test_tokens_without_a_row_are_not_used_and_said(tmp_path: Path) -> None:
    """A padding token is only in the tokenizer, so no model can read it."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<pad2>"]})
    base, tuned, _ = fitted_pair(tmp_path, marked(), steps=5)
    check, _ = rehearse(preflight(base, saved(tuned, bert(), tokenizer)))
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
    ids = pair.tokenizer("a [added] film", return_tensors="pt")
    assert pair.added_rows == (number,) and number in ids["input_ids"]
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
    own = [name for name, rows in graft.rows.items() if torch.equal(rows[0], plain[name][number])]
    assert own == [], "the base's own row would do, so this tests nothing"


def test_the_mergekit_folder_has_the_spare_rows_in_both(tmp_path: Path) -> None:
    base, tuned, number = moved_pair(tmp_path, "gpt_neox", "causal")
    pair = load_pair(base, tuned, readout="causal")
    graft = pair.graft(Region.from_flat(np.arange(0, pair.d, 7), pair.table.shapes))
    write_mergekit(tmp_path / "merge", opened_base(base, graft), graft)
    for name in ("base", "graft"):
        state = load_model(tmp_path / "merge" / name, "causal").model.state_dict()
        torch.testing.assert_close(
            {key: state[key][number] for key in graft.rows}, {key: rows[0] for key, rows in graft.rows.items()},
            rtol=0, atol=0,
        )  # fmt: skip


def test_a_run_on_spare_rows_is_its_exported_graft(tmp_path: Path) -> None:
    base, tuned, _, _ = spare_pair(tmp_path)
    task = task_file(tmp_path / "t", marked(), marked())
    pair = load_pair(base, tuned, task=task)
    save_applied(applied(base, pair.graft(Region.full(pair.table.shapes))), tmp_path / "out")
    scores, wanted = (evaluated(base, other, task)[1].scores["test"] for other in (tmp_path / "out", tuned))
    assert scores.states["pretrained"] == wanted.states["pretrained"]


def test_spare_rows_are_refused_in_lean_mode_and_beside_rows_that_are_missing(tmp_path: Path) -> None:
    base, tuned, _ = moved_pair(tmp_path / "lean", "llama", "causal")
    with pytest.raises(BadInput, match="added tokens in vocabulary rows that the base has spare"):
        load_lean(base, tuned, readout="causal")
    base, tuned, _ = moved_pair(tmp_path / "more", "gpt2", "causal", rows_after=1)
    tokenizer = load_tokenizer(tuned)
    tokenizer.add_tokens(["[more]"])
    tokenizer.save_pretrained(tuned)
    with pytest.raises(PairMismatch):
        preflight(base, tuned, readout="causal").raise_first()


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


def wordpiece(folder: Path) -> None:
    """Write vocab.txt and settings, from which transformers builds a BertTokenizer."""
    written_vocabulary(folder, cased)


def plain(folder: Path) -> None:
    """Write a tokenizer.json that is read unchanged."""
    tiny_tokenizer("bert").save_pretrained(folder)


def rebuilt(folder: Path) -> None:
    """Write a tokenizer.json of a class that reads only its vocabulary."""
    plain(folder)
    settings(folder, tokenizer_class="BertTokenizer")


def byte_level(folder: Path) -> None:
    merges = json.loads(tiny_tokenizer("gpt2").backend_tokenizer.to_str())["model"]["merges"]
    vocab = tiny_tokenizer("gpt2").get_vocab()
    GPT2Tokenizer(vocab=vocab, merges=[tuple(merge) for merge in merges]).save_pretrained(folder)


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
    swap = {"film": "good", "good": "film"}
    written_vocabulary(folder, lambda words: [swap.get(word, word) for word in words])


def with_merges(folder: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    model = content_of(folder)["model"]
    part(folder, model={**model, "merges": change(model["merges"])})


def stripping(folder: Path) -> None:
    part(folder, added_tokens=[{**token, "rstrip": True} for token in content_of(folder)["added_tokens"]])


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
    "how a token is found": (llama, stripping),
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
    """Save it again in the format of a later version of transformers."""
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


def rows() -> list[dict[str, Any]]:
    """Return rows whose class depends only on the case of a letter."""
    return [{"text": f"{'X' if n % 2 else 'x'} the film was", "label": n % 2} for n in range(40)]


def test_scores_that_are_not_the_models_own_are_said_so_and_how_to_get_them(tmp_path: Path) -> None:
    """The base lowercases, and the fine-tuned model distinguishes capitals."""
    wordpiece(tmp_path / "base")
    tokenizer = written_vocabulary(tmp_path / "tuned", cased, tokenizer_config={"do_lower_case": False})
    model, task = bert(len(tokenizer)), task_file(tmp_path / "t", rows(), rows())
    base = saved(tmp_path / "base", model)
    fit(model, tokenizer, rows(), steps=40)
    tuned = saved(tmp_path / "tuned", model)
    accuracy, result = evaluated(base, tuned, task)
    assert own_accuracy(model, tokenizer, rows()) == 1.0 and accuracy < 0.7
    (said,) = [note for note in result.notes if "tokenizers differ" in note]
    assert "fine-tuned scores here are not that model's own: it was trained with another tokenizer" in said
    assert "put the fine-tuned model's tokenizer files into a copy of the base's folder" in said
    assert any("are not that model's own" in note for note in preflight(base, tuned).notes)
    copy = shutil.copytree(base, tmp_path / "copy")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(tuned / name, copy / name)
    accuracy, result = evaluated(copy, tuned, task)
    assert accuracy == 1.0 and not any("okenizers" in note for note in result.notes)


def test_an_unknown_comparison_is_said_and_settled_by_loading(tmp_path: Path) -> None:
    base, tuned, _ = fitted_pair(tmp_path, rows(), steps=5)
    for folder in (base, tuned):
        (folder / "tokenizer.json").unlink()
        written_vocabulary(folder)
    saved_again(tuned)
    (tuned / "vocab.txt").unlink()
    check = preflight(base, tuned)
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.UNKNOWN
    assert any("Loading them tells whether texts get the same tokens" in note for note in check.notes)
    assert "okenizers" not in "".join((*rehearse(check)[0].notes, *load_pair(base, tuned).notes))


def rarely_other(folder: Path) -> None:
    """Write a normalizer that changes one rare letter."""
    rare = {"type": "Replace", "pattern": {"String": "\u1234"}, "content": "film"}
    part(folder, normalizer={"type": "Sequence", "normalizers": [content_of(folder)["normalizer"], rare]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rarely_other, "All trial texts get the same tokens. If another text does not"),
        (partial(part, normalizer={"type": "None such"}), "cannot be used"),
        (drop_tokenizer, "The fine-tuned model's folder has no tokenizer: the base's is used."),
    ],
    ids=["parts that differ where no text shows it", "one that cannot be loaded", "none"],
)
def test_what_loading_cannot_compare_stays_unknown_and_is_said(tmp_path: Path, change: Change, said: str) -> None:
    base, tuned, _ = fitted_pair(tmp_path, rows(), steps=5)
    change(tuned)
    check, _ = rehearse(preflight(base, tuned))
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.UNKNOWN
    assert any(said in note for note in check.notes) and check.tokenizer_folder == base
    assert has_tokenizer(tuned) is (change is not drop_tokenizer)


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
    base, tuned, _ = fitted_pair(tmp_path, rows(), steps=5)
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
    assert read is not None and read["last"] == FIRST + 1 == tokenizer.convert_tokens_to_ids("last")
    assert len(read) == len(tokenizer) == FIRST + 2


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
    base = saved(tmp_path / "base", model)
    fit(model, tokenizer, tiny_rows(16), steps=3)
    check = preflight(base, saved(tmp_path / "tuned", model))
    assert check.fits, check.problems
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.SAME


def test_a_vocabulary_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(CorruptFile, match="vocab.txt"):
        vocabulary(tmp_path)
