import json

import pytest
from toolcredit.agents.base import Agent
from toolcredit.cli.main import app
from toolcredit.errors import CheckError, UnknownNameError, UsageError
from typer.testing import CliRunner


class Careless(Agent):
    name = "careless"

    def act(self, observation, info):
        return 99


class NeedsArguments(Agent):
    name = "needy"

    def __init__(self, model):
        self.model = model

    def act(self, observation, info):
        return 0


@pytest.fixture
def check(monkeypatch):
    """Runs `toolcredit check …`; agents of this module are found as `here:NAME`."""
    import sys
    import types

    module = types.ModuleType("here")
    module.Careless, module.NeedsArguments = Careless, NeedsArguments
    monkeypatch.setitem(sys.modules, "here", module)
    return lambda *arguments: CliRunner().invoke(app, ["check", *arguments])


def test_an_agent_with_arguments(check):
    result = check("here:NeedsArguments", "--agent-set", "model=any")
    assert result.exit_code == 0, result.output


def test_a_sound_agent(check):
    result = check("random")
    assert result.exit_code == 0, result.output
    assert result.output == "random keeps all rules on GenomeToolSubset-v0\n"


def test_another_environment(check):
    assert "keeps all rules on CartPole-v1" in check("random", "--env", "CartPole-v1").output


def test_a_broken_agent(check):
    result = check("here:Careless")
    assert isinstance(result.exception, CheckError)
    assert "returned 99, which is not in Discrete(16)" in str(result.exception)


def test_a_broken_agent_as_json(check):
    result = check("here:Careless", "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["ok"] is False
    assert "Fix: return an element of env.action_space" in report["broken"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["nobody"], UnknownNameError, "unknown agent 'nobody'"),
        (["here:Nothing"], UsageError, "cannot be imported"),
        (["here:NeedsArguments"], UsageError, "cannot be made"),
        (["random", "--env", "Nowhere-v0"], UnknownNameError, "unknown environment"),
        (["oracle", "--env", "CartPole-v1"], UsageError, "is no text bandit"),
    ],
)
def test_wrong_input_is_told(check, arguments, error, message):
    result = check(*arguments)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
