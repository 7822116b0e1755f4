// The past: a range of time for the charts, and one moment: what was, and what changed around it.

import { $, make, say } from "./dom.js";
import { dayAndTime, moment, money, number, plural, readMoment, span } from "./words.js";

const RANGES = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "30d": 2592000 };
const POINTS = 240;
const AGAIN = 30000; // milliseconds between two looks at a range that ends now
const SOURCES = { decision: "decision", node: "node", gpu: "GPU", settings: "settings", dashboard: "dashboard" };

export class Past {
  constructor(store, charts, { onPod, onNode, onAnswer, onMoment, onLink }) {
    Object.assign(this, { store, charts, onPod, onNode, onAnswer, onMoment, onLink });
    this.range = "";
    this.from = this.to = Number.NaN;
    $("range").addEventListener("change", (event) => this.choose(event.target.value));
    $("when").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#asked();
    });
    $("when-at").addEventListener("input", () => $("when-at").setCustomValidity(""));
    setInterval(() => this.range && !document.hidden && this.load(), AGAIN);
  }

  choose(range) {
    this.range = RANGES[range] ? range : "";
    this.from = this.to = Number.NaN;
    this.onLink({ range: this.range, from: "", to: "" });
    this.load();
  }

  // What the address asks for: a range by its name, or from and to.
  follow(link) {
    this.range = RANGES[link.range] ? link.range : "";
    this.from = link.from ? Date.parse(link.from) / 1000 : Number.NaN;
    this.to = link.to ? Date.parse(link.to) / 1000 : Number.NaN;
    this.load();
  }

  async load() {
    const keeps = Boolean(this.store.page.keepsHistory);
    $("past-tools").hidden = !keeps;
    const fixed = this.from < this.to;
    const custom = $("range").querySelector('[value="custom"]');
    custom.hidden = !fixed;
    if (fixed) say(custom, `${dayAndTime(this.from)} to ${dayAndTime(this.to)}`);
    $("range").value = fixed ? "custom" : this.range;
    if (!keeps || (!this.range && !fixed)) {
      this.charts.live();
      say($("range-note"), "");
      return;
    }
    const end = fixed ? this.to : this.store.time();
    const begin = fixed ? this.from : end - RANGES[this.range];
    const said = await ask(`/api/history?from=${begin.toFixed(0)}&to=${end.toFixed(0)}&points=${POINTS}`);
    if (said.trouble && !said.samples) return say($("range-note"), said.trouble);
    this.charts.past(said.samples, { begin, end });
    say($("range-note"), this.#note(said, begin));
  }

  #note(said, begin) {
    const parts = [];
    if (said.trouble) parts.push(said.trouble);
    if (!said.samples.length) parts.push("nothing is known of this time");
    if (said.since && said.since > begin + 60) parts.push(`recorded here since ${dayAndTime(said.since)}${said.askedPrometheus && !said.trouble ? "; older figures are Prometheus's, without prices" : ""}`);
    return parts.join("; ");
  }

  #asked() {
    const field = $("when-at");
    const at = readMoment(field.value, this.store.time());
    if (Number.isNaN(at)) {
      field.setCustomValidity("A time such as 03:10, or 2026-11-18 03:10. UTC, by the server's clock.");
      field.reportValidity();
      return;
    }
    this.onMoment(at, $("when-go"));
  }

  // The body of a moment's panel.
  async moment(at, around) {
    const said = await ask(`/api/moment?at=${at.toFixed(0)}&around=${around}`);
    if (said.trouble && !said.changes) return [make("p", { class: "empty", text: said.trouble })];
    return [
      ...(said.trouble ? [make("p", { class: "empty", text: `The history is not kept just now: ${said.trouble}` })] : []),
      this.#steps(at, around), make("h3", { text: "What was" }), ...this.#was(said.sample, said), make("h3", { text: "What changed" }), ...this.#changes(said),
    ];
  }

  #steps(at, around) {
    const step = (text, to, wide) => {
      const button = make("button", { class: "plain", type: "button", text });
      button.addEventListener("click", () => this.onMoment(to, button, wide));
      return button;
    };
    const select = make("select", { "aria-label": "How far around" }, ...[300, 600, 1800, 3600, 21600].map((one) => make("option", { value: String(one), text: `± ${span(one)}` })));
    select.value = String(around);
    select.addEventListener("change", () => this.onMoment(at, select, Number(select.value)));
    return make("p", { class: "tools" }, step("← earlier", at - around, around), select, step("later →", at + around, around));
  }

  #was(sample, said) {
    if (!sample) {
      const since = said.since ? `; recorded since ${dayAndTime(said.since)}` : "";
      return [make("p", { class: "empty", text: `Nothing was recorded at that time${since}.` })];
    }
    const currency = this.store.page.currency || "$";
    const facts = [
      ["Nodes", number(sample.nodes || 0)], ["GPUs", `${number(sample.allocated || 0)} of ${number(sample.gpus || 0)} allocated${sample.broken ? `, ${number(sample.broken)} unhealthy` : ""}`],
      ["Waiting", `${plural(Math.round(sample.pending || 0), "pod")}${sample.pendingGpus ? `, ${plural(Math.round(sample.pendingGpus), "GPU")} asked for` : ""}`],
      ["Waste", sample.price ? `${money(sample.waste || 0, currency)} of ${money(sample.price, currency)} an hour` : "no prices"],
      ["Mean of", `${moment(sample.at, this.store.time())} to ${moment(sample.at + sample.width, this.store.time())}`],
    ];
    const list = make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));
    return [list, ...this.#pools(sample), ...this.#queue(sample)];
  }

  #pools(sample) {
    if (!sample.pools?.length) return [];
    const lines = sample.pools.map((one) => make("tr", {},
      make("td", {}, one.name ? this.#link(one.name, (name, from) => this.onAnswer("pool", name, from)) : "no pool"), make("td", { text: `${one.nodes || 0}${one.target !== undefined && one.target !== one.nodes ? ` → ${one.target}` : ""}` }),
      make("td", { text: `${number(one.allocated || 0)} of ${number(one.gpus || 0)}` }), make("td", { text: one.broken ? String(one.broken) : "–" })));
    return [table(["Pool", "Nodes", "GPUs", "Unhealthy"], lines), ...more(sample.morePools, "pool")];
  }

  #queue(sample) {
    if (!sample.queue?.length) return [];
    const lines = sample.queue.map((one) => make("tr", {},
      make("td", { text: `${one.namespace} ${one.workload}` }), make("td", { text: String(one.count) }), make("td", { text: one.gpus ? String(one.gpus) : "–" }), make("td", { text: one.reason || "–" })));
    return [make("h3", { text: "Who waited" }), table(["Workload", "Pods", "GPUs", "Obstacle"], lines), ...more(sample.moreGroups, "group")];
  }

  #changes(said) {
    const counts = Object.entries(said.counts);
    if (!counts.length) return [make("p", { class: "empty", text: "Nothing changed that was recorded." })];
    const list = make("ol", { class: "rows changes" }, ...said.changes.map((one) => this.#change(one, said.at)));
    const chips = counts.map(([reason, count]) => {
      const button = make("button", { class: "plain chip", type: "button", "aria-pressed": "false", text: `${count} ${reason}` });
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button && on));
        for (const item of list.children) item.hidden = on && item.dataset.reason !== reason;
      });
      return button;
    });
    return [make("p", { class: "chips" }, ...chips), list, ...(said.more ? [make("p", { class: "empty", text: `${number(said.more)} more are only counted.` })] : [])];
  }

  #change(one, at) {
    const opens = { Pod: this.onPod, Node: this.onNode, NodeProvisioner: (name, from) => this.onAnswer("pool", name, from), GpuQuota: (name, from) => this.onAnswer("quota", name, from), GpuClaim: (name, from) => this.onAnswer("claim", name, from) }[one.kind];
    const about = one.about ? (opens ? this.#link(one.about, opens) : make("span", { class: "row-name", text: one.about })) : "";
    const now = this.store.time();
    const often = one.count > 1 ? `${one.count} ×${one.first ? ` since ${moment(one.first, now)}` : ""}, last ` : "";
    const top = make("div", { class: "row-top" }, make("b", { text: one.reason }), make("span", { class: "tag", text: SOURCES[one.source] || one.source }), make("span", { class: "row-right", text: `${often}${moment(one.at, now)}` }));
    const when = one.at < at ? "before" : "after";
    return make("li", { "data-reason": one.reason, class: `${one.warning ? "warning" : ""} ${when}` }, make("div", { class: "row" }, top, make("div", { class: "row-about" }, about), make("span", { class: "row-note", text: one.note || "" })));
  }

  #link(text, open) {
    const button = make("button", { class: "linklike", type: "button", text });
    button.addEventListener("click", () => open(text, button));
    return button;
  }
}

function table(heads, lines) {
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))), make("tbody", {}, ...lines));
}

function more(count, what) {
  return count ? [make("p", { class: "empty", text: `and ${plural(count, what)} more` })] : [];
}

export async function ask(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : { trouble: (await answer.text()).trim() || `the server answered ${answer.status}` };
  } catch {
    return { trouble: "The dashboard cannot be reached." };
  }
}
