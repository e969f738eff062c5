"""Slow twins of attributions: one point of the path at a time, with the model called with `inputs_embeds`."""

import math

import torch


def log_odds(logits, target):
    """log p / (1 - p) of one class, from a list of scores."""
    p = math.exp(logits[target]) / sum(math.exp(z) for z in logits)
    return math.log(p / (1 - p))


def head_log_odds(model, embeddings, types, target):
    """The differentiable log-odds of a classification model for embeddings [1, token, width]."""
    inputs = {} if types is None else {"token_type_ids": types}
    p = model(inputs_embeds=embeddings, **inputs).logits[0].softmax(0)
    return torch.log(p[target]) - torch.log(1 - p[target])


def integrated_gradients(score, start, end, steps):
    """Midpoint sums over equal pieces, one backward pass each."""
    points = [(start + (k + 0.5) / steps * (end - start)).detach().requires_grad_() for k in range(steps)]
    return (end - start) * sum(torch.autograd.grad(score(x), x)[0] for x in points) / steps


def conductance(score, module, start, end, steps):
    """Conductance of one module: gradient at each point times the output's change to the next, by token."""
    seen = []
    handle = module.register_forward_hook(lambda m, i, out: seen.append(out[0] if isinstance(out, tuple) else out))
    outputs, slopes = [], []
    for k in range(steps + 1):
        x = (start + k / steps * (end - start)).detach().requires_grad_()
        seen.clear()
        slopes.append(torch.autograd.grad(score(x), seen[-1])[0].detach()[0])
        outputs.append(seen[-1].detach()[0])
    handle.remove()
    return sum([slopes[k] * (outputs[k + 1] - outputs[k]) for k in range(steps)]).sum(-1)
