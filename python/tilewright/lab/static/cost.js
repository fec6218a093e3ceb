// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the code costs: the hot loop's instructions and ports by llvm-mca, what the loops move, and the roofline.
import { bytes, draw, duration, make, number, plural } from "./dom.js";
import { colored } from "./highlight.js";
import { lineOf } from "./link.js";

export function tile(value, label, quality) {
  return make("div", { class: `tile ${quality || ""}` }, make("b", {}, value), make("span", {}, label));
}

function bars(rows, most, unit) {
  return make("table", { class: "bars" }, rows.map(([name, value, text]) => make("tr", {}, make("td", {}, name), make("td", { class: "right" }, text || `${number(value)} ${unit}`),
    make("td", {}, make("div", { class: "track" }, make("div", { style: `width: ${Math.min(100, (100 * value) / (most || 1))}%` }))))));
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
    analysis ? tile(`${number(analysis.percent, 0)} %`, "of the multiply-add bound, hot loop", analysis.percent >= 90 ? "good" : analysis.percent < 50 ? "bad" : "") : null,
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
      bars(Object.entries(analysis.pressure), analysis.cycles, ""),
      make("p", { class: "soft" }, `${number(analysis.ipc, 2)} instructions a cycle, of ${analysis.width}. If nothing but multiply-adds cost time: ${number(analysis.bound)} cycles, by ${analysis.rates || "the target's row"}. ${analysis.notes.map((each) => `${each}.`).join(" ")}`)] : null,
    make("h3", {}, "Instructions"),
    make("table", { class: "costs" }, make("tr", {}, make("th", {}, ""), make("th", {}, "instruction"), analysis ? [make("th", { class: "right" }, "latency"), make("th", { class: "right" }, "cycles")] : null),
      hot.instructions.map((each) => make("tr", { "data-line": lineOf(each.origin) || null }, make("td", {}, make("span", { class: "dot", style: `background: var(--${each.category})`, title: each.category })),
        make("td", {}, colored(` ${each.text}`, "asm")), analysis ? [make("td", { class: "right" }, String(each.latency)), make("td", { class: "right" }, number(each.throughput, 2))] : null))),
  ];
}

export function memory(answer, ran) {
  const moves = answer.moves;
  if (!moves) return [make("p", { class: "soft" }, "What the loops move is not known: the kernel has no loops, or dynamic extents, or code of several kinds.")];
  const levels = Object.entries(moves.beyond).map(([level, by]) => [level, Object.values(by).reduce((sum, each) => sum + each, 0), by]);
  const label = (level) => (level === "registers" ? "all" : `beyond ${level}`);
  return [
    make("h3", {}, "What an iteration of each loop touches, each byte once"),
    make("div", { class: "nest" }, moves.loops.map((loop) => make("div", {}, "  ".repeat(loop.depth), make("span", { class: "tag" }, loop.name), loop.shares.length ? ` ${number(Math.min(...loop.shares), 2)} to ${number(Math.max(...loop.shares), 2)} tiles each  ` : ` by ${loop.step}, ${number(loop.trips, 2)} times  `,
      make("span", { class: "comment" }, Object.entries(loop.touched).filter(([, count]) => count >= 1).map(([name, count]) => `${name} ${bytes(count)}`).join(", "))))),
    make("h3", {}, "What a call moves"),
    make("div", { class: "scroll" }, make("table", { class: "moved" }, make("tr", {}, make("th", {}), levels.map(([level]) => make("th", { class: "right" }, label(level)))),
      Object.keys(moves.buffers).map((name) => make("tr", {}, make("td", {}, name), levels.map(([, , by]) => make("td", { class: "right" }, bytes(by[name] || 0))))),
      make("tr", {}, make("td", {}, "sum"), levels.map(([, sum]) => make("td", { class: "right" }, bytes(sum)))))),
    make("p", { class: "soft" }, `By footprints, with ${Object.entries(moves.caches).map(([level, size]) => `${level} of ${bytes(size)}`).join(", ")}. A cache serves a repetition where all that one iteration touches fits into it.`),
    moves.seconds ? [make("h3", {}, "Time of a call, if nothing else cost time"),
      bars([...Object.entries(moves.seconds.predicted), ["measured", moves.seconds.measured]].map(([name, each]) => [name, each, duration(each)]), Math.max(moves.seconds.measured, ...Object.values(moves.seconds.predicted)))] : null,
    ran?.peak && answer.flops ? [make("h3", {}, "Roofline"), roofline(answer, levels, ran)] : null,
  ];
}

// Rate over intensity, both logarithmic: the measured peak, the kernel's rate, and its intensity at each level.
function roofline(answer, levels, ran) {
  const width = 520, height = 230, left = 46, bottom = 28, right = 12, top = 16;
  const rate = answer.flops / ran.seconds, at = new Map();
  for (const [level, sum] of levels) at.set(answer.flops / Math.max(sum, 1), [...(at.get(answer.flops / Math.max(sum, 1)) || []), level]);
  const marks = [...at].map(([intensity, names]) => [names.join(", "), intensity]);
  const low = Math.min(0.25, ...marks.map(([, each]) => each / 2)), high = Math.max(256, ...marks.map(([, each]) => each * 2));
  const x = (value) => left + ((width - left - right) * Math.log(value / low)) / Math.log(high / low);
  const y = (value) => top + (height - top - bottom) * (1 - Math.log(value / (ran.peak / 300)) / Math.log(500));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "roofline", role: "img", "aria-label": `The kernel reaches ${(100 * rate / ran.peak).toFixed(0)} percent of the measured peak` });
  const text = (at, up, value, anchor = "middle") => svg.append(draw("text", { x: at, y: up, "text-anchor": anchor }, value));
  const line = (x1, y1, x2, y2, color, dash) => svg.append(draw("line", { x1, y1, x2, y2, stroke: `var(${color})`, "stroke-width": dash ? 1 : 2, ...(dash ? { "stroke-dasharray": "3 3" } : {}) }));
  line(left, height - bottom, width - right, height - bottom, "--line");
  line(left, top, left, height - bottom, "--line");
  line(left, y(ran.peak), width - right, y(ran.peak), "--accent");
  text(width - right, y(ran.peak) - 5, `measured peak, ${number(ran.peak / 1e9)} GFLOP/s`, "end");
  marks.forEach(([level, intensity], index) => {
    line(x(intensity), y(rate), x(intensity), height - bottom, "--soft", true);
    svg.append(draw("circle", { cx: x(intensity), cy: y(rate), r: 4.5, fill: "var(--store)" }));
    text(x(intensity) + 5, height - bottom - 6 - 14 * (index % 3), level, x(intensity) > width - 120 ? "end" : "start");
  });
  text(left - 4, y(rate) + 4, number(rate / 1e9), "end");
  text((left + width) / 2, height - 6, "operations a byte that comes from beyond");
  return svg;
}
