// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small editor: a text area without color of its own on top of colored lines with their numbers.
import { make } from "./dom.js";
import { colored, isOpen } from "./highlight.js";
import { light, onLight, pin } from "./link.js";

const indent = "    ";

export class Editor {
  constructor(place, changed) {
    this.language = "py";
    this.changed = changed;
    this.wrong = 0;
    this.made = new Set();
    this.texts = [];
    this.lines = make("div", { class: "lines", "aria-hidden": "true" });
    this.area = make("textarea", {
      "aria-label": "Schedule", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      oninput: () => { this.show(); this.changed(); },
      onkeydown: (event) => this.key(event),
      onkeyup: () => light(this.caretLine()),
      onclick: () => { if (this.area.selectionStart === this.area.selectionEnd) pin(this.caretLine()); },
      onmousemove: (event) => light(this.lineAt(event.clientY)),
      onmouseleave: () => light(0),
    });
    place.append(make("div", { class: "sheet" }, this.lines, this.area));
    this.place = place;
    onLight((line, scroll) => this.light(line, scroll));
  }

  get text() {
    return this.area.value;
  }

  set text(value) {
    this.area.value = value;
    this.wrong = 0;
    this.made = new Set();
    this.show();
  }

  // Draws again the lines that are no longer as they were.
  show() {
    const lines = this.area.value.split("\n");
    while (this.lines.children.length > lines.length) this.lines.lastChild.remove();
    let open = false;
    lines.forEach((text, at) => {
      const known = this.lines.children[at], wasOpen = open, key = `${this.language} ${wasOpen} ${text}`;
      open = this.language === "py" && isOpen(text, wasOpen);
      if (known && this.texts[at] === key) return;
      this.texts[at] = key;
      const row = make("div", { class: "line" }, make("span", { class: "at" }, String(at + 1)), make("span", { class: "text" }, colored(text, this.language, wasOpen)));
      if (known) known.replaceWith(row);
      else this.lines.append(row);
    });
    this.mark();
  }

  // Marks the line of an error, and those that made something.
  mark() {
    [...this.lines.children].forEach((row, at) => {
      row.classList.toggle("wrong", at + 1 === this.wrong);
      row.classList.toggle("made", this.made.has(at + 1));
    });
  }

  goTo(line) {
    const before = this.area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(before, before);
    this.lines.children[line - 1]?.scrollIntoView({ block: "center" });
  }

  light(line, scroll) {
    this.lines.querySelector(".lit")?.classList.remove("lit");
    const row = this.lines.children[line - 1];
    row?.classList.add("lit");
    if (scroll && row && document.activeElement !== this.area) row.scrollIntoView({ block: "nearest" });
  }

  caretLine() {
    return this.area.value.slice(0, this.area.selectionStart).split("\n").length;
  }

  lineAt(y) {
    const first = this.lines.firstChild;
    if (!first) return 0;
    const box = first.getBoundingClientRect(), line = Math.floor((y - box.top) / box.height) + 1;
    return line >= 1 && line <= this.lines.children.length ? line : 0;
  }

  // Tab indents, unless Escape came before it: the keyboard leads out of here too. Enter keeps the indentation.
  key(event) {
    const leaves = this.escaped;
    this.escaped = event.key === "Escape";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selectionStart: start, value } = this.area;
    if (event.key === "Tab" && !event.shiftKey && !leaves) {
      event.preventDefault();
      this.type(indent);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start);
      this.type(`\n${/^ */.exec(line)[0]}${/[:({[]$/.test(line) ? indent : ""}`);
    }
  }

  // Through the browser, whose undo then knows of it.
  type(text) {
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
      this.area.dispatchEvent(new Event("input"));
    }
  }
}
