"""Tests of sign-in and of users' stores: admitted users, the store that a page reads, and no leak to another user."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock, create_autospec

import pytest
from streamlit.runtime.secrets import secrets_singleton

from skillviz.errors import BadInput, NotSignedIn, RunNotFound, StoreError
from skillviz.jobs import slots
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library
from skillviz.serving import sign_in, visitor
from skillviz.serving.settings import RUNS_VARIABLE, SECRETS_VARIABLE
from skillviz.serving.sign_in import User, make_store
from skillviz.serving.users import OWNER, USER, shared_root, store_of_user, user_named, user_of
from skillviz.ui import cache, jobs_view, live
from tests.fake_run import SMALL, fake_run
from tests.refused import refuses
from tests.visitor import opened

AUTH = '[auth]\nredirect_uri = "http://127.0.0.1/oauth2callback"\ncookie_secret = "x"\n'
PROVIDER = 'client_id = "a"\nclient_secret = "b"\nserver_metadata_url = "https://id.example"\n'
SPEC = RunSpec(base="a", finetuned="b", task="c")

SignIn = Callable[..., None]
providers = sign_in.providers  # the original function, saved before a test replaces it


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Clear the cached providers, which are read once per process."""
    providers.cache_clear()
    yield
    providers.cache_clear()


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Write the deployment's secrets; remove them afterwards."""
    file, original = tmp_path / "secrets.toml", sign_in.st.get_option
    paths = {"secrets.files": [str(file)]}
    for place in ("skillviz.serving.sign_in.st.get_option", "streamlit.config.get_option"):
        monkeypatch.setattr(place, lambda name: paths.get(name) or original(name))

    def write(content: str) -> None:
        file.write_text(content)
        secrets_singleton._reset()
        providers.cache_clear()

    yield write
    secrets_singleton._reset()


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> SignIn:
    """Make sign-in required, and sign in a user with these claims, or no user without claims."""

    def begin(**claims: Any) -> None:
        monkeypatch.setattr(sign_in, "providers", lambda: ("",))
        claims = {"is_logged_in": bool(claims), **claims}
        monkeypatch.setattr(sign_in.st, "user", SimpleNamespace(to_dict=lambda: claims))

    return begin


def user(signed_in: SignIn, name: str) -> Store:
    """Sign a user in, and return the user's store."""
    signed_in(iss="https://id.example", sub=name)
    return cache.user_store()


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("[other]\na = 1\n", ()),
        (AUTH + PROVIDER, ("",)),
        (f"{AUTH}[auth.school]\n{PROVIDER}[auth.guests]\n{PROVIDER}", ("school", "guests")),
        (f"{AUTH}{PROVIDER}client_kwargs = {{prompt = 'login'}}\n", ("",)),  # a table of settings is no provider
    ],
    ids=["other", "one", "named", "settings"],
)
def test_providers(content: str, wanted: tuple[str, ...], secrets: Callable[[str], None]) -> None:
    secrets(content)
    assert sign_in.providers() == wanted


def test_without_secrets_nobody_has_to_sign_in(secrets: Callable[[str], None], user_runs: Path) -> None:
    assert (sign_in.providers(), sign_in.user(), sign_in.user_root()) == ((), None, user_runs.resolve())


