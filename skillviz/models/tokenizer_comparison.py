"""Compare a pair's two tokenizers, which should agree: by their files, without torch, or as loaded.

Equal files prove that two tokenizers are the same. Different files often prove nothing, because transformers builds
most tokenizers from their vocabulary and settings and not from tokenizer.json. The answer is then UNKNOWN until both
are loaded and tried on texts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skillviz.atomic import working_folder
from skillviz.core.comparison import Comparison
from skillviz.core.formats import counted
from skillviz.errors import BadModel, PairMismatch
from skillviz.json_text import read_object
from skillviz.models.tokenizer import (
    ADDED,
    CONFIG,
    FILES,
    SPECIAL,
    SPECIAL_MAP,
    TOKENIZER_FILE,
    has_tokenizer,
    load_tokenizer,
    of_file,
    positions,
    vocabulary,
    with_added_tokens,
)
from skillviz.tasks.encode import refused

TOKENS = (
    "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens",
)  # fmt: skip
"""Settings that name added tokens."""
NO_EFFECT = frozenset((
    *TOKENS,
    "auto_map", "backend", "chat_template", "clean_up_tokenization_spaces", "do_basic_tokenize", "is_local",
    "local_files_only", "max_length", "model_input_names", "model_max_length", "name_or_path", "pad_to_multiple_of",
    "pad_token", "pad_token_type_id", "padding", "padding_side", "processor_class", "special_tokens_map_file", "stride",
    "tokenizer_class", "tokenizer_file", "transformers_version", "truncation", "truncation_side", "truncation_strategy",
    "use_fast", "vocab_file",
))  # fmt: skip
"""Settings without effect on the ids of a text of allowed length, or that are compared as tokens and as classes."""
DECISIVE = frozenset(("add_prefix_space", "do_lower_case", "split_special_tokens", "tokenize_chinese_chars"))
"""Settings that change ids if both folders state different values, in a class of transformers' own."""
PLAIN_NAME = "TokenizersBackend"
PLAIN = frozenset(("", "PreTrainedTokenizer", PLAIN_NAME))
"""Classes that follow tokenizer.json without further settings; their names without "Fast"."""
PARTS = ("normalizer", "pre_tokenizer", "post_processor")
FLAGS = ("lstrip", "normalized", "rstrip", "single_word", "special")
ROLES = tuple(role for role in SPECIAL if role != "pad_token")
NO_LIMIT = 1_000_000
"""A `model_max_length` above this means no limit."""
PLACEHOLDER = re.compile(r"unused|reserved|madeupword|extra|placeholder|dummy", re.IGNORECASE)
"""Names of tokens that vocabularies keep free; their rows may be given to other tokens."""
MOST_TOKENS = 50
TRIALS = (
    "The film was GREAT, and it's funny!", "the film was great", " a space before", "two  spaces   inside", "the end ",
    "", "a", "naïve café Ångström ÉCOLE", "e\u0301 o\u0308 combined", "1234567 3.14 1,000 ½ ①", "x=1; [y] {z} <w> a_b",
    "don't re-do (it)? #tag @user http://a.b/c?d=e", "tabs\tand\nlines\r\nbreak\n\n", "電影很好 日本語 한국어 ไทย",
    "😀 ☃ \u200b\ufeff\u00a0 end", "ﬁne Ｗｉｄｅ ＴＥＸＴ", "İıŞ ΣΑΣ ẞß", "\u2028\x85\x07", "antidisestablishment",
)  # fmt: skip
"""Texts with capitals, accents, spaces, digits, punctuation, line breaks and letters that vocabularies lack."""


@dataclass(frozen=True)
class TokenizerComparison:
    """The comparison of the fine-tuned model's tokenizer with the base's.

    `added` are the tokens, with their ids, that only the fine-tuned model's tokenizer has, if it extends the base's
    (all other tokens keep their ids); `result` then ignores them. `moved` are tokens with another id. `differences`
    names the differences, `cuts` those in truncating long texts. `sizes` are one more than the largest id of each, None
    if there is no tokenizer or its files do not show it. `is_loaded` means that both were loaded and tried.
    """

    result: Comparison
    added: Mapping[str, int] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    sizes: tuple[int | None, int | None] = (None, None)
    is_loaded: bool = False


