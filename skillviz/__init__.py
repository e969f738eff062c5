"""Find, test and export the small region of parameters that holds a fine-tuned skill.

    import skillviz

    run = skillviz.localize(base="roberta-base", finetuned="models/sst2", task="sst2", size="0.1%")
    run.headline()["metrics"]["grafted"]["accuracy"]

Names are resolved when first used, so that `import skillviz` imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillviz.api import (
        Evaluation,
        Finetuned,
        Graft,
        ModelPair,
        Region,
        Run,
        Task,
        complement,
        evaluate,
        finetune,
        grafted,
        load_graft,
        load_pair,
        localize,
        open_run,
        open_study,
        regions,
        task,
    )
    from skillviz.core.calibration_error import calibration_difference, calibration_error, calibration_test

__version__ = "0.1.0"

__all__ = [
    "Evaluation",
    "Finetuned",
    "Graft",
    "ModelPair",
    "Region",
    "Run",
    "Task",
    "__version__",
    "calibration_difference",
    "calibration_error",
    "calibration_test",
    "complement",
    "evaluate",
    "finetune",
    "grafted",
    "load_graft",
    "load_pair",
    "localize",
    "open_run",
    "open_study",
    "regions",
    "task",
]

_HOMES = {
    "calibration_difference": "skillviz.core.calibration_error",
    "calibration_error": "skillviz.core.calibration_error",
    "calibration_test": "skillviz.core.calibration_error",
    "Region": "skillviz.core.region",
    "Run": "skillviz.show.notebook",
    "Task": "skillviz.tasks.task",
    "open_run": "skillviz.show.notebook",
    "open_study": "skillviz.show.notebook",
    "task": "skillviz.tasks.registry",
}
"""The modules of the names that need no torch. All other names come from skillviz.api, which imports it."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'skillviz' has no attribute '{name}'; it has: {', '.join(__all__)}")
    value = getattr(import_module(_HOMES.get(name, "skillviz.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
