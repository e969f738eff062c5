"""The thirteen tasks of the paper and the sets on which it is tested out of distribution, one row each.

Templates and label words are the paper's (its GPT-2 prompts for causal models), with label words given by class name.
The hub's data sets were not opened for this table: ids, columns and class names are assumed, and every row says so.
Validation data: the source's own if it has any besides the test split; for GLUE tasks the GLUE development set is the
test, as in the paper.
"""

from __future__ import annotations

from skillviz.tasks.task import Hub, LabelWords, Task, Template

UNVERIFIED = "Panigrahi et al. 2023; hub id, columns and class names not verified"
INDIRECT = "Panigrahi et al. 2023; hub id known from other people's code only, columns and class names not verified"

POLARITY = ("negative", "positive")
POLARITY_TEMPLATE = Template(masked="{text} It was <mask>.", causal='"{text}" has a tone that is')
POLARITY_WORDS = LabelWords(masked=("terrible", "great"), causal=POLARITY)
TOPIC = "<mask>: {text}"

NLI = ("entailment", "neutral", "contradiction")
NLI_01 = ("entailment", "not_entailment")
PAIR_MASKED = "{a-}? <mask>, {b~}"
NLI_TEMPLATE = Template(masked=PAIR_MASKED, causal=" {a}\n question: {b} true, false, or neither?\n answer:")
NLI_WORDS = LabelWords(masked=("Yes", "Maybe", "No"), causal=("true", "neither", "false"))
TRUE_FALSE = " {a}\n question: {b} true or false?\n answer:"
NLI_01_TEMPLATE = Template(masked=PAIR_MASKED, causal=TRUE_FALSE)
NLI_01_WORDS = LabelWords(masked=("Yes", "No"), causal=("true", "false"))
PARAPHRASE_TEMPLATE = Template(masked="{a} <mask>, {b~}", causal=TRUE_FALSE)
PARAPHRASE_WORDS = LabelWords(masked=("No", "Yes"), causal=("false", "true"))


def _polarity(name: str, title: str, data: Hub, classes: dict[str, str], source: str, text: str = "text") -> Task:
    """A sentiment task; its template, label words and labels are SST-2's."""
    return Task(
        name=name, title=title, data=data, text=(text,), labels=POLARITY, classes=classes,
        template=POLARITY_TEMPLATE, label_words=POLARITY_WORDS, max_length_causal=256, source=source,
    )


NUMBERS = {"0": "negative", "1": "positive"}
SHORT = {"neg": "negative", "pos": "positive"}
NAMES = {"negative": "negative", "positive": "positive"}

