"""What can be checked of a page by looking at it: names, headings, landmarks, contrast, width."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from playwright.sync_api import Page

_UNNAMED = """() => {
  const name = (e) => (e.getAttribute("aria-label") || "").trim()
    || [...(e.labels || [])].map((label) => label.textContent.trim()).join(" ")
    || (["BUTTON", "A", "SUMMARY"].includes(e.tagName) ? e.textContent.trim() : "")
    || (e.tagName === "IFRAME" ? e.title : "");
  const all = document.querySelectorAll(
    "input:not([type=hidden]), select, textarea, button, a[href], summary, iframe, [tabindex='0']");
  return [...all].filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 120));
}"""

_HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
  .filter((e) => e.checkVisibility()).map((e) => Number(e.tagName[1]))"""

_LANDMARKS = """() => Object.fromEntries(["header", "main", "nav"].map(
  (name) => [name, document.querySelectorAll(name).length]))"""

# Every visible text against what lies behind it, as WCAG reckons.
_FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const luminance = ([r, g, b]) => [r, g, b].map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || !e.checkVisibility({opacityProperty: true})) continue;
    if (e.closest(".sr, script, style, option, title, desc")) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.closest("svg") ? style.fill : style.color);
    const [one, two] = [luminance(ink), luminance(behind(e))].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.7 && style.fontWeight >= 700);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.push([node.textContent.trim().slice(0, 40), Math.round(ratio * 100) / 100]);
  }
  return found;
}"""

_WIDE = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""

# A word that is broken over lines has no room: something lies where it should not.
_SQUEEZED = """() => [...document.querySelectorAll("label, legend, button")].filter((e) => {
  const text = e.textContent.trim();
  if (!e.checkVisibility() || e.closest(".sr") || !text || text.length > 20 || /\\s/.test(text)) return false;
  return e.getBoundingClientRect().height > 4 * parseFloat(getComputedStyle(e).fontSize);
}).map((e) => e.textContent.trim().slice(0, 40))"""

_ORDER = """() => {
  const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex]")];
  return all.filter((e) => e.tabIndex > 0).map((e) => e.outerHTML.slice(0, 80));
}"""


def complaints(page: Page) -> dict[str, Any]:
    """What is wrong with a page; nothing when it is fine."""
    found: dict[str, Any] = {}
    if unnamed := page.evaluate(_UNNAMED):
        found["without a name"] = unnamed
    levels = page.evaluate(_HEADINGS)
    if levels.count(1) != 1 or levels[0] != 1 or any(b > a + 1 for a, b in pairwise(levels)):
        found["headings"] = levels
    if squeezed := page.evaluate(_SQUEEZED):
        found["without room"] = squeezed
    landmarks = page.evaluate(_LANDMARKS)
    if landmarks["header"] != 1 or landmarks["main"] != 1:
        found["landmarks"] = landmarks
    if faint := page.evaluate(_FAINT):
        found["faint"] = faint
    if wide := page.evaluate(_WIDE):
        found["wider than the window by"] = wide
    if order := page.evaluate(_ORDER):
        found["tab order"] = order
    if not page.title() or page.locator("html").get_attribute("lang") != "en-US":
        found["title or language"] = page.title()
    return found
