// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Colors a line of code: one pattern a language, whose groups are named after the classes of the style sheet.
import { make } from "./dom.js";

const patterns = {
  mlir: /(?<comment>\/\/.*$)|(?<string>"(?:[^"\\]|\\.)*")|(?<value>%[\w$.-]+(?:[:#]\d+)?|\^\w+)|(?<symbol>@[\w$.]+|#[\w.]+)|(?<type>![\w.]+|\b(?:tensor|memref|vector|strided|affine_map|index|bf16|[iu]\d+|f\d+)\b(?!\.))|(?<op>\b[a-z_]\w*(?:\.[a-z_]\w*)+\b|\breturn\b|\bmodule\b)|(?<literal>-?\b\d[\d.]*(?:e[+-]?\d+)?\b|\b(?:true|false|dense)\b)/g,
  llvm: /(?<comment>;.*$)|(?<string>"(?:[^"\\]|\\.)*")|(?<value>%[\w$.-]+)|(?<symbol>@[\w$.]+|![\w.]+|#\d+)|(?<type>\b(?:ptr|void|label|i\d+|float|double|half|bfloat|metadata)\b)|(?<op>\b(?:define|declare|attributes|target|ret|br|switch|phi|select|call|tail|load|store|getelementptr|add|sub|mul|shl|lshr|ashr|and|or|xor|udiv|sdiv|urem|srem|icmp|fcmp|fadd|fsub|fmul|fdiv|fneg|zext|sext|trunc|bitcast|ptrtoint|inttoptr|insertelement|extractelement|shufflevector|extractvalue|insertvalue|alloca|unreachable|freeze|splat)\b)|(?<literal>-?\b\d[\d.]*(?:e[+-]?\d+)?\b|\b(?:true|false|zeroinitializer|poison|undef|null)\b)/g,
  asm: /(?<comment>(?:#|\/\/|;).*$)|(?<string>"(?:[^"\\]|\\.)*")|(?<symbol>^[\w.$]+:|\.L\w+)|(?<type>^\s*\.[\w.]+)|(?<op>^\s*[a-z]\w*)|(?<value>%\w+|\b[vzpxwq]\d+\b)|(?<literal>[$#]?-?\b(?:0x[\da-fA-F]+|\d+)\b)/g,
  py: /(?<comment>#.*$)|(?<string>[frb]?"""(?:.*?"""|.*$)|[frb]?"(?:[^"\\]|\\.)*"|[frb]?'(?:[^'\\]|\\.)*')|(?<op>\b(?:def|return|if|elif|else|for|while|in|not|and|or|is|with|as|import|from|class|lambda|yield|raise|try|except|finally|pass|break|continue|global|nonlocal|assert|del)\b)|(?<type>\b(?:None|True|False|self)\b|@\w+)|(?<symbol>\b\w+(?=\())|(?<literal>\b\d[\d_.]*(?:e[+-]?\d+)?\b)/g,
};

const quotes = '"""';

// Whether a string of several lines is open at the end of a line of Python, if it was, or was not, at its beginning.
export function isOpen(text, wasOpen) {
  return (text.split(quotes).length % 2 === 0) !== wasOpen;
}

// The parts of a line, which may begin in a string: text, and elements with a class.
export function colored(text, language, wasOpen = false) {
  const parts = [];
  let end = 0;
  if (wasOpen) {
    end = text.includes(quotes) ? text.indexOf(quotes) + quotes.length : text.length;
    return [make("span", { class: "string" }, text.slice(0, end)), ...colored(text.slice(end), language)];
  }
  for (const found of text.matchAll(patterns[language])) {
    if (found.index > end) parts.push(text.slice(end, found.index));
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    parts.push(make("span", { class: kind }, found[0]));
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}
