"""The manual page: made from the help, installed by the wheel, without a warning of its
formatter.
"""

import re
import subprocess

import pytest
import typer
from typer.testing import CliRunner

from fleet import errors
from fleet.cli.app import app
from fleet.errors import FleetError
from fleet.plan.options import BY_NAME
from tests import needs


@pytest.fixture(scope="module")
def manual_page() -> str:
    return CliRunner().invoke(app, ["man"], prog_name="fleet").output


def test_the_page_has_every_command_and_option(manual_page: str) -> None:
    for name, command in typer.main.get_command(app).commands.items():
        section = re.search(
            rf"^\.SS fleet {name} .*?(?=^\.S[SH])",
            manual_page,
            re.MULTILINE | re.DOTALL,
        )
        assert (section is None) == command.hidden, name
        parameters = [
            parameter
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        ]
        if name != "run":  # which lists the options of a plan for all that take them
            parameters = [
                parameter for parameter in parameters if parameter.name not in BY_NAME
            ]
        options = {
            option
            for parameter in parameters
            for option in parameter.opts
            if option[0] == "-"
        }
        assert section is None or all(
            option.replace("-", r"\-") in section[0] for option in options
        ), name


def test_the_page_has_every_exit_code(manual_page: str) -> None:
    status = manual_page.partition(".SH EXIT STATUS")[2].partition(".SH ENVIRONMENT")[0]
    classes = [FleetError]
    for error_class in classes:
        classes += error_class.__subclasses__()
    codes = {error_class.exit_code for error_class in classes}
    codes |= {value for name, value in vars(errors).items() if name[:5] == "EXIT_"}
    assert {int(code) for code in re.findall(r"\b(\d+):", status)} == codes | {0}


def test_groff_reads_the_page_without_a_warning(manual_page: str) -> None:
    groff = needs.program("groff", "groff-base")
    done = subprocess.run(
        [groff, "-man", "-ww", "-Kutf8", "-Tutf8"],
        input=manual_page,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "EXIT STATUS" in re.sub(r".\x08", "", done.stdout)
