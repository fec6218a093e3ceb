// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps what is asked in the address, after #, packed: a link is all that there is to share.

const format = "deflate-raw";

async function through(data, stream) {
  return new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(stream)).arrayBuffer());
}

function toText(data) {
  let binary = "";
  for (let at = 0; at < data.length; at += 0x8000) binary += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromText(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
}

export async function packed(value) {
  return toText(await through(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream(format)));
}

export async function unpacked(text) {
  return JSON.parse(new TextDecoder().decode(await through(fromText(text), new DecompressionStream(format))));
}

// What is computed, in a phrase.
export function described({ operator, fields: spec, shape, dtype, layout, epilogue, prologue_b }) {
  if (operator && operator !== "product") return `${operator} ${spec}`.trim();
  return [shape, dtype, layout, epilogue, prologue_b].filter(Boolean).join(" ");
}

// What the address says, or null.
export async function read() {
  if (location.hash.length < 2) return null;
  try {
    return await unpacked(location.hash.slice(1));
  } catch {
    return null;
  }
}

export async function write(value) {
  history.replaceState(null, "", `#${await packed(value)}`);
}
