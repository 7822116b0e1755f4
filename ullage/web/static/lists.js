// The lists beside the map: pods that wait, decisions, nodes that leave.

import { $, Rows, make, mark, say } from "./dom.js";
import { countdown, inWords, moment, plural, span, timeOfDay } from "./words.js";

const MOST_WAITING = 100;
const MOST_DECISIONS = 80;

const SIGNS = {
  Scheduled: ["✓", "good"], NodesLaunched: ["+", "good"], NodeUntainted: ["↺", "good"],
  FailedScheduling: ["…", "warn"], Preempted: ["⇄", "warn"],
  GangTimedOut: ["!", "warn"], GpuUnhealthy: ["✕", "bad"],
  GpuUsedWithoutLease: ["!", "bad"], CapacityBlocked: ["!", "bad"], ScaleUpFailed: ["!", "bad"],
  NodeFailedToRegister: ["!", "bad"], InstanceWithoutNode: ["!", "warn"], AgentsSilent: ["!", "bad"],
  TriggeredScaleUp: ["+", ""], NotTriggerScaleUp: ["·", "warn"],
  ScaleUpTriggered: ["+", ""], NodeHandedOver: ["✓", "good"],
  HandoverUnprotected: ["!", "warn"],
  NodeTaintedForDeletion: ["↓", "warn"], NodeRemoved: ["−", ""], NodeNotRemoved: ["!", "bad"],
  NodeDraining: ["↓", "warn"], NodeDrained: ["−", ""], PodEvicted: ["⇄", "warn"], PodNotEvicted: ["!", "bad"],
  VmMigrationStarted: ["⇄", ""], VmPressure: ["!", "warn"], VmNodeTooSmall: ["!", "warn"], VmConfigRefused: ["!", "bad"],
  VmApprovalUnreadable: ["!", "warn"],
  SettingsReloaded: ["↺", "good"], SettingsRefused: ["!", "bad"],
  DeprecatedField: ["!", "warn"],
};

export class Waiting {
  constructor(store, onPod, groups) {
    this.store = store;
    this.groups = groups;
    this.rows = new Rows($("waiting"), (key) => this.#create(key, onPod), (element, row) => this.#update(element, row));
    this.sought = "";
  }

  draw() {
    const all = [...this.store.pending.entries()];
    const sought = ([pod, row]) => this.groups.filters.passesWaiting(row, pod) && (!this.sought || JSON.stringify(row).toLowerCase().includes(this.sought));
    const shown = all.filter(sought);
    $("waiting").hidden = !this.groups.showsPods && !this.sought;
    shown.sort(([, a], [, b]) => (b.priority || 0) - (a.priority || 0) || a.since - b.since || (a.pod < b.pod ? -1 : 1));
    this.rows.show(shown.slice(0, MOST_WAITING));
    const total = this.store.totals.get("now")?.pending || all.length;
    say($("waiting-count"), total ? (shown.length > MOST_WAITING ? `${MOST_WAITING} of ${total}` : String(total)) : "");
    $("waiting-empty").hidden = shown.length > 0;
    say($("waiting-empty"), all.length ? "None of them is called so." : "Nobody waits.");
    this.tick();
  }

  tick() {
    const now = this.store.time();
    this.rows.each((element, row) => say(element.querySelector(".row-right"), span(now - row.since)));
  }

  #create(key, onPod) {
    const top = make("span", { class: "row-top" }, make("span", { class: "row-name", text: key }), make("span", { class: "row-right" }));
    const tags = make("span", { class: "row-tags" });
    const note = make("span", { class: "row-note" });
    const button = make("button", { class: "row", type: "button", "data-pod": key }, top, tags, note);
    button.addEventListener("click", () => onPod(key, button));
    return make("li", {}, button);
  }

  #update(element, row) {
    const tags = [make("span", { class: "tag", text: row.asks })];
    if (row.gang) tags.push(" ", make("span", { class: "tag", text: `gang ${row.gang}` }));
    if (row.priority) tags.push(" ", make("span", { class: "tag", text: `priority ${row.priority}` }));
    if (row.nominated) tags.push(" ", make("span", { class: "tag", text: `room is made on ${row.nominated}` }));
    if (row.reason) tags.push(" ", make("span", { class: `tag ${row.reason === "Fits" ? "good" : "warn"}`, text: row.reason }));
    element.querySelector(".row-tags").replaceChildren(...tags);
    say(element.querySelector(".row-note"), row.reason ? inWords(row.reason) : "Not asked yet");
    element.firstElementChild.title = row.message || "";
  }
}

