// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for VS Code: loads the extension, opens a file, and prints what the extension says of it, as JSON.
// Arguments: the extension's folder, the file, the folder of programs, a line (from 0), a column, and the problem's arguments.
"use strict";
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");

const [, , extension, file, folder, line, column, ...problem] = process.argv;
const found = { errors: [], shown: [] };
const listeners = {}, commands = {}, providers = {};
const uri = (text) => ({
  toString: () => text,
  scheme: text.split(":")[0],
  fsPath: text.replace(/^file:\/\//, ""),
});
const text = fs.readFileSync(file, "utf8");
const document = {
  uri: uri(`file://${file}`),
  languageId: file.endsWith(".py") ? "python" : "mlir",
  version: 1,
  getText: (range) => (range ? text.split("\n")[range.start.line].slice(range.start.character, range.end.character) : text),
  lineAt: (number) => ({ text: text.split("\n")[number] }),
  getWordRangeAtPosition(position, pattern) {
    for (const match of text.split("\n")[position.line].matchAll(new RegExp(pattern, "g"))) {
      const end = match.index + match[0].length;
      if (match.index <= position.character && position.character <= end) return new vscode.Range(position.line, match.index, position.line, end);
    }
    return undefined;
  },
  save: async () => true,
};
const on = (name) => (act) => ((listeners[name] = act), { dispose() {} });
const vscode = {
  workspace: {
    textDocuments: [document],
    getConfiguration: () => ({ get: (name) => ({ folder, problem })[name] }),
    getWorkspaceFolder: () => undefined,
    openTextDocument: async (address) => ({ uri: address, text: providers.content.provideTextDocumentContent(address) }),
    registerTextDocumentContentProvider: (scheme, provider) => ((providers.content = provider), { dispose() {} }),
    onDidOpenTextDocument: on("open"),
    onDidChangeTextDocument: on("change"),
    onDidCloseTextDocument: on("close"),
  },
  window: {
    activeTextEditor: { document, selection: { active: { line: Number(line), character: Number(column) } } },
    showErrorMessage: (message) => found.errors.push(message),
    showWarningMessage: (message) => found.errors.push(message),
    showTextDocument: async (made) => found.shown.push({ name: decodeURIComponent(made.uri.toString()), text: made.text }),
  },
  languages: {
    createDiagnosticCollection: () => ({ set: (_, all) => ((found.diagnostics = all), listeners.told && listeners.told()), delete() {}, dispose() {} }),
    registerHoverProvider: (_, provider) => ((providers.hover = provider), { dispose() {} }),
    registerDefinitionProvider: (_, provider) => ((providers.definition = provider), { dispose() {} }),
    setTextDocumentLanguage: async () => {},
  },
  commands: { registerCommand: (name, act) => ((commands[name] = act), { dispose() {} }) },
  ViewColumn: { Beside: -2 },
  Uri: { parse: uri },
  EventEmitter: class { constructor() { this.event = () => {}; } fire() {} },
  Range: class { constructor(a, b, c, d) { this.start = { line: a, character: b }; this.end = { line: c, character: d }; } },
  Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
  Location: class { constructor(where, range) { Object.assign(this, { where: where.toString(), range }); } },
  Hover: class { constructor(contents) { this.contents = contents; } },
  MarkdownString: class { constructor(value) { this.value = value; } },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function main() {
  const { activate } = require(path.resolve(extension, "extension.js"));
  const context = { subscriptions: [] };
  const diagnosed = new Promise((resolve) => (listeners.told = resolve));
  activate(context);
  const position = { line: Number(line), character: Number(column) };
  if (document.languageId === "mlir") {
    await diagnosed;
    found.definition = await providers.definition.provideDefinition(document, position);
  }
  const hover = await providers.hover.provideHover(document, position);
  found.hover = hover ? hover.contents.map((each) => each.value) : [];
  await commands["tilewright.showIr"]();
  await commands["tilewright.showAssembly"]();
  for (const each of context.subscriptions) each.dispose();
  process.stdout.write(JSON.stringify(found), () => process.exit(0));
}
main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
