"""Federated averaging (McMahan et al. 2017) in which clients send full updates, or only the values in a region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skillviz.core.draws import uniform
from skillviz.core.encoded import Encoded
from skillviz.core.intervals import Interval, metric_interval
from skillviz.core.membership import membership_auc
from skillviz.core.ranking import top
from skillviz.core.scores import losses
from skillviz.errors import BadData
from skillviz.models.finetune.recipes import FULL, RANDOM
from skillviz.models.finetune.trainable_model import TrainableModel, open_shared, open_trainable
from skillviz.models.finetune.training import Trainer, TrainingData, descend, logits_of, run_steps
from skillviz.models.finetune.training_config import TrainingSettings

MOST_MEMBERS = 2000
"""The most training examples of a client, and unseen ones, whose losses are compared."""


class Message(NamedTuple):
    """Values of the body [k] at `entries` [k] (None: all d entries), and the head [h], empty if the client keeps it."""

    entries: Tensor | None
    values: Tensor
    head: Tensor

    @property
    def bytes(self) -> int:
        """The bytes of its tensors, as a graft file stores them: int64 indices (none for all entries) and values."""
        sent = (self.values, self.head) if self.entries is None else (self.entries, self.values, self.head)
        return sum(tensor.numel() * tensor.element_size() for tensor in sent)

    def sent_in(self, number: int) -> int:
        """The bytes that a client uploads in a round: after the first one, the server knows its region's indices."""
        return self.bytes if number == 1 or self.entries is None else self._replace(entries=self.entries[:0]).bytes

    def applied(self, body: Tensor) -> Tensor:
        """Return the body [d] with the sent values."""
        return self.values if self.entries is None else body.index_put((self.entries,), self.values)


def average(body: Tensor, messages: Sequence[Message], counts: Sequence[int]) -> Tensor:
    """Return the mean of the clients' bodies [d], weighted by their numbers of examples.

    A client that does not send an entry counts with the server's value of `body`. The sum is in float64, so entries
    that nobody sends keep their bits, and a single client's values are the result bit for bit.
    """
    total = torch.zeros_like(body, dtype=torch.float64)
    for message, count in zip(messages, counts, strict=True):
        total += count * message.applied(body).double()
    return (total / sum(counts)).to(body.dtype)


@dataclass
class Federation:
    """The state after `round` rounds: the body [d], and for each client its head [h] and its region, if it has one."""

    body: Tensor
    heads: list[Tensor]
    regions: list[Tensor | None]
    round: int = 0


class ClientRow(NamedTuple):
    """One client (None: the server's model) in one round: score, bytes or membership of a task, with its interval."""

    round: int
    client: int | None
    task: str
    what: str
    value: float
    low: float
    high: float
    n: int


@dataclass
class Clients:
    """The clients of one federation: one task each, or shares of one task's training rows.

    With one task each, a client keeps its head. Otherwise heads are sent and averaged like the body.
    """

    base: str
    data: Sequence[TrainingData]
    settings: TrainingSettings
    """Of one round: `steps` are the steps of a client in a round."""
    shares: int
    send: str
    share: float
    device: torch.device
    models: list[TrainableModel] = field(default_factory=list)
    trainers: list[Trainer] = field(default_factory=list)

    def __post_init__(self) -> None:
        tasks = [data.task for data in self.data]
        self.keeps_heads = len(tasks) > 1
        if self.keeps_heads:
            self.models, parts = open_shared(self.base, tasks, self.settings, self.device), list(self.data)
        else:
            parts = _shares(self.data[0], self.shares, self.settings.seed)
            self.models = [open_trainable(self.base, tasks[0], self.settings, self.device)] * len(parts)
        self.trainers = [
            Trainer(model, part, replace(self.settings, seed=self.settings.seed + number))
            for number, (model, part) in enumerate(zip(self.models, parts, strict=True))
        ]

    def start(self) -> Federation:
        """Return the state before the first round: the base, and each client's new head."""
        heads = [_flat(_head(model)) for model in self.models]
        return Federation(_flat(_body(self.models[0])), heads, [None] * len(self.models))

    def skip(self, state: Federation) -> None:
        """Skip the batches of the finished rounds, so that a resumed federation draws the same ones."""
        for trainer in self.trainers:
            for _ in range(state.round * self.settings.steps):
                trainer.skip()

    def train(self, state: Federation, client: int, on_step: Callable[[float], None]) -> Message:
        """Return the message of a client after its local steps from the server's model; its region may be made now."""
        model, trainer, done = self.models[client], self.trainers[client], state.round * self.settings.steps
        _set(_body(model), state.body)
        _set(_head(model), state.heads[client])
        steps = descend(
            model, self.settings, lambda step: trainer.backward(done + step), lambda: float("nan"), skip=trainer.skip
        )
        run_steps(steps, lambda record: on_step(record.loss))
        body, head = _flat(_body(model)), _flat(_head(model))
        if self.keeps_heads:
            state.heads[client] = head
        if self.send != FULL and state.regions[client] is None:
            state.regions[client] = self._region(state, body)
        entries = state.regions[client]
        return Message(entries, body if entries is None else body[entries], head[:0] if self.keeps_heads else head)

    def _region(self, state: Federation, body: Tensor) -> Tensor:
        size = max(1, round(self.share * body.numel()))
        if self.send == RANDOM:
            drawn = uniform(body.numel(), size, self.settings.seed)  # the same for all clients, so that none is diluted
            return torch.from_numpy(np.sort(drawn)).to(body.device)
        return top((body - state.body).abs(), size).sort().values

    def revealed(self, state: Federation, client: int, message: Message) -> tuple[Interval, int]:
        """Return the AUC of membership by loss from the server's model with a client's message, and the examples.

        The client's head is used even if it is not sent: this is the most that the body can reveal.
        """
        model, trainer = self.models[client], self.trainers[client]
        _set(_body(model), message.applied(state.body))
        each = [
            losses(logits_of(model, rows), rows.labels)
            for rows in (_some(trainer.data.encoded(split, model.tokenizer)) for split in ("train", "test"))
        ]
        return membership_auc(*each), sum(map(len, each))

    def scores(self, state: Federation) -> Iterator[tuple[str, Interval, int]]:
        """Yield the task, the metric and the test examples of the server's model, once for every task."""
        for client, data in enumerate(self.data):
            model = self.models[client]
            _set(_body(model), state.body)
            _set(_head(model), state.heads[client])
            test, task = data.encoded("test", model.tokenizer), data.task
            yield task.name, metric_interval(logits_of(model, test), test.labels, task.metric, task.positive), len(test)


