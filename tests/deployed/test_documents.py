"""What the README, the documents and `make run` tell their readers to type.

Each `dispatchctl` command is run, in a world made for it; one that no world is made for fails.  The commands of others
(make, AWS, the CDK, Python) are held against what there is by their names.
"""

import importlib.util
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from botocore import xform_name
from typer.testing import CliRunner

import tools.dispatchctl.__main__  # noqa: F401 -- its import adds all commands
from infra.stage import Stage
from tests.deployed.application import Application, Day, forbid_uploads_of
from tests.deployed.conftest import Make
from tests.deployed.test_dispatchctl_runs import held_back
from tests.deployed.wire import wait_until
from tools.command_line import NAME
from tools.demo import next_commands
from tools.dispatchctl.shell import ExitCode, app
from tools.emulator.access import session
from tools.runs.redos import answer
from tools.samples import generated_hour
from tools.workspace import ROOT, Workspace

Words: TypeAlias = Mapping[str, str]
"""What stands in a command for something of the reader's own, and what it is here."""
World: TypeAlias = Callable[[Day], AbstractContextManager[Words]]
"""Makes what a command is run for, for the length of a block."""

DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS: Final = ("make", "aws", "npx", "python", ".venv/bin/python")
OF_THE_DEPLOYMENT: Final = ("--stage", "--profile")
"""Options that say which application is meant; here it is always the same."""
EXAMPLES: Final = {r"20\d\d-\d\d-\d\dT\d\d": "HOUR", r"B\d{5}": "RECORD"}
"""Hours and records that the documents name, and what they are examples of."""


def shown() -> set[str]:
    """Every command that is shown, in a line of text or in a block."""
    found = {*next_commands(generated_hour())}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ")
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        for command in (*blocks.splitlines(), *re.findall(r"`([^`]+)`", prose)):
            words = shlex.split(command, comments=True) if command.startswith((NAME, *OTHERS)) else []
            if len(words) > 1:
                found.add(shlex.join(words))
    return found


def typed(command: str) -> str:
    """A command of `dispatchctl` as it is run here: without its deployment, an example as what it stands for."""
    words = iter(shlex.split(command)[1:])
    kept = []
    for word in words:
        if word in OF_THE_DEPLOYMENT:
            next(words)
        else:
            kept.append(next((name for form, name in EXAMPLES.items() if re.fullmatch(form, word)), word))
    return shlex.join(kept)


SHOWN: Final = sorted(shown())
COMMANDS: Final = sorted({typed(command) for command in SHOWN if command.startswith(f"{NAME} ")})


def shown_of(program: str) -> list[list[str]]:
    """The words of the commands that are shown of another program."""
    return [words for command in SHOWN if (words := shlex.split(command))[0] == program]


def words_of(day: Day) -> Words:
    """What every world has: the hour at eight, a record that it did not dispatch, and the table's names."""
    outputs = day.application.outputs
    return {
        "HOUR": f"{day.date}T08",
        "RECORD": f"LATE@{day.date}",
        "RUN": f"{day.date}T08",
        "NAME": "Bob",
        "TEXT": "It arrived late.",
        "Bookings": outputs["BookingTableName"],
    }


@contextmanager
def dispatched(day: Day) -> Iterator[Words]:
    """An hour whose run has come to its end, and a booking that arrived behind it."""
    day.miss_one()
    yield words_of(day)


@contextmanager
def sound(day: Day) -> Iterator[Words]:
    """Nothing that waits for anybody, whatever other tests have left."""
    day.application.purge_dead_letters()
    with dispatched(day) as words:
        yield words


@contextmanager
def failed(day: Day) -> Iterator[Words]:
    """An hour whose run has failed at its second page, by a cause that is mended."""
    day.book_members(4)
    with day.application.wire.reacting(forbid_uploads_of("4")):
        assert day.run(8, PaginationEnabled=True, PageSize=3).status == "FAILED"
    yield words_of(day)


@contextmanager
def working(day: Day) -> Iterator[Words]:
    """A run that is at work, and the kill switch off again behind it."""
    day.book_members(3)
    try:
        with held_back(day.application, f"{day.date}T08"):
            day.start(8)
            assert wait_until(lambda: f"edge#{day.window(8)}" in day.application.ledger_partitions())
            yield words_of(day)
    finally:
        day.application.set_parameter("StopParameter", "false")


@contextmanager
def asked(day: Day) -> Iterator[Words]:
    """A redo that waits for a second person."""
    with dispatched(day) as words:
        report = day.reconcile(8).output["Report"]
        execution = day.application.start({"Report": report, "RequestedBy": "Ann", "Reason": words["TEXT"]}, "Redo")
        assert wait_until(lambda: execution in day.application.waiting_redos())
        yield {**words, "EXECUTION": execution.rpartition(":")[2]}
        assert day.application.end(execution).status == "SUCCEEDED"


