"""Opens a page in the user's browser, if there is one that does not take the terminal away. Never fails or waits."""

import os
import sys
import threading
import webbrowser


def open_browser(url: str) -> bool:
    """Open the URL in a browser, in the background. False, and nothing is opened, on Linux without a display."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    threading.Thread(target=_open, args=(url,), name="browser", daemon=True).start()
    return True


def _open(url: str) -> None:
    try:
        if os.environ.get("BROWSER") or not _draws_on_terminals(webbrowser.get()):
            webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # the address is on the screen


def _draws_on_terminals(browser: webbrowser.BaseBrowser) -> bool:
    return isinstance(browser, webbrowser.GenericBrowser) and not isinstance(browser, webbrowser.BackgroundBrowser)
