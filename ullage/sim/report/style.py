"""Style sheet of the report page, light and dark."""

_DAY = ("#1f6feb", "#b35900", "#1a7f37", "#8250df", "#cf222e", "#0a7d8c", "#7a5901", "#57606a")
_NIGHT = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#ff7b72", "#39c5cf", "#d29922", "#8b949e")


def _colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(palette))


_CLASSES = "".join(f".line.c{n}{{stroke:var(--c{n})}}.bar.c{n}{{fill:var(--c{n})}}" for n in range(len(_DAY)))

STYLE = (
    f":root{{--paper:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;{_colours(_DAY)}}}"
    f"@media (prefers-color-scheme: dark){{:root{{--paper:#0d1117;--ink:#e6edf3;--soft:#9198a1;--rule:#3d444d;"
    f"{_colours(_NIGHT)}}}}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:72rem;margin:0 auto;padding:1rem}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}"
    "p{color:var(--soft);margin:.25rem 0 .75rem}"
    "figure{margin:0}svg{width:100%;height:auto;display:block}"
    "pre,.wide{overflow-x:auto}pre{padding:.75rem;border:1px solid var(--rule);border-radius:6px;font-size:.85rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}"
    "th,td{padding:.3rem .75rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}"
    "th:first-child{text-align:left}thead th{color:var(--soft)}"
    "details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}"
    "summary:focus-visible{outline:2px solid var(--c0);outline-offset:2px}"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:1rem;padding:0;margin:.25rem 0}"
    ".key{width:24px;height:8px;display:inline-block;margin-right:.4rem;vertical-align:middle}"
    ".line{fill:none;stroke-width:1.8}.line.faint{opacity:.45}"
    ".grid{stroke:var(--rule);stroke-width:.7}.tick{stroke:var(--soft)}"
    ".steady{fill:var(--soft);opacity:.12}.headline{color:var(--ink);font-size:1.15rem}"
    ".panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(22rem,1fr));gap:1rem}"
    "figcaption{color:var(--soft);font-size:.9rem}"
    ".mark{fill:var(--soft);font-size:11px}"
    f"{_CLASSES}"
    "@media print{details{display:block}}"
)
