"""What stands against a study that is about to be started, looked up once for the same study and stores."""

from __future__ import annotations

import streamlit as st

from skillviz.runs.library import library
from skillviz.runs.store import Store
from skillviz.studies.paper.request import refuse_wrong
from skillviz.studies.spec import StudySpec

SECONDS = 60  # a model's folder changes without a run


def refuse(study: StudySpec, store: Store) -> None:
    """Raises the SkillvizError that stands against the study; it is looked for again each time until it is gone."""
    _refuse(study.yaml_text(), len(library().list()), study, store)


@st.cache_data(show_spinner=False, max_entries=16, ttl=SECONDS)
def _refuse(text: str, runs: int, _study: StudySpec, _store: Store) -> None:
    refuse_wrong(_study, _store)
