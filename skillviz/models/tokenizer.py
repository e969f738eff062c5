"""The tokenizer of a model's folder: facts from its files without loading it, checks for a task, and loading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz.core.architectures import family_of
from skillviz.core.encoded import Encoded
from skillviz.core.formats import counted
from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch
from skillviz.json_text import read_object
from skillviz.models.checkpoint import ModelInfo
from skillviz.regular_file import LONGEST_JSON, read_text
from skillviz.tasks.encode import encode, refused
from skillviz.tasks.task import USUAL_LENGTH, Task
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids

TOKENIZER_FILE = "tokenizer.json"
# Each of these sets of files is sufficient for a tokenizer.
FILES = (
    (TOKENIZER_FILE,),
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
)
BESIDE = CONFIG, SPECIAL_MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
"""Files beside the vocabulary: settings, and special and added tokens as named by older versions of transformers."""

OVERRULED = (
    ("normalizer", "lowercase", "do_lower_case"),
    ("normalizer", "strip_accents", "strip_accents"),
    ("normalizer", "handle_chinese_chars", "tokenize_chinese_chars"),
    ("pre_tokenizer", "add_prefix_space", "add_prefix_space"),
)
"""Part and key of a tokenizer.json, and the name of the same setting in tokenizer_config.json."""
SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
MOST_GROWTH = 1_000
"""The maximum factor by which a normalizer may lengthen a text; those of known models replace a letter by one."""
TRIAL = "A trial: é ☃ 😀 123."
"""A test text for a loaded tokenizer, with letters that vocabularies have and letters that they lack."""
MAX_LENGTH = "skillviz_max_length"
"""The field of config.json with the longest input, in tokens, of a model's fine-tuning or a graft."""
POSITION_TABLE = re.compile(
    r"(^|(?<!entity_embeddings)\.)(\w*position_embeddings|embed_positions|positions_embed|wpe)$"
)
"""Modules that hold a vector for each position in a text."""


def has_tokenizer(folder: Path) -> bool:
    """True if the folder has the files of a tokenizer."""
    return any(all((folder / name).is_file() for name in names) for names in FILES)


def vocabulary(folder: Path) -> dict[str, int] | None:
    """Return token -> id of the folder's tokenizer, including added tokens, as transformers numbers them.

    None if its files do not show it. An added token that is named only in a file beside tokenizer.json gets the next
    free id, even if that file gives another.
    """
    if (path := folder / TOKENIZER_FILE).is_file():
        state = path.stat()
        ids = dict(_ids(path, state.st_mtime_ns, state.st_size))
    elif (path := folder / "vocab.txt").is_file():
        # split only at line feeds: in a vocabulary made from web pages, U+2028 or U+0085 is a token
        with _named_tokens(path):
            lines = read_text(path, LONGEST_JSON).removesuffix("\n").split("\n")
        ids = {token.rstrip(): number for number, token in enumerate(lines)}
    elif (path := folder / "vocab.json").is_file():
        ids = _checked(read_object(path), path)
    else:
        return None
    for token in _named_beside(folder):
        if token not in ids:
            ids[token] = 1 + max(ids.values(), default=-1)
    return ids


@lru_cache(maxsize=4)  # one preflight calls it several times, and some files have tens of megabytes
def _ids(path: Path, changed: int, size: int) -> dict[str, int]:
    """Return token -> id of a tokenizer.json."""
    content = read_object(path)
    with _named_tokens(path):
        pieces = (content.get("model") or {}).get("vocab") or {}
        # unigram models list [piece, score]; the others map piece to id
        ids = {one[0]: k for k, one in enumerate(pieces)} if isinstance(pieces, list) else dict(pieces)
        added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
        return _checked(ids | added, path)


def _named_beside(folder: Path) -> list[str]:
    """Return the tokens named in the files beside the vocabulary, in the order in which transformers adds them."""
    config, special, added = (
        read_object(path) if (path := folder / name).is_file() else {} for name in (CONFIG, SPECIAL_MAP, ADDED)
    )
    with _named_tokens(folder / CONFIG):
        decoder = config.get("added_tokens_decoder") or {}
        if decoder:  # then transformers reads neither of the older files
            special, numbers = {}, {_content(token): int(number) for number, token in decoder.items()}
        else:
            numbers = {str(token): int(number) for token, number in added.items()}
        tokens = sorted(numbers, key=lambda token: numbers[token])
        for named in (config, special):
            tokens += [_content(named[role]) for role in SPECIAL if named.get(role)]
            for key in ("additional_special_tokens", "extra_special_tokens"):
                more = named.get(key) or []
                tokens += [_content(token) for token in (more.values() if isinstance(more, dict) else more)]
        return tokens


