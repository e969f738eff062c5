"""Tests that every number on a run's pages equals the value in its files, read here with pandas and json alone."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.core.metrics import metric_row
from skillviz.plots.interpolation import path_style
from skillviz.plots.theme import state_style
from skillviz.tasks.readable_names import readable
from tests.ui.driven import opened, said, table, with_tables

pytestmark = pytest.mark.slow

ENDS = ["value", "debiased", "low", "high"]
STATES = {"pretrained": "pre-trained", "finetuned": "fine-tuned", "grafted": "grafted", "complement": "complement",
          "finetuned_scaled": "temperature-scaled"}  # fmt: skip


@pytest.fixture
def folder(made: tuple[Path, dict[str, str]], ids: dict[str, str]) -> Path:
    """Return a stored run that has everything: another task, the WiSE grid, a second seed."""
    return made[0] / ids["stagewise0"]


def shown(page: str, folder: Path) -> AppTest:
    return with_tables(opened(page, run=folder.name))


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def stored(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / f"{name}.parquet")


def same(page: pd.DataFrame, files: pd.DataFrame, keys: list[str], values: list[str]) -> list[str]:
    """Compare a page's table with the files: return the differing rows and values; all of its rows must exist there."""
    page, files = (frame.assign(**{k: frame[k].astype(str) for k in keys}) for frame in (page, files))
    assert len(page) and not page.duplicated(keys).any()
    both = page.merge(files, on=keys, how="left", suffixes=("", " stored"), indicator=True)
    lost = [f"{tuple(row[keys])} is in no file" for _, row in both[both["_merge"] != "both"].iterrows()]
    for name in values:
        one, other = (both[column].to_numpy(float, na_value=np.nan) for column in (name, f"{name} stored"))
        wrong = ~np.isclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
        lost += [f"{tuple(both.loc[at, keys])}: {name} {one[at]}, stored {other[at]}" for at in np.flatnonzero(wrong)]
    return lost


def of_scores(scores: dict[str, Any], **more: Any) -> pd.DataFrame:
    """Return the metrics of run.json as rows, with the pages' names of states and metrics."""
    empty = dict.fromkeys(ENDS)
    return pd.DataFrame([
        {"state": STATES[state], "metric": metric_row(metric).title, **empty, **estimate, "n": scores["n"], **more}
        for state, metrics in scores["states"].items() for metric, estimate in metrics.items()
    ])  # fmt: skip


