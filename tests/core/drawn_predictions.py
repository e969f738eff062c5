"""Random logits and labels for property tests, with ties and with confident and uncertain rows."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)


@st.composite
def predictions(draw: st.DrawFn, classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return logits [n, classes] (float32 or float64) and labels [n]; half of them are rounded, so that rows tie."""
    n = draw(st.integers(1, 40))
    columns = classes or draw(st.integers(2, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = random.normal(size=(n, columns)) * draw(st.sampled_from([0.1, 1.0, 10.0, 300.0]))
    if draw(st.booleans()):
        logits = logits.round()
    return logits.astype(draw(st.sampled_from([np.float32, np.float64]))), random.integers(0, columns, n)


def logits_of(confidences: list[float]) -> np.ndarray:
    """Two-class logits [n, 2] that predict class 0 with these probabilities."""
    p = np.asarray(confidences, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.stack([np.log(p) - np.log1p(-p), np.zeros(len(p))], axis=1).clip(-1e3, 1e3)
