// Views for on-call as tables: the queue in its order, gangs, quotas, preemptions and drains under way.

import { $, make, say } from "./dom.js";
import { inWords, moment, number, plural, span } from "./words.js";

const PAGE = 50;
const VIEWS = ["queue", "gangs", "quotas", "preemptions", "drains"];

export class Views {
  constructor(store, filters, { onPod, onNode, onAnswer, onChange }) {
    Object.assign(this, { store, filters, onPod, onNode, onAnswer });
    this.shown = "queue";
    this.page = 0;
    for (const name of VIEWS) {
      $(`tab-${name}`).addEventListener("click", () => this.show(name, onChange));
    }
    $("view-tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = VIEWS[(VIEWS.indexOf(this.shown) + step + VIEWS.length) % VIEWS.length];
      this.show(next, onChange);
      $(`tab-${next}`).focus();
    });
    $("view-more").addEventListener("click", () => {
      this.page += 1;
      this.draw();
    });
  }

  show(name, onChange = () => {}) {
    this.shown = VIEWS.includes(name) ? name : "queue";
    this.page = 0;
    onChange(this.shown);
    this.draw();
  }

  draw() {
    const all = Object.fromEntries(VIEWS.map((name) => [name, this[`rows_${name}`]()]));
    const totals = this.store.totals.get("now") || {};
    for (const name of VIEWS) {
      const tab = $(`tab-${name}`);
      const count = name === "queue" && !this.filters.any ? totals.pending || 0 : all[name].length;
      say(tab.querySelector(".tab-count"), count ? number(count) : "");
      tab.setAttribute("aria-selected", String(name === this.shown));
      tab.tabIndex = name === this.shown ? 0 : -1;
    }
    const rows = all[this.shown];
    const shown = rows.slice(0, PAGE * (this.page + 1));
    const said = JSON.stringify([this.shown, shown.map((one) => one.cells.map((cell) => (cell instanceof Node ? cell.textContent : cell)))]);
    if (said !== this.drawn) {
      this.drawn = said;
      this.#table(shown);
    }
    $("view-empty").hidden = rows.length > 0;
    say($("view-empty"), EMPTY[this.shown]);
    $("view-more").hidden = shown.length >= rows.length;
    say($("view-more"), `Show ${Math.min(PAGE, rows.length - shown.length)} more of ${number(rows.length)}`);
    say($("view-note"), this.#note(rows, totals));
    $("view-panel").setAttribute("aria-labelledby", `tab-${this.shown}`);
  }

  // Ages go on between patches, a few seconds at a time.
  tick() {
    this.draw();
  }

  #note(rows, totals) {
    const left = (totals.pending || 0) - this.store.pending.size;
    if (this.shown === "queue" && left > 0) return `The first ${number(this.store.pending.size)} of ${number(totals.pending)}: ${number(left)} wait behind them.`;
    return NOTES[this.shown];
  }

  #table(rows) {
    const focused = document.activeElement?.dataset?.cell;
    const heads = HEADS[this.shown].map((text) => make("th", { scope: "col", text }));
    const lines = rows.map((row) => make("tr", { class: row.kind || "", "data-key": row.key }, ...row.cells.map((cell) => make("td", {}, cell))));
    $("view-table").replaceChildren(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
    if (focused) $("view-table").querySelector(`[data-cell="${CSS.escape(focused)}"]`)?.focus();
  }

  #link(text, open) {
    const button = make("button", { class: "linklike", type: "button", text, title: text, "data-cell": `${this.shown} ${text}` });
    button.addEventListener("click", () => open(text, button));
    return button;
  }

  // In the order in which the scheduler takes them: priority, then age, then name.
  rows_queue() {
    const now = this.store.time();
    const all = [...this.store.pending.values()];
    all.sort((a, b) => (b.priority || 0) - (a.priority || 0) || a.since - b.since || (a.pod < b.pod ? -1 : 1));
    return all.map((row, at) => [row, at + 1]).filter(([row]) => this.filters.passesWaiting(row, row.pod)).map(([row, at]) => ({
      key: row.pod,
      cells: [
        String(at), this.#link(row.pod, this.onPod), String(row.priority || 0), span(now - row.since), row.asks,
        row.gang || "–", tag(row.reason || "not asked yet", row.reason === "Fits" ? "good" : row.reason ? "warn" : ""),
      ],
    }));
  }

  rows_gangs() {
    const now = this.store.time();
    const all = [...this.store.gangs.values()].filter((row) => this.filters.passesNamespace(row.namespace));
    all.sort((a, b) => Boolean(b.waiting) - Boolean(a.waiting) || (b.priority || 0) - (a.priority || 0) || (a.since || 0) - (b.since || 0) || (a.gang < b.gang ? -1 : 1));
    return all.map((row) => ({
      key: row.gang,
      cells: [
        this.#link(row.gang, (name, from) => this.onAnswer("gang", name, from)),
        `${row.bound || 0} of ${row.needs || "?"}`, row.waiting ? String(row.waiting) : "–", row.nodes ? plural(row.nodes, "node") : "–",
        row.since ? span(now - row.since) : "–",
        row.waiting ? tag(row.reason || "not asked yet", row.reason === "Fits" ? "good" : "warn") : tag((row.bound || 0) >= (row.needs || 0) ? "placed" : "incomplete", "good"),
      ],
    }));
  }

  rows_quotas() {
    const all = [...this.store.quotas.values()].filter((row) => this.filters.passesNamespace(row.namespace));
    const full = (row) => Math.max(0, ...(row.limits || []).map((bar) => (bar.most ? bar.used / bar.most : 1)));
    all.sort((a, b) => (b.waiting || 0) - (a.waiting || 0) || full(b) - full(a) || (a.quota < b.quota ? -1 : 1));
    return all.map((row) => ({
      key: row.quota,
      cells: [
        this.#link(row.quota, (name, from) => this.onAnswer("quota", name, from)),
        make("div", { class: "limits" }, ...(row.limits || []).map(limit)),
        row.waiting ? tag(plural(row.waiting, "pod"), "warn") : "–",
      ],
    }));
  }

  rows_preemptions() {
    const now = this.store.time();
    const under = [...this.store.preemptions.values()].map((row) => ({
      key: row.pod,
      cells: [
        tag("under way", "warn"), this.#link(row.pod, this.onPod), this.#link(row.node, this.onNode), String(row.priority || 0), span(now - row.since),
        row.leaving?.length ? `${row.leaving.join(", ")}${row.more ? ` and ${row.more} more` : ""} leave` : "nobody leaves any more",
      ],
    }));
    const done = [...this.store.decisions.entries()].filter(([, row]) => row.reason === "Preempted").sort(([, a], [, b]) => b.at - a.at);
    return [...under, ...done.map(([key, row]) => ({
      key,
      cells: [tag("done", ""), this.#link(row.about, this.onPod), "–", "–", moment(row.at, now), row.note],
    }))];
  }

  rows_drains() {
    const now = this.store.time();
    const inPool = (row) => !this.filters.chosen.pool || (row.pool || "none") === this.filters.chosen.pool;
    const all = [...this.store.drains.values()].filter(inPool).sort((a, b) => (a.since || 0) - (b.since || 0) || (a.node < b.node ? -1 : 1));
    return all.map((row) => ({
      key: row.node,
      cells: [
        this.#link(row.node, this.onNode), row.pool || "none", row.since ? span(now - row.since) : "–",
        row.left ? `${row.left}${row.leaving ? `, ${row.leaving} ending` : ""}` : "empty",
        row.pods?.length ? make("span", {}, ...row.pods.flatMap((pod, at) => [at ? ", " : "", this.#link(pod, this.onPod)]), row.left > row.pods.length ? ` and ${row.left - row.pods.length} more` : "") : "–",
        row.stuck ? tag("stuck", "bad") : tag("under way", ""),
      ],
    }));
  }
}

const HEADS = {
  queue: ["#", "Pod", "Priority", "Waits for", "Asks for", "Gang", "Obstacle"],
  gangs: ["Gang", "Placed", "Waiting", "On", "Waits for", "Obstacle"],
  quotas: ["Quota", "Held", "Waiting for it"],
  preemptions: ["", "Pod", "Node", "Priority", "Since", "What"],
  drains: ["Node", "Pool", "For", "Pods left", "Which", ""],
};
const EMPTY = {
  queue: "Nobody waits.", gangs: "There are no gangs.", quotas: "There are no quotas.",
  preemptions: "Nobody was preempted, and for nobody room is being made.", drains: "No node is being drained.",
};
const NOTES = {
  queue: "In the order in which the scheduler takes them: priority, then age, then name.",
  gangs: "Gangs that wait first.",
  quotas: "Quotas that pods wait for first, then the fullest.",
  preemptions: "Pods for which room is being made; then pods that were preempted, as far as decisions are kept here.",
  drains: "The longest first. A drain of more than 15 minutes is called stuck.",
};

function tag(text, kind) {
  return make("span", { class: `tag ${kind}`, text, title: inWords(text) === text ? "" : inWords(text) });
}

function limit(bar) {
  const part = bar.most ? Math.min(100, (100 * bar.used) / bar.most) : 100;
  const track = make("span", { class: "bar limit-bar", "aria-hidden": "true" }, make("i", { class: bar.used >= bar.most ? "full" : "l" }));
  track.firstElementChild.style.width = `${part}%`;
  return make("span", { class: "limit" }, track, `${number(bar.used)} of ${number(bar.most)} ${bar.what}`);
}
