// Brings the page together: patches come in, and once a frame what changed is drawn, within a few milliseconds.

import { forgetColours } from "./colours.js";
import { $, say } from "./dom.js";
import { Charts } from "./chart.js";
import { Details } from "./details.js";
import { Capacity } from "./capacity.js";
import { Decisions, Leaving, Waiting } from "./lists.js";
import { Filters } from "./filters.js";
import { Banners, Groups } from "./groups.js";
import { Hues } from "./hues.js";
import { Ledgers } from "./ledgers.js";
import { readLink, writeLink } from "./links.js";
import { GpuMap } from "./map.js";
import { Past } from "./past.js";
import { Store } from "./store.js";
import { listen } from "./stream.js";
import { Tip } from "./tip.js";
import { applyTheme } from "./theme.js";
import { Views } from "./views.js";
import { dayAndTime, money, number, plural, readMoment, span } from "./words.js";

const BUDGET = 7; // milliseconds of a frame for drawing nodes

const store = new Store();
const NOTHING_OPEN = { pod: "", node: "", claim: "", gang: "", quota: "", pool: "", at: "", around: "" };
const filters = new Filters(store, (name) => refilter(name));
const hues = new Hues(store, filters);
const details = new Details(store, { onSelect: (node) => map.select(node), onShown: (shown) => writeLink({ ...NOTHING_OPEN, ...shown }), past: () => past });
const openPod = (pod, from) => details.openPod(pod, from);
const openNode = (node, from) => details.openNode(node, from);
const openAnswer = (kind, name, from) => details.openAnswer(kind, name, from);
const openMoment = (at, from, around) => details.openMoment(at, from, around);
const map = new GpuMap({ root: $("map"), store, tip: new Tip($("tip")), filters, hues, onOpen: openNode, onPool: (name, from) => openAnswer("pool", name, from), onStale: schedule });
const banners = new Banners(store);
const groups = new Groups(store, filters, { onPod: openPod, onChange: () => redraw() });
const waiting = new Waiting(store, openPod, groups);
const decisions = new Decisions(store, { onPod: openPod, onNode: openNode });
const capacity = new Capacity(store, { onPod: openPod, onNode: openNode });
const leaving = new Leaving(store, openNode);
const charts = new Charts(store, openMoment);
const past = new Past(store, charts, { onPod: openPod, onNode: openNode, onAnswer: openAnswer, onMoment: openMoment, onLink: writeLink });
const views = new Views(store, filters, { onPod: openPod, onNode: openNode, onAnswer: openAnswer, onChange: (view) => writeLink({ view: view === "queue" ? "" : view }) });
const ledgers = new Ledgers(store, openNode);

// What is still to be drawn, a kind of thing a time: no frame does all of it.
const due = new Set();
let scheduled = false;
let ticks = 0;

