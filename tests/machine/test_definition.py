"""The state machines' definitions, read as data: rules that no interpreter on this machine holds them to.

Each rule yields its breaches, each beginning with the name of the state it stands in.  Tables spoil a definition in one
place at a time, and show that the rule finds it.
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
from functions.domain.lane import Step
from functions.domain.reconcile import Loop
from functions.domain.run import Others, Progress, Run
from functions.domain.run import Path as WayOfReading
from functions.domain.window import Window, parse_instant
from functions.usecases.lay_out_lanes import Layout
from functions.usecases.ports import Holder
from functions.usecases.redo_page import Count
from functions.usecases.take_leases import Start
from tests.machine.walk import (
    COMPARE_DEFINITION,
    DEFINITION,
    LANE_DEFINITION,
    LANE_MACHINE,
    PLACEHOLDER,
    RECONCILE_DEFINITION,
    REDO_DEFINITION,
)

ROOT: Final = DEFINITION.parents[1]
TEXT: Final = DEFINITION.read_text(encoding="utf-8")
LANE_TEXT: Final = LANE_DEFINITION.read_text(encoding="utf-8")
COMPARE_TEXT: Final = COMPARE_DEFINITION.read_text(encoding="utf-8")
REDO_TEXT: Final = REDO_DEFINITION.read_text(encoding="utf-8")
RECONCILE_TEXT: Final = RECONCILE_DEFINITION.read_text(encoding="utf-8")

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
START_ERRORS: Final = [
    "StepFunctions.ExecutionLimitExceeded",
    "StepFunctions.ExecutionLimitExceededException",
    "StepFunctions.ThrottlingException",
    "StepFunctions.AWSStepFunctionsException",
    "StepFunctions.SdkClientException",
]
"""A start that was refused for the time being; a lane that failed is `States.TaskFailed`."""
WAITED_FOR: Final = ("Take leases", "WindowBusy")
"""The one permanent error that is tried again, and where: a neighbour's run ends by itself."""
ASKS: Final = "Ask for approval"
"""The one task that is ended by a person's answer, not by its function."""
LONGEST_WAIT_SECONDS: Final = 3600
MOST_RETRIES: Final = 5
LONGEST_PAUSE_SECONDS: Final = 60
PLAIN_TYPES: Final = ("Task", "Pass", "Choice", "Map", "Fail", "Succeed")
IMPERATIVES: Final = {
    *("Audit", "Begin", "Dispatch", "Fold", "Lay", "Merge", "Note", "Plan", "Report", "Stage", "Summarize", "Take"),
    *("Compare", "Read", "Write"),
    *("Ask", "Check", "Count", "Record", "Redo", "Refuse", "Skip"),
}
REPORT: Final = "Report failure"
PLAIN_PATH: Final = r"\$\$?(\.\w+)*(\[0\])?"
"""Of a list it is asked for the first member, and that only whether there is one."""
OUTSIDE: Final = {"RecordEnd"}
"""Functions that the machine does not invoke: an event does."""

EARLY_ANSWERS: Final[dict[tuple[object, object], set[str]]] = {
    ("$.Progress.HasMore", False): {"Summarize run", "Lane done"},
    ("$.Progress.Stopped", True): {"Summarize run", "Lane done"},
    ("$.Progress.HandsOver", True): {"Dry run?", "Lane done"},
    ("$.Run.Path", "full"): {"Dispatch whole window"},
    ("$.Run.InLanes", False): {"Dispatch page"},
    ("$.Count.AnyLeft", False): {"Nothing left"},
}
"""Where an answer may lead that leaves a choice's last question unasked."""

