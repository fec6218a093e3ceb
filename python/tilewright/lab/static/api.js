// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks the server, which answers one question of a kind at a time for each page.

const token = new URLSearchParams(location.search).get("token") || "";
const id = crypto.randomUUID();
const asking = new Map();

async function request(path, options) {
  const answer = await fetch(path, { ...options, headers: { "x-token": token, "x-page": id, "content-type": "application/json" } });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

export const about = () => request("api/about");
export const page = async (data) => (await request("api/page", { method: "POST", body: data })).page;

// The answer, or null when a later question of the same kind has taken this one's place.
export async function ask(kind, problem) {
  asking.get(kind)?.abort();
  const control = new AbortController();
  asking.set(kind, control);
  try {
    return await request(`api/${kind}`, { method: "POST", body: JSON.stringify(problem), signal: control.signal });
  } catch (error) {
    if (error.name === "AbortError") return null;
    const what = `the server does not answer: ${error.message || error}`;
    return { error: { kind: "Server", what, text: what, line: null, expected: null, remedy: "See whether `tilewright lab` still runs; its next start has another address, but what is behind # in this one stays" } };
  }
}

export function forget(...kinds) {
  for (const kind of kinds) asking.get(kind)?.abort();
}
