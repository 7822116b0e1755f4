// What is looked at: filters by state, pool, namespace, owner and reason, one set for the map and the lists; how nodes
// are sorted, and what colours mean. All of it stands in the address.

import { $, make } from "./dom.js";

const STATES = [
  ["free", "GPUs free"], ["leased", "GPUs leased"], ["shared", "GPUs shared"], ["reserved", "GPUs reserved"],
  ["unhealthy", "GPUs unhealthy"], ["coming", "coming"], ["idle", "wholly idle"], ["leaving", "leaving"],
  ["notready", "not ready"], ["cordoned", "cordoned"], ["silent", "agent silent"],
];
const LETTERS = { free: "f", leased: "l", shared: "s", reserved: "r", unhealthy: "u", coming: "c" };
const NAMES = ["state", "pool", "namespace", "owner", "reason"];
const LINKS = { state: "state", pool: "in", namespace: "namespace", owner: "owner", reason: "reason" };
const ALL = { state: "all states", pool: "all pools", namespace: "all namespaces", owner: "all owners", reason: "all reasons" };
const MOST_OPTIONS = 300;

export class Filters {
  constructor(store, onChange) {
    this.store = store;
    this.chosen = Object.fromEntries(NAMES.map((name) => [name, ""]));
    this.colour = "state";
    this.sort = "name";
    for (const name of NAMES) {
      $(`filter-${name}`).addEventListener("change", (event) => {
        this.chosen[name] = event.target.value;
        onChange(name);
      });
    }
    for (const name of ["colour", "sort"]) {
      $(`map-${name}`).addEventListener("change", (event) => {
        this[name] = event.target.value;
        onChange(name);
      });
    }
    $("filter-clear").addEventListener("click", () => {
      for (const name of NAMES) this.chosen[name] = "";
      onChange("all");
    });
  }

  get any() {
    return NAMES.some((name) => this.chosen[name]);
  }

  link() {
    const said = Object.fromEntries(NAMES.map((name) => [LINKS[name], this.chosen[name]]));
    return { ...said, colour: this.colour === "state" ? "" : this.colour, sort: this.sort === "name" ? "" : this.sort };
  }

  follow(link) {
    for (const name of NAMES) this.chosen[name] = link[LINKS[name]];
    const known = (id, value, usual) => ([...$(id).options].some((one) => one.value === value) ? value : usual);
    this.colour = known("map-colour", link.colour, "state");
    this.sort = known("map-sort", link.sort, "name");
  }

  // Whether a node is looked at. Its namespaces and owners are those of who has its GPUs.
  passesNode(row) {
    const { state, pool, namespace, owner } = this.chosen;
    if (pool && (row.pool || "none") !== pool) return false;
    if (state && !isIn(row, state)) return false;
    const holders = row.holders || [];
    if (namespace && !holders.some((one) => (one.pod || "").startsWith(`${namespace}/`))) return false;
    return !owner || holders.some((one) => one.workload === owner);
  }

  // Whether waiting pods are looked at: a row of a group or of a pod.
  passesWaiting(row, pod = "") {
    const { namespace, owner, reason } = this.chosen;
    const space = row.namespace ?? pod.split("/")[0];
    if (namespace && space !== namespace) return false;
    return (!owner || row.workload === owner) && (!reason || row.reason === reason);
  }

  // Whether an object of a namespace is looked at: a gang, a quota.
  passesNamespace(namespace) {
    return !this.chosen.namespace || namespace === this.chosen.namespace;
  }

  draw() {
    const pools = new Set(this.store.pools.keys());
    const spaces = new Set();
    const owners = new Set();
    for (const row of this.store.nodes.values()) {
      pools.add(row.pool || "none");
      for (const one of row.holders || []) {
        if (one.pod) spaces.add(one.pod.split("/")[0]);
        if (one.workload) owners.add(one.workload);
      }
    }
    const reasons = new Set();
    for (const row of this.store.groups.values()) {
      spaces.add(row.namespace);
      owners.add(row.workload);
      if (row.reason) reasons.add(row.reason);
    }
    this.#options("state", STATES);
    this.#options("pool", plain(pools));
    this.#options("namespace", plain(spaces));
    this.#options("owner", plain(owners));
    this.#options("reason", plain(reasons));
    $("map-colour").value = this.colour;
    $("map-sort").value = this.sort;
    $("filter-clear").hidden = !this.any;
  }

  #options(name, values) {
    const select = $(`filter-${name}`);
    const chosen = this.chosen[name];
    const shown = values.slice(0, MOST_OPTIONS);
    if (chosen && !shown.some(([value]) => value === chosen)) shown.unshift([chosen, chosen]);
    const said = shown.map(([value]) => value).join("\n");
    if (select.dataset.values !== said || !select.options.length) {
      select.dataset.values = said;
      select.replaceChildren(make("option", { value: "", text: ALL[name] }), ...shown.map(([value, text]) => make("option", { value, text })));
    }
    if (select.value !== chosen) select.value = chosen;
    select.classList.toggle("on", Boolean(chosen));
  }
}

function plain(values) {
  return [...values].sort().map((value) => [value, value]);
}

function isIn(row, state) {
  const states = row.states || "";
  if (LETTERS[state]) return states.includes(LETTERS[state]);
  switch (state) {
    case "idle": return Boolean(states) && [...states].every((one) => one === "f" || one === "u") && states.includes("f");
    case "leaving": return Boolean(row.deletionTime) || row.drainingSince !== undefined;
    case "notready": return row.ready === false && !states.startsWith("c");
    case "cordoned": return Boolean(row.cordoned);
    case "silent": return Boolean(row.stale);
    default: return true;
  }
}
