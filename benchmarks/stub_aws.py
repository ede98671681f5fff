"""A stub of AWS: one process on the loopback that answers over TLS, each request so long after it came.

    python -m benchmarks.stub_aws /tmp/stub.pem 1

It uses only the processors that are named.  The first line that it prints is its port; it ends with its standard input.
It checks no signature, throttles nobody and never fails.  `Expect: 100-continue` is answered at once: what it costs
there is the client's.  The latency is kept by the event loop's clock, so requests that wait take no CPU and do not wait
for each other.

Two requests are for whoever measures: `PUT /stub?latency=0.015&bookings=1000000` sets it, and `GET /stub` returns what
was asked since (`Counts`) and begins to count anew.
"""

import asyncio
import contextlib
import functools
import http.client
import json
import os
import selectors
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path as FilePath
from statistics import median
from types import SimpleNamespace
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from botocore.httpsession import where
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.dispatched_hour import GeneratedAws, query_answer

HOST: Final = "127.0.0.1"
SECONDS: Final = 30
"""The longest that it may take to start, to answer whoever measures, or to end."""

REQUESTS: Final = 50
"""So many are timed to know how long one takes."""
SMALL_ANSWER: Final = 4096
"""More bytes than the answer to an upload has."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_NOTHING: Final = ("PutItem", "UpdateItem", "DeleteItem")
"""Single writes, which are answered by an empty object."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the stub answered since it was last asked, and what that took."""

    requests: Mapping[str, int]
    """By operation."""
    cpu: float
    """Seconds of the stub's own process."""
    most_at_once: int
    """So many requests waited for their answer at the same time."""
    connections: int
    """So many were made anew."""


