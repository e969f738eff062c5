"""The frame of every page, also of the sign-in page: logo, colors, spacing and accessibility scripts."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

STYLE = Path(__file__).with_suffix(".css")
BRAND = Path(__file__).with_name("brand")
SCRIPTS = ("assistive", "enter")

_mounts = {
    name: st.components.v2.component(
        f"skillviz_{name}", html="<span></span>", js=Path(__file__).with_name(f"{name}.js").read_text(encoding="utf-8")
    )
    for name in SCRIPTS
}


def theme() -> str:
    """The theme of the user's browser, `light` or `dark`."""
    return "dark" if st.context.theme.type == "dark" else "light"


def draw() -> None:
    """Draws the logo, the styles that Streamlit's theme cannot set, and scripts for keyboards and screen readers."""
    st.logo(BRAND / f"logo-{theme()}.svg", icon_image=BRAND / f"mark-{theme()}.svg", size="large")
    st.html(STYLE)
    st.html(f"<style>{_colors()}</style>")
    for name, mount in _mounts.items():
        with st.container(key=f"touch-{name}"):
            mount(key=f"skillviz_{name}", height=1)


def _colors() -> str:
    """CSS variables for frame.css: a new theme sets them at once in the app, elsewhere at the next script run."""
    css = ""
    for name, option in {"--ground": "backgroundColor", "--primary": "primaryColor"}.items():
        light, dark = (st.get_option(f"theme.{kind}.{option}") for kind in ("light", "dark"))
        css += f":root {{ {name}: {dark if theme() == 'dark' else light} }}"
        css += f"[data-testid='stApp'] {{ {name}: light-dark({light}, {dark}) }}"
    return css
