// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares what is shown with what was kept: what differs in what is computed, the schedule, the code, the model and the time.
import { ADDED, SAME, difference } from "./diff.js";
import { bytes, duration, make, number } from "./dom.js";
import { described } from "./state.js";

// What of a compilation is compared.
export function facts(problem, { hot, cost, moves, texts, stages, code, knobs }, ran) {
  const analysis = hot?.analysis, sum = (by) => Object.values(by).reduce((all, each) => all + each, 0);
  return {
    title: `${described(problem)} for ${problem.target}`,
    text: problem.text,
    asked: { computes: described(problem), target: problem.target, threads: problem.threads, ...Object.fromEntries((knobs || []).map((each) => [each.name, each.selected])) },
    code: {
      "lines of code": texts.texts[stages[code]]?.length,
      ...(hot ? { "hot loop, instructions": hot.instructions.length, ...hot.mix, spills: hot.stack, "operations an iteration": hot.flops } : {}),
      ...(cost ? { "registers a thread": cost.registers, spills: cost.spills, "shared memory, bytes": cost.shared_bytes, "threads a block": cost.threads, ...cost.mix } : {}),
    },
    model: {
      ...(analysis ? { "cycles an iteration": analysis.cycles, "of the multiply-add bound, %": analysis.percent, "instructions a cycle": analysis.ipc } : {}),
      ...Object.fromEntries(Object.entries(moves?.beyond || {}).map(([level, by]) => [level === "registers" ? "bytes accessed" : `bytes beyond ${level}`, sum(by)])),
    },
    time: { "time of a call": ran?.seconds },
  };
}

const shown = (name, value) => (value === undefined || value === null ? "–" : typeof value !== "number" ? value : /^time/.test(name) ? duration(value) : /^bytes/.test(name) ? bytes(value) : number(value, 2));
const ratio = (old, now) => (typeof old === "number" && typeof now === "number" && old > 0 && now > 0 && old !== now ? `× ${Number((now / old).toPrecision(3))}` : "");

function rows(title, old, now, all = true) {
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter((name) => (old[name] ?? now[name]) && (all || old[name] !== now[name]));
  if (!names.length) return [];
  return [make("tr", {}, make("th", { colspan: 4 }, title)), ...names.map((name) => make("tr", { class: old[name] === now[name] ? "soft" : "differs" }, make("td", {}, name),
    make("td", { class: "right" }, shown(name, old[name])), make("td", { class: "right" }, shown(name, now[name])), make("td", { class: "right" }, ratio(old[name], now[name]))))];
}

// A table of both, and the lines of the schedule that differ.
export function compared(old, now) {
  const lines = (text) => text.split("\n").map((each) => ({ text: each }));
  const pairs = difference(lines(old.text), lines(now.text)), changed = pairs?.filter(([kind]) => kind !== SAME);
  return [
    make("p", { class: "soft" }, `Kept: ${old.title}.`),
    make("div", { class: "scroll" }, make("table", { class: "compared" }, make("tr", {}, make("th", {}), make("th", { class: "right" }, "kept"), make("th", { class: "right" }, "this"), make("th", {})),
      rows("Asked", old.asked, now.asked, false), rows("Code", old.code, now.code), rows("Model", old.model, now.model), rows("Measured", old.time, now.time))),
    make("p", { class: "soft" }, "Times were taken one after the other: a few percent are noise."),
    make("h3", {}, "Schedule"),
    changed?.length === 0 ? make("p", { class: "soft" }, "The same lines.") : null,
    changed === undefined ? make("p", { class: "soft" }, "Nearly every line is another.") : null,
    changed?.length ? make("div", { class: "code lines" }, changed.map(([kind, line]) => make("div", { class: `row ${kind === ADDED ? "added" : "removed"}` },
      make("span", { class: "sign" }, kind === ADDED ? "+" : "−"), make("span", { class: "text" }, line.text)))) : null,
  ];
}