def probabilities(folder: Path, state: str, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities [n, label] and labels [n] on the test set."""
    rows = stored(folder, "predictions").query(f"state == '{state}' and split == 'test'")
    rows = rows[rows["dataset"] == record(folder)["task"]["name"]]
    logits = rows.filter(like="logit_").to_numpy(float) / temperature
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True), rows["label"].to_numpy()


def read_first(error: dict[str, Any]) -> float:
    """Return the debiased calibration error if there is one, else the plug-in one."""
    return error["value"] if error["debiased"] is None else error["debiased"]


def test_overview(folder: Path) -> None:
    test, scores = shown("overview", folder), record(folder)["metrics"]["test"]
    drawn, wanted = table(test, "state", "metric"), of_scores(scores)
    assert same(drawn, wanted, ["state", "metric"], ENDS) == []
    numbers = ["loss", "size", "added", "removed", "seconds"]
    assert same(table(test, "step", "loss"), stored(folder, "history"), ["target", "step"], numbers) == []
    expected = [
        text for each in (scores["states"][state] for state in ("pretrained", "grafted", "finetuned"))
        for text in (f"{100 * each['accuracy']['value']:.1f}%", f"{100 * read_first(each['ece']):.1f}%",
                     f"{each['nll']['value']:.3f}")
    ]  # fmt: skip
    assert said(test, "metric").splitlines()[:10] == [*expected, f"{100 * scores['agreement']['value']:.1f}%"]
    wanted.loc[3, "value"] += 1e-6
    assert len(same(drawn, wanted, ["state", "metric"], ENDS)) == 1, "a wrong one would pass"
    assert same(drawn, wanted[1:], ["state", "metric"], ENDS), "a missing one would pass"


@pytest.mark.parametrize("page", ["region", "surgery"])
def test_the_map_of_a_region(page: str, folder: Path) -> None:
    layers = stored(folder, "layers").assign(kind=lambda rows: rows["kind"].where(~rows["is_bias"], "bias"))
    cells = layers.groupby(["layer", "kind"], dropna=False)[["selected", "total"]].sum().reset_index().assign(
        share=lambda rows: rows["selected"] / layers["selected"].sum(),
        share_if_even=lambda rows: rows["total"] / layers["total"].sum(),
        density_ratio=lambda rows: rows["share"] / rows["share_if_even"],
    )  # fmt: skip
    test, numbers = shown(page, folder), ["selected", "total", "share", "share_if_even", "density_ratio"]
    assert same(table(test, "layer", "kind", "share_if_even"), cells, ["layer", "kind"], numbers) == []
    if page == "region":
        tensors = layers.groupby("parameter")[["selected", "total"]].sum().reset_index()
        assert same(table(test, "parameter"), tensors, ["parameter"], ["selected", "total"]) == []
    else:
        size = record(folder)["size"]
        assert said(test, "metric").splitlines()[:2] == [f"{size:,}", f"{100 * size / layers['total'].sum():.2f}%"]


def test_sparsity(folder: Path, made: tuple[Path, dict[str, str]]) -> None:
    """The page shows means over the two seeds on the test set."""
    curves = pd.concat(
        [stored(made[0] / made[1][name], "curve").query("split == 'test'") for name in ("stagewise0", "stagewise1")]
    )
    mean = curves.groupby(["metric", "size"])["value"].mean().reset_index()
    drawn = table(shown("sparsity", folder), "size", "value", "seeds").query("localizer == 'stagewise'")
    assert same(drawn, mean[mean["metric"] == "accuracy"], ["size"], ["value"]) == []


def test_calibration(folder: Path) -> None:
    bins = []
    for state, of, temperature in (
        ("grafted", "grafted", 1.0), ("fine-tuned", "finetuned", 1.0),
        ("temperature-scaled", "finetuned", record(folder)["temperature"]),
    ):  # fmt: skip
        p, labels = probabilities(folder, of, temperature)
        confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
        for number in range(15):
            inside = (confidence > number / 15) & (confidence <= (number + 1) / 15)
            empty = not inside.any()
            bins.append({
                "state": state, "bin": number, "lower": number / 15, "upper": (number + 1) / 15, "count": inside.sum(),
                "confidence": np.nan if empty else confidence[inside].mean(),
                "accuracy": np.nan if empty else right[inside].mean(),
            })  # fmt: skip
    drawn, numbers = table(shown("calibration", folder), "bin", "confidence", "accuracy"), [*bins[0]][2:]
    assert same(drawn, pd.DataFrame(bins), ["state", "bin"], numbers) == []


def test_interpolation(folder: Path) -> None:
    test = shown("interpolation", folder)
    for name, values in (("interpolation", ENDS), ("interpolation_bins", ["count", "correct", "confidence"])):
        rows = stored(folder, name).assign(
            path=lambda rows: rows["path"].map(lambda path: path_style(path).title),
            dataset=lambda rows: rows["dataset"].map(readable),
        )
        keys = ["path", "size", "alpha", "dataset", *(["metric"] if name == "interpolation" else ["bin"])]
        assert same(table(test, "alpha", keys[-1]).drop_duplicates(keys), rows, keys, values) == []


def test_transfer(folder: Path) -> None:
    run, test = record(folder), shown("transfer", folder)
    others = [(one["name"], one["scores"]) for one in run["transfers"]]
    sets = {readable(name): scores for name, scores in [(run["task"]["name"], run["metrics"]["test"]), *others]}
    wanted, keys = pd.concat([of_scores(of, dataset=name) for name, of in sets.items()]), ["dataset", "state", "metric"]
    assert same(table(test, *keys), wanted, keys, [*ENDS, "n"]) == []
    differences = pd.DataFrame([
        {"dataset": name, "metric": metric_row(metric).title, **dict.fromkeys(ENDS), **estimate}
        for name, scores in sets.items() for metric, estimate in scores["differences"].items()
    ])  # fmt: skip
    drawn = [each.value for each in test.dataframe if "state" not in each.value and "dataset" in each.value][0]
    assert same(drawn, differences, ["dataset", "metric"], ENDS) == []


def test_examples(folder: Path) -> None:
    test, names = shown("examples", folder), record(folder)["task"]["labels"]
    drawn = [each.value for each in test.dataframe if list(each.value.columns) == ["true", "predicted", "count"]]
    assert len(drawn) == 3
    for frame, state in zip(drawn, ("pretrained", "grafted", "finetuned"), strict=True):
        p, labels = probabilities(folder, state)
        counts = pd.crosstab(labels, p.argmax(axis=1)).reindex(index=range(2), columns=range(2), fill_value=0)
        wanted = [{"true": names[i], "predicted": names[j], "count": counts.loc[i, j]} for i in (0, 1) for j in (0, 1)]
        assert same(frame, pd.DataFrame(wanted), ["true", "predicted"], ["count"]) == []
    listed = table(test, "example", "graft − fine-tuned")
    rows = stored(folder, "predictions").query("state == 'grafted' and split == 'test'")
    wanted = {"example": rows.loc[rows["dataset"] == record(folder)["task"]["name"], "example_id"].tolist()}
    for state in ("pretrained", "grafted", "finetuned", "complement"):
        p, labels = probabilities(folder, state)
        wanted[f"{STATES[state]}: true class"] = 100 * p[np.arange(len(labels)), labels]
    wanted["graft − fine-tuned"] = wanted["grafted: true class"] - wanted["fine-tuned: true class"]
    assert same(listed, pd.DataFrame(wanted), ["example"], [*wanted][1:]) == []


def test_home(made: tuple[Path, dict[str, str]], ids: dict[str, str]) -> None:
    """The numbers belong to the run that the page draws, which is one of the store."""
    test = with_tables(opened("home"))
    drawn = table(test, "layer", "kind", "selected")
    runs = [path.parent for path in made[0].glob("*/layers.parquet")]
    words, entries = " ".join(text.value for text in test.markdown).lower(), drawn["selected"].sum()
    fitting = (path for path in runs if record(path)["task"]["name"] in words)
    (shown_run,) = {path for path in fitting if stored(path, "layers")["selected"].sum() == entries}
    scores, metric = record(shown_run)["metrics"]["test"]["states"], record(shown_run)["task"]["metric"]
    before, graft, after = (scores[state][metric]["value"] for state in ("pretrained", "grafted", "finetuned"))
    layers = stored(shown_run, "layers")
    wanted = [
        f"## {100 * layers['selected'].sum() / layers['total'].sum():.0f}%",
        f"## {100 * (graft - before) / (after - before):.0f}%",
        f"## {100 * read_first(scores['finetuned']['ece']):.1f} → {100 * read_first(scores['grafted']['ece']):.1f}%",
    ]
    assert [line for line in said(test, "markdown").splitlines() if re.fullmatch(r"## [\d.]+.*%", line)] == wanted
    curve = stored(shown_run, "curve").query("split == 'test' and metric == @metric")
    assert same(table(test, "size", "value", "seeds"), curve, ["size"], ["value"]) == []


def test_compare(made: tuple[Path, dict[str, str]], folder: Path) -> None:
    names = {"stagewise": "stagewise0", "random": "random", "top movement": "movement"}
    right, rows = {}, []
    for title, name in names.items():
        p, labels = probabilities(made[0] / made[1][name], "grafted")
        right[title] = p.argmax(axis=1) == labels
        confidence, bins = p.max(axis=1), np.ceil(p.max(axis=1) * 15)
        gaps = [abs((right[title] - confidence)[bins == number].sum()) for number in range(1, 16)]
        values = {"accuracy": right[title].mean(), "ECE": sum(gaps) / len(labels),
                  "NLL": -np.log(p[np.arange(len(labels)), labels]).mean()}  # fmt: skip
        rows += [{"run": title, "metric": metric, "value": value} for metric, value in values.items()]
    scores, test = pd.DataFrame(rows), shown("compare", folder)
    drawn = [each.value for each in test.dataframe if list(each.value.columns)[:3] == ["run", "metric", "value"]]
    of_runs, differences = (pd.concat([frame for frame in drawn if ("p" in frame) == is_paired])
                            for is_paired in (False, True))  # fmt: skip
    of_runs = of_runs[of_runs["run"].isin([*names])]
    assert len(of_runs) == 9 and same(of_runs, scores, ["run", "metric"], ["value"]) == []
    base = scores[scores["run"] == "stagewise"].set_index("metric")["value"]
    paired = scores[scores["run"] != "stagewise"].assign(
        value=lambda rows: rows["value"] - rows["metric"].map(base),
        **{
            column: lambda rows, ours=ours: np.where(
                rows["metric"] == "accuracy",
                [((right[run] == ours) & (right["stagewise"] != ours)).sum() for run in rows["run"]],
                np.nan,
            )
            for column, ours in (("gained", True), ("lost", False))
        },
    )
    assert len(differences) == 6 and same(differences, paired, ["run", "metric"], ["value", "gained", "lost"]) == []
