// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What running the kernel gave: its time, its share of the peak, and whether its numbers are right.
import { tile } from "./cost.js";
import { duration, make, number } from "./dom.js";

export function numberTiles(answer, ran) {
  if (!ran || ran.error) return ran?.error ? [tile("✗", "not run, see Numbers", "bad")] : [];
  const right = ran.check.wrong === 0;
  const percent = ran.peak && answer.flops ? (100 * answer.flops) / ran.seconds / ran.peak : null;
  return [
    ran.seconds ? (answer.flops ? tile(`${number(answer.flops / ran.seconds / 1e9)}`, "GFLOP/s") : tile(duration(ran.seconds), "measured")) : null,
    percent !== null ? tile(`${number(percent, 0)} %`, "of the peak", percent >= 80 ? "good" : "") : null,
    tile(right ? "✓" : "✗", right ? "numbers are right" : "numbers are wrong", right ? "good" : "bad"),
  ].filter(Boolean);
}

export function numbers(answer, ran, busy) {
  if (busy) return [make("p", { class: "soft" }, "The kernel runs …")];
  if (!ran) return [make("p", { class: "soft" }, "Run the kernel to see its time, and whether its numbers are right. Kernels for other machines run in the emulator, where that is installed.")];
  if (ran.error) return [make("p", {}, ran.error.text)];
  const check = ran.check, rows = [
    ["run by", ran.runner],
    ["call", check.call + (ran.calls > 1 ? `, the worst of ${ran.calls}` : "")],
    ...(ran.seconds ? [["time of a call", `${duration(ran.seconds)}, the median of 5 samples of ${ran.repeats} calls`], ...(answer.flops ? [["rate", `${number(answer.flops / ran.seconds / 1e9)} GFLOP/s`]] : [])] : []),
    ...(ran.peak ? [["measured peak", `${number(ran.peak / 1e9)} GFLOP/s, a loop of multiply-adds in registers`]] : []),
    ["elements compared", check.elements ? number(check.elements) : check.text || "those of all results, with loops over elements"],
    ["wrong", number(check.wrong)],
    ...(check.elements ? [["largest error", `${number(check.worst, 4)} of its bound`], ["relative error", check.relative.toExponential(2)]] : []),
  ];
  return [make("h3", {}, "On random operands"), make("table", {}, rows.map(([name, value]) => make("tr", {}, make("td", { class: "soft" }, name), make("td", {}, value)))),
    check.wrong ? make("p", {}, check.text) : null];
}
