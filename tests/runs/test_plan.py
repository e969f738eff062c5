"""Tests of a run's spec, and of what its localizer is given: options, regions by name or by hand, other models.

What is impossible is refused before any compute.
"""

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from skillviz.core.localizers.table import LEAN_CANDIDATES, LOCALIZERS
from skillviz.core.parameters import graftable
from skillviz.core.region_expression import region_of as region_in
from skillviz.errors import BadInput, CorruptFile, PairMismatch, RunNotFound, SkillvizError
from skillviz.jobs import control
from skillviz.models.null_pair import null_pair, summed_movements
from skillviz.runs.checkpoint import CHECKPOINT
from skillviz.runs.plan import in_full, named_region, options_of, refused_graphs, resolved_expression
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.runs.spec import read_spec, region_of
from tests.fake_run import fake_run
from tests.refused import refused, refuses
from tests.runs.test_checkpoint import interrupted, resumed, same
from tests.runs.tiny_world import (
    Library,
    Region,
    RunSpec,
    Session,
    Store,
    failed_checks,
    load_pair,
    produce,
    produced,
    spec_of,
)
from tests.tiny import tiny_pair


def spec(localizer: str, **changes: Any) -> RunSpec:
    return RunSpec(**{"base": "b", "finetuned": "f", "task": "t", "localizer": localizer, **changes})


def named(localizer: str, runs: Library | None = None, **options: Any) -> tuple[Region | None, Any]:
    """Return the region that an option names, and its sources."""
    return named_region(spec(localizer, options=options), LOCALIZERS[localizer], runs)


def test_common_options_reach_those_that_have_them() -> None:
    options, notes = options_of(spec("stagewise", steps=3, batch_size=4), LOCALIZERS["stagewise"])
    assert options.steps == 3
    assert options.batch_size == 4
    assert notes == ()
    assert "no steps" in options_of(spec("movement", steps=3), LOCALIZERS["movement"])[1][0]


test_what_names_no_region_is_refused = refused(
    BadInput,
    ("learning_rate.*steps", options_of, spec("stagewise", options={"learning_rate": 1}), LOCALIZERS["stagewise"]),
    ("nowhere/none", lambda: named("learned", base="nowhere/none")),
    ("3", lambda: named("learned", base=3)),
    (
        "'reference' must be movement, or a region file; 'nowhere' is none",
        lambda: named("random-matched", reference="nowhere"),
    ),
)


@pytest.mark.parametrize(
    ("localizer", "options"),
    [("learned", {"base": "empty"}), ("movement", {}), ("random-matched", {"reference": "movement"})],
)
def test_some_options_name_no_region(localizer: str, options: dict[str, str]) -> None:
    assert named(localizer, **options) == (None, ())


@pytest.mark.parametrize(
    ("localizer", "option", "of"),
    [
        ("learned", "base", lambda path: path), ("random-matched", "reference", lambda path: path),
        ("random-matched", "reference", lambda path: path.parent),
    ],
    ids=["base", "reference", "folder of a run"],
)  # fmt: skip
def test_an_option_may_name_a_region_file(tmp_path: Path, localizer: str, option: str, of: Callable) -> None:
    region_file = tmp_path / "region.safetensors"
    Region.from_flat(np.array([3, 9]), {"a": (4, 4)}).save(region_file)
    run = spec(localizer, options={option: str(of(region_file))})
    region, _ = named_region(run, LOCALIZERS[localizer], None)
    assert region == Region.load(region_file)
    options, _ = options_of(run, LOCALIZERS[localizer], region)
    assert getattr(options, f"{option}_indices") == (3, 9) and getattr(options, "reference", "movement") == "movement"
    region_file.write_text("x")
    refuses(CorruptFile, None, named_region, run, LOCALIZERS[localizer], None)


