"""Tools of a row: what is locked, rendered and launched, and the token that each is behind."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from wsgiref.util import setup_testing_defaults

import pytest
import tool_facts
from command import call
from own_parts import read
from rows import CELL, LOCK, SOURCES, cell, stack
from tools_row import VERSIONS, server, tools_cell, tools_stack

from stackwright.core.checks import observed, probes
from stackwright.core.checks.tables import tools as checks
from stackwright.core.components.table import served
from stackwright.core.errors import MatrixError, UsageError
from stackwright.core.launch import launchers, tools
from stackwright.core.launch.recipe import Batch, Line, Manifest, script
from stackwright.core.model.added.image import Variable
from stackwright.core.model.labels import licenses
from stackwright.core.model.row import Tier
from stackwright.core.render import configuration, definition, dockerfile
from stackwright.core.render.labelled import stack_of
from stackwright.core.render.own_files import digests
from stackwright.core.resolve.requirements import request, requirements, with_additions
from stackwright.core.resolve.resolve import check

SERVE = server()
TOKEN = "abcdefghijklmnopqrst"
NAMES = tuple(VERSIONS)

# ------------------------------------------------------------------------------------------ the row


def test_tools_are_asked_for_together_with_the_frameworks() -> None:
    asked = with_additions(tools_cell())
    assert asked == (*requirements(CELL), "tensorboard==2.21.0", "jupyterlab==4.6.6")
    assert requirements(tools_cell()) == requirements(CELL)
    assert request(tools_cell()) != request(CELL)


def test_an_old_tensorboard_asks_for_setuptools_that_it_can_import() -> None:
    assert "setuptools<82" in requirements(cell(tensorboard="2.20.0"))
    assert "setuptools" in requirements(cell(tensorboard="2.21.0"))


def test_a_tool_that_came_with_a_framework_is_none_of_the_row() -> None:
    """TensorFlow requires TensorBoard, and nobody asked for it to be served."""
    assert stack().tools == () and stack(lock=tools_stack().lock).tools == ()


def test_ports_are_the_tools_own_unless_the_row_names_them(tmp_path: Path) -> None:
    own = read(tmp_path, {**VERSIONS})
    named = read(tmp_path, {**VERSIONS, "ports": ["jupyterlab=9000", "8080", "6006"]})
    assert served(own) == {"tensorboard": 6006, "jupyterlab": 8888}
    assert served(named) == {"tensorboard": 6006, "jupyterlab": 9000}
    assert check(own) is None and check(named) is None
    assert tools_stack(ports=named.ports).exposed == ("8080/tcp", "6006/tcp", "9000/tcp")


@pytest.mark.parametrize(
    "port",
    ["jupyterlab=", "jupyterlab=08", "jupyterlab=9000/udp", "Jupyterlab=9000", "=9000", "a=b", "a=1 b"],
)
def test_a_port_of_a_tool_has_one_notation(port: str, tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="ports"):
        read(tmp_path, {**VERSIONS, "ports": [port]})


@pytest.mark.parametrize(
    ("ports", "says"),
    [
        (("jupyterlab=6006",), "both are served on port 6006"),
        (("jupyterlab=80",), "from port 1024 on"),
        (("jupyterlab=9000", "jupyterlab=9001"), "one port, and the row names two"),
        (("grafana=9000",), "grafana is none of its"),
    ],
)
def test_ports_that_no_tool_can_have_are_refused(ports: tuple[str, ...], says: str) -> None:
    rejection = check(tools_cell(ports=ports))
    assert rejection and rejection.rule == "tool-ports" and says in rejection.reason
    assert rejection.settings, "a row without that port, or without that tool, works"


def test_a_token_is_never_a_variable_of_the_image() -> None:
    rejection = check(tools_cell(env=(Variable(name=SERVE.TOKEN, value=TOKEN),)))
    assert rejection and rejection.rule == "env-names"


# --------------------------------------------------------------------------------------- the image


def test_the_image_has_the_server_and_names_its_ports() -> None:
    row = tools_stack(ports=("jupyterlab=9000",))
    files = dict(dockerfile.render(row, SOURCES).files)
    text = files["Dockerfile"].decode()
    assert "EXPOSE 6006/tcp\nEXPOSE 9000/tcp\n" in text
    assert "/image/serve_tool.py /usr/local/bin/serve-tool" in text
    assert digests(row, files)["/usr/local/bin/serve-tool"]
    tools_said = json.loads(files["row.json"])["tools"]
    assert tools_said == {
        "tensorboard": {"version": "2.21.0", "port": "6006"},
        "jupyterlab": {"version": "4.6.6", "port": "9000"},
    }
    assert set(configuration.settings(row)["ExposedPorts"]) == {"6006/tcp", "9000/tcp"}
    written = definition.render_definition(row, SOURCES).text(f"{row.id}.def")
    assert "image/serve_tool.py /usr/local/bin/serve-tool" in written
    assert "tool=" not in written, "a build of a definition file is root, who is refused"


def test_a_row_without_tools_has_nothing_of_them() -> None:
    files = dict(dockerfile.render(stack(), SOURCES).files)
    assert not any("serve_tool" in name for name in files) and "tools" not in json.loads(files["row.json"])
    assert b"serve-tool" not in files["Dockerfile"] and b"EXPOSE" not in files["Dockerfile"]


def test_a_label_says_which_tools_there_are() -> None:
    row = tools_stack(ports=("jupyterlab=9000",))
    labels = dict(dockerfile.labels(row))
    found = stack_of(labels, row.lock)
    assert found.tools == row.tools and found.exposed == row.exposed
    assert "BSD-3-Clause" in licenses(row)


def test_the_record_compares_what_was_found() -> None:
    row = tools_stack()
    facts = {
        "image": {"Config": {"ExposedPorts": {"8888/tcp": {}}}},
        "system": {"python_packages": {"tensorboard": "2.21.0", "jupyterlab": "4.6.5"}},
    }
    found = dict(observed.found(row, facts))
    assert found["tools.tensorboard.version"] == "2.21.0" and found["tools.jupyterlab.version"] == "4.6.5"
    assert found["tools.jupyterlab.port"] == "8888" and "tools.tensorboard.port" not in found


def test_tools_are_started_by_a_stranger_alone() -> None:
    row = tools_stack()
    wanted = ("tool=tensorboard", "tool=jupyterlab")
    assert set(wanted) <= set(probes.sealed_words(row, {})) and set(wanted) <= set(probes.tool_words(row, {}))
    assert not set(wanted) & set(probes.words(row, 0, {}))
    assert probes.tool_words(row, {Tier.LINK: "no"}) == probes.tool_words(stack(), {}) == ()


# --------------------------------------------------------------------------------------- the checks


def judged(found: Mapping[str, Any]) -> dict[str, str]:
    """Problems by check, of a row with one tool."""
    row = replace(tools_stack(), tools=(tool_facts.TOOL,))
    facts = {"sealed": {"tool": {"jupyterlab": found}}}
    answers = {rule.id: rule.judge(row, facts).problems for rule in checks.RULES}
    return {name: "; ".join(problems) for name, problems in answers.items() if problems}


def test_a_tool_that_serves_is_green() -> None:
    assert judged(tool_facts.served()) == {}


@pytest.mark.parametrize(
    ("change", "red", "says"),
    [
        ({"page": {"status": 200, "title": "Other"}}, "tool.serves", "the page 'Other'"),
        ({"page": {"status": 403, "title": None}}, "tool.serves", "answers 403"),
        ({"works": "a kernel said nothing"}, "tool.serves", "behind its page: a kernel said nothing"),
        ({"closed": {"/lab": [{"status": 200, "leads": ""}] * 2}}, "tool.closed", "200 to /lab with no"),
        ({"closed": {"/lab": [{"status": 302, "leads": "/lab"}] * 2}}, "tool.closed", "302 to /lab"),
        ({"closed": {"/": [{"status": 403, "leads": ""}, {"status": 200, "leads": ""}]}}, "tool.closed",
         "200 to / with another token"),
        ({"empty": {"code": None, "said": "it was served"}}, "tool.needs-token", "it was served"),
        ({"empty": {"code": 0, "said": "it ended"}}, "tool.needs-token", "it ended"),
        ({"shown": ["python"]}, "tool.token-hidden", "in the arguments of python"),
        ({"printed": True}, "tool.token-hidden", "prints the token"),
        ({"listens": ["0.0.0.0:7000"]}, "tool.listens", "listens on 0.0.0.0:7000"),
        ({"listens": ["127.0.0.1:6006", "127.0.0.1:7000"]}, "tool.listens", "127.0.0.1:6006"),
        ({"listens": []}, "tool.listens", "listens on nothing"),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong_is_one_check(change: dict[str, Any], red: str, says: str) -> None:
    found = judged({**tool_facts.served(), **change})
    assert set(found) == {red} and says in found[red]


def test_one_that_does_not_start_says_why() -> None:
    row = replace(tools_stack(), tools=(tool_facts.TOOL,))
    facts = {"sealed": {"tool": {"jupyterlab": {"error": "no module named jupyterlab"}}}}
    (serves,) = (rule for rule in checks.RULES if rule.id == "tool.serves")
    assert "does not start: no module" in serves.judge(row, facts).problems[0]


# --------------------------------------------------------------------------------------- the token

Answer = tuple[str, dict[str, str], bytes]


@pytest.fixture
def ask() -> Callable[..., Answer]:
    """Asks a page of one server behind the token."""

    def page(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        start_response("200 OK", [])
        return [b"the page"]

    application = SERVE.behind(page, TOKEN, 6006)

    def asked(path: str, query: str = "", cookie: str = "", method: str = "GET") -> Answer:
        environ: dict[str, Any] = {
            "PATH_INFO": path, "QUERY_STRING": query, "HTTP_COOKIE": cookie, "REQUEST_METHOD": method,
        }  # fmt: skip
        setup_testing_defaults(environ)
        environ["SCRIPT_NAME"] = ""
        found: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            found.update(status=status, headers=dict(headers))

        body = b"".join(application(environ, start_response))
        return found["status"], found["headers"], body

    return asked


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
@pytest.mark.parametrize(
    ("query", "cookie"),
    [
        ("", ""), ("token=", ""), ("token=wrong", ""), (f"token={TOKEN}x", ""), (f"token={TOKEN[:-1]}", ""),
        ("token=\u00e9", ""), (f"TOKEN={TOKEN}", ""), ("", "session-6006="), ("", f"session-6006={TOKEN}"),
        ("", "session-6006"), (f"token=wrong&token={TOKEN}", ""), ("", 'session-6006="\\400"; ;=,'),
    ],
)  # fmt: skip
def test_nobody_without_the_token_sees_anything(
    ask: Callable[..., Answer], query: str, cookie: str, method: str
) -> None:
    status, headers, body = ask("/data/environment", query, cookie, method)
    assert status.startswith("401") and body == b"" and "Set-Cookie" not in headers


def test_the_token_is_said_once_and_then_a_cookie_stands_for_it(ask: Callable[..., Answer]) -> None:
    status, headers, body = ask("/", f"token={TOKEN}&run=a%20b")
    assert (status, headers["Location"], body) == ("302 Found", "/?run=a+b", b"")
    cookie = headers["Set-Cookie"]
    assert TOKEN not in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert ask("/data", "", cookie.split(";")[0]) == ("200 OK", {}, b"the page")
    assert ask("/data", "", f"other=1; {cookie.split(';')[0]}")[2] == b"the page"


@pytest.mark.parametrize(
    "path", ["//elsewhere.example", "/\\elsewhere.example", "///x", "/a\r\nSet-Cookie: b"]
)
def test_the_address_with_the_token_leads_nowhere_else(ask: Callable[..., Answer], path: str) -> None:
    _, headers, _ = ask(path, f"token={TOKEN}")
    assert headers["Location"] == "/" + quote(path.lstrip("/"))


def private(folder: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return {SERVE.TOKEN_FILE: str(path)}


def test_a_token_is_given_or_made(tmp_path: Path) -> None:
    environ = {SERVE.TOKEN: TOKEN}
    assert SERVE.take_token(environ) == (TOKEN, False) and environ == {}
    assert SERVE.take_token(private(tmp_path, f"{TOKEN}\n")) == (TOKEN, False)
    first, second = SERVE.take_token({}), SERVE.take_token({})
    assert first[1] and len(first[0]) > 40 and first != second


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "short", "x" * 201, "with a blank in its middle", "quote'quote'quote'quote"]
)
def test_an_empty_or_a_short_token_is_refused(text: str, tmp_path: Path) -> None:
    for environ in ({SERVE.TOKEN: text}, private(tmp_path, text)):
        with pytest.raises(SERVE.Refused):
            SERVE.take_token(environ)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    for mode in (0o640, 0o604, 0o622):
        with pytest.raises(SERVE.Refused, match="chmod 600"):
            SERVE.take_token(private(tmp_path, TOKEN, mode))
    with pytest.raises(SERVE.Refused, match="both"):
        SERVE.take_token({SERVE.TOKEN: TOKEN, **private(tmp_path, TOKEN)})
    with pytest.raises(SERVE.Refused, match="No such file"):
        SERVE.take_token({SERVE.TOKEN_FILE: str(tmp_path / "none")})


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["grafana"],
        ["tensorboard", "--port", "80"],
        ["tensorboard", "--token", TOKEN],
        ["tensorboard", "a", "b"],
    ],
)
def test_what_is_no_tool_or_no_option_is_refused(argv: list[str], tmp_path: Path) -> None:
    row = tmp_path / "row.json"
    row.write_text(json.dumps({"tools": {"tensorboard": {"version": "2.21.0", "port": "6006"}}}))
    with pytest.raises(SystemExit, match="2"):
        SERVE.main(argv, {}, row)


# ------------------------------------------------------------------------------------------- launch


def launched(launcher: str, name: str = "jupyterlab", **given: Any) -> Any:
    row = tools_stack(ports=("jupyterlab=9000",))
    target = launchers.Target.of(row, "registry.example/stackwright/row:0123456789ab")
    asked = tools.served(row, name, given.get("port"), given.get("command", ()))
    return tools.LAUNCHERS[launcher](target, asked)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("launcher", tools.LAUNCHERS)
def test_each_launcher_explains_its_line_and_no_line_has_a_token(launcher: str, name: str) -> None:
    made = launched(launcher, name)
    text = script(made)
    assert "serve-tool" in text and all(why for _, why in made.settings)
    assert not any(word in text for word in ("--token", "STACKWRIGHT_TOKEN=", "TOKEN=$"))
    if launcher != "docker":
        assert "0.0.0.0" not in text
    assert ("gpu" in made.text or "--nv" in made.text) == (name == "jupyterlab")


def test_docker_maps_the_port_to_the_hosts_loopback_alone() -> None:
    made = launched("docker")
    assert isinstance(made, Line)
    at = made.argv.index("-p")
    assert made.argv[at + 1] == "127.0.0.1:9000:9000"
    assert made.argv[-6:] == ("jupyterlab", "--port", "9000", "--address", "0.0.0.0", ".")


def test_slurm_reads_the_token_from_a_private_file_and_names_the_tunnel() -> None:
    made = launched("slurm", command=("runs/to day",), port=9100)
    assert isinstance(made, Batch)
    assert "--env=STACKWRIGHT_TOKEN_FILE=$HOME/.stackwright-token" in made.argv
    assert shlex.split(made.text.splitlines()[-1])[-3:] == ["--port", "9100", "runs/to day"]
    assert any("umask 077" in line for line in made.before)
    assert any("ssh -N -J YOU@LOGIN -L 9100:127.0.0.1:9100 YOU@NODE" in line for line in made.before)


def test_kubernetes_keeps_the_token_in_a_secret_and_forwards_the_port() -> None:
    made = launched("kubernetes", "tensorboard")
    assert isinstance(made, Manifest)
    (container,) = made.document["spec"]["containers"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] == "token"
    assert container["args"] == ["serve-tool", "tensorboard", "--port", "6006", "logs"]
    assert made.document["spec"]["securityContext"]["runAsNonRoot"] is True
    assert any("kubectl port-forward" in line and "6006:6006" in line for line in made.before)


def test_what_the_row_does_not_have_is_not_launched() -> None:
    with pytest.raises(UsageError, match="no tool"):
        tools.served(stack(), "jupyterlab", None, ())
    for command in (("a", "b"), ("--token",)):
        with pytest.raises(UsageError, match="one folder"):
            tools.served(tools_stack(), "jupyterlab", None, command)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--tool", "jupyterlab", "--docker"), "has no tool"),
        (("--tool", "jupyterlab", "--mpirun"), "starts ranks"),
        (("--tool", "jupyterlab", "--slurm", "--nodes", "2"), "--nodes means nothing"),
        (("--tool", "grafana", "--docker"), "grafana"),
        (("--tool", "jupyterlab"), "one is needed"),
        (("--apptainer",), "about --tool"),
        (("--docker", "--port", "9000"), "--port means nothing"),
    ],
)
def test_the_command_says_what_does_not_go_together(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = call(capsys, "launch", "cuda12-torch", *options)
    assert code and not out and says in said


def test_the_lock_of_the_shipped_row_is_as_it_was() -> None:
    assert request(CELL) == LOCK.request
