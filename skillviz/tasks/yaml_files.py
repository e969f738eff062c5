"""Read untrusted YAML files: the safe loader, with limits on size, depth and the expansion of merges."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from skillviz.errors import BadInput
from skillviz.regular_file import read_text

MOST_PAIRS = 100_000
"""Limit on the pairs of all mappings together, with the pairs that merges (`<<`) bring counted at each merge."""
MOST_NODES = 100_000
"""Limit on keys, values, lists and mappings as written: reading this many takes some seconds."""
MERGE = "tag:yaml.org,2002:merge"


class TextLoader(yaml.SafeLoader):
    """The safe loader, reading every plain scalar as text (`No`, `2:00:00`) except `null`."""

    named: ClassVar[tuple[str, ...]] = ()
    """Keys that an error may name."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping; raises an error if a key is given twice, instead of silently keeping the last value."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                what = f"the key {key.value}" if key.value in self.named else "a key"
                raise yaml.constructor.ConstructorError(None, None, f"{what} is given twice", key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)


TextLoader.yaml_implicit_resolvers = {
    first: resolvers
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    if (resolvers := [row for row in rows if row[0].endswith((":null", ":merge"))])
}


def read_yaml(path: Path, name: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The content of a YAML file, None for an empty one.

    Raises BadInput, which refers to the file as `name`, if it cannot be read. The message holds no text of the file: on
    a page, the user who names a file may not be its owner.
    """
    try:
        return parsed(read_text(path), loader)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except yaml.MarkedYAMLError as error:
        reason = _problem(error)
    except yaml.YAMLError:
        reason = "it holds a character that YAML does not allow"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # from a scalar with a tag (`!!int x`, `2026-99-99`), or from `parsed`
        reason = str(error) if isinstance(error, _TooMuch) else "a value does not match its tag"
    raise BadInput(f"{name} cannot be read as YAML: {reason}.") from None


def parsed(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The content of a YAML text; raises yaml.YAMLError, ValueError or RecursionError."""
    reader = loader(text)
    compose, count = reader.compose_node, itertools.count(1)

    def counted(parent: Any, index: Any) -> Any:
        if next(count) > MOST_NODES:
            raise _TooMuch(f"it holds more than {MOST_NODES:,} values; write less, or several files")
        return compose(parent, index)

    reader.compose_node = counted  # type: ignore[method-assign]
    try:
        node = reader.get_single_node()
        if node is None:
            return None
        _refuse_unfolding(node)
        return reader.construct_document(node)
    finally:
        reader.dispose()


class _TooMuch(ValueError):
    """Raised if a file exceeds a limit."""


def _refuse_unfolding(root: yaml.Node) -> None:
    """Raises _TooMuch if merges expand to more than MOST_PAIRS: thirty nested ones are a thousand million."""
    pairs: dict[int, int] = {}

    def unfolded(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise _TooMuch("a merge (<<) holds itself")
        if id(node) not in pairs:
            inside = above | {id(node)}
            if isinstance(node, yaml.MappingNode):
                merged = [value for key, value in node.value if key.tag == MERGE]
                pairs[id(node)] = len(node.value) + sum(unfolded(value, inside) for value in merged)
            elif isinstance(node, yaml.SequenceNode):
                pairs[id(node)] = sum(unfolded(value, inside) for value in node.value)
            else:
                pairs[id(node)] = 0
        return pairs[id(node)]

    waiting, seen = [root], {id(root)}
    total = 0
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode):
            continue
        if isinstance(node, yaml.MappingNode):
            total += unfolded(node, frozenset())
            if total > MOST_PAIRS:
                raise _TooMuch(f"its merges (<<) expand to more than {MOST_PAIRS:,} values")
            children = [part for pair in node.value for part in pair]
        else:
            children = node.value
        waiting += [child for child in children if id(child) not in seen]
        seen |= {id(child) for child in children}


def _problem(error: yaml.MarkedYAMLError) -> str:
    """The problem and its line; quotes from the file are left out."""
    mark = error.problem_mark or error.context_mark
    words = re.sub(r"\s*('[^']*'|\"[^\"]*\"|b'.*)", "", str(error.problem or "it is not YAML"))
    return f"{words} in line {mark.line + 1}" if mark is not None else words
