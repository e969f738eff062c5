"""A slow twin of the examples that parts change, from the definitions, with loops."""

import math


def probability(logits: list[float], label: int) -> float:
    return math.exp(logits[label]) / sum(math.exp(z) for z in logits)


def slow_marks(
    before: list[list[float]], draws: list[list[list[float]]], labels: list[int], least: float
) -> tuple[list[float], list[bool], float, float]:
    """Return one part's changes, its marks, the controls' mean number of marks, and the share above theirs.

    `before` is [example][label] of the model that it is compared with, `draws` [draw][example][label]; draw 0 is the
    part. Without a control, the last two are NaN.
    """
    pairs = [[(probability(z, k) - probability(old, k), old.index(max(old)) != z.index(max(z)))
              for old, z, k in zip(before, logits, labels, strict=True)] for logits in draws]  # fmt: skip
    marks = [[turned or abs(change) >= least for change, turned in draw] for draw in pairs]
    control = sum(map(sum, marks[1:])) / (len(draws) - 1) if len(draws) > 1 else math.nan
    return [change for change, _ in pairs[0]], marks[0], control, (sum(marks[0]) - control) / len(labels)
