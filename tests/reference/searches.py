"""Slow twins of the iterative localizers: lists, sets and dictionaries, one entry at a time, float32 where they use
it; and the linearized localizer's convex problem, from its definition and by brute force, in float64.

`gradient(theta, rows)` gives the loss and its gradient [d]; `draws` has the rows of each step.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from tests.reference.gradient import PlainModel

Gradient = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]
F = np.float32


def slow_top(scores: Sequence[float], k: int) -> list[int]:
    """The k best, best first; ties go to the earlier one."""
    return [i for _, i in sorted((-float(score), i) for i, score in enumerate(scores))][:k]


def slow_equal_shares(distance: Sequence[Sequence[float]], k: int) -> list[int]:
    """The k entries of all tensors with the smallest rank over their tensor's entries, unmoved ones last."""
    ranked, start = list[tuple[bool, float, int]](), 0
    for tensor in distance:
        for rank, entry in enumerate(slow_top(tensor, len(tensor))):
            ranked.append((tensor[entry] == 0, (rank + 0.5) / len(tensor) if tensor[entry] else 0.0, start + entry))
        start += len(tensor)
    return [entry for _, _, entry in sorted(ranked)][:k]


def slow_moved_top(scores: Sequence[float], movement: Sequence[float], k: int) -> list[int]:
    """The k best moved entries, best first, followed by unmoved ones, by index."""
    return sorted(slow_top(scores, len(scores)), key=lambda i: i + 1 if movement[i] == 0 else 0)[:k]


def slow_candidates(tau: np.ndarray, share: float, size: int) -> list[int]:
    """The largest movers, in index order: a share of all, at least twice the size; unmoved ones only if fewer than
    the size moved."""
    count = min(len(tau), max(round(share * len(tau)), 2 * size))
    count = min(count, max(size, sum(1 for movement in tau if movement != 0)))
    return sorted(slow_top(np.abs(tau).tolist(), count))


def slow_gains(grad: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """-g tau, one rounding to float32."""
    return -(grad.astype(F) * tau.astype(F))


def exchanged(
    members: set[int], score: dict[int, F], size: int, most: int, last: bool, fixed: Sequence[int] = ()
) -> set[int]:
    """The members after at most so many with negative scores have left and the best others have come."""
    leaving = sorted((i for i in members if score[i] < 0 and i not in fixed), key=lambda i: (score[i], i))
    leaving = leaving[: min(most, len(score) - size) if last else most]
    room = size - len(members) + len(leaving)
    outside = sorted((i for i in score if i not in members), key=lambda i: (-score[i], i))
    coming = outside[: room if last else min(room, most + len(leaving))]
    return (members - set(leaving)) | {i for i in coming if last or score[i] > 0}


def slow_stagewise(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], size: int,
    candidates: list[int], start: int, most: int, free: bool = False,
) -> tuple[list[int], list[float]]:  # fmt: skip
    """The stagewise region, best first, and the sign of each entry; with `free` the search chooses the signs."""
    tau = np.abs(tuned.astype(F) - base.astype(F)) if free else tuned.astype(F) - base.astype(F)
    by_movement = [candidates[j] for j in slow_top([abs(float(tau[i])) for i in candidates], len(candidates))]
    members, gained = set(by_movement[:start]), dict.fromkeys(candidates, F(0))
    for step, rows in enumerate(draws, start=1):
        theta = base.copy()
        for i in members:
            theta[i] = F(base[i]) + F(slow_sign(gained[i]) * tau[i]) if free else tuned[i]
        gains = slow_gains(gradient(theta, rows)[1], tau)
        gained = {i: F(value + gains[i]) for i, value in gained.items()}
        score = {i: abs(value) if free else value for i, value in gained.items()}
        members = exchanged(members, score, size, most, step == len(draws))
    order = sorted(members, key=lambda i: (tau[i] == 0, -score[i], i))
    return order, [slow_sign(gained[i]) for i in order]


