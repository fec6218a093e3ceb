# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page in Chromium: what a person does there, and what they see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from readable import FAINT
from tilewright.cli import main
from tilewright.emit import ptxas
from tilewright.lab import sandbox

pytest.importorskip("starlette", reason="make setup-lab installs it")
WAIT = 60_000
"""Milliseconds that the machine may take for an answer."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-I", "-m", "tilewright", "lab", "--seconds", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page with its first example compiled and traced; that it says nothing on the console is checked at the end."""
    said: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        made = context.new_page()
        made.on("console", lambda message: said.append(message.text))
        made.on("pageerror", lambda error: said.append(str(error)))
        made.set_default_timeout(WAIT)
        made.goto(address)
        made.wait_for_selector("#ir .row")
        made.wait_for_selector("#view .row")
        yield made
        assert said == []


def test_the_first_example_is_compiled_traced_and_run(page):
    assert "assembly in" in page.text_content("#status")
    page.wait_for_selector("#tiles >> text=numbers are right")
    assert page.locator("#view .row.hot").count() > 10
    assert page.locator("#timeline .track-steps button").count() > 10


def test_an_edit_is_compiled_and_its_error_stands_at_its_line(page):
    page.fill("#editor textarea", "def schedule(spec, target, sizes):\n    return 1 / 0\n")
    page.wait_for_selector("#error >> text=ZeroDivisionError")
    assert page.locator("#editor .line.wrong .at").text_content() == "2"


def test_strings_of_several_lines_are_strings(page):
    page.fill("#editor textarea", '"""One\nfor two\n""" + f(3)\nfor each in four: pass\n')
    lines = page.locator("#editor .line .text")
    assert [each.inner_html() for each in lines.all()[:2]] == [
        f'<span class="string">{text}</span>' for text in ('"""One', "for two")
    ]
    assert lines.nth(2).locator(".string").inner_text() == '"""'
    assert lines.nth(3).locator(".op").all_inner_texts() == ["for", "in", "pass"]


def test_a_line_of_the_schedule_lights_up_what_it_made(page):
    line = page.locator("#editor .line", has_text="steps.vectorize").locator(".at")
    number = line.text_content()
    box = line.bounding_box()
    page.mouse.move(box["x"] + 80, box["y"] + box["height"] / 2)
    page.wait_for_selector(f'#view .row.lit[data-line="{number}"]')


def test_steps_are_gone_through_by_keys(page):
    before = page.text_content("#step-name")
    page.keyboard.press("Alt+ArrowLeft")
    assert page.text_content("#step-name") != before


def test_knobs_change_the_code(page):
    before = page.locator("#tiles").inner_text()
    page.locator("#knob-rows").fill("3")
    page.wait_for_selector('#knob-rows-value >> text="8"')
    page.wait_for_function("text => document.querySelector('#tiles').innerText !== text", arg=before)


def test_the_time_stands_beside_that_of_each_part(page):
    page.wait_for_selector("#tiles >> text=numbers are right")
    page.click("#view-why")
    page.wait_for_function("() => /ports|L1|L2|L3|memory/.test(document.querySelector('#verdict')?.textContent || '')")
    page.wait_for_function("() => !/being measured/.test(document.querySelector('#verdict').textContent)")
    parts = page.locator("#view .bars").first.locator("td:first-child").all_inner_texts()
    assert parts[:3] == ["ports", "L1", "L2"]
    assert parts[-1] == "measured"
    assert page.locator("#view .nest .tag").all_inner_texts() == ["ir", "jr", "k"]
    assert "B from" in page.inner_text("#view .nest")


def test_what_was_kept_is_compared(page):
    page.click("#keep")
    page.locator("#knob-rows").fill("1")
    page.wait_for_selector('#knob-rows-value >> text="2"')
    page.wait_for_function("() => /^6 . /m.test(document.querySelector('#tiles').innerText)")
    page.click("#view-differences")
    rows = {
        row.split("\t")[0]: row.split("\t")[1:]
        for row in page.inner_text("#view .compared").splitlines()
        if "\t" in row
    }
    assert rows["rows"][:2] == ["4", "2"]
    assert rows["multiply-add"][2] == "× 0.5"
    page.click("#keep")
    assert page.locator("#view-differences").is_hidden()


