// The page's colours for canvas, which does not know the names the style sheet has for them.

const known = new Map();

export function colour(name) {
  let value = known.get(name);
  if (value === undefined) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    value = getComputedStyle(probe).color;
    probe.remove();
    known.set(name, value);
  }
  return value;
}

// Light and dark have other colours.
export function forgetColours() {
  known.clear();
}