export class Decisions {
  constructor(store, { onPod, onNode }) {
    this.store = store;
    this.onPod = onPod;
    this.onNode = onNode;
    this.paused = false;
    this.which = "all";
    this.sought = "";
    this.rows = new Rows($("decisions"), (key, row) => this.#create(row), (element, row) => this.#update(element, row));
    $("which").addEventListener("change", (event) => {
      this.which = event.target.value;
      this.draw();
    });
    $("pause").addEventListener("click", (event) => {
      this.paused = !this.paused;
      event.target.setAttribute("aria-pressed", String(this.paused));
      this.draw();
    });
  }

  // Only decisions with this text in reason, object, sentence or time of day.
  seek(text) {
    this.sought = text.trim().toLowerCase();
    if ($("seek").value.trim().toLowerCase() !== this.sought) $("seek").value = text;
    this.draw(true);
  }

  draw(anyhow = false) {
    if (this.paused && !anyhow) return;
    const shown = [...this.store.decisions.entries()].filter(([, row]) => this.#isChosen(row));
    shown.sort(([one, a], [other, b]) => b.at - a.at || (one < other ? 1 : -1));
    const list = $("decisions-log");
    const before = list.scrollHeight;
    const reading = list.scrollTop > 4;
    this.rows.show(shown.slice(0, MOST_DECISIONS));
    // Who has scrolled down reads on where they were.
    if (reading) list.scrollTop += list.scrollHeight - before;
    $("decisions-empty").hidden = shown.length > 0;
  }

  #isChosen(row) {
    if (this.sought && !`${row.reason} ${row.about} ${row.note} ${timeOfDay(row.at)}`.toLowerCase().includes(this.sought)) return false;
    if (this.which === "pods") return row.kind === "Pod";
    if (this.which === "nodes") return row.kind === "Node" || row.kind === "NodeProvisioner";
    if (this.which === "warnings") return Boolean(row.warning);
    return true;
  }

  #create(row) {
    const [sign, kind] = SIGNS[row.reason] || ["•", row.warning ? "warn" : ""];
    const name = make("button", { class: "linklike", type: "button", text: row.about, title: row.about });
    if (row.kind === "Pod") name.addEventListener("click", () => this.onPod(row.about, name));
    else if (row.kind === "Node") name.addEventListener("click", () => this.onNode(row.about, name));
    const about = row.kind === "Pod" || row.kind === "Node" ? name : make("span", { class: "row-name", text: row.about });
    const top = make(
      "div", { class: "row-top" },
      make("span", { class: `sign ${kind}`, "aria-hidden": "true", text: sign }),
      make("b", { text: row.reason }), make("span", { class: "row-right" }),
    );
    const named = make("div", { class: "row-about" }, about);
    return make("li", {}, make("div", { class: "row" }, top, named, make("span", { class: "row-note" })));
  }

  #update(element, row) {
    // A count is of a time: from the first announcement to the last.
    const now = this.store.time();
    const times = row.count > 1 ? `${row.count} × ${row.first ? `since ${moment(row.first, now)}, last ` : ""}` : "";
    say(element.querySelector(".row-right"), `${times}${moment(row.at, now)}`);
    say(element.querySelector(".row-note"), row.note);
  }
}

export class Leaving {
  constructor(store, onNode) {
    this.store = store;
    this.rows = new Rows($("leaving"), (key) => this.#create(key, onNode), () => {});
  }

  draw() {
    const leaving = [...this.store.nodes.values()].filter(
      (row) => row.deletionTime || row.drainingSince !== undefined || row.candidateSince !== undefined,
    );
    const rank = (row) => (row.drainingSince !== undefined ? 0 : row.deletionTime ? 1 : 2);
    leaving.sort((a, b) => rank(a) - rank(b) || (a.deletionTime || 0) - (b.deletionTime || 0) || (a.name < b.name ? -1 : 1));
    $("leaving-panel").hidden = leaving.length === 0;
    const draining = leaving.filter((row) => rank(row) === 0).length;
    const tainted = leaving.filter((row) => rank(row) === 1).length;
    const parts = [draining && `${draining} draining`, tainted && `${tainted} with a deletion time`];
    say($("leaving-count"), parts.filter(Boolean).join(", "));
    this.rows.show(leaving.slice(0, 30).map((row) => [row.name, row]));
    this.tick();
  }

  tick() {
    const now = this.store.time();
    this.rows.each((element, row) => {
      const [right, note] = this.#says(row, now);
      say(element.querySelector(".row-right"), right);
      say(element.querySelector(".row-note"), note);
      mark(element.querySelector(".row-right"), "timed", Boolean(row.deletionTime) && row.drainingSince === undefined);
    });
  }

  #says(row, now) {
    if (row.drainingSince !== undefined) {
      const left = row.pods ? `${plural(row.pods, "pod")} still to leave` : "empty: the machine is being given back";
      return [row.drainingSince ? `draining for ${span(now - row.drainingSince)}` : "draining", left];
    }
    if (row.deletionTime) {
      const note = row.pods ? `${plural(row.pods, "pod")} on it` : "empty";
      return [row.deletionTime > now ? countdown(row.deletionTime - now) : "due", `${note}; removed then, unless it is needed again`];
    }
    const since = row.candidateSince ? ` for ${span(now - row.candidateSince)}` : "";
    return [`may go${since}`, row.pods ? `${plural(row.pods, "pod")} would fit elsewhere` : "empty"];
  }

  #create(key, onNode) {
    const top = make("span", { class: "row-top" }, make("span", { class: "row-name", text: key }), make("span", { class: "row-right" }));
    const button = make("button", { class: "row", type: "button" }, top, make("span", { class: "row-note" }));
    button.addEventListener("click", () => onNode(key, button));
    return make("li", {}, button);
  }
}
