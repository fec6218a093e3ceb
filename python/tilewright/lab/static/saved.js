// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the data of a page that is one file (`page.py`).
import { byId } from "./dom.js";
import { unpacked } from "./state.js";

const place = "saved";

export const isSaved = () => byId(place) !== null;

// What the file holds; null where the page is a server's.
export async function savedState() {
  return isSaved() ? unpacked(byId(place).textContent) : null;
}
