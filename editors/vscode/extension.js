// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The extension: what tilewright-lsp-server knows of MLIR, and what tilewright itself says of ops, steps and schedules.
"use strict";
const { execFile } = require("node:child_process");
const path = require("node:path");
const vscode = require("vscode");
const { Server } = require("./server.js");

const SCHEME = "tilewright";
const WORD = /(?:transform\.)?[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*/;
const MOST_BYTES = 1 << 28;

const settings = () => vscode.workspace.getConfiguration("tilewright");

function program(name, file) {
  const folder = settings().get("folder");
  if (!folder) return name;
  const workspace = file && vscode.workspace.getWorkspaceFolder(file);
  return path.resolve(workspace ? workspace.uri.fsPath : ".", folder, name);
}

// What `tilewright` prints for these arguments.
function run(args, file) {
  return new Promise((resolve, reject) => {
    execFile(program("tilewright", file), args, { maxBuffer: MOST_BYTES }, (error, out, said) => {
      if (!error) return resolve(out);
      const why = error.code === "ENOENT" ? "tilewright is not on the path: set tilewright.folder" : said.trim();
      reject(new Error(why || error.message));
    });
  });
}

// What a command shows, in an editor beside: texts by their addresses.
class Shown {
  constructor() {
    this.texts = new Map();
    this.changed = new vscode.EventEmitter();
    this.onDidChange = this.changed.event;
  }

  provideTextDocumentContent(uri) {
    return this.texts.get(uri.toString()) || "";
  }

  async show(name, text, language) {
    const uri = vscode.Uri.parse(`${SCHEME}:/${encodeURIComponent(name)}`);
    this.texts.set(uri.toString(), text);
    this.changed.fire(uri);
    const made = await vscode.workspace.openTextDocument(uri);
    if (language) await vscode.languages.setTextDocumentLanguage(made, language);
    await vscode.window.showTextDocument(made, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true, preview: true });
  }
}

// Runs `tilewright` on the schedule in the active editor, saved, and shows what it prints.
async function showSchedule(shown, what) {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !["mlir", "python"].includes(editor.document.languageId) || editor.document.uri.scheme !== "file") {
    return vscode.window.showErrorMessage("tilewright: open the file of a schedule, .mlir or .py");
  }
  await editor.document.save();
  const file = editor.document.uri;
  const line = editor.selection.active.line + 1;
  const base = path.basename(file.fsPath);
  try {
    const args = [...what.args(line), ...settings().get("problem"), "--schedule", file.fsPath];
    await shown.show(what.name(base, line), await run(args, file), what.language);
  } catch (error) {
    vscode.window.showErrorMessage(`tilewright: ${error.message.replace(/^tilewright: /, "")}`);
  }
}

const IR = {
  args: (line) => ["trace", "--line", String(line)],
  name: (base, line) => `${base} after line ${line}.mlir`,
  language: "mlir",
};
const ASSEMBLY = { args: () => ["compile", "--debug-info", "--emit", "asm", "-o", "-"], name: (base) => `${base}.s`, language: "" };

const rangeOf = ({ start, end }) => new vscode.Range(start.line, start.character, end.line, end.character);
const at = (document, position) => ({
  textDocument: { uri: document.uri.toString() },
  position: { line: position.line, character: position.character },
});

// Keeps a language server up to date with the open MLIR files, and hands on what it says.
function serve(context, documentation) {
  const diagnostics = vscode.languages.createDiagnosticCollection("mlir");
  const tellFailure = (why) => vscode.window.showWarningMessage(`tilewright-lsp-server: ${why}`);
  const server = new Server(
    program("tilewright-lsp-server"),
    (method, params) => {
      if (method !== "textDocument/publishDiagnostics") return;
      const found = params.diagnostics.map((each) => new vscode.Diagnostic(rangeOf(each.range), each.message, (each.severity || 1) - 1));
      diagnostics.set(vscode.Uri.parse(params.uri), found);
    },
    (why) => tellFailure(why),
  );
  const isMlir = (document) => document.languageId === "mlir";
  const opened = (document) =>
    isMlir(document) &&
    server.notify("textDocument/didOpen", {
      textDocument: { uri: document.uri.toString(), languageId: "mlir", version: document.version, text: document.getText() },
    });
  const started = server.start().then(() => vscode.workspace.textDocuments.forEach(opened), () => {});
  const later = (act) => (...args) => started.then(() => server.stopped || act(...args));
  context.subscriptions.push(
    diagnostics,
    { dispose: () => server.stop() },
    vscode.workspace.onDidOpenTextDocument(later(opened)),
    vscode.workspace.onDidChangeTextDocument(
      later(({ document }) => {
        if (!isMlir(document)) return;
        const textDocument = { uri: document.uri.toString(), version: document.version };
        server.notify("textDocument/didChange", { textDocument, contentChanges: [{ text: document.getText() }] });
      }),
    ),
    vscode.workspace.onDidCloseTextDocument(
      later((document) => {
        if (!isMlir(document)) return;
        server.notify("textDocument/didClose", { textDocument: { uri: document.uri.toString() } });
        diagnostics.delete(document.uri);
      }),
    ),
    vscode.languages.registerDefinitionProvider("mlir", {
      async provideDefinition(document, position) {
        const found = (await server.request("textDocument/definition", at(document, position)).catch(() => null)) || [];
        return [found].flat().map((each) => new vscode.Location(vscode.Uri.parse(each.uri), rangeOf(each.range)));
      },
    }),
    vscode.languages.registerHoverProvider(["mlir", "python"], {
      async provideHover(document, position) {
        const texts = [documentationAt(await documentation(), document, position)];
        if (isMlir(document)) {
          const said = await server.request("textDocument/hover", at(document, position)).catch(() => null);
          if (said && said.contents) texts.push(said.contents.value || String(said.contents));
        }
        const shown = texts.filter(Boolean).map((text) => new vscode.MarkdownString(text));
        return shown.length ? new vscode.Hover(shown) : null;
      },
    }),
  );
}

// The documentation of the op, the step or the knob under the cursor.
function documentationAt(known, document, position) {
  const range = document.getWordRangeAtPosition(position, WORD);
  if (!range) return "";
  const word = document.getText(range).replace(/^transform\./, "");
  const quoted = document.lineAt(position.line).text[range.start.character - 1] === '"';
  const isSize = word.length === 2;
  const text = known[word] || (document.languageId === "python" && known[`steps.${word.split(".").pop()}`]);
  return text && (!isSize || quoted) ? `**${word}**\n\n${text}` : "";
}

function activate(context) {
  const shown = new Shown();
  let known;
  const documentation = () => (known = known || run(["describe", "--json"]).then(JSON.parse, () => ({})));
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, shown),
    vscode.commands.registerCommand("tilewright.showIr", () => showSchedule(shown, IR)),
    vscode.commands.registerCommand("tilewright.showAssembly", () => showSchedule(shown, ASSEMBLY)),
  );
  serve(context, documentation);
}

module.exports = { activate, deactivate() {} };
