# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab: what its children answer, how hostile schedules end, and whom its server answers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from lab_pages import data_of
from tilewright.cli import app
from tilewright.emit.child import Limits
from tilewright.emit.gpu import tool
from tilewright.errors import SpecError, TilewrightError
from tilewright.lab import analysis, bundle, filter, kinds, located, measuring, page, samples, sandbox, shown, wanted
from tilewright.lab.compiler import Compiler
from tilewright.lab.problem import read
from tilewright.lab.texts import Texts
from tilewright.schedules import select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.spec import MatmulSpec
from tilewright.targets import registry, resolve

ROOT = Path(__file__).parents[2]
STATIC = Path(samples.__file__).parent / "static"
PAGE = "a page"
HOSTILE = """
import os, socket

def tried(what, call):
    try:
        call()
    except OSError as error:
        print(what, type(error).__name__)
    else:
        print(what, "done")

def schedule(spec, target, sizes):
    tried("fork", os.fork)
    tried("program", lambda: os.system("true") and os.execv("/bin/true", ["true"]))
    tried("socket", socket.socket)
    tried("signal", lambda: os.kill(os.getppid(), 0))
    tried("passwd", lambda: open("/etc/passwd").read())
    tried("home", lambda: os.listdir(os.path.expanduser("~root")))
"""


@pytest.fixture(scope="module")
def compiler():
    with Compiler(sandbox.find(), Limits(60, 1024), spares=0) as made:
        yield made


def asked(text: str, **product: object):
    return read({"shape": "32x48x16", "target": "x86-64-v3", "language": "py", "text": text, **product})


def example(name: str):
    (found,) = [each for each in samples.all() if each.name == name]
    return found


def lines_of(texts: dict, number: int) -> list[tuple[str, str]]:
    return [(texts["lines"][at][0], texts["sources"][texts["lines"][at][1]]) for at in texts["texts"][number]]


def test_a_schedule_is_compiled_with_lines_and_knobs(compiler):
    answer = compiler.answer("compile", asked(example("register_tile").text, knobs={"rows": 2, "gone": 1}), PAGE)
    assert "error" not in answer
    assert [(each["name"], each["selected"]) for each in answer["knobs"]] == [("rows", 2), ("columns", 24)]
    assembly = lines_of(answer["texts"], answer["stages"]["asm"])
    sources = {source for text, source in assembly if "vfmadd" in text}
    assert sources
    assert all(re.match(r"schedule\.py:\d+ in loop, loop, loop$", each) for each in sources)
    assert answer["hot"]["fma"] == 2 * 3
    assert answer["hot"]["stack"] == 0
    assert answer["flops"] == 2 * 32 * 48 * 16
    loops = answer["moves"]["loops"]
    assert [(loop["name"], loop["trips"]) for loop in loops] == [("ir", 16), ("jr", 2), ("k", 16)]
    assert [(loop["reused"], loop["fits"]) for loop in loops] == [(["B"], "L1"), (["A"], "L1"), ([], "L1")]
    assert answer["moves"]["from"]["L1"] == sum(answer["moves"]["beyond"]["registers"].values())
    assert "2×3 registers of 8 sums" in answer["drawings"][-1]


def test_blocks_are_drawn_by_the_steps_of_loops(compiler):
    drawn = compiler.answer("compile", asked(example("tiles").text, shape="192x192x192"), PAGE)["drawings"]
    assert [re.findall(r'weight="600">(.*?)<', each) for each in drawn] == [
        ["the product, 192×192×192"],
        ["a block, 64×64×64"],
    ]
    assert compiler.answer("compile", asked(example("loops").text), PAGE)["drawings"] == []


def test_a_trace_goes_up_to_the_failure(compiler):
    answer = compiler.answer("trace", asked(example("old_handle").text), PAGE)
    tilings = [step for step in answer["steps"] if step["name"] == "structured.tile_using_for"]
    assert "invalidated" in answer["failed"]
    assert len(tilings) == 1
    assert tilings[0]["source"] == "schedule.py:7"
    before, after = (lines_of(answer["texts"], tilings[0][name]) for name in ("before", "after"))
    assert not any("loc(" in text for text, _ in before + after)
    assert {source for text, source in after if "scf.for" in text} == {"schedule.py:7"}
    assert "scf.for" not in str(before)


