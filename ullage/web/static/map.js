// The GPU map: pools, their nodes, each node's GPUs in islands. Painted on canvas; what is painted is also there as
// buttons inside a canvas, which nobody sees and everybody can reach: by keyboard, and by being read out.

import { make } from "./dom.js";
import { TileGrid } from "./grid.js";
import { idleness } from "./hues.js";
import { PoolHead } from "./pool.js";
import { badgeOf, describe, spokenBadge, useOf } from "./tile.js";
import { STATES } from "./words.js";

const LARGE_UP_TO = 40; // nodes
const DENSE_FROM = 120;
const NO_POOL = "";
const MOST_GHOSTS = 40;
const natural = new Intl.Collator("en", { numeric: true });

export class GpuMap {
  constructor({ root, store, tip, filters, hues, onOpen, onPool, onStale }) {
    Object.assign(this, { root, store, tip, filters, hues, onOpen, onPool, onStale });
    this.pools = new Map(); // name -> {section, head, box, list, grid, names, ghosts}
    this.tiles = new Map(); // node -> {button, item, pool, row}
    this.waiting = new Set(); // nodes to take in
    this.ticking = new Set(); // nodes with a countdown
    this.sought = "";
    this.current = null; // where Tab goes
    this.hovered = null; // {name, lit}
    root.boxOf = (name) => this.#boxOf(name);
    root.addEventListener("keydown", (event) => this.#key(event));
    root.addEventListener("focusin", (event) => this.#focused(event.target.dataset?.node, true));
    root.addEventListener("focusout", (event) => this.#focused(event.target.dataset?.node, false));
    root.addEventListener("pointermove", (event) => this.#hover(this.#hit(event)));
    root.addEventListener("pointerleave", () => this.#hover(null));
    root.addEventListener("click", (event) => {
      const pool = event.target.dataset?.poolLink;
      if (pool !== undefined) return this.onPool(pool, event.target);
      const name = event.target.dataset?.node || this.#hit(event)?.name;
      if (name && this.tiles.has(name)) this.onOpen(name, this.tiles.get(name).button);
    });
  }

  note(nodes) {
    for (const name of nodes) this.waiting.add(name);
  }

  // Take in what waits until the time is up. Whether anything is left.
  take(until) {
    for (const name of this.waiting) {
      this.waiting.delete(name);
      this.#take(name);
      if (performance.now() > until) break;
    }
    return this.waiting.size > 0;
  }

  paint(until) {
    let left = false;
    for (const pool of this.pools.values()) left = pool.grid.paint(until) || left;
    return left;
  }

  drawPools() {
    for (const name of this.store.pools.keys()) this.#pool(name);
    const nodes = this.store.nodes.size;
    const size = nodes <= LARGE_UP_TO ? "large" : nodes < DENSE_FROM ? "roomy" : "dense";
    for (const [name, pool] of this.pools) {
      const row = this.store.pools.get(name);
      pool.section.hidden = this.filters.any && pool.names.length === 0;
      if (!row && pool.names.length === 0) {
        pool.section.remove();
        this.pools.delete(name);
        continue;
      }
      const rows = pool.names.map((node) => this.tiles.get(node).row);
      pool.head.draw(name, row, rows, this.store);
      const arriving = rows.filter((node) => (node.states || "").startsWith("c")).length;
      pool.ghosts = row && !this.filters.any ? Math.max(0, Math.min(MOST_GHOSTS, (row.coming || 0) - arriving)) : 0;
      pool.ghost = { name: "coming", states: "c".repeat(row?.gpus || 0) };
      const most = Math.max(1, row?.gpus || 0, ...rows.map((node) => (node.states || "").length));
      pool.grid.shape(pool.names.length + pool.ghosts, size, most);
    }
  }

  // Filters or the order changed: every node is looked at again.
  refilter() {
    for (const [name, tile] of this.tiles) {
      if (tile.rank !== this.#rank(name)) this.#drop(name, tile, false);
    }
    this.note(this.store.nodes.keys());
    this.note(this.tiles.keys());
    for (const pool of this.pools.values()) pool.grid.repaint();
    this.onStale();
  }

  tick() {
    for (const name of this.ticking) this.#said(name);
    for (const [name, pool] of this.pools) pool.head.tick(this.store.pools.get(name), this.store);
  }

  find(text) {
    this.sought = text.trim().toLowerCase();
    this.repaint();
  }

  repaint() {
    for (const pool of this.pools.values()) pool.grid.repaint();
    this.onStale();
  }

  select(name) {
    const before = this.selected;
    this.selected = name;
    if (before) this.tiles.get(before)?.button.removeAttribute("aria-current");
    if (name) this.tiles.get(name)?.button.setAttribute("aria-current", "true");
    this.#touch(before);
    this.#touch(name);
  }

  #take(name) {
    const there = this.store.nodes.get(name);
    const row = there && this.filters.passesNode(there) ? there : undefined;
    const known = this.tiles.get(name);
    const pool = row && (row.pool || NO_POOL);
    if (known && (!row || known.pool !== pool || known.rank !== this.#rank(name))) this.#drop(name, known);
    if (!row) return;
    const tile = this.tiles.get(name) || this.#add(name, pool);
    tile.row = row;
    if (row.deletionTime) this.ticking.add(name);
    else this.ticking.delete(name);
    this.#said(name);
  }

  #add(name, poolName) {
    const pool = this.#pool(poolName);
    const button = make("button", { type: "button", "data-node": name, tabindex: "-1" });
    const item = make("li", {}, button);
    const tile = { button, item, pool: poolName, row: null, rank: this.#rank(name) };
    this.tiles.set(name, tile);
    const at = this.#place(pool, name);
    pool.list.insertBefore(item, pool.list.children[at] || null);
    pool.names.splice(at, 0, name);
    pool.grid.shift(at);
    if (!this.current) this.#rove(name);
    if (this.selected === name) button.setAttribute("aria-current", "true");
    return tile;
  }

  #drop(name, tile, heirs = true) {
    const pool = this.pools.get(tile.pool);
    const at = this.#place(pool, name);
    const focused = document.activeElement === tile.button;
    pool.names.splice(at, 1);
    pool.grid.shift(at);
    tile.item.remove();
    this.tiles.delete(name);
    this.ticking.delete(name);
    if (this.current !== name) return;
    this.current = null;
    if (!heirs) return;
    const heir = pool.names[at] || pool.names[at - 1] || this.tiles.keys().next().value;
    if (heir) this.#rove(heir);
    if (heir && focused) this.tiles.get(heir).button.focus({ preventScroll: true });
  }

  // What is read out, and painted.
  #said(name) {
    const tile = this.tiles.get(name);
    if (!tile) return;
    const now = this.store.time();
    const badge = badgeOf(tile.row, now);
    const label = `${describe(tile.row)}${badge ? `, ${spokenBadge(tile.row, now)}` : ""}`;
    if (tile.button.getAttribute("aria-label") !== label) tile.button.setAttribute("aria-label", label);
    this.#touch(name);
  }

  #touch(name) {
    const tile = name && this.tiles.get(name);
    if (!tile) return;
    const pool = this.pools.get(tile.pool);
    pool.grid.touch(this.#place(pool, name));
    this.onStale();
  }

  // By idleness the order is of the minute: nodes that swap places all the time cannot be looked at.
  #rank(name) {
    const row = this.store.nodes.get(name);
    return this.filters.sort === "idleness" && row ? -Math.round(idleness(row, Math.floor(this.store.now / 60) * 60) / 60) : 0;
  }

  // Where a node belongs among the nodes of its pool.
  #place(pool, name) {
    return place(pool.names, name, (other) => this.tiles.get(other).rank);
  }

  #pool(name) {
    const known = this.pools.get(name);
    if (known) return known;
    const id = name ? `pool-${name}` : "other-nodes";
    const head = new PoolHead(id, name || "Other nodes", name);
    const list = make("ul", { "aria-labelledby": id, "aria-describedby": "map-help" });
    const box = make("div", { class: "tiles" }, make("canvas", { class: "unseen", width: "1", height: "1" }, list));
    const section = make("section", { class: "pool", "aria-labelledby": id, "data-pool": name }, head.element, box);
    const pool = { section, head, box, list, names: [], ghosts: 0, ghost: null };
    const rowOf = (at) => (at < pool.names.length ? this.tiles.get(pool.names[at]).row : pool.ghost);
    pool.grid = new TileGrid({ box, rowOf, lookOf: (at) => this.#look(pool, at) });
    pool.grid.onStale = this.onStale;
    this.pools.set(name, pool);
    const order = [...this.pools.keys()].sort((a, b) => (a === NO_POOL) - (b === NO_POOL) || natural.compare(a, b));
    for (const each of order) this.root.append(this.pools.get(each).section);
    return pool;
  }

  #look(pool, at) {
    const name = pool.names[at];
    if (name === undefined) return { ghost: true };
    const { row, button } = this.tiles.get(name);
    const going = Boolean(row.deletionTime) || row.drainingSince !== undefined;
    return {
      going,
      candidate: !going && row.candidateSince !== undefined,
      down: row.ready === false && !(row.states || "").startsWith("c"),
      crossed: row.cordoned || (row.ready === false && !(row.states || "").startsWith("c")),
      faded: !this.#isSought(row),
      focused: button === document.activeElement && button.matches(":focus-visible"),
      chosen: this.selected === name,
      hovered: this.hovered?.name === name,
      lit: this.hovered?.name === name ? this.hovered.lit : null,
      badge: badgeOf(row, this.store.time()) || useOf(row),
      timed: Boolean(row.deletionTime) && row.drainingSince === undefined,
      hues: this.hues.of(row),
    };
  }

  #isSought(row) {
    const text = this.sought;
    if (!text) return true;
    const said = [row.name, row.pool, row.model, ...(row.holders || []).map((holder) => holder.pod)];
    return said.some((one) => (one || "").toLowerCase().includes(text));
  }

  #rove(name) {
    if (this.current === name) return;
    const before = this.tiles.get(this.current);
    if (before) before.button.tabIndex = -1;
    this.current = name;
    this.tiles.get(name).button.tabIndex = 0;
  }

  #focused(name, on) {
    if (!name || !this.tiles.has(name)) return;
    if (on) {
      this.#rove(name);
      this.#reveal(name);
    }
    this.#touch(name);
  }