@contextmanager
def approving(day: Day) -> Iterator[Words]:
    """A report that names what is missing, and a second person who approves what is asked for."""
    application = day.application

    def approve() -> None:
        assert wait_until(application.waiting_redos)
        dynamodb, stepfunctions = map(application.client, ("dynamodb", "stepfunctions"))
        for execution in application.waiting_redos():
            answer(
                dynamodb, stepfunctions, application.outputs["LedgerTableName"], execution, approved=True, by="Carol"
            )

    with dispatched(day) as words:
        day.reconcile(8)
        second_person = threading.Thread(target=approve)
        second_person.start()
        yield words
        second_person.join()


@dataclass(frozen=True, slots=True)
class Meant:
    """What a command is run for, and what it exits with then."""

    world: World = dispatched
    code: ExitCode = ExitCode.DONE


MEANT: Final = {
    "--install-completion": Meant(lambda _: nullcontext({})),
    "approve": Meant(asked),
    "compare": Meant(),
    "cost": Meant(),
    "doctor": Meant(sound),
    "reconcile": Meant(code=ExitCode.FINDINGS),
    "redo": Meant(approving),
    "report": Meant(),
    "resume": Meant(failed),
    "run": Meant(),
    "seed": Meant(),
    "show": Meant(),
    "status": Meant(),
    "stop": Meant(working),
    "why": Meant(),
}
"""Each command that a document may show."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shown_does_what_it_is_shown_for(
    command: str, application: Application, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a report is written
    monkeypatch.setattr("tools.application.session", cache(session))  # half of a command's time, if made each time
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    environment = {
        "DISPATCHER_STATE_DIR": str(workspace.directory),
        "HOME": str(tmp_path),
        **dict.fromkeys(("AWS_PROFILE", "AWS_REGION", "DISPATCHER_STAGE")),
    }
    words = shlex.split(command)
    meant = next((MEANT[word] for word in words if word in MEANT), None)
    assert meant, "no world is made for this command"

    with meant.world(application.past_day()) as here:
        line = [here.get(word, word) for word in words]
        assert not [word for word in line if re.fullmatch(r"[A-Z]{3,}|\.\.\.", word)], "nothing stands here for this"
        done = CliRunner().invoke(app, line, env=environment, input="y\n")
        assert done.exit_code == meant.code, (done.output, done.exception)


def test_every_make_target_shown_is_one_that_make_help_lists(make: Make) -> None:
    listed = set(re.findall(r"^make ([a-z-]+)", make("help"), re.MULTILINE))

    named = {words[1] for words in shown_of("make")}
    assert {"run", "test", "deploy", "destroy", "up", "stop"} <= named <= listed


def test_every_aws_command_shown_is_an_operation_with_these_options_and_outputs(application: Application) -> None:
    commands = shown_of("aws")

    assert commands
    for _, service, name, *rest in commands:
        model = application.client(service).meta.service_model
        [operation] = [each for each in model.operation_names if xform_name(each, "-") == name]
        shape = model.operation_model(operation).input_shape
        options = {word.removeprefix("--") for word in rest if word.startswith("--")}
        assert options <= {xform_name(member, "-") for member in shape.members} | {"query"}, (name, options)
        assert {word[1:] for word in rest if word.startswith("$")} <= application.outputs.keys(), name


def test_every_input_shown_to_aws_is_one_that_the_machine_takes(application: Application) -> None:
    inputs = [
        (machine, json.loads(text))
        for words in shown_of("aws")
        for flag, machine, _, text in zip(words[3:], words[4:], words[5:], words[6:], strict=False)
        if flag == "--state-machine-arn"
    ]

    assert [machine for machine, _ in inputs] == ["$DispatchStateMachineArn", "$ReconcileStateMachineArn"]
    for machine, given in inputs:
        name = machine.removeprefix("$").removesuffix("StateMachineArn")
        assert application.run(given, name).status == "SUCCEEDED"


def test_the_settings_of_an_existing_table_are_those_of_the_stage() -> None:
    commands = {words[2]: words for words in shown_of("npx") if words[1] == "cdk"}
    context = dict(setting.split("=", 1) for flag, setting in pairwise(commands["deploy"]) if flag == "-c")

    stage = Stage.from_context(context.get)

    assert commands.keys() == {"bootstrap", "deploy"}
    assert stage.name == "Production"
    assert stage.existing_bookings is not None
    assert stage.existing_bookings.key_attributes == ("RecordId",)


def test_every_python_command_shown_is_a_module_or_a_file() -> None:
    commands = [*shown_of("python"), *shown_of(".venv/bin/python")]

    assert commands
    for _, *arguments in commands:
        named = [word for word in arguments if word not in {"-I", "-S"}]
        if named and named[0] == "-m":
            assert importlib.util.find_spec(named[1]), named[1]
        else:  # isolated Python alone, or a file
            assert all((ROOT / file).is_file() for file in named[:1]), named