def test_wrong_numbers_are_found(compiler):
    found = example("wrong_numbers")
    answer = compiler.answer("run", asked(found.text, shape="8x16x6", target="host"), PAGE)
    assert answer["check"]["wrong"] == 8 * 16
    assert answer["seconds"] > 0


def test_bandwidths_are_those_of_this_machine(compiler):
    answer = compiler.answer("speeds", asked("", target="host"), PAGE)
    assert answer["speeds"]["L1"] > answer["speeds"]["memory"] > 0
    answer = compiler.answer("speeds", asked("", target="sm_80", dtype="f16,f16,f32"), PAGE)
    assert "expected a processor" in answer["error"]["text"]


def untold(*_: object, **__: object) -> None:
    """Tells nobody."""


def answered(**product: object):
    """What is compiled in this process: the kind, its own schedule as a plan, and what the page gets of the compilation."""
    problem = read(product)
    kind = kinds.of(problem.spec, problem.target, problem.threads)
    plan, _ = wanted.plan({"name": "schedule.mlir", "text": kind.own("")[0], "knobs": {}}, kind, untold)
    built = kind.build(plan, untold)
    answer = shown.stages(built.texts, built.seconds, kind.target) | kind.about(built, {})
    analysis.add(answer, analysis.of(built.texts[kinds.code_stage(kind.target)], kind.target))
    return kind, plan, answer


def test_a_gpu_kernel_shows_its_cost_and_emulated_numbers():
    kind, plan, answer = answered(shape="64x64x32", dtype="f16,f16,f32", target="sm_80")
    if tool("ptxas") and tool("nvdisasm"):
        analysis.add_machine(answer, analysis.machine(answer["cubin"], kind.target))
        assert answer["cost"]["spills"] == 0
        assert answer["cost"]["registers"] > 32
        assert answer["cost"]["mix"]["HMMA"] > 0
        assert any("HMMA" in text for text, _ in lines_of(answer["texts"], answer["stages"]["sass"]))
    else:
        assert "there is no" in answer["note"]
    assert sum("slots over steps along K" in each for each in answer["drawings"]) == 1
    assert sum("swizzled" in each for each in answer["drawings"]) == 2
    ran = measuring.measured(kind, plan, untold)
    assert (ran["check"]["wrong"], ran["calls"]) == (0, 2)  # aligned rows, and others


def test_operators_are_compiled_and_checked():
    kind, plan, answer = answered(operator="attention", fields="queries=16, keys=24, head=16", target="host")
    assert "online_softmax" in str(plan.text)
    assert answer["hot"]["fma"] > 0
    ran = measuring.measured(kind, plan, untold)
    assert (ran["check"]["wrong"], ran["check"]["elements"]) == (0, 16 * 16)


def test_modules_are_checked_and_their_errors_stand_at_their_line(compiler):
    text = example("module").text
    kind = kinds.of(None, resolve("host"), 1)
    ran = measuring.measured(kind, kind.plan("", text), untold)
    assert (ran["check"]["wrong"], ran["check"]["call"]) == (0, "layer")
    answer = compiler.answer("compile", read({"operator": "module", "text": text.replace("linalg.tanh", "a.b")}), PAGE)
    assert (answer["error"]["line"], answer["error"]["kind"]) == (8, "SpecError")


