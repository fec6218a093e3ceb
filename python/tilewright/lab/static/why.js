// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why a kernel is as fast as it is: its time beside what each part of the machine would take, what its loops move, and the roofline.
import { bars } from "./cost.js";
import { bytes, draw, duration, make, number } from "./dom.js";

const apart = 0.15;

export function why(answer, ran) {
  const moves = answer.moves;
  if (!moves) return [make("p", { class: "soft" }, "What the loops move is not known: the kernel has no loops, or dynamic extents, or code of several kinds.")];
  return [...times(answer, ran), ...nest(moves), ...moved(moves, ran), ran?.peak && answer.flops ? [make("h3", {}, "Roofline"), roofline(answer, ran)] : null];
}

// What each part of the machine takes, if the others cost nothing, and what all takes; null where it did not run here.
export function seconds(answer, ran) {
  const { moves, hot, flops } = answer;
  if (moves.seconds) return moves.seconds;
  if (!ran?.seconds) return null;
  const predicted = {};
  if (ran.peak && flops && hot?.analysis) predicted.ports = flops / ran.peak / (hot.analysis.percent / 100);
  for (const [level, moved] of Object.entries(moves.from)) if (ran.speeds?.[level]) predicted[level] = moved / (ran.speeds[level] * 1e9);
  return Object.keys(predicted).length ? { predicted, measured: ran.seconds } : null;
}

function times(answer, ran) {
  const found = seconds(answer, ran), title = make("h3", {}, "Time of a call: what each part would take alone, and what it takes");
  if (!found) return [title, make("p", { class: "soft" }, "Run the kernel on this machine to see its time beside the model's.")];
  const { predicted, measured } = found, model = answer.hot?.analysis?.model;
  const [slowest, most] = Object.entries(predicted).reduce((one, other) => (other[1] > one[1] ? other : one));
  const off = Math.abs(measured - most) / measured, parts = Object.entries(predicted).map(([name, each]) => [name, each, duration(each)]);
  const missing = ran?.seconds && !ran.speeds && !answer.moves.seconds ? ` ${ran.missing || "The bandwidths of this machine are being measured."}` : "";
  const verdict = off <= apart ? `That is the time of ${slowest}, within ${number(100 * apart, 0)} %.`
    : measured > most ? `It takes ${number(measured / most, 2)} times as long as ${slowest}, its slowest part: the parts do not overlap, or something costs time that is not modeled, or the machine did something else.`
      : `It takes ${number(measured / most, 2)} of the time of ${slowest}: the model has that part cost too much.`;
  return [title, bars([...parts, ["measured", measured, duration(measured)]], Math.max(measured, most)),
    make("p", { class: off > apart ? "apart" : "soft", id: "verdict" }, off > apart ? make("b", {}, `Model and measurement part by ${number(100 * off, 0)} %. `) : null, verdict, missing),
    make("p", { class: "soft" }, `ports: the hot loop by llvm-mca${model ? ` (${model})` : ""} at the measured peak. Caches and memory: the bytes below, at the bandwidths that this machine reaches when it only reads.`)];
}

function nest(moves) {
  return [
    make("h3", {}, "What an iteration of each loop touches, each byte once, and what the next one uses again"),
    make("div", { class: "nest" }, moves.loops.map((loop) => make("div", { style: `margin-left: ${loop.depth * 0.9}rem` }, make("span", { class: "tag" }, loop.name),
      loop.shares.length ? ` ${number(Math.min(...loop.shares), 2)} to ${number(Math.max(...loop.shares), 2)} tiles each ` : ` by ${loop.step}, ${number(loop.trips, 2)} times `,
      make("span", { class: "soft" }, `${Object.entries(loop.touched).filter(([, count]) => count >= 1).map(([name, count]) => `${name} ${bytes(count)}`).join(", ")}; ${bytes(loop.moved)} in all`),
      loop.reused.length ? make("span", { class: "again" }, ` ↻ ${loop.reused.join(", ")} from ${loop.fits}`) : null))),
  ];
}

function levelsOf(moves) {
  return Object.entries(moves.beyond).map(([level, by]) => [level, Object.values(by).reduce((sum, each) => sum + each, 0), by]);
}

// What the processor's counters said of a call, or why they said nothing.
function told(ran) {
  const found = ran?.counted;
  if (!found) return ran?.not_counted ? `The processor's own counters are missing: ${ran.not_counted}.` : "";
  return `Counted by the processor in a call: ${number(found.cycles, 0)} cycles, ${number(found.instructions, 0)} instructions, ${number(found.instructions / found.cycles, 2)} a cycle.`;
}