def compared_by_files(base: Path, finetuned: Path) -> TokenizerComparison:
    """Return the comparison as far as the files show; no torch. UNKNOWN if one folder has no tokenizer."""
    vocabularies = [vocabulary(folder) if has_tokenizer(folder) else None for folder in (base, finetuned)]
    sizes = _sizes(*vocabularies)
    if not (has_tokenizer(base) and has_tokenizer(finetuned)):
        return TokenizerComparison(Comparison.UNKNOWN, sizes=sizes)
    config = base / "config.json"
    one, other = (_Files(folder, folder / "config.json", config) for folder in (base, finetuned))
    cuts = _cuts((one.cut_side, other.cut_side), (one.longest, other.longest))
    added, moved, differences = dict[str, int](), tuple[str, ...](), list[str]()
    if one.bytes != other.bytes or one.named != other.named:
        added, moved, differences = _vocabulary_differences(*vocabularies)
    is_certain = bool(differences) and None not in vocabularies
    differences += _part_differences(one, other)
    is_plain = one.is_plain and other.is_plain
    if is_plain and not added and (example := one.first_other(other)):
        is_certain = True
        differences.append(example)
    keys = sorted((one.settings.keys() | other.settings.keys()) - NO_EFFECT)  # a missing setting equals None
    settings = [key for key in keys if _token(one.settings.get(key)) != _token(other.settings.get(key))]
    stated = {key for key in settings if key in one.settings and key in other.settings}
    is_certain |= bool(stated & DECISIVE) and not is_plain
    stated_in = [(key, *(files.settings.get(key, "not stated") for files in (one, other))) for key in settings]
    differences += [f"{key}: {here} and {there}" for key, here, there in stated_in]
    if one.kind != other.kind:
        differences.append(f"class: {' of '.join(filter(None, one.kind))} and {' of '.join(filter(None, other.kind))}")
    result = Comparison.DIFFERENT if is_certain else Comparison.UNKNOWN if differences else Comparison.SAME
    return TokenizerComparison(result, added, moved, tuple(differences), cuts, sizes)


def compared_as_loaded(base: Path, finetuned: Path) -> TokenizerComparison:
    """Return the comparison of both tokenizers as loaded by transformers, on texts and by their parts.

    DIFFERENT if a text gets other ids; UNKNOWN if parts differ but no text shows it.
    """
    one, other = load_tokenizer(base), load_tokenizer(finetuned)
    vocabularies = one.get_vocab(), other.get_vocab()
    added, moved, differences = _vocabulary_differences(*vocabularies)
    is_certain = bool(differences)
    cuts = _cuts(*zip(*((t.truncation_side, t.model_max_length) for t in (one, other)), strict=True))
    if added:
        try:
            one = with_added_tokens(one, added_to(one, other), {})
        except PairMismatch:  # they replace other tokens, so texts are compared without them
            one = load_tokenizer(base)
    if example := _first_other(one, other):
        is_certain = True
        differences.append(example)
    differences += _loaded_parts(one, other)
    if not (one.is_fast and other.is_fast):
        differences += [part for part in compared_by_files(base, finetuned).differences if part not in differences]
    roles = (one.special_tokens_map, other.special_tokens_map)
    differences += [role for role in ROLES if roles[0].get(role) != roles[1].get(role) and roles[0].get(role)]
    result = Comparison.DIFFERENT if is_certain else Comparison.UNKNOWN if differences else Comparison.SAME
    return TokenizerComparison(result, added, moved, tuple(differences), cuts, _sizes(*vocabularies), is_loaded=True)


def added_tokens(base: Path, finetuned: Path) -> dict[str, Any] | None:
    """Return the changes from the base's tokenizer to the other: added `tokens` by id, and the special ones' `roles`.

    None if the base has no tokenizer, or if the two are not known to be the same otherwise.
    """
    if not has_tokenizer(base):
        return None
    one, other = load_tokenizer(base), load_tokenizer(finetuned)
    roles, before = other.special_tokens_map, one.special_tokens_map
    tokens = added_to(one, other)
    roles = {role: roles[role] for role in SPECIAL if role in roles and roles[role] != before.get(role)}
    with working_folder() as folder:
        try:
            with_added_tokens(one, tokens, roles).save_pretrained(folder)
        except PairMismatch:
            return None
        same = compared_as_loaded(folder, finetuned)
    return {"tokens": tokens, "roles": roles} if same.result is Comparison.SAME and not same.added else None


def added_to(one: Any, other: Any) -> list[dict[str, Any]]:
    """Return the tokens, with ids and flags, that were added to `other` and that `one` does not have."""
    known = one.get_vocab()
    return [
        {"id": number, **token.__getstate__()}
        for number, token in sorted(other.added_tokens_decoder.items())
        if token.content not in known
    ]