def test_what_hostile_schedules_may_not_do(compiler):
    answer = compiler.answer("compile", asked(HOSTILE), PAGE)
    said = dict(line.split() for line in answer["printed"].splitlines() if len(line.split()) == 2)
    assert "returned NoneType" in answer["error"]["what"]
    if filter.is_known():
        assert [said[each] for each in ("fork", "socket", "signal")] == ["PermissionError"] * 3
        assert said["program"] == "PermissionError"
    if compiler.sandbox.program:
        assert said["passwd"] == "FileNotFoundError"
        assert said["home"] in ("FileNotFoundError", "PermissionError")


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [("x = 1\nwhile True:\n    x += 1\n", "2 s", (2, 3)), ("x = bytearray(8 << 30)\n", "1024 MiB", (1,))],
    ids=["endless", "memory"],
)
def test_schedules_without_bounds_end_at_their_line(compiler, text, reason, line):
    with Compiler(compiler.sandbox, Limits(2, 1024), spares=0) as strict:
        error = strict.answer("compile", asked(text), PAGE)["error"]
    assert reason in error["what"]
    assert "limit of this lab" in error["what"]
    assert error["line"] in line


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"shape": "3x4"},
        {"shape": "axbxc"},
        {"shape": "4x4x4", "layout": "xy"},
        {"shape": "4x4x4", "target": "z80"},
        {"shape": "4x4x4", "threads": "2"},
        {"shape": "4x4x4", "knobs": {"mr": "4"}},
        {"shape": "4x4x4", "language": "c"},
        {"shape": "4x4x4", "epilogue": "nothing"},
        {"operator": "matmul"},
        {"operator": "attention", "fields": "queries=64"},
        {"operator": "attention", "fields": "64, 64, 64"},
        {"operator": "attention", "fields": "queries=open('x'), keys=1, head=1"},
        {"operator": "conv2d", "fields": ") + f("},
        {"operator": "attention", "fields": "queries=1)(queries=128, keys=128, head=64"},
        {"operator": "attention", "fields": "queries=1, queries=128, keys=128, head=64"},
        {"shape": "4x4x4", "text": "#" * (1 << 20)},
    ],
)
def test_what_describes_no_problem_is_refused(wrong):
    with pytest.raises(TilewrightError):
        read(wrong)


def test_locations_become_lines():
    text = """module {
  scf.for %i = %a to %b step %c {
    "x.op"() : () -> () loc(callsite(#loc3 at #loc1))
  } loc(#loc4)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("schedule.py":7:0)
#loc2 = loc("step"(#loc1))
#loc3 = loc(fused["step"("schedule.py":9:0), #loc])
#loc4 = loc("seen 1 2"(#loc2))"""
    assert located.mlir(text) == [
        ("module {", ""),
        ("  scf.for %i = %a to %b step %c {", "schedule.py:7"),
        ('    "x.op"() : () -> ()', "schedule.py:9"),
        ("  }", "schedule.py:7"),
        ("}", ""),
    ]


def test_equal_texts_are_kept_once():
    texts = Texts()
    assert [texts.add(each) for each in ([("a", "")], [("b", "f:1"), ("a", "")], [("a", "")])] == [0, 1, 0]
    assert texts.as_json() == {"lines": [("a", 0), ("b", 1)], "sources": ["", "f:1"], "texts": [(0,), (1, 0)]}


def test_each_strategy_and_target_is_an_example():
    assert samples.STRATEGIES.keys() == select.STRATEGIES.keys()
    assert samples.GPU_PRODUCTS.keys() == GPU_STRATEGIES.keys()
    named = [each.product["target"] for each in samples.all() if each.group == "targets"]
    assert named == [each.name for each in (*registry.all(), *registry.GPUS)]
    for each in samples.all():
        product = read({**each.product, "text": each.text, "language": each.language})
        if each.group == "strategies":
            assert isinstance(product.spec, MatmulSpec)
            assert select.row(each.strategy).fits(product.spec), each.name


def test_the_readmes_schedule_is_an_example():
    (shown,) = re.findall(
        r"```python\n(from tilewright[^`]*?return script\.module\n)", (ROOT / "README.md").read_text()
    )
    assert example("readme").text == shown.replace("rows_first", "schedule")


def test_every_example_describes_a_problem():
    for each in samples.all():
        assert read({**each.product, "text": each.text, "language": each.language}).text == each.text


def test_the_page_loads_nothing_from_elsewhere():
    for file in STATIC.iterdir():
        found = set(re.findall(r"https?://[^\"' )]+", file.read_text(encoding="utf-8")))
        assert found <= {"http://www.w3.org/2000/svg"}, file.name


