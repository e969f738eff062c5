"""Tokenizers of every kind, built in code: WordPiece, byte-level BPE, Unigram (SentencePiece), Llama's BPE, words."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from skillviz.core.encoded import Encoded
from skillviz.tasks.encode import encode
from tests.tasks.make import frame, made
from tests.tiny import tiny_tokenizer, words

MASKED = ("wordpiece", "bytes", "unigram")
CAUSAL = ("gpt2", "llama", "opt")
POLARITY = "{text} It was <mask>."


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a kind; `unigram` and `words` are not in tests/tiny.py."""
    if kind in OWN:
        return OWN[kind]()
    return tiny_tokenizer({"wordpiece": "bert", "bytes": "roberta"}.get(kind, kind))


def read(tok: Any, readout: str, *texts: Any, limit: int | None = None, **changes: Any) -> Encoded:
    """Return these texts, or pairs of texts, as a tokenizer, or one of this kind, encodes them for the readout."""
    asked = {} if "pair" in changes else {"masked": POLARITY, "causal": "{text} It was"}
    tok = tokenizer(tok) if isinstance(tok, str) else tok
    return encode(made(**{**asked, **changes}), frame(*texts), tok, readout, limit)


def _unigram() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [chr(c) for c in range(33, 127)]
    pieces = [(piece, 0.0) for piece in special] + [("▁", -4.0)] + [(c, -9.0) for c in letters]
    pieces += [("▁" + word, -3.0) for word in words()]
    built = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    built.decoder = decoders.Metaspace()
    built.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("bos_token", "pad_token", "eos_token", "unk_token")
    tokens = dict(zip(names, special, strict=False)) | {"cls_token": "<s>", "sep_token": "</s>"}
    mask = AddedToken("<mask>", lstrip=True, special=True)
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=built, mask_token=mask, model_max_length=64, model_input_names=inputs, **tokens
    )


def _words() -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole lowercase words, joined by spaces when decoded; other words are unknown."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {piece: i for i, piece in enumerate([*special, "what", "answer", ":", "the", "kitchen", "."])}
    built = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    built.normalizer = normalizers.Lowercase()
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ("bos_token", "pad_token", "eos_token", "unk_token")
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=built, model_max_length=64, model_input_names=inputs, **dict(zip(names, special, strict=True))
    )


OWN = {"unigram": _unigram, "words": _words}
