# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page for those who cannot see well, or have no mouse."""

from __future__ import annotations

import pytest
from readable import FAINT, NAMELESS
from recorded_page import SIZES, shown

ERROR = {
    "error": {
        "kind": "ScheduleError",
        "what": "no such step",
        "text": "no such step",
        "line": 2,
        "expected": "one",
        "remedy": "Name one",
    }
}
FOCUSED = "() => document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.tagName"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_view_can_be_read(browser, recorded, size, scheme):
    """WCAG AA: text has a contrast of 4.5 to what is behind it; controls have names; nothing is wider than the page."""
    with shown(browser, recorded, "* { transition: none !important }", size, scheme) as page:
        for pane in ("schedule-pane", "ir-pane", "code-pane"):
            if size == "narrow":
                page.click(f"#tab-{pane}")
            assert page.evaluate(FAINT) == []
            assert page.evaluate(NAMELESS) == []
        page.wait_for_function("() => document.querySelector('#view').scrollTop > 0")  # At the hot loop.
        page.click("#keep")
        seen = [each.get_attribute("id") for each in page.locator("#views button:visible").all()]
        assert seen == [f"view-{name}" for name in ("asm", "hot", "why", "drawings", "numbers", "differences")]
        for view in seen:
            page.click(f"#{view}")
            assert page.evaluate(FAINT) == [], view
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        recorded["compile"], kept = {**ERROR, "printed": "a line", "took": 0}, recorded["compile"]
        page.fill("#shape", "8x8x8")
        page.wait_for_selector("#error", state="attached")
        page.wait_for_function("() => document.querySelector('#error').textContent.includes('no such step')")
        recorded["compile"] = kept
        if size == "narrow":
            page.click("#tab-schedule-pane")
        assert page.evaluate(FAINT) == []


def test_the_keyboard_reaches_everything(browser, recorded):
    with shown(browser, recorded, "* { transition: none !important }", "wide", "light") as page:
        reached = []
        for _ in range(200):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(FOCUSED))
            if reached[-1] == "Schedule":
                page.keyboard.press("Escape")  # Or Tab would indent.
            if reached[-1] == "view-asm":
                break
        wanted = "example history share export theme operator shape dtype layout beta epilogue prologue_b target threads language strategy"
        order = [
            *wanted.split(),
            "Schedule",
            "knob-rows",
            "knob-columns",
            "step-back",
            "changes",
            "quiet",
            "find",
            "keep",
            "run",
            "view-asm",
        ]
        assert [each for each in reached if each in order] == order
        page.keyboard.press("ArrowRight")
        page.wait_for_selector('#view-hot[aria-selected="true"]')
        assert page.evaluate(FOCUSED) == "view-hot"
        assert (
            page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        )  # It is seen where one is.
