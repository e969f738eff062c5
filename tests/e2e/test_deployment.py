"""Tests of a shared dashboard set up like in docs/deploy.md, in local processes: sign-in, stores, quotas, the proxy.

The identity provider is a stand-in on its own port; everything else is a deployment's real software.
"""

import asyncio
import datetime
import getpass
import http.client
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from skillviz import jobs
from skillviz.runs.store import Store
from skillviz.serving.settings import OPEN_JOBS_VARIABLE, QUOTA_VARIABLE, ROOTS_VARIABLE
from skillviz.serving.users import store_of_user, user_named
from skillviz.tasks.project import PROJECT
from skillviz.ui.page_table import PAGES
from tests.e2e import server
from tests.e2e.conftest import LONG, Visit, cancel_open, go_to
from tests.e2e.identity_provider import IdentityProvider, identity_provider, secrets_toml
from tests.e2e.server import free_port, settle
from tests.e2e.websocket import Seen, Visitor
from tests.fake_run import fake_run
from tests.jobs.conftest import ended, until
from tests.ui.shared_store import SIZES, SMALL, make_store

USERS = {
    "ada-1815": {"name": "Ada", "email": "ada@class.example"},
    "bo-7": {"preferred_username": "bo"},
    "cy-9": {"name": "Cy"},
}
FORM = "launch?new.method=random&new.size=5%25&new.trial=yes&new.seeds={seed}"


@dataclass(frozen=True)
class Deployment:
    """A running deployment: its address, its provider, and its shared store."""

    address: str
    provider: IdentityProvider
    shared: Path
    ids: dict[str, str]

    def store(self, user: str) -> Store:
        """Return a user's store."""
        return Store(store_of_user(self.shared, user_named(self.provider.issuer, user)))


Deploy = Callable[..., Deployment]


@contextmanager
def deployments(folder: Path) -> Iterator[Deploy]:
    """Start deployments: on a free or a given port, with more variables, at another public address if one is given.
    Jobs still running in their stores at the end are cancelled."""
    with ExitStack() as running:

        def begin(public: str = "", port: int = 0, **variables: str) -> Deployment:
            port = port or free_port()
            address, secrets, shared = public or f"http://127.0.0.1:{port}", folder / "secrets.toml", folder / "shared"
            provider = running.enter_context(identity_provider(USERS, f"{address}/oauth2callback"))
            secrets.write_text(secrets_toml(provider))
            ids = make_store(shared)
            running.enter_context(server.served(PROJECT, folder, {
                "SKILLVIZ_RUNS": str(shared), "STREAMLIT_SECRETS_FILES": str(secrets), ROOTS_VARIABLE: "",
                **variables,
            }, port))  # fmt: skip
            return Deployment(address, provider, shared, ids)

        yield begin
        for root in (folder / "shared" / "users").glob("*"):
            cancel_open(Store(root))


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    """Start deployments for this test only."""
    with deployments(tmp_path) as begin:
        yield begin