def slow_averaged(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, batches: Sequence[np.ndarray], points: int, weigh: str
) -> np.ndarray:
    """The score [d] of each entry: its mean gain over batches, each gain averaged over points on the path, times the
    surplus of batches of one sign, or over its standard error."""
    tau = tuned.astype(np.float64) - base
    gains = [
        [-float(g) for g in sum(gradient(base + p / points * tau, rows)[1] for p in range(points)) / points * tau]
        for rows in batches
    ]
    scores = []
    for of_entry in zip(*gains, strict=True):
        mean, n = sum(of_entry) / len(of_entry), len(of_entry)
        positive, negative = sum(gain > 0 for gain in of_entry), sum(gain < 0 for gain in of_entry)
        error = (sum((gain - mean) ** 2 for gain in of_entry) / (n - 1) / n) ** 0.5 if n > 1 else 0.0
        noise = mean / error if error else 0.0
        scores.append({"none": mean, "signs": mean * abs(positive - negative) / n, "noise": noise}[weigh])
    return np.array(scores)


def slow_sign(value: float) -> float:
    """-1, 0 or 1."""
    return 0.0 if value == 0 else 1.0 if value > 0 else -1.0


def slow_judged(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], held: np.ndarray, size: int,
    candidates: list[int], start: int, rate: float, judged: int, fixed: Sequence[int] = (),
    signs: dict[int, float] | None = None,
) -> tuple[list[int], object, dict[int, float]]:  # fmt: skip
    """The judged region without its fixed entries, best first, and the chosen step or "movement".

    If `signs` of the fixed entries are given, the search chooses the other signs; the last result has all of
    them.
    """
    tau = tuned.astype(F) - base.astype(F) if signs is None else np.abs(tuned.astype(F) - base.astype(F))
    free = [i for i in candidates if i not in fixed]
    by_movement = [*fixed, *(free[j] for j in slow_top([abs(float(tau[i])) for i in free], len(free)))]
    members, gained = set(by_movement[:start]), dict.fromkeys(candidates, F(0))
    norms, full_at = list[float](), 0

    def signs_now() -> dict[int, float]:
        return {i: (signs or {}).get(i) or slow_sign(gained[i]) for i in candidates}

    def grafted(region: set[int], by: dict[int, float]) -> np.ndarray:
        theta = base.copy()
        for i in region:
            theta[i] = tuned[i] if signs is None else F(base[i]) + F(by[i] * tau[i])
        return theta

    looked_at: list[tuple[object, set[int], dict[int, float]]] = [("movement", set(by_movement[:size]), signs_now())]
    for step, rows in enumerate(draws, start=1):
        gains = slow_gains(gradient(grafted(members, signs_now()), rows)[1], tau)
        norms.append(sum(float(gains[i]) ** 2 for i in candidates) ** 0.5)
        scale = F(min(1.0, float(np.median(norms)) / norms[-1]))
        gained = {i: F(value + F(gains[i] * scale)) for i, value in gained.items()}
        score = {i: value if signs is None else abs(value) for i, value in gained.items()}
        full_at = full_at or (step if len(members) >= size else 0)
        past = (step - full_at) / max(1, len(draws) - full_at) if full_at else 0.0
        most = max(1, round(size * rate * (1 - 0.95 * past)))
        members = exchanged(members, score, size, most, step == len(draws), fixed)
        if step > len(draws) - judged:
            filled = sorted(candidates, key=lambda i: (i not in members, -score[i], i))[:size]
            looked_at.append((step, set(filled), signs_now()))
    chosen, region, by = min(looked_at, key=lambda one: gradient(grafted(*one[1:]), held)[0])
    return sorted(region - set(fixed), key=lambda i: (tau[i] == 0, -score[i], i)), chosen, by


