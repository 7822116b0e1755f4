// The connection to the server: a snapshot, then patches. The browser comes back by itself where it was.

export function listen({ onSnapshot, onPatch, onState }) {
  let source;
  let patience;

  function open() {
    source = new EventSource("/api/stream");
    source.addEventListener("snapshot", (event) => onSnapshot(JSON.parse(event.data)));
    source.addEventListener("patch", (event) => onPatch(JSON.parse(event.data)));
    source.addEventListener("open", () => {
      clearTimeout(patience);
      patience = undefined;
      onState("live", "live");
    });
    source.addEventListener("error", () => {
      onState("lost", "reconnecting");
      // A refusal (not a lost connection) ends an EventSource for good: try again, slowly.
      if (source.readyState === EventSource.CLOSED && !patience) {
        patience = setTimeout(() => {
          patience = undefined;
          open();
        }, 5000);
      }
    });
  }

  open();
  // A page that is hidden for long is let go by the server; it comes back when it is looked at.
  return () => source.close();
}