_ROWS = (
    _polarity(
        "sst2", "SST-2 (film review sentences)",
        Hub(id="SetFit/sst2", validation="validation"), NUMBERS,
        f"{INDIRECT}; whole sentences (6,920 train) as in the paper, which tests on the 872 of `validation`",
    ),
    _polarity(
        "cr", "CR (customer reviews)", Hub(id="SetFit/CR"), NUMBERS, f"{UNVERIFIED}; another split than the paper's"
    ),
    _polarity(
        "mr", "MR (film review sentences)",
        Hub(id="cornell-movie-review-data/rotten_tomatoes", validation="validation"), SHORT,
        f"{UNVERIFIED}; another split than the paper's",
    ),
    _polarity("mpqa", "MPQA (opinion phrases)", Hub(id="jxm/mpqa"), NUMBERS, INDIRECT, text="sentence"),
    Task(
        name="trec", title="TREC (type of a question)", data=Hub(id="SetFit/TREC-QC"),
        text=("text",), label="label_coarse_original",
        labels=("description", "entity", "abbreviation", "human", "location", "number"),
        classes={"DESC": "description", "ENTY": "entity", "ABBR": "abbreviation",
                 "HUM": "human", "LOC": "location", "NUM": "number"},
        template=Template(masked=TOPIC, causal=" {text} The answer to this question will be"),
        label_words=LabelWords(
            masked=("Description", "Entity", "Expression", "Human", "Location", "Number"),
            causal=("a description.", "an entity.", "an abbreviation.", "a person.", "a location.", "a number."),
        ),
        max_length_causal=256,
        source=f"{INDIRECT}; CogComp/trec, the original, is a loading script, which `datasets` no longer runs",
    ),
    Task(
        name="ag_news", title="AG News (topic of a news item)", data=Hub(id="fancyzhx/ag_news"),
        text=("text",), labels=("World", "Sports", "Business", "Sci/Tech"),
        classes={"World": "World", "Sports": "Sports", "Business": "Business", "Sci/Tech": "Sci/Tech"},
        template=Template(masked=TOPIC, causal=" summary: {text}\n topic:"),
        label_words=LabelWords(
            masked=("World", "Sports", "Business", "Tech"), causal=("World", "Sports", "Business", "Science")
        ),
        max_length_causal=256, source=f"{UNVERIFIED}; whether the paper used titles is not known",
    ),
    Task(
        name="subj", title="Subj (subjective or objective sentence)", data=Hub(id="SetFit/subj"),
        text=("text",), labels=("subjective", "objective"), classes={"0": "objective", "1": "subjective"},
        template=Template(masked="{text} This is <mask>.", causal=POLARITY_TEMPLATE.causal),
        label_words=LabelWords(masked=("subjective", "objective"), causal=("subjective", "objective")),
        max_length_causal=256,
        source=f"{INDIRECT}; the paper's GPT-2 words (object, subject) were crossed, ours go by class name",
    ),
    Task(
        name="qnli", title="QNLI (does the sentence answer the question)",
        data=Hub(id="nyu-mll/glue", config="qnli", test="validation"),
        text=("question", "sentence"), labels=NLI_01, classes=dict(zip(NLI_01, NLI_01, strict=True)),
        template=NLI_01_TEMPLATE, label_words=NLI_01_WORDS, max_length_causal=256, source=UNVERIFIED,
    ),
    Task(
        name="snli", title="SNLI (inference)", data=Hub(id="stanfordnlp/snli", validation="validation"),
        text=("premise", "hypothesis"), labels=NLI, classes=dict(zip(NLI, NLI, strict=True)), drop=("-1",),
        template=NLI_TEMPLATE, label_words=NLI_WORDS, max_length=256, source=UNVERIFIED,
    ),
    Task(
        name="mnli", title="MNLI (inference, matched)",
        data=Hub(id="nyu-mll/glue", config="mnli", test="validation_matched"),
        text=("premise", "hypothesis"), labels=NLI, classes=dict(zip(NLI, NLI, strict=True)),
        template=NLI_TEMPLATE, label_words=NLI_WORDS, max_length=256, source=UNVERIFIED,
    ),
    Task(
        name="rte", title="RTE (inference)", data=Hub(id="nyu-mll/glue", config="rte", test="validation"),
        text=("sentence1", "sentence2"), labels=NLI_01, classes=dict(zip(NLI_01, NLI_01, strict=True)),
        template=NLI_01_TEMPLATE, label_words=NLI_01_WORDS, max_length=256, source=UNVERIFIED,
    ),
    Task(
        name="mrpc", title="MRPC (paraphrases)", data=Hub(id="nyu-mll/glue", config="mrpc", test="validation"),
        text=("sentence1", "sentence2"), labels=("not_equivalent", "equivalent"),
        classes={"not_equivalent": "not_equivalent", "equivalent": "equivalent"},
        template=PARAPHRASE_TEMPLATE, label_words=PARAPHRASE_WORDS, metric="f1", max_length_causal=256,
        source=UNVERIFIED,
    ),
    Task(
        name="qqp", title="QQP (duplicate questions)",
        data=Hub(id="nyu-mll/glue", config="qqp", test="validation"),
        text=("question1", "question2"), labels=("not_duplicate", "duplicate"),
        classes={"not_duplicate": "not_duplicate", "duplicate": "duplicate"},
        template=PARAPHRASE_TEMPLATE, label_words=PARAPHRASE_WORDS, metric="f1", max_length_causal=256,
        source=UNVERIFIED,
    ),
    # Out of distribution: the same labels and prompts as the task that a model was fine-tuned on.
    _polarity("imdb", "IMDb (film reviews)", Hub(id="stanfordnlp/imdb"), SHORT, UNVERIFIED),
    _polarity(
        "yelp", "Yelp (reviews)", Hub(id="fancyzhx/yelp_polarity"), {"1": "negative", "2": "positive"}, UNVERIFIED
    ),
    _polarity(
        "amazon", "Amazon (product reviews)", Hub(id="fancyzhx/amazon_polarity"), NAMES,
        f"{UNVERIFIED}; titles left out as in the paper's code; the paper gives no number for it", text="content",
    ),
    Task(
        name="mnli_01", title="MNLI without neutral",
        data=Hub(id="nyu-mll/glue", config="mnli", test="validation_matched"),
        text=("premise", "hypothesis"), labels=NLI_01, drop=("neutral",),
        classes={"entailment": "entailment", "contradiction": "not_entailment"},
        template=NLI_01_TEMPLATE, label_words=NLI_01_WORDS, max_length=256, source=UNVERIFIED,
    ),
    Task(
        name="snli_01", title="SNLI without neutral", data=Hub(id="stanfordnlp/snli", validation="validation"),
        text=("premise", "hypothesis"), labels=NLI_01, drop=("neutral", "-1"),
        classes={"entailment": "entailment", "contradiction": "not_entailment"},
        template=NLI_01_TEMPLATE, label_words=NLI_01_WORDS, max_length=256, source=UNVERIFIED,
    ),
)

MAX_LENGTH = 128
"""The longest input, in tokens, of rows that state none."""
TASKS: dict[str, Task] = {
    row.name: row if row.max_length else row.model_copy(update={"max_length": MAX_LENGTH}) for row in _ROWS
}
