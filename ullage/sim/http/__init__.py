"""HTTP server of the simulated API server, for kubectl, browsers and any other client of Kubernetes.

    async with serving(server) as served:      # entered on the event loop the server lives on
        served.url                             # "http://127.0.0.1:40123"
        served.kubeconfig                      # Path, mode 0600: kubectl --kubeconfig PATH get pods,gpuclaims

    serving(server, ServeOptions(address=ListenAddress("127.0.0.1", 8001)))   # a port of one's choice
    serving(server, ServeOptions(kubeconfig=Path("demo.kubeconfig")))         # written there, and removed at the end
    serving(server, ServeOptions(address=ListenAddress("0.0.0.0", 6443)))     # not loopback: TLS and `served.token`

Sockets live in a thread of their own, in real time; each request is handed over to the loop of the server and answered
there (`bridge`). A real or scaled loop is woken for it; a virtual loop, which nothing can wake, handles what waits
once per second of its own time. Leaving the block ends all watches, the thread, the port and the kubeconfig, also when
it is left by an exception. Starting takes some milliseconds and blocks the loop for them.

Seconds of a watch (its end, its bookmarks) are the client's, so a watch lasts half an hour or more of real time,
however fast the simulated time goes. Ages in tables are the server's. Ages that clients work out themselves (`kubectl
describe`) compare timestamps with the client's clock: start a demo's clock in the past to keep them positive.

Nothing is decided here, and nothing here knows what an object means: that is `sim.apiserver`.
"""

from ullage.observe.probes import ListenAddress
from ullage.sim.http.server import ServedCluster, ServeOptions, serving

__all__ = ["ListenAddress", "ServeOptions", "ServedCluster", "serving"]
