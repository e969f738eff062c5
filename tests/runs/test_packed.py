"""Tests of runs packed in a study's file: the same bytes and tables as in folders, read-only, damage detected."""

import json
import shutil
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from skillviz.errors import CorruptRun, StoreError
from skillviz.runs import packed, tables
from skillviz.runs.doctor import findings
from skillviz.runs.packed import FILE, RECORD, REGION, STUDIES, bytes_of, write_pack
from skillviz.runs.run import Run, _kept, with_checksum
from tests.fake_run import fake_run
from tests.refused import refuses
from tests.runs.conftest import SMALL
from tests.runs.tiny_world import Library, Session, Store, produce, spec_of


def contents(*runs: Run) -> dict[str, dict[str, partial[bytes]]]:
    return {run.id: {name: partial(bytes_of, run.path, name) for name in (RECORD, *run.files)} for run in runs}


def pack_folders(store: Store, study: str = "some") -> Path:
    """Move every run of a store to the file of a study in it; return the file."""
    pack, runs = store.root / STUDIES / study / FILE, store.list()
    pack.parent.mkdir(parents=True)
    write_pack(pack, contents(*runs))
    for run in runs:
        shutil.rmtree(run.path)
    return pack


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return three runs in folders. Tests must not change them."""
    store = Store(tmp_path_factory.mktemp("folders"))
    for seed in range(3):
        fake_run(store, seed=seed, interpolation=seed == 0, **SMALL)
    return store


@pytest.fixture
def studied(folders: Store, tmp_path: Path) -> Store:
    store = Store(shutil.copytree(folders.root, tmp_path / "studied"))
    pack_folders(store)
    return store


@pytest.fixture
def pack(studied: Store) -> Path:
    (found,) = packed.packs(studied.root)
    return found


def assert_same(folders: Store, studied: Store) -> None:
    assert [run.record for run in studied.list()] == [run.record for run in folders.list()]
    for one in folders.list():
        run = studied.open(one.id)
        assert (
            run.path,
            [name for name in (RECORD, *one.files) if bytes_of(run.path, name) != (one.path / name).read_bytes()],
        ) == (studied.root / STUDIES / "some" / FILE / run.id, []) and not run.path.exists()
        for name in tables.TABLES.keys() - {"parts"}:  # they are stored beside the run
            pd.testing.assert_frame_equal(getattr(run, name)(), getattr(one, name)())
        assert run.region() == one.region()
        assert run.region_header() == one.region_header()
        assert run.cut(5) == one.cut(5)
        assert run.root == studied.root
        assert np.array_equal(run.ranking(), one.ranking())
        assert not studied.verify(run.id)
    assert not list(findings(studied))


def test_a_packed_run_is_what_its_folder_was(folders: Store, studied: Store) -> None:
    assert_same(folders, studied)


@pytest.mark.nightly
def test_runs_of_a_pair_keep_their_predictions_at_every_size_and_share_those_of_the_pair(
    world: Path, session: Session, tmp_path: Path
) -> None:
    folders, sizes = Store(tmp_path / "folders"), ("5%", "1%", "10%")
    for more in ({"nulls": "shuffled", "null_draws": 2, "interpolation": True}, {"localizer": "stagewise", "steps": 2}):
        produce(spec_of(world, sizes=sizes, **more), folders, session=session)
    studied = Store(shutil.copytree(folders.root, tmp_path / "studied"))
    pack = pack_folders(studied)
    assert_same(folders, studied)
    for run in studied.list():
        n, (_, *others) = run.record.metrics["test"].n, run.record.sizes
        assert set(run.sizes()["size"]) == set(others)
        assert [[len(x) for x in run.logits("grafted", size=size)] for size in run.record.sizes] == [[n] * 3] * 3
        assert len(run.layers())
        assert len(run.ranking()) >= max(others)
    assert {len(set(run.nulls()["draw"])) for run in studied.list()} == {2, 0}
    ends = pq.read_table(pack).to_pandas().query("file == 'ends.parquet'")
    assert ends["run"].nunique() == 2 and ends["content"].notna().sum() == 1, "once for the pair"
    assert pack.stat().st_size < sum(path.stat().st_size for run in folders.list() for path in run.path.iterdir())


def test_runs_are_found_by_id_and_by_prefix(folders: Store, studied: Store) -> None:
    run = studied.list()[0]
    assert studied.has(run.id)
    assert studied.resolve(run.id[:-1]) == run.id
    assert Library([Store(studied.root / "none"), studied]).open(run.id).path == run.path
    assert Library([studied]).newest(run.record.key).id == run.id
    assert studied.unfinished() == []
    assert studied.folders() == []
    assert studied.others({run.id}) == ([], [])
    assert [one.id for one in studied.list(among=[run.id])] == [run.id]
    shutil.copytree(folders.root / run.id, studied.root / run.id)
    assert studied.open(run.id).path == studied.root / run.id and len(studied.list()) == 3


def test_runs_of_a_study_are_read_only(studied: Store) -> None:
    run = studied.list()[0]
    refuses(StoreError, "read-only", studied.delete, run.id)
    studied.set_note(run.id, "a note is beside the run")
    assert studied.note(run.id) and studied.open(run.id).id == run.id


def test_shared_contents_are_stored_once(tmp_path: Path) -> None:
    write_pack(tmp_path / FILE, {run: {"ends.parquet": partial(bytes, range(256))} for run in ("one", "two")})
    rows = pq.read_table(tmp_path / FILE).to_pandas()
    assert (
        rows["sha256"].nunique(),
        rows["content"].notna().tolist(),
        {bytes_of(tmp_path / FILE / run, "ends.parquet") for run in ("one", "two")},
    ) == (1, [True, False], {bytes(range(256))})


def test_one_table_is_read_without_the_rest_of_the_file(
    studied: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "GROUP", 1)
    write_pack(tmp_path / FILE, contents(*studied.list()))
    run = studied.list()[0]
    packed._contents.cache_clear()
    Run(tmp_path / FILE / run.id, run.record).curve()
    assert packed._contents.cache_info().misses == 1 < pq.ParquetFile(tmp_path / FILE).num_row_groups


def damaged(pack: Path, name: str) -> None:
    """Change a bit in each run's file of this name; the rest of the study's file is unchanged."""
    rows = pq.read_table(pack).to_pandas()
    for at in rows.index[(rows["file"] == name) & rows["content"].notna()]:
        content = bytearray(rows.at[at, "content"])
        content[len(content) // 2] ^= 1
        rows.at[at, "content"] = bytes(content)
    pq.write_table(packed.pa.Table.from_pandas(rows, packed.SCHEMA, preserve_index=False), pack)


@pytest.mark.parametrize("name", ["curve.parquet", "region.safetensors", "ranking.safetensors", "predictions.parquet"])
def test_a_changed_bit_is_noticed_by_sha256(studied: Store, pack: Path, name: str) -> None:
    damaged(pack, name)
    run = studied.list()[0]
    refuses(CorruptRun, "sha256", getattr(run, name.split(".")[0]))
    (sentence,) = studied.verify(run.id)
    assert (
        name in sentence
        and "sha256" in sentence
        and [(one.cure, "study pack some" in one.problem) for one in findings(studied)] == [("left", True)] * 3
    )


def test_a_changed_record_is_noticed(studied: Store, pack: Path) -> None:
    damaged(pack, RECORD)
    assert (len(studied.list()), len(studied.unreadable()), len(list(findings(studied)))) == (0, 3, 3)


def test_a_cut_file_is_one_unreadable_entry(studied: Store, pack: Path) -> None:
    pack.write_bytes(pack.read_bytes()[:-100])
    (entry,) = studied.unreadable()
    assert entry.path == pack
    assert [one.path for one in findings(studied)] == [pack]
    assert FILE in entry.reason
    assert not studied.list()


def test_a_file_that_is_replaced_is_read_again(studied: Store, pack: Path, folders: Store) -> None:
    one = folders.list()[0]
    write_pack(pack.with_name("part"), contents(one))
    pack.with_name("part").replace(pack)
    assert [run.id for run in studied.list()] == [one.id]


@pytest.mark.bench
def test_a_list_of_300_packed_runs_takes_no_longer_than_one_of_folders(folders: Store, tmp_path: Path) -> None:
    one, copies = folders.list()[0], Store(tmp_path / "folders")
    for number in range(300):
        path = shutil.copytree(one.path, copies.root / f"{one.id}-{number}")
        (path / RECORD).write_text(
            json.dumps(with_checksum(json.loads((path / RECORD).read_text()) | {"run_id": path.name}))
        )
    studied = Store(shutil.copytree(copies.root, tmp_path / "studied"))
    pack_folders(studied)

    def seconds(store: Store) -> float:
        took = []
        for _ in range(3):
            _kept.clear()
            packed._index.cache_clear()
            begun = time.process_time()
            assert len(store.list()) == 300
            took.append(time.process_time() - begun)
        return min(took)

    assert seconds(studied) < 1.2 * seconds(copies)


@pytest.mark.parametrize("size", [0, 3, 4, 4097])
def test_differences_of_words_give_any_bytes_back(size: int) -> None:
    given = np.random.default_rng(size).bytes(size)
    assert packed.decoded(packed.coded(given), size) == given
    refuses(ValueError, "reshape", packed.decoded, packed.coded(given) + b"!", size)


def test_a_large_region_is_stored_as_differences_and_read_as_it_was(
    folders: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, pack = folders.list()[0], tmp_path / FILE
    before = contents(run)
    for limit, is_coded in ((2**40, False), (run.record.files[REGION].size, True)):
        monkeypatch.setattr(packed, "LARGE", limit)
        write_pack(pack, before)
        rows = {row["file"]: row for row in pq.read_table(pack).to_pylist()}
        assert (rows[REGION]["content"] != before[run.id][REGION]()) is is_coded and {
            name: bytes_of(pack / run.id, name) for name in rows
        } == {n: make() for n, make in before[run.id].items()}
