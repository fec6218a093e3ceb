// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a step changed, line by line. Passes renumber values and indent what they wrap: neither counts.
// The method is E. Myers, "An O(ND) difference algorithm and its variations" (1986).

export const SAME = 0;
export const ADDED = 1;
export const REMOVED = 2;
const names = /(?<![\w.])(?:%[\w$.-]+(?:[:#]\d+)?|\^bb\d+|#map\d*|!\d+)/g;
const most = 1200;

const compared = new Map();
function plain(text) {
  let found = compared.get(text);
  if (found === undefined) compared.set(text, (found = text.trim().replace(names, (name) => name[0])));
  return found;
}

// Pairs [kind, line] of the lines of both, in order; null when the texts have too little in common.
export function difference(before, after) {
  const old = before.map((each) => plain(each.text)), now = after.map((each) => plain(each.text));
  let head = 0, tail = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const middle = path(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  if (middle === null) return null;
  const found = after.slice(0, head).map((line) => [SAME, line]);
  for (const [kind, at] of middle) found.push([kind, kind === REMOVED ? before[head + at] : after[head + at]]);
  for (const line of after.slice(after.length - tail)) found.push([SAME, line]);
  return found;
}

function path(old, now) {
  const trail = [], furthest = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(most, old.length + now.length); edits++) {
    trail.push(new Map(furthest));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = diagonal === -edits || (diagonal !== edits && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
      let x = down ? furthest.get(diagonal + 1) : furthest.get(diagonal - 1) + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++;
      furthest.set(diagonal, x);
      if (x >= old.length && x - diagonal >= now.length) return back(trail, old.length, now.length);
    }
  }
  return null;
}

function back(trail, x, y) {
  const found = [];
  for (let edits = trail.length - 1; edits >= 0; edits--) {
    const furthest = trail[edits], diagonal = x - y;
    const down = diagonal === -edits || (diagonal !== edits && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
    const from = diagonal + (down ? 1 : -1), startX = edits ? furthest.get(from) : 0, startY = edits ? startX - from : 0;
    while (x > startX && y > startY && (edits === 0 || x - y === diagonal)) {
      if (edits && x === startX + (down ? 0 : 1) && y === startY + (down ? 1 : 0)) break;
      found.push([SAME, --y]);
      x--;
    }
    if (edits) {
      if (down) found.push([ADDED, --y]);
      else found.push([REMOVED, --x]);
    }
  }
  return found.reverse();
}