function moved(moves, ran) {
  const counted = ran?.counted?.beyond;
  const levels = levelsOf(moves), label = (level) => (level === "registers" ? "all" : `beyond ${level}`);
  return [
    make("h3", {}, "What a call moves"),
    make("div", { class: "scroll" }, make("table", { class: "moved" }, make("tr", {}, make("th", {}), levels.map(([level]) => make("th", { class: "right" }, label(level)))),
      Object.keys(moves.buffers).map((name) => make("tr", {}, make("td", {}, name), levels.map(([, , by]) => make("td", { class: "right" }, bytes(by[name] || 0))))),
      make("tr", { class: "sum" }, make("td", {}, "sum"), levels.map(([, sum]) => make("td", { class: "right" }, bytes(sum)))),
      counted ? make("tr", { id: "counted" }, make("td", {}, "counted"), levels.map(([level]) => make("td", { class: "right" }, level in counted ? bytes(counted[level]) : ""))) : null)),
    make("p", { class: "soft" }, `By footprints, with ${Object.entries(moves.caches).map(([level, size]) => `${level} of ${bytes(size)}`).join(", ")}. A cache serves a repetition where all that one iteration touches fits into it.`),
    told(ran) ? make("p", { class: "soft", id: "told" }, told(ran)) : null,
  ];
}

// Rate over intensity, both logarithmic: the measured peak and bandwidths, the kernel's rate, and its intensity at each level.
function roofline(answer, ran) {
  const width = 520, height = 250, left = 46, bottom = 28, right = 12, top = 16;
  const rate = answer.flops / ran.seconds, at = new Map(), base = ran.peak / 300;
  for (const [level, sum] of levelsOf(answer.moves)) at.set(answer.flops / Math.max(sum, 1), [...(at.get(answer.flops / Math.max(sum, 1)) || []), level === "registers" ? "all" : `beyond ${level}`]);
  const marks = [...at].map(([intensity, names]) => [names.join(", "), intensity]);
  const low = Math.min(0.25, ...marks.map(([, each]) => each / 2)), high = Math.max(256, ...marks.map(([, each]) => each * 2));
  const x = (value) => left + ((width - left - right) * Math.log(value / low)) / Math.log(high / low);
  const y = (value) => top + (height - top - bottom) * (1 - Math.log(value / base) / Math.log(500));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "roofline", role: "img", "aria-label": `The kernel reaches ${(100 * rate / ran.peak).toFixed(0)} percent of the measured peak` });
  const text = (at, up, value, anchor = "middle") => svg.append(draw("text", { x: at, y: up, "text-anchor": anchor }, value));
  const line = (x1, y1, x2, y2, color, dash) => svg.append(draw("line", { x1, y1, x2, y2, stroke: `var(${color})`, "stroke-width": dash ? 1 : 2, ...(dash ? { "stroke-dasharray": "3 3" } : {}) }));
  line(left, height - bottom, width - right, height - bottom, "--line");
  line(left, top, left, height - bottom, "--line");
  line(left, y(ran.peak), width - right, y(ran.peak), "--accent");
  text(width - right, y(ran.peak) - 5, `measured peak, ${number(ran.peak / 1e9)} GFLOP/s`, "end");
  for (const [level, speed] of Object.entries(ran.speeds || {})) {
    const ridge = ran.peak / (speed * 1e9), foot = Math.max(low, base / (speed * 1e9)), from = foot * speed * 1e9;
    if (ridge <= foot || ridge >= high) continue;
    line(x(foot), y(from), x(ridge), y(ran.peak), "--accent");
    text(x(foot) + 3, y(from) - 4, level, "start");
  }
  marks.forEach(([level, intensity], index) => {
    line(x(intensity), y(rate), x(intensity), height - bottom, "--soft", true);
    svg.append(draw("circle", { cx: x(intensity), cy: y(rate), r: 4.5, fill: "var(--store)" }));
    text(x(intensity) + 5, height - bottom - 6 - 14 * (index % 3), level, x(intensity) > width - 120 ? "end" : "start");
  });
  text(left - 4, y(rate) + 4, number(rate / 1e9), "end");
  text((left + width) / 2, height - 6, "operations a byte");
  return svg;
}
