// The demo's own controls: time, and things to do to the simulated cluster. The terminal's keys mean the same.

import { $, make, say } from "./dom.js";

const LOOK_SECONDS = 1;
const said = make("p", { id: "demo-said", class: "demo-said", role: "status" });
const at = make("span", { id: "demo-speed", class: "demo-at" });
const where = make("select", { id: "demo-node", "aria-label": "Node that Break a GPU and Drain a node act on" });
const step = make("span", { id: "demo-step", class: "demo-at" });
let paused = false;
let told = "";

function button(id, text, title, verb) {
  return make("button", { id, class: "plain", type: "button", title, text, onclick: () => act(verb()) });
}

const pause = button("demo-pause", "Pause", "Stop time, or let it go on (space in the terminal)", () => (paused ? "resume" : "pause"));
const bar = make(
  "section",
  { id: "demo", class: "demo", "aria-label": "Controls of the demo" },
  pause,
  button("demo-next", "Step", "On to the next thing that happens, then pause (s)", () => "step"),
  button("demo-slower", "−", "Slower (-)", () => "slower"),
  at,
  button("demo-faster", "+", "Faster (+)", () => "faster"),
  button("demo-restart", "From the beginning", "The same seed, the same story (r)", () => "restart"),
  step,
  make("span", { class: "gap" }),
  where,
  button("demo-break", "Break a GPU", "A GPU falls off the bus, one in use if there is one (b)", () => "break-gpu"),
  button("demo-repair", "Fix GPUs", "Repair the GPUs that were broken here (f)", () => "repair"),
  button("demo-gang", "Add a gang", "Two workers with a whole node each, all or nothing (g)", () => "add-gang"),
  button("demo-drain", "Drain a node", "Cordon a node and evict its pods, as kubectl drain does (d)", () => "drain-node"),
  said,
);
$("caption").after(bar);

for (const verb of ["demo-slower", "demo-faster"]) $(verb).setAttribute("aria-label", verb === "demo-slower" ? "Slower" : "Faster");

function show(state) {
  paused = state.paused;
  say(pause, paused ? "Go on" : "Pause");
  pause.setAttribute("aria-pressed", String(paused));
  say(at, `${state.speed}×`);
  say(step, state.step);
  offer(state.nodes);
  if (state.said !== told) speak(state.said, state.refused);
  told = state.said;
}

function offer(nodes) {
  const wanted = ["", ...nodes];
  const there = [...where.options].map((one) => one.value);
  if (wanted.length === there.length && wanted.every((name, place) => name === there[place])) return;
  const chosen = where.value;
  where.replaceChildren(...wanted.map((name) => make("option", { value: name, text: name || "any node" })));
  where.value = wanted.includes(chosen) ? chosen : "";
}

function speak(text, refused) {
  say(said, text);
  said.classList.toggle("refused", refused);
}

async function act(verb) {
  try {
    const answer = await fetch(`/api/controls/${verb}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ node: where.value }),
    });
    const state = await answer.json();
    if (!answer.ok) return speak(state.error, true);
    show(state);
    speak(state.said, state.refused);
  } catch {
    speak("The demo does not answer.", true);
  }
}

async function look() {
  try {
    const answer = await fetch("/api/controls");
    if (answer.ok) show(await answer.json());
  } catch {
    // It is going back to its beginning, or has ended: the mark at the top says so.
  }
}

look();
setInterval(() => {
  if (!document.hidden) look();
}, 1000 * LOOK_SECONDS);
