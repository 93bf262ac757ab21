"""The token of a callback: which run, which journal of it, and which callback, in a form for URLs and e-mails."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from ..errors import InputRefusedError

_PREFIX = "ddcb1."


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbackToken:
    """What a token says."""

    run_id: str
    journal_id: str
    name: str

    def to_text(self) -> str:
        """The token.

        >>> CallbackToken.from_text(CallbackToken(run_id="a", journal_id="b", name="c").to_text()).run_id
        'a'
        """
        data = "\n".join((self.journal_id, self.name, self.run_id)).encode("utf-8", "surrogatepass")
        return _PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")

    @classmethod
    def from_text(cls, token: str) -> CallbackToken:
        """Read a token.

        Raises:
            InputRefusedError: it is no token of a callback.
        """
        if not isinstance(token, str) or not token.startswith(_PREFIX):
            raise InputRefusedError("this is no token of a callback")
        body = token.removeprefix(_PREFIX)
        try:
            data = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
            journal_id, name, run_id = data.decode("utf-8", "surrogatepass").split("\n", 2)
        except (binascii.Error, ValueError):
            raise InputRefusedError("this token of a callback is damaged") from None
        return cls(run_id=run_id, journal_id=journal_id, name=name)
