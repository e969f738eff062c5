"""The convex problem of the linearized localizer: cross-entropy of a linear model over a capped simplex."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Linear:
    """Logits as a linear function of gamma [c] around `at`.

    `logits` [n, label] are the logits at `at`; `jacobian` [n, label - 1, c] are the gradients, by gamma, of the logits
    of classes 1.. minus the logit of class 0 (a shift of all logits changes no probability). `weights` [n] are the
    counts of each example, summing to n: one each by default.
    """

    logits: Tensor
    jacobian: Tensor
    labels: Tensor
    at: Tensor
    weights: Tensor | None = None

    def gradient(self, gamma: Tensor) -> tuple[float, Tensor]:
        """Return the mean cross-entropy in nats and its gradient [c] by gamma."""
        n, differences, c = self.jacobian.shape
        change = (self.jacobian.view(-1, c) @ (gamma - self.at)).view(n, differences)
        logits = self.logits.clone()
        logits[:, 1:] += change
        log_p = logits.log_softmax(1)
        likelihood = log_p.gather(1, self.labels.unsqueeze(1)).squeeze(1)
        residual = log_p.exp()
        residual[torch.arange(n, device=residual.device), self.labels] -= 1
        if self.weights is not None:
            likelihood = likelihood * self.weights
            residual *= self.weights.unsqueeze(1)
        loss = -likelihood.mean()
        return float(loss), self.jacobian.view(-1, c).T @ residual[:, 1:].reshape(-1) / n


def project(point: Tensor, size: float) -> Tensor:
    """Return the nearest point with 0 <= gamma <= 1 and sum(gamma) <= size.

    The shift that gives this sum is found by bisection, to the precision of float32.
    """
    clipped = point.clamp(0, 1)
    if float(clipped.sum(dtype=torch.float64)) <= size:
        return clipped
    low, high = 0.0, float(point.max())
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        if float((point - middle).clamp(0, 1).sum(dtype=torch.float64)) > size:
            low = middle
        else:
            high = middle
    return (point - high).clamp(0, 1)


def minimise(
    linear: Linear, size: int, iterations: int, tolerance: float = 1e-5, start: Tensor | None = None
) -> tuple[Tensor, float]:
    """Return gamma [c] and its loss, by accelerated projected gradients with backtracking and restarts.

    Starts at `start`, by default at the point of linearization. Stops early if a whole step lowers the loss by less
    than `tolerance`, relative.
    """
    gamma = ahead = (linear.at if start is None else start).clone()
    momentum, rate = 1.0, _first_rate(linear, size)
    loss, _ = linear.gradient(gamma)
    for _ in range(iterations):
        ahead_loss, slope = linear.gradient(ahead)
        following, following_loss, rate = _backtrack(linear, ahead, ahead_loss, slope, size, rate)
        if following_loss > loss and momentum > 1:
            ahead, momentum = gamma, 1.0
            continue
        if loss - following_loss < tolerance * loss and momentum > 1:
            return following, following_loss
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = following + (momentum - 1) / grown * (following - gamma)
        gamma, loss, momentum, rate = following, following_loss, grown, rate * 1.25
    return gamma, loss


def _first_rate(linear: Linear, size: int) -> float:
    """Return a step that would move the `size` steepest entries all the way, on average, at their current slope."""
    slope = linear.gradient(linear.at)[1]
    return float(1 / slope.abs().topk(min(size, len(slope))).values.mean().clamp(min=1e-12))


def _backtrack(
    linear: Linear, point: Tensor, loss: float, slope: Tensor, size: int, rate: float
) -> tuple[Tensor, float, float]:
    """Return the projected step, its loss and the rate at which the quadratic bound holds."""
    while True:
        following = project(point - rate * slope, size)
        move = following - point
        following_loss = linear.gradient(following)[0]
        bound = loss + float(slope @ move) + float(move @ move) / (2 * rate)
        if following_loss <= bound + 1e-7 * abs(loss) or rate < 1e-12:
            return following, following_loss, rate
        rate /= 2
