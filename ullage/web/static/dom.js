// Small tools for making elements and keeping lists of them in order.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Written only where it differs: a write costs layout, a comparison does not.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, on) {
  if (element.classList.contains(name) !== on) element.classList.toggle(name, on);
}

// Rows by key in the order given, moving only those that are not where they should be.
export class Rows {
  constructor(list, create, update) {
    this.list = list;
    this.create = create;
    this.update = update;
    this.items = new Map();
  }

  show(entries) {
    const wanted = new Set(entries.map(([key]) => key));
    for (const [key, item] of this.items) {
      if (!wanted.has(key)) {
        item.element.remove();
        this.items.delete(key);
      }
    }
    let place = this.list.firstElementChild;
    for (const [key, row] of entries) {
      let item = this.items.get(key);
      if (!item) {
        item = { element: this.create(key, row), row: undefined };
        this.items.set(key, item);
      }
      if (item.row !== row) {
        this.update(item.element, row, key);
        item.row = row;
      }
      if (item.element === place) place = place.nextElementSibling;
      else this.list.insertBefore(item.element, place);
    }
  }

  each(visit) {
    for (const [key, item] of this.items) visit(item.element, item.row, key);
  }
}
