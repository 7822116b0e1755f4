// What Karpenter was asked for: one row per request with its smart pod and NodeClaim, then NodeClaims in use.

import { $, Rows, make, say } from "./dom.js";
import { countdown, moment, plural, span } from "./words.js";

const MOST = 40;
const RANK = { Failed: 0, Expired: 0, HandedOver: 1, Reserved: 1, InventoryReady: 1, Ready: 4 };

export class Capacity {
  constructor(store, { onPod, onNode }) {
    this.store = store;
    this.onPod = onPod;
    this.onNode = onNode;
    this.rows = new Rows($("capacity"), (key) => this.#create(key), (element, row) => this.#update(element, row));
  }

  draw() {
    const all = [...this.store.capacity.entries()];
    const rank = (row) => (row.pods?.length ? 0 : 10) + (RANK[row.state] ?? 2);
    all.sort(([one, a], [other, b]) => rank(a) - rank(b) || b.since - a.since || (one < other ? -1 : 1));
    $("capacity-panel").hidden = all.length === 0;
    const coming = all.filter(([, row]) => row.pods?.length).length;
    say($("capacity-count"), coming ? plural(coming, "request") : "");
    this.rows.show(all.slice(0, MOST));
    this.tick();
  }

  tick() {
    const now = this.store.time();
    this.rows.each((element, row) => {
      say(element.querySelector(".row-right"), this.#when(row, now));
    });
  }

  #when(row, now) {
    if (row.expected && row.expected > now) return `expected in ${countdown(row.expected - now)}`;
    if (!row.pods?.length && row.state === "Ready") return `took ${span(row.since - row.claimedAt)}`;
    return `for ${span(now - row.since)}`;
  }

  #create(key) {
    const top = make("div", { class: "row-top" }, make("b"), make("span", { class: "row-right" }));
    return make("li", {}, make(
      "div", { class: "row", "data-request": key }, top,
      make("span", { class: "row-tags" }), make("div", { class: "row-about" }), make("span", { class: "row-note" }),
    ));
  }

  #update(element, row) {
    say(element.querySelector("b"), row.state);
    const tags = [];
    if (row.nodeClaim) tags.push(make("span", { class: "tag", text: `NodeClaim ${row.nodeClaim}` }));
    if (row.nodePool) tags.push(" ", make("span", { class: "tag", text: `NodePool ${row.nodePool}` }));
    if (row.unprotected) tags.push(" ", make("span", { class: "tag warn", text: "HandoverUnprotected" }));
    if (row.attempts) tags.push(" ", make("span", { class: "tag warn", text: plural(row.attempts, "failed attempt") }));
    element.querySelector(".row-tags").replaceChildren(...tags);
    const about = (row.pods || []).map((pod) => this.#link(pod, this.onPod));
    if (row.node) about.push(this.#link(row.node, this.onNode));
    element.querySelector(".row-about").replaceChildren(...about.flatMap((one, at) => (at ? [" → ", one] : [one])));
    say(element.querySelector(".row-note"), this.#note(row));
  }

  #link(name, open) {
    const button = make("button", { class: "linklike", type: "button", text: name, title: name });
    button.addEventListener("click", () => open(name, button));
    return button;
  }

  #note(row) {
    const parts = [];
    if (row.claimedAt) parts.push(`claimed ${moment(row.claimedAt, this.store.time())}`);
    for (const step of row.steps || []) parts.push(`${step.name} +${span(step.after || 0)}`);
    if (row.latest) parts.push(`nine of ten by ${moment(row.latest, this.store.time())}`);
    if (row.smartPod) parts.push(`smart pod ${row.smartPod.split("/")[1]}`);
    return parts.join(" · ");
  }
}
