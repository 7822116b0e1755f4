// Colours that mean something else than states: the workload or namespace of who has a GPU, or how long it is idle.

import { colour } from "./colours.js";
import { $, make } from "./dom.js";

const HUES = 10; // --hue-0 to --hue-9 of the style sheet
const IDLE = [[300, "--idle-0", "under 5 min"], [3600, "--idle-1", "under 1 h"], [21600, "--idle-2", "under 6 h"], [86400, "--idle-3", "under 1 day"], [Infinity, "--idle-4", "longer"]];

export class Hues {
  constructor(store, filters) {
    this.store = store;
    this.filters = filters;
    this.known = new Map(); // name -> number of its colour; the largest have one, others share the last
  }

  // Give colours anew: to those with most GPUs. Whether any changed.
  assign() {
    if (!this.#named) return this.#set(new Map());
    const counts = new Map();
    for (const row of this.store.nodes.values()) {
      for (const one of row.holders || []) {
        const name = this.#nameOf(one);
        if (name) counts.set(name, (counts.get(name) || 0) + ((one.gpus || []).length || one.count || 0) * ((one.milli ?? 1000) / 1000));
      }
    }
    const order = [...counts].sort(([one, a], [other, b]) => b - a || (one < other ? -1 : 1)).map(([name]) => name);
    // Who has a colour keeps it while it is among the largest: colours that jump tell nothing.
    const largest = new Set(order.slice(0, HUES - 1));
    const next = new Map([...this.known].filter(([name, hue]) => largest.has(name) && hue < HUES - 1));
    const free = [...Array(HUES - 1).keys()].filter((hue) => ![...next.values()].includes(hue));
    for (const name of largest) if (!next.has(name)) next.set(name, free.shift());
    for (const name of order.slice(HUES - 1)) next.set(name, HUES - 1);
    return this.#set(next);
  }

  get #named() {
    return this.filters.colour === "workload" || this.filters.colour === "namespace";
  }

  #nameOf(holder) {
    return this.filters.colour === "namespace" ? (holder.pod || "").split("/")[0] : holder.workload || "";
  }

  #set(next) {
    const before = JSON.stringify([...this.known]);
    this.known = next;
    return before !== JSON.stringify([...next]);
  }

  // Colours of the GPUs of a node by place; undefined where the state says it all.
  of(row) {
    if (this.filters.colour === "idleness") return idleColours(row, this.store.time());
    if (!this.#named) return null;
    const found = [];
    const places = new Map([...(row.states || "")].map((_, at) => [row.ids ? row.ids[at] : at, at]));
    let unnamed = 0;
    for (const one of row.holders || []) {
      const hue = this.known.get(this.#nameOf(one));
      if (hue === undefined) continue;
      for (const gpu of one.gpus || []) if (places.has(gpu)) found[places.get(gpu)] = colour(`--hue-${hue}`);
      for (let left = one.count || 0; left > 0; left -= 1) {
        while (unnamed < places.size && row.states[unnamed] !== "l") unnamed += 1;
        if (unnamed < places.size) found[unnamed++] = colour(`--hue-${hue}`);
      }
    }
    return found;
  }

  drawLegend() {
    const list = $("hue-legend");
    list.hidden = this.filters.colour === "state";
    if (list.hidden) return;
    const items = this.filters.colour === "idleness" ? IDLE.map(([, name, text]) => [name, `idle ${text}`]) : this.#legend();
    const said = JSON.stringify(items);
    if (list.dataset.said === said) return;
    list.dataset.said = said;
    list.replaceChildren(...items.map(([name, text]) => make("li", {}, make("i", { class: `hue ${name.slice(2)}` }), text)));
  }

  #legend() {
    const items = [...this.known].filter(([, hue]) => hue < HUES - 1).sort(([, a], [, b]) => a - b).map(([name, hue]) => [`--hue-${hue}`, name]);
    const others = [...this.known.values()].filter((hue) => hue === HUES - 1).length;
    if (others) items.push([`--hue-${HUES - 1}`, others === 1 ? "1 other" : `${others} others`]);
    return items.length ? items : [["--free-edge", "no GPU is held"]];
  }
}

function idleColours(row, now) {
  const times = row.idleSince || [];
  const found = [];
  let at = 0;
  [...(row.states || "")].forEach((state, place) => {
    if (state !== "f") return;
    const since = times.length > 1 ? times[at] : times[0];
    at += 1;
    if (since === undefined) return;
    found[place] = colour(IDLE.find(([most]) => now - since < most)[1]);
  });
  return found;
}

// Idle GPU-seconds of a node: what it is sorted by.
export function idleness(row, now) {
  const times = row.idleSince || [];
  if (!times.length) return 0;
  const free = [...(row.states || "")].filter((state) => state === "f").length;
  const since = times.length > 1 ? times : Array(free).fill(times[0]);
  return since.reduce((sum, one) => sum + Math.max(0, now - one), 0);
}
