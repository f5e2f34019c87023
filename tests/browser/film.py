"""Pictures of two notebooks side by side, as one that moves."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Locator

from tests.browser.notebook_page import NotebookPage

_COLOURS = 64  # of the whole film: text stays sharp, and the file small
_TITLE_PX = 30
_GAP_PX = 8
_PAPER, _INK, _RING = "#e8e8e8", "#202020", "#d55e00"
# of small things, which a palette would otherwise leave out: dots, rings, code
_SURELY = ("#388e3c", "#f57c00", "#1976d2", "#008000", "#ba2121", "#aa22ff", _RING)
_SWATCH_PX = 60


class Film:
    """Takes a picture of both at each `shoot`; `save` writes an animated GIF that goes on for ever."""

    def __init__(self, sides: dict[str, NotebookPage]) -> None:
        self._sides = sides
        self._frames: list[Image.Image] = []
        self._lasting_ms: list[int] = []

    def shoot(self, lasting_s: float, *, click: Locator | None = None) -> None:
        """The two as they are, each scrolled to where the latest is; `click` is ringed."""
        halves = [self._half(title, page, click) for title, page in self._sides.items()]
        width = sum(half.width for half in halves) + _GAP_PX
        frame = Image.new("RGB", (width, halves[0].height), _PAPER)
        frame.paste(halves[0], (0, 0))
        frame.paste(halves[1], (halves[0].width + _GAP_PX, 0))
        self._frames.append(frame)
        self._lasting_ms.append(round(1000 * lasting_s))

    def _half(self, title: str, page: NotebookPage, click: Locator | None) -> Image.Image:
        notebook = page.page.locator(".jp-NotebookPanel-notebook")
        box = notebook.bounding_box()
        assert box is not None
        shown = Image.open(io.BytesIO(notebook.screenshot(animations="disabled"))).convert("RGB")
        if click is not None and click.page == page.page and (target := click.bounding_box()):
            left, top = target["x"] - box["x"], target["y"] - box["y"]
            ring = (left - 8, top - 6, left + target["width"] + 8, top + target["height"] + 6)
            ImageDraw.Draw(shown).rounded_rectangle(ring, radius=10, outline=_RING, width=4)
        half = Image.new("RGB", (shown.width, shown.height + _TITLE_PX), _PAPER)
        half.paste(shown, (0, _TITLE_PX))
        font = ImageFont.load_default(size=16)
        ImageDraw.Draw(half).text((10, 6), title, fill=_INK, font=font)
        return half

    def save(self, path: Path) -> None:
        """Write all of it."""
        first, *others = self._frames
        # one palette for all, so that what does not change costs nothing
        below = first.height * len(self._frames)
        strip = Image.new("RGB", (first.width, below + _SWATCH_PX))
        for place, colour in enumerate(_SURELY):
            strip.paste(colour, (place * _SWATCH_PX, below, (place + 1) * _SWATCH_PX, below + _SWATCH_PX))
        for place, frame in enumerate(self._frames):
            strip.paste(frame, (0, place * first.height))
        palette = strip.quantize(_COLOURS, dither=Image.Dither.NONE)
        flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in (first, *others)]
        flat[0].save(
            path, save_all=True, append_images=flat[1:], duration=self._lasting_ms, loop=0, optimize=True
        )
