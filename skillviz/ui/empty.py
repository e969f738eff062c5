"""The card of a part of a page that has nothing to show yet: what is missing and how to get it."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


def missing(title: str, sentence: str, icon: str) -> DeltaGenerator:
    """Draws a card with a title and a sentence, both Markdown; returns it, to add the button or command that helps.

    `icon` is a Material symbol.
    """
    card = st.container(border=True)
    card.markdown(f"## :material/{icon}: {title}")
    card.markdown(sentence)
    return card
