# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is hard to read on a page, or cannot be reached or named without seeing it."""

FAINT = """() => {
  const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => [r, g, b].map((each) => linear(each / 255))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("textarea, option, :disabled, svg")) continue;
    const [one, two] = [light(parsed(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (two + 0.05);
    if (contrast < 4.5) found.add(`${element.className || element.id || element.tagName}: ${contrast.toFixed(2)}`);
  }
  return [...found];
}"""
"""By element, the contrasts of texts that are below WCAG's 4.5 (AA)."""
NAMELESS = """() => [...document.querySelectorAll("button, select, input, textarea, a, [role=tab]")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.labels?.length || each.getAttribute("aria-label") || each.title || each.textContent.trim()))
  .map((each) => each.outerHTML)"""
"""Controls without a name that a screen reader could say."""
