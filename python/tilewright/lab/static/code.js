// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code pane: assembly, hot loop, why it is as fast as it is, blocks, numbers, and what was kept to compare with; one of them shown.
import { CodeView, unpack } from "./codeview.js";
import { compared, facts } from "./compare.js";
import { costTiles, hotLoop } from "./cost.js";
import { SAME } from "./diff.js";
import { byId, make } from "./dom.js";
import { light, onLight, pin } from "./link.js";
import { numbers, numberTiles } from "./numbers.js";
import { isSaved } from "./saved.js";
import { why } from "./why.js";

// By name: the title, and whether there is something to show of an answer and of what ran.
const views = {
  asm: ["Assembly", () => true],
  hot: ["Hot loop", () => true],
  why: ["Why", () => true],
  drawings: ["Blocks", (answer) => answer.drawings.length],
  numbers: ["Numbers", (_, ran) => ran || !isSaved()],
  differences: ["Compared", (answer, _, kept) => kept || answer.differences],
};

export class Code {
  constructor() {
    this.view = "asm";
    this.answer = null;
    this.ran = null;
    this.kept = null; // What is compared with.
    this.busy = false;
    this.place = byId("view");
    byId("views").replaceChildren(...Object.entries(views).map(([name, [title]]) => make("button", { type: "button", role: "tab", id: `view-${name}`, "aria-selected": "false", onclick: () => this.choose(name) }, title)));
    byId("views").onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey) return;
      event.preventDefault();
      const there = Object.keys(views).filter((name) => !byId(`view-${name}`).hidden);
      const next = there[(there.indexOf(this.view) + by + there.length) % there.length];
      this.choose(next);
      byId(`view-${next}`).focus();
    };
    this.assembly = new CodeView(make("div", { class: "code" }));
    onLight((line) => this.place.querySelectorAll("tr[data-line]").forEach((row) => row.classList.toggle("lit", Number(row.dataset.line) === line)));
    this.place.addEventListener("mouseover", (event) => { const row = event.target.closest("tr[data-line]"); if (row) light(Number(row.dataset.line)); });
    this.place.addEventListener("click", (event) => { const row = event.target.closest("tr[data-line]"); if (row) pin(Number(row.dataset.line)); });
    this.choose("asm");
  }

  // Shows nothing: what is asked next has nothing to do with what is here.
  clear() {
    this.answer = this.shown = this.ran = null;
    byId("tiles").replaceChildren();
    byId("keep").hidden = true;
    this.place.replaceChildren(make("p", { class: "empty" }, "The code is here as soon as the schedule compiles."));
  }

  // What was compiled, and of what.
  take(answer, problem) {
    this.answer = answer;
    this.problem = problem;
    this.show();
  }

  // Keeps what is shown to compare what comes with it, or lets that go.
  keep() {
    this.kept = this.kept ? null : facts(this.problem, this.answer, this.ran);
    this.show();
  }

  takeNumbers(ran, busy) {
    this.ran = ran;
    this.busy = busy;
    this.show();
  }

  choose(name) {
    this.view = name;
    for (const each of Object.keys(views)) {
      byId(`view-${each}`).setAttribute("aria-selected", String(each === name));
      byId(`view-${each}`).setAttribute("tabindex", each === name ? "0" : "-1");
    }
    this.place.setAttribute("aria-labelledby", `view-${name}`);
    this.place.scrollTop = 0;
    this.show();
  }

  show() {
    const answer = this.answer;
    if (!answer) return;
    for (const [name, [, isThere]] of Object.entries(views)) byId(`view-${name}`).hidden = !isThere(answer, this.ran || this.busy, this.kept);
    if (byId(`view-${this.view}`).hidden) {
      this.choose("asm");
      return;
    }
    byId("keep").hidden = false;
    byId("keep").setAttribute("aria-pressed", String(this.kept !== null));
    byId("tiles").replaceChildren(...numberTiles(answer, this.ran), ...costTiles(answer));
    this.place.classList.toggle("padded", this.view !== "asm");
    const top = this.place.scrollTop;
    if (this.view === "asm") this.showAssembly(answer);
    else {
      const made = {
        hot: () => hotLoop(answer),
        why: () => why(answer, this.ran),
        drawings: () => [make("div", { class: "drawings" }, answer.drawings.map(drawing))],
        numbers: () => numbers(answer, this.ran, this.busy),
        differences: () => (this.kept ? compared(this.kept, facts(this.problem, answer, this.ran)) : [make("pre", { class: "differences" }, answer.differences)]),
      }[this.view]();
      this.place.replaceChildren(...made.flat(2).filter(Boolean));
    }
    this.place.scrollTop = top;
  }

  showAssembly(answer) {
    if (!answer.code) {
      this.place.replaceChildren(make("p", { class: "empty" }, "There is no assembly."));
      return;
    }
    this.place.replaceChildren(this.assembly.place);
    if (this.shown === answer.texts.texts[answer.stages[answer.code]]) return;
    this.shown = answer.texts.texts[answer.stages[answer.code]];
    const lines = unpack(answer.texts, answer.stages[answer.code]);
    const hot = hotRows(lines, answer.hot);
    this.assembly.show(lines.map((line) => [SAME, line]), answer.language, { hot });
    this.first = [...hot][0];
    this.goToHotLoop();
  }

  // Also when the pane comes to be seen: what is hidden does not scroll.
  goToHotLoop() {
    if (this.view !== "asm" || this.first === undefined) return;
    requestAnimationFrame(() => { this.place.scrollTop = Math.max(0, this.first - 6) * (this.assembly.rows[0]?.getBoundingClientRect().height || 18); });
  }
}

function drawing(text) {
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}

// The rows of the hot loop: for each of its labels, the instructions after it.
function hotRows(lines, hot) {
  const found = new Set();
  if (!hot) return found;
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  const waiting = hot.instructions.map((each) => plain(each.text));
  let at = lines.findIndex((line) => line.text.startsWith(`${hot.label}:`));
  if (at < 0) return found;
  found.add(at);
  for (let next = 0; next < waiting.length && ++at < lines.length;) {
    const text = plain(lines[at].text);
    if (text === waiting[next] || plain(text.split(/ (?:#|\/\/|;) /)[0]) === waiting[next]) next++;
    else if (text !== "" && !text.endsWith(":") && !text.startsWith(".")) continue;
    found.add(at);
  }
  return found;
}
