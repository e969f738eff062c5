"""Boxes that name a model: a folder found on this machine, one that is typed, or a name of the hub; what is fetched."""

from __future__ import annotations

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.models import fetch
from skillviz.models.local_models import ENVIRONMENT, roots
from skillviz.show import text
from skillviz.ui import cache, form
from skillviz.ui.pages.launch import words

BASE_HELP = (
    "The model before fine-tuning: a folder found here, or type a folder, a hub id such as `org/name`, or "
    "`org/name@revision`. Only safetensors weights are read."
)
FINETUNED_HELP = "The same model after fine-tuning, named in the same way; a LoRA adapter is merged when it is loaded."


def base(name: str, label: str, help: str = BASE_HELP, placeholder: str = "choose, or type") -> str:
    """The model before fine-tuning; empty for none."""
    whole = [found.source for found in cache.shelf().models if not found.is_adapter]
    return form.box(name, label, whole, "", shown=_shown, help=help, placeholder=placeholder)


def finetuned(
    name: str, label: str, base: str, help: str = FINETUNED_HELP, placeholder: str = "choose, or type"
) -> str:
    """The model after fine-tuning, those of the base's kind first; empty for none."""
    models = {found.source: found for found in cache.shelf().models}
    kind = models[base].model_type if base in models else ""
    kin = sorted((s for s in models if s != base), key=lambda s: models[s].model_type not in (kind, ""))
    return form.box(name, label, kin, "", shown=_shown, help=help, placeholder=placeholder)


def found_where() -> str:
    """How many models were found, and where."""
    shelf = cache.shelf()
    places = ", ".join(f"`{place}`" for place in roots())
    more = " There are more than are listed; type the folder." if shelf.is_cut else ""
    counted = formats.counted(len(shelf.models), "model")
    return f"{counted} found under {places}. Set `{ENVIRONMENT}` to look elsewhere.{more}"


def absent(source: str) -> str:
    """Why a model cannot be looked at before it is fetched from the hub; empty where it can."""
    return "" if fetch.at_hand(source) else f"'{source}' is no folder here, and the hub's local cache does not hold it."


def fetch_button(source: str) -> None:
    """Fetches a model from the hub, only when it is asked for."""
    if not st.button(f"Fetch {source} from the hub", key=f"fetch.{source}", icon=":material/cloud_download:"):
        return
    try:
        with st.spinner(f"Fetching {source}: its weights may be large."):
            fetch.resolve(source)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])))
        return
    st.rerun()


def _shown(source: str) -> str:
    found = next((model for model in cache.shelf().models if model.source == source), None)
    return source if found is None else words.model(found)
