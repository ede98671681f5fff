"""The state machine's definition, read as data: rules that no interpreter on this machine holds it to.

Each rule yields its breaches, each beginning with the name of the state it stands in.  A table spoils the definition in
one place at a time, and shows that the rule finds it.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from functions.domain import budget
from functions.domain.errors import ERRORS_BY_NAME, PermanentError
from functions.domain.run import Others, Progress, Run
from functions.domain.run import Path as WayOfReading
from functions.domain.window import Window, parse_instant
from functions.usecases.ports import Holder
from functions.usecases.take_leases import Start
from tests.machine.walk import DEFINITION, PLACEHOLDER

ROOT: Final = DEFINITION.parents[1]
TEXT: Final = DEFINITION.read_text(encoding="utf-8")

State: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[State], Iterator[str]]

TIME_OUTS: Final = ["Sandbox.Timedout", "Lambda.Unknown", "States.Timeout"]
LAMBDA_ERRORS: Final = [
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
    "Lambda.CodeArtifactUserPendingException",
]
WAITED_FOR: Final = ("Take leases", "WindowBusy")
"""The one permanent error that is tried again, and where: a neighbour's run ends by itself."""
LONGEST_WAIT_SECONDS: Final = 3600
MOST_RETRIES: Final = 5
LONGEST_PAUSE_SECONDS: Final = 60
PLAIN_TYPES: Final = ("Task", "Pass", "Choice", "Fail", "Succeed")
IMPERATIVES: Final = {"Begin", "Dispatch", "Plan", "Report", "Summarize", "Take"}
REPORT: Final = "Report failure"
OUTSIDE: Final = {"RecordEnd"}
"""Functions that the machine does not invoke: an event does."""

SMALL: Final = (budget.SMALL_FUNCTION_SECONDS, budget.SMALL_TASK_SECONDS)
SECONDS: Final = {
    "PlanRun": SMALL,
    "TakeLeases": SMALL,
    "DispatchPage": (budget.PAGE_FUNCTION_SECONDS, budget.PAGE_TASK_SECONDS),
    "DispatchWindow": (budget.WINDOW_FUNCTION_SECONDS, budget.WINDOW_TASK_SECONDS),
    "SummarizeRun": SMALL,
    "ReportFailure": SMALL,
}
"""What a function has, and what its task waits."""

RUN: Final = Run(
    run_id="run",
    execution_id="execution",
    started_at="2026-09-17T16:01:10Z",
    window=Window.before(parse_instant("2026-09-17T16:01:10Z")),
    path=WayOfReading.FULL,
    page_size=1,
    dry_run=False,
    set_aside_limit=1,
    lease_seconds=1,
)
RETURNS: Final[dict[str, Any]] = {
    "PlanRun": {"Run": RUN.to_state(), "Progress": Progress().to_state()},
    "TakeLeases": Start(RUN, Progress(), Holder("run", 0), Others()).to_state(),
    "DispatchPage": Progress().to_state(),
    "DispatchWindow": Progress().to_state(),
    "SummarizeRun": None,
    "ReportFailure": {"Run": {}, "Progress": {}},
}
"""What the functions return: an object's members are relied on, of anything else nothing is known."""


@pytest.fixture
def definition() -> State:
    return dict(json.loads(TEXT))


def function_of(task: State) -> str:
    """The function whose placeholder, and nothing else, the task invokes."""
    found = PLACEHOLDER.fullmatch(str(task.get("Parameters", {}).get("FunctionName")))
    return found[1] if found else ""


def of_type(definition: State, *types: str) -> Iterator[tuple[str, State]]:
    return ((name, state) for name, state in definition["States"].items() if state["Type"] in types)


def following(state: State) -> Iterator[str]:
    """Where a state that did not fail can go on to."""
    for branch in (state, *state.get("Choices", ())):
        yield from (branch[key] for key in ("Next", "Default") if key in branch)


