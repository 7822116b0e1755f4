// Two small charts on canvas: GPUs over time, and what they cost. The same is said in words for who cannot see them.

import { colour } from "./colours.js";
import { $, say } from "./dom.js";
import { money, number, span } from "./words.js";

const BOTTOM = 16; // pixels below the lines, for when

export class Charts {
  constructor(store) {
    this.store = store;
    this.at = null; // where the pointer is, from 0 to 1
    for (const id of ["chart-gpus", "chart-money"]) {
      $(id).addEventListener("pointermove", (event) => {
        const box = event.target.getBoundingClientRect();
        this.at = (event.clientX - box.left) / box.width;
        this.draw();
      });
      $(id).addEventListener("pointerleave", () => {
        this.at = null;
        this.draw();
      });
    }
    new ResizeObserver(() => this.draw()).observe($("chart-gpus"));
  }

  draw() {
    const samples = [...this.store.series.values()].sort((a, b) => a.at - b.at);
    if (!samples.length) return;
    const begin = samples[0].at;
    const end = Math.max(...samples.map((one) => one.at + one.width), begin + 1);
    const currency = this.store.page.currency || "$";
    const chosen = this.at === null ? samples[samples.length - 1] : sampleAt(samples, begin + this.at * (end - begin));
    const frame = { begin, end, at: this.at, line: colour("--edge"), text: colour("--soft") };
    plot($("chart-gpus"), samples, frame, [
      { value: (one) => one.gpus || 0, colour: colour("--soft"), fill: false },
      { value: (one) => (one.allocated || 0) + (one.broken || 0), above: (one) => one.allocated || 0, colour: colour("--unhealthy"), fill: true },
      { value: (one) => one.allocated || 0, colour: colour("--leased"), fill: true },
    ], number);
    plot($("chart-money"), samples, frame, [
      { value: (one) => one.price || 0, colour: colour("--soft"), fill: false },
      { value: (one) => one.waste || 0, colour: colour("--going"), fill: true },
    ], (value) => currency + number(value));
    const ago = this.at === null ? "now" : `${span(end - chosen.at)} ago`;
    const gpus = `${number(chosen.allocated || 0)} of ${number(chosen.gpus || 0)} allocated`;
    const cost = `${money(chosen.waste || 0, currency)} of ${money(chosen.price || 0, currency)} wasted`;
    say($("gpus-at"), `${gpus}, ${ago}`);
    say($("money-at"), `${cost}, ${ago}`);
    $("chart-gpus").setAttribute("aria-label", `GPUs over the last ${span(end - begin)}: ${gpus}`);
    $("chart-money").setAttribute("aria-label", `Cost per hour over the last ${span(end - begin)}: ${cost}`);
  }
}

function sampleAt(samples, moment) {
  return samples.findLast((one) => one.at <= moment) || samples[0];
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
  for (const line of lines) {
    const steps = samples.flatMap((one) => [[x(one.at), one], [x(one.at + one.width), one]]);
    pen.beginPath();
    for (const [left, one] of steps) pen.lineTo(left, y(line.value(one)));
    pen.strokeStyle = line.colour;
    pen.lineWidth = 1.5;
    pen.stroke();
    if (line.fill) {
      for (const [left, one] of steps.reverse()) pen.lineTo(left, y(line.above ? line.above(one) : 0));
      pen.globalAlpha = 0.3;
      pen.fillStyle = line.colour;
      pen.fill();
      pen.globalAlpha = 1;
    }
  }
  if (frame.at !== null) {
    pen.fillStyle = frame.text;
    pen.fillRect(frame.at * width, 0, 1, height - BOTTOM);
  }
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
  pen.fillText(`${span(frame.end - frame.begin)} ago`, 2, below);
  pen.textAlign = "center";
  pen.fillText(`${span((frame.end - frame.begin) / 2)} ago`, width / 2, below);
  pen.textAlign = "right";
  pen.fillText("now", width - 2, below);
  pen.textAlign = "left";
}

// A round number that is not smaller.
function round(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((step) => step >= value);
}
