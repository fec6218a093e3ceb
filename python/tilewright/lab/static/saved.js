// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the page with its data as one file, and reads the data back there.
import { byId } from "./dom.js";
import { packed, unpacked } from "./state.js";

const place = "saved";

// The page of `bundle.py` with what is to be shown, packed.
export async function savedPage(parts, shown) {
  const data = await packed(shown);
  return parts.html.replace("<!--styles-->", () => `<style>${parts.css}</style>`)
    .replace("<!--scripts-->", () => `<script type="text/plain" id="${place}">${data}</${"script"}>\n<script>${parts.js}</${"script"}>`);
}

// What the file holds; null where the page is a server's.
export async function savedState() {
  return byId(place) ? unpacked(byId(place).textContent) : null;
}
