// Permalinks: what is open and what is filtered stands in the address after #, and an address opens it again.

const KEYS = [
  "pod", "node", "claim", "gang", "quota", "pool", "at", "around", "range", "from", "to", "view",
  "find", "namespace", "reason", "owner", "state", "in", "colour", "sort", "decisions",
];

// What the address says, by key.
export function readLink() {
  const said = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.map((key) => [key, said.get(key) || ""]));
}

// Change some keys; an empty value takes a key away. No entry in the history: the page is where it was.
export function writeLink(changes) {
  const said = { ...readLink(), ...changes };
  const kept = new URLSearchParams(KEYS.filter((key) => said[key]).map((key) => [key, said[key]]));
  const hash = kept.toString() ? `#${kept.toString().replaceAll("%2F", "/").replaceAll("%3A", ":")}` : "";
  if (hash !== location.hash) history.replaceState(null, "", `${location.pathname}${location.search}${hash}`);
}
