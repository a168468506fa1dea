import json

import gymnasium as gym
import pytest
from toolcredit.agents.chat_baselines import DoNothingAgent, GoldAgent
from toolcredit.cli.main import app
from toolcredit.cli.sgls import mock_spec
from toolcredit.envs.sgls.loaders import load_tasks
from toolcredit.errors import ToolcreditError
from typer.testing import CliRunner

ENV = "SGLSToolCallingReplay-v0"


def run(*arguments, input=None):
    """Exit code as the command line would give it, and what was printed."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=input)
    if isinstance(result.exception, ToolcreditError):
        return type(result.exception).__name__, str(result.exception)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory):
    """Twelve gold episodes and four of doing nothing."""
    path = tmp_path_factory.mktemp("transcripts") / "episodes.jsonl"
    env = gym.make(ENV, split="dev")
    lines = []
    for agent, count in ((GoldAgent(), 12), (DoNothingAgent(), 4)):
        agent.bind(env)
        for seed in range(count):
            observation, info = env.reset(seed=seed)
            while "transcript" not in info:
                observation, *_, info = env.step(agent.act(observation, info))
            lines.append(info["transcript"])
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


# --- score


def test_scores_of_saved_transcripts(transcripts, tmp_path):
    out = tmp_path / "scores.jsonl"
    code, output = run("sgls", "score", transcripts, "--json", "--out", out)
    result = json.loads(output)
    assert code == 0 and result["n"] == 16 and result["failed"] == 0 and result["failures"] == []
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["rewards"]["total"] for row in rows[:12]] == [2.0] * 12
    right = sum(row["rewards"]["success_process"] for row in rows)
    assert result["overall"]["success_process"]["rate"] == right / 16
    assert result["overall"]["process"] == {"mean": pytest.approx(right / 16), "n": 16}
    assert sum(part["n"] for part in result["categories"].values()) == 16
    assert result["reward"]["mode"] == "default" and result["reward"]["judge"]["judge"] == "embedded"


def test_other_settings_give_other_scores(transcripts):
    plain = json.loads(run("sgls", "score", transcripts, "--json")[1])
    paper = json.loads(run("sgls", "score", transcripts, "--json", "--mode", "paper", "--weights", "uniform")[1])
    noisy = json.loads(run("sgls", "score", transcripts, "--json", "--set", "noise=1", "--set", "seed=3")[1])
    assert paper["reward"]["mode"] == "paper" and paper["reward"]["weights"]["format"] == 0.2
    assert noisy["overall"]["process"] == plain["overall"]["process"]
    assert noisy["overall"]["summary"]["mean"] < plain["overall"]["summary"]["mean"]


def test_rows_that_are_no_transcripts_and_failed_episodes_count_as_0(transcripts, tmp_path):
    first = json.loads(transcripts.read_text().splitlines()[0])
    failed = {**first, "ending": {"terminated": False, "truncated": True, "reason": "error", "error": {"type": "x"}}}
    lines = [
        json.dumps(first),
        json.dumps({"transcript": json.dumps(first)}),
        json.dumps(failed),
        '{"a": 1}',
        "{broken",
    ]
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    result = json.loads(run("sgls", "score", path, "--json")[1])
    assert (result["n"], result["failed"]) == (5, 3)
    assert result["overall"]["success_process"]["rate"] == pytest.approx(2 / 5)
    assert result["overall"]["process"] == {"mean": 1.0, "n": 2}
    assert [failure["place"].rpartition(" ")[2] for failure in result["failures"]] == ["3", "4", "5"]
    code, output = run("sgls", "score", path)
    assert code == 0 and "failed:" in output and "success_combined" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "noise=2"), "probability"),
        (("--set", "noize=1"), "noize"),
        (("--weights", "equal"), "unknown weights"),
        (("--mode", "loose"), "mode='loose'"),
    ],
)
def test_wrong_settings_are_refused(transcripts, arguments, message):
    assert message in run("sgls", "score", transcripts, *arguments)[1]


def test_nothing_to_score_and_nothing_overwritten(transcripts, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "no transcript" in run("sgls", "score", empty)[1]
    assert "exists already" in run("sgls", "score", transcripts, "--out", empty)[1]
    assert "no file" in run("sgls", "score", tmp_path / "none.jsonl")[1]


# --- tasks


def test_the_embedded_tasks_are_counted():
    result = json.loads(run("sgls", "tasks", "--json")[1])
    assert (
        result["tasks"] >= 3_000 and len(result["category"]) == 7 and set(result["tier"]) == {"easy", "medium", "hard"}
    )
    assert result["skipped"] == result["notes"] == []


def test_tasks_are_filtered_shown_and_exported(tmp_path):
    out = tmp_path / "tasks.jsonl"
    code, output = run("sgls", "tasks", "--split", "test", "--category", "serial", "--limit", 5, "--out", out)
    assert code == 0 and "5 tasks" in output
    tasks = load_tasks(out).tasks
    assert {(task.split, task.category) for task in tasks} == {("test", "serial")}
    shown = json.loads(run("sgls", "tasks", "--show", tasks[0].id)[1])
    assert shown == tasks[0].to_json()
    assert gym.make(ENV, tasks=str(out), split="test").reset(seed=0)[1]["task_id"] in {task.id for task in tasks}
    assert "exists already" in run("sgls", "tasks", "--out", out)[1]


def test_rows_of_a_file_that_cannot_be_used_are_listed(tmp_path):
    tool = {"name": "tide", "parameters": {"type": "object", "properties": {}}}
    rows = [
        {"question": "?", "tools": [tool], "gold": [["tide"]]},
        {"question": "?", "tools": [tool], "gold": [["swim"]]},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    code, output = run("sgls", "tasks", path)
    assert code == 0 and "1 tasks" in output and "row 2" in output and "swim" in output
    result = json.loads(run("sgls", "tasks", path, "--split", "test", "--json")[1])
    assert result["split"] == {"test": 1} and result["skipped"][0]["row"] == 2
    assert "no task fits" in run("sgls", "tasks", path, "--tier", "easy")[1]


@pytest.mark.parametrize(
    "option", [("--tier", "esay"), ("--split", "eval"), ("--category", "serail"), ("--show", "nope")]
)
def test_unknown_names_are_refused(option):
    assert "unknown" in run("sgls", "tasks", *option)[1]


# --- fidelity


def test_fidelity_to_own_transcripts(transcripts):
    code, output = run("sgls", "fidelity", transcripts, "--mock", "embedded", "--json")
    overall = json.loads(output)["overall"]
    assert code == 0 and overall["failed"] == 0 and overall["key_overlap"] == overall["value_similarity"] == 1.0
    code, output = run("sgls", "fidelity", transcripts, "--mock", "embedded", "--limit", 3)
    assert code == 0 and "perfect copy" in output


def test_fidelity_of_a_model_to_recorded_conversations(tmp_path, chat_server, fake_chat):
    chat_server.script(fake_chat.reply('<tool_response>{"metres": 2}</tool_response>'))
    messages = [
        {"role": "user", "content": "Tide?"},
        {"role": "tool_call", "content": "{'name': 'tide', 'arguments': '{}'}"},
        {"role": "tool_response", "content": '{"metres": 1}'},
    ]
    rows = [{"messages": messages, "tools": [{"name": "tide"}]}, {"messages": "nothing", "tools": []}]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    code, output = run(
        "sgls", "fidelity", path, "--mock", "chat:m", "--mock-set", f"base_url={chat_server.url}", "--json"
    )
    result = json.loads(output)
    assert code == 0 and result["overall"]["value_similarity"] == 0.5 and len(result["skipped"]) == 1


def test_fidelity_without_a_call_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"messages": [], "tools": []}\n', "utf-8")
    assert "no recorded call" in run("sgls", "fidelity", path, "--mock", "embedded")[1]


def test_mocks_on_the_command_line():
    assert mock_spec("chat:a/b:c", ["temperature=0.5"]) == {"name": "chat", "model": "a/b:c", "temperature": 0.5}
    assert mock_spec("replay:c.jsonl", None) == {"name": "replay", "cassette": "c.jsonl"}
    assert mock_spec("package.module:Mock", ["n=1"]) == {"name": "package.module:Mock", "n": 1}


# --- play


def test_a_person_plays_an_episode(tmp_path):
    inner = gym.make(ENV, split="dev").unwrapped
    task = next(i for i in inner.task_ids if inner._tasks[i].category == "single")
    gold = inner.gold(task)
    ((call,),) = gold["plans"][0]
    right = f"{call['name']} {json.dumps(call['arguments'])}"
    typed = f":tools\n{call['name']} {{oops\nnonsense\n:undo\n{right}\n\n{gold['reply']}\n\n"
    saved = tmp_path / "played.jsonl"
    code, output = run("play", ENV, "--env-set", "split=dev", "--task", task, "--save", saved, input=typed)
    assert code == 0 and "process: 1\n" in output and "summary: 1\n" in output and "not JSON" in output
    assert json.loads(run("sgls", "score", saved, "--json")[1])["overall"]["total"]["mean"] == 2.0


def test_a_person_plays_a_bandit():
    code, output = run("play", "GenomeToolSubset-v0", "--env-set", "split=dev", input="9\nx\n0, 1\n")
    assert code == 0 and "Please give numbers" in output and "<answer>0,1</answer>" in output and "parsimony" in output


def test_play_ends_with_the_input():
    assert "input ended" in run("play", ENV, input="hello\n")[1]
    assert run("play", ENV, input=":quit\n")[0] == 130
    assert "unknown environment" in run("play", "Nowhere-v0")[1]
