// The panel with details: a node with its GPUs, or a pod explained. Escape closes it, and the focus goes back.

import { $, make, say } from "./dom.js";
import { ask } from "./past.js";
import { describe } from "./tile.js";
import { STATES, countdown, dayAndTime, inWords, money, plural, span, written } from "./words.js";

const TITLES = { claim: "Claim", gang: "Gang", quota: "Quota", pool: "Pool" };

export class Details {
  constructor(store, { onSelect, onShown, past }) {
    this.store = store;
    this.onSelect = onSelect;
    this.onShown = onShown;
    this.past = past; // of the past: moment(at, around)
    this.shown = null; // {kind, key}
    this.from = null;
    $("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.shown) this.close();
    });
  }

  openNode(name, from) {
    this.#open({ kind: "node", key: name }, from);
    this.refresh();
  }

  async openPod(pod, from) {
    this.#open({ kind: "pod", key: pod }, from);
    say($("details-title"), pod);
    $("details-body").replaceChildren(make("p", { class: "empty", text: "Asking every node…" }));
    await this.#explain(pod);
  }

  // A claim, gang, quota or pool.
  async openAnswer(kind, name, from) {
    this.#open({ kind, key: name }, from);
    say($("details-title"), `${TITLES[kind]} ${name}`);
    $("details-body").replaceChildren(make("p", { class: "empty", text: "Asking…" }));
    const said = await ask(`/api/answer/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`);
    if (this.shown?.kind !== kind || this.shown.key !== name) return; // something else was opened meanwhile
    $("details-body").replaceChildren(...this.#answer(kind, name, said));
  }

  async openMoment(at, from, around = 600) {
    const key = written(at);
    const same = this.shown?.kind === "at" && this.shown.key === key && this.shown.around === around;
    this.#open({ kind: "at", key, around }, from);
    say($("details-title"), `${dayAndTime(at)} UTC`);
    if (!same) $("details-body").replaceChildren(make("p", { class: "empty", text: "Looking it up…" }));
    const body = await this.past().moment(at, around);
    if (this.shown?.kind === "at" && this.shown.key === key && this.shown.around === around) $("details-body").replaceChildren(...body);
  }

  close() {
    this.shown = null;
    $("details").hidden = true;
    this.onSelect(null);
    this.onShown({});
    if (this.from?.isConnected) this.from.focus();
    this.from = null;
  }

  // What is shown of a node follows the node; an explanation is of the moment it was asked.
  refresh(changes) {
    if (this.shown?.kind !== "node") return;
    if (changes && !changes.nodes?.has(this.shown.key)) return;
    const row = this.store.nodes.get(this.shown.key);
    say($("details-title"), this.shown.key);
    const focused = document.activeElement?.dataset?.pod;
    $("details-body").replaceChildren(...(row ? this.#node(row) : [make("p", { text: "This node is gone." })]));
    if (focused) $("details-body").querySelector(`[data-pod="${CSS.escape(focused)}"]`)?.focus();
  }

  #open(what, from) {
    if (!this.shown) this.from = from;
    this.shown = what;
    this.onSelect(what.kind === "node" ? what.key : null);
    this.onShown({ [what.kind]: what.key, around: what.around && what.around !== 600 ? String(what.around) : "" });
    $("details").hidden = false;
    $("details").scrollTop = 0;
    $("details-title").focus({ preventScroll: true });
  }

  #pod(pod) {
    const button = make("button", { class: "linklike", type: "button", "data-pod": pod, text: pod });
    button.addEventListener("click", () => this.openPod(pod, button));
    return button;
  }

  #nodeLink(name) {
    const button = make("button", { class: "linklike", type: "button", text: name });
    button.addEventListener("click", () => this.openNode(name, button));
    return button;
  }

  #answerLink(kind, name) {
    const button = make("button", { class: "linklike", type: "button", text: name });
    button.addEventListener("click", () => this.openAnswer(kind, name, button));
    return button;
  }

  #answer(kind, name, said) {
    if (said.trouble) return this.#told(said);
    const again = make("button", { class: "plain", type: "button", text: "Ask again" });
    again.addEventListener("click", () => this.openAnswer(kind, name, again));
    return [...this.#told(said), make("p", {}, again)];
  }

  #told(said) {
    if (said.trouble) return [make("p", { class: "empty", text: said.trouble })];
    const good = ["Bound", "HasRoom", "NoAction", "Open", "Reserved"].includes(said.verdict);
    const parts = [make("p", {}, make("span", { class: `tag ${good ? "good" : "warn"}`, text: said.verdict })), make("p", { class: "says", text: said.message })];
    if (said.lines?.length) parts.push(make("ul", { class: "said" }, ...said.lines.map((text) => make("li", { text }))));
    if (said.helps?.length) parts.push(make("h3", { text: "What would help" }), make("ul", { class: "helps" }, ...said.helps.map((text) => make("li", { text }))));
    if (said.commands?.length) parts.push(make("h3", { text: "Commands" }), make("pre", { class: "commands", text: said.commands.join("\n") }));
    return parts;
  }

  // What keeps pods off a node, and the node from being removed: of the moment it was asked, for as long as the node is shown.
  // Like a pod's button, this one has the focus again after a refresh.
  #why(name) {
    const said = this.why?.name === name ? this.why.said : null;
    const button = make("button", { class: "plain", type: "button", "data-pod": "?why", text: said ? "Ask again" : "What does it take, and why does it stay?" });
    button.addEventListener("click", async () => {
      button.textContent = "Asking…";
      this.why = { name, said: await ask(`/api/answer/node/${encodeURIComponent(name)}`) };
      this.refresh();
    });
    return [...(said ? this.#told(said) : []), make("p", {}, button)];
  }

  #node(row) {
    const pool = this.store.pools.get(row.pool);
    const currency = this.store.page.currency || "$";
    const now = this.store.time();
    const facts = [
      ["Pool", row.pool ? this.#answerLink("pool", row.pool) : "none"],
      ["Zone", row.zone],
      ["Price", pool?.price ? `${money(pool.price, currency)} an hour` : ""],
      ["Up for", row.created ? span(now - row.created) : ""],
      ["Idle", idleOf(row, now)],
      ["Chosen by", row.counted ? "the node's device plugin: GPUs are counted" : row.states ? "ullage: exact GPUs are leased" : ""],
      ["Pods to leave first", row.pods ? String(row.pods) : ""],
      ["To be removed", row.deletionTime ? (row.deletionTime > now ? `in ${countdown(row.deletionTime - now)}` : "now") : ""],
      ["Draining", row.drainingSince !== undefined ? "yes: its pods are being evicted" : ""],
      ["Drain candidate", row.candidateSince !== undefined ? "yes: all its pods would fit elsewhere" : ""],
      ["Ready", row.ready === false ? "no" : ""],
      ["Cordoned", row.cordoned ? "yes" : ""],
      ["Protected", row.protected ? "yes: it is not scaled down" : ""],
      ["Agent", row.stale ? "silent: no GPU pods are placed here" : ""],
    ].filter(([, value]) => value);
    const list = make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", {}, value)]));
    return [make("p", { class: "says", text: describe(row) }), list, ...this.#why(this.shown.key), ...this.#gpus(row), ...this.#counted(row)];
  }

  #gpus(row) {
    if (!row.states) return [];
    const lines = [...row.states].map((state, at) => {
      const id = row.ids ? row.ids[at] : at;
      const holders = (row.holders || []).filter((holder) => (holder.gpus || []).includes(id));
      const who = holders.flatMap((holder, place) => [
        place ? ", " : "",
        holder.pod ? this.#pod(holder.pod) : holder.what,
        holder.milli !== undefined && holder.milli < 1000 ? ` (${holder.milli / 10}%)` : "",
        holder.leaving ? (holder.pod ? " (leaving)" : " (being given back)") : "",
      ]);
      const cell = make("i", { class: `g ${state}`, "aria-hidden": "true" });
      if (state === "s") cell.style.setProperty("--taken", `${(row.taken?.[at] ?? 500) / 10}%`);
      return make(
        "tr", {}, make("td", {}, cell, ` ${id}`), make("td", { text: STATES[state] }),
        make("td", { text: row.islands ? String(row.islands[at]) : "–" }), make("td", {}, ...who),
      );
    });
    const heads = ["GPU", "State", "Island", "Held by"].map((text) => make("th", { scope: "col", text }));
    return [make("h3", { text: "GPUs" }), make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines))];
  }

  #counted(row) {
    const unnamed = (row.holders || []).filter((holder) => holder.count);
    if (!unnamed.length) return [];
    const items = unnamed.map((holder) => make("li", {}, this.#pod(holder.pod), ` ${plural(holder.count, "GPU")}`));
    return [make("h3", { text: "Counted, not named" }), make("ul", {}, ...items)];
  }

  async #explain(pod) {
    const said = await ask(`/api/explain/${pod.split("/").map(encodeURIComponent).join("/")}`);
    if (this.shown?.kind !== "pod" || this.shown.key !== pod) return; // something else was opened meanwhile
    if (said.trouble) $("details-body").replaceChildren(make("p", { class: "empty", text: said.trouble }));
    else $("details-body").replaceChildren(...this.#explanation(said));
  }

  #explanation(said) {
    const kind = said.verdict === "Fits" || said.verdict === "Bound" ? "good" : "warn";
    const again = make("button", { class: "plain", type: "button", text: "Ask again" });
    again.addEventListener("click", () => this.openPod(said.pod, again));
    const parts = [
      make("p", {}, make("span", { class: `tag ${kind}`, text: said.verdict }), " ", inWords(said.verdict) === said.verdict ? "" : inWords(said.verdict)),
      make("p", { class: "says", text: said.message }),
    ];
    if (said.node) parts.push(make("p", {}, "On ", this.#nodeLink(said.node)));
    if (said.claim) parts.push(make("p", {}, "By claim ", this.#answerLink("claim", said.claim)));
    if (said.gang) parts.push(make("p", {}, "Of gang ", this.#answerLink("gang", said.gang)));
    if (said.helps?.length) {
      parts.push(make("h3", { text: "What would help" }), make("ul", { class: "helps" }, ...said.helps.map((text) => make("li", { text }))));
    }
    if (said.groups?.length) {
      parts.push(make("h3", { text: said.verdict === "Bound" ? "What nodes would say to it now" : "What every node says" }));
      parts.push(...said.groups.map((group) => this.#group(group)));
    }
    parts.push(make("p", {}, again));
    return parts;
  }

  #group(group) {
    const more = group.count > group.nodes.length ? ` and ${group.count - group.nodes.length} more` : "";
    const kind = group.reason === "Fits" ? "good" : "";
    const head = make(
      "summary", {}, make("b", { text: String(group.count) }),
      make("span", {}, make("span", { class: `tag ${kind}`, text: group.reason }), " ", make("span", { class: "row-note", text: group.detail || inWords(group.reason) })),
    );
    const names = group.nodes.slice(0, 60).flatMap((name, at) => [at ? ", " : "", this.#nodeLink(name)]);
    const rest = group.nodes.length > 60 ? `, ${group.nodes.slice(60).join(", ")}` : "";
    const box = make("details", { class: "group" }, head, make("p", { class: "names" }, ...names, rest + more));
    box.open = group.count <= 4;
    return box;
  }
}

// How long its GPUs have been free: the longest, as far as this dashboard has seen.
function idleOf(row, now) {
  const times = row.idleSince || [];
  const free = [...(row.states || "")].filter((state) => state === "f").length;
  return times.length && free ? `${plural(free, "GPU")}, for ${span(now - Math.min(...times))} at least` : "";
}
