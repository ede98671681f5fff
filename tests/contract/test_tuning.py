"""The clients are cheap, and right: they answer what botocore's own do, and trust whom those trust."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, cast

import boto3
import pytest
from botocore.model import StructureShape
from botocore.parsers import JSONParser
from botocore.useragent import UserAgentString
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as some

from functions.adapters import tuning
from functions.adapters.clients import client, translated
from functions.adapters.pool import THREADS, each
from functions.domain.errors import TransientError
from tests.contract.staged import MakeIndex, answer, fresh, record, stage

EVERY_KIND: Final[dict[str, Any]] = {
    "S": {"S": 'a "B" and a "BS", \u00e9\u2028\U0001f600'},
    "N": {"N": "-1.5"},
    "B": {"B": b"\x00\xff"},
    "SS": {"SS": ["B", "a"]},
    "NS": {"NS": ["1", "2.5"]},
    "BS": {"BS": [b"\x00", b"\x01\x02"]},
    "Empty": {"S": ""},
    "NULL": {"NULL": True},
    "BOOL": {"BOOL": False},
    "L": {"L": [{"B": b"in a list"}, {"L": []}, {"M": {"B": {"N": "1"}}}, {"NULL": True}]},
    "M": {"M": {"B": {"B": b"in a map"}, "L": {"L": [{"BS": [b"deep"]}]}, "M": {"M": {}}}},
}


def walking(service: str) -> Any:
    """A client as botocore makes it, of the same endpoint."""
    create: Callable[..., Any] = boto3.client
    return create(service)


def both(dynamodb: Any, operation: str, **request: Any) -> list[dict[str, Any]]:
    """The answers that the product's client and botocore's own one give, but for what names the one request."""
    answers = [getattr(each, operation)(**request) for each in (dynamodb, walking("dynamodb"))]
    for one in answers:
        del one["ResponseMetadata"]
    return answers


def test_a_query_and_a_scan_give_what_botocore_gives(dynamodb: Any, make_index: MakeIndex) -> None:
    index = make_index(dynamodb, RecordId="B")
    keys = [b"R1", b"R\xff", b"\x00"]
    for number, attributes in enumerate(({}, EVERY_KIND, {"Only": {"S": "text"}})):
        item = record("", f"15:0{number}:00Z", RecordId={"B": keys[number]}, **attributes)
        dynamodb.put_item(TableName=index.table_name, Item=item)
    request: dict[str, Any] = {
        "TableName": index.table_name,
        "IndexName": index.index_name,
        "KeyConditionExpression": "BookingDateUTC = :date",
        "ExpressionAttributeValues": {":date": {"S": "2026-09-17"}},
    }
    for limit in (1, 1000):
        ours, botocores = both(dynamodb, "query", Limit=limit, **request)
        assert ours == botocores
    assert [ours["Items"][1][kind] for kind in ("B", "L", "M")] == [EVERY_KIND[kind] for kind in ("B", "L", "M")]
    assert both(dynamodb, "query", Select="COUNT", **request)[0] == {"Count": 3, "ScannedCount": 3}
    ours, botocores = both(dynamodb, "scan", TableName=index.table_name)
    assert ours == botocores
    assert len(ours["Items"]) == 3


_values: Final = some.recursive(
    some.one_of(
        some.text().map(lambda text: {"S": text}),
        some.integers().map(lambda number: {"N": str(number)}),
        some.sampled_from(["", "AA==", "Qg==", "/+8="]).map(lambda text: {"B": text}),
        some.lists(some.sampled_from(["AA==", "Qg=="]), max_size=2).map(lambda texts: {"BS": texts}),
        some.lists(some.text(), max_size=2).map(lambda texts: {"SS": texts}),
        some.just({"NULL": True}),
        some.booleans().map(lambda value: {"BOOL": value}),
    ),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3).map(lambda values: {"L": values}),
        some.dictionaries(some.sampled_from(["B", "BS", "M", "other"]), inner, max_size=3).map(
            lambda values: {"M": values}
        ),
    ),
    max_leaves=8,
)


def test_any_items_read_as_botocore_reads_them(aws: Callable[[str], Any]) -> None:
    request = {"TableName": "any", "KeyConditionExpression": "a = b"}
    next_body: dict[str, Any] = {}
    readers = [aws("dynamodb"), walking("dynamodb")]
    for reader in readers:
        stage(reader, "Query", iter(lambda: answer(200, **next_body), None))

    @given(some.lists(some.dictionaries(some.text(max_size=3), _values, max_size=3), max_size=3))
    def read(items: list[dict[str, Any]]) -> None:
        next_body.update(Items=items, Count=len(items))
        ours, botocores = (reader.query(**request) for reader in readers)
        assert ours == botocores

    read()


def test_the_items_are_not_walked_through(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    dynamodb = aws("dynamodb")
    stage(dynamodb, "Query", [answer(200, Items=[record("R1")], Count=1)])
    walked: list[str] = []
    monkeypatch.setattr(JSONParser, "_handle_map", lambda _self, shape, _value: walked.append(shape.name))
    assert dynamodb.query(TableName="any", KeyConditionExpression="a = b")["Items"] == [record("R1")]
    assert not walked


def _no_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StructureShape, "is_document_type", False)


def _other_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "create_parser", lambda _protocol: None)


def _no_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StructureShape, "members", {})


def _other_items(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tuning.keep_items

    def renamed(made: Any, operation: str) -> bool:
        made.meta.service_model.operation_model(operation).output_shape.members["Items"].member.value.name = "Other"
        return original(made, operation)

    monkeypatch.setattr(tuning, "keep_items", renamed)


@pytest.mark.parametrize("change", [_no_documents, _other_parser, _no_items, _other_items])
def test_where_botocore_reads_otherwise_it_reads_itself(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with monkeypatch.context() as changed:
        change(changed)
        dynamodb = aws("dynamodb")
    for operation in ("Query", "Scan"):
        items = dynamodb.meta.service_model.operation_model(operation).output_shape.members["Items"]
        assert items.type_name == "list"
    stage(dynamodb, "Query", [answer(200, Items=[{"Key": {"B": "AA=="}}], Count=1)])
    assert dynamodb.query(TableName="any", KeyConditionExpression="a = b")["Items"] == [{"Key": {"B": b"\x00"}}]


def test_a_body_is_sent_at_once(aws: Callable[[str], Any]) -> None:
    s3, bucket = aws("s3"), fresh("bucket")
    s3.create_bucket(Bucket=bucket)
    puts = stage(s3, "PutObject", [])
    s3.put_object(Bucket=bucket, Key="key", Body=b"content")
    botocores = walking("s3")
    others = stage(botocores, "PutObject", [])
    botocores.put_object(Bucket=bucket, Key="key", Body=b"content")
    assert ["Expect" in request.headers for request in (*puts, *others)] == [False, True]
    assert not [name for name in puts[0].headers if "checksum" in name.lower() or "trailer" in name.lower()]


def test_a_client_names_itself_as_botocore_does_and_thinks_of_its_name_once(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "the_function")
    ssm = aws("ssm")
    requests = stage(ssm, "GetParameters", [])
    with monkeypatch.context() as changed:
        changed.delattr(UserAgentString, "to_string")
        for _ in range(2):
            ssm.get_parameters(Names=["name"])
    [name, again] = [cast("bytes", request.headers["User-Agent"]) for request in requests]
    assert name == again
    assert name.startswith(b"Boto3/")
    assert {b"app/the_function", b"cfg/retry-mode#standard"} <= set(name.split())


def test_where_botocore_has_other_places_its_client_stays_as_it_is() -> None:
    bare = object()
    tuning.name_itself_once(bare)
    tuning.share_trust(bare)


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b"{}" if self.command == "POST" else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST  # noqa: N815 -- the name that the server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the standard library
        pass


def certificate(directory: Path) -> tuple[Path, Path]:
    """The files of a new self-signed certificate of this host, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    )
    signed = builder.sign(key, hashes.SHA256())
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted))
    return files


