// What is said of one node: its name, its GPUs by state, and what is about to happen to it.

import { STATES, countdown, plural } from "./words.js";

export function describe(row) {
  const states = row.states || "";
  if (!states) return `${row.name}: no GPUs`;
  const counts = Object.entries(STATES)
    .map(([letter, word]) => [states.split(letter).length - 1, word])
    .filter(([count]) => count)
    .map(([count, word]) => `${count} ${word}`);
  const islands = row.islands ? new Set(row.islands).size : 0;
  const wired = islands ? `, ${plural(islands, "island")}` : "";
  return `${row.name}: ${states.length} ${row.model || "GPU"}${wired}: ${counts.join(", ")}`;
}

export function badgeOf(row, now) {
  if (row.drainingSince !== undefined) return row.pods ? `draining · ${plural(row.pods, "pod")}` : "drained";
  if (row.deletionTime) return row.deletionTime > now ? countdown(row.deletionTime - now) : "due";
  if (row.ready === false) return (row.states || "").startsWith("c") ? "coming" : "not ready";
  if ((row.states || "").startsWith("c")) return "coming";
  if (row.stale) return "silent";
  if (row.cordoned) return "cordoned";
  if (row.candidateSince !== undefined) return "may go";
  return "";
}

// How many are in use, where there is nothing more important to say.
export function useOf(row) {
  const states = row.states || "";
  const used = [...states].filter((state) => "lsr".includes(state)).length;
  return states ? `${used}/${states.length}` : "";
}

export function spokenBadge(row, now) {
  if (row.drainingSince !== undefined) return `is being drained, ${plural(row.pods || 0, "pod")} left`;
  // Minutes are enough to be told: a label that changes every second cannot be read out.
  if (row.deletionTime) return `to be removed in ${Math.max(0, Math.ceil((row.deletionTime - now) / 60))} minutes`;
  return badgeOf(row, now);
}
