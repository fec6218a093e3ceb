// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What was compiled before, the newest first, kept by the browser: each with what it came to, so that one can go back to the best.
import { byId, make, number } from "./dom.js";
import { described } from "./state.js";

const place = "history", most = 40;

export class History {
  // `chosen` is called with the problem of an entry that a person takes.
  constructor(chosen) {
    try {
      this.entries = JSON.parse(localStorage.getItem(place)) || [];
    } catch {
      this.entries = [];
    }
    byId(place).onchange = (event) => {
      const found = this.entries[Number(event.target.value)];
      event.target.value = "";
      if (found) chosen(found.problem);
    };
    this.show();
  }

  // A problem that compiled: it comes first, and is there once.
  add(problem, answer) {
    const same = JSON.stringify(problem), analysis = answer.hot?.analysis;
    const before = this.entries.find((each) => JSON.stringify(each.problem) === same);
    this.entries = [{ ...before, problem, at: Date.now(), percent: analysis ? analysis.percent : null }, ...this.entries.filter((each) => each !== before)].slice(0, most);
    this.keep();
  }

  // How fast it ran, and whether its numbers were right.
  ran(problem, ran, flops) {
    if (ran.error) return;
    const same = JSON.stringify(problem), found = this.entries.find((each) => JSON.stringify(each.problem) === same);
    if (!found) return;
    Object.assign(found, { rate: ran.seconds && flops ? flops / ran.seconds : null, right: ran.check.wrong === 0 });
    this.keep();
  }

  keep() {
    try {
      localStorage.setItem(place, JSON.stringify(this.entries));
    } catch {
      this.entries.length = Math.floor(this.entries.length / 2); // There is no more room.
    }
    this.show();
  }

  show() {
    const label = ({ problem, at, percent, rate, right }) => [
      new Date(at).toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
      `${described(problem)} ${problem.target}`,
      rate ? `${number(rate / 1e9)} GFLOP/s` : null,
      percent === null ? null : `${number(percent, 0)} % of the bound`,
      right === false ? "wrong numbers" : null,
    ].filter(Boolean).join(" · ");
    byId(place).replaceChildren(make("option", { value: "" }, "back to…"), ...this.entries.map((each, index) => make("option", { value: String(index) }, label(each))));
    byId(place).disabled = !this.entries.length;
  }
}