class _Files:
    """The files of a tokenizer's folder: their bytes, its settings, its class, and tokenizer.json parsed."""

    def __init__(self, folder: Path, *configs: Path) -> None:
        self.folder = folder
        names = sorted({name for names in FILES for name in names})
        self.bytes = {name: (folder / name).read_bytes() for name in (*names, ADDED) if (folder / name).is_file()}
        config, special, model = (  # of the first existing file, since an adapter may have no configuration
            next((read_object(path) for path in paths if path.is_file()), {})
            for paths in ((folder / CONFIG,), (folder / SPECIAL_MAP,), configs)
        )
        self.settings: dict[str, Any] = {**special, **config}
        self.named = {key: self.settings[key] for key in TOKENS if self.settings.get(key)}
        self.kind = (_class(self.settings.get("tokenizer_class"), model), str(model.get("model_type") or ""))

    @property
    def is_plain(self) -> bool:
        """True if the loaded tokenizer follows tokenizer.json."""
        return self.kind[0] in PLAIN and TOKENIZER_FILE in self.bytes

    @cached_property
    def content(self) -> dict[str, Any]:
        """tokenizer.json, which may have tens of megabytes."""
        return read_object(self.folder / TOKENIZER_FILE)

    @property
    def cut_side(self) -> str:
        """The side on which long texts are truncated: from the settings, tokenizer.json, or transformers' default."""
        if side := self.settings.get("truncation_side"):
            return str(side)
        cut = self.content.get("truncation") if TOKENIZER_FILE in self.bytes else None
        return str(cut.get("direction") or "right").lower() if isinstance(cut, dict) else "right"

    @property
    def longest(self) -> float:
        """The tokens of the longest input, as it will be once loaded; infinite if no file says it."""
        stated = self.settings.get("model_max_length")
        rows = positions(self.folder)
        return min(stated if isinstance(stated, int | float) else math.inf, math.inf if rows is None else rows)

    def first_other(self, other: _Files) -> str:
        """Return a test text whose ids differ between the two tokenizer.json files, in words; empty for none."""
        try:
            two = [of_file(files.folder) for files in (self, other)]
            with refused(self.folder):
                unequal = (text for text in TRIALS if len({tuple(t.encode(text).ids) for t in two}) > 1)
                return next((_example(text) for text in unequal), "")
        except BadModel:  # loading the tokenizer reports the reason
            return ""


def _class(name: Any, model: Mapping[str, Any]) -> str:
    """Return a tokenizer's class without "Fast"; if none is named, transformers' class for the model's type."""
    found = str(name or model.get("tokenizer_class") or "").removesuffix("Fast")
    if found in PLAIN and found:
        return PLAIN_NAME
    if found.removesuffix("Tokenizer").lower() == re.sub(r"\W|_", "", str(model.get("model_type") or "")):
        return "of the model's type"
    return found or ("of the model's type" if model.get("model_type") else "")


def _token(value: Any) -> Any:
    """Return a setting for the comparison: of a special token its text, since flags are compared as added tokens."""
    return value["content"] if isinstance(value, dict) and "content" in value else value


def _vocabulary_differences(
    one: Mapping[str, int] | None, other: Mapping[str, int] | None
) -> tuple[dict[str, int], tuple[str, ...], list[str]]:
    """Return the tokens that extend the first vocabulary, the tokens with another id, and the differences in words."""
    if one is None or other is None:
        return {}, (), ["vocabulary"]
    new = {t: number for t, number in sorted(other.items(), key=lambda item: item[1]) if t not in one}
    lost = [token for token in one if token not in other]
    moved = tuple(token for token, number in one.items() if other.get(token, number) != number)
    if not moved and all(PLACEHOLDER.search(token) for token in lost):
        return new, (), []
    sides = (("only the base's has", lost), ("only the fine-tuned model's has", new), ("have another id", moved))
    found = [f"{counted(len(tokens), 'token')} that {which}" for which, tokens in sides[:2] if tokens]
    found += [f"{counted(len(moved), 'token')} of another id"] if moved else []
    return {}, moved, [f"vocabulary: {', '.join(found)}"]


def _part_differences(one: _Files, other: _Files) -> list[str]:
    """Return the names of differing files, or of differing parts of tokenizer.json, without the vocabulary."""
    if one.bytes.keys() != other.bytes.keys() and (TOKENIZER_FILE in one.bytes) != (TOKENIZER_FILE in other.bytes):
        return ["format of the files"]
    if TOKENIZER_FILE not in one.bytes:
        names = sorted(one.bytes.keys() | other.bytes.keys() - {ADDED, "vocab.txt", "vocab.json"})
        return [name for name in names if one.bytes.get(name) != other.bytes.get(name)]
    if one.bytes[TOKENIZER_FILE] == other.bytes[TOKENIZER_FILE]:
        return [] if one.named == other.named else _flag_differences(_flags(one), _flags(other))
    parts = [_canonical(files.content) for files in (one, other)]
    return [name for name in parts[0] if parts[0][name] != parts[1][name]] + _flag_differences(
        _flags(one), _flags(other)
    )


