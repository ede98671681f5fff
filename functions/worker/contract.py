"""What a worker is sent: the message on a queue, and the object that it points at.

These models are the one source of the JSON Schemas in `schemas/`.  Source: docs/contract.md, "Task".
"""

import json
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from functions.domain.booking import MAX_ID_BYTES, Route
from functions.domain.errors import PermanentError

Id: TypeAlias = Annotated[
    int | Decimal | Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES)],
    WithJsonSchema({"type": ["number", "string"], "minLength": 1, "maxLength": MAX_ID_BYTES}),
]
"""The number 100 and the text "100" are two ids."""

Hour: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00Z$")]

_Model = TypeVar("_Model", bound=BaseModel)
_STRICT: Final = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class UnworkableTask(PermanentError):
    """Somebody acts: the task does not hold what it must; the message names the field, never its value."""


class TaskHeader(BaseModel):
    """What a message and its object both say of a task."""

    model_config = _STRICT

    ShopId: Id
    MemberId: Id
    PromotionEngineId: Id
    WindowStart: Hour
    """The UTC hour whose run composed the task."""
    WindowEnd: Hour
    Bucket: str = Field(min_length=1)
    Key: str = Field(min_length=1)
    """Where the task's object lies in the bucket; in a body that lies in a pack, where it would lie alone."""
    OrderCount: int = Field(ge=1)


class ByteRange(BaseModel):
    """Some bytes of an object."""

    model_config = _STRICT

    Start: int = Field(ge=0)
    """The first one; 0 is the object's first."""
    Length: int = Field(ge=1)


class PackedHeader(TaskHeader):
    """What a message says of a task whose body lies in a pack, which holds others too.

    `Key` is the pack's here, and the bytes at `Range` are what would be the task's object.
    """

    Range: ByteRange
    Sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Of the bytes at `Range`, in hexadecimal."""


class TaskMessage(BaseModel):
    """The message of a task, one for each group of bookings and reward type."""

    model_config = _STRICT

    JobName: Literal["RewardPoint", "RewardCoupon"]
    TaskId: str = Field(pattern="^[0-9a-f]{64}$")
    """SHA-256 of the route, the group and the record versions: the same records give the same id."""
    Data: str = Field(json_schema_extra={"contentMediaType": "application/json"})
    """The task's header, as JSON text; with `Range` and `Sha256` where its body lies in a pack."""


class Order(BaseModel):
    """A booking with all its attributes as they were when it was read, its key among them.

    Numbers keep their digits, sets are sorted lists, binary is base64.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, use_attribute_docstrings=True)

    ShopId: Id
    MemberId: Id
    PromotionEngineId: Id
    RewardStatus: Literal["WaitToReward"]
    """When it was read; a worker reads the newest one."""
    RewardType: Route = Field(strict=False)
    OrderTime: str
    """`YYYY-MM-DDThh:mm:ss[.f{1,9}]` and `Z`, `z` or `±hh:mm`; the orders are sorted by the instant."""
    BookingTimeUTC: str
    """`HH:MM:SSZ`; a fraction of a second may occur."""


class TaskObject(TaskHeader):
    """The object of a task, or its body in a pack."""

    Orders: list[Order] = Field(min_length=1)
    """In the order in which they are to be granted."""


def read_json(model: type[_Model], text: str | bytes, what: str) -> tuple[_Model, dict[str, Any]]:
    """What a text says, as the model and as it stands there; no digit of a number is lost.

    Raises:
        UnworkableTask: it is no JSON, or not as the model says; `what` names the text.
    """
    content = _parsed(text, what)
    return _validated(model, content, what), content


def read_header(text: str) -> TaskHeader:
    """What a message's `Data` says; a `PackedHeader` where the task's body lies in a pack.

    Raises:
        UnworkableTask: as for `read_json`.
    """
    content = _parsed(text, "Data")
    is_packed = isinstance(content, dict) and not {"Range", "Sha256"}.isdisjoint(content)
    return _validated(PackedHeader if is_packed else TaskHeader, content, "Data")


def _parsed(text: str | bytes, what: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise UnworkableTask(f"{what}: no JSON") from None


def _validated(model: type[_Model], content: Any, what: str) -> _Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (what, *first["loc"])))
        raise UnworkableTask(f"{place}: {first['type']}") from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)