  // A button in a canvas has no place of its own to scroll to.
  #reveal(name) {
    const box = this.#boxOf(name);
    const top = document.querySelector(".top").getBoundingClientRect().bottom + 8;
    if (box.top < top) window.scrollBy(0, box.top - top);
    else if (box.bottom > window.innerHeight - 8) window.scrollBy(0, box.bottom - window.innerHeight + 8);
  }

  #boxOf(name) {
    const tile = this.tiles.get(name);
    const pool = this.pools.get(tile.pool);
    const box = pool.box.getBoundingClientRect();
    const at = pool.grid.place(this.#place(pool, name));
    return new DOMRect(box.left + at.x, box.top + at.y, at.width, at.height);
  }

  #key(event) {
    const name = event.target.dataset?.node;
    if (!name || event.altKey || event.ctrlKey || event.metaKey) return;
    const goal = this.#goal(name, event.key);
    if (!goal) return;
    event.preventDefault();
    this.tiles.get(goal).button.focus({ preventScroll: true });
  }

  #goal(name, key) {
    const pools = [...this.root.querySelectorAll(".pool")].map((section) => this.pools.get(section.dataset.pool));
    const here = pools.findIndex((pool) => pool.names.includes(name));
    const { names, grid } = pools[here];
    const at = names.indexOf(name);
    const filled = pools.filter((pool) => pool.names.length);
    const before = pools.slice(0, here).findLast((pool) => pool.names.length);
    const after = pools.slice(here + 1).find((pool) => pool.names.length);
    const column = at % grid.columns;
    switch (key) {
      case "ArrowRight": return names[at + 1] || after?.names[0];
      case "ArrowLeft": return names[at - 1] || before?.names.at(-1);
      case "Home": return filled[0].names[0];
      case "End": return filled.at(-1).names.at(-1);
      case "ArrowDown": return names[at + grid.columns] || after?.names[Math.min(column, after.names.length - 1)];
      case "ArrowUp": return names[at - grid.columns] || (before && lastRow(before, column));
      default: return null;
    }
  }

  #hit(event) {
    const box = event.target.closest?.(".tiles");
    const pool = box && this.pools.get(box.parentElement.dataset.pool);
    if (!pool) return null;
    const area = box.getBoundingClientRect();
    const found = pool.grid.hit(event.clientX - area.left, event.clientY - area.top);
    const name = found && pool.names[found.at];
    return name ? { name, gpu: found.gpu } : null;
  }

  #hover(found) {
    if (found?.name === this.hovered?.name && found?.gpu === this.hovered?.gpu) return;
    const before = this.hovered?.name;
    this.hovered = found && { ...found, ...this.#holders(found) };
    this.root.style.cursor = found ? "pointer" : "";
    this.#touch(before);
    this.#touch(found?.name);
    if (!found) return this.tip.hide();
    const lines = [this.hovered.says, describe(this.tiles.get(found.name).row)];
    this.tip.show(this.#boxOf(found.name), lines.filter(Boolean).join("\n"));
  }

  // All GPUs of the pod that has this one.
  #holders({ name, gpu }) {
    const { row } = this.tiles.get(name);
    if (gpu < 0) return { lit: null, says: "" };
    const id = row.ids ? row.ids[gpu] : gpu;
    const holders = (row.holders || []).filter((holder) => (holder.gpus || []).includes(id));
    const theirs = new Set(holders.flatMap((holder) => holder.gpus));
    const places = [...(row.states || "")].map((_, at) => at);
    const lit = new Set(places.filter((at) => theirs.has(row.ids ? row.ids[at] : at)));
    const who = holders.map((holder) => holder.pod || holder.what).join(", ");
    return { lit, says: `GPU ${id}: ${STATES[row.states[gpu]]}${who ? `, ${who}` : ""}` };
  }
}

function lastRow(pool, column) {
  const last = pool.names.length - 1;
  const start = last - (last % pool.grid.columns);
  return pool.names[Math.min(start + column, last)];
}

// Where a name belongs among names in order of rank, then of name.
function place(names, name, rankOf) {
  let low = 0;
  let high = names.length;
  const rank = rankOf(name);
  while (low < high) {
    const middle = (low + high) >> 1;
    const before = rankOf(names[middle]) - rank || natural.compare(names[middle], name);
    if (before < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