def slow_nested(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], held: np.ndarray,
    rungs: Sequence[int], steps: int, share: float, rate: float, judged: int, free: bool = False,
) -> tuple[list[int], dict[int, float]]:  # fmt: skip
    """The entries of a climb, rung by rung, best first on each, and with `free` the sign of each."""
    order, signs = list[int](), dict[int, float]()
    for number, rung in enumerate(rungs):
        candidates = slow_candidates(tuned.astype(F) - base.astype(F), share, rung)
        args = (held, rung, candidates, max(1, len(order)), rate, judged, tuple(order), signs if free else None)
        new, _, by = slow_judged(base, tuned, gradient, draws[number * steps :][:steps], *args)
        order += new
        signs |= {i: by[i] for i in new}
    return order, signs


def slow_frank_wolfe(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], size: int,
    candidates: list[int], settle_steps: int,
) -> list[int]:  # fmt: skip
    """The Frank-Wolfe region, best first: in order of settling."""
    tau = tuned.astype(F) - base.astype(F)
    by_movement = [candidates[j] for j in slow_top([abs(float(tau[i])) for i in candidates], len(candidates))]
    gamma = {i: F(i in set(by_movement[:size])) for i in candidates}
    gained, settled = dict.fromkeys(candidates, F(0)), list[int]()
    for t, rows in enumerate(draws):
        theta = base.copy()
        for i in candidates:
            theta[i] = F(base[i]) + F(gamma[i] * tau[i])
        gains = slow_gains(gradient(theta, rows)[1], tau)
        free = [i for i in candidates if i not in settled]
        vertex = sorted(free, key=lambda i: (-gains[i], i))[: size - len(settled)]
        gained = {i: F(value + gains[i]) for i, value in gained.items()}
        for i in free:
            gamma[i] = F(gamma[i] * F(1 - 2 / (t + 3)))
            gamma[i] = F(gamma[i] + F(2 / (t + 3))) if i in vertex and gains[i] > 0 else gamma[i]
        done = t + 1 - (len(draws) - settle_steps)
        if done > 0:
            count = round(size * done / settle_steps)
            best = sorted(free, key=lambda i: (tau[i] == 0, -gamma[i], -gained[i], i))[: count - len(settled)]
            settled += best
            free = [i for i in free if i not in best]
            used = sum(float(gamma[i]) for i in free)
            scale = F(min((size - count) / used, 1.0)) if used else F(1)
            gamma |= dict.fromkeys(best, F(1)) | {i: F(gamma[i] * scale) for i in free}
    return settled


def slow_learned(
    plain: PlainModel, base: np.ndarray, tuned: np.ndarray, draws: Sequence[np.ndarray], scores: Sequence[float],
    mask: set[int], lr: float, bias: float,
) -> Iterator[tuple[float, np.ndarray]]:  # fmt: skip
    """The loss of each step and S after it (PAPER.md, section 4), from autograd: S is a leaf that descent updates."""
    inside = torch.tensor([float(i in mask) for i in range(len(base))], dtype=torch.float64)
    s = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([s], lr=lr)
    for rows in draws:
        descent.zero_grad()
        soft = inside + (1 - 2 * inside) * torch.sigmoid(s - bias)
        loss = plain.loss_at(torch.from_numpy(base) + soft * torch.from_numpy(tuned - base), rows)
        loss.backward()
        descent.step()
        yield float(loss.detach()), s.detach().numpy().copy()


def rounded_mask(scores: np.ndarray, mask: set[int], bias: float) -> set[int]:
    """The entries whose score has not crossed the bias, if in the mask, or has crossed it, if not."""
    return {i for i, score in enumerate(scores) if (i in mask) != (score > bias)}


