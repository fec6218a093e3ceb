// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A slider for each knob of the schedule: upstream's transform.tune ops, whose options are its positions.
import { byId, make } from "./dom.js";

export class Knobs {
  constructor(changed) {
    this.chosen = {};
    this.changed = changed;
    this.known = "";
  }

  show(knobs) {
    const place = byId("knobs"), known = JSON.stringify(knobs.map((each) => [each.name, each.options]));
    place.hidden = !knobs.length;
    if (known === this.known) {
      knobs.forEach((each) => { this.set(each.name, each.options, each.selected); });
      return;
    }
    this.known = known;
    place.replaceChildren(...knobs.flatMap(({ name, options, selected }) => {
      const id = `knob-${name}`;
      return [make("label", { for: id }, name), make("input", { id, type: "range", min: 0, max: options.length - 1, step: 1, value: Math.max(0, options.indexOf(selected)), "aria-valuetext": String(selected),
        oninput: (event) => { const value = options[Number(event.target.value)]; this.chosen[name] = value; this.set(name, options, value); this.changed(); } }),
      make("output", { id: `${id}-value`, for: id }, String(selected))];
    }));
  }

  set(name, options, value) {
    const slider = byId(`knob-${name}`);
    if (document.activeElement !== slider) slider.value = options.indexOf(value);
    slider.setAttribute("aria-valuetext", String(value));
    byId(`knob-${name}-value`).textContent = String(value);
  }
}
