"""Every figure by name, drawn from the invented frames: with data, or from frames without rows."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from skillviz.analysis.size_curve import by_size
from skillviz.plots import (
    attribution,
    bound,
    calibration,
    checkpoints,
    classes,
    classroom,
    compare,
    continual,
    edits,
    examples,
    federated,
    forest,
    interpolation,
    methods,
    overlap,
    overview,
    paper,
    part_effects,
    region,
    rivals,
    run_fields,
    sensitivity,
    sparsity,
    subskills,
    tasks,
    transfer,
)
from tests.plots import compare_frames as several
from tests.plots import frames, study_frames
from tests.plots import wise_frames as wise

SIDES = {"inside": wise.INSIDE, "outside": wise.OUTSIDE}
# name: (function, function that makes the frame, other arguments)
FIGURES: dict[str, tuple[Callable[..., go.Figure], Callable[[], pd.DataFrame], dict[str, Any]]] = {
    "state_comparison": (overview.state_comparison, frames.scores, {"references": {"chance": 0.5, "majority": 0.501}}),
    "metric_by_size": (
        sparsity.metric_by_size,
        lambda: by_size(frames.curve(), "accuracy"),
        {"references": frames.REFERENCES},
    ),
    "named_by_size": (
        sparsity.metric_by_size,
        lambda: by_size(frames.curve(), "accuracy"),
        {"references": frames.REFERENCES, "direct": True, "crossing": (0.002, "95%<br>of the gain<br>at 0.2%")},
    ),
    "nll_by_size": (
        sparsity.metric_by_size,
        lambda: by_size(frames.curve(), "nll"),
        {"metric": "nll", "references": {"temperature": 0.36}},
    ),
    "variance_by_size": (bound.variance_by_size, frames.variance, {}),
    "runs_by_size": (
        sparsity.metric_by_size,
        lambda: by_size(several.curve(), "accuracy"),
        {"styles": several.STYLES},
    ),
    "run_values": (compare.values, several.scores, {"styles": several.STYLES}),
    "run_differences": (
        compare.differences,
        several.differences,
        {"styles": several.STYLES, "baseline": several.KEYS[0]},
    ),
    "runs_reliability": (calibration.reliability_diagram, several.reliability, {"styles": several.STYLES}),
    "overlap_iou": (overlap.overlap_map, several.shares, {}),
    "overlap_asymmetric": (overlap.overlap_map, several.shares, {"kind": "overlap"}),
    "confidence_histogram": (calibration.confidence_histogram, frames.reliability, {}),
    "scope_histogram": (
        calibration.scope_histogram,
        frames.scopes,
        {"titles": {"grafted": "AUROC 84.0%<br>(82.1–85.8)"}},
    ),
    "reliability_diagram": (calibration.reliability_diagram, frames.reliability, {}),
    "smooth_reliability": (
        calibration.smooth_reliability,
        lambda: frames.reliability().dropna().rename(columns={"count": "n"}),
        {"titles": {"grafted": "smECE 1.4% (0.0–2.2)<br>ECE 0.0% (0.0–2.3)"}},
    ),
    "risk_coverage": (calibration.risk_coverage, frames.risks, {"titles": {"grafted": "grafted: AURC 7.4% (6.2–8.7)"}}),
    "region_map": (region.region_map, frames.layers, {"chosen": (3, "value")}),
    "region_map_24": (region.region_map, lambda: frames.layers(24), {}),
    "region_map_share": (region.region_map, frames.layers, {"view": "share"}),
    "region_map_movement": (region.region_map, frames.layers, {"view": "movement"}),
    "region_map_stability": (region.region_map, frames.shared_layers, {"view": "stability"}),
    "region_map_overlap": (region.region_map, frames.shared_layers, {"view": "overlap"}),
    "region_map_minimal": (
        region.region_map,
        frames.minimal_layers,
        {"view": "minimal", "names": (region.SURPLUS, region.ENOUGH), "sides": False},
    ),
    "region_map_roles": (region.region_map, frames.roles, {"view": "roles", "sides": False}),
    "shares_by_layer": (region.shares_by_layer, frames.layers, {}),
    "shares_by_kind": (region.shares_by_kind, frames.layers, {}),
    "tensor_dots": (region.tensor_map, lambda: frames.entries(400), {"rows": 384, "cols": 384}),
    "tensor_blocks": (region.tensor_map, lambda: frames.entries(9000, 3072, 768), {"rows": 3072, "cols": 768}),
    "tensor_vector": (region.tensor_map, lambda: frames.entries(60, 1, 384), {"rows": 1, "cols": 384}),
    "top_rows": (region.top_lines, lambda: frames.entries(400), {"rows": 384, "cols": 384}),
    "top_columns": (region.top_lines, lambda: frames.entries(400), {"rows": 384, "cols": 384, "axis": "column"}),
    "head_map": (region.head_map, frames.heads, {"chosen": 1}),
    "search_history": (overview.search_history, frames.history, {}),
    "confidence_scatter": (examples.confidence_scatter, frames.examples, {"chosen": "test-1"}),
    "margin_scatter": (examples.confidence_scatter, frames.examples, {"measure": "margin"}),
    "class_probabilities": (examples.class_probabilities, frames.probabilities, {"labels": frames.TWO, "true": 1}),
    "class_probabilities_14": (
        examples.class_probabilities,
        lambda: frames.probabilities(14),
        {"labels": frames.FOURTEEN},
    ),
    "edited_probability": (edits.edited_probability, frames.edited, {"label": "positive"}),
    "confusion_matrix": (classes.confusion_matrix, frames.confusions, {"labels": frames.TWO}),
    "confusion_matrix_14": (classes.confusion_matrix, lambda: frames.confusions(14), {"labels": frames.FOURTEEN}),
    "class_results": (classes.class_results, frames.class_rows, {"labels": frames.TWO, "metric": "precision"}),
    "class_results_14": (classes.class_results, lambda: frames.class_rows(14), {"labels": frames.FOURTEEN}),
    "token_values": (attribution.token_values, frames.tokens, {}),
    "token_values_long": (attribution.token_values, lambda: frames.tokens(6), {}),
    "token_layers": (attribution.token_layers, frames.flow, {}),
    "token_layers_12": (attribution.token_layers, lambda: frames.flow(12), {"limit": 3.0}),
    "layer_parts": (attribution.layer_parts, frames.parts, {}),
    **{
        f"checkpoints_{panel}": (checkpoints.along_training, frames.checkpoints, {"panel": panel})
        for panel in checkpoints.PANELS
    },
    "effect_map": (part_effects.effect_map, frames.effects, {"metric": "accuracy"}),
    "effect_map_of_heads": (part_effects.effect_map, lambda: frames.effects(heads=4), {"metric": "nll"}),
    "forest": (
        forest.forest,
        lambda: frames.comparisons(9),
        {"metric": "accuracy", "difference": "graft − fine-tuned", "kind": "slice"},
    ),
    "forest_with_controls": (
        forest.forest,
        lambda: frames.comparisons(4),
        {"metric": "nll", "difference": "part alone − pre-trained", "kind": "part", "control": "random control"},
    ),
    "stability_by_count": (subskills.stability_by_count, frames.subskill_stability, {}),
    "loading_map": (subskills.loading_map, frames.subskill_loadings, {}),
    "trade_off": (interpolation.trade_off, wise.points, {**SIDES, "references": {"chance": 0.5}}),
    "trade_off_ends": (interpolation.trade_off, lambda: wise.points(points=2), {**SIDES, "metric": "ece"}),
    "accuracy_by_error": (interpolation.accuracy_by_error, wise.points, {"dataset": wise.INSIDE}),
    "along_paths": (interpolation.along_paths, wise.points, {"references": {"chance": 0.5}}),
    "confidence_at": (interpolation.confidence_at, wise.bins, {}),
    "zero_shot": (transfer.zero_shot, wise.tasks, {"references": {"chance": {"task-0": 0.5}}}),
    "zero_shot_14": (transfer.zero_shot, lambda: wise.tasks(14), {}),
    "graft_minus_finetuned": (transfer.graft_minus_finetuned, wise.differences, {}),
    "overlap_of_tasks": (tasks.overlap_of_tasks, frames.overlap, {}),
    "iou_of_tasks": (tasks.overlap_of_tasks, frames.overlap, {"kind": "iou"}),
    "gain_of_regions": (tasks.gain_of_regions, frames.gain, {}),
    "harmful_regions": (tasks.gain_of_regions, frames.harmful, {}),
    "overlap_of_9": (tasks.overlap_of_tasks, lambda: frames.overlap(frames.DEMO), {"kind": "iou"}),
    "overlap_of_13": (tasks.overlap_of_tasks, lambda: frames.overlap(frames.REAL), {}),
    "union_gain": (tasks.union_gain, frames.union, {}),
    "stability_of_regions": (tasks.stability_of_regions, frames.stability, {}),
    "by_stage": (continual.by_stage, frames.stages, {"start": {"sst2_sentences": 0.52}}),
    "federated": (federated.by_round, frames.federated, {}),
    "federated_membership": (federated.by_round, frames.federated, {"what": "membership"}),
    "against_touched": (methods.against_touched, study_frames.points, {"references": {"pretrained": 0.6}}),
    "against_touched_sizes": (methods.against_touched, lambda: study_frames.points(3), {"metric": "ece"}),
    "against_touched_many": (methods.against_touched, study_frames.board, {"references": {"pretrained": 0.6}}),
    "rivals_by_bytes": (rivals.by_bytes, study_frames.rivals, {"references": {"pretrained": 0.6}}),
    "rivals": (methods.rivals, study_frames.differences, {}),
    "rivals_ece": (methods.rivals, study_frames.differences, {"metric": "ece"}),
    "run_fields": (
        run_fields.run_fields,
        study_frames.runs,
        {"x_title": "region, % (log scale)", "y_title": "share of the gain, %", "is_log": (True, False)},
    ),
    "size_by_setting": (sensitivity.by_setting, study_frames.settings, {}),
    "accuracy_by_setting": (sensitivity.by_setting, study_frames.settings, {"metric": "accuracy"}),
    "published_beside": (paper.beside, study_frames.published, {}),
    "class_answers": (classroom.answers, frames.class_answers, {}),
    "claim_comparisons": (paper.comparisons, study_frames.claim, {"unit": "points", "limits": (0.0,)}),
}
NAMES = sorted(FIGURES)


@cache
def draw(name: str, theme: str = "light", rows: int | None = None) -> go.Figure:
    """Return the figure from its full frame, or from its first rows; tests share it and must not change it."""
    function, make, arguments = FIGURES[name]
    return function(make().iloc[:rows], theme=theme, **arguments)
