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
    changes, counts, mine = [], [], []
    for draw, logits in enumerate(draws):
        marked = []
        for old, new, label in zip(before, logits, labels, strict=True):
            change = probability(new, label) - probability(old, label)
            marked.append(old.index(max(old)) != new.index(max(new)) or abs(change) >= least)
            if draw == 0:
                changes.append(change)
        counts.append(sum(marked))
        mine = marked if draw == 0 else mine
    if len(draws) == 1:
        return changes, mine, math.nan, math.nan
    control = sum(counts[1:]) / (len(draws) - 1)
    return changes, mine, control, (counts[0] - control) / len(labels)
