// The GPU map: pools, their nodes, each node's GPUs in islands. Only nodes that changed are touched.

import { make, mark, say } from "./dom.js";
import { badgeOf, describe, spokenBadge, useOf } from "./tile.js";
import { STATES, countdown, money, number, plural } from "./words.js";

const DENSE_FROM = 120; // nodes
const NO_POOL = "";
const natural = new Intl.Collator("en", { numeric: true });

export class GpuMap {
  constructor({ root, store, tip, onOpen }) {
    this.root = root;
    this.store = store;
    this.tip = tip;
    this.onOpen = onOpen;
    this.pools = new Map(); // name -> {section, list, names, ...}
    this.tiles = new Map(); // node -> {item, button, pool, row}
    this.waiting = new Set(); // nodes to draw
    this.ticking = new Set(); // nodes with a countdown
    this.sought = "";
    this.current = null; // where Tab goes
    this.dense = false;
    root.addEventListener("keydown", (event) => this.#key(event));
    root.addEventListener("click", (event) => {
      const tile = event.target.closest(".tile[data-node]");
      if (tile) this.onOpen(tile.dataset.node, tile);
    });
    root.addEventListener("focusin", (event) => {
      const tile = event.target.closest(".tile[data-node]");
      if (tile) this.#rove(tile);
    });
    root.addEventListener("pointerover", (event) => this.#hover(event));
    root.addEventListener("pointerleave", () => this.#unhover());
  }

  note(nodes) {
    for (const name of nodes) this.waiting.add(name);
  }

  // Draw what waits until the time is up. Whether anything is left.
  draw(until) {
    this.#thin();
    for (const name of this.waiting) {
      this.waiting.delete(name);
      this.#drawNode(name);
      if (performance.now() > until) break;
    }
    return this.waiting.size > 0;
  }

  drawPools() {
    for (const name of this.store.pools.keys()) this.#pool(name);
    for (const [name, pool] of this.pools) {
      const row = this.store.pools.get(name);
      if (!row && pool.names.length === 0) {
        pool.section.remove();
        this.pools.delete(name);
        continue;
      }
      this.#head(pool, name, row);
      this.#ghosts(pool, row);
    }
  }

  tick() {
    for (const name of this.ticking) {
      const tile = this.tiles.get(name);
      if (tile) this.#badge(tile);
      else this.ticking.delete(name);
    }
  }

  find(text) {
    this.sought = text.trim().toLowerCase();
    for (const tile of this.tiles.values()) mark(tile.button, "faded", !this.#isSought(tile.row));
  }

  focus(name) {
    const tile = this.tiles.get(name);
    if (tile) tile.button.focus();
    return Boolean(tile);
  }

  select(name) {
    if (this.selected) this.tiles.get(this.selected)?.button.removeAttribute("aria-current");
    this.selected = name;
    if (name) this.tiles.get(name)?.button.setAttribute("aria-current", "true");
  }

  #drawNode(name) {
    const row = this.store.nodes.get(name);
    const known = this.tiles.get(name);
    if (!row) {
      if (known) this.#drop(name, known);
      return;
    }
    if (known && known.pool !== (row.pool || NO_POOL)) this.#drop(name, known);
    const tile = this.tiles.get(name) || this.#add(name, row);
    this.#update(tile, row);
  }

  #add(name, row) {
    const pool = this.#pool(row.pool || NO_POOL);
    const title = make("span", { class: "tile-name", text: name });
    const badge = make("span", { class: "tile-badge" });
    const gpus = make("span", { class: "gpus" });
    const top = make("span", { class: "tile-top" }, title, badge);
    const button = make("button", { class: "tile", type: "button", "data-node": name, tabindex: "-1" }, top, gpus);
    const item = make("li", {}, button);
    const tile = { item, button, badge, gpus, pool: row.pool || NO_POOL, row: null, drawn: "" };
    const at = place(pool.names, name);
    pool.list.insertBefore(item, pool.list.children[at] || null);
    pool.names.splice(at, 0, name);
    this.tiles.set(name, tile);
    if (!this.current) this.#rove(button);
    if (this.selected === name) button.setAttribute("aria-current", "true");
    return tile;
  }

  #drop(name, tile) {
    const pool = this.pools.get(tile.pool);
    const at = place(pool.names, name);
    pool.names.splice(at, 1);
    const focused = document.activeElement === tile.button;
    const next = tile.item.nextElementSibling || tile.item.previousElementSibling;
    tile.item.remove();
    this.tiles.delete(name);
    this.ticking.delete(name);
    if (this.current === tile.button) {
      this.current = null;
      const heir = next?.querySelector(".tile[data-node]") || this.root.querySelector(".tile[data-node]");
      if (heir) {
        this.#rove(heir);
        if (focused) heir.focus();
      }
    }
  }

  #update(tile, row) {
    const before = tile.row;
    tile.row = row;
    const drawn = `${row.states}|${row.islands}|${row.taken}`;
    if (tile.drawn !== drawn) {
      const fresh = tile.drawn !== "";
      tile.drawn = drawn;
      this.#cells(tile, row, before);
      if (fresh) {
        tile.gpus.classList.remove("fresh");
        requestAnimationFrame(() => tile.gpus.classList.add("fresh"));
      }
    }
    const going = Boolean(row.deletionTime) || row.drainingSince !== undefined;
    mark(tile.button, "going", going);
    mark(tile.button, "candidate", !going && row.candidateSince !== undefined);
    mark(tile.button, "down", row.ready === false && !row.states?.startsWith("c"));
    mark(tile.button, "cordoned", Boolean(row.cordoned));
    if (this.sought) mark(tile.button, "faded", !this.#isSought(row));
    if (row.deletionTime) this.ticking.add(row.name);
    else this.ticking.delete(row.name);
    this.#badge(tile);
  }

  // Cells that are there are kept: most changes are of one GPU's state.
  #cells(tile, row, before) {
    const states = row.states || "";
    if (!states) {
      tile.gpus.replaceChildren(make("span", { class: "none", text: "no GPUs" }));
      return;
    }
    const same = before && (before.states || "").length === states.length && `${before.islands}` === `${row.islands}`;
    if (!same) {
      const groups = [];
      for (let at = 0; at < states.length; at += 1) {
        const island = row.islands ? row.islands[at] : 0;
        const last = groups[groups.length - 1];
        const cell = document.createElement("i");
        cell.dataset.gpu = at;
        if (last && last.island === island) last.cells.push(cell);
        else groups.push({ island, cells: [cell] });
      }
      tile.gpus.replaceChildren(...groups.map((group) => make("span", { class: "island" }, ...group.cells)));
    }
    const cells = tile.gpus.querySelectorAll("i");
    cells.forEach((cell, at) => {
      const name = `g ${states[at]}`;
      if (cell.className !== name) cell.className = name;
      if (states[at] === "s") cell.style.setProperty("--taken", `${(row.taken?.[at] ?? 500) / 10}%`);
    });
  }

