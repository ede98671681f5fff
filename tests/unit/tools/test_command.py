"""How a developer command ends."""

import pytest

from tools.command import leave


def _cut_off() -> int:
    raise KeyboardInterrupt


def test_a_command_exits_with_its_own_code() -> None:
    with pytest.raises(SystemExit) as left:
        leave(lambda: 1, interrupted="")

    assert left.value.code == 1


def test_ctrl_c_is_one_sentence_and_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        leave(_cut_off, interrupted="the rest goes on.")

    assert left.value.code == 130
    assert capsys.readouterr().err == "\nInterrupted; the rest goes on.\n"
