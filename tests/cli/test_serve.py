"""`toolcredit serve` as a process: the URL on its first line, what it refuses to start with, how it stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

for name in ("torch", "starlette", "uvicorn"):
    pytest.importorskip(name, reason="run: pip install 'toolcredit[train,serve]'")

from toolcredit.benchmarks.serving.server import KEY_VARIABLE, check_key, open_socket, url_of  # noqa: E402
from toolcredit.cli.main import app  # noqa: E402
from toolcredit.errors import ConfigError, UsageError  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

KEY = "a-key-of-enough-characters"


class Process:
    """The command in a process of its own."""

    def __init__(self, prepare, *arguments, **environment):
        command = [sys.executable, "-m", "toolcredit", "serve", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(
            command, text=True, env={**os.environ, **environment}, preexec_fn=prepare, **pipes
        )

    def url(self):
        """The first line: only the URL."""
        return self.process.stdout.readline().strip()

    def stop(self, number):
        """Exit code and the rest of the output after a signal."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def launch(hear_ctrl_c):
    started = []

    def make(*arguments, **environment):
        started.append(Process(hear_ctrl_c, *arguments, **environment))
        return started[-1]

    yield make
    for each in started:
        each.process.kill()
        each.process.communicate()


def ask(url, key="none", **fields):
    body = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, **fields}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_it_serves_under_the_printed_url_until_it_is_told_to_stop(launch):
    served = launch("tiny", "--port", "0", "--name", "mine", "--slots", "2", **{KEY_VARIABLE: KEY})
    url = served.url()
    assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
    status, reply = ask(url, KEY)
    assert status == 200 and reply["model"] == "mine" and reply["usage"]["completion_tokens"] == 4
    assert ask(url, "wrong")[0] == 401
    outcomes = []
    longest = {"max_tokens": 100_000, "temperature": 0}  # greedily the model never ends by itself
    threads = [threading.Thread(target=lambda: outcomes.append(ask(url, KEY, **longest))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    code, out, err = served.stop(signal.SIGTERM)
    for thread in threads:
        thread.join(10)
    assert (code, out) == (0, "") and "Traceback" not in err and KEY not in err
    assert "mine: 4096 tokens of context" in err
    assert [(status, reply["error"]["code"]) for status, reply in outcomes] == [(503, "stopping")] * 4


def test_ctrl_c_stops_it_with_130(launch):
    served = launch("tiny", "--port", "0")
    assert ask(served.url(), model="tiny")[0] == 200
    code, out, err = served.stop(signal.SIGINT)
    assert (code, out) == (130, "") and "Traceback" not in err


def refused(*arguments, **environment):
    result = CliRunner().invoke(app, ["serve", *arguments], env=environment)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_what_cannot_be_served_is_refused_in_one_line(tmp_path):
    assert "no/such-model" in refused("no/such-model", "--port", "0")
    assert "no config.json" in refused(str(tmp_path), "--port", "0")
    assert "chatml" in refused("tiny", "--port", "0", "--template", "chat-ml")
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "choose another --port" in refused("tiny", "--port", str(other.getsockname()[1]))


def test_other_machines_need_a_key_and_it_is_never_an_option():
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(ConfigError, match=f"set a key in {KEY_VARIABLE}"):
            check_key(host, None)
        with pytest.raises(ConfigError, match=KEY_VARIABLE):
            check_key(host, "")
        assert check_key(host, KEY) == KEY
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        assert check_key(host, None) is None and check_key(host, KEY) == KEY
    assert KEY_VARIABLE in refused("tiny", "--host", "0.0.0.0", "--port", "0", **{KEY_VARIABLE: ""})
    helped = CliRunner().invoke(app, ["serve", "--help"]).output
    assert "--key" not in helped and "--api-key" not in helped


@pytest.mark.parametrize(
    "key", ["short", "with a space in the middle", "schlüssel-mit-umlauten", "line\nbreak-in-the-key"]
)
def test_keys_that_no_header_carries_are_refused_without_showing_them(key):
    with pytest.raises(ConfigError) as caught:
        check_key("127.0.0.1", key)
    assert key not in str(caught.value)


def test_sockets():
    with open_socket("127.0.0.1", 0) as sock:
        assert url_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    with pytest.raises(UsageError, match=r"no\.such\.host\.invalid"):
        open_socket("no.such.host.invalid", 0)
    try:
        with open_socket("::1", 0) as sock:
            assert url_of(sock).startswith("http://[::1]:")
    except UsageError:
        pytest.skip("this machine has no IPv6")
