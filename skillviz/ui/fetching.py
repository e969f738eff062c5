"""The buttons that download a model or a data set, the only requests that a page makes to another machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.models import fetch
from skillviz.serving import sign_in
from skillviz.show import text
from skillviz.tasks.reading import from_hub
from skillviz.tasks.task import Hub, Task
from skillviz.ui.controls import action

LOOKS = 0.2  # seconds between updates of the progress bar


def button(source: str) -> None:
    """Downloads a model from the hub when clicked, with a progress bar in bytes, and then redraws the page."""
    _fetch(source, source, lambda: _download(source))


def data_button(task: Task) -> None:
    """Downloads a task's data set from the hub when clicked, and then redraws the page."""
    data = task.data
    assert isinstance(data, Hub)

    def download() -> None:
        with st.spinner(f"Downloading {text.plain(data.title)}"):
            from_hub(data, data.test, task)

    _fetch(data.title, task.name, download)


def _fetch(title: str, name: str, download: Callable[[], None]) -> None:
    """Draws the button; when it is clicked, downloads and redraws the page, or shows why it cannot."""
    if not action(f"Download {title} from the Hugging Face Hub", key=f"fetch.{name}", icon=":material/download:"):
        return
    try:
        download()
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)))
    else:
        st.rerun()


def _download(source: str) -> None:
    seen = (0, 0)

    def tell(done: int, total: int) -> None:
        nonlocal seen
        seen = max(seen, (done, total))

    waiting = f"Downloading {text.plain(source)}"
    bar = st.progress(0.0, waiting)
    # the hub's client reports progress from its own threads, which may not draw
    with ThreadPoolExecutor(1) as pool:
        download = pool.submit(fetch.resolve, source, tell)
        while not download.done():
            done, total = seen
            if total:
                words = f"{waiting}: {formats.byte_size(done)} of {formats.byte_size(total)}"
                bar.progress(min(1.0, done / total), words)
            time.sleep(LOOKS)
        download.result()
