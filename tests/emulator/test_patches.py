"""Each patch: what it mends, and that it fails loudly where upstream has moved."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from ministack.core import lambda_runtime

from tests.emulator.conftest import ROLE, Bench, archive_of
from tools.emulator import patches
from tools.emulator.access import client_settings
from tools.emulator.instance import REGION

FAILING = """
import os

class InvalidToken(Exception):
    pass

def handler(event, context):
    if event == "die":
        print("about to die")
        os._exit(3)
    if event == "fail":
        raise InvalidToken("no such token")
    return os.getpid()
"""

LOGGING = """
def handler(event, context):
    for line in range(event["lines"]):
        print(f"{event['name']} {line}")
"""

PLACED = """
import os

def handler(event, context):
    return {"folder": os.getcwd(), "pid": os.getpid()}
"""

IMPORTING = """
import importlib
import sys

def handler(event, context):
    try:
        importlib.import_module(event)
    except ImportError as error:
        return str(error)
    return "found"
"""


@pytest.fixture(scope="module")
def failing(bench: Bench) -> str:
    return bench.create_function("failing", FAILING)


@pytest.fixture(scope="module")
def logging(bench: Bench) -> str:
    return bench.create_function("logging", LOGGING)


class TestFunctionErrors:
    def test_an_exception_is_reported_by_its_class_with_its_stack_trace(self, bench: Bench, failing: str) -> None:
        answer = bench.invoke(failing, "fail")

        assert answer.error == "Unhandled"
        assert answer.payload["errorType"] == "InvalidToken"
        assert answer.payload["errorMessage"] == "no such token"
        assert 'raise InvalidToken("no such token")' in answer.payload["stackTrace"][-1]
        assert "[ERROR] InvalidToken: no such token\nTraceback" in answer.log

    def test_an_exception_leaves_the_worker_warm(self, bench: Bench, failing: str) -> None:
        before = bench.invoke(failing).payload
        bench.invoke(failing, "fail")

        assert bench.invoke(failing).payload == before

    def test_a_process_that_died_is_an_exit_error_and_the_next_call_gets_a_new_one(
        self, bench: Bench, failing: str
    ) -> None:
        before = bench.invoke(failing).payload
        answer = bench.invoke(failing, "die")

        assert answer.payload["errorType"] == "Runtime.ExitError"
        assert "about to die" in answer.log
        assert bench.invoke(failing).payload != before

    def test_a_throttled_invocation_fails_its_task_by_the_name_that_aws_uses(self, bench: Bench) -> None:
        function = bench.create_function("throttled", FAILING)
        bench.client("lambda").put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
        task = {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": function},
            "End": True,
        }

        assert bench.execute({"Task": task}, {})["error"] == "Lambda.TooManyRequestsException"

    def test_a_nested_execution_that_failed_is_described_to_the_one_that_waits_for_it(self, bench: Bench) -> None:
        client, name = bench.client("stepfunctions"), f"nested-{time.time_ns()}"
        failing = {"StartAt": "F", "States": {"F": {"Type": "Fail", "Error": "InvalidToken", "Cause": "why"}}}
        nested = client.create_state_machine(name=name, definition=json.dumps(failing), roleArn=ROLE)["stateMachineArn"]
        task = {
            "Type": "Task",
            "Resource": "arn:aws:states:::states:startExecution.sync:2",
            "Parameters": {"StateMachineArn": nested, "Name": "lane", "Input": {"Lane": 7}},
            "End": True,
        }

        ended = bench.execute({"Task": task}, {})

        assert ended["error"] == "States.TaskFailed"
        described = json.loads(ended["cause"])
        assert (described["Name"], described["Status"]) == ("lane", "FAILED")
        assert (described["Error"], described["Cause"]) == ("InvalidToken", "why")
        assert json.loads(described["Input"]) == {"Lane": 7}


class TestFunctionLogs:
    def test_every_line_belongs_to_the_invocation_that_wrote_it(self, bench: Bench, logging: str) -> None:
        for number in range(5):
            log = bench.invoke(logging, {"name": f"call-{number}", "lines": 20}).log
            lines = [line for line in log.splitlines() if line.startswith("call-")]

            assert lines == [f"call-{number} {line}" for line in range(20)]
            assert patches.END_OF_LOG not in log

    def test_a_function_that_logs_nothing_is_not_waited_for(self, bench: Bench, logging: str) -> None:
        bench.invoke(logging, {"lines": 0})

        assert min(bench.invoke(logging, {"lines": 0}).seconds for _ in range(10)) < 0.04


@pytest.mark.parametrize("package", ["ministack", "boto3", "pydantic"])
def test_a_function_sees_no_package_of_the_emulator(bench: Bench, package: str) -> None:
    function = bench.create_function(f"importing-{package}", IMPORTING)

    assert bench.invoke(function, package).payload == f"No module named '{package}'"


def test_workers_of_the_same_code_share_one_unpacked_copy(bench: Bench) -> None:
    same, again = (bench.create_function(f"placed-{number}", PLACED) for number in range(2))
    other = bench.create_function("placed-elsewhere", f"{PLACED}# another code")
    places = [bench.invoke(function).payload for function in (same, again, other)]

    assert places[0]["folder"] == places[1]["folder"] != places[2]["folder"]
    assert len({place["pid"] for place in places}) == 3


def test_new_code_of_a_function_is_run_and_not_the_shared_copy_of_the_old(bench: Bench) -> None:
    function = bench.create_function("renewed", "def handler(event, context):\n    return 'old'")
    assert bench.invoke(function).payload == "old"

    code = archive_of("def handler(event, context):\n    return 'new'")
    bench.client("lambda").update_function_code(FunctionName=function, ZipFile=code)

    assert bench.invoke(function).payload == "new"


@pytest.mark.parametrize("run_input", ["", "{", "ExecuteTime"])
def test_an_execution_whose_input_is_no_json_is_refused(bench: Bench, run_input: str) -> None:
    stepfunctions = bench.client("stepfunctions")
    definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
    machine = stepfunctions.create_state_machine(
        name=f"strict-{time.monotonic_ns()}", definition=definition, roleArn=ROLE
    )

    with pytest.raises(ClientError, match="InvalidExecutionInput"):
        stepfunctions.start_execution(stateMachineArn=machine["stateMachineArn"], input=run_input)

    assert stepfunctions.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"] == []


def test_an_expression_is_parsed_once_and_each_caller_gets_a_list_of_its_own() -> None:
    parsed = []

    def tokenize(expr: str) -> list[str]:
        parsed.append(expr)
        return expr.split()

    dynamodb = SimpleNamespace(_tokenize=tokenize, _condition_syntax_error=lambda expr, slot: f"{expr} {slot}")
    patches.parse_an_expression_once(dynamodb)
    tokens, syntax_error = (vars(dynamodb)[name] for name in ("_tokenize", "_condition_syntax_error"))
    first, second = tokens("a = :b"), tokens("a = :b")
    first.clear()

    assert parsed == ["a = :b"]
    assert second == tokens("a = :b") == ["a", "=", ":b"]
    assert syntax_error("a", "b") == "a b"


def test_expired_deduplication_ids_are_dropped_and_the_others_kept() -> None:
    sqs = SimpleNamespace(_prune_dedup=lambda q: q)
    patches.forget_deduplication_ids_from_the_front(sqs)
    now = time.time()
    queue = {"dedup_cache": {"old": {"expire": now - 2}, "older": {"expire": now - 1}, "new": {"expire": now + 60}}}
    vars(sqs)["_prune_dedup"](queue)

    assert list(queue["dedup_cache"]) == ["new"]


def test_a_fifo_queue_drops_a_repeated_message(bench: Bench) -> None:
    sqs = bench.client("sqs")
    queue = sqs.create_queue(QueueName="tasks.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for body in ("first", "again"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g", MessageDeduplicationId="same")

    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == ["first"]


def test_a_schedule_puts_its_time_into_its_input(bench: Bench) -> None:
    sqs = bench.client("sqs")
    queue = sqs.create_queue(QueueName="scheduled")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    due = datetime.now(UTC)
    bench.client("scheduler").create_schedule(
        Name="once",
        ScheduleExpression=f"at({due:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": arn,
            "RoleArn": "arn:aws:iam::000000000000:role/scheduler",
            "Input": '{"ExecuteTime":"<aws.scheduler.scheduled-time>"}',
        },
    )

    messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", [])
    (execute_time,) = (json.loads(message["Body"])["ExecuteTime"] for message in messages)
    # The sweep comes up to ten seconds later, which may be in the next minute.
    assert execute_time in {f"{minute:%Y-%m-%dT%H:%M}:00Z" for minute in (due, due + timedelta(seconds=20))}


@pytest.fixture(scope="module")
def limited(guarded: Bench) -> Callable[[str], Any]:
    """Clients of a role that may send messages, read one parameter, and write to a bucket that demands TLS."""
    iam, bucket = guarded.client("iam"), "arn:aws:s3:::tls-only/*"
    guarded.client("s3").create_bucket(Bucket="tls-only")
    insecure = {"Bool": {"aws:SecureTransport": "false"}}
    refused = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": bucket, "Condition": insecure}
    guarded.client("s3").put_bucket_policy(Bucket="tls-only", Policy=_policy(refused))
    for name in ("granted", "other"):
        guarded.client("ssm").put_parameter(Name=f"/{name}", Value="true", Type="String")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(RoleName="limited", AssumeRolePolicyDocument=_policy(trust))["Role"]["Arn"]
    rights = (
        ("sqs:SendMessage", "*"),
        ("ssm:GetParameters", "arn:aws:ssm:us-east-1:000000000000:parameter/granted"),
        ("s3:PutObject", bucket),
    )
    allowed = ({"Effect": "Allow", "Action": action, "Resource": resource} for action, resource in rights)
    iam.put_role_policy(RoleName="limited", PolicyName="rights", PolicyDocument=_policy(*allowed))
    credentials = guarded.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    client: Any = boto3.Session(
        credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], REGION
    ).client
    return lambda service: client(service, **client_settings(guarded.emulator.endpoint))


class TestEnforcedRights:
    def test_a_batch_of_messages_needs_the_right_to_send_one(
        self, guarded: Bench, limited: Callable[[str], Any]
    ) -> None:
        queue = guarded.client("sqs").create_queue(QueueName="tasks")["QueueUrl"]
        entries = [{"Id": "0", "MessageBody": "task"}]

        assert limited("sqs").send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
        with pytest.raises(ClientError, match="AccessDenied"):
            limited("sqs").receive_message(QueueUrl=queue)

    def test_parameters_are_read_by_the_right_to_these_parameters(self, limited: Callable[[str], Any]) -> None:
        assert limited("ssm").get_parameters(Names=["/granted"])["Parameters"]
        with pytest.raises(ClientError, match="AccessDenied"):
            limited("ssm").get_parameters(Names=["/other"])

    def test_a_bucket_that_demands_tls_takes_an_object(self, limited: Callable[[str], Any]) -> None:
        limited("s3").put_object(Bucket="tls-only", Key="k", Body=b"content")
        with pytest.raises(ClientError, match="AccessDenied"):
            limited("s3").get_object(Bucket="tls-only", Key="k")


def _policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


class TestMovedUpstream:
    def test_another_version_of_ministack_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(patches, "SUPPORTED_VERSION", "1.5.34")

        with pytest.raises(patches.UpstreamMovedError, match=r"ministack 1\.5\.33 is installed"):
            patches.apply(Path("python"))

    @pytest.mark.parametrize(
        ("patch", "names"),
        [
            (
                lambda moved: patches.report_the_class_of_a_function_error(_unmoved_runtime(), moved),
                ["_execute_function_warm"],
            ),
            (lambda moved: patches.run_functions_on(Path("python"), moved), ["_detect_runtime_binary"]),
            (patches.unpack_a_bundle_once, ["Worker"]),
            (patches.refuse_an_input_that_is_no_json, ["_start_execution"]),
            (patches.name_a_throttled_invocation, ["_ExecutionError", "_call_lambda"]),
            (patches.describe_a_nested_execution_that_failed, ["_nested_execution_failure"]),
            (patches.parse_an_expression_once, ["_tokenize", "_condition_syntax_error"]),
            (patches.forget_deduplication_ids_from_the_front, ["_prune_dedup"]),
            (patches.fill_in_the_scheduled_time, ["_invoke_target"]),
            (patches.authorize_a_batch_as_its_single_action, ["extract_iam_action"]),
            (patches.authorize_parameters_by_name, ["extract_resource_arn"]),
            (patches.count_loopback_as_secure, ["pin_request_origin"]),
        ],
    )
    def test_a_function_that_takes_something_else_or_is_gone_is_refused(
        self, patch: Callable[[Any], None], names: list[str]
    ) -> None:
        gone = SimpleNamespace()
        changed = SimpleNamespace(**{name: lambda something_else: something_else for name in names})

        for moved in (gone, changed):
            with pytest.raises(patches.UpstreamMovedError):
                patch(moved)

    @pytest.mark.parametrize(
        "patch",
        [
            lambda runtime: patches.report_the_class_of_a_function_error(runtime, SimpleNamespace()),
            patches.end_the_log_with_a_mark,
        ],
    )
    def test_another_worker_script_is_refused(self, patch: Callable[[Any], None]) -> None:
        with pytest.raises(patches.UpstreamMovedError, match="worker script"):
            patch(SimpleNamespace(_PYTHON_WORKER_SCRIPT="another script", Worker=SimpleNamespace()))


def _unmoved_runtime() -> Any:
    return SimpleNamespace(_PYTHON_WORKER_SCRIPT=vars(lambda_runtime)["_PYTHON_WORKER_SCRIPT"])