def reachable(definition: State, start: str, last: str = "") -> set[str]:
    """Every state that is reached from `start`, itself too; nothing is followed behind `last`."""
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            state = definition["States"].get(name, {}) if name != last else {}
            ahead += [*following(state), *(catcher["Next"] for catcher in state.get("Catch", ()))]
    return seen


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object within, however deep."""
    if isinstance(value, dict):
        yield from value.items()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(part)


# The rules


def each_state_says_what_it_promises(definition: State) -> Iterator[str]:
    for name, state in definition["States"].items():
        if not state.get("Comment", "").endswith("."):
            yield f"{name}: no comment"


def names_tell_what_a_state_is(definition: State) -> Iterator[str]:
    """Steps are imperative phrases, choices are questions, ends are outcomes."""
    for name, state in definition["States"].items():
        is_end = state["Type"] in {"Fail", "Succeed"} or state.get("End", False)
        if (state["Type"] == "Choice") is not name.endswith("?"):
            yield f"{name}: a choice, and only a choice, is a question"
        elif state["Type"] != "Choice" and (name.split()[0] in IMPERATIVES) is is_end:
            yield f"{name}: a step is an imperative phrase, an end is an outcome"
        if not 0 < len(name) <= 80:
            yield f"{name}: longer than Step Functions takes"


def every_state_is_there_and_reached(definition: State) -> Iterator[str]:
    reached = reachable(definition, definition["StartAt"])
    for name in reached ^ definition["States"].keys():
        yield f"{name}: {'not there' if name in reached else 'never reached'}"


def tasks_invoke_functions(definition: State) -> Iterator[str]:
    for name, task in of_type(definition, "Task"):
        if task["Resource"] != "arn:aws:states:::lambda:invoke" or function_of(task) not in SECONDS:
            yield f"{name}: invokes no function of this application by its placeholder"


def only_plain_steps_are_used(definition: State) -> Iterator[str]:
    """JSONPath without variables and without intrinsic functions: those turn ids into other ids."""
    for name, state in of_type(definition, *PLAIN_TYPES):
        for key, value in members(state):
            if key in {"QueryLanguage", "Assign", "Arguments", "Output", "OutputPath"}:
                yield f"{name}: {key}"
            if (key.endswith((".$", "Path")) or key == "Variable") and not re.fullmatch(r"\$\$?(\.\w+)*", str(value)):
                yield f"{name}: {key} is no plain path"
    for name in definition["States"].keys() - {name for name, _ in of_type(definition, *PLAIN_TYPES)}:
        yield f"{name}: of another type"
    if "QueryLanguage" in definition:
        yield "machine: QueryLanguage"


def waiting_ends(definition: State) -> Iterator[str]:
    """A task gives up a little after its function would have, and the machine some time."""
    for name, task in of_type(definition, "Task"):
        function_seconds, task_seconds = SECONDS[function_of(task)]
        if type(task.get("TimeoutSeconds")) is not int or task["TimeoutSeconds"] != task_seconds:
            yield f"{name}: does not wait {task_seconds} s"
        if not function_seconds < task_seconds <= function_seconds + 60:
            yield f"{name}: not a little more than its function's {function_seconds} s"
    if type(definition.get("TimeoutSeconds")) is not int:
        yield "machine: never gives up"


def transient_errors_are_retried_and_no_others(definition: State) -> Iterator[str]:
    """Time-outs once, since they rarely heal; what is transient by name a few times, with jitter and a cap.

    A neighbour's run is waited for besides, before anything was taken.
    """
    for name, task in of_type(definition, "Task"):
        raises_for_good = "Catch" not in task  # by the name of the error that it reports, which may be a transient one
        transient = LAMBDA_ERRORS if raises_for_good else ["TransientError", *LAMBDA_ERRORS]
        retry = [one for one in task.get("Retry", []) if not is_the_wait(name, one)]
        if [retrier.get("ErrorEquals") for retrier in retry] != [TIME_OUTS, transient]:
            yield f"{name}: retries something else"
            continue
        once, few = retry
        if once.get("MaxAttempts", 3) > 1:
            yield f"{name}: a time-out is retried more than once"
        if not 1 <= few.get("MaxAttempts", 3) <= MOST_RETRIES:
            yield f"{name}: not a few retries"
        if few.get("JitterStrategy") != "FULL" or few.get("BackoffRate", 1) < 2:
            yield f"{name}: pauses without jitter or back-off"
        if not 1 <= few.get("MaxDelaySeconds", 0) <= LONGEST_PAUSE_SECONDS:
            yield f"{name}: pauses without a cap"


def is_the_wait(name: str, retrier: State) -> bool:
    return (name, *retrier.get("ErrorEquals", ())) == WAITED_FOR


def a_neighbour_is_waited_for_as_long_as_its_lease_can_last(definition: State) -> Iterator[str]:
    """Steadily: pauses that grow would leave a window free for long that others wait for."""
    name, _ = WAITED_FOR
    waits = [one for one in definition["States"][name].get("Retry", ()) if is_the_wait(name, one)]
    if len(waits) != 1:
        yield f"{name}: waits for a neighbour not in one way"
    for wait in waits:
        if wait.get("BackoffRate", 2) != 1:
            yield f"{name}: its pauses grow"
        seconds = wait.get("IntervalSeconds", 1) * wait.get("MaxAttempts", 3)
        if not max(budget.PAGE_LEASE_SECONDS, budget.WINDOW_LEASE_SECONDS) < seconds <= LONGEST_WAIT_SECONDS:
            yield f"{name}: waits {seconds} s"


def errors_have_names_that_exist(definition: State) -> Iterator[str]:
    for name, state in definition["States"].items():
        for kind in ("Retry", "Catch"):
            for error in (error for handler in state.get(kind, ()) for error in handler["ErrorEquals"]):
                ours = ERRORS_BY_NAME.get(error)
                if ours is None and not error.startswith(("States.", "Lambda.", "Sandbox.")):
                    yield f"{name}: {error} is raised by nothing"
                if kind == "Retry" and ours and issubclass(ours, PermanentError) and (name, error) != WAITED_FOR:
                    yield f"{name}: {error} is permanent and retried"


def only_tasks_fail(definition: State) -> Iterator[str]:
    """A redrive goes on at the state that failed: a Fail state can only fail again."""
    for name, _ in of_type(definition, "Fail"):
        yield f"{name}: fails for ever"


def every_error_is_caught_and_keeps_the_state(definition: State) -> Iterator[str]:
    caught_by = {catcher["Next"] for _, state in of_type(definition, "Task") for catcher in state.get("Catch", ())}
    for name, task in of_type(definition, "Task"):
        catchers = task.get("Catch", [])
        if not catchers and name not in caught_by:
            yield f"{name}: its errors are not caught"
        if catchers and catchers[-1]["ErrorEquals"] != ["States.ALL"]:
            yield f"{name}: its last catcher does not catch all"
        if any(catcher.get("ResultPath") != "$.Error" for catcher in catchers):
            yield f"{name}: the error takes the state's place"


def no_error_ends_well(definition: State) -> Iterator[str]:
    """An error comes to the report, which raises it.  Only once redriven it returns, and the work is done again."""
    for name, task in of_type(definition, "Task"):
        for caught in {catcher["Next"] for catcher in task.get("Catch", ())}:
            for state in reachable(definition, caught, last=REPORT):
                here = definition["States"].get(state, {})
                if here.get("Type") == "Succeed" or here.get("End"):
                    yield f"{name}: its error ends well in {state}"
    redriven = definition["States"][REPORT]
    asks = redriven.get("Next", "nothing")
    if redriven.get("End") or set(following(definition["States"].get(asks, {}))) != {"Plan run", "Take leases"}:
        yield f"{REPORT}: once redriven it does not begin anew"


def choices_ask_for_a_value_and_fail_on_any_other(definition: State) -> Iterator[str]:
    """A choice asks one question with all its answers; one before it may only end the work early.

    Where a redriven execution begins anew, it is asked what there is to begin with.
    """
    redriven = definition["States"].get(REPORT, {}).get("Next")
    for name, state in of_type(definition, "Choice"):
        if name == redriven:
            if [(one.get("Variable"), one.get("IsPresent")) for one in state["Choices"]] != [("$.Run.RunId", True)]:
                yield f"{name}: asks for something else than whether a run was planned"
            continue
        if state.get("Default") != REPORT:
            yield f"{name}: goes on though the value is none of those it asks for"
        asked: dict[str, set[object]] = {}
        for choice in state["Choices"]:
            answers = choice.keys() - {"Variable", "Next", "Comment"}
            if len(answers) != 1 or not answers <= {"BooleanEquals", "StringEquals"}:
                yield f"{name}: asks for something else than a boolean or a word"
            asked.setdefault(choice.get("Variable"), set()).update(choice[answer] for answer in answers)
        *earlier, last = asked
        if asked[last] not in ({True, False}, set(WayOfReading)):
            yield f"{name}: does not ask one question with all its answers"
        for choice in state["Choices"]:
            if choice.get("Variable") in earlier and choice.get("Next") != "Summarize run":
                yield f"{name}: goes on with work without asking {last}"


def every_path_was_written_on_every_way_to_it(definition: State) -> Iterator[str]:
    """Follows what is known of the state from the start, where nothing is, to everywhere it leads."""
    known: dict[str, Any] = {definition["StartAt"]: {}}
    ahead = [definition["StartAt"]]
    while ahead:
        name = ahead.pop()
        state = definition["States"].get(name, {})
        ways = [(target, Paths().after(state, known[name])) for target in following(state)]
        ways += [(c["Next"], placed(c, {"Error": None, "Cause": None}, known[name])) for c in state.get("Catch", ())]
        for target, arriving in ways:
            common = shared(known[target], arriving) if target in known else arriving
            if target not in known or common != known[target]:
                known[target] = common
                ahead.append(target)
    for name, arriving in known.items():
        paths = Paths()
        paths.after(definition["States"].get(name, {}), arriving)
        yield from (f"{name}: {path} is not written on every way here" for path in paths.unwritten)


class Paths:
    """Reads a state's fields against what is known, and notes the paths of which nothing is.

    Known is an object by its members; None is a value of which no more is known.
    """

    def __init__(self) -> None:
        self.unwritten: list[str] = []

    def read(self, path: str, source: Any) -> Any:
        if path.startswith("$$"):
            return None
        value = source
        for part in path.split(".")[1:]:
            if not isinstance(value, dict) or part not in value:
                self.unwritten.append(path)
                return None
            value = value[part]
        return value

    def filled(self, template: Any, source: Any) -> Any:
        if not isinstance(template, dict):
            return None
        return {
            key.removesuffix(".$"): self.read(part, source) if key.endswith(".$") else self.filled(part, source)
            for key, part in template.items()
        }

    def after(self, state: State, known: Any) -> Any:
        """What is known when the state is left."""
        if state.get("Type") == "Choice":
            for choice in state["Choices"]:
                if "IsPresent" not in choice:
                    self.read(choice["Variable"], known)
            return known
        result = self.read(state.get("InputPath", "$"), known)
        if "Parameters" in state:
            result = self.filled(state["Parameters"], result)
        if state.get("Type") == "Task":
            result = {"Payload": RETURNS[function_of(state)]}
        if "ResultSelector" in state:
            result = self.filled(state["ResultSelector"], result)
        return placed(state, result, known)


def placed(state: State, result: Any, known: Any) -> Any:
    path = state.get("ResultPath", "$")
    return result if path == "$" else {**known, path.removeprefix("$."): result}


def shared(one: Any, other: Any) -> Any:
    """What two ways to a state have in common."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: shared(one[key], other[key]) for key in one.keys() & other.keys()}
    return one if one == other else None


