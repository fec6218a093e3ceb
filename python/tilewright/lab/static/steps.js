// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR pane: a time line with a bar for each transform op and each pass, and the IR after the chosen one.
import { CodeView, unpack } from "./codeview.js";
import { ADDED, difference, REMOVED, SAME } from "./diff.js";
import { byId, duration, make, number, plural } from "./dom.js";
import { lineOf, onLight } from "./link.js";

const colors = { scheduled: "--multiply-add", bufferized: "--load", threads: "--store", llvm: "--vector", nvvm: "--vector", rocdl: "--vector", spirv: "--vector", llvmir: "--shuffle" };
const titles = { scheduled: "schedule", bufferized: "bufferization", threads: "threads", llvm: "to the LLVM dialect", nvvm: "to NVIDIA's dialect", rocdl: "to AMD's dialect", spirv: "to SPIR-V", llvmir: "LLVM" };

export class Steps {
  constructor() {
    this.view = new CodeView(byId("ir"));
    this.steps = [];
    this.current = 0;
    this.empty = "";
    this.key = "";
    byId("step-back").onclick = () => this.turn(-1);
    byId("step-next").onclick = () => this.turn(1);
    byId("changes").onchange = () => this.draw();
    byId("quiet").onchange = () => this.list();
    byId("find").oninput = () => this.find(false);
    byId("find").onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); this.find(true); } };
    onLight((line) => this.light(line));
  }

  // Takes a trace; the step that is shown stays, as far as there is one of its name and place.
  take(trace) {
    const former = this.steps[this.current], at = this.current;
    this.trace = trace;
    this.texts = trace.texts;
    this.failed = trace.failed;
    this.steps = trace.steps.map((step, index) => ({ ...step, number: index + 1, changed: step.before !== step.after }));
    this.diffs = new Map();
    this.counted();
    const same = (step) => former && step.name === former.name && step.stage === former.stage;
    const again = this.steps.findIndex((step, index) => same(step) && index >= at - 5 && index <= at + 5);
    const last = this.steps.findLastIndex((step) => step.changed && step.stage === "scheduled");
    this.current = this.failed ? this.steps.length - 1 : again >= 0 ? again : Math.max(0, last);
    this.list();
  }

  // Shows nothing but a text: what is asked next has nothing to do with what is here.
  clear(text = "The steps are here as soon as the schedule runs.") {
    this.trace = null;
    this.empty = text;
    this.steps = [];
    this.failed = "";
    this.current = 0;
    this.list();
  }

  // How many lines each step changed, without putting them in order: enough for the height of its bar.
  counted() {
    for (const step of this.steps) {
      if (!step.changed) { step.size = 0; continue; }
      const count = new Map();
      for (const at of this.texts.texts[step.before]) count.set(this.texts.lines[at][0], (count.get(this.texts.lines[at][0]) || 0) + 1);
      let size = 0;
      for (const at of this.texts.texts[step.after]) {
        const left = count.get(this.texts.lines[at][0]) || 0;
        if (left) count.set(this.texts.lines[at][0], left - 1);
        else size++;
      }
      for (const left of count.values()) size += left;
      step.size = size;
      step.changed = size > 0;
    }
  }

  get shown() {
    return this.steps.filter((step) => step.changed || byId("quiet").checked || step.number === this.steps.length && this.failed);
  }

  list() {
    const bars = make("div", { class: "track-steps", role: "listbox", "aria-label": "Steps", tabindex: "-1", onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey) return;
      event.preventDefault();
      this.turn(by);
      this.bars.get(this.current)?.focus();
    } });
    this.bars = new Map();
    for (const step of this.shown) {
      const failed = this.failed && step.number === this.steps.length;
      const bar = make("button", { type: "button", role: "option", class: failed ? "failed" : null, "aria-selected": "false", tabindex: "-1",
        "aria-label": `Step ${step.number}: ${step.name}`, title: `${step.number} ${step.name}${step.source ? ` · ${step.source}` : ""} · ${plural(step.size, "line")}`,
        style: `height: ${Math.round(4 + 6.2 * Math.log2(1 + step.size) / 1.6)}px; --stage: var(${colors[step.stage] || "--scalar"})`, onclick: () => this.go(step.number - 1) });
      this.bars.set(step.number - 1, bar);
      bars.append(bar);
    }
    const stages = [...new Set(this.shown.map((step) => step.stage))];
    const legend = make("div", { class: "stages" }, stages.map((stage) => make("button", { type: "button", onclick: () => this.go(this.shown.find((step) => step.stage === stage).number - 1) },
      make("span", { class: "dot", style: `background: var(${colors[stage] || "--scalar"})` }), titles[stage] || stage, " ", make("span", { class: "soft" }, duration(this.steps.filter((step) => step.stage === stage).reduce((sum, step) => sum + step.seconds, 0))))));
    byId("timeline").replaceChildren(bars, legend);
    this.go(this.current);
  }

  turn(by) {
    const numbers = this.shown.map((step) => step.number - 1);
    const next = by > 0 ? numbers.find((each) => each > this.current) : numbers.findLast((each) => each < this.current);
    if (next !== undefined) this.go(next);
  }

  go(index) {
    this.bars?.get(this.current)?.setAttribute("aria-selected", "false");
    this.bars?.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = index;
    const bar = this.bars?.get(index);
    bar?.setAttribute("aria-selected", "true");
    bar?.setAttribute("tabindex", "0");
    bar?.scrollIntoView({ block: "nearest", inline: "nearest" });
    const numbers = this.shown.map((step) => step.number - 1);
    byId("step-back").disabled = !numbers.some((each) => each < index);
    byId("step-next").disabled = !numbers.some((each) => each > index);
    this.draw();
  }

  draw() {
    const step = this.steps[this.current];
    if (!step) {
      byId("step-name").replaceChildren();
      byId("handles").replaceChildren();
      byId("ir").replaceChildren(make("div", { class: "empty" }, this.failed ? "No step has run." : this.empty));
      return;
    }
    const after = unpack(this.texts, step.after);
    if (!this.diffs.has(step.number)) this.diffs.set(step.number, step.changed ? difference(unpack(this.texts, step.before), after) : null);
    const pairs = this.diffs.get(step.number);
    const count = (kind) => (pairs || []).filter((each) => each[0] === kind).length;
    byId("step-name").replaceChildren(make("b", {}, `${step.number} ${step.name}`), ` ${lineOf(step.source) ? `line ${lineOf(step.source)} · ` : ""}${duration(step.seconds)} `,
      ...(pairs ? [make("span", { class: "plus" }, `+${count(ADDED)}`), " ", make("span", { class: "minus" }, `−${count(REMOVED)}`)] : [step.changed ? "nearly every line is new" : "no change"]));
    byId("step-name").title = `${step.kind}, ${step.source || step.stage}`;
    byId("handles").replaceChildren(...step.handles.flatMap((held, index) => [
      make("div", {}, make("span", { class: "tag" }, `result ${index}`), ` holds ${held.length === 1 ? "" : `${held.length}: `}${held[0] || (held.length ? "" : "nothing")}${held.length > 1 ? " …" : ""}`)]));
    this.view.show(pairs || after.map((line) => [SAME, line]), step.language, { changes: byId("changes").checked && pairs !== null });
    if (pairs && !byId("changes").checked) {
      const first = byId("ir").querySelector(".added, .removed");
      if (first) byId("ir").scrollTop = Math.max(0, first.offsetTop - byId("ir").offsetTop - 60);
    }
    this.key = "";
    if (byId("find").value) this.find(false);
  }

  find(next) {
    const text = byId("find").value, rows = this.view.find(text);
    this.at = next && this.key === text ? (this.at + 1) % Math.max(1, rows.length) : 0;
    this.key = text;
    byId("found").textContent = text ? (rows.length ? `${this.at + 1} of ${number(rows.length)}` : "none") : "";
    rows[this.at]?.scrollIntoView({ block: "center" });
  }

  light(line) {
    for (const [index, bar] of this.bars || []) bar.classList.toggle("lit", line > 0 && lineOf(this.steps[index]?.source) === line);
  }
}