class CannedAws(GeneratedAws):
    """The answers; a page is made once.  Every condition holds, and there is no plan."""

    def respond(self, operation: str, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """See `GeneratedAws.respond`."""
        if operation in _NOTHING:
            return b"{}", {}
        if operation == "SendMessage":
            return b'{"MessageId":"1"}', {}
        return super().respond(operation, request)

    def _query(self, request: dict[str, Any]) -> bytes:
        if "IndexName" not in request:
            return super()._query(request)
        start_key = request.get("ExclusiveStartKey")
        start = int(start_key["RecordId"]["S"]) + 1 if start_key else 0
        return _page(start, request["Limit"], self._bookings)


@functools.lru_cache(maxsize=256)
def _page(start: int, limit: int, bookings: int) -> bytes:
    return query_answer(start, limit, bookings)


class Server:
    """What all connections share."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._counted: Counter[str] = Counter()
        self._cpu = 0.0
        self._waiting = self._most = self._connected = 0
        self._own = 0.0
        self.set({})

    def set(self, settings: Mapping[str, str]) -> None:
        """Set the latency in seconds, how many bookings the hour has, and what an answer takes without any latency."""
        self._own = float(settings.get("own", self._own))
        self._latency = max(0.0, float(settings.get("latency", 0)) - self._own)
        self._aws = CannedAws(int(settings.get("bookings", 0)))

    def take(self) -> Counts:
        """What was counted since this was last asked."""
        cpu = time.process_time()
        counts = Counts(dict(self._counted), cpu - self._cpu, self._most, self._connected)
        self._counted, self._cpu, self._most, self._connected = Counter(), cpu, self._waiting, 0
        return counts

    def connected(self) -> None:
        """Count a connection."""
        self._connected += 1

    def answer(self, head: "Head", body: bytes, transport: asyncio.WriteTransport) -> None:
        """Answer at once where it is the measuring one's request, else after the latency."""
        if head.path == "/stub":
            told = b"{}"
            if head.method == "GET":
                counts = self.take()
                told = json.dumps(asdict(counts)).encode()
            else:
                self.set({name: values[0] for name, values in parse_qs(head.query).items()})
            transport.write(_response(told, {}))
            return
        due = self.loop.time() + self._latency
        operation = head.operation
        self._counted[operation] += 1
        self._waiting += 1
        self._most = max(self._most, self._waiting)
        response = _response(*self._aws.respond(operation, SimpleNamespace(body=body)))
        if self._latency:
            self.loop.call_at(due, self._send, transport, response)
        else:
            self._send(transport, response)

    def _send(self, transport: asyncio.WriteTransport, response: bytes) -> None:
        self._waiting -= 1
        transport.write(response)


def _response(content: bytes, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n{lines}\r\n".encode("ascii") + content


class Head:
    """A request's first line and headers."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = first.split(" ")
        self._headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        url = urlsplit(target)
        self.path, self.query = url.path, url.query
        self.length = int(self._headers.get("content-length", 0))
        self.chunked = "chunked" in self._headers.get("transfer-encoding", "")
        self.expects = "expect" in self._headers

    @property
    def operation(self) -> str:
        """The operation's name: a JSON protocol tells it, and S3's is the method's.

        Raises:
            NotImplementedError: it is none that is known.
        """
        target = self._headers.get("x-amz-target")
        if target:
            return target.rpartition(".")[2]
        if self.method == "PUT" and not self.query:
            return "PutObject"
        raise NotImplementedError(f"{self.method} {self.path}")


class Connection(asyncio.Protocol):
    """One connection, whose requests come one after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = bytearray()
        self._head: Head | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(transport)
        self._transport = transport
        self._server.connected()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += data
        while self._head is not None or self._begun():
            body = self._body()
            if body is None:
                return
            head, self._head = self._head, None
            if head is not None:
                self._server.answer(head, body, self._transport)

    def _begun(self) -> bool:
        """Whether a request's head is there; it is taken."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = Head(bytes(self._received[:end]))
        del self._received[: end + 4]
        if self._head.expects:
            self._transport.write(_CONTINUE)
        return True

    def _body(self) -> bytes | None:
        """The body, taken, once all of it is there."""
        if self._head is None:
            return None
        if self._head.chunked:
            return self._chunks()
        if len(self._received) < self._head.length:
            return None
        body = bytes(self._received[: self._head.length])
        del self._received[: self._head.length]
        return body

    def _chunks(self) -> bytes | None:
        """The body of chunks; what comes behind the last one (checksums) is dropped."""
        chunks: list[bytes] = []
        place = 0
        while (end := self._received.find(b"\r\n", place)) >= 0:
            size = int(self._received[place:end].partition(b";")[0], 16)
            if size == 0:
                end_of_trailer = self._received.find(b"\r\n\r\n", end)
                if end_of_trailer < 0:
                    return None
                del self._received[: end_of_trailer + 4]
                return b"".join(chunks)
            chunks.append(bytes(self._received[end + 2 : end + 2 + size]))
            place = end + 2 + size + 2
        return None


async def serve(certificate: str) -> None:
    """Answer until standard input ends; print the port first."""
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening = await server.loop.create_server(lambda: Connection(server), HOST, 0, ssl=context, backlog=256)
    print(listening.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    server.loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


class Stub:
    """A running stub, as seen by whoever measures."""

    def __init__(self, endpoint: str, trusted: str) -> None:
        self.endpoint = endpoint
        self.trusted = trusted
        """The file of trusted certificates to reach it with: botocore's own, and the stub's behind them."""
        url = urlsplit(endpoint)
        self._connection = http.client.HTTPSConnection(
            url.hostname or HOST, url.port, timeout=SECONDS, context=ssl.create_default_context(cafile=trusted)
        )

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """The stub that a process was started with."""
        return cls(environment["AWS_ENDPOINT_URL"], environment["AWS_CA_BUNDLE"])

    @property
    def environment(self) -> dict[str, str]:
        """What leads a process to it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_CA_BUNDLE": self.trusted,
            "POINT_TASK_QUEUE_URL": f"{self.endpoint}/111122223333/point.fifo",
            "COUPON_TASK_QUEUE_URL": f"{self.endpoint}/111122223333/coupon.fifo",
        }

    def set(self, latency: float, bookings: int) -> None:
        """Let each answer take so many seconds, and let the hour have so many bookings."""
        self._ask("PUT", f"/stub?latency={latency}&bookings={bookings}")

    def take(self) -> Counts:
        """What was counted since this was last asked."""
        return Counts(**json.loads(self._ask("GET", "/stub")))

    def calibrate(self, latency: float) -> None:
        """From now on take what an answer takes by itself (its loop, its TLS, being woken) off each latency."""
        self.set(latency, 0)
        own = self.seconds_of_a_request() - latency
        self._ask("PUT", f"/stub?latency={latency}&own={max(0.0, own)}")

    def seconds_of_a_request(self) -> float:
        """How long one takes, median, as a socket sees it that does nothing else."""
        self._ask("PUT", "/bucket/key")
        socket = self._connection.sock
        taken = []
        for _ in range(REQUESTS):
            begun = time.perf_counter()
            socket.sendall(b"PUT /bucket/key HTTP/1.1\r\nHost: stub\r\nContent-Length: 0\r\n\r\n")
            socket.recv(SMALL_ANSWER)
            taken.append(time.perf_counter() - begun)
        return median(taken)

    def close(self) -> None:
        """Close the connection of whoever measures."""
        self._connection.close()

    def _ask(self, method: str, path: str) -> bytes:
        self._connection.request(method, path)
        with self._connection.getresponse() as response:
            return response.read()


@contextlib.contextmanager
def running(directory: FilePath, processors: Iterable[int] = ()) -> Iterator[Stub]:
    """A stub of its own, which ends with the block; its certificate lies in the directory.  No processors are any.

    Raises:
        RuntimeError: it did not start.
    """
    certificate, trusted = directory / "stub.pem", directory / "trusted.pem"
    public, private = self_signed()
    certificate.write_bytes(private + public)
    trusted.write_bytes(FilePath(where()).read_bytes() + public)
    command = [sys.executable, "-m", "benchmarks.stub_aws", str(certificate), *map(str, processors)]
    root = FilePath(__file__).parent.parent
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("the stub has no pipes")
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"the stub did not start: {process.stderr.read()[-2000:]}")
            with contextlib.closing(Stub(f"https://{HOST}:{port}", str(trusted))) as stub:
                yield stub
        finally:
            process.stdin.close()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def self_signed() -> tuple[bytes, bytes]:
    """A certificate of the loopback's address for one day, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


if __name__ == "__main__":
    if sys.argv[2:]:
        os.sched_setaffinity(0, map(int, sys.argv[2:]))
    # epoll would round each wait up to a whole millisecond
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(serve(sys.argv[1]))