# That the rules bite: what is put at which place of the definition, `...` taking away what is there, and, where it is
# another, the state that the rule then names.

PAGE: Final = "Dispatch page"
SPOILT: Final[dict[Rule, dict[str, tuple[Any, ...]]]] = {
    each_state_says_what_it_promises: {
        "no comment": (f"{PAGE}/Comment", ...),
        "an empty comment": (f"{PAGE}/Comment", ""),
    },
    names_tell_what_a_state_is: {
        "a question that is no choice": ("Done?", {"Type": "Succeed"}),
        "a choice that is no question": ("More", {"Type": "Choice"}),
        "a step named as an outcome": ("Page done", {"Type": "Pass"}),
        "an end named as a step": ("Report it", {"Type": "Succeed"}),
    },
    every_state_is_there_and_reached: {
        "a way to nowhere": (f"{PAGE}/Next", "Nowhere", "Nowhere"),
        "a state apart": ("Island", {"Type": "Succeed"}),
    },
    tasks_invoke_functions: {
        "no placeholder": (f"{PAGE}/Parameters/FunctionName", "arn:aws:lambda:eu-west-1:123456789012:function:page"),
        "more than a placeholder": (f"{PAGE}/Parameters/FunctionName", "${DispatchPageFunctionArn}:live"),
        "a function unheard of": (f"{PAGE}/Parameters/FunctionName", "${ReadPageFunctionArn}"),
        "another service": (f"{PAGE}/Resource", "arn:aws:states:::aws-sdk:dynamodb:query"),
    },
    only_plain_steps_are_used: {
        "JSONata in a state": (f"{PAGE}/QueryLanguage", "JSONata"),
        "JSONata everywhere": ("/QueryLanguage", "JSONata"),
        "a variable": ("Plan run/Assign", {"Run.$": "$.Payload.Run"}),
        "an intrinsic function": (f"{PAGE}/Parameters/Payload/Id.$", "States.JsonToString($.Run.RunId)"),
        "a path with a search": (f"{PAGE}/InputPath", "$..Run"),
        "a state of another type": ("Rest", {"Type": "Wait"}),
    },
    waiting_ends: {
        "a task without time-out": (f"{PAGE}/TimeoutSeconds", ...),
        "a time-out in text": (f"{PAGE}/TimeoutSeconds", "330"),
        "a time-out below the function's": (f"{PAGE}/TimeoutSeconds", 299),
        "a machine without time-out": ("/TimeoutSeconds", ...),
    },
    transient_errors_are_retried_and_no_others: {
        "no retry": (f"{PAGE}/Retry", ...),
        "no retry after a time-out": (f"{PAGE}/Retry/0", ...),
        "a kind of time-out left out": (f"{PAGE}/Retry/0/ErrorEquals", TIME_OUTS[:2]),
        "a time-out retried twice": (f"{PAGE}/Retry/0/MaxAttempts", 2),
        "throttling not retried": ("Plan run/Retry/1/ErrorEquals/5", ...),
        "all errors retried": (f"{PAGE}/Retry/1/ErrorEquals", ["States.ALL"]),
        "many retries": (f"{PAGE}/Retry/1/MaxAttempts", 50),
        "no jitter": (f"{PAGE}/Retry/1/JitterStrategy", "NONE"),
        "no cap": (f"{PAGE}/Retry/1/MaxDelaySeconds", ...),
        "no back-off": (f"{PAGE}/Retry/1/BackoffRate", 1),
        "the reported error retried": ("Report failure/Retry/1/ErrorEquals/0", "TransientError"),
        "a neighbour waited for with leases taken": (f"{PAGE}/Retry/0/ErrorEquals", ["WindowBusy"]),
        "more waited for than a neighbour": ("Take leases/Retry/0/ErrorEquals", ["WindowBusy", "LeaseLost"]),
    },
    a_neighbour_is_waited_for_as_long_as_its_lease_can_last: {
        "no wait": ("Take leases/Retry/0", ...),
        "a wait below a lease": ("Take leases/Retry/0/MaxAttempts", 60),
        "a wait of a day": ("Take leases/Retry/0/MaxAttempts", 5760),
        "pauses that grow": ("Take leases/Retry/0/BackoffRate", 1.1),
    },
    errors_have_names_that_exist: {
        "a name that no error has": (f"{PAGE}/Retry/1/ErrorEquals/0", "TransientFailure"),
        "a permanent error retried": (f"{PAGE}/Retry/1/ErrorEquals/0", "LeaseLost"),
        "a neighbour waited for elsewhere": ("Plan run/Retry/0/ErrorEquals", ["WindowBusy"]),
    },
    only_tasks_fail: {
        "a state that can only fail": ("Dispatch failed", {"Type": "Fail", "Error": "DispatchFailed"}),
    },
    every_error_is_caught_and_keeps_the_state: {
        "no catch": (f"{PAGE}/Catch", ...),
        "a catch of some errors": (f"{PAGE}/Catch/0/ErrorEquals", ["States.TaskFailed"]),
        "a catch that loses the state": (f"{PAGE}/Catch/0/ResultPath", ...),
    },
    no_error_ends_well: {
        "a report that ends well": ("Report failure/Next", "Window dispatched"),
        "a report that ends": ("Report failure/End", True),
        "an error that goes on": (f"{PAGE}/Catch/0/Next", "More pages?"),
        "a failure that is none any more": (REPORT, {"Type": "Succeed"}, PAGE),
        "a redriven execution without a run that ends well": ("Run planned?/Default", "Window dispatched", REPORT),
        "a redriven execution without leases": ("Run planned?/Choices/0/Next", PAGE, REPORT),
    },
    choices_ask_for_a_value_and_fail_on_any_other: {
        "no default": ("More pages?/Default", ...),
        "a default that goes on": ("More pages?/Default", "Summarize run"),
        "a choice on the token": ("More pages?/Choices/0", {"Variable": "$.Progress.Token", "IsNull": False}),
        "a boolean with one answer": ("More pages?/Choices/1", ...),
        "a boolean with the other answer": ("More pages?/Choices/2", ...),
        "a word with one answer": ("Which path?/Choices/2", ...),
        "an earlier answer that goes on with work": ("More pages?/Choices/0/Next", PAGE),
        "a presence": ("Window free?/Choices/0", {"Variable": "$.Leases", "IsPresent": True, "Next": "Which path?"}),
        "a value, once redriven": (
            "Run planned?/Choices/0",
            {"Variable": "$.Run.DryRun", "BooleanEquals": False, "Next": "Take leases"},
        ),
    },
    every_path_was_written_on_every_way_to_it: {
        "a parameter that nobody writes": (f"{PAGE}/Parameters/Payload/Run.$", "$.Plan"),
        "a choice on what nobody writes": ("More pages?/Choices/0/Variable", "$.Progress.More"),
        "a member dropped on the way": ("Plan run/ResultSelector/Progress.$", ..., "Take leases"),
        "a member dropped behind the leases": ("Take leases/ResultSelector/Progress.$", ..., PAGE),
        "a member dropped once redriven": ("Report failure/ResultSelector/Progress.$", ..., "Take leases"),
        "a result without its boolean": (f"{PAGE}/ResultSelector/HasMore.$", ..., "More pages?"),
        "a field that is not returned": (f"{PAGE}/ResultSelector/HasMore.$", "$.Payload.MorePages"),
        "a result in the state's place": (f"{PAGE}/ResultPath", ...),
        "a way on which nothing was planned": ("Plan run/Catch/0/Next", "Take leases", "Take leases"),
        "an output of what is not there": ("Window dispatched/InputPath", "$.Summary"),
    },
}


