"""Make math.woff2, the font of the equations: a part of TeX Gyre Pagella Math.

    apt-get install fonts-texgyre-math
    pip install fonttools brotli
    python docs/look/math_font.py

The licence, math-font-licence.txt, allows this and asks that a changed font has another name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

FONT = "/usr/share/texmf/fonts/opentype/public/tex-gyre-math/texgyrepagella-math.otf"
NAME = "uwaga Math"
LETTERS = "".join(map(chr, range(0x20, 0x7F)))
GREEK = "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθικλμνξπρςστυφχψωϕϵ"
SIGNS = "¬¯±·×÷´ˆ˜′…–—−∂∅∇∈∉∏∑∓∗∘∙√∝∞∣∥∧∨∩∪∫∼≈≠≡≤≥≪≫⊂⊆⊕⊗⊙⊤⊥⋅⋮⋯⋱⌈⌉⌊⌋⟨⟩←↑→↓↔↦⇐⇒⇔ℓℝℕℤ𝔼∀∃⊘"
ACCENTS = "\u0302\u0303\u0304\u0305\u0307\u20d7"
ITALIC = "".join(chr(code) for code in range(0x1D434, 0x1D468) if code != 0x1D455) + "ℎ"
ITALIC_GREEK = "".join(map(chr, range(0x1D6FC, 0x1D71C)))


def main() -> None:
    """Write the font beside this script."""
    font = TTFont(sys.argv[1] if len(sys.argv) > 1 else FONT)
    characters = LETTERS + GREEK + SIGNS + ACCENTS + ITALIC + ITALIC_GREEK
    options = subset.Options()
    options.layout_features = ["ssty", "kern", "dtls", "flac"]
    options.hinting = False
    options.desubroutinize = False
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.name_languages = ["*"]
    options.notdef_outline = True
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in {1, 3, 4, 6}:
            record.string = NAME if record.nameID != 6 else NAME.replace(" ", "-")
    font["CFF "].cff.fontNames[0] = NAME.replace(" ", "-")
    font.flavor = "woff2"
    path = Path(__file__).with_name("math.woff2")
    font.save(path)
    print(f"wrote {path}: {path.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