@pytest.fixture(scope="module")
def class_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Return one deployment for the sign-in tests; each test has its own users or runs."""
    with deployments(tmp_path_factory.mktemp("class")) as begin:
        yield begin(**{QUOTA_VARIABLE: "20 KiB", OPEN_JOBS_VARIABLE: "1"})


def signed_in(visit: Visit, at: Deployment, user: str, **settings: Any) -> Any:
    """Return the first page in a separate browser context in which the user has signed in."""
    page = visit(at.address, **settings)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text(user).click()
    page.locator("h1", has_text=PAGES["home"].question).wait_for()
    settle(page)
    return page


def go(page: Any, at: Deployment, place: str) -> str:
    """Return the text of the page at a place."""
    go_to(page, f"{at.address}/{place}")
    return str(page.locator("[data-testid='stMain']").inner_text())


def start(page: Any, at: Deployment, user: str, seed: int) -> str:
    """Start a small search on the first pair that Launch offers, in a store without others, and return its id."""
    go(page, at, FORM.format(seed=seed))
    page.get_by_role("button", name="Start", exact=True).click(timeout=LONG)
    until(lambda: at.store(user).folders())
    (folder,) = at.store(user).folders()
    return folder.name


@pytest.mark.nightly
def test_two_users_share_the_shared_runs_and_nothing_else(class_room: Deployment, visit: Visit) -> None:
    at = class_room
    stranger = visit(f"{at.address}/overview?run={at.ids['movement']}")
    words = stranger.locator("body").inner_text()
    assert "Sign in" in words and at.ids["movement"] not in words and stranger.locator("nav").count() == 0
    for name in ("jobs", "studies", "launch"):
        go_to(stranger, f"{at.address}/{name}?run={at.ids['movement']}")
        assert stranger.locator("h1").inner_text() == "Sign in to skillviz", name
    both = ("ada-1815", "bo-7")
    ada, bo = (signed_in(visit, at, user) for user in both)
    for page in (ada, bo):
        assert "Delete" in go(page, at, f"runs?chosen={at.ids['movement']}")
        assert page.get_by_role("button", name="Delete", exact=True).first.is_disabled(), "shared runs stay"
        go(page, at, f"region?run={at.ids['movement']}")
        assert page.locator("h1").inner_text() == PAGES["region"].question
    runs = {
        "ada-1815": start(ada, at, "ada-1815", 71),
        "bo-7": fake_run(at.store("bo-7"), seed=72, sizes=SIZES, **SMALL).id,
    }
    store = at.store("ada-1815")
    assert ended(store, runs["ada-1815"]).status == "finished", jobs.log_tail(store, runs["ada-1815"])
    assert [len(at.store(user).list()) for user in both] == [1, 1] and len(Store(at.shared).list()) == len(at.ids)
    for page, user, other in ((ada, "ada-1815", "bo-7"), (bo, "bo-7", "ada-1815")):
        own, theirs = runs[user], runs[other]
        assert "1 run on 1 task" in go(page, at, "runs?from=you") and theirs not in page.content()
        go(page, at, f"jobs?jobs={theirs}")
        assert theirs not in page.content().partition("<body")[2]
        beside = f"../{at.store(other).root.name}/{theirs}"
        for place in (f"overview?run={theirs}", f"surgery?run={theirs[:-2]}", f"region?run={beside}"):
            assert "cannot be shown" in go(page, at, place), place
        assert "1 run not found here" in go(page, at, f"compare?runs={own},{theirs}")
        assert PAGES["overview"].question in go(page, at, f"overview?run={own}")
        path = at.store(other).root / theirs / "run.json"
        go(page, at, f"launch?new.from=own&new.source=file&new.file={path}")
        page.get_by_role("button", name="Open what the link names").first.click()
        page.get_by_text("outside the folders").first.wait_for()
    assert [at.store(user).verify(run) for user, run in runs.items()] == [[], []]


@pytest.mark.nightly
def test_a_user_over_quota_starts_nothing_and_can_make_room(class_room: Deployment, visit: Visit) -> None:
    at = class_room
    page, store = signed_in(visit, at, "cy-9"), at.store("cy-9")
    run = fake_run(store, seed=71, sizes=SIZES, **SMALL).id
    go(page, at, FORM.format(seed=73))
    page.get_by_role("button", name="Start", exact=True).click(timeout=LONG)
    page.get_by_text(re.compile(r"your runs and data hold \d+ KiB, and 20 KiB are allowed")).wait_for()
    assert [folder.name for folder in store.folders()] == [run]
    page.get_by_role("button", name="Cy").click()
    page.get_by_text(re.compile(r"hold \d+ KiB of 20 KiB")).wait_for()
    go(page, at, f"runs?chosen={run}")
    page.get_by_role("button", name="Delete", exact=True).first.click()
    page.get_by_role("button", name="Delete for good").click()
    until(lambda: not store.folders())
    start(page, at, "cy-9", 74)


def test_who_signs_out_sees_nothing_more_and_who_signs_in_gets_to_the_link(
    class_room: Deployment, visit: Visit
) -> None:
    at = class_room
    page = signed_in(visit, at, "bo-7")
    assert re.fullmatch(r"[0-9a-f]{32}", at.store("bo-7").root.name) and at.store("bo-7").root.is_dir()
    page.get_by_role("button", name="bo").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for()
    assert "Sign in to skillviz" in page.locator("h1").inner_text()
    go_to(page, f"{at.address}/runs")
    assert at.ids["movement"] not in page.content()
    link = f"region?run={at.ids['stagewise0']}&view=movement"
    go_to(page, f"{at.address}/{link}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("ada-1815").click()
    page.wait_for_url(lambda url: url.endswith(link))  # the link is kept
    page.get_by_role("button", name="Ada").wait_for()
    assert page.locator("h1").inner_text() == PAGES["region"].question
    go_to(page, f"{at.address}/")
    assert PAGES["home"].question in page.locator("h1").inner_text(), "it is followed once"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for localhost, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day).not_valid_after(now + day).sign(key, hashes.SHA256())
    )  # fmt: skip
    files, pem = (folder / "fullchain.pem", folder / "privkey.pem"), Encoding.PEM
    files[0].write_bytes(signed.public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, PrivateFormat.PKCS8, NoEncryption()))
    return files


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[[int, int, int], None]]:
    """Start the shipped proxy with these ports for TLS, plain HTTP and the app; only names of places are changed."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("no nginx on the path; install it (apt-get install nginx-light) to run this")
    running: list[subprocess.Popen[bytes]] = []

    def begin(secure: int, plain: int, app: int) -> None:
        public, key = certificate(tmp_path)
        text = (PROJECT / "deploy" / "nginx.conf").read_text()
        changes = {
            "listen 80;": f"listen 127.0.0.1:{plain};", "listen 443 ssl;": f"listen 127.0.0.1:{secure} ssl;",
            "server_name skills.example;": "server_name localhost;", "127.0.0.1:8501": f"127.0.0.1:{app}",
            "/etc/letsencrypt/live/skills.example/fullchain.pem": str(public),
            "/etc/letsencrypt/live/skills.example/privkey.pem": str(key),
        }  # fmt: skip
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        assert "example" not in text.partition("map ")[2]
        (tmp_path / "site.conf").write_text(text)
        places = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; user {getpass.getuser()}; pid {tmp_path}/pid; error_log {tmp_path}/nginx.log; events {{}}\n"
            f"http {{ access_log off; {places} include {tmp_path}/site.conf; }}\n"
        )
        running.append(subprocess.Popen([nginx, "-e", str(tmp_path / "nginx.log"), "-c", str(tmp_path / "nginx.conf")]))

    yield begin
    for process in running:
        process.terminate()
        process.wait(30)


