"""Opens a page in the user's browser, if there is one that does not take the terminal away. Never fails or waits."""

import os
import sys
import threading


def open_browser(url: str) -> bool:
    """Whether it was tried. A browser for the terminal itself does not count, nor does one nobody could see."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    threading.Thread(target=_open, args=(url,), name="browser", daemon=True).start()
    return True


def _open(url: str) -> None:
    import webbrowser

    try:
        if not isinstance(webbrowser.get(), webbrowser.GenericBrowser) or isinstance(
            webbrowser.get(), webbrowser.BackgroundBrowser
        ):
            webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # the address is on the screen
