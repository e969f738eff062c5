"""The home page: one run as numbers, curve and map, and links to other pages."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.analysis.null_measures import by_measure
from skillviz.show import home, measures, text
from skillviz.show.briefs import RunBrief, headline_split, opening_brief
from skillviz.show.glossary import about
from skillviz.ui import address, cache, page, run_list, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip
from skillviz.ui.page_table import PAGES, is_presented


def draw(top: DeltaGenerator, briefs: tuple[RunBrief, ...]) -> None:
    """Draws links beside the title in `top`, then numbers and figures."""
    shown = opening_brief(briefs)
    with page.explained():
        run = cache.run(shown.id)
    with top.container(horizontal=True, width="content"):
        if not is_presented():  # in presenter mode the exit button is there, and an audience opens nothing
            _door("tour", "Take the tour", "primary")
            _door("overview", "Explore this run", "secondary", run.id)
            _door("launch", "Localize your own", "secondary")
        show_code.place()
    record, split = run.record, headline_split(run.record)
    scores = page.stored_scores(run, split)
    st.markdown(home.sentence(record, scores), help=about("graft", "region"))
    measured = cache.computed(("measures of nulls", split), [run], lambda: by_measure(run, split))
    _numbers(home.numbers(record, scores, split, measured))
    alike = run_list.pair_briefs(run)
    main_line = (shown.localizer, measures.nondefault_settings(alike)[[brief.id for brief in alike].index(run.id)])
    points = run_list.pair_curve(alike, split)
    left, right = st.columns(2)
    with left:
        if not points.empty:
            show(home.curve(points, record, split, main_line, theme()), run.id)
    with right:
        show_code.show("home", run=run.id)
        show(home.where(page.stored_table(run, "layers"), theme()), run.id)


def _numbers(numbers: list[home.Number]) -> None:
    for i, (place, number) in enumerate(zip(st.columns(len(numbers)), numbers, strict=True)):
        with place.container(border=True, height="stretch", gap="xxsmall", key=f"number-{i}"):
            st.markdown(number.title, help=about(*number.words))
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                st.markdown(f"## {number.value}", width="content")
                if number.verdict is not None:
                    chip(number.verdict)
            st.caption(text.unbroken(number.basis))


def _door(name: str, label: str, kind: str, run_id: str = "") -> None:
    row = PAGES[name]
    if st.button(label, type=kind, icon=f":material/{row.icon}:", key=f"home.{name}"):  # type: ignore[arg-type]
        st.switch_page(row.link(), query_params={address.RUN: run_id} if run_id else None)
