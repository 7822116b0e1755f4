"""Callers that are answered: everyone who reaches the port, or only holders of a client certificate of an authority."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.errors import UserError

Certificate = Mapping[str, Any]
"""As `ssl` shows a certificate that was checked; empty or none where there is no such."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Without an authority every caller is answered: anyone who reaches the port can then learn what answers say."""

    authority: Path | None = None
    names: tuple[str, ...] = ()
    """Common names of callers that are answered; empty for every certificate of the authority."""

    def ask_for_certificates(self, context: ssl.SSLContext) -> None:
        """Handshakes ask for one from here on. Raises UserError if the authority cannot be read.

        Who has none gets through the handshake, and is told by HTTP what is missing.
        """
        if self.authority is None:
            return
        try:
            context.load_verify_locations(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"--client-ca-file: {self.authority}: {error}; give certificates in PEM") from error
        context.verify_mode = ssl.CERT_OPTIONAL

    def refusal(self, shown: Certificate | None) -> str:
        """Reason the caller is refused; empty if it is answered."""
        if self.authority is None:
            return ""
        if not shown:
            return "a client certificate is needed"
        names = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
        if self.names and not set(names) & set(self.names):
            return "the client certificate is somebody else's"
        return ""


ANYBODY = Callers()
