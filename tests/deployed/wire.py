"""The wire between the deployed functions and AWS: it records their calls, and lets some of them go wrong.

A function calls the address in its variable `AWS_ENDPOINT_URL`.  Here that is a proxy, which passes every request on as
it is.
"""

import contextlib
import http.client
import json
import re
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeAlias

HOLD_SECONDS: Final = 60.0
"""The longest that a call is held back, and that AWS's answer is waited for."""

WATCH: Final = "record_end"
"""The function that is called beside the machine, at any time: its calls are let through and not recorded."""

_SERVICES: Final = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs", "AmazonSSM": "ssm"}
"""The services that name their operation in a header; SNS does so in the body, S3 not at all."""
_FUNCTION: Final = re.compile(r"\bapp/(\w+)")
"""What a function says of itself, in its client's `User-Agent`."""
_NOT_PASSED_ON: Final = ("connection", "content-length", "expect", "transfer-encoding")


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a function.  What a client tries again is another call."""

    function: str
    """The module of the handler."""
    service: str
    operation: str
    request: dict[str, Any]
    """Its parameters; of S3 only `Key` and `Body`."""
    answered: threading.Event = field(default_factory=threading.Event)
    """AWS has done it."""


class Fault(Enum):
    """What goes wrong with a call: the status and the code that it is refused with."""

    FORBIDDEN = (403, "AccessDenied")
    UNAVAILABLE = (503, "ServiceUnavailable")
    TABLE_THROTTLED = (400, "ProvisionedThroughputExceededException")
    BUCKET_THROTTLED = (503, "SlowDown")
    QUEUE_THROTTLED = (403, "RequestThrottled")
    CONFLICT = (409, "ConditionalRequestConflict")
    REQUEST_LOST = (0, "request")
    """The connection breaks before it is done."""
    ANSWER_LOST = (0, "answer")
    """It is done, and then the connection breaks."""


React: TypeAlias = Callable[[Call], Fault | None]


class Wire:
    """A proxy before the AWS at `endpoint`."""

    def __init__(self, endpoint: str) -> None:
        self._recordings: list[list[Call]] = []
        self._reactions: list[React] = []
        self._server = _Server(urllib.parse.urlsplit(endpoint), self.meet)

    @property
    def endpoint(self) -> str:
        """Where the functions find AWS."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve for the length of a block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[Call]]:
        """The calls that come while a block runs, in their order."""
        calls: list[Call] = []
        self._recordings.append(calls)
        try:
            yield calls
        finally:
            self._recordings = [recording for recording in self._recordings if recording is not calls]

    @contextlib.contextmanager
    def reacting(self, react: React) -> Iterator[None]:
        """Ask `react` about each call that comes while a block runs.  It may also act, or hold the call back."""
        self._reactions.append(react)
        try:
            yield
        finally:
            self._reactions.remove(react)

    def meet(self, call: Call) -> Fault | None:
        """Record a call, and say what goes wrong with it."""
        if call.function == WATCH:
            return None
        for calls in self._recordings:
            calls.append(call)
        return next((fault for react in self._reactions if (fault := react(call))), None)


def first(times: int, fault: Fault, concerns: Callable[[Call], bool]) -> React:
    """The first few calls of a kind go wrong."""
    left = deque([fault] * times)

    def react(call: Call) -> Fault | None:
        return left.popleft() if concerns(call) and left else None

    return react


def wait_until(met: Callable[[], object]) -> bool:
    """Whether something comes to be, in time."""
    deadline = time.monotonic() + HOLD_SECONDS
    while not (is_met := bool(met())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_met


class _Server(ThreadingHTTPServer):
    """One thread for each connection of a function."""

    daemon_threads = True

    def __init__(self, aws: urllib.parse.SplitResult, meet: React) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.aws = aws
        self.meet = meet

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A function's process that is gone, or no longer waits, is no error here."""


class _Connection(BaseHTTPRequestHandler):
    """A connection to a function, and its own one to AWS."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # else an answer's head is sent alone, and its body waits for the acknowledgement
    server: _Server

    def setup(self) -> None:
        super().setup()
        aws = self.server.aws
        self._aws = http.client.HTTPConnection(str(aws.hostname), aws.port, timeout=HOLD_SECONDS)

    def finish(self) -> None:
        self._aws.close()
        super().finish()

    def handle_expect_100(self) -> bool:
        goes_on = super().handle_expect_100()
        self.wfile.flush()  # else a function waits a second before it sends an object
        return goes_on

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = self._call(body)
        fault = self.server.meet(call)
        if fault and fault.value[0]:
            self._refuse(call, *fault.value)
            return
        if fault is Fault.REQUEST_LOST:
            self.close_connection = True
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        self._aws.request(self.command, self.path, body, headers)
        answer = self._aws.getresponse()
        content = answer.read()
        call.answered.set()
        if fault is Fault.ANSWER_LOST:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        self._end(content)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names that the server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """The calls are recorded, not printed."""

    def _call(self, body: bytes) -> Call:
        found = _FUNCTION.search(self.headers.get("User-Agent", ""))
        function = found[1] if found else ""
        target, _, operation = self.headers.get("X-Amz-Target", "").partition(".")
        if target:
            return Call(function, _SERVICES[target], operation, json.loads(body))
        if body.startswith(b"Action="):
            parameters = dict(urllib.parse.parse_qsl(body.decode()))
            return Call(function, "sns", parameters.pop("Action"), parameters)
        _, _, key = self.path.lstrip("/").partition("/")
        return Call(function, "s3", f"{self.command.title()}Object", {"Key": urllib.parse.unquote(key), "Body": body})

    def _refuse(self, call: Call, status: int, code: str) -> None:
        xml = f"<Error><Code>{code}</Code><Message>refused</Message></Error>"
        self.send_response_only(status)
        self.send_header("x-amzn-RequestId", "refused-by-a-test")
        self._end((xml if call.service == "s3" else json.dumps({"__type": code})).encode())

    def _end(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
