import pytest
from toolcredit.envs.genome.reasoners import Answer, make_reasoner, reasoner_names
from toolcredit.errors import ConfigError, UnknownNameError, UsageError


class Constant:
    name, version, concurrency = "constant", "1", 1

    def __init__(self, choice=0):
        self.choice = choice

    def answer(self, question, evidence):
        return Answer(self.choice)


def test_every_built_in_name_can_be_made(chat_server):
    arguments = {"evidence": {}, "chat": {"model": "m", "base_url": chat_server.url}, "local": {"model": "tiny"}}
    assert set(reasoner_names()) == set(arguments)
    for name, given in arguments.items():
        assert make_reasoner({"name": name, **given}).name == name


def test_short_forms(chat_server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    chat = make_reasoner("chat:org/model:free")
    assert chat.version.startswith("org/model:free ")
    assert make_reasoner("local:tiny").name == "local"
    assert make_reasoner({"name": "local:tiny", "mode": "reply"}).name == "local"


def test_a_reasoner_passes_and_an_import_path_is_followed(monkeypatch, tmp_path):
    made = Constant()
    assert make_reasoner(made) is made
    (tmp_path / "my_reasoners.py").write_text(
        "class Mine:\n    name, version, concurrency = 'mine', '1', 1\n"
        "    def __init__(self, level=1): self.level = level\n    def answer(self, question, evidence): ...\n"
        "class Broken: name = 'broken'\nnumber = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_reasoner("my_reasoners:Mine").level == 1
    assert make_reasoner({"name": "my_reasoners:Mine", "level": 4}).level == 4
    with pytest.raises(UsageError, match="lacks version, concurrency, answer"):
        make_reasoner("my_reasoners:Broken")
    with pytest.raises(UsageError, match="is 3, expected a class"):
        make_reasoner("my_reasoners:number")
    with pytest.raises(UsageError, match="cannot be imported"):
        make_reasoner("my_reasoners:Nobody")
    with pytest.raises(UsageError, match="cannot be imported"):
        make_reasoner("no_such_module:Class")


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("evidense", UnknownNameError, "did you mean 'evidence'"),
        ("chat", ConfigError, "missing a required argument: 'model'; for example chat:MODEL"),
        ("chat:", ConfigError, "expected the model's name"),
        ({"model": "m"}, ConfigError, "needs a 'name'"),
        ({"name": "evidence", "budget": 3}, ConfigError, "budget"),
        ({"name": "local", "model": "tiny", "colour": "red"}, ConfigError, "colour"),
        ({"name": "chat:a", "temprature": 1}, ConfigError, "temprature"),
        (7, UsageError, "int is no reasoner: it lacks name"),
        (None, UsageError, "NoneType is no reasoner"),
        ("", UnknownNameError, "unknown reasoner ''"),
    ],
)
def test_specifications_that_cannot_be_used(spec, error, message):
    with pytest.raises(error, match=message):
        make_reasoner(spec)
