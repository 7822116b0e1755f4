// A small box beside the place where the pointer rests. What it says is in labels, too: it is for who sees.

const REST = 120; // milliseconds: who only passes by is told nothing

export class Tip {
  constructor(box) {
    this.box = box;
  }

  show(place, text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#show(place, text), REST);
  }

  hide() {
    clearTimeout(this.timer);
    this.box.hidden = true;
  }

  #show(place, text) {
    this.box.textContent = text;
    this.box.hidden = false;
    const own = this.box.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.left, window.innerWidth - own.width - 8));
    const below = place.bottom + 6;
    const top = below + own.height > window.innerHeight ? place.top - own.height - 6 : below;
    this.box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}
