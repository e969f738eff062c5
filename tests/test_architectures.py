"""Tests of every family, tiny: preflight, localize, export and apply; and its line in docs/architectures.md."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import AutoTokenizer

from skillviz.analysis.part_effects import part_effects
from skillviz.commands.parts import scored
from skillviz.core.architectures import FAMILIES, KINDS
from skillviz.core.graft import Graft
from skillviz.core.parameters import graftable, readout_names
from skillviz.core.region_parts import ALONE, EXPERTS
from skillviz.errors import BadInput, BadModel
from skillviz.models.applied import applied, save_applied
from skillviz.models.attribution import conductance, explained
from skillviz.models.heads import is_head
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.preflight import preflight
from skillviz.plots.region import region_map
from skillviz.runs.export import ExportRequest, export
from skillviz.runs.part_scores import stored_parts
from skillviz.runs.produce import produce
from skillviz.runs.run import Run, parameter_table
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library
from skillviz.show.part_effects import part_map, strongest
from skillviz.tasks import registry
from tests.models.examples import examples
from tests.models.folders import change_config
from tests.refused import refuses
from tests.scripts import script
from tests.tiers import first
from tests.tiny import AUTO, tiny_rows, tiny_task, tiny_tokenizer
from tests.tiny_families import ONE_A_SCHEME, family_config, family_pair

USUAL = ("deberta", "albert", "modernbert", "phi3", "falcon", "mixtral", "bart", "t5")
"""One family of each scheme: fused by head and in turn, shared, grouped, experts, two stacks."""


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return script("docs/architectures.py")


SLOWEST = {"luke", "longformer"}  # twenty seconds each: they pad every sentence to a window


def made(folder: Path, base: Path, finetuned: Path, **settings: Any) -> Run:
    """Return a run of a pair on a task that is written here."""
    task = str(tiny_task(folder / "task", rows=16))
    return produce(
        RunSpec(base=str(base), finetuned=str(finetuned), task=task, device="cpu", **settings), Store(folder / "runs")
    )


@pytest.mark.cases(2, 8)
@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, (ONE_A_SCHEME - SLOWEST).__contains__))
def test_a_family_from_preflight_to_apply(family: str, page: ModuleType, tmp_path: Path) -> None:
    base, finetuned = family_pair(tmp_path, family)
    check = preflight(base, finetuned, registry.task(str(tiny_task(tmp_path / "task", rows=16))))
    assert check.fits, check.problems
    pair = load_pair(base, finetuned, device="cpu")
    assert pair.d == check.d and pair.table.known
    assert not pair.outside, "the twin moved in the blocks alone, and all of them are graftable"

    run = made(tmp_path, base, finetuned, localizer="stagewise", sizes=("5%",), steps=2, batch_size=8)
    assert parameter_table(run.record, run.region()) == pair.table  # the table that pages use without the models
    layers = run.layers()
    assert set(layers["kind"]) == {kind for p in pair.table.parameters for kind in p.kinds} <= set(KINDS)
    assert layers["selected"].sum() == run.region().size and layers["total"].sum() == pair.d
    region_map(layers)

    export(run, ExportRequest("graft", "graft.safetensors"), tmp_path / "graft.safetensors")
    save_applied(applied(base, Graft.load(tmp_path / "graft.safetensors")), tmp_path / "applied")
    texts = [row["text"] for row in tiny_rows(4, seed=5)]
    inputs = AutoTokenizer.from_pretrained(tmp_path / "applied")(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        with pair.at("grafted", run.region()):
            wanted = pair.model(**inputs).logits.clone()
        with pair.at("pretrained"):
            assert not torch.equal(pair.model(**inputs).logits, wanted)
        again = load_model(tmp_path / "applied", check.readout, torch.float32)
        assert not again.made_up and torch.equal(again.model(**inputs).logits, wanted)
    assert page.row(family, type(pair.model).__name__, pair.table) in page.PAGE.read_text().splitlines(), (
        "docs/architectures.md is out of date: run python docs/architectures.py"
    )


def test_single_experts_are_scored_alone_and_left_out(tmp_path: Path) -> None:
    run = made(tmp_path, *family_pair(tmp_path, "mixtral"), localizer="movement", sizes=("10%",))
    effects = part_effects(
        scored(run, EXPERTS, tmp_path / "runs", sample=4, draws=1).predictions(), run.record.task, "nll"
    )  # type: ignore[arg-type]
    alone = effects[effects["condition"] == ALONE]
    assert list(zip(alone["layer"], alone["head"], strict=True)) == [
        (layer, one) for layer in (0, 1) for one in range(4)
    ]
    assert set(alone["kind"]) == {"expert"} and alone["value"].notna().all() and (alone["draws"] == 1).all()
    exhibit = part_map(effects, ALONE, "nll", EXPERTS, "light")
    told = exhibit.title, exhibit.figure.layout.xaxis.title.text
    assert told == ("What each expert does: grafted alone", "expert (first = 0)")
    assert "layer 0, expert 1" in strongest(effects, ALONE, "nll")["name"].tolist()
    assert stored_parts(library(tmp_path / "runs"), run, EXPERTS) is not None
    shared = graftable("deepseek_v3", {"model.layers.1.mlp.shared_experts.down_proj.weight": (8, 4)})
    assert shared.parameters[0].kind == "MLP out"


def test_the_page_lists_the_families_of_the_table(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(FAMILIES)
    assert page.page(rows) == text, "run python docs/architectures.py"


@pytest.mark.parametrize(
    ("family", "language"), [("t5", "T5ForConditionalGeneration"), ("bart", "BartForConditionalGeneration")]
)
def test_an_encoder_decoder_with_a_language_model_head_is_refused_by_name(
    family: str, language: str, tmp_path: Path
) -> None:
    base, finetuned = family_pair(tmp_path, family)
    generator = getattr(transformers, language)(family_config(family, len(tiny_tokenizer("roberta"))))
    for folder in (base, finetuned):
        generator.save_pretrained(folder)
    words = f"'finetuned' is a {language}, an encoder-decoder with a language-model head, which has no readout here"
    for readout in (None, "prompt", "causal"):
        check = preflight(base, finetuned, readout=readout)
        assert [problem.partition(";")[0] for problem in check.problems] == [words]
    assert isinstance(check.errors[0], BadModel)
    refuses(BadModel, "encoder-decoder with a language-model head", load_pair, base, finetuned, device="cpu")


@pytest.mark.parametrize(("change", "words"), [("no end", "does not add it"), ("as padding", "also pads with it")])
def test_a_head_read_at_the_end_of_a_text_needs_a_tokenizer_that_ends_it(
    change: str, words: str, tmp_path: Path
) -> None:
    base, finetuned = family_pair(tmp_path, "t5")
    rehearse(preflight(base, finetuned))
    for folder in (base, finetuned):
        tokenizer = tiny_tokenizer("roberta")
        if change == "no end":
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
        else:
            tokenizer.pad_token = tokenizer.eos_token
            change_config(folder, pad_token_id=tokenizer.eos_token_id)
        tokenizer.save_pretrained(folder)
    for load in (rehearse, lambda check: load_pair(base, finetuned, device="cpu")):
        refuses(BadModel, words, load, preflight(base, finetuned))


def test_a_base_that_writes_text_is_a_base_of_its_classifier(tmp_path: Path) -> None:
    """Encoder-decoders are published like this: with a language-model head, and the embedding listed three times."""
    base, finetuned = family_pair(tmp_path, "t5")
    tensors = load_file(base / "model.safetensors")
    copies = {f"{stack}.embed_tokens.weight": tensors["shared.weight"].clone() for stack in ("encoder", "decoder")}
    save_file({**tensors, **copies}, base / "model.safetensors", {"format": "pt"})
    change_config(base, architectures=["T5ForConditionalGeneration"])
    check = preflight(base, finetuned)
    assert check.fits, check.problems
    pair = load_pair(base, finetuned, device="cpu")
    assert [(s.name, s.first, s.last) for s in pair.table.stacks] == [("encoder", 0, 1), ("decoder", 2, 3)]
    assert pair.table.note in pair.notes and pair.table.note == "Layers 0–1 are the encoder's, 2–3 are the decoder's."
    refuses(BadInput, "predictions of 't5' models cannot be explained", explained, pair, examples(tmp_path, pair), 0)


def test_layers_that_share_their_parameters_are_said_and_not_told_apart(tmp_path: Path) -> None:
    base, finetuned = family_pair(tmp_path, "albert")
    pair = load_pair(base, finetuned, device="cpu")
    note = (
        "The model's 2 layers share one set of parameters, shown as layer 0: a graft changes all layers that share it."
    )
    assert pair.table.note == note and note in pair.notes
    words = "share their parameters, so they cannot be told apart"
    refuses(BadInput, words, conductance, pair, examples(tmp_path, pair), "finetuned", target=0)


def test_the_map_names_the_stacks_and_each_head_of_a_stack_is_counted() -> None:
    table = pd.DataFrame(
        {"layer": [0, 1, 2, 3], "kind": "query", "is_bias": False, "selected": 1, "total": 4,
         "stack": ["encoder", "encoder", "decoder", "decoder"]}
    )  # fmt: skip
    assert (region_map(table).layout.yaxis.ticktext, region_map(table.drop(columns="stack")).layout.yaxis.ticktext) == (
        ("encoder 0", "1", "decoder 2", "3"),
        ("0", "1", "2", "3"),
    )


@pytest.mark.cases(3, 10)
@pytest.mark.parametrize("family", first(FAMILIES, lambda family: False, ONE_A_SCHEME.__contains__))
def test_what_lies_outside_a_family_body_is_a_head(family: str) -> None:
    for readout in ("head", "prompt", "causal"):
        try:
            with torch.device("meta"):
                model = AUTO[readout].from_config(family_config(family, 700))
        except ValueError:  # the family has no such class
            assert readout not in FAMILIES[family].needed
            continue
        prefix, names = FAMILIES[family].prefix, [name for name, _ in model.named_parameters()]
        outside = [name for name in names if not name.startswith(prefix)]
        assert model.base_model_prefix + "." == prefix
        assert all(is_head(family, name) for name in outside), (readout, outside)
        if readout in FAMILIES[family].needed:
            assert set(FAMILIES[family].needed[readout]) <= {name.removeprefix(prefix) for name in names}
        if readout == "head":
            found = readout_names(family, names)
            assert set(outside) <= set(found) and FAMILIES[family].labels in {
                name.removeprefix(prefix) for name in found
            }
