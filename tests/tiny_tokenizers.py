"""Tokenizers of the tiny models, built in code: whole words, anything else as letters or bytes.

A word is one token with and without a space before it, so that label words are one token.
"""

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

# The words of each class of tiny_task, and neutral words.
SIGNAL = (
    ("bad", "awful", "dull", "boring"),
    ("good", "lovely", "fresh", "funny"),
    ("fast", "loud", "wild", "quick"),
    ("calm", "quiet", "slow", "soft"),
)
NEUTRAL = ("the", "film", "a", "story", "was", "it", "with", "and", "this", "plot", "actor", "scene")
LABEL_WORDS = ("terrible", "great", "thrilling", "relaxing")
POSITIONS = 64


def words() -> list[str]:
    """Return every word that is one token, in the order of its id."""
    return [w for row in SIGNAL for w in row] + list(NEUTRAL) + list(LABEL_WORDS) + ["It", "yes", "no"]


def tiny_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a family, with that family's own special tokens (gpt2 and llama: no padding)."""
    if kind in ("bert", "distilbert"):
        return _wordpiece(types=kind == "bert")
    return _llama() if kind == "llama" else _byte_level(kind)


def _wordpiece(types: bool) -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    pieces = special + letters + [f"##{c}" for c in letters] + [w.lower() for w in words()]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1" if types else "[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    tokens = {f"{s[1:-1].lower()}_token": s for s in special}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=names, model_max_length=POSITIONS, **tokens
    )


def _spelled(space: str, alphabet: list[str], special: list[str]) -> tuple[dict[str, int], list[Any]]:
    """Return the vocabulary and the merges that spell each word from the left, the form with a space first."""
    merges: list[tuple[str, str]] = []
    for word in [space + w for w in words()] + words():
        merges += [(word[:i], word[i]) for i in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    pieces = dict.fromkeys([*special, *alphabet, *(a + b for a, b in merges)])
    return {piece: i for i, piece in enumerate(pieces)}, merges


def _byte_level(kind: str) -> PreTrainedTokenizerFast:
    special = {
        "gpt2": ["<|endoftext|>"],
        "gpt_neox": ["<|endoftext|>", "<|padding|>"],
        "opt": ["<s>", "<pad>", "</s>", "<unk>"],
        "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    }[kind]
    vocabulary, merges = _spelled("Ġ", sorted(pre_tokenizers.ByteLevel.alphabet()), special)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        mask = AddedToken("<mask>", lstrip=True, special=True)
        tokens: dict[str, Any] = {"mask_token": mask, "cls_token": "<s>", "sep_token": "</s>"}
        tokens |= {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    elif kind == "opt":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="</s> $A", pair="</s> $A </s> $B", special_tokens=[("</s>", 2)]
        )
        tokens = {"bos_token": "</s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "</s>"}
    else:
        tokens = {name: special[0] for name in ("bos_token", "eos_token", "unk_token")}
        tokens |= {"pad_token": special[1]} if len(special) > 1 else {}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=inputs, model_max_length=POSITIONS, **tokens
    )


def _llama() -> PreTrainedTokenizerFast:
    special = ["<unk>", "<s>", "</s>"]
    alphabet = [f"<0x{i:02X}>" for i in range(256)] + ["▁"] + [chr(c) for c in range(33, 127)]
    vocabulary, merges = _spelled("▁", alphabet, special)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
    )
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=inputs, model_max_length=POSITIONS, **tokens
    )