def test_a_run_named_by_its_key_is_looked_up_and_missed_in_words(store: Store) -> None:
    run, runs = fake_run(store, localizer="movement", steps=5), Library([store])
    reference = region_of(run.spec, run.spec.model_dump(mode="json"))
    region, (source,) = named("random-matched", runs, reference=reference)
    options, _ = options_of(
        spec("random-matched", options={"reference": reference}), LOCALIZERS["random-matched"], region
    )
    assert (region, source["run"], options.reference_indices) == (run.region(), run.id, tuple(region.flat().tolist()))
    for gone, words in (
        (
            f"{'0' * 64} stagewise batch_size=64",
            "a run .stagewise batch_size=64, key 000000000000. that is not finished",
        ),
        ("", "reference=RUN/region.safetensors"),
    ):
        refuses(RunNotFound, words, named, "random-matched", runs, reference=f"key:{gone}")


def test_the_words_of_a_named_region_say_what_differs_from_the_run_that_names_it() -> None:
    of = spec("stagewise", batch_size=64, sizes=("5%",), task="cr")
    beside, words = {"task": "cr", "sizes": ["5%"], "readout": None}, f"key:{of.key()} stagewise batch_size=64"
    nested = spec("expression", options={"expression": {"run": f"key:{of.key()}"}}, sizes=("5%",), task="cr")
    assert (region_of(of, beside), region_of(of, {**beside, "task": "sst2", "sizes": [1000]})) == (
        words,
        f"{words} task=cr sizes=5%",
    )
    assert region_of(nested, beside) == f"key:{nested.key()} expression", "no key of another run"


