// One node on canvas: its name, its badge, its GPUs in islands. States differ in shape, not in colour alone.

import { colour } from "./colours.js";

export const SIZES = {
  large: { least: 190, gap: 8, pad: 9, top: 29, cell: 18, between: 2, isle: 2, radius: 9, name: 12, badge: 11.5 },
  roomy: { least: 148, gap: 7, pad: 7, top: 25, cell: 14, between: 2, isle: 2, radius: 8, name: 10.5, badge: 10.5 },
  dense: { least: 97, gap: 4, pad: 4, top: 17, cell: 9, between: 1, isle: 1, radius: 5, name: 9, badge: 8.5 },
};
const IN_A_ROW = 8;
const MONO = 'ui-monospace, "SF Mono", "DejaVu Sans Mono", "Liberation Mono", Menlo, monospace';
const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// How high a tile is that has so many GPUs.
export function heightOf(size, gpus) {
  const rows = Math.max(1, Math.ceil(gpus / IN_A_ROW));
  return size.top + rows * (size.cell + 2 * size.isle + 2) + size.pad - 2;
}

// Where each GPU of a node is within its tile: [{x, y}], and the islands around them: [{x, y, width}].
export function placesOf(row, size) {
  const states = row.states || "";
  const cells = [];
  const isles = [];
  let x = size.pad;
  let y = size.top;
  for (let at = 0; at < states.length; at += 1) {
    const island = row.islands ? row.islands[at] : 0;
    const last = isles[isles.length - 1];
    const wraps = at % IN_A_ROW === 0;
    if (wraps || !last || last.island !== island) {
      if (wraps) {
        x = size.pad;
        if (at) y += size.cell + 2 * size.isle + 2;
      } else {
        x += size.isle + 3;
      }
      isles.push({ island, x, y, width: 2 * size.isle - size.between });
      x += size.isle;
    }
    isles[isles.length - 1].width += size.cell + size.between;
    cells.push({ x, y: y + size.isle });
    x += size.cell + size.between;
  }
  return { cells, isles };
}

// `look` says what is special: {going, candidate, down, crossed, faded, focused, chosen, hovered, lit, badge, timed, hues}.
export function paintTile(pen, box, row, look, size) {
  pen.save();
  pen.translate(box.x, box.y);
  pen.clearRect(-size.gap / 2, -size.gap / 2, box.width + size.gap, box.height + size.gap);
  pen.globalAlpha = look.faded ? 0.22 : 1;
  frame(pen, box, look, size);
  heading(pen, box, row, look, size);
  gpus(pen, row, look, size);
  pen.restore();
}

function frame(pen, box, look, size) {
  pen.beginPath();
  pen.roundRect(0.5, 0.5, box.width - 1, box.height - 1, size.radius);
  pen.fillStyle = look.going ? colour("--going-ground") : colour("--panel");
  pen.fill();
  const edge = look.down ? "--bad" : look.going || look.candidate ? "--going" : look.hovered ? "--soft" : "--edge";
  pen.strokeStyle = colour(edge);
  pen.lineWidth = 1;
  pen.setLineDash(look.candidate || look.ghost ? [4, 3] : []);
  pen.stroke();
  pen.setLineDash([]);
  if (look.focused || look.chosen) {
    pen.strokeStyle = colour("--focus");
    pen.lineWidth = 2;
    pen.stroke();
  }
}

function heading(pen, box, row, look, size) {
  const middle = size.top - size.badge + 1;
  pen.textBaseline = "alphabetic";
  pen.textAlign = "right";
  const loud = look.going || look.down;
  pen.font = `${loud ? "600 " : ""}${size.badge}px ${SANS}`;
  pen.fillStyle = colour(look.down ? "--bad" : look.going ? "--going" : "--soft");
  const badge = look.badge || "";
  pen.fillText(badge, box.width - size.pad, middle);
  const used = badge ? pen.measureText(badge).width + 5 : 0;
  if (look.timed) clock(pen, box.width - size.pad - used - size.badge / 2 + 2, middle - size.badge / 2 + 1.5, size.badge / 2 - 0.5);
  pen.textAlign = "left";
  pen.font = `${size.name}px ${MONO}`;
  pen.fillStyle = colour("--ink");
  const room = box.width - 2 * size.pad - used - (look.timed ? size.badge : 0);
  const name = fitting(pen, row.name, room, size.name);
  pen.fillText(name, size.pad, middle);
  if (look.crossed) pen.fillRect(size.pad, middle - size.name / 3, pen.measureText(name).width, 1);
}

