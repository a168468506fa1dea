"""The one kind of error that a client of the server sees, in OpenAI's form."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A request is refused, or cannot be answered.

    Args:
        status: of the HTTP reply.
        message: what was given, what was expected, what to do.
        param: the field of the request that is meant.
        code: short name for programs.
    """

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        """The JSON of the reply."""
        kind = {401: "authentication_error", 403: "permission_error"}.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def refused(param: str, message: str, code: str | None = None) -> ApiError:
    """A 400 about one field of the request."""
    return ApiError(400, f"{param}: {message}", param=param, code=code)
