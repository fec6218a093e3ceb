# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's IR pane: its time line, what changed, folding, search, and what belongs to a line of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from recorded_page import shown

ROWS = "#ir .row:not([hidden])"


@pytest.fixture
def page(browser, recorded) -> Iterator[Any]:
    with shown(browser, recorded, "* { transition: none !important }", "wide", "light") as made:
        yield made


def test_a_bar_of_the_time_line_is_a_step(page):
    bars = page.locator("#timeline .track-steps button")
    bars.nth(2).click()
    name = bars.nth(2).get_attribute("aria-label").partition(": ")[2]
    assert name in page.text_content("#step-name")
    page.keyboard.press("ArrowRight")
    assert bars.nth(3).get_attribute("aria-selected") == "true"
    hidden = bars.count()
    page.check("#quiet")  # Steps that change nothing too.
    assert bars.count() > hidden


def test_changes_alone_are_shown_with_lines_around(page):
    whole = page.locator("#ir .row").count()
    page.check("#changes")
    rows = page.locator("#ir .row").count()
    assert 0 < rows < whole
    assert page.locator("#ir .row.added, #ir .row.removed").count() > 0
    skipped = sum(int(each.split()[1]) for each in page.locator("#ir .row.skip").all_inner_texts())
    assert rows - page.locator("#ir .row.skip").count() + skipped == whole


def test_a_search_goes_from_line_to_line(page):
    page.fill("#find", "vector.transfer_read")
    count = page.locator("#ir .row.match").count()
    assert count > 1
    assert page.text_content("#found") == f"1 of {count}"
    page.press("#find", "Enter")
    assert page.text_content("#found") == f"2 of {count}"
    page.fill("#find", "nothing like this")
    assert page.text_content("#found") == "none"


def test_regions_fold_by_mouse_and_keyboard(page):
    folds = page.locator("#ir .fold")
    assert [each.get_attribute("tabindex") for each in folds.all()] == ["0", *["-1"] * (folds.count() - 1)]
    whole = page.locator(ROWS).count()
    folds.last.click()
    inner = page.locator(ROWS).count()
    assert inner < whole
    folds.first.focus()
    page.keyboard.press("Enter")
    assert page.locator(ROWS).count() < inner
    page.keyboard.press("ArrowDown")  # What is folded away is not gone to.
    assert page.evaluate("document.activeElement === document.querySelector('#ir .fold')")
    page.keyboard.press("Enter")
    assert page.locator(ROWS).count() == inner  # What was folded inside stays so.
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement === document.querySelectorAll('#ir .fold')[1]")


def test_an_op_lights_up_its_line_its_step_and_its_instructions(page):
    row = page.locator("#ir .row[data-line]", has_text="vector.contract").first
    row.hover()
    line = row.get_attribute("data-line")
    assert page.locator("#editor .line.lit .at").text_content() == line
    assert page.locator(f'#view .row.lit[data-line="{line}"]').count() > 0
    assert page.locator("#timeline .track-steps button.lit").count() > 0
