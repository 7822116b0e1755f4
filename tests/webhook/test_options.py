"""The verb's options as settings, and wrong ones as sentences."""

from pathlib import Path
from typing import Any

import click
import pytest

from ullage.cli.webhook import command, read_settings
from ullage.decide.admission.policy import DeviceNaming
from ullage.errors import UserError
from ullage.observe.probes import ListenAddress
from ullage.webhook.wiring import names_for


def options(*arguments: str) -> dict[str, Any]:
    """As click reads them."""
    context = command.make_context("webhook", list(arguments))
    return {key: value for key, value in context.params.items() if key not in ("kubeconfig", "context", "remove")}


def test_without_options_it_serves_a_cluster() -> None:
    settings = read_settings(options())
    assert (settings.listen, settings.probes) == (ListenAddress("0.0.0.0", 9443), None)
    assert names_for(settings.reach)[0] == "ullage-webhook.ullage-system.svc"
    assert settings.policy.schedulers == ("gpu-scheduler",)
    assert settings.policy.visible_by is DeviceNaming.UUID
    assert settings.files is None


def test_what_is_given_counts() -> None:
    settings = read_settings(
        options(
            *("--tls-cert", "a.crt", "--tls-key", "a.key", "--ca-file", "ca.crt", "--visible-devices", "index"),
            *("--scheduler-name", "one", "--scheduler-name", "two", "--identity", "me", "--namespace", "gpu"),
        )
    )
    assert settings.files is not None
    assert (settings.files.certificate, settings.files.authority) == (Path("a.crt"), Path("ca.crt"))
    assert (settings.policy.schedulers, settings.policy.identities) == (("one", "two"), ("me",))
    assert settings.policy.visible_by is DeviceNaming.INDEX
    assert (settings.reach.namespace, settings.secret.namespace) == ("gpu", "gpu")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("--tls-cert", "a.crt"), "give a certificate and its key", id="no-key"),
        pytest.param(("--ca-file", "ca.crt"), "give a certificate and its key", id="only-an-authority"),
        pytest.param(("--url", "webhook.example"), "cannot be called", id="no-url"),
        pytest.param(("--url", "http://webhook.example"), "cannot be called", id="no-tls"),
        pytest.param(("--address", "here"), "is not HOST:PORT", id="no-port"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_settings(options(*arguments))


def test_a_wrong_mode_is_asked_wrongly() -> None:
    with pytest.raises(click.BadParameter):
        options("--visible-devices", "name")