@pytest.mark.nightly
def test_behind_the_shipped_proxy(deploy: Deploy, proxy: Callable[[int, int, int], None], visit: Visit) -> None:
    """Check TLS, sign-in, websockets, the limit of uploads and headers; remote users do not count as local ones."""
    secure, plain, app = free_port(), free_port(), free_port()
    at = deploy(f"https://localhost:{secure}", app, SKILLVIZ_FRAME_ANCESTORS="https://class.example")
    proxy(secure, plain, app)
    page = signed_in(visit, at, "ada-1815", ignore_https_errors=True)
    assert PAGES["region"].question in go(page, at, f"region?run={at.ids['movement']}")
    assert all(c["secure"] and c["httpOnly"] for c in page.context.cookies() if c["name"].startswith("_streamlit_user"))
    assert [c["name"] for c in page.context.cookies()].count("_streamlit_user") == 1
    go(page, at, f"launch?new.from=own&new.source=file&new.file={Path.home() / 'mine.yaml'}")
    page.get_by_role("button", name="Open what the link names").first.click()
    page.get_by_text("Upload the file, or ask whoever runs this dashboard").first.wait_for()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with closing(http.client.HTTPSConnection("localhost", secure, context=context, timeout=60)) as connection:
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["strict-transport-security"]
        assert answer.headers["content-security-policy"] == "frame-ancestors 'self' https://class.example"
        assert answer.headers["x-frame-options"] is None
        answer.read()
        for origin, status in (("https://evil.example", 403), (at.address, 200)):
            connection.request("GET", "/_stcore/health", headers={"Origin": origin})
            answer = connection.getresponse()
            assert answer.status == status
            answer.read()
        connection.putrequest("POST", "/_stcore/upload_file/a/b")
        connection.putheader("Content-Length", str(53 * 2**20))
        connection.endheaders()
        assert connection.getresponse().status == 413
    with closing(http.client.HTTPConnection("localhost", plain, timeout=60)) as connection:
        connection.request("GET", "/runs")
        answer = connection.getresponse()
        assert answer.status == 301 and urlsplit(answer.headers["location"]).scheme == "https"


