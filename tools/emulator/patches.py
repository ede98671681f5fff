# ruff: noqa: SLF001 - patching is reaching into another package's private parts
"""What ministack 1.5.33 does otherwise than AWS, mended before it serves.

Each function mends one thing in the modules that it is handed, and raises `UpstreamMovedError` where they no longer
look as they did when it was written. `apply` puts all of them in place.
"""

import functools
import hashlib
import importlib
import inspect
import itertools
import json
import queue
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SUPPORTED_VERSION = "1.5.33"
"""The only version of ministack that the patches were written for."""

FAILURE_KEY = "__function_failure__"
"""Marks an answer as the failure of its handler, on the way from the worker to the Lambda service."""

END_OF_LOG = "--- end of the invocation's log ---"
"""The line that a worker writes behind its handler's last log line."""

LOG_WAIT_SECONDS = 0.25
"""The longest wait for that line. Upstream's own bound."""


class UpstreamMovedError(RuntimeError):
    """ministack is not what a patch was written for: adapt the patch, or drop it where AWS is matched by now."""


def apply(function_interpreter: Path) -> None:
    """Mend the ministack of this process. To be called before the first request.

    `function_interpreter` is the Python that runs the functions (see `run_functions_on`).

    Raises:
        UpstreamMovedError: another version of ministack is installed, or a patched place has moved.
    """
    installed = version("ministack")
    if installed != SUPPORTED_VERSION:
        raise UpstreamMovedError(f"ministack {installed} is installed, the patches are for {SUPPORTED_VERSION}")
    runtime = importlib.import_module("ministack.core.lambda_runtime")
    report_the_class_of_a_function_error(runtime, importlib.import_module("ministack.services.lambda_svc"))
    end_the_log_with_a_mark(runtime)
    run_functions_on(function_interpreter, runtime)
    unpack_a_bundle_once(runtime)
    refuse_an_input_that_is_no_json(importlib.import_module("ministack.services.stepfunctions"))
    name_a_throttled_invocation(importlib.import_module("ministack.services.stepfunctions"))
    describe_a_nested_execution_that_failed(importlib.import_module("ministack.services.stepfunctions"))
    parse_an_expression_once(importlib.import_module("ministack.services.dynamodb"))
    forget_deduplication_ids_from_the_front(importlib.import_module("ministack.services.sqs"))
    fill_in_the_scheduled_time(importlib.import_module("ministack.services.eventbridge"))
    authorize_a_batch_as_its_single_action(importlib.import_module("ministack.core.iam_actions"))
    authorize_parameters_by_name(importlib.import_module("ministack.core.iam_actions"))
    count_loopback_as_secure(importlib.import_module("ministack.app"))


