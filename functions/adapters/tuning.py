"""What makes botocore's clients cheap, each without a change of what is asked, answered or raised.

Nothing of it is needed for a right answer: where botocore no longer has the place that is turned here, the client
works as botocore made it, only dearer.
"""

import base64
import functools
import json
import ssl
from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import BotoCoreError
from botocore.httpsession import create_urllib3_context
from botocore.model import StructureShape
from botocore.parsers import create_parser

_BINARY: Final = (b'"B"', b'"BS"')
"""In the text of every answer that holds binary, as its type; also elsewhere, which only costs a look."""
_AS_IT_IS: Final = {"type": "structure", "members": {}, "document": True}


def tune(client: Any) -> None:
    """Do for this client, of whatever service, all of what follows."""
    client.meta.events.register_last("before-call.s3", _send_at_once)
    name_itself_once(client)
    share_trust(client)
    if client.meta.service_model.service_name == "dynamodb":
        for operation in ("Query", "Scan"):
            if keep_items(client, operation):
                client.meta.events.register(f"after-call.dynamodb.{operation}", _decode_binary)


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Do not ask S3 first whether a body of some kilobytes may come: that is a second wait for each object."""
    params["headers"].pop("Expect", None)


def keep_items(client: Any, operation: str) -> bool:
    """Let the items of an answer stand as JSON gave them, which is what DynamoDB's attribute values are, but binary.

    Otherwise botocore walks through every value by its shape, which is nine tenths of reading a page.  False: botocore
    describes or parses the answer otherwise than expected, and walks.
    """
    try:
        service = client.meta.service_model
        output = service.operation_model(operation).output_shape
        walked = output.members["Items"]
        if walked.member.value.name != "AttributeValue":
            return False
        output.members["Items"] = StructureShape("Items", _AS_IT_IS)
    except (AttributeError, KeyError, TypeError):
        return False
    if _stand(service, output):
        return True
    output.members["Items"] = walked
    return False


def _stand(service: Any, output: Any) -> bool:
    """Try it: a parser that does not know of documents would give no items at all."""
    items = [{"name": {"S": "text"}}]
    sample = {"status_code": 200, "headers": {}, "body": json.dumps({"Items": items}).encode("ascii")}
    try:
        parsed = create_parser(service.resolved_protocol).parse(sample, output)
    except (AttributeError, BotoCoreError, KeyError, TypeError, ValueError):
        return False
    return bool(parsed.get("Items") == items)


def _decode_binary(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    """Give binary its bytes, as botocore's walk does."""
    content = getattr(http_response, "content", b"")  # none where another handler answered instead of AWS
    if "Items" in parsed and any(kind in content for kind in _BINARY):
        parsed["Items"] = [{name: _decoded(value) for name, value in item.items()} for item in parsed["Items"]]


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    """An attribute value, which names its type."""
    ((kind, content),) = value.items()
    decode = _DECODERS.get(kind)
    return {kind: decode(content)} if decode else value


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "B": base64.b64decode,
    "BS": lambda texts: [base64.b64decode(text) for text in texts],
    "L": lambda values: [_decoded(value) for value in values],
    "M": lambda values: {name: _decoded(value) for name, value in values.items()},
}


def name_itself_once(client: Any) -> None:
    """Build the `User-Agent` now, and not twice for each call."""
    creator: Any = getattr(client, "_user_agent_creator", None)
    if hasattr(creator, "to_string"):
        vars(creator)["to_string"] = functools.partial(str, creator.to_string())


def share_trust(client: Any) -> None:
    """Let all connections of the process, of all its clients, read the trusted certificates once.

    Otherwise each reads the whole file, which costs as much as twenty calls.  The file, and that a server's certificate
    is checked against it, stay what botocore says.
    """
    session = getattr(getattr(client, "_endpoint", None), "http_session", None)
    options = getattr(getattr(session, "_manager", None), "connection_pool_kw", {})
    if isinstance(options.get("ssl_context"), ssl.SSLContext):
        options["ssl_context"] = trust(getattr(session, "_verify", True))


@functools.cache
def trust(_certificates: object) -> ssl.SSLContext:
    """How the process's connections are encrypted that trust these certificates, as a client names them.

    One for each such name: a context goes on trusting all that it ever read.
    """
    context: ssl.SSLContext = create_urllib3_context()
    vars(context)["load_verify_locations"] = functools.cache(context.load_verify_locations)
    return context
