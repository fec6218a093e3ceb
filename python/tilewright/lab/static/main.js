// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page: what is asked, and when; the panes show the answers.
import { about, ask, forget, page } from "./api.js";
import { Code } from "./code.js";
import { byId, bytes, duration, make } from "./dom.js";
import { Editor } from "./editor.js";
import { History } from "./history.js";
import { Knobs } from "./knobs.js";
import { lineOf } from "./link.js";
import { savedState } from "./saved.js";
import * as state from "./state.js";
import { Steps } from "./steps.js";

const wait = 150, small = 5e9;
const fields = ["operator", "fields", "shape", "dtype", "layout", "epilogue", "prologue_b", "target"];
const defaults = { operator: "product", fields: "", shape: "512x480x512", dtype: "f32", layout: "nn", epilogue: "", prologue_b: "", target: "host", beta: 0, threads: 1, knobs: {} };

const speeds = new Map(); // By target and threads, what was asked of the machine's bandwidths.

let facts, editor, knobs, steps, code, past, timer, asked = 0;

function problem() {
  const product = Object.fromEntries(fields.map((each) => [each, byId(each).value.trim()]));
  return { ...product, beta: Number(byId("beta").value), threads: Number(byId("threads").value) || 1, language: byId("language").value, text: editor.text, knobs: knobs.chosen };
}

function put(given) {
  const all = { ...defaults, ...given };
  for (const each of fields) byId(each).value = all[each];
  byId("beta").value = String(all.beta);
  byId("threads").value = String(all.threads);
  byId("language").value = editor.language = all.language;
  editor.text = all.text;
  knobs.chosen = { ...all.knobs };
  arrange(all.operator);
}

// What is asked of a product, of an operator and of a module; the strategies that there are for the target.
function arrange(operator) {
  const isModule = operator === "module";
  for (const each of document.querySelectorAll(".of-product")) each.hidden = operator !== "product";
  document.querySelector(".fields").hidden = operator === "product" || isModule;
  byId("edited").textContent = isModule ? "Module" : "Schedule";
  byId("language").disabled = byId("strategy").disabled = isModule;
  if (!facts) return;
  const kind = facts.targets.find((each) => each.name === byId("target").value)?.kind;
  const ours = operator === "product" ? Object.entries(facts.strategies[kind] || {}) : [];
  byId("strategy").replaceChildren(option("", "take one of ours…"), option("chosen", `the one chosen for this ${operator}`), ...ours.map(([name, purpose]) => option(name, `${name}: ${purpose}`)));
}

function status(text, busy) {
  byId("status").textContent = text;
  byId("status").classList.toggle("busy", Boolean(busy));
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(compile, wait);
}

function showError(error) {
  const place = byId("error");
  place.hidden = !error;
  editor.wrong = error?.line || 0;
  editor.mark();
  byId("shape").setAttribute("aria-invalid", String(/extent|shape/.test(error?.kind === "SpecError" ? error.what : "")));
  if (!error) return;
  const rest = [error.expected && `Expected ${error.expected}.`, error.remedy && `${error.remedy}.`].filter(Boolean).join(" ");
  place.replaceChildren(error.line ? make("button", { type: "button", onclick: () => editor.goTo(error.line) }, `line ${error.line}`) : "", error.line ? ": " : "",
    error.stage ? `stage ${error.stage}: ` : "", error.what, error.op ? ` (${error.op})` : "", rest ? make("small", {}, rest) : "");
}

async function compile() {
  clearTimeout(timer);
  const wanted = problem(), mine = ++asked;
  state.write(wanted);
  forget("trace", "run", "machine");
  status("compiling", true);
  byId("ir-pane").setAttribute("aria-busy", "true");
  const start = performance.now(), answer = await ask("compile", wanted);
  if (answer === null || mine !== asked) return;
  const took = (performance.now() - start) / 1e3;
  byId("printed").hidden = !answer.printed;
  byId("printed").textContent = answer.printed || "";
  showError(answer.error);
  byId("stale").hidden = !answer.error || !code.answer;
  if (!answer.error) {
    code.takeNumbers(null, false);
    code.take(answer, wanted);
    knobs.show(answer.knobs);
    made(answer.texts);
    past.add(wanted, answer);
    status(`assembly in ${duration(took)}`);
    if (answer.flops && answer.flops < small && wanted.target === "host") run(wanted, mine);
    if (answer.cubin) machine(answer, wanted, mine);
  } else status("failed");
  const trace = await ask("trace", wanted);
  if (trace === null || mine !== asked) return;
  byId("ir-pane").setAttribute("aria-busy", "false");
  byId("stale-steps").hidden = Boolean(trace.steps) || !steps.trace;
  if (!trace.steps) {
    if (!steps.trace) steps.clear("There are no steps: the schedule did not begin.");
    return;
  }
  steps.take(trace);
  if (!answer.error) made(answer.texts, trace.texts);
}