def test_secrets_that_cannot_be_read_let_nobody_in(tmp_path: Path, visit: Visit) -> None:
    """A typing error in the secrets must not open the dashboard to all. tests/serving/test_sign_in.py has others."""
    shared, secrets = tmp_path / "shared", tmp_path / "secrets.toml"
    ids = make_store(shared)
    secrets.write_text("[auth\n")
    more = {"SKILLVIZ_RUNS": str(shared), "STREAMLIT_SECRETS_FILES": str(secrets)}
    with server.served(PROJECT, tmp_path, more) as address:
        page = visit(f"{address}/overview?run={ids['movement']}")
        assert "cannot be read" in page.locator("body").inner_text()
        assert ids["movement"] not in page.content().split("<body")[1]
        assert page.get_by_role("button", name="Sign in").count() == 0


def copied(folder: Path) -> Path:
    """Copy the files that the container copies into a folder; its largest folders, which hold no code, are links."""
    for line in (PROJECT / "deploy" / "Containerfile").read_text().splitlines():
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            place = folder / target
            for source in sources:
                there = place / source if target.endswith("/") else place
                there.parent.mkdir(parents=True, exist_ok=True)
                if source in ("cached_runs", "examples"):
                    there.symlink_to(PROJECT / source)
                elif (PROJECT / source).is_dir():
                    shutil.copytree(PROJECT / source, there, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(PROJECT / source, there)
    return folder


@pytest.mark.nightly
def test_the_container_has_all_that_the_app_reads(tmp_path: Path) -> None:
    """Every page opens with the container's variables, as a read-only demo, its only mode without secrets."""
    project = copied(tmp_path / "app")
    text = (PROJECT / "deploy" / "Containerfile").read_text()
    told = dict(re.findall(r"([A-Z_]+)=([^ \\\n]+)", text.partition("ENV ")[2].partition("VOLUME")[0]))
    assert len(told) == 7
    places = {
        name: value.replace("/data", f"{tmp_path}/data").replace("/tmp", str(tmp_path)) for name, value in told.items()
    }
    variables = {**places, ROOTS_VARIABLE: "", "STREAMLIT_SERVER_ADDRESS": "127.0.0.1", "SKILLVIZ_READONLY": "1"}
    with server.served(project, tmp_path, variables) as address, ThreadPoolExecutor(1) as apart:
        seen = apart.submit(asyncio.run, visited(address, PAGES)).result()  # outside a loop of Playwright's
    assert (seen.titles, seen.errors) == ([entry.question for entry in PAGES.values()], [])
    assert "Traceback" not in (tmp_path / "server.log").read_text()


async def visited(address: str, pages: Iterable[str]) -> Seen:
    """Return a record of the pages that a visitor opens one after the other, with a browser's requests."""
    seen = Seen()
    async with Visitor(address) as visitor:
        await visitor.visit("", "", Seen())  # the first answer lists the pages
        for page in pages:
            await visitor.visit(page, "", seen)
    return seen
