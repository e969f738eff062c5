"""The models on this machine: folders with safetensors weights under a few roots. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillviz.errors import BadInput, BadModel
from skillviz.json_text import read_object
from skillviz.models.fetch import hub_name
from skillviz.models.weight_files import below, has_weights
from skillviz.serving.settings import MODELS_VARIABLE, settings
from skillviz.tasks.project import expanded, project_root

DEPTH = 4  # levels of folders below a root; the hub's cache has its models at the third
MOST, LOOKED_AT = 200, 5000  # models, and folders: a root may be a whole disk


@dataclass(frozen=True)
class LocalModel:
    """A model's folder. `source` is its name in a spec; an adapter's `base` is the name in its configuration."""

    source: str
    name: str
    root: str
    model_type: str
    bytes: int
    base: str = ""

    @property
    def is_adapter(self) -> bool:
        """True if it holds low-rank changes and not a whole model."""
        return bool(self.base)


@dataclass(frozen=True)
class LocalModels:
    """The models found; `is_cut` is True if there were too many folders to look at all of them."""

    models: tuple[LocalModel, ...]
    is_cut: bool = False


def roots() -> list[Path]:
    """Return the folders in $SKILLVIZ_MODELS (a list like PATH), or `models` in the project's and working folder."""
    places = [Path(expanded(path)) for path in settings.folders(MODELS_VARIABLE)] or [
        project_root() / "models",
        Path.cwd() / "models",
    ]
    return list(dict.fromkeys(place.absolute() for place in places))


def find_models(places: Sequence[Path], depth: int = DEPTH, most: int = MOST) -> LocalModels:
    """Return the models under these folders, by root and name."""
    models: list[LocalModel] = []
    looked = 0
    for root in places:
        for folder in below(root, depth):
            looked += 1
            if len(models) >= most or looked > LOOKED_AT:
                return LocalModels(tuple(models), is_cut=True)
            if (model := _model(folder, root)) is not None:
                models.append(model)
    return LocalModels(tuple(models))


def _model(folder: Path, root: Path) -> LocalModel | None:
    """Return the model in a folder; None if it holds none that could be loaded."""
    if not has_weights(folder):
        return None
    adapter, config = _read(folder / "adapter_config.json"), _read(folder / "config.json")
    if not adapter and not config:
        return None
    base = str(adapter.get("base_model_name_or_path") or "another model") if adapter else ""
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.is_file())
    return LocalModel(_source(folder), _name(folder, root), str(root), str(config.get("model_type", "")), size, base)


def _name(folder: Path, root: Path) -> str:
    """Return its path below the root, or the hub's own name for a model in the hub's cache."""
    name, revision = hub_name(folder)
    if revision:
        return f"{name}@{revision[:7]}"
    return folder.name if folder == root else folder.relative_to(root).as_posix()


def _source(folder: Path) -> str:
    """Return the path relative to the project's root, so that a run names no machine; absolute outside of it."""
    project = project_root().absolute()
    return folder.relative_to(project).as_posix() if folder.is_relative_to(project) else str(folder)


def _read(path: Path) -> dict[str, object]:
    """Return a JSON object; empty if there is none or it cannot be read."""
    try:
        return read_object(path)
    except (BadModel, BadInput):
        return {}
