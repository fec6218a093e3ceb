// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The step-through of a trace in a notebook: a list of steps, and what the current one changed. Text is always text, never markup.

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function render({ model, el }) {
  const steps = model.get("steps");
  const go = (to) => {
    model.set("current", Math.max(0, Math.min(steps.length - 1, to)));
    model.save_changes();
  };
  const rows = steps.map((step, index) => {
    const row = make("button", { type: "button", title: `${step.stage}, ${step.time}` });
    row.append(make("span", { class: "number" }, step.number), step.name, make("span", { class: "source" }, step.source));
    row.addEventListener("click", () => go(index));
    return row;
  });
  const back = make("button", { type: "button", "aria-label": "The step before" }, "←");
  const on = make("button", { type: "button", "aria-label": "The next step" }, "→");
  back.addEventListener("click", () => go(model.get("current") - 1));
  on.addEventListener("click", () => go(model.get("current") + 1));
  const where = make("span", { class: "where", role: "status" });
  const code = make("div", { class: "code", tabindex: "0" });
  const list = make("div", { class: "list" }, ...rows);
  const frame = make("div", { class: "tilewright-steps" }, make("div", { class: "bar" }, back, on, where), list, code);
  if (model.get("error")) frame.prepend(make("div", { class: "error" }, model.get("error")));
  frame.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    go(model.get("current") + by);
  });
  const show = () => {
    const current = model.get("current");
    rows.forEach((row, index) => row.setAttribute("aria-current", String(index === current)));
    if (rows[current]) list.scrollTop = Math.max(0, rows[current].offsetTop - list.offsetTop - list.clientHeight / 2);
    where.textContent = steps.length ? `${current + 1} of ${steps.length}: ${model.get("title")}` : "No step changed the IR";
    back.disabled = current === 0;
    on.disabled = current >= steps.length - 1;
  };
  const fill = () => {
    const kinds = { "+": "added", "-": "removed", "@": "left-out", " ": "same" };
    code.replaceChildren(...model.get("lines").map(([sign, text]) => make("div", { class: kinds[sign] }, `${sign} ${text}`)));
  };
  show();
  fill();
  model.on("change:current", show);
  model.on("change:lines", fill);
  el.append(frame);
  return () => {
    model.off("change:current", show);
    model.off("change:lines", fill);
  };
}

export default { render };
