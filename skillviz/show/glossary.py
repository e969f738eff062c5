"""The words of the dashboard, each explained in a sentence or two; shown as help where a page first uses them."""

from __future__ import annotations

from collections.abc import Callable

from skillviz.core import formats
from skillviz.core.localizers.table import LOCALIZERS, Localizer
from skillviz.core.metrics import METRICS
from skillviz.models.finetune.recipes import RECIPES, RETRAIN
from skillviz.plots.theme import STATES


def _titles(belongs: Callable[[Localizer], bool]) -> str:
    """The localizers of which this is true, by their titles."""
    names = [row.title for row in LOCALIZERS.values() if belongs(row)]
    return formats.listed(names, len(names))


GLOSSARY = {
    **{metric.name: metric.help for metric in METRICS.values() if metric.help},
    "region": "The set of single parameter entries (weights, not whole matrices) whose fine-tuned values are copied.",
    "graft": "The pre-trained model with the fine-tuned values copied in at the region and nowhere else; nothing is "
    "trained again. In symbols: θ = θ_pre + γ·(θ_ft − θ_pre), γ being 1 inside the region and 0 outside.",
    "parts": "A part is a cell of the map or an attention head. Its entries are grafted alone, or left out of the "
    "region, and a random control of equal size stands beside it. For a part alone, the control has other entries of "
    "the same tensors: do these entries matter, or just this place? For a part left out, it has other entries of the "
    "region: does the part matter more than its size?",
    "complement": "The fine-tuned model with the region put back to its pre-trained values: what is left of the "
    "skill when the region is taken out.",
    "localizer": "A method that chooses a region. Budgeted ones return exactly the size asked for; the size of the "
    f"others is an outcome: {_titles(lambda row: not row.budgeted)}. Outside the region the model is the base, and "
    f"zero for {_titles(lambda row: row.rest == 'zero')}.",
    "graftable": "The parameters a region may choose from: those of the transformer blocks. Embeddings, the norm "
    "after the last block, pooler and output or classification head are never part of it.",
    "size": "How many entries the region has, and which share that is of all graftable ones.",
    "pretrained": "The model before fine-tuning. Where the readout is a classification head, that head is the "
    "fine-tuned one in every state: it has no pre-trained value.",
    "temperature": "One number, fitted on validation data, that divides the fine-tuned model's logits; it changes "
    "its confidence but never its predictions. A fair rival for any claim about calibration.",
    "paired": "Both models are scored on the same examples, so luck with the examples cancels. A "
    "difference is claimed only where its 95% interval excludes zero.",
    "enrichment": "How dense the region is in a part of the model, relative to the whole: 2× means that twice as "
    "many of its entries were chosen as if the choice had been even.",
    "movement": "How far fine-tuning moved the parameters: the difference between fine-tuned and pre-trained value.",
    "seed": "The number that fixes a localizer's random choices; several seeds show how much depends on luck.",
    "equal_mass": "Bins that hold about as many examples each, instead of bins of equal width.",
    "readout": "How class scores are read off a model: the logits of label words at a mask (prompt), a classification "
    "head (head), or the likelihood of the answers behind a prompt (causal).",
    "checkpoint": "What a search has found so far, on disk. A job that ended early resumes from its last one and finds "
    "the same region, bit for bit, as one that was never cut.",
    "wise": "Models on the straight way from the pre-trained model to another one. WiSE-FT goes to the fine-tuned "
    "model: every parameter moves. WiSE-Graft goes to the graft: only the region's entries move. In symbols: "
    "θ = θ_pre + α·(θ_end − θ_pre), α from 0 to 1.",
    "ood": "In distribution: test examples of the task that the model was tuned on. Out of distribution: another "
    "task with the same labels, zero-shot, that is without any training on it.",
    "mapping": "Which label of the other task stands for which label of this one. Examples of a label that stands "
    "for none are left out and counted.",
    "dropped": "Test examples of the other task whose text occurs in this task's training data, letter case and "
    "spaces aside. They would not be zero-shot, so they are left out and counted.",
    "mcnemar": "McNemar's exact test looks only at the examples that one of two models alone gets right. Were both "
    "equally good, they would be split like the falls of a fair coin; p is the chance of a split this uneven.",
    "margin": "The true class's score minus the best other class's, in nats: above zero where the model is right.",
    "slices": "Parts of the examples: of one class, of some length, or of one value of a column of the data. Slices of "
    "fewer than 20 examples have no interval. Among many slices some differ by chance: the false discovery rate is the "
    "expected share of those among all that are said to differ.",
    "confusion": "A table of true classes by predicted ones: which classes are taken for which.",
    "attribution": "Integrated gradients: the class's log-odds are followed on the straight way from a baseline to the "
    "sentence, in the space of token embeddings, and each token gets its part of the change.",
    "logodds": "log p / (1 − p) of the class, in nats: 0 is 50%, +2.2 is 90%, −2.2 is 10%.",
    "baseline": "What the sentence is compared with: every token replaced by padding, by the mask token, or by zeros. "
    "Another baseline asks another question and may give other values.",
    "completeness": "All tokens together should add up to the change in log-odds from the baseline to the sentence. "
    "The gap is what the numerical integral misses; more steps make it smaller. A large gap means that single values "
    "cannot be trusted.",
    "conductance": "Layer conductance: the part of the change in log-odds, from the baseline to the sentence, that "
    "flows through a layer's output.",
    "gain": "How much of the way from the pre-trained to the multi-task model a graft goes on a task: 0% is the "
    "pre-trained model, 100% the multi-task model. It can be below 0 or above 100, and is not defined where the "
    "multi-task model is no better than the pre-trained one.",
    "multitask": "One model, fine-tuned on several tasks at once: each step takes a batch of one of them. Every task "
    "has a region of its own in it, found on that task's examples alone.",
    "union": "The entries that any of several regions has, with the multi-task model's values. As all come of one "
    "model no two values conflict.",
    "related": "Tasks are related where they are of one family: both ask for praise or blame, say, or both whether one "
    "sentence follows from another. The families are set by hand, as in the paper.",
    "purified": "The union after a few steps on its mask, on the sum of its tasks' losses: entries that hurt leave, "
    "entries that help come in. No weight is trained.",
    "stability": "How much two regions of one task share when they were found with another seed or other examples. "
    "What a region shares with itself, found again, is the most that regions of two tasks can be expected to share.",
    "continual": "Tasks are learned one after the other. Naive: each goes on from the last model. Grafting: a task may "
    "move only entries of its own region that no earlier task owns, and is answered by the base with the values of the "
    "regions up to it; what came later cannot change its answers.",
    "touched": "Graftable parameters whose value differs from the pre-trained model's: the region of a graft, the "
    "biases of BitFit, every one of a whole fine-tune. Of LoRA the numbers that were trained are counted.",
    "retrain": f"{RECIPES[RETRAIN].sentence} A graft copies values that were learned while everything moved, and "
    "trains nothing.",
    "bitfit": f"{RECIPES['bitfit'].sentence} That is about one parameter in a thousand.",
    "lora": f"{RECIPES['lora'].sentence} Merged, they change all entries of these matrices; the place of LoRA among "
    "the methods is by the few numbers that were trained.",
    "published": "As printed in the paper (arXiv 2302.06600, ICML 2023). The number in brackets is taken as the "
    "standard deviation over five samples of the data; the paper does not say.",
    "study": "Fine-tunes and localizations that belong together, made from one file, with tables of means and "
    "intervals over seeds. What is finished is not made twice.",
    "verdict": "A comparison supports a claim, or contradicts it, only where its whole 95% interval does. A claim is "
    "confirmed where at least half of its comparisons support it and fewer contradict it, contradicted the other way "
    "round, and else inconclusive. The limit of a claim is what the interval has to exclude: zero, another bound, or "
    "the margin of 'equally good'.",
    "debiased": "The plug-in calibration error adds up distances that noise alone makes, so on few examples it is too "
    "high. The debiased error is the error of all examples of this kind for which the plug-in seen here is what to "
    "expect. The 95% interval and every verdict are about it; the plug-in value is kept because papers report it.",
    "discovery": "Of many comparisons where nothing differs, 5 in 100 exclude zero by chance. The false discovery rate "
    "is the expected share of such false ones among all that are said to differ; it is held at 5% (Benjamini and "
    "Hochberg 1995).",
    "matched": "Regions crowd into the same tensors, so two of them share entries by chance. The level by chance is "
    "that of random regions with as many entries in each tensor; 95% of such regions lie in the range beside it.",
    "chance": "Chance is 1 / number of classes; majority always answers with the most frequent class.",
}


def about(*words: str) -> str:
    """The entries for these words, as Markdown for a help tooltip."""
    if len(words) == 1:
        return GLOSSARY[words[0]]
    return "\n\n".join(f"**{NAMES.get(word, word)}**: {GLOSSARY[word]}" for word in words)


NAMES = {
    **{metric.name: metric.title for metric in METRICS.values() if metric.help},
    "gain": "relative gain",
    "multitask": "multi-task model",
    "continual": "continual learning",
    "mcnemar": "McNemar's test",
    "debiased": "debiased error",
    "discovery": "false discovery rate",
    "matched": "matched chance",
    "touched": "parameters touched",
    "retrain": RECIPES[RETRAIN].title,
    "bitfit": RECIPES["bitfit"].title,
    "lora": RECIPES["lora"].title,
    "logodds": "log-odds",
    "attribution": "token attribution",
    "conductance": "layer conductance",
    "wise": "WiSE",
    "ood": "in and out of distribution",
    "mapping": "label mapping",
    "pretrained": STATES["pretrained"].title,
    "confidence": "confidence",
    "equal_mass": "equal-mass bins",
}
