"""Read untrusted YAML files: the safe loader, with limits on bytes, values and depth."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from skillviz.errors import BadInput
from skillviz.regular_file import bounded_text, read_text

MOST_VALUES = 100_000
"""Limit on keys, values, lists and mappings; those that an alias (`*name`) or a merge (`<<`) repeats count again."""
MOST_DEPTH = 100


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


def read_yaml(file: Path | bytes, name: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The content of a YAML file, or of an uploaded file's bytes; None for an empty one.

    Raises BadInput, which refers to the file as `name`, if it cannot be read. The message holds no text of the file: on
    a page, the user who names a file may not be its owner.
    """
    try:
        return parsed(bounded_text(file, name) if isinstance(file, bytes) else read_text(file), loader)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except yaml.MarkedYAMLError as error:
        reason = _problem(error)
    except yaml.YAMLError:
        reason = "it holds a character that YAML does not allow"
    except ValueError as error:  # also from a scalar with a tag (`!!int x`, `2026-99-99`)
        reason = str(error) if isinstance(error, TooMuch) else "a value does not match its tag"
    raise BadInput(f"{name} cannot be read as YAML: {reason}.") from None


def parsed(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The content of a YAML text; raises yaml.YAMLError, or ValueError: TooMuch if it exceeds a limit."""
    reader = loader(text)
    compose, count = reader.compose_node, itertools.count(1)

    def counted(parent: Any, index: Any) -> Any:
        if next(count) > MOST_VALUES:
            raise TooMuch(TOO_MANY)
        return compose(parent, index)

    reader.compose_node = counted  # type: ignore[method-assign]
    try:
        node = reader.get_single_node()
        if node is None:
            return None
        values, depth = _extent(node, {})
        if values > MOST_VALUES:
            raise TooMuch(TOO_MANY)
        if depth > MOST_DEPTH:
            raise TooMuch(TOO_DEEP)
        return reader.construct_document(node)
    except RecursionError:
        raise TooMuch(TOO_DEEP) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # the safe loader's own, at a tag
        raise ValueError("a value does not match its tag") from error
    finally:
        reader.dispose()


class TooMuch(ValueError):
    """Raised if a YAML text exceeds a limit, with the reason."""


TOO_MANY = f"it holds more than {MOST_VALUES:,} values; write less, or several files"
TOO_DEEP = "it is nested too deeply"


def _extent(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The values and the depth of a node with its aliases and merges written out: thirty nested merges of two are a
    thousand million. `known` has the extents of nodes by id; raises TooMuch for a node inside itself."""
    if id(node) not in known:
        known[id(node)] = -1, 0  # while its parts are counted
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = [part for pair in parts for part in pair] if isinstance(node, yaml.MappingNode) else parts
        extents = [_extent(part, known) for part in flat]
        known[id(node)] = 1 + sum(values for values, _ in extents), 1 + max((depth for _, depth in extents), default=0)
    if known[id(node)][0] < 0:
        raise TooMuch("it refers to itself, by an alias (*name) or a merge (<<)")
    return known[id(node)]


def _problem(error: yaml.MarkedYAMLError) -> str:
    """The problem and its line; quotes from the file are left out."""
    mark = error.problem_mark or error.context_mark
    words = re.sub(r"\s*('[^']*'|\"[^\"]*\"|b'.*)", "", str(error.problem or "it is not YAML"))
    return f"{words} in line {mark.line + 1}" if mark is not None else words
