# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fonts whose letters are boxes: a page that is set in them looks the same on every machine, whatever fonts that has.

Their widths and heights are about those of usual fonts, so that lines break and boxes grow as they would.
"""

from __future__ import annotations

import base64
import importlib
import io
from typing import Any

_UNITS = 1000
_MONO = 600
_NARROW, _WIDE = "iIjlftr.,:;'|!()[]{} `", "mwMW@%—→←"
_WIDTHS = {**dict.fromkeys(_NARROW, 330), **dict.fromkeys(_WIDE, 880)}
_USUAL = 590
_CHARACTERS = [*map(chr, range(0x20, 0x7F)), *map(chr, range(0xA0, 0x400)), *map(chr, range(0x2000, 0x2C00))]
_ASCENDS, _DESCENDS, _LOW, _MIDDLE = "bdfhkltij", "gpqyj,;", ".,_", "-–—=+~"


def css() -> str:
    """Makes a page use them, and stand still."""
    faces = "".join(
        f'@font-face {{ font-family: {name}; src: url("data:font/ttf;base64,{base64.b64encode(_font(name, mono)).decode()}"); }}\n'
        for name, mono in (("Boxes", False), ("BoxesMono", True))
    )
    return faces + (
        ":root { --mono: BoxesMono !important; }\n"
        "body, svg, svg text { font-family: Boxes !important; }\n"
        "* { transition: none !important; animation: none !important; caret-color: transparent !important; }\n"
    )


def _font(name: str, mono: bool) -> bytes:
    """A font file."""
    builder_of: Any = importlib.import_module("fontTools.fontBuilder").FontBuilder
    glyphs = {".notdef": _glyph("x", _USUAL)}
    widths = {".notdef": (_USUAL, 0)}
    named = {}
    for each in _CHARACTERS:
        width = _MONO if mono else _WIDTHS.get(each, 680 if each.isupper() else _USUAL)
        glyph = f"{''.join(map(str, _extent(each)))}w{width}" if not each.isspace() else f"space{width}"
        if glyph not in glyphs:
            glyphs[glyph] = _glyph(each, width)
            widths[glyph] = (width, 0)
        named[ord(each)] = glyph
    made = builder_of(_UNITS, isTTF=True)
    made.setupGlyphOrder(list(glyphs))
    made.setupCharacterMap(named)
    made.setupGlyf(glyphs)
    made.setupHorizontalMetrics(widths)
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": name, "styleName": "Regular"})
    made.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    made.setupPost()
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def _extent(character: str) -> tuple[int, int]:
    """From where to where it goes, beside the line that letters stand on."""
    if character in _LOW:
        return 0, 120
    if character in _MIDDLE:
        return 230, 330
    top = 720 if character in _ASCENDS or not character.islower() else 520
    return (-190 if character in _DESCENDS else 0), top


def _glyph(character: str, width: int) -> Any:
    """A box, or nothing for a space."""
    pen: Any = importlib.import_module("fontTools.pens.ttGlyphPen").TTGlyphPen(None)
    if not character.isspace():
        bottom, top = _extent(character)
        left, right = 60, width - 60
        pen.moveTo((left, bottom))
        for corner in ((left, top), (right, top), (right, bottom)):
            pen.lineTo(corner)
        pen.closePath()
    return pen.glyph()
