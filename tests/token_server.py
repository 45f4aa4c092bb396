"""A server of tokens for docker-registry: real JSON Web Tokens, signed by a key that the registry trusts."""

import base64
import datetime as dt
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

LOGIN = base64.b64encode(b"someone:secret").decode()
USERS = "someone:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
"""The same login in the form of htpasswd."""
_SERVICE, _ISSUER = "edgeopt-tests", "edgeopt-token-server"


class TokenServer:
    """Gives whoever logs in as someone a token for all that is asked for; others get none."""

    def __init__(self, folder):
        self.logins = []
        """The Authorization of each request."""
        self.scopes = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._chain = _certificate(self._key)
        self._bundle = folder / "token-roots.pem"
        self._bundle.write_bytes(self._chain.public_bytes(serialization.Encoding.PEM))
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def host(self):
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def access(self):
        """The configuration of a registry that takes these tokens."""
        return (
            f"auth: {{token: {{realm: 'http://{self.host}/token', service: {_SERVICE}, issuer: {_ISSUER}, "
            f"rootcertbundle: '{self._bundle}'}}}}\n"
        )

    def answer(self, handler):
        asked = parse_qs(urlsplit(handler.path).query)
        self.logins.append(handler.headers.get("Authorization", ""))
        self.scopes += asked.get("scope", [])
        known = self.logins[-1] == f"Basic {LOGIN}"
        body = json.dumps({"token": self.token(asked.get("scope", []))} if known else {}).encode()
        handler.send_response(200 if known else 401)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def token(self, scopes):
        access = [
            {"type": kind, "name": name, "actions": actions.split(",")}
            for kind, name, actions in (scope.split(":") for scope in scopes)
        ]
        now = int(dt.datetime.now(dt.UTC).timestamp())
        claims = {"iss": _ISSUER, "sub": "someone", "aud": _SERVICE, "access": access, "jti": "1"}
        claims |= {"iat": now, "nbf": now - 10, "exp": now + 600}
        chain = base64.b64encode(self._chain.public_bytes(serialization.Encoding.DER)).decode()
        head = {"typ": "JWT", "alg": "ES256", "x5c": [chain]}
        text = ".".join(_encoded(json.dumps(each).encode()) for each in (head, claims))
        r, s = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def _encoded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _certificate(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _ISSUER)])
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
