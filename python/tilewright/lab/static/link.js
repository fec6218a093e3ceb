// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lights up in every pane what one line of the schedule made.

const listeners = [];
let lit = 0, pinned = 0;

// Has `shown` called with a line of the schedule, or 0 for none, and whether it is to be scrolled to.
export function onLight(shown) {
  listeners.push(shown);
}

function tell(line, scroll) {
  if (line === lit && !scroll) return;
  lit = line;
  listeners.forEach((each) => each(line, scroll));
}

export const light = (line) => tell(line || pinned, false);

// Keeps a line lit and brings what belongs to it into view; the same line again lets it go.
export function pin(line) {
  pinned = pinned === line ? 0 : line;
  tell(pinned, pinned !== 0);
}

// The line of the schedule that a source ("schedule.py:12 in jr, ir") tells; 0 for those of other files.
export function lineOf(source) {
  const found = /^schedule\.(?:py|mlir):(\d+)/.exec(source || "");
  return found ? Number(found[1]) : 0;
}
