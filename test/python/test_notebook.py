# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables that notebooks show, and the example that is a notebook: its cells are run, and what the last line of each gives is shown."""

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import tilewright as tw
from tilewright import notebook

EXAMPLES = Path(__file__).parents[2] / "examples"
SPEC = tw.MatmulSpec(m=None, n=6, k=5, batch=(2,), epilogue=(tw.bias("n"), lambda c: c * 2))
MODULE = """
func.func @first(%a: tensor<6x5xf32>, %b: tensor<5x7xf32>, %c: tensor<6x7xf32>) -> tensor<6x7xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<6x5xf32>, tensor<5x7xf32>) outs(%c : tensor<6x7xf32>) -> tensor<6x7xf32>
  return %0 : tensor<6x7xf32>
}
"""


class Page(HTMLParser):
    """Reads HTML whose every tag is closed, and keeps its words and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        del attrs
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += f"{data} "


def shown(value: object) -> str:
    """The words of what a notebook shows of it, which is small, and takes its colors from the page."""
    text = value._repr_html_()  # type: ignore[attr-defined] - IPython's protocol
    assert len(text) < 6000
    assert not re.search(r"#[0-9a-f]{3}|rgba?\(|black|white|background|<script|<style", text)
    page = Page(text)
    assert page.tags <= {"div", "b", "span", "table", "tr", "th", "td"}
    return " ".join(page.words.split())


def test_specs():
    words = shown(SPEC)
    assert words.startswith("MatmulSpec 2*?x6x5 f32 nn [bias('n'), lambda(c)] tensor shape type a 2×?×5 f32")
    assert words.endswith("bias 6 f32 → c 2×?×6 f32")
    assert "operations 240 tensor" in shown(tw.MatmulSpec(m=4, n=6, k=5))
    assert "→ out 1×4×4×4 f32" in shown(tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3))
    assert "mask" in shown(tw.AttentionSpec(queries=8, keys=None, head=16, mask="f32"))


def test_kernels():
    kernel = tw.compile(tw.MatmulSpec(m=4, n=6, k=5))
    assert re.search(
        r"Kernel 4x6x5 f32 nn target.host · schedule.\w+ mr=.* bytes tensor shape type a 4×5 f32", shown(kernel)
    )
    assert "a 6×5 f32 b 5×7 f32 c 6×7 f32 → " in shown(tw.compile_module(MODULE)["first"])
    assert "x 1×6×6×3 f32" in shown(tw.compile(tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3)))
    foreign = tw.compile(tw.MatmulSpec(m=4, n=6, k=5), target="gfx942")
    assert "gfx942" in shown(foreign)


def test_modules_and_targets():
    assert "first a: 6x5 f32, b: 5x7 f32, c: 6x7 f32" in shown(tw.compile_module(MODULE))
    assert "Target znver5 triple x86_64-unknown-linux-gnu" in shown(tw.targets.get("znver5")).replace("\xa0", " ")
    assert "L2" in shown(tw.targets.resolve("host"))
    assert "matrix instructions" in shown(tw.targets.gpu("sm_90a"))


def test_whatever_a_text_has_is_shown_as_text():
    words = shown(type("_", (), {"_repr_html_": lambda _: notebook.card("<b>&", {"a<": "<i>"}, ("<",), [["</td>"]])})())
    assert words.replace("\xa0", " ") == "<b>& a< <i> < </td>"


def run(notebook: Path) -> list[object]:
    """Runs the cells of a notebook; what the last line of each gives."""
    names: dict[str, object] = {}
    given = []
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(each for each in cells if each["cell_type"] == "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear the outputs before you save it"
        body = ast.parse("".join(cell["source"]), f"cell {number}").body
        *lines, last = body
        is_value = isinstance(last, ast.Expr)
        exec(compile(ast.Module(lines if is_value else body, []), f"cell {number}", "exec"), names)
        given.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names) if is_value else None)  # type: ignore[attr-defined] - of Expr
    return given


def test_the_example_runs_from_its_first_cell_to_its_last(capsys):
    given = run(EXAMPLES / "25_notebook.ipynb")
    for each in given[:2] + given[3:4]:
        shown(each)
    assert given[2] is True
    assert ".section" in capsys.readouterr().out


def test_the_lessons_run_and_are_drawn(monkeypatch, capsys):
    lessons = EXAMPLES / "28_lessons"
    monkeypatch.syspath_prepend(lessons)
    *_, picture = run(lessons / "lessons.ipynb")
    assert "hoist_packing" in capsys.readouterr().out
    drawn = ElementTree.fromstring(str(picture))
    names = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert names[:-2:2] == ["loops", "tiles", "vectors", "registers", "panels"]
    assert all(re.fullmatch(r"[0-9.]+%", each or "") for each in names[1::2])
