"""Make invalid inputs: mutated bytes, mutated JSON and YAML, and values that have broken readers before."""

import json
import struct
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import yaml

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**70, -(2**63), 1e308, float("inf"), float("nan"), "", " ", "\0", "x" * 300,
    "../" * 40, "/etc/passwd", "/dev/zero", "$HOME", "=1+1", "<script>alert(1)</script>",
    "![x](http://host.invalid/x.png)", "\u00e9\u202e", "9" * 5000, [], {}, [[]], [None], {"": None},
    {"a": {"b": {"c": []}}}, "2026-99-99", "key:0", "nan", "-0",
)  # fmt: skip
TEXTS = (
    "!!int x",
    "!!python/object:os.system x",
    "<<: *a",
    "&a [*a]",
    "? [",
    "\t",
    "\ufeff",
    "- - - -",
    "{{{{",
    "\x07",
    "%YAML 9",
)
"""Pieces of text that are inserted into text files."""
DEEP = 3000  # lists within lists

Mutation = Callable[[bytes, np.random.Generator], bytes]


def of_bytes(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the content with some bytes changed, removed, doubled or inserted."""
    data = bytearray(content)
    for _ in range(int(draw.integers(1, 6))):
        at, length = int(draw.integers(0, len(data) + 1)), int(2 ** draw.uniform(0, 8))
        kind = draw.integers(0, 5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(draw.integers(0, 8))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at : at + length] = bytes(length)
        elif kind == 3:
            data[at:at] = draw.integers(0, 256, length, dtype=np.uint8).tobytes()
        else:
            data[at:at] = data[at : at + length]
    return bytes(data)


def of_json(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the JSON with some values replaced by nasty ones, some keys removed, or very deeply nested lists."""
    text = json.dumps(_changed(json.loads(content), draw))
    if draw.random() < 0.1:
        text = text.replace('"', f'"{TEXTS[int(draw.integers(len(TEXTS)))]}', 1)
    if draw.random() < 0.1:
        text = "[" * DEEP + text + "]" * DEEP
    return text.encode("utf-8", "surrogatepass")


def of_yaml(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the YAML with values replaced as in JSON, or pieces of YAML inserted into the text."""
    if draw.random() < 0.5:
        return yaml.safe_dump(_changed(yaml.safe_load(content), draw), allow_unicode=True).encode("utf-8", "replace")
    lines = content.decode().split("\n")
    for _ in range(int(draw.integers(1, 4))):
        lines[int(draw.integers(len(lines)))] += str(TEXTS[int(draw.integers(len(TEXTS)))])
    if draw.random() < 0.1:
        lines.append("deep: " + "[" * DEEP)
    return "\n".join(lines).encode()


def of_safetensors(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the file with its header's JSON or metadata mutated and the length corrected; or with mutated bytes."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    kind = draw.random()
    if kind < 0.3:
        return of_bytes(content, draw)
    metadata = header.get("__metadata__") or {}
    if metadata and kind < 0.8:
        key = list(metadata)[int(draw.integers(len(metadata)))]
        if metadata[key].startswith("{"):
            metadata[key] = of_json(metadata[key].encode(), draw).decode("utf-8", "replace")
    else:
        name = [name for name in header if name != "__metadata__"][int(draw.integers(len(header) - 1))]
        key, values = (
            ("dtype", ("BF16", "F8_E4M3", "I64", "F64", "BOOL", "U8", 7)),
            ("shape", ([], [2**70], [-1], [1, 1], None)),
        )[int(draw.integers(2))]
        header[name][key] = values[int(draw.integers(len(values)))]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def _changed(value: Any, draw: np.random.Generator) -> Any:
    value = deepcopy(value)
    for _ in range(int(draw.integers(1, 4))):
        places = list(_places(value))
        if not places:
            return NASTY[int(draw.integers(len(NASTY)))]
        holder, key = places[int(draw.integers(len(places)))]
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = NASTY[int(draw.integers(len(NASTY)))]
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in nested lists and mappings, as its container and its key."""
    if isinstance(value, dict):
        here = [(value, key) for key in value]
        return here + [place for item in value.values() for place in _places(item)]
    if isinstance(value, list):
        here = [(value, number) for number in range(len(value))]
        return here + [place for item in value for place in _places(item)]
    return []
