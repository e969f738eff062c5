"""The words of the dashboard, each explained in a few short sentences; pages show them as help at first use."""

from __future__ import annotations

from collections.abc import Callable

from skillviz.core import formats
from skillviz.core.localizers.table import LOCALIZERS, Localizer
from skillviz.core.metrics import METRICS
from skillviz.models.finetune.recipes import RECIPES, RETRAIN
from skillviz.plots.theme import STATES
from skillviz.show.comparisons import MARK


def _titles(belongs: Callable[[Localizer], bool]) -> str:
    """The titles of the localizers for which this is true."""
    names = [row.title for row in LOCALIZERS.values() if belongs(row)]
    return formats.listed(names, len(names))


GLOSSARY = {
    **{metric.name: metric.help for metric in METRICS.values() if metric.help},
    "region": "The set of single parameters (individual weights, not whole matrices) whose fine-tuned values are "
    "copied.",
    "graft": "The pre-trained model with the fine-tuned values of the region copied in. Nothing else changes and "
    "nothing "
    "is trained again. In symbols: θ = θ_pre + γ·(θ_ft − θ_pre), with γ = 1 inside the region and 0 outside; another "
    "γ inside is a gain.",
    "parts": "A part is a cell of the map or an attention head. It is scored twice, grafted alone and left out of the "
    "region, each time next to a random control of equal size. Alone, the control has other parameters of the same "
    "tensors: do these parameters matter, or just this place? Left out, the control has other parameters of the "
    "region: does the part matter more than its size?",
    "subskills": "Groups of parts that raise the right answer on the same examples. The rises of all parts on all "
    "examples are split into a few patterns, each a mix of parts. Random controls of the parts are split in the same "
    "way: the patterns mean something only if they are more stable, and explain more, than the controls'.",
    "complement": "The fine-tuned model with the region set back to its pre-trained values: what remains of the skill "
    "without the region.",
    "localizer": "A method that chooses a region. Most return exactly the requested size. For these the size is an "
    f"outcome: {_titles(lambda row: not row.budgeted)}. Outside the region the model is the base; for "
    f"{_titles(lambda row: row.rest == 'zero')} it is zero.",
    "graftable": "The parameters a region may choose from: those of the transformer blocks. Embeddings, the norm after "
    "the last block, the pooler and the output or classification head are never part of a region.",
    "size": "The number of parameters in the region, and their share of all graftable parameters.",
    "pretrained": "The model before fine-tuning. A classification head has no pre-trained value, so every state uses "
    "the fine-tuned head.",
    "temperature": "One number, fitted on validation data, that divides the fine-tuned model's logits. It changes the "
    "confidence and never the predictions. Any claim about calibration should beat it.",
    "paired": "Both models are scored on the same examples, so luck with the examples cancels out. A difference counts "
    "only if its 95% interval excludes zero.",
    "null": "The same search on a movement without meaning: each tensor's movements shuffled, or their signs changed. "
    "Choosing entries by gradients on labels is itself a way to train, so a null scores above the base. What the graft "
    "scores beyond its null is due to the fine-tuned values in their places.",
    "bound": "A guarantee on test loss that holds with 95% probability over training sets (paper, appendix D). Losses "
    "are within 0 and 1, so a guarantee of 1 or more is vacuous: any model meets it. Its variance term grows with the "
    "number of models that the method could have returned, s values of log q nats and Θ regions, and falls with the "
    "number of training examples. ε1 is the loss by rounding, ε2 the gap to the region trained again. It compares "
    "sizes; it does not predict the gap between training and test.",
    "shared": "The probability that two models put on the same answers: 1 minus their total variation distance. No "
    "label asks for it, and of seven measures it separates grafts from their nulls best (docs/nulls.md).",
    "scale": "A factor on the movement inside the region: the graft has base + gain × (fine-tuned − base) there. Gain "
    "1 copies the fine-tuned values. A fitted gain has the least NLL on half of the validation examples and is kept if "
    "it does better than 1 on the other half. It may be one for each module kind. A gain above 1 also makes a model "
    "surer, so NLL and ECE are compared after each model's own temperature scaling, and nulls and the fine-tuned model "
    "get the same fit.",
    "density": "How dense the region is in a part of the model, compared with its average density: 2× means "
    "twice as "
    "many parameters as an even spread would give.",
    "movement": "How far fine-tuning moved a parameter: its fine-tuned value minus its pre-trained value.",
    "seed": "The number that fixes a localizer's random choices. Several seeds show how much depends on luck.",
    "equal_mass": "Bins that hold about the same number of examples, instead of bins of equal width.",
    "readout": "How class scores are read from a model: logits of label words at a mask (prompt), a "
    "classification head "
    "(head), or the likelihood of each answer after a prompt (causal).",
    "checkpoint": "What a search has found so far, stored on disk. An interrupted job resumes from its last checkpoint "
    "and finds the same region, bit for bit.",
    "wise": "Models on the straight line from the pre-trained model to another one. WiSE-FT leads to the fine-tuned "
    "model and moves every parameter. WiSE-Graft leads to the graft and moves only the region. In symbols: "
    "θ = θ_pre + α·(θ_end − θ_pre), with α from 0 to 1.",
    "ood": "In distribution: test examples of the task the model was fine-tuned on. Out of distribution: another task "
    "with the same labels, without any training on it.",
    "mapping": "Which label of the other task corresponds to which label of this one. Examples whose label has no "
    "counterpart are skipped and counted.",
    "dropped": "Test examples of the other task whose text is also in this task's training data (ignoring case and "
    "spaces). The model has seen them, so they are skipped and counted.",
    "mcnemar": "McNemar's exact test looks only at examples that exactly one of two models gets right. If both models "
    "were equally good, these would split like coin flips; p is the chance of a split at least this uneven.",
    "margin": "The true class's score minus the best other class's, in nats. Above zero, the model is right.",
    "out_of_scope": "Texts that fit none of the task's classes. A model should be less sure of them than of its own "
    "test examples.",
    "risk": "Coverage is the share of examples that the model answers if it answers only those of which it is surest; "
    "risk is the share of these answers that is wrong.",
    "slices": "Groups of examples: one class, one range of lengths, or one value of a data column. Slices of "
    "fewer than 20 examples have no interval, nor have those of fewer than 150 for NLL. Each difference is compared "
    "with zero, so a graft that is worse overall loses on most slices. Among many, some differ by chance. The false "
    "discovery rate is the expected share of such cases among all slices reported as different.",
    "confusion": "A table of true against predicted classes: which classes are confused with which.",
    "attribution": "Integrated gradients follow the class's log-odds on the straight line from a baseline to the "
    "sentence, in the space of token embeddings. Each token gets its share of the change.",
    "logodds": "log p / (1 − p) of the class, in nats: 0 is 50%, +2.2 is 90%, −2.2 is 10%.",
    "baseline": "What the sentence is compared with: every token replaced by padding, by the mask token, or by zeros. "
    "Another baseline asks another question and can give other values.",
    "completeness": "The values of all tokens should add up to the change in log-odds from the baseline to the "
    "sentence. The gap is the error of the numerical integral; more steps shrink it. With a large gap, do not trust "
    "single values.",
    "conductance": "Layer conductance: the share of the change in log-odds, from the baseline to the sentence, that "
    "flows through a layer's output.",
    "gain": "Where a graft's score lies between the pre-trained model (0%) and the multi-task model (100%). It can be "
    "below 0 or above 100. It is undefined if the multi-task model is no better than the pre-trained one.",
    "multitask": "One model fine-tuned on several tasks at once: each step takes a batch of one task. Each task "
    "has its "
    "own region in this model, found on that task's examples alone.",
    "union": "All parameters that belong to at least one of several regions, with the multi-task model's values. They "
    "come from one model, so no two values conflict.",
    "related": "Two tasks are related if they belong to one family: both ask about sentiment, for example, or both ask "
    "whether one sentence follows from another. The families are set by hand, as in the paper.",
    "purified": "The union after a few mask steps on the sum of its tasks' losses: parameters that hurt are removed, "
    "parameters that help are added. No weight is trained.",
    "stability": "How much two regions of one task share if the seed or the examples differ. Regions of two tasks "
    "cannot be expected to share more than that.",
    "continual": "Tasks are learned one after the other. Naive: each task continues from the last model. Grafting: a "
    "task may move only parameters of its own region that no earlier task owns. It is answered by the base with the "
    "regions up to that task, so later tasks cannot change its answers.",
    "touched": "Graftable parameters whose value differs from the pre-trained model's: the region of a graft, the "
    "biases of BitFit, all parameters of a full fine-tune. For LoRA and adapters, the trained numbers are counted.",
    "retrain": f"{RECIPES[RETRAIN].sentence} A graft, in contrast, copies values that were learned while everything "
    "moved, and trains nothing.",
    "bitfit": f"{RECIPES['bitfit'].sentence} That is about one parameter in a thousand.",
    "lora": f"{RECIPES['lora'].sentence} Once merged they change all parameters of these matrices; here LoRA counts by "
    "the few numbers it trains.",
    "adapters": f"{RECIPES['adapter-houlsby'].sentence} Pfeiffer adapters are those after the feed-forward part alone. "
    "All parameters of the base keep their values, so such a model is no graft.",
    "published": "As printed in the paper (arXiv 2302.06600, ICML 2023). The number in brackets is read as the "
    "standard "
    "deviation over five data samples; the paper does not say.",
    "study": "Fine-tunes and localizations that belong together, defined in one file, with tables of means and "
    "intervals over seeds. Finished steps are not repeated.",
    "verdict": "A comparison supports or contradicts a claim only if its whole 95% interval does. A claim is confirmed "
    "if at least half of its comparisons with an interval support it and fewer contradict it. It is contradicted in "
    "the opposite case, and inconclusive otherwise. Without any interval it is not measured. The limit is what the "
    "interval has to exclude: zero, another bound, or the margin of 'equally good'.",
    "debiased": "The plug-in calibration error adds up distances that noise alone creates, so it is too high on few "
    "examples. The debiased error is the population's error for which the observed plug-in value is the expected one. "
    "The 95% interval and every verdict refer to it. The plug-in value is kept because papers report it.",
    "discovery": "If nothing differs, 5 in 100 comparisons still exclude zero by chance. The false discovery rate "
    "is the "
    "expected share of such cases among all reported differences; it is held at 5% (Benjamini and Hochberg 1995). "
    f"{MARK} marks a verdict whose interval excludes zero, but which does not hold at this rate.",
    "matched": "Regions crowd into the same tensors, so two of them share parameters by chance. The chance level is "
    "that of random regions with as many parameters in each tensor; the range beside it holds 95% of them.",
    "chance": "Chance is 1 / number of classes. Majority always answers with the most frequent class.",
}


def about(*words: str) -> str:
    """The entries for these words, as Markdown for a help tooltip."""
    if len(words) == 1:
        return GLOSSARY[words[0]]
    return "\n\n".join(f"**{NAMES.get(word, word)}**: {GLOSSARY[word]}" for word in words)


NAMES = {
    **{metric.name: metric.title for metric in METRICS.values() if metric.help},
    "gain": "relative gain",
    "scale": "gain of a graft",
    "multitask": "multi-task model",
    "continual": "continual learning",
    "mcnemar": "McNemar's test",
    "debiased": "debiased error",
    "discovery": "false discovery rate",
    "subskills": "sub-skills",
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
    "risk": "risk and coverage",
    "equal_mass": "equal-mass bins",
}
