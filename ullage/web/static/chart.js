// Small charts on canvas: GPUs over time, what they cost, and who waits; what comes in, or a range of the past. The same is said in words for who cannot see them.

import { colour } from "./colours.js";
import { $, say } from "./dom.js";
import { moment, money, number, plural } from "./words.js";

const BOTTOM = 16; // pixels below the lines, for when

export class Charts {
  constructor(store, onMoment) {
    this.store = store;
    this.at = null; // where the pointer is, from 0 to 1
    this.samples = null; // of a range of the past; null to show what comes in
    this.range = null;
    for (const id of ["chart-gpus", "chart-money", "chart-queue"]) {
      $(id).addEventListener("pointermove", (event) => {
        const box = event.target.getBoundingClientRect();
        this.at = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
        this.draw();
      });
      $(id).addEventListener("pointerleave", () => {
        this.at = null;
        this.draw();
      });
      $(id).addEventListener("click", (event) => {
        const { begin, end } = this.#frame() || {};
        const box = event.target.getBoundingClientRect();
        if (begin !== undefined) onMoment(begin + ((event.clientX - box.left) / box.width) * (end - begin), $("when-go"));
      });
    }
    new ResizeObserver(() => this.draw()).observe($("chart-gpus"));
  }

  live() {
    this.samples = this.range = null;
    this.draw();
  }

  past(samples, range) {
    this.samples = samples;
    this.range = range;
    this.draw();
  }

  #frame() {
    const samples = this.samples || [...this.store.series.values()].sort((a, b) => a.at - b.at);
    if (this.range) return { samples, ...this.range };
    if (!samples.length) return null;
    const begin = samples[0].at;
    return { samples, begin, end: Math.max(...samples.map((one) => one.at + one.width), begin + 1) };
  }

  draw() {
    const shown = this.#frame();
    if (!shown) return;
    const { samples, begin, end } = shown;
    const currency = this.store.page.currency || "$";
    const when = begin + (this.at ?? 1) * (end - begin);
    const chosen = samples.length ? sampleAt(samples, when, this.at === null) : undefined;
    const frame = { begin, end, at: this.at, line: colour("--edge"), text: colour("--soft"), now: this.store.time() };
    plot($("chart-gpus"), samples, frame, [
      { value: (one) => one.gpus || 0, colour: colour("--soft"), fill: false },
      { value: (one) => (one.allocated || 0) + (one.broken || 0), above: (one) => one.allocated || 0, colour: colour("--unhealthy"), fill: true },
      { value: (one) => one.allocated || 0, colour: colour("--leased"), fill: true },
    ], number);
    plot($("chart-money"), samples, frame, [
      { value: (one) => one.price || 0, colour: colour("--soft"), fill: false },
      { value: (one) => one.waste || 0, colour: colour("--going"), fill: true },
    ], (value) => currency + number(value));
    plot($("chart-queue"), samples, frame, [{ value: (one) => one.pending || 0, colour: colour("--reserved"), fill: true }], number);
    const at = this.at === null && !this.range ? "now" : moment(chosen ? Math.max(chosen.at, Math.min(when, chosen.at + chosen.width)) : when, frame.now);
    const gpus = chosen ? `${number(chosen.allocated || 0)} of ${number(chosen.gpus || 0)} allocated` : "not recorded";
    const cost = chosen ? `${money(chosen.waste || 0, currency)} of ${money(chosen.price || 0, currency)} wasted` : "not recorded";
    const queue = chosen ? `${plural(Math.round(chosen.pending || 0), "pod")} waiting` : "not recorded";
    const over = `from ${moment(begin, frame.now)} to ${moment(end, frame.now)} UTC`;
    for (const [name, title, said] of [["gpus", "GPUs", gpus], ["money", "Cost per hour", cost], ["queue", "Waiting pods", queue]]) {
      say($(`${name}-at`), `${said}, ${at}`);
      $(`chart-${name}`).setAttribute("aria-label", `${title} ${over}: ${said}`);
    }
  }
}

// The sample of a moment; none where nothing was recorded.
function sampleAt(samples, when, last) {
  if (last) return samples[samples.length - 1];
  return samples.find((one) => one.at <= when && when <= one.at + one.width * 1.5);
}

// Samples that follow each other without a hole: no line is drawn where nothing is known.
function runs(samples) {
  const found = [];
  for (const one of samples) {
    const run = found[found.length - 1];
    const before = run?.[run.length - 1];
    if (before && one.at - (before.at + before.width) < Math.max(before.width, one.width) * 1.5 + 1) run.push(one);
    else found.push([one]);
  }
  return found;
}

function plot(canvas, samples, frame, lines, label) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const top = round(Math.max(...samples.flatMap((one) => lines.map((line) => line.value(one))), 1));
  const x = (moment) => ((moment - frame.begin) / (frame.end - frame.begin)) * width;
  const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - 14);
  grid(pen, { top, y, width, frame, label });
  for (const line of lines) for (const run of runs(samples)) trace(pen, run, line, x, y);
  if (frame.at !== null) {
    pen.fillStyle = frame.text;
    pen.fillRect(frame.at * width, 0, 1, height - BOTTOM);
  }
}

function trace(pen, run, line, x, y) {
  const steps = run.flatMap((one) => [[x(one.at), one], [Math.max(x(one.at + one.width), x(one.at) + 1), one]]);
  pen.beginPath();
  for (const [left, one] of steps) pen.lineTo(left, y(line.value(one)));
  pen.strokeStyle = line.colour;
  pen.lineWidth = 1.5;
  pen.stroke();
  if (!line.fill) return;
  for (const [left, one] of steps.reverse()) pen.lineTo(left, y(line.above ? line.above(one) : 0));
  pen.globalAlpha = 0.3;
  pen.fillStyle = line.colour;
  pen.fill();
  pen.globalAlpha = 1;
}

function grid(pen, { top, y, width, frame, label }) {
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = frame.text;
  pen.strokeStyle = frame.line;
  pen.lineWidth = 1;
  for (const part of [0, 0.5, 1]) {
    const height = Math.round(y(top * part)) + 0.5;
    pen.beginPath();
    pen.moveTo(0, height);
    pen.lineTo(width, height);
    pen.stroke();
    if (part) pen.fillText(label(top * part), 2, height - 3);
  }
  const below = y(0) + BOTTOM - 3;
  pen.fillText(moment(frame.begin, frame.now), 2, below);
  pen.textAlign = "center";
  pen.fillText(moment((frame.begin + frame.end) / 2, frame.now), width / 2, below);
  pen.textAlign = "right";
  pen.fillText(moment(frame.end, frame.now), width - 2, below);
  pen.textAlign = "left";
}

// A round number that is not smaller.
function round(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((step) => step >= value);
}
