// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows code in rows: what is new and gone, what is folded, what a search finds, and what the lit line of the schedule made.
import { ADDED, REMOVED, SAME } from "./diff.js";
import { make, plural } from "./dom.js";
import { colored } from "./highlight.js";
import { light, lineOf, onLight, pin } from "./link.js";

const around = 3, most = 12000;
const classes = { [SAME]: "", [ADDED]: " added", [REMOVED]: " removed" };
const signs = { [SAME]: "", [ADDED]: "+", [REMOVED]: "−" };

// The lines of a text that `texts.py` packed.
export function unpack(texts, number) {
  return texts.texts[number].map((at) => ({ text: texts.lines[at][0], source: texts.sources[texts.lines[at][1]] }));
}

export class CodeView {
  constructor(place) {
    this.place = place;
    this.byLine = new Map();
    this.rows = [];
    this.lit = 0;
    onLight((line, scroll) => this.light(line, scroll));
    place.addEventListener("mouseover", (event) => light(Number(event.target.closest("[data-line]")?.dataset.line || 0)));
    place.addEventListener("mouseleave", () => light(0));
    place.addEventListener("click", (event) => {
      const row = event.target.closest("[data-line]");
      if (row && !event.target.closest("button") && !String(getSelection())) pin(Number(row.dataset.line));
    });
  }

  // Pairs [kind, line]; `changes`: only what is not the same, with some lines around; `hot`: the numbers of rows to mark.
  show(pairs, language, { changes = false, hot = new Set() } = {}) {
    this.byLine = new Map();
    this.rows = [];
    const body = make("div", { class: "rows" });
    let at = 0, skipped = 0;
    const near = changes ? this.near(pairs) : null;
    const closing = () => {
      if (skipped) body.append(make("div", { class: "row skip" }, make("span", { class: "at" }, "⋯"), make("span", { class: "sign" }), `${plural(skipped, "line")} as before`));
      skipped = 0;
    };
    pairs.slice(0, most).forEach(([kind, line], index) => {
      if (kind !== REMOVED) at++;
      if (near && !near.has(index)) { skipped++; return; }
      closing();
      body.append(this.row(kind, line, kind === REMOVED ? "" : String(at), language, hot.has(index)));
    });
    closing();
    if (pairs.length > most) body.append(make("div", { class: "row skip" }, `${plural(pairs.length - most, "more line")}`));
    this.place.replaceChildren(body);
    this.fold();
    this.light(this.lit, false);
  }

  near(pairs) {
    const found = new Set();
    pairs.forEach(([kind], index) => {
      if (kind !== SAME) for (let each = index - around; each <= index + around; each++) found.add(each);
    });
    return found;
  }

  row(kind, line, at, language, hot) {
    const source = lineOf(line.source);
    const row = make("div", { class: `row${classes[kind]}${hot ? " hot" : ""}`, "data-line": source || null, title: line.source || null },
      make("span", { class: "at" }, at), make("span", { class: "sign" }, signs[kind]), make("span", { class: "text" }, colored(line.text, language)));
    if (source) this.byLine.set(source, [...(this.byLine.get(source) || []), row]);
    this.rows.push(row);
    return row;
  }

  // Gives each row that opens a region of several lines a button that hides them.
  fold() {
    const open = [];
    this.rows.forEach((row, index) => {
      const text = row.lastChild.textContent, body = text.trim();
      if (body.startsWith("}") && open.length) {
        const from = open.pop();
        if (index - from > 3) this.addFold(from, index);
      }
      if (body.endsWith("{")) open.push(index);
    });
    this.place.querySelector(".fold")?.setAttribute("tabindex", "0");
  }

  // A row may be in several folds: it is seen when none of them is closed.
  addFold(from, to) {
    const inside = this.rows.slice(from + 1, to);
    const button = make("button", { class: "fold", type: "button", "aria-expanded": "true", "aria-label": `Fold ${plural(inside.length, "line")}`, tabindex: "-1",
      onkeydown: (event) => this.turn(event, button),
      onclick: () => {
        const opened = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!opened));
        button.textContent = opened ? "▸" : "▾";
        for (const row of inside) {
          row.folds = (row.folds || 0) + (opened ? 1 : -1);
          row.hidden = row.folds > 0;
        }
      } }, "▾");
    this.rows[from].querySelector(".sign").append(button);
  }

  // Up and Down go from fold to fold, of which one is reached by Tab.
  turn(event, button) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const seen = [...this.place.querySelectorAll(".fold")].filter((each) => each.checkVisibility());
    const next = seen[seen.indexOf(button) + by];
    if (!next) return;
    button.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  light(line, scroll) {
    (this.byLine.get(this.lit) || []).forEach((row) => row.classList.remove("lit"));
    this.lit = line;
    const rows = this.byLine.get(line) || [];
    rows.forEach((row) => row.classList.add("lit"));
    const seen = this.place.getBoundingClientRect();
    const inView = (row) => { const box = row.getBoundingClientRect(); return box.top >= seen.top && box.bottom <= seen.bottom; };
    if (scroll && rows.length && !rows.some(inView)) rows[0].scrollIntoView({ block: "center" });
  }

  // Marks the rows with a text, and returns how many there are.
  find(text) {
    const wanted = text.toLowerCase();
    const found = this.rows.filter((row) => {
      const matches = wanted !== "" && row.lastChild.textContent.toLowerCase().includes(wanted);
      row.classList.toggle("match", matches);
      return matches;
    });
    return found;
  }
}