const widths = new Map();

// The name, or as much of it as there is room for: all letters are equally wide.
function fitting(pen, name, room, size) {
  if (!widths.has(size)) widths.set(size, pen.measureText("0").width);
  const most = Math.floor(room / widths.get(size));
  return name.length <= most ? name : `${name.slice(0, Math.max(1, most - 1))}…`;
}

function clock(pen, x, y, radius) {
  pen.strokeStyle = pen.fillStyle;
  pen.lineWidth = 1.2;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.moveTo(x, y - radius * 0.6);
  pen.lineTo(x, y);
  pen.lineTo(x + radius * 0.5, y + radius * 0.3);
  pen.stroke();
}

function gpus(pen, row, look, size) {
  const states = row.states || "";
  if (!states) {
    pen.font = `${size.badge}px ${SANS}`;
    pen.fillStyle = colour("--soft");
    pen.fillText("no GPUs", size.pad, size.top + size.cell - 2);
    return;
  }
  const { cells, isles } = placesOf(row, size);
  // Without islands there is nothing to draw together: GPUs that nothing links, or of which nobody knows.
  for (const isle of row.islands ? isles : []) {
    pen.fillStyle = colour("--isle");
    pen.beginPath();
    pen.roundRect(isle.x - size.isle / 2, isle.y - size.isle / 2, isle.width + size.isle, size.cell + 3 * size.isle, size.isle + 2);
    pen.fill();
  }
  cells.forEach((place, at) => {
    cell(pen, place, { state: states[at], taken: (row.taken?.[at] ?? 500) / 1000, hue: look.hues?.[at] }, size.cell);
    if (look.lit?.has(at)) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(place.x - 0.5, place.y - 0.5, size.cell + 1, size.cell + 1);
    }
  });
}

const EDGES = { f: "--free-edge", l: "--leased", s: "--shared", r: "--reserved", u: "--unhealthy", c: "--free-edge" };

function cell(pen, { x, y }, { state, taken, hue }, side) {
  const line = side > 10 ? 1.5 : 1;
  const edge = (state !== "u" && hue) || colour(EDGES[state] || "--free-edge");
  pen.beginPath();
  pen.roundRect(x + line / 2, y + line / 2, side - line, side - line, side > 10 ? 3 : 2);
  pen.fillStyle = state === "l" || (state === "f" && hue) ? edge : colour("--free");
  if (state !== "c") pen.fill();
  pen.strokeStyle = edge;
  pen.lineWidth = line;
  if (state === "c") pen.setLineDash([2, 2]);
  pen.stroke();
  pen.setLineDash([]);
  if (state === "s") {
    const filled = Math.round(Math.min(1, taken) * (side - 2));
    pen.fillStyle = edge;
    pen.fillRect(x + 1, y + side - 1 - filled, side - 2, filled);
  } else if (state === "u" || state === "r") {
    strokes(pen, x, y, side, state);
  }
}

// A cross for what is broken, stripes for what is reserved.
function strokes(pen, x, y, side, state) {
  const near = side * 0.22;
  const far = side - near;
  pen.beginPath();
  pen.moveTo(x + near, y + far);
  pen.lineTo(x + far, y + near);
  if (state === "u") {
    pen.moveTo(x + near, y + near);
    pen.lineTo(x + far, y + far);
  } else {
    pen.moveTo(x + near, y + side / 2);
    pen.lineTo(x + side / 2, y + near);
    pen.moveTo(x + side / 2, y + far);
    pen.lineTo(x + far, y + side / 2);
  }
  pen.lineWidth = side > 10 ? 1.8 : 1.3;
  pen.stroke();
}
