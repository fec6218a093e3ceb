// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the page with its data as one file, and reads the data back there.
import { byId } from "./dom.js";
import { packed, unpacked } from "./state.js";

const place = "saved";

// The page of `bundle.py` with what is to be shown, packed.
export async function savedPage({ page, place: at }, shown) {
  const data = await packed(shown);
  return page.replace(at, () => data);
}

export const isSaved = () => byId(place) !== null;

// What the file holds; null where the page is a server's.
export async function savedState() {
  return isSaved() ? unpacked(byId(place).textContent) : null;
}