def test_a_failing_schedule_shows_the_steps_before(page):
    page.select_option("#example", "old_handle")
    page.wait_for_selector("#timeline .failed")
    assert "structured.tile_using_for" in page.text_content("#step-name")
    assert page.locator("#knobs").is_hidden()  # Those of the example before.


def test_an_endless_schedule_ends_and_the_page_goes_on(page):
    page.select_option("#example", "endless")
    page.wait_for_selector("#error >> text=the limit of this lab")
    assert page.locator("#tiles .tile").count() == 0  # Nothing is left of what was shown before.
    page.select_option("#example", "register_tile")
    page.wait_for_selector("#error", state="hidden")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os\n\ndef schedule(spec, target, sizes):\n    while True:\n        os.fork()\n", "PermissionError"),
        ("def schedule(spec, target, sizes):\n    return bytearray(8 << 30)\n", "the limit of this lab"),
        ("def schedule(spec, target, sizes):\n    print(open('/etc/passwd').read())\n", "FileNotFoundError"),
    ],
    ids=["forks", "8 GB", "passwd"],
)
def test_what_a_schedule_may_not_do_is_said_and_the_page_goes_on(page, body, said):
    if said == "FileNotFoundError" and sandbox.find().program is None:
        pytest.skip("no bubblewrap: make setup-lab installs it")
    before = page.input_value("#editor textarea")
    page.fill("#editor textarea", body)
    page.wait_for_selector(f"#error >> text={said}")
    assert "root:" not in page.inner_text("body")
    page.fill("#editor textarea", before)
    page.wait_for_selector("#error", state="hidden")


def test_a_link_brings_the_schedule_back(page, browser):
    before = page.url
    page.fill("#shape", "64x96x32")
    page.wait_for_function("before => location.href !== before", arg=before)
    with browser.new_context() as context:
        other = context.new_page()
        other.goto(page.url)
        other.wait_for_selector("#view .row")
        assert other.input_value("#shape") == "64x96x32"


def test_history_leads_back_to_what_compiled_before(page):
    page.wait_for_selector("#tiles >> text=numbers are right")
    before = page.input_value("#editor textarea")
    page.wait_for_function("() => /GFLOP/.test(document.querySelector('#history').options[1].textContent)")
    page.fill("#shape", "64x96x32")
    page.wait_for_function("() => /64x96x32/.test(document.querySelector('#history').options[1].textContent)")
    page.fill("#editor textarea", before.replace("vectorize", "absent"))
    page.wait_for_selector("#error", state="visible")
    page.select_option("#history", "1")  # The one before; what failed is not there.
    page.wait_for_selector("#error", state="hidden")
    assert page.input_value("#shape") != "64x96x32"
    assert page.input_value("#editor textarea") == before
    page.reload()
    page.wait_for_selector("#view .row")
    assert page.locator("#history option").count() >= 3


def test_the_saved_file_needs_no_server(page, browser, tmp_path):
    with page.expect_download() as download:
        page.click("#export")
    file = tmp_path / "saved.html"
    download.value.save_as(file)
    assert file.stat().st_size <= 10**6
    said: list[str] = []
    with browser.new_context(offline=True) as context:
        other = context.new_page()
        other.on("console", lambda message: said.append(message.text))
        other.on("pageerror", lambda error: said.append(str(error)))
        other.goto(file.as_uri())
        other.wait_for_selector("#view .row.hot")
        assert other.locator("#timeline .track-steps button").count() > 10
    assert said == []


def test_a_gpu_kernel_is_drawn_and_emulated(page):
    page.select_option("#example", "mma_sync")
    page.wait_for_selector("#view-drawings:not([hidden])")
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('assembly')")
    if ptxas.tool("nvdisasm"):
        page.wait_for_selector("#view .row >> text=HMMA")  # It comes behind the PTX.
    page.click("#view-drawings")
    assert page.locator(".drawings > svg").count() == 5
    page.click("#run")
    page.wait_for_selector("#tiles >> text=numbers are right")