def _content(token: Any) -> str:
    """Return the text of a token, which files give alone or with its flags."""
    return str(token["content"] if isinstance(token, dict) else token)


def _checked(ids: Mapping[str, Any], path: Path) -> dict[str, int]:
    with _named_tokens(path):
        return {str(token): int(number) for token, number in ids.items()}


@contextmanager
def _named_tokens(path: Path) -> Iterator[None]:
    """Turn every Python error caused by an invalid vocabulary into CorruptFile."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise CorruptFile(f"{path} has a vocabulary that is none of tokens and ids; fetch or save it again.") from error


def load_tokenizer(folder: Path) -> Any:
    """Return the folder's tokenizer with a padding token (the end-of-text token if it has none of its own).

    Its `model_max_length` is never above the number of positions in the folder's config.json.
    """
    if not has_tokenizer(folder):
        raise ModelNotFound(f"'{folder}' has no tokenizer (tokenizer.json or vocab.txt); copy its model's files there.")
    _refuse_growth(folder)
    from transformers import AutoTokenizer  # takes seconds to import, and is not needed to read the files

    with refused(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        if (rows := positions(folder)) is not None:
            tokenizer.model_max_length = min(tokenizer.model_max_length, rows)
        tokenizer(TRIAL)
    return tokenizer


def saved_length(folder: Path) -> int | None:
    """Return the tokens to which texts are truncated by the folder's tokenizer.json; None if it does not say.

    It was set by the last call before saving, perhaps the fine-tuning's. transformers ignores it.
    """
    cut = read_object(folder / TOKENIZER_FILE).get("truncation") if (folder / TOKENIZER_FILE).is_file() else None
    length = cut.get("max_length") if isinstance(cut, dict) else None
    return length if isinstance(length, int) else None


def _refuse_growth(folder: Path) -> None:
    """Raise BadModel if the normalizer could make a text many times as long."""
    if not (folder / TOKENIZER_FILE).is_file():
        return
    steps, longer = [read_object(folder / TOKENIZER_FILE).get("normalizer")], 1
    while steps:
        step = steps.pop()
        if isinstance(step, dict):
            nested = step.get("normalizers")
            steps += nested if isinstance(nested, list) else []
            texts = [step[key] for key in ("content", "prepend") if isinstance(step.get(key), str)]
            longer *= max([1, *map(len, texts)])
    if longer > MOST_GROWTH:
        raise BadModel(
            f"the normalizer in the tokenizer.json of '{folder}' can make a text {longer:,} times as long; at most "
            f"{MOST_GROWTH:,} times is allowed: use the tokenizer of the model's base."
        )


def with_added_tokens(tokenizer: Any, tokens: Sequence[Mapping[str, Any]], roles: Mapping[str, str]) -> Any:
    """Return the tokenizer with these tokens from `added_tokens`; raises PairMismatch if one gets another id."""
    from tokenizers import AddedToken  # slow to import

    for token in tokens:
        fields = {name: value for name, value in token.items() if name != "id"}
        tokenizer.add_tokens([AddedToken(**fields)], special_tokens=bool(fields.get("special")))
        if tokenizer.convert_tokens_to_ids(token["content"]) != token["id"]:
            raise PairMismatch(
                f"the added token '{token['content']}' would not have the id {token['id']:,} in this base's tokenizer; "
                "use the base that the graft was made for."
            )
    for role in SPECIAL:
        if role in roles:
            setattr(tokenizer, role, roles[role])
    return tokenizer


def fit_together(model: Any, tokenizer: Any) -> None:
    """Give both the same padding id, and set the tokenizer's maximum length from the model's positions.

    The padding id is the model's own if its configuration has one, otherwise the tokenizer's. Llama's and GPT-2's heads
    read the last token that is not padding. With another id, a text that ends with the tokenizer's padding token would
    be read at another position.
    """
    own = model.config.pad_token_id
    if isinstance(own, int) and 0 <= own < len(tokenizer) and (token := tokenizer.convert_ids_to_tokens(own)):
        tokenizer.pad_token = token
    model.config.pad_token_id = tokenizer.pad_token_id
    tokenizer.model_max_length = min([tokenizer.model_max_length, *places(model)])


def places(model: Any) -> Iterator[int]:
    """Yield the number of tokens that fit into each of the model's learned position tables.

    RoBERTa's relatives count positions from their padding id on, which their table knows; BART's count from an offset.
    So the table has more rows than a text may have tokens.
    """
    for name, module in model.named_modules():
        if POSITION_TABLE.search(name) and getattr(module, "weight", None) is not None:
            padding = getattr(module, "padding_idx", None)
            first = getattr(module, "offset", 0) if padding is None else padding + 1
            yield len(module.weight) - first


def usual_length(finetuned: ModelInfo) -> int:
    """Return the longest input in tokens for a task that states none.

    It is the fine-tuning's if the model's folder has it, otherwise the tokenizer's, and at most USUAL_LENGTH.
    """
    if (known := finetuned.config.get(MAX_LENGTH)) is not None:
        return int(known)
    path = finetuned.folder / "tokenizer_config.json"
    most = read_object(path).get("model_max_length") if path.is_file() else None
    return int(min(most, USUAL_LENGTH)) if isinstance(most, int | float) and most >= 4 else USUAL_LENGTH


def encoded_for(finetuned: ModelInfo, task: Task, frame: pd.DataFrame, tokenizer: Any, readout: str) -> Encoded:
    """Return a task's examples for a pair's tokenizer, within the limits of the task, the fine-tuning and the model.

    There is a note if the task states no length and the fine-tuned tokenizer was saved with a shorter one.
    """
    stated = task.limit(readout)
    encoded = encode(task, frame, tokenizer, readout, stated or usual_length(finetuned))
    saved = None if stated else saved_length(finetuned.folder)
    long = int((encoded.lengths > saved).sum()) if saved else 0
    if not long:
        return encoded
    note = (
        f"{long:,} of {counted(len(encoded), 'text')} {'has' if long == 1 else 'have'} more than {saved:,} tokens, "
        "the length with which the fine-tuned model's tokenizer was saved. If it was fine-tuned with that length, "
        f"write 'max_length: {saved}' into the task file."
    )
    return replace(encoded, notes=(*encoded.notes, note))


def words_problem(task: Task, readout: str, folder: Path) -> str:
    """Return the reason, as a sentence, why the readout cannot be used with this task and tokenizer; empty if it can.

    A tokenizer without tokenizer.json, or with other settings beside it, is not checked here; loading it will show.
    """
    try:
        if readout == "head":
            return ""
        template, words = task.wording(readout)
        if readout == "prompt" and (folder / TOKENIZER_FILE).is_file() and not _is_overruled(folder):
            word_ids(task, parse(template, task.text), words, _light_of(folder))
    except (BadInput, BadModel) as error:
        return str(error.args[0])
    return ""


def most_tokens(answers: Sequence[str], folder: Path) -> int | None:
    """Return the tokens of the longest of these answers, with its end token; None without tokenizer.json."""
    if not (folder / TOKENIZER_FILE).is_file():
        return None
    tokenizer = _light_of(folder)
    return max(len(tokenizer(f" {answer}")["input_ids"]) for answer in answers) + 1


def _is_overruled(folder: Path) -> bool:
    """True if a setting of the folder differs from its tokenizer.json; most classes then use the setting."""
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    content = read_object(folder / TOKENIZER_FILE)
    for part, key, setting in OVERRULED:
        stated = (content.get(part) or {}).get(key)
        if None not in (stated, config.get(setting)) and stated != config[setting]:
            return True
    return False


def _light_of(folder: Path) -> _LightTokenizer:
    return _light(folder, (folder / TOKENIZER_FILE).stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _light(folder: Path, changed: int) -> _LightTokenizer:
    """Return the tokenizer of a file; `changed`, its time, is part of the cache key."""
    return _LightTokenizer(folder)


def of_file(folder: Path) -> Any:
    """Return the tokenizer of the folder's tokenizer.json alone, without padding and truncation; raises BadModel.

    The file keeps both from the last call before it was saved, and transformers ignores them too.
    """
    _refuse_growth(folder)
    from tokenizers import Tokenizer  # slow to import

    with refused(folder):
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        tokenizer.no_padding()
        tokenizer.no_truncation()
    return tokenizer


class _LightTokenizer:
    """The parts of a tokenizer that `word_ids` needs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tokenizer = folder, of_file(folder)
        with refused(folder):
            unknown = getattr(self.tokenizer.model, "unk_token", None)
            self.unk_token_id = self.tokenizer.token_to_id(unknown) if unknown else None

    def __call__(self, text: str, **ignored: Any) -> dict[str, list[int]]:
        with refused(self.folder):
            return {"input_ids": self.tokenizer.encode(text, add_special_tokens=False).ids}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(self.tokenizer.id_to_token(number)) for number in ids]


def positions(folder: Path) -> int | None:
    """Return the rows of the position table of the folder's model; None if its configuration does not say."""
    config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    if family_of(str(config.get("model_type"))).without_end:
        return None
    return next((int(config[key]) for key in POSITIONS if isinstance(config.get(key), int)), None)