@pytest.mark.parametrize(
    ("content", "patched", "sentence"),
    [
        ("[auth\n", None, "cannot be read"),
        (AUTH, None, "names no identity provider"),
        ("[auth]\n", None, "names no identity provider"),
        (AUTH + PROVIDER, (Path, "exists", Mock(side_effect=PermissionError)), "cannot be read"),
        (AUTH + PROVIDER, (sign_in, "LIBRARY", "a_package_that_is_not_here"), "needs the package Authlib"),
    ],
    ids=["broken", "no provider", "empty", "closed", "no library"],
)
def test_wrong_secrets_let_nobody_in(
    content: str, patched: Any, sentence: str, secrets: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets(content)
    monkeypatch.setattr(*(patched or (sign_in, "LIBRARY", sign_in.LIBRARY)))
    for ask in (sign_in.providers, sign_in.user, cache.briefs, cache.user_store):
        refuses(BadInput, sentence, ask)
    assert not sign_in.is_open()


def test_secrets_that_are_not_where_they_should_be_let_nobody_in(
    secrets: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without its secrets file must not be open to everybody. A demo needs none."""
    monkeypatch.setenv(SECRETS_VARIABLE, str(tmp_path / "secrets.toml"))
    refuses(BadInput, "STREAMLIT_SECRETS_FILES names is not there", cache.library)
    monkeypatch.setenv("SKILLVIZ_READONLY", "1")
    assert sign_in.providers() == ()


def test_secrets_that_go_while_it_runs_do_not_open_it(secrets: Callable[[str], None], tmp_path: Path) -> None:
    secrets(AUTH + PROVIDER)
    assert sign_in.providers()
    (tmp_path / "secrets.toml").unlink()
    secrets_singleton._reset()
    refuses(NotSignedIn, None, cache.library)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"sub": "a"},
        {"iss": "a"},
        {"iss": "", "sub": "a"},
        {"iss": "a", "sub": ""},
        {"iss": "a", "sub": 7},
        {"iss": "a", "sub": "b", "is_logged_in": False},
    ],
)
def test_who_is_nobody_reads_nothing(claims: dict[str, Any], signed_in: SignIn, ids: dict[str, str]) -> None:
    signed_in(**claims)
    one = ids["random"]
    for ask in (
        cache.briefs, cache.others, cache.studies, cache.records, cache.user_store, cache.library, visitor.roots,
        partial(cache.run, one), partial(cache.runs, [one]), partial(cache.note, one),
    ):  # fmt: skip
        refuses(NotSignedIn, None, ask)


@pytest.mark.nightly
def test_each_user_has_a_list_of_the_own_and_the_shared_runs(signed_in: SignIn, user_runs: Path, empty: Path) -> None:
    shared = fake_run(Store(user_runs), **SMALL).id
    own = {name: fake_run(user(signed_in, name), localizer="random", **SMALL).id for name in "ab"}
    for name, other in ("ab", "ba", "ab", "ba"):  # the second time from the cache
        store = user(signed_in, name)
        assert store.root == store_of_user(user_runs.resolve(), user_named("https://id.example", name))
        briefs = {brief.id: brief.is_of_user for brief in cache.briefs()}
        assert (briefs, {record.run_id for record in cache.records()}, cache.run(own[name]).path.parent) == (
            {own[name]: True, shared: False},
            set(briefs),
            store.root,
        )
        for unknown in (own[other], own[other][:-2]):
            refuses(RunNotFound, None, cache.run, unknown)


def test_unfinished_runs_are_the_own_user_s_too(signed_in: SignIn, empty: Path) -> None:
    queued = user(signed_in, "a").create(SPEC).id
    for name, ids in (("a", [queued]), ("b", []), ("a", [queued])):
        user(signed_in, name)
        assert [[run.id for run in runs] for runs in cache.others()] == [ids, []]


def test_the_worker_s_answers_are_kept_by_store(signed_in: SignIn, user_runs: Path, empty: Path) -> None:
    """An answer may be about a region of a user's own run."""
    run = fake_run(Store(user_runs), **SMALL)
    for name in "abab":
        root = user(signed_in, name).root
        assert cache.answer(
            run, "evaluate_region", "{}", SimpleNamespace(store=root, ask=Mock(return_value={"from": str(root)})),
            "topic",
        ) == {"from": str(root)}  # fmt: skip


def test_what_all_may_ask_is_asked_of_one_worker(signed_in: SignIn, user_runs: Path, empty: Path) -> None:
    shared, own = fake_run(Store(user_runs), **SMALL), user(signed_in, "a")
    mine, root = fake_run(own, **SMALL), user_runs.resolve()
    for run, arguments, asked in (
        (shared, {}, root),
        (shared, {"region": {"run": shared.id, "size": 3}}, root),
        (mine, {}, own.root),
        (shared, {"region": {"run": mine.id}}, own.root),
        (shared, {"task": f"{own.root}/tasks/x/task.yaml"}, own.root),
        (shared, {"region": {"union": [{"run": shared.id}, {"run": mine.id[:-1]}]}}, own.root),
    ):
        assert live._store_for(run, json.dumps(arguments)) == asked, arguments
    refuses(RunNotFound, None, library(user_runs).open, mine.id)  # the shared worker knows no user's run


@pytest.mark.nightly
def test_a_list_is_read_once_while_nothing_changes(signed_in: SignIn, empty: Path, monkeypatch: Any) -> None:
    counted, store = create_autospec(Store.list, side_effect=Store.list), user(signed_in, "a")
    monkeypatch.setattr(Store, "list", counted)
    for _ in range(3):
        fake_run(store, **SMALL)
        assert len(cache.briefs()) == len(store.folders())
    before = counted.call_count
    assert [len(cache.briefs()) for _ in range(3)] == [3] * 3 and counted.call_count == before > 0


def test_a_page_asks_for_sign_in_and_makes_the_store(
    signed_in: SignIn, ids: dict[str, str], made: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: Any
) -> None:
    """The page runs without dashboard.py, like in Streamlit if an address names it first."""
    root = Path(shutil.copytree(made[0], tmp_path / "copy"))
    monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
    signed_in()
    test = opened("runs", run=ids["random"])
    words = " ".join(str(part.value) for part in (*test.title, *test.markdown, *test.error))
    assert (
        [run_id for run_id in ids.values() if run_id in words] == []
        and not test.dataframe
        and not (root / "users").exists()
    )
    style = " ".join(str(part.proto.body) for part in test.get("html"))
    assert "--ground" in style and 'button[kind^="primary"]' in style, "the button's type has no contrast without it"
    signed_in(iss="https://id.example", sub="a", name="Ada")
    assert sign_in.is_open() and (store_of_user(root, user_named("https://id.example", "a")) / OWNER).is_file()


def menu(monkeypatch: pytest.MonkeyPatch, name: str, claims: dict[str, Any]) -> list[str]:
    """Return what the open account menu of a user of this name shows a visitor with these claims."""
    page = MagicMock(**{"user.to_dict.return_value": claims, "popover.return_value.open": True})
    monkeypatch.setattr(sign_in, "st", page)
    sign_in._account(User("a", name, {}))
    return [drawn.args[0] for drawn in page.method_calls if drawn.args]


@pytest.mark.parametrize("lines", [0, 2])
def test_the_menu_of_who_has_just_signed_out_holds_no_store(
    lines: int, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in()
    drawn = menu(monkeypatch, "Ada", {"is_logged_in": lines > 0, "iss": "a", "sub": "b"})
    assert drawn[:2] == ["Ada", "Sign out"] and len(drawn) == 2 + lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\u202eadA\u2066", r"\\u202eadA\\u2066"),
        ("a\x1b[8m\u200f", r"a\\x1b\[8m\\u200f"),
        ("- a\nb", r"\- a b"),
        ("é 日本", "é 日本"),
    ],
)
def test_a_name_in_the_menu_hides_and_turns_nothing(
    name: str, shown: str, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(iss="https://id.example", sub="a", name=name)
    assert menu(monkeypatch, sign_in.user().name, {})[0] == shown


def test_a_queue_is_shared_and_says_nothing_of_others(signed_in: SignIn, empty: Path) -> None:
    theirs, own = user(signed_in, "a"), user(signed_in, "b")
    for store in (theirs, own):
        slots.take_ticket(store.root, "cpu", store.create(SPEC).id)
    (job,) = cache.others()[0]
    assert slots.position(own.root, "cpu", job.id) == 1 and job.path.parent == own.root


def test_files_of_another_user_are_closed_though_a_root_holds_them(
    signed_in: SignIn, user_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLVIZ_ROOTS", str(user_runs))
    theirs, own = (user(signed_in, name).root for name in "ab")
    for root in (theirs, own):
        (root / "tasks").mkdir(parents=True)
        (root / "tasks" / "task.yaml").write_text("a: 1")
    (own / "link").symlink_to(theirs)
    assert visitor.checked_text(str(own / "tasks" / "task.yaml"))
    for path in (
        theirs / "tasks" / "task.yaml", theirs, theirs.parent, own / ".." / theirs.name, own / "link" / "tasks",
    ):  # fmt: skip
        refuses(BadInput, "outside the folders", visitor.checked_text, str(path))
    assert visitor.checked_text(str(user_runs / "shared.yaml"))


@pytest.mark.slow
def test_no_place_on_the_server_is_shown_where_people_sign_in(
    signed_in: SignIn, user_runs: Path, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, shared = user(signed_in, "a"), user_runs.resolve()
    error = StoreError(f"{store.root}/x cannot be read, nor {shared}/y.")
    assert sign_in.sentence_of(error) == "your store/x cannot be read, nor the shared store/y."
    own = fake_run(store, **SMALL)
    for run, content in ((fake_run(store, seed=1, **SMALL), "{"), (store.create(SPEC), "7")):
        (run.path / "run.json").write_text(content)
    for name in ("runs", "jobs", "launch", "overview", "compare"):
        test = opened(name, run=own.id)
        assert not test.exception
        words = " ".join(
            str(part.value)
            for kind in (test.title, test.markdown, test.caption, test.info, test.warning, test.error, test.code)
            for part in kind
        )
        assert str(shared) not in words.replace("\\", ""), name
        assert "your store" in words or name != "runs", "the broken runs are told of"
    assert jobs_view.runs_dir_option() == ""
    monkeypatch.setattr(sign_in, "providers", lambda: ())
    assert sign_in.sentence_of(error) == error.args[0] and str(shared) in jobs_view.runs_dir_option()


def test_a_user_is_issuer_and_subject_together() -> None:
    names = {user_named(*who) for who in (("a", "b"), ("a", "c"), ("b", "b"), ("ab", ""), ('a", "b', ""), ("a", "b"))}
    assert len(names) == 5 and [name for name in names if not USER.fullmatch(name)] == []


def test_a_store_knows_whose_it_is_and_a_subject_cannot_choose_a_folder(tmp_path: Path) -> None:
    user = user_named("https://id.example", "../../etc")
    root = store_of_user(tmp_path, user)
    assert root.resolve().parent == tmp_path / "users" and store_of_user(tmp_path, "") == tmp_path
    whose = {path: ("", path) for path in (tmp_path, root.parent, root.parent / "sst2-run", root / "run")} | {
        root: (user, tmp_path)
    }
    assert {path: (user_of(path), shared_root(path)) for path in whose} == whose


def test_a_user_sees_the_own_runs_the_shared_ones_and_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, ships = Store(tmp_path / "runs"), Store(tmp_path / "ships")
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: ships.root)
    one, two = (Store(store_of_user(shared.root, user_named("i", name))) for name in "ab")
    own, other, everybodys, shipped = (fake_run(store, **SMALL).id for store in (one, two, shared, ships))
    assert ([run.id for run in library(one.root).list()], [run.id for run in library(shared.root).list()]) == (
        [own, everybodys, shipped],
        [everybodys, shipped],
    ), "users' runs are not shared"
    for name in (other, other[:-3], f"../{two.root.name}/{other}", f"users/{two.root.name}/{other}"):
        for reach in (library(one.root).open, one.delete, shared.open):
            refuses(RunNotFound, None, reach, name)
    assert two.open(other).id == other


def test_the_store_says_who_its_owner_is_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNS_VARIABLE, str(tmp_path))
    user, owner = user_named("i", "s"), {"issuer": "i", "subject": "s"}
    for name in ("Ada", "Ada Lovelace"):
        make_store(User(user, name, {**owner, "name": name}))
    root = store_of_user(tmp_path, user)
    assert (json.loads((root / OWNER).read_text()), Store(root).list(), Store(tmp_path).folders()) == (
        {**owner, "name": "Ada"},
        [],
        [],
    )
