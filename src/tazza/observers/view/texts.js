"use strict";
/* Elements of SVG, and texts that fit into them. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an SVG element; names of a net come in as text content or attributes of data, never as markup. */
function svg(tag, attributes = {}, text = undefined) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** Cut a text in its middle so that it is at most so many pixels wide; its end tells as much as its beginning. */
function fitting(text, width, font) {
  const key = `${font}|${width}|${text}`;
  let found = widths.get(key);
  if (found !== undefined) return found;
  measuring.font = font;
  found = text;
  if (measuring.measureText(text).width > width) {
    let low = 0,
      high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const cut = `${text.slice(0, Math.ceil(middle / 2))}…${text.slice(text.length - Math.floor(middle / 2))}`;
      if (measuring.measureText(cut).width <= width) low = middle;
      else high = middle - 1;
    }
    found = low < 2 ? "" : `${text.slice(0, Math.ceil(low / 2))}…${text.slice(text.length - Math.floor(low / 2))}`;
  }
  widths.set(key, found);
  return found;
}

const FONT = getComputedStyle(document.body).fontFamily;
const TYPE_FONT = `600 14px ${FONT}`,
  NAME_FONT = `12.5px ${FONT}`;

/** How many pixels wide a text is. */
function widthOf(text, font) {
  measuring.font = font;
  return measuring.measureText(text).width;
}