def rounds(
    clients: Clients, rounds: int, state: Federation, on_step: Callable[[int, int, float], None]
) -> Iterator[tuple[Federation, list[ClientRow]]]:
    """Yield the state and the rows after every round, from `state` on; round 0 is the base.

    `on_step` is called with the round, the client and the loss of each local step.
    """
    if state.round == 0:
        yield state, _server_rows(clients, state)
    clients.skip(state)
    for number in range(state.round + 1, rounds + 1):
        messages, rows = [], []
        for client, trainer in enumerate(clients.trainers):
            message = clients.train(state, client, partial(on_step, number, client))
            interval, n = clients.revealed(state, client, message)
            task, nothing = trainer.data.task.name, float("nan")
            rows += [
                ClientRow(number, client, task, "membership", *interval[:3], n),
                ClientRow(number, client, task, "bytes", message.sent_in(number), nothing, nothing, 0),
            ]
            messages.append(message)
        counts = [trainer.data.counts["train"] for trainer in clients.trainers]
        state.body = average(state.body, messages, counts)
        if not clients.keeps_heads:
            whole = [Message(None, message.head, message.head[:0]) for message in messages]
            state.heads = [average(state.heads[0], whole, counts)] * len(state.heads)
        state.round = number
        yield state, [*_server_rows(clients, state), *rows]


def _server_rows(clients: Clients, state: Federation) -> list[ClientRow]:
    return [ClientRow(state.round, None, task, "score", *found[:3], n) for task, found, n in clients.scores(state)]


def _shares(data: TrainingData, count: int, seed: int) -> list[TrainingData]:
    """Return `count` clients' data: equal random shares of the training rows; a single client has all, in order."""
    n = data.counts["train"]
    if count > n // 2:
        raise BadData(f"{count} clients cannot share {n:,} training examples; each needs two or more.")
    rows = [np.arange(n)] if count == 1 else np.array_split(np.random.default_rng(seed).permutation(n), count)
    frames = [data.splits.train.iloc[np.sort(part)].reset_index(drop=True) for part in rows]
    return [TrainingData(data.task, replace(data.splits, train=frame), data.readout) for frame in frames]


def _some(rows: Encoded) -> Encoded:
    """Return at most MOST_MEMBERS examples, the same ones each time."""
    n = len(rows)
    chosen = np.sort(np.random.default_rng(0).permutation(n)[:MOST_MEMBERS])
    return rows if n <= MOST_MEMBERS else rows.take(chosen)


def _body(model: TrainableModel) -> list[Tensor]:
    return [model.model.get_parameter(name) for name in model.table.names]


def _head(model: TrainableModel) -> list[Tensor]:
    return [model.model.get_parameter(name) for name in model.head]


def _flat(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([torch.empty(0), *(p.detach().reshape(-1).cpu() for p in parameters)])


@torch.no_grad()
def _set(parameters: Sequence[Tensor], flat: Tensor) -> None:
    for parameter, values in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.copy_(values.view_as(parameter))


def tensors_of(state: Federation) -> dict[str, Tensor]:
    """Return the state's tensors by name, for its file."""
    named = {"body": state.body} | {f"head.{i}": head.clone() for i, head in enumerate(state.heads)}
    return named | {f"region.{i}": region for i, region in enumerate(state.regions) if region is not None}


def state_of(tensors: Mapping[str, Tensor], number: int) -> Federation:
    """Return the state of these tensors after `number` rounds."""
    count = sum(name.startswith("head.") for name in tensors)
    regions = [tensors.get(f"region.{i}") for i in range(count)]
    return Federation(tensors["body"], [tensors[f"head.{i}"] for i in range(count)], regions, number)
