"""One folder of small fake runs, made once per session; tests must copy it before they change anything."""

import json
from pathlib import Path

from skillviz.runs.run import RECORD, with_checksum
from skillviz.runs.store import Store
from tests.fake_run import fake_run

SMALL = {"layers": 2, "width": 16, "n": {"validation": 60, "test": 120}, "steps": 6}
SIZES = ("1%", "10%")


def make_store(root: Path) -> dict[str, str]:
    """Fill `root` with five runs of two pairs; return their ids by a short name.

    `stagewise0` is also scored on another task, and has the WiSE grid.
    """
    store = Store(root)
    runs = {
        "random": fake_run(store, localizer="random", sizes=SIZES, **SMALL),
        "movement": fake_run(store, localizer="movement", sizes=SIZES, **SMALL),
        "stagewise1": fake_run(store, seed=1, sizes=SIZES, **SMALL),
        "stagewise0": fake_run(store, sizes=SIZES, interpolation=True, others=("imdb",), **SMALL),
        "paraphrase": fake_run(
            store, sizes=("5%",), task="mrpc", metric="f1", finetuned="demo/tiny-mrpc", labels=("no", "yes"), **SMALL
        ),
    }
    for hour, run in enumerate(runs.values()):
        _created(run.path / RECORD, f"2026-01-01T{hour:02}:00:00+00:00")
    return {name: run.id for name, run in runs.items()}


def _created(record: Path, time: str) -> None:
    """Set the record's time: runs made within one second would have no newest one."""
    record.write_text(json.dumps(with_checksum({**json.loads(record.read_text()), "created": time})))