@contextmanager
def encrypted(directory: Path) -> Iterator[tuple[str, Path]]:
    """The endpoint of an AWS that says yes to everything, and the file of its certificate."""
    trusted, key = certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", trusted
        finally:
            server.shutdown()
            serving.join(10)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The files of certificates that were read, by a process that has read none."""
    read: list[Any] = []
    load = ssl.SSLContext.load_verify_locations

    def noted(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        load(context, cafile, capath, cadata)
        read.append(cafile)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)
    tuning.trust.cache_clear()
    yield read
    tuning.trust.cache_clear()


def test_all_connections_of_all_clients_read_the_trusted_certificates_once(
    tmp_path: Path, connect: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, reads: list[Any]
) -> None:
    with encrypted(tmp_path) as (endpoint, trusted):
        connect(endpoint)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
        client("ssm").get_parameters(Names=["name"])
        together = threading.Barrier(THREADS, timeout=20)

        def put(number: int) -> None:
            together.wait()
            client("s3").put_object(Bucket="bucket", Key=str(number), Body=b"")

        client("s3")
        each(put, range(THREADS))
        assert reads == [str(trusted)]
        client("ssm").close()
        client("s3").close()


@pytest.mark.usefixtures("pauses")
def test_a_server_that_nobody_vouches_for_is_not_spoken_to(
    tmp_path: Path, connect: Callable[[str], None], reads: list[Any]
) -> None:
    with encrypted(tmp_path) as (endpoint, trusted):
        connect(endpoint)
        with pytest.raises(TransientError, match="GetParameters: SSLError"), translated("GetParameters"):
            client("ssm").get_parameters(Names=["name"])
        assert len(reads) == 1
        assert reads != [str(trusted)]


@pytest.mark.usefixtures("reads")
def test_a_certificate_of_another_name_is_refused(
    tmp_path: Path, connect: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    with encrypted(tmp_path) as (endpoint, trusted):
        connect(endpoint.replace("127.0.0.1", "localhost"))
        monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
        with pytest.raises(TransientError, match="GetParameters: SSLError"), translated("GetParameters"):
            client("ssm").get_parameters(Names=["name"])
    assert pauses


@pytest.mark.usefixtures("reads", "pauses")
def test_a_client_does_not_trust_what_another_one_was_told_to_trust(
    tmp_path: Path, connect: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with encrypted(tmp_path) as (endpoint, trusted):
        connect(endpoint)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
        client("ssm").get_parameters(Names=["name"])
        client("ssm").close()
        monkeypatch.delenv("AWS_CA_BUNDLE")
        client.cache_clear()
        with pytest.raises(TransientError, match="GetParameters: SSLError"), translated("GetParameters"):
            client("ssm").get_parameters(Names=["name"])
