// Light or dark: as the system has it, until somebody chooses.

const KEY = "ullage-theme";

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden
  }
}

export function applyTheme(button, onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => {
    if (chosen()) document.documentElement.dataset.theme = chosen();
    onChange();
  };
  system.addEventListener("change", set);
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || (system.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      document.documentElement.dataset.theme = next;
      onChange();
      return;
    }
    set();
  });
  set();
}