def slow_minimal(
    entries: list[int], worth: Callable[[list[int]], dict[int, float]], loss: Callable[[list[int]], float],
    finest: float,
) -> list[int]:  # fmt: skip
    """The remaining entries after dropping blocks (halves, quarters and so on) that do not raise the loss."""
    kept, most, count = list(entries), loss(list(entries)), 2
    while count * finest <= 1:
        by_worth = worth(kept)
        queue = sorted(kept, key=lambda entry: (by_worth[entry], entry))
        for blocks in range(min(count, len(queue)), 0, -1):
            length = -(-len(queue) // blocks)
            dropped, queue = set(queue[:length]), queue[length:]
            rest = [entry for entry in kept if entry not in dropped]
            kept = rest if rest and loss(rest) <= most else kept
        count *= 2
    return kept


def slow_adversarial(
    base: np.ndarray, tuned: np.ndarray, gradient: Gradient, draws: Sequence[np.ndarray], region: list[int],
    candidates: list[int], size: int,
) -> list[int]:  # fmt: skip
    """The most harmful entries outside the region, from gradients at the graft with the entries chosen so far."""
    harm, chosen = {entry: 0.0 for entry in candidates if entry not in set(region)}, list[int]()
    for step, rows in enumerate(draws, start=1):
        grafted = set(region) | set(chosen)
        slope = gradient(np.array([tuned[i] if i in grafted else base[i] for i in range(len(base))]), rows)[1]
        harm = {entry: h + float(slope[entry]) * float(tuned[entry] - base[entry]) for entry, h in harm.items()}
        chosen = sorted(harm, key=lambda entry: (-harm[entry], entry))[: max(1, round(size * step / len(draws)))]
    return sorted(chosen)


def slow_project(point: np.ndarray, size: float) -> np.ndarray:
    """The nearest point of {0 <= x <= 1, sum(x) <= size}, found by trying every breakpoint of the shift."""
    if np.clip(point, 0, 1).sum() <= size:
        return np.clip(point, 0, 1)
    breaks = sorted({0.0, *(float(p) for p in point if p > 0), *(float(p - 1) for p in point if p > 1)})
    for low, high in zip(breaks, breaks[1:], strict=False):
        at_low, at_high = (np.clip(point - s, 0, 1).sum() for s in (low, high))
        if at_low >= size >= at_high:
            shift = low if at_low == at_high else low + (at_low - size) / (at_low - at_high) * (high - low)
            return np.clip(point - shift, 0, 1)
    raise AssertionError("the sum falls to 0 at the last break")


def slow_loss(
    logits: np.ndarray, jacobian: np.ndarray, labels: np.ndarray, at: np.ndarray, gamma: np.ndarray
) -> tuple[float, np.ndarray]:
    """Mean cross-entropy and gradient [c] of the linear model, example by example."""
    total, slope = 0.0, np.zeros(len(gamma))
    for f, rows, label in zip(logits, jacobian, labels, strict=True):
        z = f.astype(np.float64).copy()
        for k, row in enumerate(rows):
            z[k + 1] += sum(float(j) * float(x) for j, x in zip(row, gamma - at, strict=True))
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        total -= np.log(p[label]) / len(labels)
        for k, row in enumerate(rows):
            slope += (p[k + 1] - (label == k + 1)) * row.astype(np.float64) / len(labels)
    return total, slope


def slow_minimum(
    logits: np.ndarray, jacobian: np.ndarray, labels: np.ndarray, size: float, steps: int = 3000
) -> tuple[np.ndarray, float]:
    """The minimum from gamma 0, by plain projected gradients with a step that cannot overshoot."""
    flat = jacobian.reshape(-1, jacobian.shape[2]).astype(np.float64)
    rate = len(labels) / np.linalg.norm(flat, 2) ** 2  # the softmax's own curvature is at most 1
    gamma, at = np.zeros(flat.shape[1]), np.zeros(flat.shape[1])
    one_hot = np.eye(logits.shape[1])[labels]
    for _ in range(steps):
        z = logits.astype(np.float64).copy()
        z[:, 1:] += (flat @ gamma).reshape(len(labels), -1)
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gamma = slow_project(gamma - rate * flat.T @ (p - one_hot)[:, 1:].reshape(-1) / len(labels), size)
    return gamma, slow_loss(logits, jacobian, labels, at, gamma)[0]
