"""What every page is drawn in: mark, colors and distances of our own, also before anybody has signed in."""

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
    """`light` or `dark`, as the reader's browser shows the page."""
    return "dark" if st.context.theme.type == "dark" else "light"


def draw() -> None:
    """Draws the mark, the style that the theme alone cannot give, and what keyboards and screen readers need."""
    st.logo(BRAND / f"logo-{theme()}.svg", icon_image=BRAND / f"mark-{theme()}.svg", size="large")
    st.html(STYLE)
    st.html(f"<style>{_colors()}</style>")
    for name, mount in _mounts.items():
        with st.container(key=f"touch-{name}"):
            mount(key=f"skillviz_{name}", height=1)


def _colors() -> str:
    """CSS variables for frame.css: within the app at once those of the theme that it has, beside it at the next run."""
    css = ""
    for name, option in {"--ground": "backgroundColor", "--primary": "primaryColor"}.items():
        light, dark = (st.get_option(f"theme.{kind}.{option}") for kind in ("light", "dark"))
        css += f":root {{ {name}: {dark if theme() == 'dark' else light} }}"
        css += f"[data-testid='stApp'] {{ {name}: light-dark({light}, {dark}) }}"
    return css