SMALL: Final = (budget.SMALL_FUNCTION_SECONDS, budget.SMALL_TASK_SECONDS)
SECONDS: Final = {
    "PlanRun": SMALL,
    "TakeLeases": SMALL,
    **dict.fromkeys(
        ("DispatchPage", "LayOutLanes", "StagePage", "FoldPages", "MergeBucket"),
        (budget.PAGE_FUNCTION_SECONDS, budget.PAGE_TASK_SECONDS),
    ),
    "DispatchWindow": (budget.WINDOW_FUNCTION_SECONDS, budget.WINDOW_TASK_SECONDS),
    "SummarizeRun": SMALL,
    "ReportFailure": SMALL,
    **dict.fromkeys(("AskForApproval", "CheckApproval", "RecordRepair"), SMALL),
    **dict.fromkeys(("PlanRedo", "CountMissing", "RedoPage"), (budget.PAGE_FUNCTION_SECONDS, budget.PAGE_TASK_SECONDS)),
    "PlanReconcile": SMALL,
    **dict.fromkeys(
        ("ReadBookings", "AuditTable", "ReadObjects", "ReadPlans", "CompareRecords", "WriteReport"),
        (budget.PAGE_FUNCTION_SECONDS, budget.PAGE_TASK_SECONDS),
    ),
    "PlanCompare": SMALL,
    "ComparePaths": (budget.WINDOW_FUNCTION_SECONDS, budget.WINDOW_TASK_SECONDS),
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
PIECE: Final = {**Progress().to_state(), "HandsOver": False}
RETURNS: Final[dict[str, Any]] = {
    "PlanRun": {"Run": RUN.to_state(), "Progress": Progress().to_state()},
    "TakeLeases": Start(RUN, Progress(), Holder("run", 0), Others()).to_state(),
    **dict.fromkeys(("DispatchPage", "DispatchWindow", "StagePage", "FoldPages", "MergeBucket"), PIECE),
    "LayOutLanes": Layout(Progress(), ((Step.DISPATCH, Progress()),), 1).to_state(RUN, 1),
    "SummarizeRun": None,
    "ReportFailure": {"Run": {}, "Progress": {}},
    "PlanRedo": {"Run": RUN.to_state(), "Progress": Progress().to_state(), "Redo": {"Missing": 1}, "Count": {}},
    "CountMissing": Count(Progress()).to_state(0),
    "AskForApproval": None,
    "CheckApproval": {"By": ""},
    "RedoPage": Progress().to_state(),
    "RecordRepair": None,
    "PlanReconcile": {"Reconcile": {}, "Loop": Loop().to_state(), "Audit": Loop().to_state()},
    **dict.fromkeys(("ReadBookings", "AuditTable", "ReadObjects", "ReadPlans", "CompareRecords"), Loop().to_state()),
    "WriteReport": None,
    "PlanCompare": {"Run": RUN.to_state()},
    "ComparePaths": None,
}
"""What the functions return: an object's members are relied on, of anything else nothing is known."""


@pytest.fixture
def definition() -> State:
    return dict(json.loads(TEXT))


@pytest.fixture
def lane() -> State:
    return dict(json.loads(LANE_TEXT))


@pytest.fixture
def redo() -> State:
    return dict(json.loads(REDO_TEXT))


@pytest.fixture
def reconcile() -> State:
    return dict(json.loads(RECONCILE_TEXT))


@pytest.fixture
def compare() -> State:
    return dict(json.loads(COMPARE_TEXT))


def function_of(task: State) -> str:
    """The function whose placeholder, and nothing else, the task invokes."""
    found = PLACEHOLDER.fullmatch(str(task.get("Parameters", {}).get("FunctionName")))
    return found[1] if found else ""


def states_of(definition: State) -> dict[str, State]:
    """Every state by its name, those of a Map's items too."""
    inner = [state["ItemProcessor"] for state in definition["States"].values() if "ItemProcessor" in state]
    return {**definition["States"], **{name: state for each in inner for name, state in states_of(each).items()}}


def of_type(definition: State, *types: str) -> Iterator[tuple[str, State]]:
    return ((name, state) for name, state in states_of(definition).items() if state["Type"] in types)


def functions_of(definition: State) -> Iterator[tuple[str, State]]:
    """The tasks that are no starts of executions."""
    return ((name, task) for name, task in of_type(definition, "Task") if not starts_a_lane(task))


def starts_a_lane(task: State) -> bool:
    return str(task.get("Resource")).startswith("arn:aws:states:::states:")


def following(state: State) -> Iterator[str]:
    """Where a state that did not fail can go on to."""
    for branch in (state, *state.get("Choices", ())):
        yield from (branch[key] for key in ("Next", "Default") if key in branch)


def reachable(definition: State, start: str, last: str = "") -> set[str]:
    """Every state that is reached from `start`, itself too; nothing is followed behind `last`."""
    states, seen = states_of(definition), set[str]()
    ahead = [start]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            state = states.get(name, {}) if name != last else {}
            ahead += [*following(state), *(catcher["Next"] for catcher in state.get("Catch", ()))]
            ahead += [state["ItemProcessor"]["StartAt"]] if "ItemProcessor" in state else []
    return seen


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object within, however deep."""
    if isinstance(value, dict):
        yield from value.items()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(part)


# The rules


def each_state_says_what_it_promises(definition: State) -> Iterator[str]:
    for name, state in states_of(definition).items():
        if not state.get("Comment", "").endswith("."):
            yield f"{name}: no comment"


def names_tell_what_a_state_is(definition: State) -> Iterator[str]:
    """Steps are imperative phrases, choices are questions, ends are outcomes; the end of an item is none."""
    for name, state in states_of(definition).items():
        is_end = state["Type"] in {"Fail", "Succeed"} or (state.get("End", False) and name in definition["States"])
        if (state["Type"] == "Choice") is not name.endswith("?"):
            yield f"{name}: a choice, and only a choice, is a question"
        elif state["Type"] != "Choice" and (name.split()[0] in IMPERATIVES) is is_end:
            yield f"{name}: a step is an imperative phrase, an end is an outcome"
        if not 0 < len(name) <= 80:
            yield f"{name}: longer than Step Functions takes"


def every_state_is_there_and_reached(definition: State) -> Iterator[str]:
    reached = reachable(definition, definition["StartAt"])
    for name in reached ^ states_of(definition).keys():
        yield f"{name}: {'not there' if name in reached else 'never reached'}"


def tasks_invoke_functions(definition: State) -> Iterator[str]:
    for name, task in functions_of(definition):
        resource = f"arn:aws:states:::lambda:invoke{'.waitForTaskToken' if name == ASKS else ''}"
        if task["Resource"] != resource or function_of(task) not in SECONDS:
            yield f"{name}: invokes no function of this application by its placeholder"


def lanes_are_begun_as_they_are_laid_out(definition: State) -> Iterator[str]:
    """As many side by side as the layout says; what they return would only fill the state."""
    for name, each in of_type(definition, "Map"):
        if each["ItemProcessor"].get("ProcessorConfig") != {"Mode": "INLINE"}:
            yield f"{name}: its items are executions before they have started any"
        if each.get("MaxConcurrencyPath") != "$.Layout.Concurrency":
            yield f"{name}: works side by side on more than it may"
        if any(key.startswith("Tolerated") for key in each):
            yield f"{name}: goes on though an item failed"
        if each.get("ResultPath", "$") is not None:
            yield f"{name}: keeps what its items return"
        if "Retry" in each:
            yield f"{name}: begins all its items again"


def lanes_are_executions_that_the_run_waits_for(definition: State) -> Iterator[str]:
    for name, task in ((name, task) for name, task in of_type(definition, "Task") if starts_a_lane(task)):
        given = task["Parameters"]
        if task["Resource"] != "arn:aws:states:::states:startExecution.sync:2":
            yield f"{name}: does not wait for what it starts"
        if given.get("StateMachineArn") != LANE_MACHINE:
            yield f"{name}: starts something else than a lane"
        if "Name.$" not in given:
            yield f"{name}: what is started again is another one"
        if given["Input"].get("AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$") != "$$.Execution.Id":
            yield f"{name}: does not say who has started it"
        if task.get("ResultPath", "$") is not None:
            yield f"{name}: keeps what its lane returns"


def only_plain_steps_are_used(definition: State) -> Iterator[str]:
    """JSONPath without variables and without intrinsic functions: those turn ids into other ids."""
    for name, state in of_type(definition, *PLAIN_TYPES):
        for key, value in members(state):
            if key in {"QueryLanguage", "Assign", "Arguments", "Output", "OutputPath"}:
                yield f"{name}: {key}"
            if key == "ResultPath" and value is None:
                continue
            if (key.endswith((".$", "Path")) or key == "Variable") and not re.fullmatch(PLAIN_PATH, str(value)):
                yield f"{name}: {key} is no plain path"
    for name in states_of(definition).keys() - {name for name, _ in of_type(definition, *PLAIN_TYPES)}:
        yield f"{name}: of another type"
    if "QueryLanguage" in definition:
        yield "machine: QueryLanguage"


def waiting_ends(definition: State) -> Iterator[str]:
    """A task gives up a little after its function would have, and the machine some time."""
    for name, task in of_type(definition, "Task"):
        if starts_a_lane(task):
            if task.get("TimeoutSeconds") != json.loads(LANE_TEXT)["TimeoutSeconds"]:
                yield f"{name}: waits for something else than the end of its lane"
            continue
        function_seconds, task_seconds = SECONDS[function_of(task)]
        if name == ASKS:
            if task.get("TimeoutSeconds") != budget.APPROVAL_TASK_SECONDS:
                yield f"{name}: does not wait a day"
            continue
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
        # The report raises by the name of the error that it reports, which may be a transient one.
        ours = [] if name == REPORT else ["TransientError"]
        time_outs = TIME_OUTS[:2] if name == ASKS else TIME_OUTS  # who has not answered is not asked again
        wanted = [START_ERRORS] if starts_a_lane(task) else [time_outs, [*ours, *LAMBDA_ERRORS]]
        retry = [one for one in task.get("Retry", []) if not is_the_wait(name, one)]
        if [retrier.get("ErrorEquals") for retrier in retry] != wanted:
            yield f"{name}: retries something else"
            continue
        *once, few = retry
        if any(retrier.get("MaxAttempts", 3) > 1 for retrier in once):
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
    for name, state in states_of(definition).items():
        for kind in ("Retry", "Catch"):
            for error in (error for handler in state.get(kind, ()) for error in handler["ErrorEquals"]):
                ours = ERRORS_BY_NAME.get(error)
                if ours is None and not error.startswith(("States.", "Lambda.", "Sandbox.", "StepFunctions.")):
                    yield f"{name}: {error} is raised by nothing"
                if kind == "Retry" and ours and issubclass(ours, PermanentError) and (name, error) != WAITED_FOR:
                    yield f"{name}: {error} is permanent and retried"


def only_tasks_fail(definition: State) -> Iterator[str]:
    """A redrive goes on at the state that failed: a Fail state can only fail again."""
    for name, _ in of_type(definition, "Fail"):
        yield f"{name}: fails for ever"


def every_error_is_caught_and_keeps_the_state(definition: State) -> Iterator[str]:
    """Where all items of a Map are done: an item's error is the Map's."""
    working = [(name, state) for name, state in definition["States"].items() if state["Type"] in {"Task", "Map"}]
    caught_by = {catcher["Next"] for _, state in working for catcher in state.get("Catch", ())}
    for name, task in working:
        catchers = task.get("Catch", [])
        if not catchers and name not in caught_by:
            yield f"{name}: its errors are not caught"
        if catchers and catchers[-1]["ErrorEquals"] != ["States.ALL"]:
            yield f"{name}: its last catcher does not catch all"
        if any(catcher.get("ResultPath") != "$.Error" for catcher in catchers):
            yield f"{name}: the error takes the state's place"


def what_fails_ends_the_execution_by_its_name(definition: State) -> Iterator[str]:
    """As its piece did, and as a choice without an answer does: a lane holds nothing that is to be given back, and a
    reconcile neither.
    """
    for name, state in states_of(definition).items():
        if "Catch" in state:
            yield f"{name}: keeps an error to itself"
        if "Default" in state:
            yield f"{name}: goes on though the value is none of those it asks for"


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


def a_redo_begins_anew_once_redriven(definition: State) -> Iterator[str]:
    """With the report: whatever was approved may have been dispatched since."""
    if definition["States"][REPORT].get("Next") != "Plan redo" or "End" in definition["States"][REPORT]:
        yield f"{REPORT}: once redriven it does not begin anew"


def nothing_is_held_while_a_person_is_waited_for(definition: State) -> Iterator[str]:
    if ASKS in reachable(definition, "Take leases", last=REPORT):
        yield "Take leases: held while a person is waited for"


def no_late_answer_counts(definition: State) -> Iterator[str]:
    """Where the wait has ended the redo is refused by its name, and nowhere else."""
    first = definition["States"][ASKS].get("Catch", [{}])[0]
    if (first.get("ErrorEquals"), first.get("Next")) != (["States.Timeout"], "Refuse late approval"):
        yield f"{ASKS}: a wait that has ended is not refused"
    refusal = definition["States"]["Refuse late approval"]
    if refusal["Parameters"]["Payload"].get("Answer", ...) is not None or refusal["Next"] != REPORT:
        yield "Refuse late approval: goes on"


def what_is_no_answer_is_an_error(definition: State) -> Iterator[str]:
    """But where a redriven execution begins anew: there it is asked what there is to begin with."""
    redriven = definition["States"].get(REPORT, {}).get("Next")
    for name, state in of_type(definition, "Choice"):
        if name == redriven:
            if [(one.get("Variable"), one.get("IsPresent")) for one in state["Choices"]] != [("$.Run.RunId", True)]:
                yield f"{name}: asks for something else than whether a run was planned"
        elif state.get("Default") != REPORT:
            yield f"{name}: goes on though the value is none of those it asks for"


def choices_ask_for_a_value(definition: State) -> Iterator[str]:
    """A choice asks one question with all its answers; one before it leads to where it need not be asked.

    Of a list, which is never missing, it may ask whether there is anything in it.
    """
    redriven = definition["States"].get(REPORT, {}).get("Next")
    for name, state in of_type(definition, "Choice"):
        if name == redriven:
            continue
        asked: dict[str, set[object]] = {}
        for choice in state["Choices"]:
            answers = choice.keys() - {"Variable", "Next", "Comment"}
            of_a_list = {"IsPresent"} if str(choice.get("Variable")).endswith("[0]") else set()
            if len(answers) != 1 or not answers <= {"BooleanEquals", "StringEquals", *of_a_list}:
                yield f"{name}: asks for something else than a boolean or a word"
            asked.setdefault(choice.get("Variable"), set()).update(choice[answer] for answer in answers)
        *earlier, last = asked
        if asked[last] not in ({True, False}, set(Step)):
            yield f"{name}: does not ask one question with all its answers"
        for choice in state["Choices"]:
            answer = choice.get("BooleanEquals", choice.get("StringEquals"))
            leads_to = EARLY_ANSWERS.get((choice.get("Variable"), answer), set())
            if choice.get("Variable") in earlier and choice.get("Next") not in leads_to:
                yield f"{name}: goes on with work without asking {last}"


def every_path_was_written_on_every_way_to_it(definition: State) -> Iterator[str]:
    """A lane begins with what its run gives to it, any other execution with an input of which nothing is known."""
    start = given_to_a_lane() if definition["StartAt"] == "Begin lane" else {}
    for name, arriving in known_at(definition, start).items():
        paths = Paths()
        paths.after(states_of(definition).get(name, {}), arriving)
        yield from (f"{name}: {path} is not written on every way here" for path in paths.unwritten)


def given_to_a_lane() -> Any:
    """What is known of the input of a lane's execution."""
    definition = json.loads(TEXT)
    [(name, task)] = [(name, task) for name, task in of_type(definition, "Task") if starts_a_lane(task)]
    return Paths().filled(task["Parameters"]["Input"], known_at(definition, {})[name])


def known_at(definition: State, start: Any) -> dict[str, Any]:
    """What is known of the state wherever it leads to from the start."""
    states = states_of(definition)
    known: dict[str, Any] = {definition["StartAt"]: start}
    ahead = [definition["StartAt"]]
    while ahead:
        name = ahead.pop()
        state = states.get(name, {})
        ways = [(target, Paths().after(state, known[name])) for target in following(state)]
        ways += [(c["Next"], placed(c, {"Error": None, "Cause": None}, known[name])) for c in state.get("Catch", ())]
        if "ItemProcessor" in state:
            ways.append((state["ItemProcessor"]["StartAt"], Paths().item(state, known[name])))
        for target, arriving in ways:
            common = shared(known[target], arriving) if target in known else arriving
            if target not in known or common != known[target]:
                known[target] = common
                ahead.append(target)
    return known


class Paths:
    """Reads a state's fields against what is known, and notes the paths of which nothing is.

    Known is an object by its members; None is a value of which no more is known.
    """

    def __init__(self) -> None:
        self.unwritten: list[str] = []
        self._context: Any = None

    def read(self, path: str, source: Any) -> Any:
        if path.startswith("$$") and not path.startswith("$$.Map."):
            return None
        value = self._context if path.startswith("$$") else source
        for part in path.removesuffix("[0]").split(".")[1:]:
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

    def item(self, state: State, known: Any) -> Any:
        """What is known when an item of a Map begins."""
        items = self.read(state["ItemsPath"], known)
        self._context = {"Map": {"Item": {"Value": items[0] if items else None}}}
        return self.filled(state["ItemSelector"], known)

    def after(self, state: State, known: Any) -> Any:
        """What is known when the state is left."""
        if state.get("Type") == "Choice":
            for choice in state["Choices"]:
                if "IsPresent" not in choice or choice["Variable"].endswith("[0]"):
                    self.read(choice["Variable"], known)
            return known
        if state.get("Type") == "Map":
            self.item(state, known)
            self.read(state["MaxConcurrencyPath"], known)
        result = self.read(state.get("InputPath", "$"), known)
        if "Parameters" in state:
            result = self.filled(state["Parameters"], result)
        if state.get("Type") == "Task":
            result = {"Payload": RETURNS.get(function_of(state))}
        if "ResultSelector" in state:
            result = self.filled(state["ResultSelector"], result)
        return placed(state, result, known)


def placed(state: State, result: Any, known: Any) -> Any:
    path = state.get("ResultPath", "$")
    return known if path is None else put(known, path.split(".")[1:], result)


def put(known: Any, way: list[str], result: Any) -> Any:
    """What is known with the result at its place."""
    if not way:
        return result
    inner = known if isinstance(known, dict) else {}
    return {**inner, way[0]: put(inner.get(way[0]), way[1:], result)}


def shared(one: Any, other: Any) -> Any:
    """What two ways to a state have in common."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: shared(one[key], other[key]) for key in one.keys() & other.keys()}
    return one if one == other else None


# That the rules bite: what is put at which place of the definition, `...` taking away what is there, and, where it is
# another, the state that the rule then names.

PAGE: Final = "Dispatch page"
LANES: Final = "Dispatch lanes"
LANE: Final = "Dispatch lane"
IN_LANES: Final = f"{LANES}/ItemProcessor/States/{LANE}"
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
        "a lane named as an outcome": (f"{LANES}/ItemProcessor/States/Lane done", {"Type": "Pass"}, "Lane done"),
    },
    every_state_is_there_and_reached: {
        "a way to nowhere": (f"{PAGE}/Next", "Nowhere", "Nowhere"),
        "a state apart": ("Island", {"Type": "Succeed"}),
        "an item's way to nowhere": (f"{IN_LANES}/Next", "Nowhere", "Nowhere"),
    },
    tasks_invoke_functions: {
        "no placeholder": (f"{PAGE}/Parameters/FunctionName", "arn:aws:lambda:eu-west-1:123456789012:function:page"),
        "more than a placeholder": (f"{PAGE}/Parameters/FunctionName", "${DispatchPageFunctionArn}:live"),
        "a function unheard of": (f"{PAGE}/Parameters/FunctionName", "${ReadPageFunctionArn}"),
        "another service": (f"{PAGE}/Resource", "arn:aws:states:::aws-sdk:dynamodb:query"),
    },
    lanes_are_begun_as_they_are_laid_out: {
        "items that are executions": (f"{LANES}/ItemProcessor/ProcessorConfig/Mode", "DISTRIBUTED"),
        "as many side by side as there are": (f"{LANES}/MaxConcurrencyPath", ...),
        "a failure that is let pass": (f"{LANES}/ToleratedFailureCount", 1),
        "results that are kept": (f"{LANES}/ResultPath", "$.Results"),
        "results in the state's place": (f"{LANES}/ResultPath", ...),
        "all lanes once more": (f"{LANES}/Retry", [{"ErrorEquals": ["States.ALL"]}]),
    },
    lanes_are_executions_that_the_run_waits_for: {
        "a start that is not waited for": (f"{IN_LANES}/Resource", "arn:aws:states:::states:startExecution", LANE),
        "another machine": (f"{IN_LANES}/Parameters/StateMachineArn", "${DispatchStateMachineArn}", LANE),
        "a lane without a name": (f"{IN_LANES}/Parameters/Name.$", ..., LANE),
        "a lane of nobody": (f"{IN_LANES}/Parameters/Input/AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$", ..., LANE),
        "a lane's result that is kept": (f"{IN_LANES}/ResultPath", ..., LANE),
    },
    only_plain_steps_are_used: {
        "JSONata in a state": (f"{PAGE}/QueryLanguage", "JSONata"),
        "JSONata everywhere": ("/QueryLanguage", "JSONata"),
        "a variable": ("Plan run/Assign", {"Run.$": "$.Payload.Run"}),
        "an intrinsic function": (f"{PAGE}/Parameters/Payload/Id.$", "States.JsonToString($.Run.RunId)"),
        "a path with a search": (f"{PAGE}/InputPath", "$..Run"),
        "a state of another type": ("Rest", {"Type": "Wait"}),
        "an intrinsic function in a lane": (f"{IN_LANES}/Parameters/Name.$", "States.UUID()", LANE),
    },
    waiting_ends: {
        "a task without time-out": (f"{PAGE}/TimeoutSeconds", ...),
        "a time-out in text": (f"{PAGE}/TimeoutSeconds", "330"),
        "a time-out below the function's": (f"{PAGE}/TimeoutSeconds", 299),
        "a machine without time-out": ("/TimeoutSeconds", ...),
        "a lane that is not waited for to its end": (f"{IN_LANES}/TimeoutSeconds", 330, LANE),
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
        "a lane done again that failed": (f"{IN_LANES}/Retry/0/ErrorEquals/0", "States.TaskFailed", LANE),
        "a throttled start that is final": (f"{IN_LANES}/Retry", ..., LANE),
        "starts without jitter": (f"{IN_LANES}/Retry/0/JitterStrategy", ..., LANE),
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
        "a lane's failure that is not caught": (f"{LANES}/Catch", ...),
    },
    no_error_ends_well: {
        "a report that ends well": ("Report failure/Next", "Window dispatched"),
        "a report that ends": ("Report failure/End", True),
        "an error that goes on": (f"{PAGE}/Catch/0/Next", "More pages?"),
        "a failure that is none any more": (REPORT, {"Type": "Succeed"}, PAGE),
        "a redriven execution without a run that ends well": ("Run planned?/Default", "Window dispatched", REPORT),
        "a redriven execution without leases": ("Run planned?/Choices/0/Next", PAGE, REPORT),
    },
    what_is_no_answer_is_an_error: {
        "no default": ("More pages?/Default", ...),
        "a default that goes on": ("More pages?/Default", "Summarize run"),
        "a value, once redriven": (
            "Run planned?/Choices/0",
            {"Variable": "$.Run.DryRun", "BooleanEquals": False, "Next": "Take leases"},
        ),
    },
    choices_ask_for_a_value: {
        "a choice on the token": ("More pages?/Choices/0", {"Variable": "$.Progress.Token", "IsNull": False}),
        "a boolean with one answer": ("More pages?/Choices/2", ...),
        "a boolean with the other answer": ("More pages?/Choices/3", ...),
        "a path with one answer": ("Which path?/Choices/4", ...),
        "a list with one answer": ("Lanes left?/Choices/1", ...),
        "an earlier answer that goes on with work": ("More pages?/Choices/0/Next", PAGE),
        "a page after the last of an execution": ("More pages?/Choices/1/Next", PAGE),
        "a hand-over of a stopped run": ("More pages?/Choices/0/Next", "Lay out lanes"),
        "a presence": ("Window free?/Choices/0", {"Variable": "$.Leases", "IsPresent": True, "Next": "Which path?"}),
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
        "lanes that nobody lays out": (f"{LANES}/ItemsPath", "$.Lanes"),
        "a concurrency that nobody knows": ("Lay out lanes/ResultSelector/Concurrency.$", ..., LANES),
        "a field that no lane has": (f"{LANES}/ItemSelector/Step.$", "$$.Map.Item.Value.Kind"),
        "a field that is not handed on": (f"{LANES}/ItemSelector/Name.$", ..., LANE),
        "a round that nobody begins": ("Take leases/ResultSelector/Layout", ..., "Lay out lanes"),
        "a list that nobody lays out": ("Lay out lanes/ResultSelector/Lanes.$", ..., "Lanes left?"),
        "a progress that is not noted": ("Note progress/InputPath", "$.Layout.Totals"),
    },
}
COMMON: Final = (
    each_state_says_what_it_promises,
    names_tell_what_a_state_is,
    every_state_is_there_and_reached,
    tasks_invoke_functions,
    only_plain_steps_are_used,
    waiting_ends,
    transient_errors_are_retried_and_no_others,
    errors_have_names_that_exist,
    only_tasks_fail,
    choices_ask_for_a_value,
    every_path_was_written_on_every_way_to_it,
)
"""The rules that hold for the lane machine too."""
STEP: Final = "Which step?"
LANE_SPOILT: Final[dict[Rule, dict[str, tuple[Any, ...]]]] = {
    what_fails_ends_the_execution_by_its_name: {
        "an error that is caught": (f"{PAGE}/Catch", [{"ErrorEquals": ["States.ALL"], "Next": "Lane done"}]),
        "a default": (f"{STEP}/Default", "Lane done"),
    },
    transient_errors_are_retried_and_no_others: {
        "a piece that is not tried again": ("Merge bucket/Retry", ...),
        "a transient error that is final": ("Stage page/Retry/1/ErrorEquals/0", ...),
    },
    waiting_ends: {
        "a lane without time-out": ("/TimeoutSeconds", ...),
        "a fold without time-out": ("Fold pages/TimeoutSeconds", ...),
    },
    choices_ask_for_a_value: {
        "a step that is not done": (f"{STEP}/Choices/6", ...),
        "a step of another name": (f"{STEP}/Choices/6/StringEquals", "bucket"),
        "a lane that is done and goes on": (f"{STEP}/Choices/0/Next", PAGE),
        "a lane that is stopped and goes on": (f"{STEP}/Choices/1/Next", PAGE),
        "a lane that hands over and goes on": (f"{STEP}/Choices/2/Next", PAGE),
    },
    every_path_was_written_on_every_way_to_it: {
        "a lane that reads what it is not given": (f"{PAGE}/Parameters/Payload/Others.$", "$.Leases.Others"),
        "a piece that does not say whether it hands over": ("Merge bucket/ResultSelector/HandsOver.$", ..., STEP),
        "a lane that begins where another ended": ("Begin lane/ResultPath", "$.Begun", STEP),
    },
}


RECONCILE_SPOILT: Final[dict[Rule, dict[str, tuple[Any, ...]]]] = {
    what_fails_ends_the_execution_by_its_name: {
        "an error that is caught": ("Read plans/Catch", [{"ErrorEquals": ["States.ALL"], "Next": "Write report"}]),
        "a default": ("More plans?/Default", "Compare records"),
    },
    transient_errors_are_retried_and_no_others: {
        "a piece that is not tried again": ("Compare records/Retry", ...),
        "a report that is not tried again": ("Write report/Retry/1/ErrorEquals/0", ...),
    },
    waiting_ends: {
        "a reconcile without time-out": ("/TimeoutSeconds", ...),
        "a plan that is read without time-out": ("Read plans/TimeoutSeconds", ...),
    },
    choices_ask_for_a_value: {
        "bookings that never end": ("More bookings?/Choices/1", ...),
        "an audit that never ends": ("More to audit?/Choices/1", ...),
        "a choice on the cursor": ("More plans?/Choices/0", {"Variable": "$.Plans.Cursor", "IsNull": False}),
    },
    every_path_was_written_on_every_way_to_it: {
        "a loop that nobody begins": ("Plan reconcile/ResultSelector/Plans.$", ..., "Read plans"),
        "an audit that nobody begins": ("Plan reconcile/ResultSelector/Audit.$", ..., "More to audit?"),
        "a loop that does not say whether it goes on": ("Read objects/ResultSelector/HasMore.$", ..., "More objects?"),
        "an output that nobody writes": ("Write report/ResultPath", "$.Report", "Window reconciled"),
        "a reconcile that is lost on the way": ("Read bookings/ResultPath", "$", "More bookings?"),
    },
}


COMPARE_SPOILT: Final[dict[Rule, dict[str, tuple[Any, ...]]]] = {
    what_fails_ends_the_execution_by_its_name: {
        "an error that is caught": (
            "Compare paths/Catch",
            [{"ErrorEquals": ["States.ALL"], "Next": "Window compared"}],
        ),
    },
    transient_errors_are_retried_and_no_others: {
        "a reading that is not tried again": ("Compare paths/Retry", ...),
    },
    waiting_ends: {
        "a comparison without time-out": ("/TimeoutSeconds", ...),
        "a reading without time-out": ("Compare paths/TimeoutSeconds", ...),
    },
    every_path_was_written_on_every_way_to_it: {
        "a run that nobody plans": ("Plan compare/ResultSelector/Run.$", ..., "Compare paths"),
        "an output that nobody writes": ("Compare paths/ResultPath", "$.Report", "Window compared"),
    },
}

REDO_SPOILT: Final[dict[Rule, dict[str, tuple[Any, ...]]]] = {
    every_error_is_caught_and_keeps_the_state: {
        "a page whose errors are not caught": ("Redo page/Catch", ...),
    },
    what_is_no_answer_is_an_error: {
        "a redo that nobody approved": ("Approval needed?/Default", "Take leases"),
    },
    a_neighbour_is_waited_for_as_long_as_its_lease_can_last: {
        "no wait": ("Take leases/Retry/0", ...),
    },
    a_redo_begins_anew_once_redriven: {
        "a report that ends well": (f"{REPORT}/Next", "Window redone"),
        "a redrive that asks nobody": (f"{REPORT}/Next", "Take leases"),
    },
    nothing_is_held_while_a_person_is_waited_for: {
        "leases for a day": ("Window free?/Choices/0/Next", ASKS, "Take leases"),
    },
    no_late_answer_counts: {
        "a day that is an answer": (f"{ASKS}/Catch/0/Next", "Take leases"),
        "a day that is a failure like others": (f"{ASKS}/Catch/0", ...),
        "a refusal that goes on": ("Refuse late approval/Next", "Take leases"),
    },
    waiting_ends: {
        "a person that is waited for without end": (f"{ASKS}/TimeoutSeconds", ...),
    },
    transient_errors_are_retried_and_no_others: {
        "a person that is asked for two days": (f"{ASKS}/Retry/0/ErrorEquals", TIME_OUTS),
    },
    tasks_invoke_functions: {
        "an answer that is not waited for": (f"{ASKS}/Resource", "arn:aws:states:::lambda:invoke"),
    },
    every_path_was_written_on_every_way_to_it: {
        "an approval that nobody gave": ("Plan redo/ResultSelector/Approval", ..., "Record repair"),
        "a run that is lost": ("Take leases/ResultPath", ..., "Redo page"),
        "pages that nobody has counted": ("Take leases/ResultSelector/Progress.$", ..., "Skip done pages"),
    },
}


@pytest.mark.parametrize("rule", SPOILT, ids=lambda rule: rule.__name__)
def test_the_definition_keeps_the_rule(definition: State, rule: Rule) -> None:
    assert list(rule(definition)) == []


@pytest.mark.parametrize("rule", dict.fromkeys((*COMMON, *LANE_SPOILT)), ids=lambda rule: rule.__name__)
def test_the_lane_s_definition_keeps_the_rule(lane: State, rule: Rule) -> None:
    assert list(rule(lane)) == []


@pytest.mark.parametrize("rule", dict.fromkeys((*COMMON, *RECONCILE_SPOILT)), ids=lambda rule: rule.__name__)
def test_the_reconcile_s_definition_keeps_the_rule(reconcile: State, rule: Rule) -> None:
    assert list(rule(reconcile)) == []


@pytest.mark.parametrize("rule", dict.fromkeys((*COMMON, *COMPARE_SPOILT)), ids=lambda rule: rule.__name__)
def test_the_compare_s_definition_keeps_the_rule(compare: State, rule: Rule) -> None:
    assert list(rule(compare)) == []


@pytest.mark.parametrize("rule", dict.fromkeys((*COMMON, *REDO_SPOILT)), ids=lambda rule: rule.__name__)
def test_the_redo_s_definition_keeps_the_rule(redo: State, rule: Rule) -> None:
    assert list(rule(redo)) == []


def test_the_plans_are_read_when_all_they_are_compared_with_has_been(reconcile: State) -> None:
    """Else what is dispatched meanwhile would seem to be missing, and its object an orphan."""
    assert [name for name in reconcile["States"] if name.startswith("Read ")] == [
        "Read bookings",
        "Read objects",
        "Read plans",
    ]
    for earlier in ("Read bookings", "Read objects"):
        assert "Read plans" in reachable(reconcile, earlier)
        assert earlier not in reachable(reconcile, "Read plans")


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
    assert finds(rule, definition, *spoilt)


@pytest.mark.parametrize(
    ("rule", "spoilt"),
    [pytest.param(rule, spoilt, id=name) for rule, table in LANE_SPOILT.items() for name, spoilt in table.items()],
)
def test_the_rule_finds_it_in_a_lane(lane: State, rule: Rule, spoilt: tuple[Any, ...]) -> None:
    assert finds(rule, lane, *spoilt)


@pytest.mark.parametrize(
    ("rule", "spoilt"),
    [pytest.param(rule, spoilt, id=name) for rule, table in RECONCILE_SPOILT.items() for name, spoilt in table.items()],
)
def test_the_rule_finds_it_in_a_reconcile(reconcile: State, rule: Rule, spoilt: tuple[Any, ...]) -> None:
    assert finds(rule, reconcile, *spoilt)


@pytest.mark.parametrize(
    ("rule", "spoilt"),
    [pytest.param(rule, spoilt, id=name) for rule, table in COMPARE_SPOILT.items() for name, spoilt in table.items()],
)
def test_the_rule_finds_it_in_a_compare(compare: State, rule: Rule, spoilt: tuple[Any, ...]) -> None:
    assert finds(rule, compare, *spoilt)


@pytest.mark.parametrize(
    ("rule", "spoilt"),
    [pytest.param(rule, spoilt, id=name) for rule, table in REDO_SPOILT.items() for name, spoilt in table.items()],
)
def test_the_rule_finds_it_in_a_redo(redo: State, rule: Rule, spoilt: tuple[Any, ...]) -> None:
    assert finds(rule, redo, *spoilt)


def finds(rule: Rule, definition: State, place: str, value: Any, *elsewhere: str) -> bool:
    """Whether the rule names the state where the definition is spoilt, or the one where that shows."""
    spoil(definition, place, value)
    [named] = elsewhere or [place.split("/", maxsplit=1)[0] or "machine"]
    return any(breach.startswith(f"{named}:") for breach in rule(definition))


# The files

whichever_file = pytest.mark.parametrize(
    "path",
    [DEFINITION, LANE_DEFINITION, RECONCILE_DEFINITION, COMPARE_DEFINITION, REDO_DEFINITION],
    ids=lambda path: path.name,
)


def without_repeats(pairs: list[tuple[str, Any]]) -> State:
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


@whichever_file
def test_a_file_is_json_before_anything_is_substituted(path: Path) -> None:
    assert json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=without_repeats)["States"]


def test_every_placeholder_is_a_whole_text_and_names_a_handler_and_every_handler_is_used() -> None:
    found = {
        path.stem.title().replace("_", "")
        for path in (ROOT / "functions" / "handlers").glob("*.py")
        if "def handler(" in path.read_text(encoding="utf-8")
    }
    assert found > OUTSIDE
    handlers = found - OUTSIDE
    every = (TEXT, LANE_TEXT, RECONCILE_TEXT, COMPARE_TEXT, REDO_TEXT)
    ours = [member for text in every for member in members(json.loads(text))]
    texts = [value for _, value in ours if isinstance(value, str) and "${" in value and value != LANE_MACHINE]
    named = [PLACEHOLDER.fullmatch(text) for text in texts]
    assert all(named)
    assert sorted(name[1] for name in named if name) == sorted(
        [
            *handlers,
            "DispatchPage",  # a run's, and a lane's
            *("TakeLeases", "SummarizeRun", "ReportFailure"),  # a run's, and a redo's
            "CheckApproval",  # of an answer, and of none
            "RecordRepair",  # of a redo that begins, and of one that ends
        ]
    )
    assert handlers == SECONDS.keys() == RETURNS.keys()


def test_a_page_is_done_in_a_lane_as_it_is_by_the_run(definition: State, lane: State) -> None:
    different = {"Next", "Catch", "Parameters"}
    ours, theirs = definition["States"][PAGE], lane["States"][PAGE]
    assert {key: ours[key] for key in ours.keys() - different} == {
        key: theirs[key] for key in theirs.keys() - different
    }


def validated(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "node_modules" / ".bin" / "asl-validator"), "--json-path", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 -- our own


@whichever_file
def test_the_public_validator_of_the_language_accepts_it(path: Path) -> None:
    result = validated(path)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_public_validator_of_the_language_refuses_a_broken_one(definition: State, tmp_path: Path) -> None:
    spoil(definition, f"{PAGE}/Next", "Nowhere")
    (tmp_path / "broken.asl.json").write_text(json.dumps(definition))

    assert validated(tmp_path / "broken.asl.json").returncode != 0