// NVIDIA's machine code, which comes behind the rest: its disassembler takes long to start.
async function machine(answer, wanted, mine) {
  const made = await ask("machine", { cubin: answer.cubin, target: wanted.target });
  delete answer.cubin;
  if (made === null || mine !== asked) return;
  if (made.error) answer.note = `The machine code is missing: ${made.error.text}`;
  else {
    const { texts } = answer, first = texts.lines.length, known = new Map(texts.sources.map((place, at) => [place, at]));
    for (const [line, place] of made.lines) {
      if (!known.has(place)) known.set(place, texts.sources.push(place) - 1);
      texts.lines.push([line, known.get(place)]);
    }
    answer.stages.sass = texts.texts.push(made.lines.map((_, at) => first + at)) - 1;
    answer.code = "sass";
    answer.cost.mix = made.mix;
  }
  code.take(answer, wanted);
}

async function run(wanted, mine) {
  code.takeNumbers(null, true);
  const ran = await ask("run", wanted);
  if (ran === null || mine !== asked) return;
  code.takeNumbers(ran, false);
  past.ran(wanted, ran, code.answer?.flops);
  if (!ran.peak || !code.answer?.moves) return;
  const measured = await bandwidths(wanted);
  if (mine !== asked || !measured) return;
  Object.assign(ran, measured.error ? { missing: measured.error.text } : { speeds: measured.speeds });
  code.takeNumbers(ran, false);
}

// What this machine reads from each level of memory, measured once for a target and so many threads.
async function bandwidths(wanted) {
  const key = `${wanted.target} ${wanted.threads}`;
  if (!speeds.has(key)) speeds.set(key, ask("speeds", wanted));
  const found = await speeds.get(key);
  if (!found || found.error) speeds.delete(key);
  return found;
}

async function takeStrategy(name) {
  status("writing its schedule", true);
  const answer = await ask("text", { ...problem(), strategy: name === "chosen" ? "" : name, text: "" });
  if (answer === null) return;
  if (answer.error) {
    showError(answer.error);
    status("failed");
    return;
  }
  put({ ...problem(), language: "mlir", text: answer.text, knobs: {} });
  compile();
}

function option(value, text) {
  return make("option", { value }, text);
}

function menus() {
  const groups = { start: "To start with", operators: "Operators and modules", lessons: "Lessons, from naive loops to packed panels", strategies: "Strategies of ours", gpus: "Strategies for GPUs", targets: "Other machines", broken: "Broken ones, to mend" };
  const named = facts.examples.map((each) => ({ ...each, value: each.name }));
  byId("example").replaceChildren(option("", "choose…"), ...Object.entries(groups).map(([group, label]) => {
    const inside = named.filter((each) => each.group === group);
    return inside.length ? make("optgroup", { label }, inside.map((each) => option(each.value, each.title))) : null;
  }).filter(Boolean));
  byId("operator").replaceChildren(...facts.kinds.map((each) => option(each, each)));
  byId("target").replaceChildren(...facts.targets.map((each) => option(each.name, each.name === "host" ? "host (this machine)" : each.name)));
}

function takeExample(name) {
  const found = facts.examples.find((each) => each.name === name);
  if (!found) return;
  code.clear();
  steps.clear();
  knobs.show([]);
  byId("stale-steps").hidden = true;
  const product = { ...found.product, threads: Number(found.product.threads || 1), beta: Number(found.product.beta || 0) };
  if (found.strategy) {
    put({ ...product, language: "mlir", text: "" });
    takeStrategy(found.strategy);
  } else {
    put({ ...product, language: found.language, text: found.text });
    compile();
  }
}