@pytest.mark.parametrize("rule", SPOILT, ids=lambda rule: rule.__name__)
def test_the_definition_keeps_the_rule(definition: State, rule: Rule) -> None:
    assert list(rule(definition)) == []


def spoil(definition: State, place: str, value: Any) -> None:
    *way, last = [int(part) if part.isdigit() else part for part in place.removeprefix("/").split("/")]
    at: Any = definition if place.startswith("/") else definition["States"]
    for part in way:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value


@pytest.mark.parametrize(
    ("rule", "spoilt"),
    [pytest.param(rule, spoilt, id=name) for rule, table in SPOILT.items() for name, spoilt in table.items()],
)
def test_the_rule_finds(definition: State, rule: Rule, spoilt: tuple[Any, ...]) -> None:
    place, value, *elsewhere = spoilt
    spoil(definition, place, value)

    [named] = elsewhere or [place.split("/")[0] or "machine"]
    assert any(breach.startswith(f"{named}:") for breach in rule(definition))


# The file


def without_repeats(pairs: list[tuple[str, Any]]) -> State:
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def test_the_file_is_json_before_anything_is_substituted() -> None:
    assert json.loads(TEXT, object_pairs_hook=without_repeats)["States"]


def test_every_placeholder_is_a_whole_text_and_names_a_handler_and_every_handler_is_used() -> None:
    found = {
        path.stem.title().replace("_", "")
        for path in (ROOT / "functions" / "handlers").glob("*.py")
        if "def handler(" in path.read_text(encoding="utf-8")
    }
    assert found > OUTSIDE
    handlers = found - OUTSIDE
    texts = [value for _, value in members(json.loads(TEXT)) if isinstance(value, str) and "${" in value]
    named = [PLACEHOLDER.fullmatch(text) for text in texts]
    assert sorted(name[1] for name in named if name) == sorted(handlers)
    assert all(named)
    assert handlers == SECONDS.keys() == RETURNS.keys()


def validated(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "node_modules" / ".bin" / "asl-validator"), "--json-path", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 -- our own


def test_the_public_validator_of_the_language_accepts_it() -> None:
    result = validated(DEFINITION)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_public_validator_of_the_language_refuses_a_broken_one(definition: State, tmp_path: Path) -> None:
    spoil(definition, f"{PAGE}/Next", "Nowhere")
    (tmp_path / "broken.asl.json").write_text(json.dumps(definition))

    assert validated(tmp_path / "broken.asl.json").returncode != 0