def test_the_extra_is_named_where_it_is_absent(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert app.main(["lab"]) == 2
    assert "tilewright[lab]" in capsys.readouterr().err


def called(application, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer to a GET or, with a body, a POST."""
    body = headers.pop("body", None)
    plain, _, query = path.partition("?")
    fields = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in {"host": "here:1", **headers}.items()
    ]
    scope = {"type": "http", "method": "GET" if body is None else "POST", "path": plain, "raw_path": plain.encode()}
    scope |= {
        "query_string": query.encode(),
        "headers": fields,
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
    }
    said: list[dict] = []

    async def receive():
        return {"type": "http.request", "body": (body or "").encode(), "more_body": False}

    async def send(message):
        said.append(message)

    asyncio.run(application(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    return said[0]["status"], found, b"".join(each.get("body", b"") for each in said[1:])


@pytest.fixture(scope="module")
def served(compiler):
    pytest.importorskip("starlette", reason="make setup-lab installs it")
    from tilewright.lab.server import application

    return application(compiler, "secret", ("here:1",))


def test_without_the_token_the_server_tells_nothing(served):
    for path in ("/", "/api/about", "/?token=wrong"):
        assert called(served, path)[0] == 403
    assert called(served, "/api/compile", body="{}")[0] == 403


def test_under_another_name_the_server_tells_nothing(served):
    assert called(served, "/?token=secret", host="elsewhere:1")[0] == 421


def test_the_server_has_the_page_and_its_files_alone(served):
    status, headers, page = called(served, "/?token=secret")
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'")
    names = re.findall(r'"static/([\w.]+)"', page.decode())
    assert len(names) > 3
    for name in names:
        assert called(served, f"/static/{name}")[0] == 200
    assert called(served, "/static/server.py")[0] == 404


def test_bad_requests_are_errors(served):
    assert called(served, "/api/compile", x_token="secret", body="{")[0] == 400
    assert called(served, "/api/compile", x_token="secret", body=" " * (2 << 20))[0] == 413
    _, _, answer = called(served, "/api/compile", x_token="secret", body=json.dumps({"shape": "3x4"}))
    assert json.loads(answer)["error"]["kind"] == SpecError.__name__


def test_a_page_is_saved_within_its_limit(served):
    """Its text is too long for a page: random letters cannot be packed."""
    random = np.random.default_rng(0)
    lines = [["".join(map(chr, random.integers(97, 122, 400))), 0] for _ in range(6000)]
    texts = {"lines": lines, "sources": [""], "texts": [[], list(range(6000))]}
    answer = {"texts": texts, "stages": {"": 0, "asm": 1}, "seconds": {}, "code": "asm"}
    trace = {"steps": [], "texts": texts, "failed": ""}
    holds = page.packed({"problem": {}, "answer": answer, "trace": trace, "ran": None})
    status, _, body = called(served, "/api/page", x_token="secret", body=holds)
    assert status == 200
    file = json.loads(body)["page"]
    assert len(file) <= page.LIMIT
    assert len(data_of(file)["answer"]["texts"]["texts"][1]) == 801
    assert called(served, "/api/page", x_token="secret", body="AAAA")[0] == 400
    assert called(served, "/api/page", x_token="secret", body=page.packed({}))[0] == 400


def test_the_page_knows_targets_strategies_and_examples(served):
    about = json.loads(called(served, "/api/about", x_token="secret")[2])
    assert about["targets"][0]["name"] == "host"
    assert "packed" in about["strategies"]["processors"]
    assert {"vulkan", "sm_90a"} <= {each["name"] for each in about["targets"] if each["kind"] == "gpus"}
    assert about["kinds"] == ["product", "conv2d", "attention", "module"]
    assert len(about["examples"]) == len(samples.all())


def test_the_page_is_one_script_without_modules():
    page = bundle.page()
    assert page.count(bundle.PLACE) == 1
    assert not re.search(r"^(import|export) ", page, re.MULTILINE)
    assert all(f"module_{file.stem} " in page for file in STATIC.glob("*.js"))
    assert "static/" not in page
