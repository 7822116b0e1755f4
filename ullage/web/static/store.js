// What the server said so far: rows by section and key. Tells which keys changed, and nothing else.

const SECTIONS = ["about", "totals", "nodes", "pools", "pending", "groups", "banners", "capacity", "decisions", "series", "ledgers", "quotas", "gangs", "preemptions", "drains"];

export class Store {
  constructor() {
    this.now = 0;
    this.heardAt = 0; // of this page's own clock
    for (const section of SECTIONS) this[section] = new Map();
  }

  get page() {
    return this.about.get("now") || { speed: 1, currency: "$" };
  }

  // The cluster's time at this moment: goes on between patches, but not for long without one.
  time() {
    const since = Math.min((performance.now() - this.heardAt) / 1000, 5);
    return this.now + since * (this.page.speed ?? 1);
  }

  // A patch: null takes a row away.
  patch(said) {
    return this.#take(said, (rows, changed, news) => {
      for (const [key, row] of Object.entries(news)) {
        if (row === null) rows.delete(key);
        else rows.set(key, row);
        changed.add(key);
      }
    });
  }

  // Everything: what is not in it is gone, what is equal did not change.
  replace(said) {
    const whole = { ...said };
    for (const section of SECTIONS) whole[section] ||= {};
    return this.#take(whole, (rows, changed, news) => {
      for (const key of [...rows.keys()]) {
        if (!(key in news)) {
          rows.delete(key);
          changed.add(key);
        }
      }
      for (const [key, row] of Object.entries(news)) {
        if (!rows.has(key) || JSON.stringify(rows.get(key)) !== JSON.stringify(row)) changed.add(key);
        rows.set(key, row);
      }
    });
  }

  #take(said, each) {
    this.now = said.now;
    this.heardAt = performance.now();
    const changes = {};
    for (const section of SECTIONS) {
      if (!said[section]) continue;
      const changed = new Set();
      each(this[section], changed, said[section]);
      if (changed.size) changes[section] = changed;
    }
    return changes;
  }
}
