// Nodes that run VMs: how much of each is reserved, kept as a buffer, above the watermark and denied, as bars.

import { $, Rows, make, say } from "./dom.js";
import { plural } from "./words.js";

const MOST = 60;
const GIB = 2 ** 30;

export class Ledgers {
  constructor(store, onNode) {
    this.store = store;
    this.rows = new Rows($("ledgers"), (key) => create(key, onNode), (element, row) => update(element, row));
  }

  draw() {
    const all = [...this.store.ledgers.entries()];
    // Nodes under pressure first: those are looked for.
    all.sort(([, a], [, b]) => pressure(b) - pressure(a) || (a.node < b.node ? -1 : 1));
    this.rows.show(all.slice(0, MOST));
    $("ledgers-panel").hidden = !all.length;
    const vms = all.reduce((sum, [, row]) => sum + row.vms, 0);
    const shown = all.length > MOST ? `${MOST} of ${plural(all.length, "node")}` : plural(all.length, "node");
    say($("ledgers-count"), `${shown}, ${plural(vms, "VM")}`);
  }
}

function pressure(row) {
  return share(row.cpu) + share(row.memory);
}

// Part of the node above its watermark, and of what was denied.
function share(bar) {
  return bar.total ? (Math.max(0, bar.reserved - bar.watermark) + (bar.denied || 0)) / bar.total : 0;
}

function create(key, onNode) {
  const top = make("span", { class: "row-top" }, make("span", { class: "row-name", text: key }), make("span", { class: "row-right" }));
  const button = make("button", { class: "row ledger", type: "button", "data-vm-node": key }, top, bar("CPU"), bar("memory"));
  button.addEventListener("click", () => onNode(key, button));
  return make("li", {}, button);
}

function bar(what) {
  const parts = ["used", "buffer", "over", "system"].map((name) => make("i", { class: name }));
  const track = make("span", { class: "ledger-bar", "aria-hidden": "true" }, ...parts, make("b", { class: "mark" }));
  return make("span", { class: "ledger-line", "data-what": what }, make("span", { class: "ledger-what", text: what }), track, make("span", { class: "ledger-said" }));
}

function update(element, row) {
  const moving = row.moving ? `, ${row.moving} leaving` : "";
  say(element.querySelector(".row-right"), `${plural(row.vms, "VM")}${moving}`);
  fill(element.querySelector('[data-what="CPU"]'), row.cpu, cores);
  fill(element.querySelector('[data-what="memory"]'), row.memory, gibibytes);
  element.firstElementChild.setAttribute("aria-label", spoken(row));
}

function fill(line, bar, said) {
  const widths = {
    used: Math.min(bar.reserved - (bar.buffer || 0), bar.watermark),
    buffer: bar.buffer || 0,
    over: Math.max(0, bar.reserved - (bar.buffer || 0) - bar.watermark),
    system: bar.system || 0,
  };
  for (const [name, amount] of Object.entries(widths)) line.querySelector(`.${name}`).style.width = percent(amount, bar.total);
  line.querySelector(".mark").style.left = percent(bar.watermark, bar.total);
  line.classList.toggle("short", Boolean(bar.denied));
  const denied = bar.denied ? `, ${said(bar.denied)} denied` : "";
  say(line.querySelector(".ledger-said"), `${said(bar.reserved)} of ${said(bar.total - (bar.system || 0))}${denied}`);
}

function spoken(row) {
  const one = (what, bar, said) => {
    const parts = [`${what}: ${said(bar.reserved)} of ${said(bar.total)} reserved`, `watermark ${said(bar.watermark)}`];
    if (bar.buffer) parts.push(`buffer ${said(bar.buffer)}`);
    if (bar.reserved > bar.watermark) parts.push(`${said(bar.reserved - bar.watermark)} above the watermark`);
    if (bar.denied) parts.push(`${said(bar.denied)} denied`);
    if (bar.leaving) parts.push(`${said(bar.leaving)} on its way to another node`);
    return parts.join(", ");
  };
  const moving = row.moving ? `, ${row.moving} leaving` : "";
  return `${row.node}, ${plural(row.vms, "VM")}${moving}. ${one("CPU", row.cpu, cores)}. ${one("Memory", row.memory, gibibytes)}.`;
}

function percent(amount, total) {
  return `${total ? Math.max(0, Math.min(100, (100 * amount) / total)).toFixed(2) : 0}%`;
}

function cores(thousandths) {
  return `${Math.round(thousandths / 10) / 100} cores`;
}

function gibibytes(bytes) {
  return `${Math.round((10 * bytes) / GIB) / 10} GiB`;
}