@pytest.mark.parametrize(
    ("example", "instruction"), [("mma_sync", "HMMA"), ("matrix_cores", "v_mfma"), ("outer_product", "fmopa")]
)
def test_code_for_other_machines_lights_up(page, example, instruction):
    if instruction == "HMMA" and ptxas.tool("nvdisasm") is None:
        pytest.skip("make setup-gpu installs nvdisasm")
    page.select_option("#example", example)
    row = page.locator("#view .row[data-line]", has_text=instruction).first
    row.hover()
    line = row.get_attribute("data-line")
    page.wait_for_selector(f'#view .row.lit[data-line="{line}"]')
    assert page.locator("#editor .line.lit .at").text_content() == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "schedule"),
        ("def schedule(spec:\n", "line 1"),
        ("名 = 'ß' * 3\nd\u0065f = €\n", "line 2"),
        ("# 長\n" * 3000, "schedule"),
    ],
    ids=["nothing", "no Python", "other letters", "long"],
)
def test_what_is_no_schedule_is_an_error_and_the_page_goes_on(page, text, said):
    before = page.input_value("#editor textarea")
    page.fill("#editor textarea", text)
    page.wait_for_selector(f"#error >> text={said}")
    page.wait_for_selector("#stale-steps")
    page.fill("#editor textarea", before)
    page.wait_for_selector("#error", state="hidden")
    page.wait_for_selector("#stale-steps", state="hidden")


def test_of_thirty_edits_the_last_one_is_shown(page):
    before = page.input_value("#editor textarea")
    for number in range(30):
        page.fill("#editor textarea", f"{before}\nprint({number})\n")
    page.wait_for_function("() => document.querySelector('#printed').textContent.trim() === '29'")
    page.wait_for_function("() => document.querySelector('#ir-pane').getAttribute('aria-busy') === 'false'")
    assert page.locator("#error").is_hidden()


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-m", "tilewright", "lab"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as made:
        yield made
        made.kill()


def test_without_its_server_the_page_says_so(browser, server):
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(server.stdout.readline().strip())
        page.wait_for_selector("#view .row")
        server.terminate()
        server.wait(WAIT / 1000)  # An open page does not keep it.
        page.fill("#shape", "64x64x64")
        page.wait_for_selector("#error >> text=the server does not answer")
        assert page.input_value("#editor textarea")


def test_operators_and_modules_are_compiled(page):
    page.select_option("#example", "attention")
    page.wait_for_selector("#tiles >> text=numbers are right")
    assert page.locator("#shape").is_hidden()
    page.select_option("#example", "module")
    page.wait_for_selector("#edited >> text=Module")
    page.fill("#editor textarea", "func.func @f() {\n  nothing.like_this\n}\n")
    page.wait_for_selector("#error >> text=nothing.like_this")
    assert page.locator("#editor .line.wrong .at").text_content() == "2"


def test_what_explain_writes_is_such_a_file(browser, tmp_path):
    """Lines light up across its panes, and it draws the blocks."""
    shape = ["--shape", "128x512x64", "--target", "x86-64-v3", "--schedule", "packed"]
    assert main(["explain", *shape, "-o", str(tmp_path / "out")]) == 0
    said: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}, offline=True) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((tmp_path / "out" / "index.html").as_uri())
        page.wait_for_selector("#view .row.hot")
        line = page.locator("#view .row.hot[data-line]").last.get_attribute("data-line")
        page.locator("#view .row.hot[data-line]").last.hover()
        assert page.locator("#editor .line.lit .at").text_content() == line
        assert page.locator(f'#ir .row.lit[data-line="{line}"]').count() > 0
        page.click("#view-drawings")
        assert page.locator(".drawings svg").count() == 2
        assert page.locator("#view-numbers").is_hidden()
        assert "packed (mr=" in page.text_content("#title")
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_and_can_be_read(browser, address, width, scheme):
    """WCAG AA: text has a contrast of 4.5 to what is behind it."""
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(address)
        page.wait_for_selector("#tiles .tile", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        faint = page.evaluate(FAINT)
        assert faint == []
