# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The step-through of a trace in notebooks: what each step changed, and how Chromium shows it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.runtime import step_widget
from tilewright.runtime.step_trace import Step, Trace

CHROMIUM = shutil.which("chromium")
MODULE = Path(step_widget.__file__).with_suffix(".js")


def step(number, before, after):
    text = ("\n".join(each) + "\n" for each in (before, after))
    return Step(number, "scheduled", "transform ops", f"op{number}", f"own.py:{number}", 0.001, (), *text)


LONG = [str(line) for line in range(20)]
TRACE = Trace(
    "a product",
    (step(1, ["a", "b"], ["a", "c"]), step(2, ["a"], ["a"]), step(3, LONG, [*LONG[:10], "<b>new</b>", *LONG[10:]])),
)


def test_lines_that_differ_are_shown_with_some_around():
    assert list(step_widget.lines(TRACE.steps[0])) == [[" ", "a"], ["-", "b"], ["+", "c"]]
    last = list(step_widget.lines(TRACE.steps[2]))
    assert last[0] == ["@", "7 lines"]
    assert last[4] == ["+", "<b>new</b>"]
    assert last[-1] == ["@", "7 lines"]
    many = step(1, ["a"], [str(line) for line in range(3 * step_widget._MOST_LINES)])
    assert list(step_widget.lines(many)) == [["@", f"more than {step_widget._MOST_LINES} lines changed"]]


def test_the_widget_follows_the_current_step():
    pytest.importorskip("anywidget", reason="make setup-lab installs it")
    widget = TRACE.widget()
    assert [each["number"] for each in widget.steps] == ["1", "3"]
    assert widget.lines == list(step_widget.lines(TRACE.steps[0]))
    widget.current = 1
    assert widget.lines == list(step_widget.lines(TRACE.steps[2]))
    for asked, shown in ((7, 1), (-3, 0)):
        widget.current = asked
        assert widget.current == shown
    assert Trace("nothing", ()).widget().lines == []


def test_without_anywidget_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(tw.TilewrightError, match=r"Install tilewright\[notebook\]"):
        TRACE.widget()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make setup-browser installs it")
def test_chromium_shows_the_steps(tmp_path):
    state = {
        "title": TRACE.title,
        "error": "",
        "steps": [step_widget._named(TRACE.steps[0]), step_widget._named(TRACE.steps[2])],
        "current": 0,
        "lines": list(step_widget.lines(TRACE.steps[2])),
    }
    program = MODULE.read_text().replace("export default { render };", "")
    page = tmp_path / "page.html"
    data = json.dumps(state).replace("<", "\\u003c")
    page.write_text(f"""<!doctype html><body><script type="module">{program}
const state = {data}, acts = {{}};
const model = {{
  get: (name) => state[name], set: (name, value) => {{ state[name] = value; (acts["change:" + name] || (() => 0))(); }},
  save_changes() {{}}, on: (name, act) => (acts[name] = act), off() {{}},
}};
render({{ model, el: document.body }});
document.querySelector('[aria-label="The next step"]').click();
document.title = state.current;
</script></body>""")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    shown = done.stdout.split("</script>")[1]
    assert "<title>1</title>" in done.stdout
    assert '<div class="added">+ &lt;b&gt;new&lt;/b&gt;</div>' in shown
    assert shown.count('aria-current="true"') == 1
    assert "2 of 2: a product" in shown
