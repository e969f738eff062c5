"""An identity provider for tests: OpenID Connect with a choice of users instead of passwords, on its own port.

It makes a provider's checks: client, secret, redirect address, single use of codes, and the proof key (PKCE).
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = {"client_id": "skillviz", "client_secret": "of the client and the provider alone"}
METADATA = "/.well-known/openid-configuration"


class IdentityProvider:
    """A provider whose users are the subjects of `users`, each with more claims; it accepts only `redirect_uri`."""

    def __init__(self, users: Mapping[str, Mapping[str, str]], redirect_uri: str) -> None:
        self.users, self.redirect_uri = users, redirect_uri
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, tuple[str, dict[str, str]]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                provider.get(self, address.path, first_values(address.query))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                provider.post(self, urlsplit(self.path).path, first_values(body))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"

    def get(self, request: BaseHTTPRequestHandler, path: str, query: dict[str, str]) -> None:
        """Answer discovery, the keys, the page for choosing a user, and the redirect back from it."""
        if path == METADATA:
            places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            answer(request, {
                "issuer": self.issuer, **{name: f"{self.issuer}/{place}" for name, place in places.items()},
                "response_types_supported": ["code"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
            })  # fmt: skip
        elif path == "/keys":
            answer(request, {"keys": [self.key.as_dict(private=False)]})
        elif path == "/authorize" and self._is_from_client(query):
            links = "".join(
                f'<p><a href="/chosen?{escape(urlencode({**query, "user": user}))}">{escape(user)}</a></p>'
                for user in self.users
            )
            answer(request, f"<!doctype html><title>Who are you?</title>{links}")
        elif path == "/chosen" and self._is_from_client(query) and query.get("user") in self.users:
            code = secrets.token_urlsafe()
            self.codes[code] = (query["user"], query)
            there = f"{self.redirect_uri}?code={quote(code)}&state={quote(query['state'])}"
            request.send_response(302)
            request.send_header("Location", there)
            request.end_headers()
        else:
            answer(request, {"error": "invalid_request"}, 400)

    def post(self, request: BaseHTTPRequestHandler, path: str, form: dict[str, str]) -> None:
        """Return the signed token for a code."""
        user, asked = self.codes.pop(form.get("code", ""), ("", {}))
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        login = base64.b64encode(":".join(map(quote, CLIENT.values())).encode()).decode()
        plain = base64.b64encode(":".join(CLIENT.values()).encode()).decode()
        is_client = request.headers.get("Authorization") in (f"Basic {login}", f"Basic {plain}")
        if path != "/token" or not user or not is_client or proof.decode() != asked["code_challenge"]:
            answer(request, {"error": "invalid_grant"}, 400)
            return
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": user, "aud": CLIENT["client_id"], "iat": now, "exp": now + 600,
            "nonce": asked["nonce"], **self.users[user],
        }  # fmt: skip
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        answer(request, {"access_token": secrets.token_urlsafe(), "token_type": "Bearer", "id_token": token})

    def _is_from_client(self, query: dict[str, str]) -> bool:
        wanted = {"client_id": CLIENT["client_id"], "redirect_uri": self.redirect_uri, "response_type": "code"}
        return all(query.get(name) == value for name, value in wanted.items()) and "openid" in query.get("scope", "")


@contextmanager
def identity_provider(users: Mapping[str, Mapping[str, str]], redirect_uri: str) -> Iterator[IdentityProvider]:
    """Run a provider for the time of the block."""
    provider = IdentityProvider(users, redirect_uri)
    threading.Thread(target=provider.server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()


def first_values(query: str) -> dict[str, str]:
    """Return the fields of a query or form, each with its first value."""
    return {name: values[0] for name, values in parse_qs(query).items()}


def answer(request: BaseHTTPRequestHandler, content: str | dict[str, object], status: int = 200) -> None:
    """Send a page or JSON."""
    is_page = isinstance(content, str)
    body = (content if is_page else json.dumps(content)).encode()
    request.send_response(status)
    request.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def secrets_toml(provider: IdentityProvider) -> str:
    """Return a deployment's secrets for the provider."""
    values = {
        "redirect_uri": provider.redirect_uri, "cookie_secret": secrets.token_urlsafe(32), **CLIENT,
        "server_metadata_url": f"{provider.issuer}{METADATA}",
    }  # fmt: skip
    return "[auth]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