def report_the_class_of_a_function_error(runtime: Any, service: Any) -> None:
    """Answer a handler's exception with its class as `errorType`, its stack trace, and the worker kept warm.

    Upstream calls every exception `Runtime.HandlerError`, so that no Retry or Catch by name matches, and throws the
    worker away. A worker whose process ended is AWS's `Runtime.ExitError`.
    """
    runtime._PYTHON_WORKER_SCRIPT = _replaced_once(
        runtime._PYTHON_WORKER_SCRIPT,
        r"""
            _real_stdout.write(json.dumps({"status": "error", "error": str(e), "trace": traceback.format_exc()}) + "\n")
""",
        # The answer is "ok" since upstream ends the process of a worker that answers "error".
        r"""
            sys.stderr.write("[ERROR] " + type(e).__name__ + ": " + str(e) + "\n" + traceback.format_exc())
            _failure = {"errorMessage": str(e), "errorType": type(e).__name__, "requestId": context.aws_request_id}
            _failure["stackTrace"] = traceback.format_tb(e.__traceback__)[1:]
            _real_stdout.write(json.dumps({"status": "ok", "result": {"FAILURE_KEY": _failure}}) + "\n")
""".replace("FAILURE_KEY", FAILURE_KEY),
    )

    def named(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def execute_and_name_the_error(func: Any, event: Any, request_id: str) -> dict[str, Any]:
            answer = execute(func, event, request_id)
            body = answer.get("body")
            if isinstance(body, dict) and FAILURE_KEY in body:
                return {**answer, "body": body[FAILURE_KEY], "error": True}
            if answer.get("error") and answer["body"].get("errorMessage") == "Worker process died":
                answer["body"]["errorType"] = "Runtime.ExitError"
            return answer

        return execute_and_name_the_error

    _replace(service, "_execute_function_warm", ("func", "event", "request_id"), named)


def end_the_log_with_a_mark(runtime: Any) -> None:
    """Read an invocation's log up to a mark that the worker writes, instead of waiting for silence.

    Upstream waits 50 ms for the first line of a handler that logs nothing, and gives a late line to the next
    invocation.
    """
    runtime._PYTHON_WORKER_SCRIPT = _replaced_once(
        runtime._PYTHON_WORKER_SCRIPT,
        """
        _real_stdout.flush()

run()
""",
        f"""
        print({END_OF_LOG!r}, file=sys.stderr, flush=True)
        _real_stdout.flush()

run()
""",
    )

    def marked(_: Callable[..., str]) -> Callable[..., str]:
        def log_of_the_invocation(worker: Any) -> str:
            if worker._proc is None:  # it has ended, and wrote no mark
                worker._stderr_thread.join(LOG_WAIT_SECONDS)
                return str(worker._drain_stderr())
            lines = []
            deadline = time.monotonic() + LOG_WAIT_SECONDS
            while (left := deadline - time.monotonic()) > 0:
                try:
                    text, mark, _ = worker._stderr_queue.get(timeout=left).partition(END_OF_LOG)
                except queue.Empty:
                    break
                if text or not mark:
                    lines.append(text)
                if mark:
                    break
            return "\n".join(lines)

        return log_of_the_invocation

    parameters = ("self", "first_line_wait", "idle_confirm", "hard_cap")
    _replace(runtime.Worker, "_drain_stderr_bounded", parameters, marked)


def run_functions_on(interpreter: Path, runtime: Any) -> None:
    """Run the functions on `interpreter`, which has no packages of its own.

    Upstream runs them on the interpreter that runs ministack, whose packages would stand in for those that a bundle
    forgot.
    """

    def bare(detect: Callable[[str], tuple[str, str]]) -> Callable[[str], tuple[str, str]]:
        def interpreter_and_script(name: str) -> tuple[str, str]:
            binary, script = detect(name)
            return (str(interpreter) if name.startswith("python") else binary), script

        return interpreter_and_script

    _replace(runtime, "_detect_runtime_binary", ("runtime",), bare)


def unpack_a_bundle_once(runtime: Any) -> None:
    """Unpack each code archive once, for all workers: in a worker's own folder stands a link to it.

    Upstream unpacks it again for each worker, which is the most of a worker's start and of the emulator's end. As on
    AWS, no function may write there.
    """
    shared: dict[str, str] = {}
    lock = threading.Lock()

    class Archive(zipfile.ZipFile):
        def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
            if Path(path).name != "code":  # a layer
                super().extractall(path, members, pwd)
                return
            digest = hashlib.sha256(Path(str(self.filename)).read_bytes()).hexdigest()
            with lock:
                if digest not in shared:
                    fresh = tempfile.mkdtemp(prefix="bundle-")
                    super().extractall(fresh)
                    shared[digest] = fresh
            Path(path).rmdir()
            Path(path).symlink_to(shared[digest])

    if getattr(runtime, "zipfile", None) is not zipfile or "zf.extractall(code_dir)" not in _source(runtime.Worker):
        raise UpstreamMovedError("ministack's worker no longer unpacks its code into a folder of its own")
    runtime.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": Archive})


def refuse_an_input_that_is_no_json(stepfunctions: Any) -> None:
    """Answer `InvalidExecutionInput` to a start whose input is no JSON.

    Upstream runs the execution on an empty object.
    """

    def strict(start: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        def start_execution(data: dict[str, Any]) -> Any:
            try:
                json.loads(data.get("input", "{}"))
            except ValueError:
                return stepfunctions.error_response_json("InvalidExecutionInput", "the input is no JSON", 400)
            return start(data)

        return start_execution

    _replace(stepfunctions, "_start_execution", ("data",), strict)


def name_a_throttled_invocation(stepfunctions: Any) -> None:
    """Fail a task whose function is throttled with `Lambda.TooManyRequestsException`.

    Upstream says `Lambda.Unknown`, which is AWS's name for a function that died.
    """
    if not hasattr(stepfunctions, "_ExecutionError"):
        raise UpstreamMovedError("ministack's execution error is gone")

    def named(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_lambda(func_ref: str, event: Any) -> Any:
            try:
                return call(func_ref, event)
            except stepfunctions._ExecutionError as error:
                if "TooManyRequestsException" in (error.cause or ""):
                    error.error = "Lambda.TooManyRequestsException"
                raise

        return call_lambda

    _replace(stepfunctions, "_call_lambda", ("func_ref", "event"), named)


def describe_a_nested_execution_that_failed(stepfunctions: Any) -> None:
    """Fail the task that waits for an execution with `States.TaskFailed` and that execution's description.

    Upstream hands on the nested execution's own error and cause, so that nothing says which one failed.
    """

    def described(failure: Callable[[Any], tuple[str, str]]) -> Callable[[Any], tuple[str, str]]:
        def nested_execution_failure(payload: Any) -> tuple[str, str]:
            error, cause = failure(payload)
            description = {
                "ExecutionArn": payload.get("executionArn"),
                "Input": payload.get("input"),
                "Name": payload.get("name"),
                "Status": payload.get("status"),
                **({"Error": error, "Cause": cause} if payload.get("status") == "FAILED" else {}),
            }
            return "States.TaskFailed", json.dumps(description)

        return nested_execution_failure

    _replace(stepfunctions, "_nested_execution_failure", ("payload",), described)


def parse_an_expression_once(dynamodb: Any) -> None:
    """Keep what an expression's text parses to.

    Upstream parses the text again for every item, which is most of a query's time.
    """

    def kept(tokenize: Callable[[str], list[Any]]) -> Callable[[str], list[Any]]:
        @functools.lru_cache(maxsize=4096)
        def tokens(expr: str) -> tuple[Any, ...]:
            return tuple(tokenize(expr))

        return lambda expr: list(tokens(expr))  # a list of its own, since callers change theirs

    _replace(dynamodb, "_tokenize", ("expr",), kept)
    _replace(dynamodb, "_condition_syntax_error", ("expr", "slot"), functools.lru_cache(maxsize=4096))


def forget_deduplication_ids_from_the_front(sqs: Any) -> None:
    """Drop expired deduplication ids from the front of a FIFO queue's cache, where the oldest stand.

    Upstream builds the whole cache anew for every message sent.
    """

    def from_the_front(_: Callable[..., None]) -> Callable[..., None]:
        def prune(q: dict[str, Any]) -> None:
            cache, now = q["dedup_cache"], time.time()
            for key in list(itertools.takewhile(lambda key: cache[key]["expire"] <= now, cache)):
                del cache[key]

        return prune

    _replace(sqs, "_prune_dedup", ("q",), from_the_front)


def fill_in_the_scheduled_time(eventbridge: Any) -> None:
    """Put the scheduled time where a schedule's input says `<aws.scheduler.scheduled-time>`.

    Upstream passes the placeholder on. Its sweep comes every ten seconds, so the minute in which it found the
    schedule due is the minute of the cron expression. (Rates and seconds are not told apart.)
    """

    def filled_in(invoke: Callable[..., None]) -> Callable[..., None]:
        def invoke_target(target: dict[str, Any], event: dict[str, Any], rule: Any, view: Any = None) -> None:
            if event.get("Source") == "aws.scheduler" and "Input" in target:
                scheduled = datetime.fromtimestamp(event["Time"], UTC).strftime("%Y-%m-%dT%H:%M:00Z")
                filled = target["Input"].replace("<aws.scheduler.scheduled-time>", scheduled)
                target = {**target, "Input": filled}
            invoke(target, event, rule, view)

        return invoke_target

    _replace(eventbridge, "_invoke_target", ("target", "event", "rule", "view"), filled_in)


def authorize_a_batch_as_its_single_action(iam_actions: Any) -> None:
    """Authorize `SendMessageBatch` and its like as `sqs:SendMessage` and its like.

    Upstream asks for `sqs:SendMessageBatch`, which IAM does not know.
    """

    def single(extract: Callable[..., str | None]) -> Callable[..., str | None]:
        def extract_iam_action(*arguments: Any) -> str | None:
            action = extract(*arguments)
            return action.removesuffix("Batch") if action and action.startswith("sqs:") else action

        return extract_iam_action

    parameters = ("service", "method", "path", "headers", "body", "query_params")
    _replace(iam_actions, "extract_iam_action", parameters, single)


def authorize_parameters_by_name(iam_actions: Any) -> None:
    """Authorize `GetParameters` for the first parameter that it names.

    Upstream asks for the right to every parameter there is.
    """

    def by_name(extract: Callable[..., str]) -> Callable[..., str]:
        def extract_resource_arn(*arguments: Any) -> str:
            service, _, _, headers, body, _, region, account_id = arguments
            if service == "ssm" and headers.get("x-amz-target") == "AmazonSSM.GetParameters":
                name = json.loads(body)["Names"][0]
                return f"arn:aws:ssm:{region}:{account_id}:parameter/{name.lstrip('/')}"
            return extract(*arguments)

        return extract_resource_arn

    parameters = ("service", "method", "path", "headers", "body", "query_params", "region", "account_id")
    _replace(iam_actions, "extract_resource_arn", parameters, by_name)


def count_loopback_as_secure(app: Any) -> None:
    """Let requests over plain HTTP meet policies that demand TLS.

    The emulator has no certificate, and nothing that it serves leaves the loopback interface.
    """

    def secure(pin: Callable[[str, bool], None]) -> Callable[[str, bool], None]:
        return lambda source_ip, _: pin(source_ip, True)  # noqa: FBT003 - upstream's own signature

    _replace(app, "pin_request_origin", ("source_ip", "secure_transport"), secure)


def _source(kind: Any) -> str:
    """The text of a class; none where it is not one of a file."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _replaced_once(text: str, old: str, new: str) -> str:
    """`text` with its one `old` replaced by `new`."""
    if text.count(old) != 1:
        raise UpstreamMovedError(f"ministack's worker script no longer holds once: {old.strip()}")
    return text.replace(old, new)


def _replace(owner: Any, name: str, parameters: Sequence[str], wrap: Callable[[Any], Any]) -> None:
    """Put `wrap(original)` in the place of the function `name`, which takes `parameters`."""
    original = getattr(owner, name, None)
    if original is None or tuple(inspect.signature(original).parameters) != tuple(parameters):
        raise UpstreamMovedError(f"ministack's {name} is not a function of {', '.join(parameters)} any more")
    setattr(owner, name, wrap(original))