# Lean mode and recorded passes


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, LEAN_CANDIDATES), ({"options": {"candidate_share": 0.3}}, 0.3),
        ({"lean": False}, LOCALIZERS["stagewise"].options().candidate_share), ({"localizer": "movement"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_candidates_are_fewer_in_lean_mode_unless_chosen(changes: dict[str, Any], share: float | None) -> None:
    run = spec(**{"localizer": "stagewise", "lean": True, **changes})
    assert getattr(options_of(run, LOCALIZERS[run.localizer])[0], "candidate_share", None) == share


@pytest.mark.parametrize("name", [name for name, row in LOCALIZERS.items() if not row.lean])
def test_a_localizer_of_whole_vectors_is_refused(world: Path, store: Store, name: str) -> None:
    refuses(
        BadInput, f"'{name}'.*stagewise.*frank-wolfe.*movement", produce, spec_of(world, localizer=name, lean=True),
        store,
    )  # fmt: skip
    assert not list(store.list())


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("make", [produce, control.start], ids=["run", "job"])
def test_without_a_gpu_recording_is_refused_before_there_is_a_folder(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch, make: Any, device: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("skillviz.jobs.slots.automatic", lambda: "cpu")
    refuses(
        BadInput, "CUDA graphs need a GPU, and this run is on the CPU; leave CUDA graphs out", make,
        spec_of(world, device=device, localizer="stagewise", cuda_graphs=True), store,
    )  # fmt: skip
    assert not list(store.list()) and not store.unfinished()


@pytest.mark.parametrize(
    ("name", "device", "is_lean", "readout", "words"),
    [
        ("stagewise", "cuda", False, None, ""), ("stagewise", "cuda:1", False, "head", ""),
        ("stagewise", "cuda", False, "causal", "causal readout"), ("stagewise", "cuda", True, None, "lean mode"),
        ("fisher", "cuda", False, None, "'fisher' takes gradients of single examples"),
        ("linearized", "cuda", False, None, "'linearized' takes gradients of single examples"),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded_is_refused_by_name(
    name: str, device: str, is_lean: bool, readout: str | None, words: str
) -> None:
    pair: Any = readout and SimpleNamespace(readout=readout)
    refusal = refused_graphs(LOCALIZERS[name], device, is_lean, pair)
    assert (refusal is None) == (not words) and words in str(refusal)


# Regions made by hand


source = produced(sizes=("5%", "20%"))


@pytest.fixture
def stored(source: Run, store: Store) -> Store:
    shutil.copytree(source.path, store.root / source.id)
    return store


def by_hand(world: Path, expression: Any) -> RunSpec:
    return spec_of(world, localizer="expression", options={"expression": expression})


def test_a_run_says_what_its_region_is_made_of(world: Path, session: Session, source: Run, stored: Store) -> None:
    part = {"kinds": ["value"], "layers": [0], "biases": True}
    asked = {"union": [{"run": source.id[:-2], "size": 400}, part]}
    run = produce(by_hand(world, asked), stored, session=session)
    expected = region_in(asked, session.pair(source.spec).table, lambda name, size: source.cut(size))
    assert run.region() == expected
    assert run.record.size == expected.size
    assert failed_checks(run) == []
    assert 400 <= expected.size <= 416
    assert f"-expression-{expected.size}-s0-" in run.id
    header, notes = run.region_header(), run.record.notes
    (told,) = header["made_of"]
    assert (
        header["expression"] == {"union": [{"run": source.id, "size": 400}, part]}
        and {"run": source.id, "finetuned_fingerprint": source.record.finetuned.fingerprint}.items() <= told.items()
    )
    assert (
        [told["region_sha256"], told["ranking_sha256"]]
        == [hashlib.sha256((source.path / file).read_bytes()).hexdigest() for file in (REGION, RANKING)]
        and any(source.id in note and told["region_sha256"][:12] in note for note in notes)
        and not any("size asked for" in note for note in notes)
    )


def test_a_planted_region_changes_what_is_named(source: Run, stored: Store) -> None:
    """The hash belongs to the file that was read, not to a copy elsewhere."""
    one, two = (
        resolved_expression(
            {"expression": {"run": run.id}}, graftable("bert", run.region().shapes), Library([stored])
        ).sources
        for run in (source, fake_run(stored, localizer="random", layers=2, width=16, sizes=("5%",), steps=2))
    )
    assert one != two


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("phase", ["search", "evaluate"])
def test_a_resumed_job_gives_the_same_region(
    world: Path, session: Session, source: Run, stored: Store, phase: str
) -> None:
    asked = by_hand(world, {"difference": [{"layers": [1]}, {"run": source.id}]})
    folder = interrupted(asked, stored, session, 1, phase)
    assert (folder.work / CHECKPOINT).is_file()
    same(produce(asked, stored, session=session), resumed(folder, session))


@pytest.mark.cases(7, 5)
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, BadInput, "needs its option"),
        ({"expression": "layers 0"}, BadInput, "not JSON"),
        ({"expression": []}, BadInput, "an object such as"),
        ({"expression": {"layer": [0]}}, BadInput, "'layer' is not a part of a region expression"),
        ({"expression": {"layers": [9]}}, BadInput, "no layer '9'; it has 0 to 1"),
        ({"expression": {"parameters": ["pooler.dense.weight"]}}, BadInput, "no parameter 'pooler.dense.weight'"),
        ({"expression": {"intersection": [{"layers": [0]}, {"layers": [1]}]}}, BadInput, "without entries"),
        ({"expression": {"layers": []}}, BadInput, "without entries"),
        ({"expression": {}, "stored": "x"}, BadInput, "name runs in the region expression"),
        ({"expression": {"run": "no-such-run"}}, RunNotFound, "no run 'no-such-run'"),
        ({"expression": {"run": "OTHER"}}, BadInput, "another architecture"),
        ({"expression": {"run": "SOURCE", "size": 10**6}}, BadInput, "entries; 1,000,000 were requested"),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_said_before_any_compute(
    world: Path, source: Run, stored: Store, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    other = fake_run(stored, layers=3, width=8, sizes=("5%",), steps=2)
    named = json.loads(json.dumps(options).replace("OTHER", other.id).replace("SOURCE", source.id))
    before, session = sorted(stored.root.iterdir()), Session()
    spec = spec_of(world, localizer="expression", options=named)
    refuses(error, rf"^[^\n]*{words}[^\n]*\.\Z", produce, spec, stored, session=session)
    assert "pair" not in session.values, "the models were loaded"
    assert sorted(stored.root.iterdir()) == before


def test_runs_are_named_in_full_wherever_they_stand(source: Run, stored: Store) -> None:
    def nested(run: str) -> dict[str, Any]:
        return {"difference": [{"union": [{"run": run}, {"layers": [0]}]}, {"run": run, "size": 3}]}

    assert in_full(nested(source.id[:12]), Library([stored])) == nested(source.id)


# Other models of the base


@pytest.fixture
def others(world: Path, tmp_path: Path) -> list[str]:
    """Return two copies of the world's fine-tuned model with more noise on every floating-point weight."""
    found = [shutil.copytree(world / "finetuned", tmp_path / name) for name in ("a", "b")]
    for seed, folder in enumerate(found):
        tensors, draw = load_file(folder / "model.safetensors"), torch.Generator().manual_seed(seed)
        save_file(
            {name: t + 0.1 * torch.randn(t.shape, generator=draw) for name, t in tensors.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )
    return list(map(str, found))


def test_the_sum_is_that_of_each_model_less_the_base(world: Path, others: list[str]) -> None:
    pair = load_pair(world / "base", world / "finetuned", device="cpu")
    each = torch.stack([load_pair(world / "base", other, device="cpu").finetuned - pair.base for other in others])
    for what, wanted in (("tasks", [each.sum(0)]), ("seeds", [each.sum(0), each.square().sum(0)])):
        total, sentence = summed_movements(pair, str(world / "base"), others, what)
        torch.testing.assert_close(total, torch.stack(wanted))
        assert f"other {what}' vectors are of a (" in sentence and "b (" in sentence


def test_movements_of_other_seeds_are_shuffled_like_the_pair_s_own(world: Path, others: list[str]) -> None:
    """Each entry of a null keeps its own movement together with the other seeds' movements of the same entry."""
    base, pair = str(world / "base"), load_pair(world / "base", world / "finetuned", device="cpu")
    moved = null_pair(pair, "shuffled", 0)
    (own, _), (null, _) = (summed_movements(one, base, others, "seeds") for one in (pair, moved))
    together = [torch.stack([one.movement.whole(), sums[0]]) for one, sums in ((pair, own), (moved, null))]
    for start, parameter in zip(pair.table.offsets.tolist(), pair.table.parameters, strict=False):
        before, after = (part[:, start : start + parameter.size].T.tolist() for part in together)
        torch.testing.assert_close(torch.tensor(sorted(after)), torch.tensor(sorted(before)))
    assert not torch.equal(*together) and torch.equal(
        *[summed_movements(one, base, others, "tasks")[0] for one in (pair, moved)]
    ), "vectors of other tasks are as they are"


@pytest.mark.nightly
def test_a_run_takes_other_models_and_says_so(world: Path, store: Store, others: list[str]) -> None:
    run, alone = (
        produce(spec_of(world, localizer="tall-mask", options=options), store)
        for options in ({"other_models": others[:1]}, {})
    )
    pair = load_pair(world / "base", world / "finetuned", device="cpu")
    (theirs,), _ = summed_movements(pair, str(world / "base"), others[:1], "tasks")
    moved = (pair.finetuned - pair.base).abs()
    assert (
        set(run.region().flat().tolist())
        == set(torch.where(moved == 0, 0.0, moved / theirs.abs()).topk(run.record.size).indices.tolist())
        and run.region() != alone.region()
    )
    assert ["other tasks' vectors are of a (" in "".join(one.record.notes) for one in (run, alone)] == [True, False]


@pytest.mark.parametrize(("more", "says"), [({"lean": True}, "or lean mode"), ({"per": "tensor"}, "or per=tensor")])
def test_other_seeds_are_compared_within_the_whole_model_in_memory(
    world: Path, store: Store, others: list[str], more: dict[str, Any], says: str
) -> None:
    refuses(
        BadInput,
        f"leave (it|other_models) out, {says}",
        produce,
        spec_of(world, options={"other_models": others, **({} if "lean" in more else more)}, lean="lean" in more),
        store,
    )
    assert not store.list() and "other seeds' vectors" in "".join(
        produce(spec_of(world, options={"other_models": others}), store).record.notes
    )


def test_what_is_no_other_model_of_the_base_is_one_sentence(world: Path, tmp_path: Path, store: Store) -> None:
    pair, strange = load_pair(world / "base", world / "finetuned", device="cpu"), tiny_pair(tmp_path, "gpt2", "head")[1]
    for what in ("tasks", "seeds"):
        refuses(
            PairMismatch, f"is the fine-tuned model itself; name models of other {what}", summed_movements, pair,
            str(world / "base"), [str(world / "finetuned")], what,
        )  # fmt: skip
    for other, error in ((str(strange), SkillvizError), (str(tmp_path / "none"), SkillvizError), (3.5, BadInput)):
        refuses(error, None, produce, spec_of(world, localizer="tall-mask", options={"other_models": other}), store)
    assert not store.list(), "refused before there is a folder"


PAIR = {"base": "org/base", "finetuned": "out/tuned", "task": "sst2"}
LATER = {
    "others": ("imdb",), "lean": True, "data_parallel": 2, "cuda_graphs": True, "nulls": "all", "null_draws": 3,
    "gain": 2.0, "outside": "another-run",
}  # fmt: skip
"""Fields that came later: a spec with their default is stored, and has the key, as before them."""


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("sizes", [10646, 0.001, "0.1%"], ("10646", "0.001", "0.1%")), ("sizes", 0.00001, ("1e-05",)),
        ("others", "imdb", ("imdb",)), ("outside", "r", '{"run":"r"}'), ("outside", {"run": "r"}, '{"run":"r"}'),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_a_yaml_file_become_what_would_be_typed(field: str, given: Any, kept: Any) -> None:
    assert getattr(RunSpec(**PAIR, **{field: given}), field) == kept


test_a_spec_is_frozen = refused(ValidationError, ("frozen", setattr, RunSpec(**PAIR), "seed", 3))
test_a_wrong_field_is_one_sentence_that_names_it = refused(
    BadInput,
    ("^[^\n]*localizer[^\n]*$", read_spec, {**PAIR, "localiser": "movement"}),
    ("^[^\n]*seed[^\n]*$", read_spec, {**PAIR, "seed": -1}),
    ("^[^\n]*sizes[^\n]*$", read_spec, {**PAIR, "sizes": []}),
    ("^[^\n]*readout[^\n]*$", read_spec, {**PAIR, "readout": "cls"}),
    ("^[^\n]*base[^\n]*$", read_spec, {**PAIR, "base": ""}),
    ("^[^\n]*steps[^\n]*$", read_spec, {**PAIR, "steps": 0}),
    ("^[^\n]*device[^\n]*$", read_spec, {**PAIR, "device": "tpu"}),
    ("^[^\n]*finetuned[^\n]*$", read_spec, {"base": "b", "task": "t"}),
    ("^[^\n]*nulls[^\n]*$", read_spec, {**PAIR, "nulls": "mixed"}),
    *(
        (f"^.*{gain}.* and must be fit, kinds, or a number from 0 to 1000[^\n]*$", read_spec, {**PAIR, "gain": gain})
        for gain in ("many", -1, 1001, float("nan"), None)
    ),
    ("'outside' of the run cannot be used: .* not a part of a region expression", read_spec,
     {**PAIR, "outside": '{"layer": [0]}'}),
)  # fmt: skip


def test_the_key_hangs_on_every_field_and_on_nothing_else() -> None:
    spec = RunSpec(**PAIR)
    changes = {
        "base": "x", "finetuned": "x", "task": "x", "readout": "head", "localizer": "movement", "options": {"a": 1},
        "sizes": ("1%",), "seed": 1, "data_seed": 1, "k_shot": 4, "steps": 5, "batch_size": 5, "device": "cpu",
        "dtype": "bfloat16", "autocast": "bfloat16", "max_train": 5, "max_validation": 5, "max_test": 5,
        "interpolation": True, **LATER,
    }  # fmt: skip
    assert changes.keys() == RunSpec.model_fields.keys()
    keys = {RunSpec(**{**PAIR, name: value}).key() for name, value in changes.items()}
    assert (
        len(keys | {spec.key()}),
        RunSpec(**dict(reversed(PAIR.items()))).key(),
        RunSpec(**PAIR, options={"a": 1, "b": 2}).key(),
    ) == (len(changes) + 1, spec.key(), RunSpec(**PAIR, options={"b": 2, "a": 1}).key())


def test_a_field_that_came_later_and_is_not_used_changes_no_key() -> None:
    plain, said = RunSpec(**PAIR), read_spec({**PAIR, "others": [], "nulls": "none", "outside": ""})
    assert (json.loads(plain.json_text()).keys(), said.json_text()) == (
        RunSpec.model_fields.keys() - LATER,
        plain.json_text(),
    )


def test_the_command_survives_a_shell() -> None:
    words = shlex.split(
        RunSpec(
            base="my models/base; rm -rf x", finetuned="t", task="my task.yaml", sizes=("0.1%", "5"), seed=3,
            localizer="learned", options={"base": "empty"}, interpolation=True, max_test=100,
            others=("imdb", "my other.yaml"), cuda_graphs=True, lean=True, dtype="own", data_parallel=2, gain=2,
        ).command()
    )  # fmt: skip
    said = {flag: [words[i + 1] for i, word in enumerate(words) if word == flag] for flag in words if flag[:2] == "--"}
    flags = ("--interpolation", "--cuda-graphs", "--lean")
    assert words[:4] == ["python", "-m", "skillviz", "localize"] and set(flags) <= set(words)
    assert {flag: values for flag, values in said.items() if flag not in flags} == {
        "--base": ["my models/base; rm -rf x"], "--finetuned": ["t"], "--task": ["my task.yaml"],
        "--method": ["learned"], "--size": ["0.1%", "5"], "--seed": ["3"], "--max-test": ["100"],
        "--option": ['base="empty"'], "--also": ["imdb", "my other.yaml"], "--dtype": ["own"],
        "--data-parallel": ["2"], "--gain": ["2.0"], "--nulls": ["none"],
    }  # fmt: skip


def test_the_python_line_gives_the_same_spec_back() -> None:
    spec = RunSpec(
        **PAIR, sizes=("0.1%", "5"), seed=3, readout="head", options={"lr": 0.5}, max_train=9, others="imdb",
        cuda_graphs=True,
    )  # fmt: skip
    code = spec.python().replace("import skillviz\n", "").replace("skillviz.localize", "RunSpec")
    scope: dict[str, object] = {"RunSpec": RunSpec}
    exec(code, scope)
    assert scope["run"] == spec


def test_paths_of_a_folder_mean_the_same_from_any_other(tmp_path: Path) -> None:
    for name in ("a", "b", "cr"):
        (tmp_path / name).mkdir()
    (tmp_path / "task.yaml").touch()
    spec = read_spec({"base": "a", "finetuned": "b", "task": "task.yaml", "others": ("cr",)}).anchored(tmp_path)
    assert spec.base == str(tmp_path / "a"), "a name of a task is no path"
    assert spec.finetuned == str(tmp_path / "b"), "a name of a task is no path"
    assert spec.task == str(tmp_path / "task.yaml"), "a name of a task is no path"
    assert spec.others == ("cr",), "a name of a task is no path"
    hub = read_spec({"base": "org/base", "finetuned": "examples/models/minilm-l6", "task": "cr"})
    assert hub.anchored(tmp_path) == hub
