// The heading of a pool: what its nodes are, how many there are, are wanted and come, and what was decided last.

import { make, say } from "./dom.js";
import { countdown, money, number, plural } from "./words.js";

export class PoolHead {
  constructor(id, title, name) {
    this.what = make("span", { class: "what" });
    this.size = make("span", { class: "size" });
    this.used = make("i", { class: "l" });
    this.tags = make("span", { class: "tags" });
    this.why = make("p", { class: "pool-why" });
    const bar = make("div", { class: "bar pool-bar", "aria-hidden": "true" }, this.used);
    this.element = make(
      "div", { class: "pool-head" }, make("h3", { id }, name ? make("button", { class: "linklike head", type: "button", "data-pool-link": name, tabindex: "-1", title: `Explain pool ${name}`, text: title }) : title), this.what, bar, this.size, this.tags, this.why,
    );
    this.tagged = "";
  }

  draw(name, row, nodes, store) {
    const states = nodes.map((node) => node.states || "").join("");
    const total = count(states, "flsru");
    const percent = total ? Math.round((100 * count(states, "lsr")) / total) : 0;
    const width = `${percent}%`;
    if (this.used.style.width !== width) this.used.style.width = width;
    if (!row) {
      say(this.what, name ? "no NodeProvisioner of this name" : "");
      say(this.size, `${plural(nodes.length, "node")}${total ? `, ${percent}% of ${number(total)} GPUs used` : ""}`);
      return;
    }
    const price = row.price ? `${money(row.price, store.page.currency || "$")}/h each` : "no price";
    say(this.what, `${row.gpus} × ${row.model} · ${price}${row.capacityType === "Spot" ? " · spot" : ""}`);
    const coming = row.coming ? `, ${row.coming} coming` : "";
    const sizes = `${row.current ?? nodes.length} now → ${row.target ?? "?"} wanted${coming}`;
    say(this.size, `${sizes} · at most ${row.most} · ${percent}% used`);
    say(this.why, row.decision && row.decision !== "NoAction" ? `${row.decision}: ${row.why || ""}` : row.why || "");
    this.why.title = this.why.textContent;
    this.tick(row, store);
  }

  tick(row, store) {
    const tags = [];
    if (row?.paused) tags.push(["paused", "warn"]);
    if (row?.recommendOnly) tags.push(["recommends only", ""]);
    if (row?.blocked) {
      const left = Math.max(0, (row.blockedUntil || 0) - store.time());
      tags.push([`${row.blocked.split(":")[0]}, again in ${countdown(left)}`, "bad"]);
    }
    const text = JSON.stringify(tags);
    if (this.tagged === text) return;
    this.tagged = text;
    this.tags.replaceChildren(...tags.map(([said, kind]) => make("span", { class: `tag ${kind}`, text: said })));
  }
}

function count(states, letters) {
  let found = 0;
  for (const state of states) found += letters.includes(state);
  return found;
}
