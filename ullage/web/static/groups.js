// Waiting pods by workload and reason, each group with what to do; and banners: what on-call should know at a glance.

import { $, Rows, make, say } from "./dom.js";
import { inWords, plural, span } from "./words.js";

const FEW = 12; // waiting pods that are shown one by one without being asked for

export class Groups {
  constructor(store, filters, { onPod, onChange }) {
    this.store = store;
    this.filters = filters;
    this.rows = new Rows($("groups"), (key, row) => this.#create(row, onPod), (element, row) => this.#update(element, row));
    $("one-by-one").addEventListener("click", () => {
      this.single = !this.showsPods;
      onChange();
    });
  }

  // Whether pods are listed one by one below the groups.
  get showsPods() {
    return this.single ?? (this.store.totals.get("now")?.pending || this.store.pending.size) <= FEW;
  }

  draw() {
    const all = [...this.store.groups.entries()];
    const shown = all.filter(([, row]) => this.filters.passesWaiting(row));
    shown.sort(([, a], [, b]) => (b.gpus || 0) - (a.gpus || 0) || b.count - a.count || (a.workload < b.workload ? -1 : 1));
    this.rows.show(shown);
    $("waiting-tools").hidden = all.length === 0;
    $("one-by-one").setAttribute("aria-pressed", String(this.showsPods));
    this.tick();
  }

  tick() {
    const now = this.store.time();
    this.rows.each((element, row) => say(element.querySelector(".row-right"), span(now - row.since)));
  }

  #create(row, onPod) {
    const name = make("button", { class: "linklike", type: "button", text: row.workload, title: `Explain ${row.pods[0]}` });
    name.addEventListener("click", () => onPod(name.dataset.first, name));
    const top = make("div", { class: "row-top" }, name, make("span", { class: "row-right" }));
    const parts = [make("div", { class: "row-tags" }), make("p", { class: "row-note" }), make("p", { class: "action" }), make("pre", { class: "commands" })];
    return make("li", {}, make("div", { class: "row group" }, top, ...parts));
  }

  #update(element, row) {
    element.querySelector(".linklike").dataset.first = row.pods[0];
    const tags = [row.namespace, plural(row.count, "pod"), row.gpus && plural(row.gpus, "GPU"), row.reason].filter(Boolean);
    element.querySelector(".row-tags").replaceChildren(...tags.flatMap((text) => [make("span", { class: `tag ${text === row.reason && text !== "Fits" ? "warn" : ""}`, text }), " "]));
    say(element.querySelector(".row-note"), row.sentence || (row.reason ? inWords(row.reason) : "Not asked yet"));
    say(element.querySelector(".action"), row.action ? `Next: ${row.action}` : "");
    const commands = element.querySelector(".commands");
    commands.hidden = !row.commands?.length;
    say(commands, (row.commands || []).join("\n"));
  }
}

export class Banners {
  constructor(store) {
    this.store = store;
    this.rows = new Rows($("banners"), () => this.#create(), (element, row) => this.#update(element, row));
  }

  draw() {
    const shown = [...this.store.banners.entries()];
    shown.sort(([one, a], [other, b]) => Number(Boolean(b.bad)) - Number(Boolean(a.bad)) || (one < other ? -1 : 1));
    this.rows.show(shown);
    $("banners").hidden = shown.length === 0;
  }

  #create() {
    return make("li", {}, make("b", {}), " ", make("span", {}), " ", make("code", {}));
  }

  #update(element, row) {
    element.className = `banner ${row.bad ? "bad" : "warn"}`;
    say(element.querySelector("b"), row.kind);
    say(element.querySelector("span"), row.sentence);
    say(element.querySelector("code"), row.action || "");
  }
}
