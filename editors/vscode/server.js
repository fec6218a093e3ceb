// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A client of a language server: JSON-RPC with headers of lengths, over the standard input and output of a child process.
"use strict";
const { spawn } = require("node:child_process");

class Server {
  // `told` is called with the method and the parameters of what the server says by itself; `ended` when it cannot go on.
  constructor(program, told, ended) {
    this.waiting = new Map();
    this.last = 0;
    this.told = told;
    this.input = Buffer.alloc(0);
    this.child = spawn(program, [], { stdio: ["pipe", "pipe", "ignore"] });
    this.child.stdout.on("data", (data) => this.read(data));
    this.child.stdin.on("error", () => {});
    const end = (why) => {
      for (const { reject } of this.waiting.values()) reject(new Error(why));
      this.waiting.clear();
      if (!this.stopped) ended(why);
      this.stopped = true;
    };
    this.child.on("error", (error) => end(error.message));
    this.child.on("exit", (status) => end(`it ended with status ${status}`));
  }

  async start() {
    await this.request("initialize", { processId: process.pid, rootUri: null, capabilities: {} });
    this.notify("initialized", {});
  }

  request(method, params) {
    const id = ++this.last;
    const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.send({ id, method, params });
    return answer;
  }

  notify(method, params) {
    this.send({ method, params });
  }

  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.child.stdin.write(body);
  }

  read(data) {
    this.input = Buffer.concat([this.input, data]);
    for (;;) {
      const end = this.input.indexOf("\r\n\r\n");
      const found = end < 0 ? null : /content-length: *(\d+)/i.exec(this.input.toString("latin1", 0, end));
      if (!found || this.input.length < end + 4 + Number(found[1])) return;
      const body = this.input.subarray(end + 4, end + 4 + Number(found[1]));
      this.input = this.input.subarray(end + 4 + body.length);
      this.take(JSON.parse(body.toString()));
    }
  }

  take(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) return message.method && this.told(message.method, message.params);
    this.waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  }

  stop() {
    this.stopped = true;
    this.child.kill();
  }
}

module.exports = { Server };