function panes() {
  const names = [["schedule-pane", "Schedule"], ["ir-pane", "IR"], ["code-pane", "Code"]];
  const choose = (name) => names.forEach(([each]) => {
    byId(each).classList.toggle("shown", each === name);
    byId(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    if (each === name && each === "code-pane") code?.goToHotLoop();
  });
  byId("tabs").replaceChildren(...names.map(([name, title]) => make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name, onclick: () => choose(name) }, title)));
  choose("schedule-pane");
}

function theme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => { root.dataset.theme = localStorage.getItem("theme") || (dark.matches ? "dark" : "light"); };
  dark.onchange = system;
  system();
  byId("theme").onclick = () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  };
}

async function share() {
  await state.write(problem());
  await navigator.clipboard.writeText(location.href.replace(/\?token=[^#]*/, ""));
  status("link copied, without your token");
}

// One file that needs no server: the page with all that is shown in it.
async function save() {
  if (!code.answer || !steps.trace) {
    status("nothing to save: it has to compile first");
    return;
  }
  const asks = problem(), title = `${state.described(asks)} for ${asks.target}`;
  status("saving", true);
  const file = await page(await state.packed({ problem: { ...asks, title }, answer: code.answer, trace: steps.trace, ran: code.ran }));
  make("a", { href: URL.createObjectURL(new Blob([file], { type: "text/html" })), download: "tilewright-lab.html" }).click();
  status(`saved, ${bytes(file.length)}`);
}

// Shows what a file holds that `save` wrote, or `tilewright explain`.
function showSaved({ problem: saved, answer, trace, ran }) {
  document.documentElement.classList.add("static");
  byId("title").hidden = false;
  byId("title").textContent = document.title = saved.title;
  document.querySelector("#editor textarea").readOnly = true;
  put(saved);
  code.take(answer, saved);
  code.takeNumbers(ran, false);
  knobs.show(answer.knobs);
  for (const each of document.querySelectorAll("#knobs input")) each.disabled = true;
  steps.take({ ...trace, texts: trace.texts || answer.texts });
  made(answer.texts, steps.texts);
  byId("isolation").textContent = trace.left_out || "";
}

// Marks the lines of the schedule that made something in one of these texts.
function made(...texts) {
  editor.made = new Set(texts.flatMap((each) => each.sources.map(lineOf)));
  editor.mark();
}

function listen() {
  for (const each of [...fields, "beta", "threads"]) byId(each).addEventListener("input", changed);
  for (const each of ["operator", "target"]) byId(each).addEventListener("input", () => arrange(byId("operator").value));
  byId("product").onsubmit = (event) => { event.preventDefault(); compile(); };
  byId("language").onchange = (event) => { editor.language = event.target.value; editor.show(); changed(); };
  byId("example").onchange = (event) => { takeExample(event.target.value); event.target.value = ""; };
  byId("strategy").onchange = (event) => { takeStrategy(event.target.value); event.target.value = ""; };
  byId("run").onclick = () => run(problem(), asked);
  byId("keep").onclick = () => code.keep();
  byId("share").onclick = share;
  byId("export").onclick = save;
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(problem(), asked); }
    if (event.altKey && (event.key === "ArrowLeft" || event.key === "ArrowRight")) { event.preventDefault(); steps.turn(event.key === "ArrowLeft" ? -1 : 1); }
  });
}

async function start() {
  theme();
  panes();
  editor = new Editor(byId("editor"), changed);
  knobs = new Knobs(changed);
  steps = new Steps();
  code = new Code();
  const kept = await savedState();
  if (kept) {
    showSaved(kept);
    return;
  }
  past = new History((problem) => { put(problem); compile(); });
  listen();
  status("starting", true);
  try {
    facts = await about();
  } catch (error) {
    status(`the server does not answer: ${error.message}`);
    return;
  }
  byId("isolation").textContent = `Schedules run in processes of their own: ${facts.isolation}; at most ${facts.limits.seconds} s and ${facts.limits.memory_mb} MiB.`;
  menus();
  const saved = await state.read();
  if (saved) {
    put(saved);
    compile();
  } else takeExample(facts.examples[0].name);
}

start();