  #badge(tile) {
    const row = tile.row;
    const text = badgeOf(row, this.store.time());
    say(tile.badge, text || useOf(row));
    mark(tile.badge, "timed", Boolean(row.deletionTime) && row.drainingSince === undefined);
    const label = `${describe(row)}${text ? `, ${spokenBadge(row, this.store.time())}` : ""}`;
    if (tile.button.getAttribute("aria-label") !== label) tile.button.setAttribute("aria-label", label);
  }

  #pool(name) {
    let pool = this.pools.get(name);
    if (pool) return pool;
    const id = `pool-${this.pools.size}-${name.replace(/[^a-z0-9]/gi, "-")}`;
    const title = make("h3", { id, text: name || "Other nodes" });
    const what = make("span", { class: "what" });
    const size = make("span", { class: "size" });
    const used = make("i", { class: "l" });
    const bar = make("div", { class: "bar pool-bar", "aria-hidden": "true" }, used);
    const tags = make("span", { class: "tags" });
    const why = make("p", { class: "pool-why" });
    const head = make("div", { class: "pool-head" }, title, what, bar, size, tags, why);
    const list = make("ul", { class: this.dense ? "tiles dense" : "tiles", "aria-labelledby": id, "aria-describedby": "map-help" });
    const section = make("section", { class: "pool", "aria-labelledby": id }, head, list);
    pool = { section, list, what, size, used, bar, tags, why, names: [], ghosts: [] };
    this.pools.set(name, pool);
    const order = [...this.pools.keys()].sort((a, b) => (a === NO_POOL) - (b === NO_POOL) || natural.compare(a, b));
    for (const each of order) this.root.append(this.pools.get(each).section);
    return pool;
  }

  #head(pool, name, row) {
    let total = 0;
    let used = 0;
    for (const node of pool.names) {
      const states = this.tiles.get(node)?.row?.states || "";
      for (const state of states) {
        if (state !== "c") total += 1;
        if (state === "l" || state === "s" || state === "r") used += 1;
      }
    }
    const percent = total ? Math.round((100 * used) / total) : 0;
    pool.used.style.width = `${percent}%`;
    if (!row) {
      say(pool.what, name ? "no NodeProvisioner of this name" : "");
      say(pool.size, `${plural(pool.names.length, "node")}${total ? `, ${percent}% of ${number(total)} GPUs used` : ""}`);
      return;
    }
    const page = this.store.page;
    const price = row.price ? ` · ${money(row.price, page.currency || "$")}/h each` : " · no price";
    say(pool.what, `${row.gpus} × ${row.model}${price}${row.capacityType === "Spot" ? " · spot" : ""}`);
    const coming = row.coming ? `, ${row.coming} coming` : "";
    const target = row.target === undefined ? "?" : row.target;
    say(pool.size, `${row.current ?? pool.names.length} now → ${target} wanted${coming} · at most ${row.most} · ${percent}% used`);
    this.#tags(pool, row);
    say(pool.why, row.decision && row.decision !== "Nothing" ? `${row.decision}: ${row.why || ""}` : row.why || "");
  }

  #tags(pool, row) {
    const tags = [];
    if (row.paused) tags.push(["paused", "warn"]);
    if (row.recommendOnly) tags.push(["recommends only", ""]);
    if (row.blocked) {
      const left = Math.max(0, (row.blockedUntil || 0) - this.store.time());
      tags.push([`${row.blocked.split(":")[0]}, again in ${countdown(left)}`, "bad"]);
    }
    const text = JSON.stringify(tags);
    if (pool.tagged === text) return;
    pool.tagged = text;
    pool.tags.replaceChildren(...tags.map(([said, kind]) => make("span", { class: `tag ${kind}`, text: said })));
  }

  // Instances that are not nodes yet.
  #ghosts(pool, row) {
    const arriving = pool.names.filter((name) => (this.tiles.get(name)?.row?.states || "").startsWith("c")).length;
    const wanted = row ? Math.max(0, Math.min(40, (row.coming || 0) - arriving)) : 0;
    while (pool.ghosts.length > wanted) pool.ghosts.pop().remove();
    while (pool.ghosts.length < wanted) {
      const cells = Array.from({ length: row.gpus || 0 }, () => make("i", { class: "g c" }));
      const top = make("span", { class: "tile-top" }, make("span", { class: "tile-badge", text: "coming" }));
      const box = make("div", { class: "tile ghost" }, top, make("span", { class: "gpus", "aria-hidden": "true" }, make("span", { class: "island" }, ...cells)));
      const item = make("li", {}, box);
      pool.list.append(item);
      pool.ghosts.push(item);
    }
  }

  // Many nodes are drawn smaller.
  #thin() {
    const dense = this.store.nodes.size >= DENSE_FROM;
    if (dense === this.dense) return;
    this.dense = dense;
    for (const pool of this.pools.values()) pool.list.classList.toggle("dense", dense);
  }

  #isSought(row) {
    const text = this.sought;
    if (!text) return true;
    if (row.name.toLowerCase().includes(text) || (row.pool || "").toLowerCase().includes(text)) return true;
    if ((row.model || "").toLowerCase().includes(text)) return true;
    return (row.holders || []).some((holder) => (holder.pod || "").toLowerCase().includes(text));
  }

  #rove(button) {
    if (this.current === button) return;
    if (this.current) this.current.tabIndex = -1;
    this.current = button;
    button.tabIndex = 0;
  }

  #key(event) {
    const tile = event.target.closest?.(".tile[data-node]");
    if (!tile || event.altKey || event.ctrlKey || event.metaKey) return;
    const goal = this.#goal(tile, event.key);
    if (!goal) return;
    event.preventDefault();
    goal.focus();
    goal.scrollIntoView({ block: "nearest" });
  }

  #goal(tile, key) {
    const all = [...this.root.querySelectorAll(".tile[data-node]")];
    const at = all.indexOf(tile);
    if (key === "ArrowRight") return all[at + 1];
    if (key === "ArrowLeft") return all[at - 1];
    if (key === "Home") return all[0];
    if (key === "End") return all[all.length - 1];
    if (key === "ArrowDown") return nearest(all, tile, +1);
    if (key === "ArrowUp") return nearest(all, tile, -1);
    return null;
  }

  #hover(event) {
    this.#unhover();
    const button = event.target.closest?.(".tile[data-node]");
    const tile = button && this.tiles.get(button.dataset.node);
    if (!tile) return;
    const cell = event.target.closest("i[data-gpu]");
    const lines = cell ? this.#light(tile, Number(cell.dataset.gpu)) : [];
    this.tip.show(button, [...lines, describe(tile.row)].join("\n"));
  }

  // All GPUs of the pod that has this one.
  #light(tile, at) {
    const row = tile.row;
    const id = row.ids ? row.ids[at] : at;
    const holders = (row.holders || []).filter((holder) => (holder.gpus || []).includes(id));
    const theirs = new Set(holders.flatMap((holder) => holder.gpus));
    tile.gpus.querySelectorAll("i").forEach((cell, place) => {
      if (theirs.has(row.ids ? row.ids[place] : place)) cell.classList.add("lit");
    });
    this.lit = tile;
    const who = holders.map((holder) => holder.pod || holder.what).join(", ");
    return [`GPU ${id}: ${STATES[row.states[at]]}${who ? `, ${who}` : ""}`];
  }

  #unhover() {
    this.tip.hide();
    this.lit?.gpus.querySelectorAll(".lit").forEach((cell) => cell.classList.remove("lit"));
    this.lit = null;
  }
}

// Where a name belongs among names in order.
function place(names, name) {
  let low = 0;
  let high = names.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (natural.compare(names[middle], name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The tile above or below, whatever pool it is in.
function nearest(all, from, direction) {
  const box = from.getBoundingClientRect();
  const start = all.indexOf(from);
  let best = null;
  let bestTop = null;
  for (let at = start + direction; at >= 0 && at < all.length; at += direction) {
    const other = all[at].getBoundingClientRect();
    if (Math.abs(other.top - box.top) < 4) continue;
    if (bestTop !== null && Math.abs(other.top - bestTop) > 4) break;
    bestTop = other.top;
    const distance = Math.abs(other.left - box.left);
    if (!best || distance < best.distance) best = { tile: all[at], distance };
  }
  return best?.tile;
}
