// How things are said: reasons in plain words, times, numbers and money.

export const REASONS = {
  Fits: "A node fits: it waits for its turn",
  NoNodes: "There are no nodes",
  NotTheNodeNamed: "It names another node",
  NodeUnschedulable: "Nodes are cordoned",
  NodeStarting: "A node for it is still starting",
  NodeNotReady: "Nodes are not ready",
  TaintNotTolerated: "Nodes have a taint it does not tolerate",
  NodeSelectorMismatch: "Its selector or affinity excludes the nodes",
  HostPortTaken: "Its host port is taken",
  NodeTooSmall: "No node is large enough, even if empty",
  TooManyPods: "Nodes take no more pods",
  InsufficientResources: "Not enough GPUs, CPU or memory free on any node",
  UnboundedContainer: "A container has neither request nor limit, and the nodes run VMs",
  VmInsufficientRoom: "Nodes have no room for this VM below total minus system",
  VmMissing: "Its VirtualMachine is missing",
  VmAmountsInvalid: "Its VirtualMachine has amounts that make no sense",
  VmSlotSizeMismatch: "Its VirtualMachine has another memory slot size than the nodes",
  VolumeNotReady: "Its volume is not ready",
  VolumeElsewhere: "Its volume is elsewhere",
  VolumeInUse: "Its volume is in use",
  SpreadKeyMissing: "Nodes lack the label it spreads by",
  SpreadTooUneven: "It would be spread too unevenly",
  PodAffinityUnmet: "The pods it wants to be near are not there",
  PodAntiAffinity: "It keeps away from pods that are there",
  ExistingAntiAffinity: "Pods that are there keep it away",
  NoGpus: "Nodes have no GPUs",
  InventoryMissing: "No agent reports the GPUs of the nodes",
  InventoryStale: "The nodes' agents have fallen silent",
  GpuModelMismatch: "GPUs are of another model",
  GpuMemoryTooSmall: "GPUs have too little memory",
  GpusUnhealthy: "GPUs are unhealthy",
  TooFewGpus: "Not enough free GPUs on any one node",
  PreferredGpusTaken: "The GPUs it wants are taken",
  NoRoomForShare: "No GPU has room for its share",
  NoMigInstance: "No MIG instance is free",
  NoIslandLargeEnough: "No NVLink island is large enough",
  BandwidthTooLow: "GPUs are not linked fast enough",
  SchedulingGated: "It has scheduling gates",
  ResourceClaims: "Its ResourceClaims are kube-scheduler's to allocate",
  ClaimMissing: "Its GpuClaim is missing",
  ClaimInvalid: "Its GpuClaim breaks a rule",
  ClaimInUse: "Its GpuClaim belongs to another pod",
  GangSizeUnknown: "Nobody says how large its gang is",
  QuotaExceeded: "The quota of its namespace is used up",
  GangIncomplete: "Its gang is not complete",
  Unschedulable: "No node has a place for it",
  Bound: "It has its place",
  Finished: "It has finished",
  NotBound: "Its scheduler could not bind it",
  Leaving: "It is being deleted",
  OtherScheduler: "It names a scheduler that is not ours",
  NobodyLeads: "It fits, and no scheduler decides",
  BehindOthers: "Pods ahead of it in the queue take the room",
};

export const STATES = {
  f: "free", l: "leased", s: "shared", r: "reserved", u: "unhealthy", c: "coming",
};

export function inWords(reason) {
  return REASONS[reason] || reason;
}

// 83 s, 4 min, 2 h 5 min
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// 4:32, 1:04:32
export function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  const two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  const rest = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

export function number(value) {
  if (value >= 1000) return Math.round(value).toLocaleString("en-US");
  return Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 1 : 0);
}

export function money(value, currency) {
  const digits = value >= 1000 ? 0 : 2;
  return currency + value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// Every time on the page is the server's, in UTC and in this one format; the day is left out if it is today.
export function timeOfDay(seconds) {
  return iso(seconds).slice(11, 19);
}

export function moment(seconds, now) {
  return iso(seconds).slice(0, 10) === iso(now).slice(0, 10) ? timeOfDay(seconds) : dayAndTime(seconds);
}

export function dayAndTime(seconds) {
  return iso(seconds).slice(0, 19).replace("T", " ");
}

// A moment as an address has it: 2026-11-18T03:10:00Z.
export function written(seconds) {
  return `${iso(seconds).slice(0, 19)}Z`;
}

// Seconds of what a person typed: 03:10, 03:10:05, 2026-11-18 03:10, with or without T and Z; NaN if it is none of them.
// A time of day is the last one that was, by the server's clock.
export function readMoment(text, now) {
  const said = text.trim().replace(/ ?(Z|UTC)$/i, "");
  const time = /^(?:(\d{4}-\d{2}-\d{2})[T ])?(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(said);
  if (!time) return Number.NaN;
  const [, day, hours, minutes, rest = "00"] = time;
  const at = Date.parse(`${day || iso(now).slice(0, 10)}T${hours.padStart(2, "0")}:${minutes}:${rest}Z`) / 1000;
  return !day && at > now ? at - 86400 : at;
}

function iso(seconds) {
  return new Date(seconds * 1000).toISOString();
}