function take(changes) {
  if (changes.nodes) {
    map.note(changes.nodes);
    due.add("pools").add("leaving").add("filters");
  }
  if (changes.pools) due.add("pools");
  if (changes.groups) due.add("filters");
  if (changes.groups || changes.totals) due.add("groups");
  if (changes.gangs || changes.quotas || changes.preemptions || changes.drains || changes.pending || changes.totals || changes.decisions) due.add("views");
  if (changes.banners) due.add("banners");
  if (changes.pending || changes.totals) due.add("waiting");
  if (changes.capacity) due.add("capacity");
  if (changes.decisions) due.add("decisions");
  if (changes.series) due.add("charts");
  if (changes.ledgers) due.add("ledgers");
  if (changes.about || changes.totals) due.add("figures");
  details.refresh(changes);
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

const WORK = {
  filters: () => drawFilters(),
  views: () => views.draw(),
  banners: () => banners.draw(),
  figures: drawFigures,
  groups: () => groups.draw(),
  leaving: () => leaving.draw(),
  waiting: () => waiting.draw(),
  capacity: () => capacity.draw(),
  decisions: () => decisions.draw(),
  charts: () => charts.range || charts.draw(),
  ledgers: () => ledgers.draw(),
};

function draw() {
  scheduled = false;
  const until = performance.now() + BUDGET;
  if (map.take(until)) return schedule();
  // Pools say where tiles are: painting comes after them.
  if (due.delete("pools")) map.drawPools();
  if (map.paint(until)) {
    schedule();
    if (performance.now() > until) return;
  }
  for (const [name, work] of Object.entries(WORK)) {
    if (!due.delete(name)) continue;
    work();
    if (performance.now() > until && due.size) return schedule();
  }
}

function figure(id, big, small, more) {
  const box = $(id);
  say(box.querySelector("b"), big);
  say(box.querySelector(".number span"), small);
  say(box.querySelector(".more"), more);
}

function drawFigures() {
  const page = store.page;
  say($("title"), page.title || "");
  document.title = page.title ? `ullage · ${page.title}` : "ullage";
  $("caption").hidden = !page.caption;
  say($("caption"), page.caption || "");
  $("trouble").hidden = !page.trouble;
  say($("trouble"), page.trouble ? `What is shown may be old: ${page.trouble}` : "");
  $("history-trouble").hidden = !page.history;
  say($("history-trouble"), page.history ? `The history is not being kept: ${page.history}` : "");
  $("when").hidden = $("past-tools").hidden = !page.keepsHistory;
  const said = { nodes: 0, gpus: 0, allocated: 0, idle: 0, broken: 0, pending: 0, pendingGpus: 0, price: 0, waste: 0, gpuHours: 0, idleGpuHours: 0, cost: 0, wasted: 0, unpriced: 0, ...store.totals.get("now") };
  const currency = page.currency || "$";
  const percent = (value) => (said.gpus ? Math.round((100 * value) / said.gpus) : 0);
  const broken = said.broken ? `, ${said.broken} unhealthy` : "";
  figure("figure-allocated", `${percent(said.allocated)}%`, `${number(said.allocated)} of ${number(said.gpus)}`, `${number(said.idle)} idle${broken}`);
  $("figure-allocated").querySelector(".l").style.width = `${percent(said.allocated)}%`;
  $("figure-allocated").querySelector(".u").style.width = `${percent(said.broken)}%`;
  figure("figure-waiting", number(said.pending), said.pending === 1 ? "pod" : "pods", said.pendingGpus ? `${plural(said.pendingGpus, "GPU")} asked for` : "");
  figure("figure-nodes", number(said.nodes), "", comingAndGoing());
  const unpriced = said.unpriced ? `, ${plural(said.unpriced, "node")} without a price` : "";
  figure("figure-waste", money(said.waste, currency), "an hour", `of ${money(said.price, currency)}${unpriced}`);
  figure("figure-sum", money(said.wasted, currency), `of ${money(said.cost, currency)}`, `${number(Math.round(said.idleGpuHours * 10) / 10)} of ${number(Math.round(said.gpuHours * 10) / 10)} GPU-hours idle`);
  say($("map-summary"), `${plural(said.nodes, "node")} with ${plural(said.gpus, "GPU")}: ${number(said.allocated)} allocated, ${number(said.idle)} idle, ${said.broken} unhealthy.`);
  const nothing = store.nodes.size === 0;
  $("map-empty").hidden = !nothing;
  if (nothing) say($("map-empty"), page.synced ? "There are no nodes." : "Reading the cluster…");
}

function comingAndGoing() {
  let coming = 0;
  for (const pool of store.pools.values()) coming += pool.coming || 0;
  let going = 0;
  let candidates = 0;
  for (const node of store.nodes.values()) {
    if (node.deletionTime || node.drainingSince !== undefined) going += 1;
    else candidates += node.candidateSince !== undefined;
  }
  return [coming && `${coming} coming`, going && `${going} leaving`, candidates && `${candidates} may go`].filter(Boolean).join(", ");
}

function tick() {
  if (!store.now) return;
  const speed = store.page.speed ?? 1;
  const since = store.totals.get("now")?.since;
  const running = since ? ` · ${span(store.time() - since)}` : "";
  say($("clock"), `${dayAndTime(store.time())} UTC${speed === 0 ? " · paused" : speed !== 1 ? ` · ${number(speed)}×` : ""}${running}`);
  if (document.hidden) return;
  map.tick();
  groups.tick();
  waiting.tick();
  capacity.tick();
  leaving.tick();
  if (++ticks % 5 === 0) views.tick();
  // What is idle grows old without an event.
  if (ticks % 60 === 0 && (filters.sort === "idleness" || filters.colour === "idleness")) map.refilter();
}

// Options of filters and colours, at most every two seconds: they look at every node.
let filtersAt = 0;
function drawFilters() {
  if (performance.now() < filtersAt) {
    setTimeout(() => {
      due.add("filters");
      schedule();
    }, 2000);
    return;
  }
  filtersAt = performance.now() + 2000;
  filters.draw();
  if (hues.assign()) map.repaint();
  hues.drawLegend();
}

function find(text) {
  map.find(text);
  waiting.sought = text.trim().toLowerCase();
  waiting.draw();
}

function refilter() {
  writeLink(filters.link());
  filters.draw();
  hues.assign();
  hues.drawLegend();
  map.refilter();
  due.add("pools");
  redraw();
}

function redraw() {
  groups.draw();
  waiting.draw();
  views.draw();
}

// What the address asks for: filters at once, details when their rows are there.
function follow() {
  const link = readLink();
  $("find").value = link.find;
  find(link.find);
  filters.follow(link);
  filters.draw();
  hues.assign();
  hues.drawLegend();
  map.refilter();
  decisions.seek(link.decisions);
  views.show(link.view || "queue");
  past.follow(link);
  redraw();
  const answered = ["claim", "gang", "quota", "pool"].find((kind) => link[kind]);
  if (link.pod) openPod(link.pod, $("find"));
  else if (link.node) openNode(link.node, $("find"));
  else if (answered) openAnswer(answered, link[answered], $("find"));
  else if (link.at) follows(link);
}

function follows(link) {
  const at = readMoment(link.at, store.time());
  const around = Number(link.around) || 600;
  if (!Number.isNaN(at)) openMoment(at, $("find"), around);
}

$("find").addEventListener("input", (event) => {
  writeLink({ find: event.target.value.trim() });
  find(event.target.value);
});
$("seek").addEventListener("input", (event) => {
  writeLink({ decisions: event.target.value.trim() });
  decisions.seek(event.target.value);
});
window.addEventListener("hashchange", follow);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    $("find").focus();
  }
});

applyTheme($("theme"), () => {
  forgetColours();
  map.repaint();
  due.add("charts");
  schedule();
});
setInterval(tick, 1000);
let followed = false;
listen({
  onSnapshot: (said) => {
    take(store.replace(said));
    if (!followed) follow();
    followed = true;
  },
  onPatch: (said) => take(store.patch(said)),
  onState: (state, text) => {
    $("link").className = `link ${state}`;
    say($("link"), text);
  },
});
