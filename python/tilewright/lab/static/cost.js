// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the code costs: the hot loop's instructions and ports by llvm-mca, or what a GPU's kernel takes.
import { bytes, make, number, plural } from "./dom.js";
import { colored } from "./highlight.js";
import { lineOf } from "./link.js";

export function tile(value, label, quality) {
  return make("div", { class: `tile ${quality || ""}` }, make("b", {}, value), make("span", {}, label));
}

// A bar for each row; with `limit`, those that are as long as `most` stand out.
export function bars(rows, most, unit, limit) {
  return make("table", { class: "bars" }, rows.map(([name, value, text]) => make("tr", {}, make("td", {}, name), make("td", { class: "right" }, text || `${number(value)} ${unit}`),
    make("td", {}, make("div", { class: "track" }, make("div", { class: limit && value >= 0.97 * most ? "full" : null, style: `width: ${Math.min(100, (100 * value) / (most || 1))}%` }))))));
}

// The tiles above the views.
export function costTiles(answer) {
  const hot = answer.hot, analysis = hot?.analysis, cost = answer.cost;
  if (cost) {
    return [tile(cost.registers, "registers a thread"), tile(cost.spills, "spills", cost.spills ? "bad" : "good"),
      tile(bytes(cost.shared_bytes), "shared memory a block"), tile(cost.threads, "threads a block")];
  }
  if (!hot) return [];
  const products = hot.tiles || hot.fma || hot.multiplies;
  return [
    answer.count ? tile(number(answer.count.kernel), "instructions a call, in the emulator") : null,
    answer.count?.openblas ? tile(number(answer.count.kernel / answer.count.openblas, 2), `of the instructions of OpenBLAS ${answer.count.version}`) : null,
    analysis ? tile(`${number(analysis.percent, 0)} %`, "of the hot loop's bound", analysis.percent >= 90 ? "good" : analysis.percent < 50 ? "bad" : "") : null,
    analysis ? tile(number(analysis.cycles), "cycles an iteration") : null,
    tile(`${products} / ${hot.loads}`, `${hot.tiles ? "tile products" : hot.fma ? "multiply-adds" : "multiplications"} / loads`),
    tile(hot.stack, "spills", hot.stack ? "bad" : "good"),
  ].filter(Boolean);
}

export function hotLoop(answer) {
  const hot = answer.hot, analysis = hot?.analysis, mix = Object.entries(answer.cost?.mix || {});
  if (mix.length) {
    const most = Math.max(...mix.map(([, count]) => count));
    return [make("h3", {}, "Instructions of the kernel that multiply or copy"), bars(mix.map(([name, count]) => [name, count, String(count)]), most)];
  }
  if (!hot) return [make("p", { class: "soft" }, answer.note || "There is no loop with arithmetic, or this target's code is not analyzed.")];
  const kinds = Object.entries(hot.mix), total = hot.instructions.length;
  return [
    make("h3", {}, `${plural(total, "instruction")} in ${hot.label}, ${number(hot.flops)} operations an iteration`),
    make("div", { class: "stack" }, kinds.map(([name, count]) => make("div", { title: `${name}: ${count}`, style: `flex: ${count}; background: var(--${name})` }))),
    make("div", { class: "legend" }, kinds.map(([name, count]) => make("span", {}, make("span", { class: "dot", style: `background: var(--${name})` }), `${name} ${count}`))),
    answer.note ? make("p", { class: "soft" }, answer.note) : null,
    analysis ? [make("h3", {}, `Busy cycles of each port of ${number(analysis.cycles)} (${analysis.model})`),
      bars(Object.entries(analysis.pressure), analysis.cycles, "", true),
      make("p", { class: "soft" }, `${number(analysis.ipc, 2)} instructions a cycle, of ${analysis.width}. If nothing but multiply-adds cost time: ${number(analysis.bound)} cycles, by ${analysis.rates || "the target's row"}. ${analysis.notes.map((each) => `${each}.`).join(" ")}`)] : null,
    make("h3", {}, "Instructions"),
    make("table", { class: "costs" }, make("tr", {}, make("th", {}, ""), make("th", {}, "instruction"), analysis ? [make("th", { class: "right" }, "latency"), make("th", { class: "right" }, "cycles")] : null),
      hot.instructions.map((each) => make("tr", { "data-line": lineOf(each.origin) || null }, make("td", {}, make("span", { class: "dot", style: `background: var(--${each.category})`, title: each.category })),
        make("td", {}, colored(` ${each.text}`, "asm")), analysis ? [make("td", { class: "right" }, String(each.latency)), make("td", { class: "right" }, number(each.throughput, 2))] : null))),
  ];
}
