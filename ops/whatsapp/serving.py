"""The stand-in WhatsApp beside tests and the demo, in a thread."""

from __future__ import annotations

from ops.stand_in import DEFAULT, Beside
from ops.whatsapp.app import WhatsApp
from ops.whatsapp.messages import Got
from ops.whatsapp.scenario import Scenario


class WhatsAppBeside(Beside[WhatsApp]):
    """A stand-in in a thread of this process: `with WhatsAppBeside() as whatsapp: … whatsapp.url …`.

    Its URL is what WHATSAPP_API_URL is to be. `default` and `token`: see `ops.whatsapp.app.WhatsApp`.
    """

    name = "WhatsApp"

    def __init__(self, default: Scenario | None = None, *, token: str | None = None) -> None:
        super().__init__()
        self._default, self._token = default, token

    def _make(self) -> WhatsApp:
        return WhatsApp(self._default, token=self._token)

    def treat(self, scenario: Scenario, who: str = DEFAULT) -> None:
        """Treat a phone or a template (its name), or everybody else, so from now on."""
        self._running.scenarios.set(who, scenario)

    def messages(self, phone: str | None = None) -> list[Got]:
        """Messages that came so far, to one phone if named."""
        return [one for one in tuple(self._running.messages.got) if phone in (None, one.phone)]

    def taken(self) -> dict[str, int]:
        """Phone → how many messages were taken for it."""
        return dict(self._running.messages.taken)

    def forget(self) -> None:
        """Forget messages and scenarios; everybody is treated well."""
        self._running.forget()
        self._running.scenarios.set(DEFAULT, Scenario())
