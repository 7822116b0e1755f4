// The tiles of one pool on canvases of a few rows each: only those in sight are painted, and of them only what changed.

import { SIZES, heightOf, paintTile, placesOf } from "./paint.js";

const ROWS = 4; // of one canvas: painting it takes a part of a frame
const NARROW = 480; // pixels, in which tiles are not large

export class TileGrid {
  // `rowOf` and `lookOf` tell what is at a place.
  constructor({ box, rowOf, lookOf }) {
    this.box = box;
    this.rowOf = rowOf;
    this.lookOf = lookOf;
    this.count = 0;
    this.named = "roomy";
    this.size = SIZES.roomy;
    this.most = 8; // GPUs of one node
    this.faces = [];
    this.columns = 1;
    this.watcher = new IntersectionObserver((seen) => this.#sighted(seen), { rootMargin: "1200px" });
    new ResizeObserver(() => this.#measure()).observe(box);
  }

  // So many tiles, of a size by its name, with at most so many GPUs.
  shape(count, named, most) {
    if (count === this.count && named === this.named && most === this.most) return;
    Object.assign(this, { count, named, most });
    this.#measure(true);
  }

  // From this tile on everything is somewhere else.
  shift(from) {
    for (const face of this.faces) if (face.first + face.room > from) face.stale = true;
  }

  touch(at) {
    const face = this.faces[Math.floor(at / (this.columns * ROWS))];
    if (face) face.touched.add(at);
  }

  repaint() {
    this.shift(0);
  }

  // Paint what is due until the time is up. Whether anything is left.
  paint(until) {
    for (const face of this.faces) {
      if (!face.seen) continue;
      if (face.stale) this.#whole(face);
      for (const at of face.touched) {
        face.touched.delete(at);
        this.#tile(face, at);
      }
      if (performance.now() > until) break;
    }
    return this.faces.some((face) => face.seen && (face.stale || face.touched.size > 0));
  }

  // Where a tile is, in the pool's box.
  place(at) {
    const size = this.size;
    const column = at % this.columns;
    const row = Math.floor(at / this.columns);
    return { x: column * (this.width + size.gap), y: row * (this.height + size.gap), width: this.width, height: this.height };
  }

  // The tile at a point of the box, and its GPU if the point is on one.
  hit(x, y) {
    const size = this.size;
    const column = Math.floor(x / (this.width + size.gap));
    const row = Math.floor(y / (this.height + size.gap));
    const at = row * this.columns + column;
    if (column < 0 || column >= this.columns || row < 0 || at >= this.count) return null;
    const place = this.place(at);
    if (x - place.x > place.width || y - place.y > place.height) return null;
    const what = this.rowOf(at);
    const cells = what ? placesOf(what, size).cells : [];
    const gpu = cells.findIndex((cell) => inside(x - place.x - cell.x, size.cell) && inside(y - place.y - cell.y, size.cell));
    return { at, gpu };
  }

  #measure(anew = false) {
    const wide = this.box.clientWidth;
    if (!wide) return;
    const size = SIZES[this.named === "large" && wide < NARROW ? "roomy" : this.named];
    const columns = Math.max(1, Math.floor((wide + size.gap) / (size.least + size.gap)));
    const width = Math.floor((wide - (columns - 1) * size.gap) / columns);
    const height = heightOf(size, this.most);
    if (!anew && columns === this.columns && width === this.width && height === this.height) return;
    Object.assign(this, { size, columns, width, height });
    this.#faces();
  }

  #faces() {
    const room = this.columns * ROWS;
    const needed = Math.ceil(this.count / room);
    while (this.faces.length > needed) {
      const face = this.faces.pop();
      this.watcher.unobserve(face.canvas);
      face.canvas.remove();
    }
    while (this.faces.length < needed) {
      const canvas = document.createElement("canvas");
      canvas.className = "face";
      canvas.setAttribute("aria-hidden", "true");
      this.box.append(canvas);
      this.faces.push({ canvas, seen: false, stale: true, touched: new Set() });
      this.watcher.observe(canvas);
    }
    const pitch = this.height + this.size.gap;
    const rows = Math.ceil(this.count / this.columns);
    this.box.style.height = `${Math.max(0, rows * pitch - this.size.gap)}px`;
    this.faces.forEach((face, number) => {
      const here = Math.min(ROWS, rows - number * ROWS);
      Object.assign(face, { first: number * room, room, stale: true });
      face.canvas.style.top = `${number * ROWS * pitch}px`;
      face.canvas.style.height = `${here * pitch}px`;
      face.canvas.style.width = `${this.box.clientWidth}px`;
      Object.assign(face, { tall: here * pitch, wide: this.box.clientWidth });
    });
    this.onStale?.();
  }

  #sighted(seen) {
    for (const one of seen) {
      const face = this.faces.find((known) => known.canvas === one.target);
      if (!face) continue;
      face.seen = one.isIntersecting;
      if (!face.seen) {
        // Out of sight it needs no memory.
        face.canvas.width = face.canvas.height = 0;
        face.stale = true;
      }
    }
    this.onStale?.();
  }

  #whole(face) {
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.round(face.wide * ratio);
    const tall = Math.round(face.tall * ratio);
    if (face.canvas.width !== wide) face.canvas.width = wide;
    if (face.canvas.height !== tall) face.canvas.height = tall;
    face.pen = face.canvas.getContext("2d");
    face.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    face.pen.clearRect(0, 0, face.wide, face.tall);
    face.stale = false;
    face.touched.clear();
    for (let at = face.first; at < Math.min(face.first + face.room, this.count); at += 1) this.#tile(face, at);
  }

  #tile(face, at) {
    const row = at < this.count && this.rowOf(at);
    if (!row || !face.pen) return;
    const place = this.place(at);
    const above = Math.floor(face.first / this.columns) * (this.height + this.size.gap);
    paintTile(face.pen, { ...place, y: place.y - above }, row, this.lookOf(at), this.size);
  }
}

function inside(distance, side) {
  return distance >= -1 && distance <= side + 1;
}