def _flags(files: _Files) -> dict[str, Any]:
    """Return added token -> its flags, from the settings if they have any, otherwise from tokenizer.json."""
    tokens = (files.named.get("added_tokens_decoder") or {}).values() or files.content.get("added_tokens") or ()
    return {str(token["content"]): {flag: bool(token.get(flag)) for flag in FLAGS} for token in tokens}


def _flag_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the first token that both have but match differently, for example with a space before it."""
    unequal = sorted(token for token in one.keys() & other.keys() if one[token] != other[token])
    return [f"how the token '{unequal[0]}' is found"] if unequal else []


def _canonical(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a tokenizer.json as written by the library, so that versions that omit defaults are equal."""
    from tokenizers import Tokenizer  # slow to import

    empty = {"model": {"type": "WordLevel", "vocab": {}, "unk_token": ""}, "added_tokens": []}
    plain = {part: content.get(part) for part in PARTS}
    with suppress(BadModel), refused("tokenizer.json"):  # if it fails, the parts are compared as they are written
        written = Tokenizer.from_str(json.dumps({**content, **empty, "padding": None, "truncation": None})).to_str()
        plain = {part: json.loads(written)[part] for part in PARTS}
    return {**plain, "model": _model(content.get("model"))}


def _model(model: Any) -> Any:
    """Return a tokenizer's model without its vocabulary and unset values, with merges in one format."""
    if not isinstance(model, dict):
        return model
    rest = {key: value for key, value in model.items() if value not in (None, False, "")}
    if isinstance(rest.get("vocab"), dict):
        del rest["vocab"]  # compared separately
    if isinstance(rest.get("merges"), list):
        rest["merges"] = [merge if isinstance(merge, str) else " ".join(map(str, merge)) for merge in rest["merges"]]
    return rest


def _loaded_parts(one: Any, other: Any) -> list[str]:
    """Return the names of the parts that differ in two loaded tokenizers, without vocabulary and added tokens."""
    if not (one.is_fast and other.is_fast):
        return [] if type(one) is type(other) else [f"class: {type(one).__name__} and {type(other).__name__}"]
    backends = one.backend_tokenizer, other.backend_tokenizer
    found = [part for part in PARTS if len({_state(getattr(backend, part)) for backend in backends}) > 1]
    models = [_model(json.loads(_state(backend.model))) for backend in backends]
    flags = [{str(t): t.__getstate__() for t in tokenizer.added_tokens_decoder.values()} for tokenizer in (one, other)]
    return [*found, *(["model"] if models[0] != models[1] else []), *_flag_differences(*flags)]


def _state(part: Any) -> bytes:
    return b"" if part is None else bytes(part.__getstate__())


def _first_other(one: Any, other: Any) -> str:
    """Return a test text, alone or in a pair, that the two turn into different inputs, in words; empty for none."""
    shared = sorted(one.get_vocab().keys() & {str(token) for token in other.added_tokens_decoder.values()})
    more = [f"a{token}b {token} c {token.lower()}" for token in shared[:MOST_TOKENS]]
    texts = [*TRIALS, *more]
    for columns in ((texts,), (texts, texts[::-1])):
        inputs = [dict(t(*columns, return_attention_mask=False, verbose=False)) for t in (one, other)]
        for number, text in enumerate(texts):
            if len({str([column[number] for _, column in sorted(kind.items())]) for kind in inputs}) > 1:
                return _example(text)
    return ""


def _example(text: str) -> str:
    return f"the tokens of {text!r}"


def _cuts(sides: tuple[str, str], limits: tuple[float, float]) -> tuple[str, ...]:
    """Return the differences in truncating long texts, as words.

    A limit counts only if the base's is lower; otherwise the fine-tuned model's own limit is used anyway.
    """
    side = [f"truncation_side: {sides[0]} and {sides[1]}"] if sides[0] != sides[1] else []
    is_lower = limits[0] < limits[1] < NO_LIMIT
    return (*side, *([f"model_max_length: {limits[0]} and {limits[1]}"] if is_lower else []))


def _sizes(*vocabularies: Mapping[str, int] | None) -> tuple[int | None, int | None]:
    one, other = (None if ids is None else 1 + max(ids.values(), default=-1) for ids in vocabularies)
    return one, other
